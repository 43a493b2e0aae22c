package cpu

import (
	"context"
	"fmt"
	"slices"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/recurrence"
)

// tangled returns a random model of a few layers, in which later layers may read any value, and any value may be an
// output.
func tangled(t testing.TB, seed uint64) *ir.Graph {
	t.Helper()
	r := NewGen(seed)
	const h = 12
	b := ir.NewBuilder("tangled", ops.Default, ops.Opsets())
	if r.IntN(2) == 0 {
		b.Graph().Meta[ir.MetaTime], b.Graph().Meta[ir.MetaBatch] = "L", "B"
	}
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", h))
	all := []*ir.Value{x}
	causal := r.IntN(3) == 0
	older := func() *ir.Value { // mostly recent values, so that buffers become free
		return all[max(0, len(all)-1-r.IntN(1+r.IntN(6)))]
	}
	for i := range 3 + r.IntN(12) {
		x = older()
		var y *ir.Value
		switch k := r.IntN(16); {
		case k < 5:
			s := plain
			s.direction, s.dense, s.complexB = Directions[r.IntN(len(Directions))], r.IntN(4) == 0, r.IntN(4) == 0
			if causal {
				s.direction = "forward"
			}
			s.complexB = s.complexB && !s.dense
			if r.IntN(4) == 0 {
				s.window = 1 + r.IntN(120)
			}
			if r.IntN(2) == 0 {
				s.d = ""
			}
			if r.IntN(4) == 0 { // its input takes long to compute
				s.heads, s.h, s.m, s.n = 1, h, h, 1
				x = b.Op("essm", "Linear", []*ir.Value{x, b.Const("w", r.Floats(0.3, h, h))})
			}
			if r.IntN(4) == 0 { // heads of one input and one output
				s.heads, s.h, s.m, s.n = h, 1, 1, 1+r.IntN(2)*8
			}
			if s.state = s.direction == "forward" && r.IntN(3) == 0; s.state {
				out := s.ssm(r, b, x, b.Input(fmt.Sprint("state", i), ir.Tensor(tensor.Float32, "B", s.stateSize())))
				b.Output(fmt.Sprint("state_out", i), out[1])
				y = out[0]
			} else {
				y = s.ssm(r, b, x, nil)[0]
			}
		case k == 12: // which reads and writes other regions' values itself
			f := func() *ir.Value {
				return b.Const("c", r.Doubles(func() float64 { return -0.1 - r.Float64() }, 1, 1, h))
			}
			direction := Directions[r.IntN(len(Directions))]
			if causal {
				direction = "forward"
			}
			y = b.Ops("essm", "Scan", 1, []*ir.Value{x, f(), f(), f(), f()}, ir.A("direction", direction),
				ir.A("window", r.IntN(2)*r.IntN(90)))[0]
		case k == 13: // a gate
			both := b.Op("essm", "Linear", []*ir.Value{x, b.Const("w", r.Floats(0.3, 2*h, h))})
			half := b.Ops("", "Split", 2, []*ir.Value{both}, ir.A("axis", -1), ir.A("num_outputs", 2))
			y = b.Op("", "Mul", []*ir.Value{half[0], b.Op("", "Sigmoid", half[1:])})
		case k == 14: // looks back and ahead
			y = b.Op("", "Transpose", []*ir.Value{x}, ir.A("perm", []int64{0, 2, 1}))
			y = b.Op("", "Conv", []*ir.Value{y, b.Const("w", r.Floats(0.3, h, 1, 5))}, ir.A("group", h),
				ir.A("pads", [][]int64{{4, 0}, {2, 2}}[r.IntN(2)]))
			y = b.Op("", "Tanh", []*ir.Value{b.Op("", "Transpose", []*ir.Value{y}, ir.A("perm", []int64{0, 2, 1}))})
		case k == 5:
			y = b.Op("essm", "Linear", []*ir.Value{x, b.Const("w", r.Floats(0.3, h, h)),
				b.Const("bias", r.Floats(1, h))})
		case k == 6:
			y = b.Op("", []string{"Gelu", "Tanh", "Relu", "Sigmoid"}[r.IntN(4)], []*ir.Value{x})
		case k == 7:
			y = b.Op("", "LayerNormalization", []*ir.Value{x, b.Const("scale", r.Floats(1, h))})
		case k == 8:
			y = b.Op("", "Mul", []*ir.Value{x, b.Const("by", r.Floats(1, h))})
		default:
			y = b.Op("", []string{"Add", "Sub", "Mul"}[r.IntN(3)], []*ir.Value{x, older()})
			y = b.Op("", "Tanh", []*ir.Value{y})
		}
		all = append(all, y)
		if r.IntN(10) == 0 {
			b.Output(fmt.Sprint("out", i), y)
		}
	}
	b.Output("y", all[len(all)-1])
	b.Output("pooled", b.Op("essm", "Pick", []*ir.Value{older()}, ir.A("mode", "pool")))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestShared checks that regions that write over their inputs, and run back passes ahead, return bitwise the answers of
// regions that do neither, at any length of chunks and any number of threads.
func TestShared(t *testing.T) {
	graphs := 150
	if testing.Short() {
		graphs = 30
	}
	over, ahead := 0, 0
	for seed := range graphs {
		g := tangled(t, uint64(seed))
		r := NewGen(uint64(seed))
		batch, length := 1+seed%3, 1+r.IntN(700)
		var in []tensor.Datum
		for i, v := range g.Inputs {
			if i == 0 {
				in = append(in, r.Floats(1, batch, length, 12))
				continue
			}
			k, _ := v.Shape()[1].Known()
			in = append(in, r.Floats(1, batch, int(k)))
		}
		config := runtime.Config{Kernel: []string{"", "", "", "chunked", "fft"}[r.IntN(5)]}
		e, apart := sharesWell(t, fmt.Sprintf("seed %d, %s", seed, config.Kernel), g, config, in)
		if len(e.arena) < len(apart.arena) {
			over++
		}
		if runsAhead(e) {
			ahead++
		}
	}
	if over < graphs/8 || ahead < graphs/8 {
		t.Errorf("of %d graphs %d took less memory, %d ran a back pass ahead", graphs, over, ahead)
	}
	t.Logf("of %d graphs %d took less memory, %d ran a back pass ahead", graphs, over, ahead)
}

// sharesWell compares runs in which regions share memory and passes with one in which they do not.
func sharesWell(t *testing.T, name string, g *ir.Graph, config runtime.Config,
	in []tensor.Datum) (e, apart *executable) {
	t.Helper()
	run := func(rows, threads int, plain bool) (*executable, []tensor.Datum) {
		config.Threads = threads
		e := bindProgram(t, g, config, in, func(p *program) { p.stretchRows, p.plain = rows, plain })
		out := make([]tensor.Datum, len(g.Outputs))
		for range 2 { // nothing is left of the first run
			if err := e.Run(context.Background(), in, out); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		return e, out
	}
	apart, want := run(1<<30, 1, true)
	for k, rows := range []int{150, 150, 1 << 30} {
		var out []tensor.Datum
		e, out = run(rows, 1+k, false)
		for i := range out {
			if !tensor.Equal(out[i].(*tensor.Tensor), want[i].(*tensor.Tensor)) {
				t.Fatalf("%s, input %s, chunks of %d rows, %d threads: output %s differs", name, in[0], rows, 1+k,
					g.Outputs[i].Name)
			}
		}
	}
	return e, apart
}

func runsAhead(e *executable) bool {
	return slices.ContainsFunc(e.units, func(u *unit) bool { return u.region != nil && u.region.ahead })
}

// TestSharedWithStretch checks that a value that a stretch reads at earlier steps is not overwritten.
func TestSharedWithStretch(t *testing.T) {
	r := NewGen(3)
	b := ir.NewBuilder("strip", ops.Default, ops.Opsets())
	b.Graph().Meta[ir.MetaTime] = "L"
	layer := func(x *ir.Value, direction string) *ir.Value {
		s := plain
		s.direction = direction
		return b.Op("", "Tanh", s.ssm(r, b, x, nil))
	}
	x := layer(b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 12)), "bidirectional")
	f := func() *ir.Value {
		return b.Const("c", r.Doubles(func() float64 { return -0.1 - r.Float64() }, 1, 1, 12))
	}
	y := b.Ops("essm", "Scan", 1, []*ir.Value{x, f(), f(), f(), f()}, ir.A("window", 40))[0]
	y = b.Op("", "Add", []*ir.Value{x, layer(y, "forward")})
	b.Output("y", layer(y, "bidirectional"))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	sharesWell(t, "strip", g, runtime.Config{}, []tensor.Datum{r.Floats(1, 1, 700, 12)})
}

// TestSharedAhead checks that the results of a back pass that runs ahead have memory while the region before runs.
func TestSharedAhead(t *testing.T) {
	r := NewGen(4)
	b := ir.NewBuilder("ahead", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 12))
	s := system{ch: 1, heads: 1, n: 12, h: 12, m: 12, direction: "bidirectional"}
	for i := range 5 {
		s.n = 12 - i%2*6 // rows of the kept values are elsewhere
		sub := b.Sub("body")
		y := sub.Input(fmt.Sprint("in", i), x.Type)
		for range 9 { // dear, so that the input of the system is kept
			y = sub.Op("", "Tanh", []*ir.Value{sub.Op("essm", "Linear",
				[]*ir.Value{y, sub.Const("w", r.Floats(0.5, 12, 12))})})
		}
		sub.Output("", sub.Op("essm", "Linear",
			[]*ir.Value{s.ssm(r, sub, y, nil)[0], sub.Const("w", r.Floats(0.5, 12, 12))}))
		body, err := sub.Build()
		if err != nil {
			t.Fatal(err)
		}
		x = b.Op("essm", "Block", []*ir.Value{x}, ir.A("body", body))
	}
	b.Output("y", x)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	e, _ := sharesWell(t, "ahead", g, runtime.Config{}, []tensor.Datum{r.Floats(1, 2, 700, 12)})
	if !runsAhead(e) || !slices.ContainsFunc(e.units,
		func(u *unit) bool { return u.region.ahead && u.region.recurrence.keep }) {
		t.Error("no region runs ahead and keeps its input")
	}
}

// TestReadBefore tests the conditions of readBefore, one at a time.
func TestReadBefore(t *testing.T) {
	buffer := func(val int) place { return place{val: val, width: 4} }
	local := func(val int) place { return place{val: val, width: 4, local: true} }
	scan := recurrence.DiagonalScan{}
	for _, c := range []struct {
		name   string
		change func(g *region)
		want   []int
	}{
		{"read before it is written", func(*region) {}, []int{1}},
		{"read by the call that writes, number by number",
			func(g *region) { g.calls[2].in[0], g.calls[2].over = buffer(2), []int{0} }, []int{1, 2}},
		{"read by the call that writes, row by row", func(g *region) { g.calls[2].in[0] = buffer(1) }, nil},
		{"read again later", func(g *region) {
			g.calls = append(g.calls, call{in: []place{buffer(1)}, out: local(8)})
			g.all = append(g.all, 3)
		}, nil},
		{"wider", func(g *region) { g.calls[0].in[0].width = 8 }, nil},
		{"written in the back pass, too", func(g *region) { g.pre = []int{0, 2} }, nil},
		{"the recurrence's input", func(g *region) { g.recurrence.v = buffer(1) }, []int{1}},
		{"the recurrence's input, written before it runs", func(g *region) { g.recurrence.v, g.mid = buffer(1), 3 }, nil},
		{"the recurrence's input, with a window",
			func(g *region) { g.recurrence.v, g.recurrence.Window = buffer(1), 3 }, nil},
		{"the recurrence's imaginary input, with a window",
			func(g *region) { g.recurrence.vi, g.recurrence.Window = buffer(1), 3 }, nil},
		{"the recurrence's input, which is convolved",
			func(g *region) { g.recurrence.v, g.recurrence.kernel = buffer(1), nil }, nil},
		{"the recurrence's output", func(g *region) { g.recurrence.x = buffer(1) }, nil},
		{"the recurrence's imaginary output", func(g *region) { g.recurrence.xi = buffer(1) }, nil},
		{"the state", func(g *region) { g.recurrence.stateVal = 1 }, nil},
		{"written by a call", func(g *region) { g.calls[1].out = buffer(1) }, nil},
		{"not written", func(g *region) { g.calls[2].out = local(9) }, nil},
	} {
		g := &region{all: []int{0, 1, 2}, pre: []int{0}, mid: 1, calls: []call{
			{in: []place{buffer(1)}, out: local(5)}, {in: []place{local(6)}, out: local(7)},
			{in: []place{local(7)}, out: buffer(9)},
		}}
		g.recurrence = &recurrenceCall{g: g, kernel: scan, v: local(5), vi: nowhere, x: local(6), xi: nowhere,
			stateVal: -1, stateOutVal: -1}
		c.change(g)
		if got := g.readBefore(9); !slices.Equal(got, c.want) {
			t.Errorf("%s: values %v may be written over, expected %v", c.name, got, c.want)
		}
	}
}

// TestRenamed checks that a tensor of another shape lies where its input lies, and that nothing is written over either while
// the other one is read.
func TestRenamed(t *testing.T) {
	b := ir.NewBuilder("renamed", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, 6, 8))
	shape := func(n ...int64) *ir.Value { return b.Const("", tensor.FromSlice(n, len(n))) }
	a := b.Op("", "Transpose", []*ir.Value{x}, ir.A("perm", []int64{1, 0}))
	r := b.Op("", "Reshape", []*ir.Value{a, shape(6, 8)})
	u := b.Op("", "Squeeze", []*ir.Value{b.Op("", "Unsqueeze", []*ir.Value{r, shape(1)}), shape(1)})
	e := b.Op("", "Relu", []*ir.Value{u})                                     // must not write over a
	f := b.Op("", "Add", []*ir.Value{b.Op("", "Neg", []*ir.Value{a}), a})     // read by its first name
	g := b.Op("", "Softmax", []*ir.Value{b.Op("", "Add", []*ir.Value{e, r})}) // and by another
	b.Output("y", b.Op("", "ReduceMax", []*ir.Value{g}))
	b.Output("z", b.Op("", "ReduceSum", []*ir.Value{f}))
	b.Output("w", b.Op("", "Reshape", []*ir.Value{e, shape(48)}))
	graph, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]tensor.Datum{"x": NewGen(1).Floats(1, 6, 8)}
	CloseTo(t, "renamed", Run(t, graph, runtime.Options{Backend: New(), Threads: 2}, in), Truth(t, graph, in), 1e-6)
	p, err := compile(graph, runtime.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	bound, err := p.Bind(runtime.Binding{Inputs: []ir.Type{ir.Tensor(tensor.Float32, 6, 8)}})
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for _, u := range bound.(*executable).units {
		s := u.steps[0]
		if from, to := bound.(*executable).PlaceOf(s.In[0]), bound.(*executable).PlaceOf(s.Out[0]); u.kernel != nil &&
			u.kernel.renames && from != nil && to != nil && &from.Bytes()[0] == &to.Bytes()[0] {
			same++
		}
	}
	if same != 3 {
		t.Errorf("%d tensors have the place of another shape, expected 3", same)
	}
}
