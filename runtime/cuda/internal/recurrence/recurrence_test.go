package recurrence_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	_ "github.com/essmc/essmc/runtime/cuda/internal/recurrence"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/device"
	"github.com/essmc/essmc/runtime/lowering"
	"github.com/essmc/essmc/runtime/ref"
)

// backend implements all steps, so that none is expanded.
type backend struct{}

func (backend) Name() string { return "recurrence" }
func (backend) Implement(*lowering.Compiler, *lowering.Step) lowering.Support {
	return lowering.Implemented
}

// build adds the work of all steps of a program at once: by the record of one step, or by a fusion. It returns how many
// steps it took.
func build(b *record.Builder, p *lowering.Program) int {
	b.Begin(p.Steps[0].Node)
	for _, f := range record.Fusions() {
		if taken := f.Build(b, p.Steps); len(taken) > 0 {
			return len(taken)
		}
		b.Drop()
		b.Begin(p.Steps[0].Node)
	}
	if r := record.For(p.Steps[0]); len(p.Steps) == 1 && r != nil && r.Build(b, p.Steps[0]) {
		return 1
	}
	return 0
}

// run computes a graph by one record or one fusion, on an emulated device, and holds it against the interpreter: in the forms
// that are given, or that which the record chooses.
func run(t *testing.T, g *ir.Graph, in map[string]tensor.Datum, forms ...string) {
	t.Helper()
	if len(forms) == 0 {
		forms = []string{""}
	}
	truth, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64})
	if err != nil {
		t.Fatal(err)
	}
	want, err := truth.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range forms {
		runForm(t, g, in, want, form)
	}
}

func runForm(t *testing.T, g *ir.Graph, in, want map[string]tensor.Datum, form string) {
	t.Helper()
	p, err := lowering.Lower(g, runtime.Config{Threads: 1, Kernel: form}, backend{})
	if err != nil {
		t.Fatal(err)
	}
	shapes := runtime.Binding{}
	for _, v := range g.Inputs {
		x := in[v.Name].(*tensor.Tensor)
		shapes.Inputs = append(shapes.Inputs, lowering.TypeOf(x.DType(), x.Shape()))
	}
	d := p.Bind(shapes, nil)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	bench, builder := kerneltest.New(t), record.NewBuilder(d)
	if n := build(builder, p); n != len(p.Steps) {
		t.Fatalf("%d of %d steps are taken", n, len(p.Steps))
	}
	placed := map[kernel.Buffer]kernel.Buffer{}
	place := func(x kernel.Buffer) kernel.Buffer {
		if x == 0 || placed[x] != 0 {
			return placed[x]
		}
		placed[x] = func() kernel.Buffer {
			switch m := builder.Memory(x); {
			case m.Constant != nil:
				return bench.In(m.Constant.Make())
			case m.Scratch > 0:
				return bench.Out(m.Scratch)
			case m.Zeros > 0:
				return bench.In(make([]byte, m.Zeros))
			default:
				for i, v := range p.Inputs {
					if v == m.Value {
						return bench.In(in[g.Inputs[i].Name].(*tensor.Tensor).Bytes())
					}
				}
				if m.Value.Const != nil {
					return bench.In(m.Value.Const.Bytes())
				}
				return bench.Out(builder.Bytes(m.Value))
			}
		}()
		return placed[x]
	}
	unit := builder.Keep()
	launches := slices.ContainsFunc(unit.Work, func(w device.Work) bool { return w.Kind == device.Launches })
	if f := unit.Form; launches && form != "" && f.Name != form && !strings.Contains(f.Why, form+" was requested, but ") {
		t.Errorf("form %q: found %q, for it %s", form, f.Name, f.Why)
	}
	for _, w := range unit.Work {
		if w.Kind == device.Fill && w.Byte == 0 {
			bench.Set(place(kernel.Buffer(w.Dst)), make([]byte, w.Bytes))
			continue
		}
		if w.Kind != device.Launches {
			t.Fatal("the work holds more than launches")
		}
		call := w.Launch.(*record.Call).Call
		call.Args = append([]kernel.Arg(nil), call.Args...)
		for i := range call.Args {
			call.Args[i].Buffer = place(call.Args[i].Buffer)
		}
		bench.Run(call)
	}
	for i, v := range p.Outputs {
		x := tensor.New(d.DType(v), d.Shape(v)...)
		if at := builder.Uses(v); at != 0 {
			copy(x.Bytes(), bench.Bytes(place(at)))
		}
		if diff := backendtest.Diff(x, want[g.Outputs[i].Name], ir.Tolerance{Ulps: 64}); diff != "" {
			t.Errorf("form %q: %s: %s", form, g.Outputs[i].Name, diff)
		}
	}
}

// maker makes graphs with random constants.
type maker struct {
	*ir.Builder
	r  *rand.Rand
	in map[string]tensor.Datum
}

func newMaker(seed int) *maker {
	return &maker{ir.NewBuilder("g", ops.Default, ops.Opsets()), rand.New(rand.NewPCG(5, uint64(seed))), map[string]tensor.Datum{}}
}

func (m *maker) numbers(by float64, shape ...int) *tensor.Tensor {
	n, _ := tensor.Size(shape)
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(by * (2*m.r.Float64() - 1))
	}
	return tensor.FromSlice(x, shape...)
}

func (m *maker) wide(f func() float64, shape ...int) *ir.Value {
	n, _ := tensor.Size(shape)
	x := make([]float64, n)
	for i := range x {
		x[i] = f()
	}
	return m.Const("wide", tensor.FromSlice(x, shape...))
}

// input adds an input of the graph with its data.
func (m *maker) input(name string, x *tensor.Tensor) *ir.Value {
	shape := ir.Shape{}
	for _, n := range x.Shape() {
		shape = append(shape, ir.Const(int64(n)))
	}
	m.in[name] = x
	return m.Input(name, &ir.TensorType{Elem: x.DType(), Shape: shape})
}

func (m *maker) constant(by float64, shape ...int) *ir.Value {
	return m.Const("numbers", m.numbers(by, shape...))
}

// system returns the coefficients of a system: a and b, real and imaginary parts.
func (m *maker) system(heads, n int) []*ir.Value {
	uniform := func() float64 { return m.r.Float64() }
	return []*ir.Value{m.wide(func() float64 { return -math.Exp(-6 * m.r.Float64()) }, 1, heads, n), m.wide(uniform, 1, heads, n),
		m.wide(uniform, 1, heads, n), m.wide(uniform, 1, heads, n)}
}

func (m *maker) finish(t *testing.T, outs ...*ir.Value) { t.Helper(); m.finishForms(t, nil, outs...) }

func (m *maker) finishForms(t *testing.T, forms []string, outs ...*ir.Value) {
	t.Helper()
	for i, v := range outs {
		if v != nil {
			m.Output(fmt.Sprint("y", i), v)
		}
	}
	g, err := m.Build()
	if err != nil {
		t.Fatal(err)
	}
	run(t, g, m.in, forms...)
}

func TestScan(t *testing.T) {
	for i, c := range []struct {
		length, window int
		direction      string
		complex, state bool
	}{{5, 0, essm.Forward, true, true}, {75, 0, essm.Bidirectional, false, false}, {70, 9, essm.Forward, true, true},
		{40, 9, essm.Backward, true, false}, {40, 90, essm.Forward, false, false}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			m := newMaker(i)
			in := append([]*ir.Value{m.input("v", m.numbers(1, 2, c.length, 6))}, m.system(2, 3)...)
			in = append(in, nil, nil)
			outs, size := 1, 2+c.window
			if c.complex {
				in[5], outs, size = m.input("v_im", m.numbers(1, 2, c.length, 6)), 2, 2+2*c.window
			}
			if c.state {
				in[6], outs = m.input("state", m.numbers(1, 2, 6*size)), 3
			}
			m.finish(t, m.Ops("essm", "Scan", outs, in, ir.A("direction", c.direction),
				ir.A("window", int64(c.window)))...)
		})
	}
}

func TestGatedScan(t *testing.T) {
	for _, length := range []int{1, 100} {
		m := newMaker(length)
		m.finish(t, m.Ops("essm", "GatedScan", 2, []*ir.Value{m.input("f", m.numbers(1, 2, length, 7)),
			m.input("v", m.numbers(1, 2, length, 7)), m.input("state", m.numbers(1, 2, 7))})...)
	}
}

func TestSelectiveScan(t *testing.T) {
	for i, states := range []int{5, 1, 40} {
		m := newMaker(i)
		columns := 1
		if i == 0 {
			columns = states
		}
		m.finish(t, m.Ops("essm", "SelectiveScan", 2, []*ir.Value{m.input("x", m.numbers(1, 2, 35, 12)),
			m.input("delta", m.numbers(1, 2, 35, 4)), m.input("a", m.numbers(1, 4, columns)),
			m.input("b", m.numbers(1, 2, 35, 2*states)), m.input("c", m.numbers(1, 2, 35, 2*states)), m.constant(1, 4)},
			ir.A("groups", int64(2)))...)
	}
}

// Systems of one input and one output, as S4D has them, with channels that share inputs, and of low rank, as S4 has them.
func TestSiso(t *testing.T) {
	for i, direction := range []string{essm.Forward, essm.Backward, essm.Bidirectional} {
		for _, length := range []int{7, 31, 150} {
			m := newMaker(i)
			in := []*ir.Value{m.input("u", m.numbers(1, 2, length, 3))}
			for range 2 { // coefficients of two channels
				in = append(in, m.wide(func() float64 { return -math.Exp(-6 * m.r.Float64()) }, 2, 3, 5))
			}
			in = append(in, m.wide(m.r.Float64, 2, 3, 5), m.wide(m.r.Float64, 2, 3, 5), m.constant(1, 2, 3, 5, 1),
				m.constant(1, 2, 3, 1, 5), m.constant(1, 2, 3, 5, 1), m.constant(1, 2, 3, 1, 5), m.constant(1, 2, 3, 1), nil)
			outs := 1
			if direction == essm.Forward {
				in[10], outs = m.input("state", m.numbers(1, 2, 60)), 2
			}
			m.finish(t, m.Ops("essm", "SSM", outs, in, ir.A("direction", direction))...)

			m = newMaker(i)
			half := func() float64 { return m.r.Float64() - 0.5 }
			in = []*ir.Value{m.input("u", m.numbers(1, 2, length, 3))}
			for _, rank := range []int{0, 2, 2, 0, 0} {
				for range 2 {
					if rank > 0 {
						in = append(in, m.wide(func() float64 { return half() / 4 }, 3, rank, 5))
					} else {
						in = append(in, m.wide(half, 3, 5))
					}
				}
			}
			in = append(in, nil, nil, nil)
			window := []int{0, 9}[length%2]
			switch direction {
			case essm.Backward:
				continue
			case essm.Forward:
				in[13] = m.input("state", m.numbers(1, 2, 30+3*window))
			default:
				in[11], in[12] = m.wide(half, 3, 5), m.wide(half, 3, 5)
			}
			m.finish(t, m.Ops("essm", "DPLRScan", outs, in, ir.A("direction", direction), ir.A("window", int64(window)))...)
		}
	}
}

// A system without stages, and layers as in presets, are computed by the kernels of layers.
func TestLayer(t *testing.T) {
	for i, c := range []struct {
		length, heads, n, h int
		direction           string
		before, after, gate bool
		state               bool
	}{
		{5, 1, 8, 8, essm.Forward, false, false, false, true},
		{70, 4, 5, 4, essm.Forward, false, true, true, true},
		{130, 8, 8, 4, essm.Bidirectional, true, false, true, false},
		{1, 4, 5, 4, essm.Forward, true, true, true, true},
		{66, 3, 4, 12, essm.Backward, true, true, false, false},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			m := newMaker(i)
			width := c.heads * c.h
			u := m.input("u", m.numbers(1, 2, c.length, width))
			uniform := func() float64 { return m.r.Float64() }
			affine := func(x *ir.Value) *ir.Value {
				return m.Op("essm", "Affine", []*ir.Value{x, m.wide(uniform, width), m.wide(uniform, width)})
			}
			x := u
			if c.before {
				x = affine(x)
			}
			in := append(append([]*ir.Value{x}, m.system(c.heads, c.n)...), m.constant(1, 1, c.heads, c.n, c.h),
				m.constant(0.5, 1, c.heads, c.h, c.n), nil, nil, m.constant(1, 1, c.heads, c.h), nil)
			outs := 1
			if c.state {
				in[10], outs = m.input("state", m.numbers(1, 2, 2*c.heads*c.n)), 2
			}
			o := m.Ops("essm", "SSM", outs, in, ir.A("direction", c.direction))
			y := o[0]
			if c.gate || c.after {
				linear := func(x *ir.Value) *ir.Value {
					return m.Op("essm", "Linear", []*ir.Value{x, m.constant(0.4, width, width), m.constant(1, width)})
				}
				y = m.Op("", "Gelu", []*ir.Value{linear(y)})
				if c.gate {
					y = m.Op("", "Mul", []*ir.Value{y, m.Op("", "Sigmoid", []*ir.Value{linear(y)})})
				}
				y = m.Op("", "Add", []*ir.Value{u, y})
			}
			if c.after {
				y = affine(y)
			}
			m.finish(t, append([]*ir.Value{y}, o[1:]...)...)
		})
	}
}

// Recurrent layers of both layouts and all directions, with and without states.
func TestCells(t *testing.T) {
	for i, c := range []struct {
		op             string
		gates          int
		direction      string
		layout, linear int64
		plain          bool // neither biases nor states
		inputs         int
	}{
		{"RNN", 1, "forward", 0, 0, false, 11}, {"GRU", 3, "reverse", 0, 0, false, 11},
		{"GRU", 3, "bidirectional", 1, 1, false, 11}, {"LSTM", 4, "forward", 0, 0, true, 11},
		{"LSTM", 4, "bidirectional", 1, 0, false, 11}, {"LSTM", 4, "reverse", 0, 0, false, 11},
		// more than there is shared memory for
		{"RNN", 1, "reverse", 1, 0, false, 24577}, {"GRU", 3, "bidirectional", 0, 0, false, 24501},
		{"LSTM", 4, "bidirectional", 0, 0, false, 24400},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			m := newMaker(i)
			length, batch, inputs, hidden, scale := 5, 3, c.inputs, 70, 0.3
			if inputs > 1000 {
				length, batch, hidden, scale = 2, 2, 20, 0.005
			}
			d := 1
			if c.direction == "bidirectional" {
				d = 2
			}
			x, state := []int{length, batch, inputs}, []int{d, batch, hidden}
			attrs := []ir.Attr{ir.A("direction", c.direction), ir.A("hidden_size", int64(hidden))}
			if c.layout == 1 {
				x, state = []int{batch, length, inputs}, []int{batch, d, hidden}
				attrs = append(attrs, ir.A("layout", c.layout))
			}
			if c.linear == 1 {
				attrs = append(attrs, ir.A("linear_before_reset", c.linear))
			}
			in := []*ir.Value{m.input("x", m.numbers(1, x...)), m.constant(scale, d, c.gates*hidden, inputs),
				m.constant(0.3, d, c.gates*hidden, hidden), nil, nil, nil}
			outs := 2
			if c.op == "LSTM" {
				in, outs = append(in, nil), 3
			}
			if !c.plain {
				in[3], in[5] = m.constant(0.5, d, 2*c.gates*hidden), m.input("h", m.numbers(1, state...))
				if c.op == "LSTM" {
					in[6] = m.input("c", m.numbers(1, state...))
				}
			}
			m.finish(t, m.Ops("", c.op, outs, in, attrs...)...)
		})
	}
}

// Systems of one input and one output without states are convolutions, where that is faster or asked for; windows are their
// taps. Heads of real factors are layers otherwise.
func TestSisoForms(t *testing.T) {
	forms := []string{"", essm.FormScan, essm.FormFFT, essm.FormDirect}
	for i, c := range []struct {
		direction            string
		length, states, rank int
		window               int
		direct               bool
	}{
		{essm.Forward, 70, 5, 0, 0, true}, {essm.Backward, 70, 5, 0, 0, true}, {essm.Backward, 33, 5, 0, 9, false},
		{essm.Bidirectional, 150, 20, 0, 0, false}, {essm.Forward, 100, 3, 0, 30, true}, {essm.Bidirectional, 20, 3, 0, 30, true},
		{essm.Forward, 130, 5, 2, 0, false}, {essm.Forward, 130, 5, 1, 41, false}, {essm.Bidirectional, 61, 4, 1, 17, false},
		{essm.Bidirectional, 31, 4, 1, 0, false},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			m := newMaker(i)
			attrs := []ir.Attr{ir.A("direction", c.direction), ir.A("window", int64(c.window))}
			in := []*ir.Value{m.input("u", m.numbers(1, 2, c.length, 3))}
			if c.rank == 0 {
				decay := func() float64 { return -math.Exp(-6 * m.r.Float64()) }
				in = append(in, m.wide(decay, 2, 3, c.states), m.wide(m.r.Float64, 2, 3, c.states), m.wide(m.r.Float64, 2, 3, c.states),
					m.wide(m.r.Float64, 2, 3, c.states), m.constant(1, 2, 3, c.states, 1), m.constant(1, 2, 3, 1, c.states),
					m.constant(1, 2, 3, c.states, 1), m.constant(1, 2, 3, 1, c.states), nil, nil)
				if c.direct {
					in[9] = m.constant(1, 2, 3, 1)
				}
				m.finishForms(t, forms, m.Ops("essm", "SSM", 1, in, attrs...)...)
				return
			}
			half := func() float64 { return m.r.Float64() - 0.5 }
			for i, rank := range []int{0, c.rank, c.rank, 0, 0, 0} {
				for range 2 {
					switch {
					case i == 5 && c.direction == essm.Forward:
						in = append(in, nil)
					case rank > 0:
						in = append(in, m.wide(func() float64 { return half() / 4 }, 3, rank, c.states))
					default:
						in = append(in, m.wide(half, 3, c.states))
					}
				}
			}
			m.finishForms(t, forms, m.Ops("essm", "DPLRScan", 1, append(in, nil), attrs...)...)
		})
	}
	m := newMaker(20)
	in := append(append([]*ir.Value{m.input("u", m.numbers(1, 2, 90, 4))}, m.system(4, 6)...), m.constant(1, 1, 4, 6, 1),
		m.constant(0.5, 1, 4, 1, 6), nil, nil, m.constant(1, 1, 4, 1), nil)
	m.finishForms(t, forms, m.Ops("essm", "SSM", 1, in)...)
}

// Long convolutions of all directions, with kernels longer and shorter than sequences, and the convolutions of DSS.
func TestConvolutions(t *testing.T) {
	forms := []string{"", essm.FormFFT, essm.FormDirect}
	for i, c := range []struct {
		length, taps int
		direction    string
	}{{1, 1, essm.Forward}, {40, 9, essm.Backward}, {40, 50, essm.Bidirectional}, {90, 90, essm.Forward}, {1500, 1200, essm.Forward},
		{50, 60, essm.Backward},
		{40, 0, essm.Backward}} {
		m := newMaker(i)
		m.finishForms(t, forms, m.Op("essm", "LongConv", []*ir.Value{m.input("v", m.numbers(1, 2, c.length, 5)),
			m.constant(1, 5, c.taps)}, ir.A("direction", c.direction)))
		if c.direction == essm.Backward || c.length > 100 {
			continue
		}
		m = newMaker(i)
		in := []*ir.Value{m.input("u", m.numbers(1, 2, c.length, 5))}
		for j := range 8 {
			switch {
			case j >= 6 && c.direction == essm.Forward:
				in = append(in, nil)
			case j%2 == 0 && j < 4: // some of them grow
				in = append(in, m.wide(func() float64 { return (m.r.Float64() - 0.8) / 4 }, 5, 3))
			default:
				in = append(in, m.wide(m.r.Float64, 5, 3))
			}
		}
		m.finishForms(t, forms, m.Op("essm", "SoftmaxConv", in, ir.A("direction", c.direction), ir.A("window", int64(c.taps))))
	}
}

// Systems with full matrices, in all directions, with windows and states.
func TestDense(t *testing.T) {
	for i, c := range []struct {
		length, n, window int
		direction         string
		state             bool
	}{
		{1, 1, 0, essm.Forward, true}, {20, 5, 0, essm.Forward, true}, {20, 5, 0, essm.Bidirectional, false},
		{15, 6, 4, essm.Forward, true}, {3, 3, 7, essm.Forward, true}, {21, 4, 5, essm.Backward, false},
		{21, 7, 6, essm.Bidirectional, false}, {9, 4, 20, essm.Forward, false}, {2, 70, 0, essm.Forward, true}, {2, 70, 0, essm.Forward, false},
		{150, 5, 0, essm.Forward, false}, {2, 5, 1, essm.Bidirectional, false},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			m := newMaker(i)
			entry := func() float64 { return 2 * (m.r.Float64() - 0.5) / math.Sqrt(float64(c.n)) }
			all, outs := 6*c.n, 1
			in := []*ir.Value{m.input("v", m.numbers(1, 3, c.length, all)), m.wide(entry, 2, 3, c.n, c.n), m.wide(entry, 2, 3, c.n, c.n), nil}
			if c.state {
				in[3], outs = m.input("state", m.numbers(1, 3, all*(1+c.window))), 2
			}
			forms := []string{"", essm.FormScan, essm.FormChunked, essm.FormFFT, essm.FormDirect}
			m.finishForms(t, forms, m.Ops("essm", "DenseScan", outs, in, ir.A("direction", c.direction),
				ir.A("window", int64(c.window)))...)
		})
	}
}

// Convolutions with matrices of kernels, from constants and from networks.
func TestMatrixConvolutions(t *testing.T) {
	forms := []string{"", essm.FormScan, essm.FormFFT, essm.FormDirect}
	for i, c := range []struct{ length, taps int }{{1, 40}, {100, 33}, {40, 60}, {150, 150}} {
		m := newMaker(i)
		m.finishForms(t, forms, m.Op("essm", "MatrixConv", []*ir.Value{m.input("v", m.numbers(1, 3, c.length, 5)),
			m.constant(1, 7, 5, c.taps)}))
		for _, activation := range []string{"sine", "leaky_relu"} {
			m = newMaker(i)
			uniform := func() float64 { return 2*m.r.Float64() - 1 }
			in := []*ir.Value{m.input("v", m.numbers(1, 3, c.length, 5)), m.wide(uniform, 6), m.wide(uniform, 6), m.wide(uniform, 4, 6),
				m.wide(uniform, 4), m.wide(uniform, 15, 4), m.wide(uniform, 15), nil, nil}
			if i%2 == 1 {
				in[7], in[8] = m.wide(uniform, 2, 6), m.wide(uniform, 2, 4)
			}
			m.finishForms(t, forms, m.Op("essm", "ContinuousConv", in, ir.A("activation", activation),
				ir.A("train_length", int64(30*i))))
		}
	}
}
