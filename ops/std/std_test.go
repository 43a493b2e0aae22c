package std

import (
	"math"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
)

type sample = opstest.Sample

// Short names for making samples.
var (
	of     = opstest.Of
	normal = opstest.Normal
	whole  = opstest.Whole
	vec    = opstest.Vec
	num    = opstest.Num
)

func seqOf(items ...tensor.Datum) tensor.Datum { return &tensor.Sequence{Items: items} }

func words(v ...string) tensor.Datum { return tensor.FromStrings(v, len(v)) }

func floats32(v ...float32) tensor.Datum { return tensor.FromSlice(v, len(v)) }

// i64s returns an attribute that is a list of integers.
func i64s(name string, v ...int64) ir.Attr { return ir.A(name, v) }

// graphOf builds a subgraph.
func graphOf(build func(b *ir.Builder)) *ir.Graph {
	b := ir.NewBuilder("body", ops.Default, ops.Opsets())
	build(b)
	g, err := b.Build()
	if err != nil {
		panic(err)
	}
	return g
}

var suite = opstest.Suite{Samples: samples.Of}

func TestInfer(t *testing.T)     { suite.Infer(t) }
func TestBody(t *testing.T)      { suite.Body(t) }
func TestWide(t *testing.T)      { suite.Wide(t) }
func TestBadInputs(t *testing.T) { suite.BadInputs(t) }
func TestAlong(t *testing.T)     { suite.Along(t, 1000) }

// TestMoves checks the descriptions of operators that move elements, or sum them up.
func TestMoves(t *testing.T) {
	x, y := opstest.Normal(2, 5, 3), opstest.Normal(2, 4, 3)
	zero, seven := tensor.Scalar(float32(0)), tensor.Scalar(float32(7))
	ints := opstest.Vec
	flag := func(name string) ir.Attr { return ir.A(name, 1) }
	split := of(x, ints(2, 0, 3)).With(ir.A("axis", -2)).Gives(3)
	absent := split
	absent.Absent = []int{1}
	suite.Moves(t, map[string][]sample{
		"Concat": {of(x, y, x).With(ir.A("axis", -2)), of(x).With(ir.A("axis", 1))},
		"Split":  {split, absent, of(x).With(ir.A("axis", 1), ir.A("num_outputs", 2)).Gives(2)},
		"Slice": {of(x, ints(-4, 1), ints(4, 99), ints(1, -1), ints(1, 1)), of(x, ints(-99), ints(-1), ints(1)),
			of(x, ints(2), ints(2), ints(1))},
		"Pad": {of(x, ints(0, 3, 0, 1, 0, 2), zero), of(x, ints(0, -2, 1, 0, 4, -1), zero),
			of(x, ints(1, -1, -1, 1), nil, ints(-2, 2)), of(x, ints(0, 1, 0, 0, 0, 0), seven)},
		"Transpose": {of(x).With(ir.A("perm", []int64{0, -1, 1}))},
		"CumSum": {of(x, opstest.Num(-2)).With(flag("exclusive")), of(x, opstest.Num(0)).With(flag("reverse")),
			of(x, opstest.Num(1))},
	}, map[string]int{"Concat": 4, "Split": 6, "Slice": 7, "Pad": 4, "Transpose": 5, "CumSum": 6})
}

// eachSample runs a test for every sample of every operator of ai.onnx.
func eachSample(t *testing.T, f func(t *testing.T, op *ir.Op, s sample)) {
	suite.Each(t, f)
}

// Short names for parts of the suite.
var (
	interpret = opstest.Interpret
	near      = opstest.Near
	show      = opstest.Show
	typeOf    = opstest.TypeOf
	eval      = opstest.Eval
)

func itself(_, size int) ir.Dim { return ir.Const(int64(size)) }

func node(t *testing.T, op *ir.Op, s sample, dim func(input, axis, size int) ir.Dim) *ir.Node {
	t.Helper()
	return opstest.Node(t, op, s, dim)
}

func plainNode(t *testing.T, op *ir.Op, s sample) *ir.Node {
	t.Helper()
	return opstest.Plain(t, op, s)
}

// TestAlongOf lists facts on which others depend.
func TestAlongOf(t *testing.T) {
	tests := []struct {
		name  string
		op    *ir.Op
		s     sample
		input int
		axis  int
		want  string
	}{
		{"a linear layer keeps time", MatMul, of(normal(2, 5, 3), normal(3, 4)), 0, 1, "each step by itself, axis 1"},
		{"columns of a product", MatMul, of(normal(4, 3), normal(2, 3, 5)), 1, 2, "each step by itself, axis 2"},
		{"a sum over time", MatMul, of(normal(2, 4, 5), normal(5, 3)), 0, 2, "global"},
		{"transpose moves time", Transpose, of(normal(2, 5, 3)).With(ir.A("perm", []int64{0, 2, 1})), 0, 1,
			"each step by itself, axis 2"},
		{"heads come apart", Reshape, of(normal(2, 5, 6), vec(0, 0, 2, 3)).Fixed(1), 0, 1, "each step by itself, axis 1"},
		{"time is lost in a merge", Reshape, of(normal(2, 5, 6), vec(-1, 6)).Fixed(1), 0, 1, "global"},
		{"a mean over time", ReduceMean, of(normal(2, 5, 3), vec(1)).Fixed(1), 0, 1, "back all, summed up, state 6"},
		{"a mean over features", ReduceMean, of(normal(2, 5, 3), vec(0)).Fixed(1).With(ir.A("keepdims", 0)), 0, 1,
			"each step by itself, axis 0"},
		{"a causal convolution", Conv, of(normal(1, 3, 7), normal(4, 3, 4)).With(ir.A("pads", []int64{3, 0})), 0, 2,
			"back 3, axis 2"},
		{"a centred one", Conv, of(normal(1, 3, 7), normal(4, 3, 3)).With(ir.A("pads", []int64{2, 2}),
			ir.A("dilations", []int64{2})), 0, 2, "back 2, ahead 2, axis 2"},
		{"a strided one", Conv, of(normal(1, 3, 8), normal(4, 3, 2)).With(ir.A("strides", []int64{2})), 0, 2,
			"ahead 1, axis 2, every 2 steps"},
		{"a delay", Pad, of(normal(2, 5, 3), vec(2, 0), nil, vec(1)).Fixed(1, 3), 0, 1, "back 2, axis 1"},
		{"the last step", Gather, of(normal(2, 5, 3), num(-1)).Fixed(1).With(ir.A("axis", 1)), 0, 1,
			"back all, summed up, state 6"},
		{"running sums", CumSum, of(normal(2, 5, 3), num(1)).Fixed(1), 0, 1, "back all, axis 1, state 6"},
		{"sums from the end", CumSum, of(normal(2, 5, 3), num(1)).Fixed(1).With(ir.A("reverse", 1)), 0, 1,
			"ahead all, axis 1"},
		{"attention", Softmax, of(normal(2, 5, 5)), 0, 2, "global"},
		{"off the softmax", Softmax, of(normal(2, 5, 3)), 0, 1, "each step by itself, axis 1"},
		{"sizes of others", Shape, of(normal(2, 5, 3)).With(ir.A("end", 1)), 0, 1, "constant"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := node(t, tt.op, tt.s, func(input, a, size int) ir.Dim {
				if input == tt.input && a == tt.axis {
					return ir.Sym("L")
				}
				return ir.Const(int64(size))
			})
			in := make([]ir.Fact, len(n.Inputs))
			in[tt.input] = ir.Fact{Symbol: "L", Axis: tt.axis, Stride: 1}
			if got := tt.op.Along(n, in)[0].String(); got != tt.want {
				t.Errorf("found %q, expected %q", got, tt.want)
			}
		})
	}
}

// TestErrors lists errors that inference or evaluation must report.
func TestErrors(t *testing.T) {
	infer := []struct {
		op *ir.Op
		s  sample
	}{
		{Add, of(normal(2), normal(3))}, {Add, of(normal(2), whole(tensor.Int64, 0, 2, 2))},
		{MatMul, of(normal(2, 3), normal(2, 3))}, {MatMul, of(normal(), normal(2))},
		{Reshape, of(normal(2, 3), vec(-1, -1)).Fixed(1)}, {Reshape, of(normal(2, 3), vec(4)).Fixed(1)},
		{Reshape, of(normal(2, 3), vec(4, -1)).Fixed(1)},
		{Transpose, of(normal(2, 3)).With(ir.A("perm", []int64{0, 0}))}, {Softmax, of(normal(2)).With(ir.A("axis", 1))},
		{Concat, of(normal(2, 3), normal(3, 3)).With(ir.A("axis", 1))}, {Squeeze, of(normal(2, 3), vec(0)).Fixed(1)},
		{Unsqueeze, of(normal(2), vec(0, 0)).Fixed(1)},
		{ReduceSum, of(normal(2, 3), vec(2)).Fixed(1)}, {Cast, of(normal(2)).With(ir.A("to", 99))},
		{Conv, of(normal(1, 3, 5), normal(2, 2, 3))},
		{Split, of(normal(5), vec(1, 2, 2)).Fixed(1).Gives(2)},
		{Slice, of(normal(5), vec(0), vec(1), vec(0), vec(0)).Fixed(1, 2, 3, 4)}, {SequenceAt, of(normal(2), num(0))},
	}
	for _, tt := range infer {
		n := &ir.Node{Op: tt.op, Attrs: ir.NewAttrs(tt.s.Attrs...)}
		for i, d := range tt.s.In {
			v := &ir.Value{Name: "x", Type: typeOf(d, itself)}
			if slices.Contains(tt.s.Consts, i) {
				v = ir.NewConst("k", d.(*tensor.Tensor))
			}
			n.Inputs = append(n.Inputs, v)
		}
		for range tt.s.Outs {
			n.Outputs = append(n.Outputs, &ir.Value{Name: "y", Def: n})
		}
		if err := ir.InferNode(n); err == nil {
			t.Errorf("%s of %v %v: no error", tt.op.Name, tt.s.In, tt.s.Attrs)
		}
	}
	evaluate := []struct {
		op *ir.Op
		s  sample
	}{
		{Gather, of(normal(3), vec(3))}, {Gather, of(normal(3), vec(-4))}, {Div, of(vec(1), vec(0))},
		{Mod, of(vec(1), vec(0))},
		{Reshape, of(normal(3), vec(2, 2))}, {Expand, of(normal(3), vec(2))},
		{Expand, of(normal(1), vec(1<<30, 1<<30))}, {Expand, of(normal(1), vec(-1))},
		{ConstantOfShape, of(vec(1<<40, 1))}, {Range, of(num(0), num(1<<40), num(1))},
		{Range, of(num(0), num(1), num(0))}, {Tile, of(normal(2), vec(1<<40))},
		{Pad, of(normal(2), vec(-2, -1))}, {Pad, of(normal(2), vec(1<<40, 0))},
		{OneHot, of(vec(1), num(-1), normal(2))}, {TopK, of(normal(3), vec(4)).Gives(2)},
		{ReverseSequence, of(normal(2, 3), vec(0, 0, 3))},
		{GatherND, of(normal(2, 3), tensor.FromSlice([]int64{0, 3}, 1, 2))},
		{SequenceAt, of(seqOf(normal(2)), num(1))}, {OptionalGetElement, of(&tensor.Optional{Value: normal(1)})},
	}
	for _, tt := range evaluate {
		in := slices.Clone(tt.s.In)
		n := plainNode(t, tt.op, tt.s)
		if _, ok := in[0].(*tensor.Optional); ok { // typed by a full optional, evaluated with an empty one
			in[0] = &tensor.Optional{}
		}
		if _, err := eval(n, in, false); err == nil {
			t.Errorf("%s of %v %v: no error", tt.op.Name, in, tt.s.Attrs)
		}
	}
}

// TestIntegers checks integers that float64 cannot represent, and wrapping.
func TestIntegers(t *testing.T) {
	big := int64(1)<<60 + 1
	tests := []struct {
		op   *ir.Op
		a, b tensor.Datum
		want tensor.Datum
	}{
		{Add, vec(big), vec(1), vec(big + 1)}, {Mul, vec(big), vec(1), vec(big)},
		{Sub, vec(math.MinInt64), vec(1), vec(math.MaxInt64)},
		{Div, vec(-7), vec(2), vec(-3)}, {Div, vec(math.MinInt64), vec(-1), vec(math.MinInt64)},
		{Mod, vec(-7), vec(3), vec(2)}, {Max, vec(big), vec(big - 1), vec(big)},
		{Pow, vec(3), vec(35), vec(50031545098999707)}, {MatMul, vec(big, 1), vec(1, 1), num(big + 1)},
		{Add, tensor.FromSlice([]uint8{250}, 1), tensor.FromSlice([]uint8{10}, 1), tensor.FromSlice([]uint8{4}, 1)},
		{Div, tensor.FromSlice([]uint64{1 << 63}, 1), tensor.FromSlice([]uint64{2}, 1),
			tensor.FromSlice([]uint64{1 << 62}, 1)},
		{Greater, tensor.FromSlice([]uint64{1<<63 + 1}, 1), tensor.FromSlice([]uint64{1 << 63}, 1),
			tensor.FromSlice([]bool{true}, 1)},
		{Equal, vec(big), vec(big - 1), tensor.FromSlice([]bool{false}, 1)},
	}
	for _, tt := range tests {
		s := of(tt.a, tt.b)
		got, err := eval(plainNode(t, tt.op, s), s.In, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := near(got[0], tt.want, 0, 0); err != nil {
			t.Errorf("%s: %v", tt.op.Name, err)
		}
	}
}
