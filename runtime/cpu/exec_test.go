package cpu

import (
	"context"
	"errors"
	"fmt"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/ram"
	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// layered returns a small model. Each layer has an affine, a system, an activation, a mixer, a gate, a residual and a
// norm, and is a Block if block is set.
func layered(t testing.TB, s system, layers int, activation func(b *ir.Builder, x *ir.Value) *ir.Value,
	block bool) *ir.Graph {
	t.Helper()
	r := NewGen(9)
	h := s.heads * s.h
	b := ir.NewBuilder("layered", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", h))
	layer := func(b *ir.Builder, x *ir.Value) *ir.Value {
		f64 := func(n int) *ir.Value {
			return b.Const("c", r.Doubles(func() float64 { return 1 + 0.1*r.NormFloat64() }, n))
		}
		u := b.Op("essm", "Affine", []*ir.Value{x, f64(h), f64(h)})
		y := s.ssm(r, b, u, nil)[0]
		y = activation(b, y)
		y = b.Op("essm", "Linear", []*ir.Value{y, b.Const("w", r.Floats(0.3, h, s.ch*s.heads*s.m)),
			b.Const("bias", r.Floats(1, h))})
		gate := b.Op("", "Sigmoid", []*ir.Value{b.Op("essm", "Linear",
			[]*ir.Value{y, b.Const("w", r.Floats(0.3, h, h))})})
		y = b.Op("", "Add", []*ir.Value{x, b.Op("", "Mul", []*ir.Value{y, gate})})
		return b.Op("", "LayerNormalization",
			[]*ir.Value{y, b.Const("scale", r.Floats(1, h)), b.Const("shift", r.Floats(1, h))})
	}
	for i := range layers {
		if !block {
			x = layer(b, x)
			continue
		}
		sub := b.Sub("body")
		in := sub.Input(fmt.Sprintf("in%d", i), x.Type)
		sub.Output("", layer(sub, in))
		g, err := sub.Build()
		if err != nil {
			t.Fatal(err)
		}
		x = b.Op("essm", "Block", []*ir.Value{x}, ir.A("body", g))
	}
	b.Output("y", x)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func geluOp(b *ir.Builder, x *ir.Value) *ir.Value { return b.Op("", "Gelu", []*ir.Value{x}) }

var plain = system{ch: 1, heads: 3, n: 5, h: 4, m: 4, direction: "bidirectional", d: "diagonal"}

// TestBlocks tests Blocks with every activation of layers.
func TestBlocks(t *testing.T) {
	r := NewGen(1)
	for _, name := range []string{"Gelu", "Relu", "LeakyRelu", "Tanh", "Sigmoid", "Swish", "Erf", "Exp", "Softplus",
		"HardSwish", "Selu"} {
		for _, dir := range Directions {
			s := plain
			s.direction = dir
			g := layered(t, s, 2, func(b *ir.Builder, x *ir.Value) *ir.Value {
				if name == "Exp" { // keep it small
					x = b.Op("", "Tanh", []*ir.Value{x})
				}
				return b.Op("", name, []*ir.Value{x})
			}, true)
			in := map[string]tensor.Datum{"x": r.Floats(1, 2, 157, 12)}
			want := Truth(t, g, in)
			for _, form := range []string{"", "fft"} {
				CloseTo(t, name+" "+dir+" "+form,
					Run(t, g, runtime.Options{Backend: New(), Kernel: form, Threads: 2}, in), want, 2e-5)
			}
		}
	}
}

// TestRegions checks that a layer is one region, with and without a Block.
func TestRegions(t *testing.T) {
	for _, block := range []bool{true, false} {
		g := layered(t, plain, 3, geluOp, block)
		p, err := compile(g, runtime.Config{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		d := p.lookup(runtime.Binding{Dims: map[string]int64{"B": 1, "L": 100},
			Inputs: []ir.Type{ir.Tensor(tensor.Float32, 1, 100, 12)}})
		regions := 0
		for _, u := range d.units() {
			if u.region == nil {
				t.Errorf("block %v: %v is by itself", block, u.steps[0].Node)
			} else if u.region.recurrence != nil {
				regions++
			}
		}
		if regions != 3 {
			t.Errorf("block %v: %d regions with a recurrence, expected 3", block, regions)
		}
	}
}

// TestOperators checks that a chain of standard operators on activations of rank 3, as in imported graphs, is one
// region.
func TestOperators(t *testing.T) {
	r := NewGen(3)
	b := ir.NewBuilder("operators", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 12))
	y := b.Op("", "MatMul", []*ir.Value{x, b.Const("w", r.Floats(1, 12, 20))})
	y = b.Op("", "Add", []*ir.Value{y, b.Const("bias", r.Floats(1, 20))})
	y = b.Op("", "LayerNormalization", []*ir.Value{y, b.Const("scale", r.Floats(1, 20)),
		b.Const("shift", r.Floats(1, 20))})
	z := b.Op("", "MatMul", []*ir.Value{b.Op("", "Relu", []*ir.Value{y}), b.Const("v", r.Floats(1, 20, 12))})
	b.Output("y", b.Op("", "Add", []*ir.Value{x, b.Op("", "Mul", []*ir.Value{z, b.Op("", "Sigmoid", []*ir.Value{z})})}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := compile(g, runtime.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	d := p.lookup(runtime.Binding{Dims: map[string]int64{"B": 2, "L": 301},
		Inputs: []ir.Type{ir.Tensor(tensor.Float32, 2, 301, 12)}})
	units := d.units()
	if len(units) != 1 || units[0].region == nil || units[0].region.tiles < 2 {
		t.Errorf("%d units, expected one region of several tiles", len(units))
	}
	in := map[string]tensor.Datum{"x": r.Floats(1, 2, 301, 12)}
	CloseTo(t, "operators", Run(t, g, runtime.Options{Backend: New(), Threads: 2}, in), Truth(t, g, in), 1e-6)
}

// TestThreads checks that answers do not depend on the number of threads.
func TestThreads(t *testing.T) {
	r := NewGen(2)
	for _, form := range runtime.Kernels() {
		for _, dir := range Directions {
			s := plain
			s.direction = dir
			s.window = 7 * len(form) % 3
			g := layered(t, s, 2, geluOp, true)
			in := map[string]tensor.Datum{"x": r.Floats(1, 2, 600, 12)}
			want := Run(t, g, runtime.Options{Backend: New(), Threads: 1, Kernel: form}, in)["y"].(*tensor.Tensor)
			for _, threads := range []int{2, 3, 8} {
				got := Run(t, g, runtime.Options{Backend: New(), Threads: threads, Kernel: form},
					in)["y"].(*tensor.Tensor)
				if !tensor.Equal(want, got) {
					t.Errorf("%s %s: answers with %d threads differ from those with 1", form, dir, threads)
				}
			}
		}
	}
}

// TestAllocations bounds the allocations of a run with given outputs.
func TestAllocations(t *testing.T) {
	for _, threads := range []int{1, 3} {
		for _, form := range runtime.Kernels() {
			g := layered(t, plain, 3, geluOp, true)
			p, err := compile(g, runtime.Config{Threads: threads, Kernel: strings.TrimPrefix(form, "auto")})
			if err != nil {
				t.Fatal(err)
			}
			e, err := p.Bind(runtime.Binding{Dims: map[string]int64{"B": 2, "L": 500},
				Inputs: []ir.Type{ir.Tensor(tensor.Float32, 2, 500, 12)}})
			if err != nil {
				t.Fatal(err)
			}
			in := []tensor.Datum{NewGen(1).Floats(1, 2, 500, 12)}
			out := []tensor.Datum{tensor.New(tensor.Float32, 2, 500, 12)}
			n := testing.AllocsPerRun(5, func() {
				if err := e.Run(context.Background(), in, out); err != nil {
					t.Fatal(err)
				}
			})
			if n > 8 {
				t.Errorf("%s, %d threads: %v allocations per run", form, threads, n)
			}
		}
	}
}

// TestArena checks that a model without a time dimension needs the working memory of one sequence at any depth, since
// layers write over their inputs.
func TestArena(t *testing.T) {
	s := plain
	s.direction = "forward"
	bytes := func(layers int, length int64) int64 {
		p, err := compile(layered(t, s, layers, geluOp, true), runtime.Config{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.Bind(runtime.Binding{Dims: map[string]int64{"B": 1, "L": length},
			Inputs: []ir.Type{ir.Tensor(tensor.Float32, 1, length, 12)}})
		if err != nil {
			t.Fatal(err)
		}
		return e.ArenaBytes()
	}
	if a, b := bytes(4, 4096), bytes(9, 4096); b > a+16384 {
		t.Errorf("4 layers take %d bytes, 9 take %d", a, b)
	}
	sequence := int64(4096 * 12 * 4)
	if d := bytes(4, 8192) - bytes(4, 4096); d > sequence+1024 {
		t.Errorf("twice the length takes %d bytes more, a sequence is %d", d, sequence)
	}
}

func TestMemoryLimit(t *testing.T) {
	g := layered(t, plain, 2, geluOp, true)
	m, err := runtime.New(g, runtime.Options{Backend: New(), MaxMemory: 100000})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.NewSession().Run(context.Background(), map[string]tensor.Datum{"x": NewGen(1).Floats(1, 1, 50000, 12)})
	var e *runtime.MemoryError
	if !errors.As(err, &e) || e.Limit != 100000 {
		t.Errorf("found %v", err)
	}
}

// TestMachineMemory checks that without a limit a plan may take the memory of the machine, but no more.
func TestMachineMemory(t *testing.T) {
	if ram.Total() == 0 {
		t.Skip("the machine does not say how much memory it has")
	}
	m, err := runtime.New(layered(t, plain, 2, geluOp, true), runtime.Options{Backend: New()})
	if err != nil {
		t.Fatal(err)
	}
	var e *runtime.MemoryError
	if err := m.NewSession().BindShape(map[string]int64{"B": 1, "L": ram.Total() / 16}); !errors.As(err, &e) ||
		e.Limit > ram.Total() {
		t.Errorf("found %v", err)
	}
}

// TestCancel checks that a run stops soon after it is cancelled, and leaves no goroutine behind its model.
func TestCancel(t *testing.T) {
	for _, form := range runtime.Kernels() {
		for _, dense := range []bool{false, true} {
			testCancel(t, form, dense)
		}
	}
}

func testCancel(t *testing.T, form string, dense bool) {
	ownCrew(t, time.Minute)
	before := goruntime.NumGoroutine()
	s := plain
	s.dense = dense
	s.heads, s.h, s.m, s.n = 2, 64, 64, 64
	g := layered(t, s, 4, geluOp, true)
	m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: 4, Kernel: form})
	if err != nil {
		t.Fatal(err)
	}
	ses := m.NewSession()
	in := map[string]tensor.Datum{"x": NewGen(1).Floats(1, 1, 40000, 128)}
	ctx, cancel := context.WithCancel(context.Background())
	var at time.Duration
	time.AfterFunc(30*time.Millisecond, func() { at = worktime.Now(); cancel() })
	_, err = ses.Run(ctx, in)
	late := worktime.Now() - at
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%s, dense %v: found %v", form, dense, err)
	}
	t.Logf("%s, dense %v: worked for %v after it was cancelled", form, dense, late)
	if late > 500*time.Millisecond {
		t.Errorf("%s, dense %v: worked for %v after it was cancelled", form, dense, late)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	goroutinesEnd(t, before)
}

// TestTooLarge checks that shapes beyond all machines return an error, with any limit and before anything is allocated,
// also if their product overflows.
func TestTooLarge(t *testing.T) {
	g := layered(t, plain, 2, geluOp, true)
	for _, limit := range []int64{0, 1 << 30} {
		m, err := runtime.New(g, runtime.Options{Backend: New(), MaxMemory: limit})
		if err != nil {
			t.Fatal(err)
		}
		for _, batch := range []int64{1, 3, 1 << 20, 1 << 62} {
			for _, length := range []int64{1 << 30, 1 << 38, 1 << 40, 1 << 58, 1<<63 - 1} {
				if limit == 0 && batch <= 3 && length < 1<<40 {
					continue // a machine might
				}
				err := m.NewSession().BindShape(map[string]int64{"B": batch, "L": length})
				if !errors.Is(err, runtime.ErrMemory) {
					t.Errorf("batch %d, length %d, limit %d: error %v, expected one of memory", batch, length, limit,
						err)
				}
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPanic checks that a panic in a worker becomes an error that names the node, and that the other workers do not
// wait forever.
func TestPanic(t *testing.T) {
	for _, threads := range []int{1, 4} {
		g := layered(t, plain, 2, geluOp, true)
		p, err := compile(g, runtime.Config{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		b := runtime.Binding{Dims: map[string]int64{"B": 1, "L": 3000},
			Inputs: []ir.Type{ir.Tensor(tensor.Float32, 1, 3000, 12)}}
		x, err := p.Bind(b)
		if err != nil {
			t.Fatal(err)
		}
		e := x.(*executable)
		r := e.units[1].region
		i := slices.IndexFunc(r.calls, func(c call) bool { return c.src.Op.Name == "Affine" })
		r.calls[i].run = func(*ir.EvalCtx, []float32, [][]float32, int) { panic("wrong") }
		err = e.Run(context.Background(), []tensor.Datum{NewGen(1).Floats(1, 1, 3000, 12)}, make([]tensor.Datum, 1))
		var n *runtime.NodeError
		if !errors.As(err, &n) || n.Node != r.calls[i].src || !errors.Is(err, runtime.ErrInternal) {
			t.Errorf("%d threads: found %v", threads, err)
		}
	}
}

func TestOptions(t *testing.T) {
	g := layered(t, plain, 1, geluOp, false)
	for _, o := range []runtime.Options{{Precision: tensor.Float64}, {Observe: func(*ir.Value, tensor.Datum) {}}} {
		o.Backend = New()
		if _, err := runtime.New(g, o); !errors.Is(err, runtime.ErrOption) {
			t.Errorf("found %v", err)
		}
	}
}

func TestProfile(t *testing.T) {
	g := layered(t, plain, 2, geluOp, true)
	m, err := runtime.New(g, runtime.Options{Backend: New(), Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	s := m.NewSession()
	if _, err := s.Run(context.Background(),
		map[string]tensor.Datum{"x": NewGen(1).Floats(1, 1, 100, 12)}); err != nil {
		t.Fatal(err)
	}
	p := s.Profile()
	if len(p) != 2 || p[0].Calls != 1 || p[0].Time <= 0 || p[0].Form != "scan" {
		t.Error(fmt.Sprint(p))
	}
}
