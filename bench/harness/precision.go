package main

import (
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"time"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

func runPrecision(ctx context.Context, e *env, r *result) error {
	if err := presetErrors(ctx, e, r); err != nil {
		return err
	}
	if err := slowModes(ctx, e, r); err != nil {
		return err
	}
	return lowPrecision(ctx, e, r)
}

// lowPrecisions are the low precisions of dense products, with the required speed relative to float32.
var lowPrecisions = []struct {
	name   string
	dtype  tensor.DType
	faster float64
}{{"bf16", tensor.BFloat16, 1.4}, {"int8", tensor.Int8, 2}}

// productBound are presets whose time is mostly that of dense products.
var productBound = []string{"text", "image"}

// lowPrecision measures presets with products in low precision, and the change of their answers.
func lowPrecision(ctx context.Context, e *env, r *result) error {
	t := table{Title: "Dense products in low precision, batch 1, 1 thread", Header: []string{"preset", "float32"},
		Note: "*change*: the largest one of an output, relative to the largest absolute value in float32. Kernels: " +
			cpu.Kernels() + ". On AVX2 no instruction multiplies bfloat16 numbers, and 8 bits only where sums of two " +
			"may not overflow 16; that is for processors with AVX512_BF16 and VNNI."}
	for _, p := range lowPrecisions {
		t.Header = append(t.Header, p.name, "float32 : "+p.name, "change")
	}
	least, change := make([]float64, len(lowPrecisions)), make([]float64, len(lowPrecisions))
	slowest := make([]string, len(lowPrecisions))
	for _, id := range e.lowPresets() {
		e.progress("  %s, low precision", id)
		m, err := newModel(e, id)
		if err != nil {
			return err
		}
		x, _, err := m.input(1, m.preset.Length)
		if err != nil {
			return err
		}
		s, moved, err := e.inPrecisions(ctx, m, x)
		if err != nil {
			return err
		}
		row := []string{id, seconds(s.of("float32"))}
		for i, p := range lowPrecisions {
			gain := s.ratio("float32", p.name)
			row = append(row, seconds(s.of(p.name)), gain.String(), scientific(moved[i]))
			change[i] = max(change[i], moved[i])
			if (e.quick || slices.Contains(productBound, id)) && (slowest[i] == "" || gain.mid < least[i]) {
				least[i], slowest[i] = gain.mid, id
			}
		}
		t.Rows = append(t.Rows, row)
	}
	r.Tables = append(r.Tables, t)
	for i, p := range lowPrecisions {
		r.Verdicts = append(r.Verdicts, judge(p.name+" products against float32, GEMM-bound presets",
			number(p.faster)+"×",
			fmt.Sprintf("%s× %s with %s; answers change by %s at most", number(least[i]), slowest[i], cpu.Kernels(),
				scientific(change[i])), least[i] >= p.faster))
	}
	return nil
}

// lowPresets returns the presets for low precision: all, since answers differ.
func (e *env) lowPresets() (ids []string) {
	if e.quick {
		return []string{"smnist"}
	}
	for _, p := range essm.Presets() {
		if p.ID != "retrieval" { // it takes pairs
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// inPrecisions measures one model in float32 and in each low precision, and returns the changes of its answers.
func (e *env) inPrecisions(ctx context.Context, m *model, x *tensor.Tensor) (s *samples, moved []float64, err error) {
	in := map[string]tensor.Datum{m.inputName(): x}
	var all []contender
	var want []float64
	var held []*ours
	defer func() {
		for _, o := range held {
			o.close()
		}
	}()
	add := func(name string, dtype tensor.DType) error {
		o, err := newOurs(ctx, m.graph, in, runtime.Options{Threads: 1, Precision: dtype})
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		held = append(held, o)
		all = append(all, o.contender(ctx, name))
		got := floats(o.out[m.graph.Outputs[0].Name].(*tensor.Tensor))
		if want == nil {
			want = got
		} else {
			moved = append(moved, difference(got, want))
		}
		return nil
	}
	if err := add("float32", tensor.Float32); err != nil {
		return nil, nil, err
	}
	for _, p := range lowPrecisions {
		if err := add(p.name, p.dtype); err != nil {
			return nil, nil, err
		}
	}
	s, err = measure(ctx, e.effort(10*time.Second), all)
	return s, moved, err
}

// presetErrors compares answers of presets with those of torch in float64.
func presetErrors(ctx context.Context, e *env, r *result) error {
	const what, target = "error of whole presets, batch 1, against float64, the most",
		"at most torch's float32 by FFT, and 1e-5"
	single := e.peers.onThreads(1)
	if len(single) == 0 {
		r.Verdicts = append(r.Verdicts, verdict{what, target, "torch is absent", unmeasured})
		return nil
	}
	t := table{Title: "Whole presets", Header: []string{"preset", "essmc", "torch, fft", "torch, chunks of 64"}}
	worst, within := 0.0, true
	for _, p := range e.presets() {
		e.progress("  %s", p.id)
		m, err := newModel(e, p.id)
		if err != nil {
			return err
		}
		x, file, err := m.input(1, m.preset.Length)
		if err != nil {
			return err
		}
		answers := map[string][]float64{}
		for name, words := range map[string][]string{"truth": {"fft", m.dir, "double", file},
			"fft": {"fft", m.dir, "float", file}, "chunks64": {"chunks64", m.dir, "float", file}} {
			if answers[name], err = torchAnswer(single[0].peer, m.dir+"-"+name+".npy", words); err != nil {
				return err
			}
		}
		o, err := newOurs(ctx, m.graph, map[string]tensor.Datum{m.inputName(): x}, runtime.Options{Threads: 1})
		if err != nil {
			return err
		}
		got := floats(o.out[m.graph.Outputs[0].Name].(*tensor.Tensor))
		o.close()
		mine, fft := difference(got, answers["truth"]), difference(answers["fft"], answers["truth"])
		worst = max(worst, mine)
		within = within && mine <= fft && mine <= 1e-5
		t.add(p.id, scientific(mine), scientific(fft), scientific(difference(answers["chunks64"], answers["truth"])))
	}
	r.Tables = append(r.Tables, t)
	r.Verdicts = append(r.Verdicts, judge(what, target, scientific(worst), within))
	return nil
}

func torchAnswer(q *peer, file string, words []string) ([]float64, error) {
	j, err := q.load(1, words...)
	if err != nil {
		return nil, err
	}
	defer j.drop()
	if err := j.save(file); err != nil {
		return nil, err
	}
	a, err := arrays.Read(file)
	if err != nil {
		return nil, err
	}
	return floats(a.Tensor), nil
}

func floats(t *tensor.Tensor) []float64 {
	if t.DType() == tensor.Float64 {
		return tensor.Data[float64](t)
	}
	out := make([]float64, t.Len())
	for i, v := range tensor.Data[float32](t) {
		out[i] = float64(v)
	}
	return out
}

// difference returns the largest difference, relative to the largest absolute value of want, or NaN if the lengths
// differ.
func difference(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.NaN()
	}
	most, scale := 0.0, 0.0
	for i := range want {
		most, scale = max(most, math.Abs(got[i]-want[i])), max(scale, math.Abs(want[i]))
	}
	return most / scale
}

func scientific(v float64) string { return fmt.Sprintf("%.1e", v) }

// slowModes compares a layer whose states forget within a million steps with its recurrence in float64.
func slowModes(ctx context.Context, e *env, r *result) error {
	const steps, states, decay = 16384, 64, -1e-6
	t := table{Title: fmt.Sprintf("A layer of %d states, Re λΔ = %g, %d steps", states, decay, steps),
		Header: []string{"input", "as chosen", "fft"}}
	frequency := func(i int) float64 { return math.Pi * float64(i) / states }
	constant := func(f func(i int) float64) *tensor.Tensor {
		v := make([]float64, states)
		for i := range v {
			v[i] = f(i)
		}
		return tensor.FromSlice(v, 1, 1, states)
	}
	b := ir.NewBuilder("slow", ops.Default, ops.Opsets())
	v := b.Input("v", ir.Tensor(tensor.Float32, "B", "L", states))
	numbers := []*ir.Value{v}
	one, zero := func(int) float64 { return 1 }, func(int) float64 { return 0 }
	for _, f := range []func(int) float64{func(int) float64 { return decay }, frequency, one, zero} {
		numbers = append(numbers, b.Const("c", constant(f)))
	}
	b.Output("x", b.Op("essm", "Scan", numbers))
	g, err := b.Build()
	if err != nil {
		return err
	}
	worst := 0.0
	for _, kind := range []string{"noise", "constant"} {
		e.progress("  slow modes, %s", kind)
		x := random(noise(1), 1, steps, states)
		data := tensor.Data[float32](x)
		if kind == "constant" {
			for i := range data {
				data[i] = 1
			}
		}
		want := make([]float64, len(data))
		for i := range states {
			a, z := cmplx.Exp(complex(decay, frequency(i))), complex128(0)
			for l := range steps {
				z = a*z + complex(float64(data[l*states+i]), 0)
				want[l*states+i] = real(z)
			}
		}
		row := []string{kind}
		for _, form := range []string{"auto", "fft"} {
			o, err := newOurs(ctx, g, map[string]tensor.Datum{"v": x}, runtime.Options{Threads: 1, Kernel: form})
			if err != nil {
				return err
			}
			d := difference(floats(o.out["x"].(*tensor.Tensor)), want)
			o.close()
			row = append(row, scientific(d))
			if form == "auto" {
				worst = max(worst, d)
			}
		}
		t.add(row...)
	}
	r.Tables = append(r.Tables, t)
	r.Verdicts = append(r.Verdicts, judge(fmt.Sprintf("error of a layer with slow modes, %d steps", steps),
		"at most 5e-5", scientific(worst), worst <= 5e-5))
	return nil
}
