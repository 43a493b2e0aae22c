package kernel_test

import (
	"bytes"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// blocks keeps the diagonal blocks of a matrix, one per head of equal size, and sets the rest to 0.
func blocks(m []float64, rows, columns, heads int) []float64 {
	for i := range m {
		if i/columns/(rows/heads) != i%columns/(columns/heads) {
			m[i] = 0
		}
	}
	return m
}

// plainProduct is W x + bias.
func plainProduct(w, x, bias []float64) []float64 {
	rows := len(w) / len(x)
	y := make([]float64, rows)
	for i := range y {
		for j, v := range x {
			y[i] += w[i*len(x)+j] * v
		}
		if bias != nil {
			y[i] += bias[i]
		}
	}
	return y
}

// plainLayer returns the layer in float64, of one sample.
func plainLayer(f kernel.LayerForm, w kernel.LayerWeights, u []float64, z []complex128) (y []float64, last []complex128) {
	h, n := f.Features, f.States
	length := len(u) / h
	v := make([]complex128, length*n)
	for t := range length {
		for j, x := range plainProduct(w.B, u[t*h:(t+1)*h], w.Offset) {
			v[t*n+j] = complex(x, 0)
		}
	}
	x, last := plainScan(w.A, w.Weights, v, nil, z, f.Forward, f.Backward, 0, length)
	for t := range length {
		re, _ := real64(x[t*n : (t+1)*n])
		now, in := plainProduct(w.C, re, nil), u[t*h:(t+1)*h]
		for j := range now {
			now[j] += w.D[j]*in[j] + w.DOffset[j]
		}
		for s, stage := range f.Stages {
			result := now
			if stage.Product {
				result = plainProduct(w.Products[s], now, w.Bias[s])
			}
			next := make([]float64, h)
			for j := range next {
				args := []float64{result[j], now[j], in[j]}
				for r := range stage.Numbers {
					args = append(args, w.Numbers[s][r*h+j])
				}
				next[j] = stage.Element.At(args...)
			}
			now = next
		}
		y = append(y, now...)
	}
	return y, last
}

// gated are the stages of a layer with a mixer, an activation, a gate, a residual and a norm.
func gated() []kernel.Stage {
	x := scalar.Inputs(5)
	gate := scalar.Add(x[2], scalar.Mul(x[1], scalar.Sigmoid(x[0])))
	return []kernel.Stage{{Product: true, Element: scalar.Gelu(x[0])},
		{Product: true, Numbers: 2, Element: scalar.Add(scalar.Mul(gate, x[3]), x[4])}}
}

func layerWeights(r *rand.Rand, f kernel.LayerForm, heads int, offset bool) (w kernel.LayerWeights) {
	h, n := f.Features, f.States
	w.Heads = heads
	w.A, w.Weights = system(r, n)
	w.B, w.C = blocks(doubles(r, n*h, 1), n, h, heads), blocks(doubles(r, n*h, 0.2), h, n, heads)
	w.D, w.DOffset = doubles(r, h, 1), doubles(r, h, 0.1)
	if offset {
		w.Offset = doubles(r, n, 0.3)
	}
	for _, s := range f.Stages {
		var product, bias []float64
		if s.Product {
			product, bias = doubles(r, h*h, 0.3), doubles(r, h, 1)
		}
		w.Products, w.Bias = append(w.Products, product), append(w.Bias, bias)
		w.Numbers = append(w.Numbers, doubles(r, s.Numbers*h, 1))
	}
	return w
}

// counts gives a layer its zeros.
func counts(d *kerneltest.Bench, l *kernel.Layer) {
	if n := l.CountBytes(); n > 0 {
		l.Counts = d.In(make([]byte, n))
	}
}

func TestLayer(t *testing.T) {
	x := scalar.Inputs(3)
	residual := []kernel.Stage{{Element: scalar.Add(scalar.Relu(x[0]), x[2])}}
	for i, c := range []struct {
		batch, length, features, states, heads int
		forward, backward, offset, state       bool
		stages                                 []kernel.Stage
	}{
		{1, 5, 8, 8, 1, true, false, false, true, nil},
		{2, 70, 64, 64, 4, true, false, false, true, residual},
		{2, 131, 36, 18, 18, true, true, true, false, gated()},
		{1, 100, 192, 136, 8, true, true, false, false, gated()},
		{1, 75, 60, 150, 1, false, true, true, false, gated()},
		{1, 1300, 20, 40, 4, true, true, false, false, residual},
		{2, 1100, 12, 12, 1, true, false, true, true, residual},
		{2, 4000, 8, 12, 1, true, false, true, true, residual},
		{1, 1030, 8, 8, 1, false, true, true, false, residual},
		{1, 8200, 4, 4, 1, false, true, false, false, nil},
		{12, 6300, 4, 4, 1, true, false, false, true, nil},
		{1, 1530, 12, 12, 1, true, true, true, true, residual},
		{2, 1090, 8, 20, 1, true, true, false, true, nil},
		{33, 1700, 4, 4, 1, true, true, false, true, nil},
		{1, 45, 300, 130, 1, true, false, false, true, gated()},
		{1, 37, 520, 64, 1, true, true, false, false, residual},
		{3, 1, 20, 9, 1, true, false, true, true, gated()},
		{1, 1, 300, 40, 10, true, false, true, true, append(residual, gated()...)},
		{8, 1, 132, 1100, 4, true, false, false, true, gated()},
		{5, 1, 1024, 64, 32, true, false, false, false, residual},
		{2, 1, 64, 18, 1, true, false, false, true, nil},
		{70, 1, 64, 136, 4, true, false, false, true, residual},
		{19, 1, 260, 140, 1, true, false, true, true, gated()},
		{4100, 1, 8, 20, 2, true, false, false, true, residual},
		{2, 1, 64, 136, 4, true, true, false, false, residual},
		{1, 18, 644, 20, 1, true, false, false, false, gated()},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if c.batch*c.length > 50_000 && os.Getenv("ESSMC_LONG") == "" {
				t.Skip("takes long: ESSMC_LONG=1 runs it")
			}
			r := rand.New(rand.NewPCG(4, uint64(i)))
			f := kernel.LayerForm{Features: c.features, States: c.states, Forward: c.forward, Backward: c.backward,
				State32: i%4 == 1, Stages: c.stages}
			w := layerWeights(r, f, c.heads, c.offset)
			u := numbers(r, c.batch*c.length*c.features)
			l := kernel.Layer{LayerForm: f, Batch: c.batch, Length: c.length}
			d := kerneltest.New(t)
			l.U, l.Y = d.In(u), d.Out(4*len(u))
			l.Tables, l.Powers = d.In(kernel.LayerTables(f, w)), d.In(kernel.LayerPowers(w.A, w.Weights, l.Exponents()))
			if n := l.ScratchBytes(); n > 0 {
				l.Scratch = d.Out(n)
			}
			counts(d, &l)
			first := make([]float64, 2*c.batch*c.states)
			if c.state {
				first = doubles(r, len(first), 1)
				if f.State32 {
					l.First, l.Last = d.In(single(first)), d.Out(4*len(first))
				} else {
					l.First, l.Last = d.In(first), d.Out(8*len(first))
				}
			}
			d.Run(l.Calls()...)
			var want, wantLast []float64
			for q := range c.batch {
				in := make([]float64, c.length*c.features)
				for i := range in {
					in[i] = float64(u[q*len(in)+i])
				}
				z := make([]complex128, c.states)
				for j := range z {
					z[j] = complex(first[2*q*c.states+j], first[(2*q+1)*c.states+j])
				}
				y, last := plainLayer(f, w, in, z)
				want = append(want, y...)
				re, im := real64(last)
				wantLast = append(append(wantLast, re...), im...)
			}
			within(t, "y", d.Float32s(l.Y), want, 4e-6)
			if c.state {
				last := []float32(nil)
				if f.State32 {
					last = d.Float32s(l.Last)
				} else {
					last = single(d.Float64s(l.Last))
				}
				within(t, "state", last, wantLast, 4e-6)
			}
		})
	}
}

// A lower precision affects only the stages' products, which take one product of tensor cores instead of three.
func TestLayerPrecision(t *testing.T) {
	const features, states, length = 36, 20, 70
	want := map[kernel.Precision][2]float64{kernel.Float32: {0, 4e-6}, kernel.TF32: {2e-5, 2e-3}, kernel.BF16: {2e-4, 2e-2}}
	ops := map[kernel.Precision]int64{}
	for _, p := range []kernel.Precision{kernel.Float32, kernel.TF32, kernel.BF16} {
		r := rand.New(rand.NewPCG(8, 1))
		f := kernel.LayerForm{Features: features, States: states, Forward: true, Stages: gated(), Precision: p}
		w := layerWeights(r, f, 1, false)
		u := numbers(r, length*features)
		in := make([]float64, len(u))
		for i := range in {
			in[i] = float64(u[i])
		}
		l := kernel.Layer{LayerForm: f, Batch: 1, Length: length}
		d := kerneltest.New(t)
		l.U, l.Y = d.In(u), d.Out(4*len(u))
		l.Tables, l.Powers = d.In(kernel.LayerTables(f, w)), d.In(kernel.LayerPowers(w.A, w.Weights, l.Exponents()))
		l.Scratch = d.Out(l.ScratchBytes())
		d.ResetCounters()
		d.Run(l.Calls()...)
		c := d.Counters()
		ops[p] = c.Total().OpsTF32
		y, _ := plainLayer(f, w, in, make([]complex128, states))
		most, scale := 0.0, 0.0
		for i, x := range d.Float32s(l.Y) {
			most, scale = max(most, math.Abs(float64(x)-y[i])), max(scale, math.Abs(y[i]))
		}
		if off := most / scale; off < want[p][0] || off > want[p][1] {
			t.Errorf("precision %d is off by %g, expected %g to %g", p, off, want[p][0], want[p][1])
		}
	}
	products := int64(2 * 2 * 128 * 64 * 40) // 128 steps and 64 columns, with those that fill tiles
	if ops[kernel.TF32] != ops[kernel.BF16] || ops[kernel.Float32]-ops[kernel.TF32] != 2*products {
		t.Errorf("%v operations of tensor cores, expected a difference of %d", ops, 2*products)
	}
}

// At every length a layer moves few bytes more than u twice and y once, also in two directions, in at most two launches.
func TestLayerLengths(t *testing.T) {
	const features = 32
	for _, c := range []struct {
		length, launches int
		backward         bool
	}{{64, 1, false}, {1000, 2, false}, {1024, 2, false}, {4096, 2, false}, {5376, 2, false}, {6400, 2, false},
		{64, 1, true}, {512, 2, true}, {576, 2, true}, {1024, 2, true}, {1536, 2, true}, {1600, 2, true}, {6400, 2, true},
		{17000, 2, true}} {
		if c.length > 10_000 && os.Getenv("ESSMC_LONG") == "" {
			continue
		}
		r := rand.New(rand.NewPCG(9, 0))
		f := kernel.LayerForm{Features: features, States: features, Forward: true, Backward: c.backward}
		w := layerWeights(r, f, 4, false)
		l := kernel.Layer{LayerForm: f, Batch: 1, Length: c.length}
		d := kerneltest.New(t)
		l.U, l.Y = d.In(numbers(r, c.length*features)), d.Out(4*c.length*features)
		l.Tables, l.Powers = d.In(kernel.LayerTables(f, w)), d.In(kernel.LayerPowers(w.A, w.Weights, l.Exponents()))
		if n := l.ScratchBytes(); n > 0 {
			l.Scratch = d.Out(n)
		}
		counts(d, &l)
		d.ResetCounters()
		d.Run(l.Calls()...)
		all := d.Counters()
		activations := int64(0)
		for _, k := range all.Kernels {
			for _, line := range k.Lines {
				if !strings.Contains(line.Text, ".nc.") {
					activations += line.Moved
				}
			}
		}
		part := float64(activations) / float64(3*4*features*c.length)
		t.Logf("%+v: %.3f of the activations", c, part)
		if n := all.Total().Launches; n != int64(c.launches) || part > 1.1 {
			t.Errorf("%+v: %d launches, %.3f of the activations", c, n, part)
		}
	}
}

// The last block of a span is another one from run to run, and the answers are the same, bit by bit. The counts are zero
// again. There are four runs in the long mode, else two.
func TestLayerOrder(t *testing.T) {
	const features, states = 8, 10
	for _, c := range []struct {
		length            int
		forward, backward bool
	}{{2100, true, false}, {2100, false, true}, {1700, true, true}, {9000, true, true}} {
		runs := 4
		if os.Getenv("ESSMC_LONG") == "" {
			runs = 2
		}
		r := rand.New(rand.NewPCG(10, 0))
		f := kernel.LayerForm{Features: features, States: states, Forward: c.forward, Backward: c.backward}
		w := layerWeights(r, f, 2, true)
		l := kernel.Layer{LayerForm: f, Batch: 2, Length: c.length}
		d := kerneltest.New(t)
		l.U, l.Y = d.In(numbers(r, 2*c.length*features)), d.Out(4*2*c.length*features)
		l.Tables, l.Powers = d.In(kernel.LayerTables(f, w)), d.In(kernel.LayerPowers(w.A, w.Weights, l.Exponents()))
		l.Scratch = d.Out(l.ScratchBytes())
		counts(d, &l)
		if l.Counts == 0 {
			t.Fatalf("%+v: no spans", c)
		}
		var first []byte
		for range runs {
			d.Run(l.Calls()...)
			y := d.Bytes(l.Y)
			if first == nil {
				first = y
			}
			if !bytes.Equal(y, first) {
				t.Errorf("%+v: the answer differs from run to run", c)
			}
			if x := d.Bytes(l.Counts); slices.Max(x) != 0 {
				t.Errorf("%+v: counts are %v", c, x)
			}
		}
	}
}

// The kernels of layers spill no registers, of all numbers of tiles a warp: in one direction and in two, in groups and without
// them, and of a step for many samples.
func TestLayerRegisters(t *testing.T) {
	for _, c := range []struct{ batch, length, features int }{{1, 500, 256}, {1, 1500, 256}, {1, 9000, 256}, {1, 500, 512},
		{1, 2500, 512}, {1, 300, 832}, {1, 300, 1024}, {1, 1300, 1024}, {70, 1, 512}, {70, 1, 1024}} {
		for _, backward := range []bool{false, true} {
			if c.length == 1 && backward {
				continue
			}
			l := kernel.Layer{LayerForm: kernel.LayerForm{Features: c.features, States: 256, Forward: true, Backward: backward,
				Stages: gated()}, Batch: c.batch, Length: c.length, U: 1, Y: 2, Tables: 3, Powers: 4, Scratch: 5, Counts: 6, Last: 7}
			for _, call := range l.Calls() {
				kerneltest.Assemble(t, call.Code)
			}
		}
	}
}

// States are carried to the end in float64, because those of streams that take chunks pass through many of them.
func TestLayerLastState(t *testing.T) {
	const features, states = 8, 24
	for _, length := range []int{2, 63, 64, 65, 500, 1200} {
		for _, backward := range []bool{false, true} {
			r := rand.New(rand.NewPCG(7, uint64(length)))
			f := kernel.LayerForm{Features: features, States: states, Forward: true, Backward: backward}
			w := layerWeights(r, f, 1, false)
			for j := range w.A {
				w.A[j] = complex(-1e-5*r.Float64(), imag(w.A[j]))
			}
			u, first := make([]float32, length*features), doubles(r, 2*states, 1e6)
			l := kernel.Layer{LayerForm: f, Batch: 1, Length: length}
			d := kerneltest.New(t)
			l.U, l.Y, l.First, l.Last = d.In(u), d.Out(4*len(u)), d.In(first), d.Out(16*states)
			l.Tables, l.Powers = d.In(kernel.LayerTables(f, w)), d.In(kernel.LayerPowers(w.A, w.Weights, l.Exponents()))
			if n := l.ScratchBytes(); n > 0 {
				l.Scratch = d.Out(n)
			}
			counts(d, &l)
			d.Run(l.Calls()...)
			last := d.Float64s(l.Last)
			for j := range states {
				want := complex(first[j], first[states+j]) * cmplx.Exp(complex(float64(length), 0)*w.A[j])
				if off := cmplx.Abs(complex(last[j], last[states+j]) - want); off > 1e-4 { // of 1e6
					t.Fatalf("%d steps: state %d is off by %g", length, j, off)
				}
			}
		}
	}
}

// The layer of CUDA's roofline, with 256 features, 4 heads and 256 states, moves little more than the bytes that two
// kernels must: u twice, y once. A card with caches reads weights once. Tensor cores compute only the products.
func TestLayerCounters(t *testing.T) {
	const features, states, heads, length = 256, 256, 4, 192
	r := rand.New(rand.NewPCG(6, 0))
	f := kernel.LayerForm{Features: features, States: states, Forward: true, Stages: gated()}
	w := layerWeights(r, f, heads, false)
	tables := kernel.LayerTables(f, w)
	l := kernel.Layer{LayerForm: f, Batch: 1, Length: length}
	d := kerneltest.New(t)
	l.U, l.Y = d.In(numbers(r, length*features)), d.Out(4*length*features)
	l.Tables, l.Powers = d.In(tables), d.In(kernel.LayerPowers(w.A, w.Weights, l.Exponents()))
	l.Scratch = d.Out(l.ScratchBytes())
	d.ResetCounters()
	d.Run(l.Calls()...)
	c := d.Counters()
	total := c.Total()
	t.Logf("\n%v", c)
	if total.Launches != 2 {
		t.Errorf("%d launches, expected 2", total.Launches)
	}
	activations := int64(0)
	for _, k := range c.Kernels {
		for _, line := range k.Lines {
			if !strings.Contains(line.Text, ".nc.") { // all but constants
				activations += line.Moved
			}
		}
		if x := k.Conflicts(); x >= 0.05 {
			t.Errorf("%s: bank conflicts add %.1f%% to the passes over shared memory", k.Kernel, 100*x)
		}
		if weights := k.ReadDistinct - 4*length*features; weights > int64(len(tables)+l.ScratchBytes()+32*states) {
			t.Errorf("%s reads %d distinct bytes beside u, the tables have %d", k.Kernel, weights, len(tables))
		}
	}
	per := float64(activations) / length
	t.Logf("%.0f bytes of activations a step", per)
	if per > 1.1*3*4*features {
		t.Errorf("%.0f bytes of activations a step, expected at most %d·1.1", per, 3*4*features)
	}
	products := 3*states*features/heads + 2*features*features
	part := float64(total.OpsTF32) / float64(3*2*length*products)
	t.Logf("%.3f of the operations of two passes", part)
	if part > 1.05 || part < 1 {
		t.Errorf("%.3f of the operations of two passes, expected at most 1.05", part)
	}
}

// A step of few samples reads each weight once, spread over many blocks, and little else.
func TestLayerStepCounters(t *testing.T) {
	const features, states, heads = 256, 256, 4
	for _, batch := range []int{1, 3, 8} {
		r := rand.New(rand.NewPCG(6, 1))
		f := kernel.LayerForm{Features: features, States: states, Forward: true, Stages: gated()}
		w := layerWeights(r, f, heads, false)
		tables := kernel.LayerTables(f, w)
		l := kernel.Layer{LayerForm: f, Batch: batch, Length: 1}
		d := kerneltest.New(t)
		l.U, l.Y = d.In(numbers(r, batch*features)), d.Out(4*batch*features)
		l.Tables, l.Powers = d.In(tables), d.In(kernel.LayerPowers(w.A, w.Weights, l.Exponents()))
		l.First, l.Last = d.In(doubles(r, 2*batch*states, 1)), d.Out(16*batch*states)
		l.Scratch = d.Out(l.ScratchBytes())
		d.ResetCounters()
		calls := l.Calls()
		d.Run(calls...)
		c := d.Counters()
		constants := int64(0)
		for _, k := range c.Kernels {
			for _, line := range k.Lines {
				if strings.Contains(line.Text, ".nc.") {
					constants += line.Moved
				}
			}
			if x := k.Conflicts(); x >= 0.05 {
				t.Errorf("%s: bank conflicts add %.1f%% to the passes over shared memory", k.Kernel, 100*x)
			}
		}
		weights := int64(4 * (2*states*features/heads + 2*features*features))
		// numbers of features, and of states for each sample
		if most := weights + weights/20 + int64(batch)*(64*features+64*states); constants > most || constants < weights {
			t.Errorf("%d samples: %d bytes of constants are read, expected %d to %d", batch, constants, weights, most)
		}
		if total := c.Total(); total.OpsF32 > int64(batch)*weights {
			t.Errorf("%d samples: %d operations, expected at most %d", batch, total.OpsF32, int64(batch)*weights)
		}
		for _, call := range calls {
			if call.Grid.X < 16 {
				t.Errorf("%s: %d blocks share the weights", call.Code.Name, call.Grid.X)
			}
		}
		t.Logf("%d samples: %.3f of the weights", batch, float64(constants)/float64(weights))
	}
}
