package cpu

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// with sets an element of a tensor.
func with(t *tensor.Tensor, at int, x float64) *tensor.Tensor {
	if t.Len() > 0 {
		tensor.Data[float32](t)[at%t.Len()] = float32(x)
	}
	return t
}

func TestBinary(t *testing.T) {
	r := newGen(5)
	for _, shapes := range [][2][]int{
		{{2, 3, 5, 7}, {3, 1, 1}}, {{1, 1, 1, 1}, {2, 3, 4, 5}}, {{6, 1}, {1, 9}}, {{2, 17, 33}, {2, 17, 33}},
		{{2, 3, 4}, {}},
		{{5, 1, 7}, {5, 4, 1}}, {{3, 8, 1, 2}, {1, 8, 5, 2}}, {{40, 1000}, {40, 1}}, {{1}, {1, 1}}, {{0, 3}, {1}},
	} {
		for _, op := range []string{"Add", "Sub", "Mul", "Div", "Max", "Min"} {
			a, b := r.floats(1, shapes[0]...), r.floats(1, shapes[1]...)
			if a.Len() > 6 && b.Len() > 6 {
				with(with(a, 3, math.NaN()), 5, math.Inf(1))
				with(b, 2, math.NaN())
			}
			checkNode(t, op, 1, []operand{given(a), given(b)})
			checkNode(t, op, 1, []operand{fixed(a), given(b)})
			checkNode(t, op, 1, []operand{given(b), fixed(a)})
		}
		a, b := r.floats(1, shapes[0]...), r.floats(1, shapes[1]...)
		for _, op := range []string{"Equal", "Less", "GreaterOrEqual"} {
			checkNode(t, op, 1, []operand{given(with(a.Clone(), 0, math.NaN())), given(b)})
			x, y := tensor.New(tensor.Int64, shapes[0]...), tensor.New(tensor.Int64, shapes[1]...)
			for i := range tensor.Data[int64](x) {
				tensor.Data[int64](x)[i] = int64(r.IntN(3))
			}
			checkNode(t, op, 1, []operand{given(x), given(y)})
		}
		shape, _ := ops.Broadcast(shapes[0], shapes[1])
		c := tensor.New(tensor.Bool, shape...)
		for i := range tensor.Data[bool](c) {
			tensor.Data[bool](c)[i] = r.IntN(2) == 0
		}
		checkNode(t, "Where", 1, []operand{given(c), given(a), given(b)})
		checkNode(t, "Cast", 1, []operand{given(c)}, ir.A("to", int(tensor.Float32)))
		checkNode(t, "Pow", 1, []operand{given(a), fixed(tensor.Scalar(float32(2)))})
		checkNode(t, "Pow", 1, []operand{given(a), given(b)})
	}
}

// TestPowerOfHalf checks that Pow by one half is not the square root for -0 and -∞, as C's and numpy's pow.
func TestPowerOfHalf(t *testing.T) {
	inf := float32(math.Inf(1))
	in := []float32{float32(math.Copysign(0, -1)), 0, -inf, inf, -1, 4, float32(math.NaN()), 1e-45, -1e-45, math.MaxFloat32}
	want := []float32{0, 0, inf, inf, float32(math.NaN()), 2, float32(math.NaN()), float32(math.Sqrt(math.SmallestNonzeroFloat32)),
		float32(math.NaN()), float32(math.Sqrt(math.MaxFloat32))}
	for _, n := range []int{1, 3, 9, 64, 131} { // a block and more
		x, y := make([]float32, n*len(in)), make([]float32, n*len(in))
		for i := range x {
			x[i], y[i] = in[i/n], want[i/n]
		}
		operands := []operand{given(tensor.FromSlice(x, len(x))), fixed(tensor.Scalar(float32(0.5)))}
		for _, b := range []runtime.Backend{New(), ref.New()} {
			g, feed := nodeGraph(t, "Pow", 1, operands)
			for _, got := range run(t, g, runtime.Options{Backend: b}, feed) {
				if !sameNumbers(got.(*tensor.Tensor), tensor.FromSlice(y, len(y))) {
					t.Errorf("%d of each of %v: expected %v, found %.300s", n, in, want,
						fmt.Sprint(tensor.Data[float32](got.(*tensor.Tensor))))
				}
			}
		}
	}
}

func TestFunctions(t *testing.T) {
	r := newGen(6)
	x := with(with(r.floats(3, 3, 7, 19), 4, math.NaN()), 9, math.Inf(-1))
	for _, op := range []string{"HardSwish", "HardSigmoid", "Log", "Reciprocal", "Sqrt", "Exp", "Relu", "LeakyRelu",
		"Sigmoid", "Tanh", "Erf", "Softmax", "LogSoftmax", "Neg", "Abs"} {
		checkNode(t, op, 1, []operand{given(x)})
	}
	for _, shape := range [][]int{{1, 1}, {5, 300}, {2, 3, 8}} {
		checkNode(t, "Softmax", 1, []operand{given(r.floats(30, shape...))})
		checkNode(t, "LogSoftmax", 1, []operand{given(r.floats(30, shape...))})
	}
	checkNode(t, "BatchNormalization", 1,
		[]operand{given(r.floats(1, 2, 5, 3, 11)), fixed(r.floats(1, 5)), fixed(r.floats(1, 5)), fixed(r.floats(1, 5)),
			fixed(tensor.FromSlice([]float32{1, 0.1, 2, 3, 0.5}, 5))})
}

func TestReduce(t *testing.T) {
	r := newGen(7)
	for _, c := range []struct {
		shape []int
		axes  []int64
	}{{[]int{3, 5, 7}, []int64{2}}, {[]int{3, 5, 7}, []int64{1}}, {[]int{3, 5, 33}, []int64{0, 1}},
		{[]int{2, 3, 4, 5}, []int64{-1, -2}}, {[]int{2, 9000}, []int64{1}}, {[]int{6}, []int64{0}},
		{[]int{200, 3}, []int64{1}}} {
		for _, op := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceSumSquare", "ReduceL2"} {
			for _, keep := range []int{0, 1} {
				checkNode(t, op, 1, []operand{given(r.floats(1, c.shape...)), ints(c.axes...)}, ir.A("keepdims", keep))
			}
		}
		checkNode(t, "ReduceMax", 1, []operand{given(with(r.floats(1, c.shape...), 1, math.NaN())), ints(c.axes...)})
	}
	checkNode(t, "ReduceMean", 1, []operand{given(r.floats(1, 4, 5))})
	for _, op := range []string{"GlobalAveragePool", "GlobalMaxPool"} {
		checkNode(t, op, 1, []operand{given(r.floats(1, 2, 3, 7, 9))})
		checkNode(t, op, 1, []operand{given(r.floats(1, 2, 3, 70))})
	}
}

func TestPool(t *testing.T) {
	r := newGen(8)
	for _, c := range []struct {
		shape []int
		attrs []ir.Attr
	}{
		{[]int{2, 3, 9}, []ir.Attr{ir.A("kernel_shape", []int64{3}), ir.A("strides", []int64{2}),
			ir.A("pads", []int64{1, 1})}},
		{[]int{1, 3, 8, 13}, []ir.Attr{ir.A("kernel_shape", []int64{2, 2}), ir.A("strides", []int64{2, 2})}},
		{[]int{1, 2, 9, 13}, []ir.Attr{ir.A("kernel_shape", []int64{3, 2}), ir.A("strides", []int64{2, 1}),
			ir.A("pads", []int64{1, 1, 0, 1})}},
		{[]int{1, 2, 9, 14}, []ir.Attr{ir.A("kernel_shape", []int64{2, 2}), ir.A("strides", []int64{2, 3}),
			ir.A("ceil_mode", 1)}},
		{[]int{1, 2, 9, 14}, []ir.Attr{ir.A("kernel_shape", []int64{3, 4}), ir.A("auto_pad", "SAME_UPPER"),
			ir.A("strides", []int64{2, 3})}},
		{[]int{1, 2, 9, 14}, []ir.Attr{ir.A("kernel_shape", []int64{3, 2}), ir.A("dilations", []int64{2, 3})}},
		{[]int{2, 3, 70, 66}, []ir.Attr{ir.A("kernel_shape", []int64{2, 2}), ir.A("strides", []int64{2, 2})}},
		{[]int{1, 2, 90, 81}, []ir.Attr{ir.A("kernel_shape", []int64{3, 3}), ir.A("strides", []int64{2, 2}),
			ir.A("pads", []int64{1, 1, 1, 1})}},
		{[]int{1, 2, 45, 130}, []ir.Attr{ir.A("kernel_shape", []int64{1, 4}), ir.A("strides", []int64{1, 4})}},
		{[]int{1, 2, 3, 5000}, []ir.Attr{ir.A("kernel_shape", []int64{2, 7}), ir.A("strides", []int64{1, 3}),
			ir.A("dilations", []int64{1, 2})}},
		{[]int{1, 2, 61, 77}, []ir.Attr{ir.A("kernel_shape", []int64{3, 3}), ir.A("pads", []int64{1, 1, 1, 1})}},
		{[]int{1, 2, 37, 141}, []ir.Attr{ir.A("kernel_shape", []int64{5, 3}), ir.A("strides", []int64{2, 1}),
			ir.A("pads", []int64{2, 0, 1, 0})}},
		{[]int{1, 2, 33, 83}, []ir.Attr{ir.A("kernel_shape", []int64{3, 3}), ir.A("strides", []int64{1, 4}),
			ir.A("pads", []int64{1, 1, 1, 0})}},
		{[]int{2, 3, 4099}, []ir.Attr{ir.A("kernel_shape", []int64{6}), ir.A("strides", []int64{4}),
			ir.A("pads", []int64{2, 3})}},
		{[]int{1, 2, 29, 31}, []ir.Attr{ir.A("kernel_shape", []int64{3, 3}), ir.A("strides", []int64{2, 2}),
			ir.A("pads", []int64{1, 1, 1, 1}), ir.A("ceil_mode", 1)}},
	} {
		x := r.floats(1, c.shape...)
		checkNode(t, "AveragePool", 1, []operand{given(x)}, c.attrs...)
		checkNode(t, "MaxPool", 1, []operand{given(with(x, 7, math.NaN()))}, c.attrs...)
	}
	for _, shape := range [][]int{{1, 2, 5, 6}, {1, 2, 61, 77}} {
		for _, strides := range [][]int64{{1, 1}, {2, 2}, {2, 4}, {3, 1}} {
			checkNode(t, "AveragePool", 1, []operand{given(r.floats(1, shape...))}, ir.A("kernel_shape", []int64{3, 3}),
				ir.A("strides", strides), ir.A("pads", []int64{1, 1, 1, 1}), ir.A("count_include_pad", 1))
		}
	}
}

func TestMove(t *testing.T) {
	r := newGen(9)
	whole := func(shape ...int) *tensor.Tensor {
		x := tensor.New(tensor.Int64, shape...)
		for i := range tensor.Data[int64](x) {
			tensor.Data[int64](x)[i] = int64(r.IntN(1000))
		}
		return x
	}
	for _, x := range []*tensor.Tensor{r.floats(1, 2, 4, 6, 10), whole(2, 4, 6, 10)} {
		in := given(x)
		fill := fixed(tensor.Scalar(float32(7)))
		if x.DType() == tensor.Int64 {
			fill = fixed(tensor.Scalar(int64(7)))
		}
		checkNode(t, "Slice", 1, []operand{in, ints(1, -1), ints(3, -99), ints(1, 3), ints(1, -2)})
		checkNode(t, "Slice", 1, []operand{in, ints(0), ints(0), ints(1)})
		checkNode(t, "Slice", 1, []operand{in, ints(1, 3), ints(2, 9)})
		checkNode(t, "Slice", 1, []operand{in, ints(-3, 9, 1), ints(99, -99, 6), ints(-1, -2, 0), ints(1, -1, 1<<40)})
		checkNode(t, "Slice", 1, []operand{in, ints(-1), ints(-1 << 62), ints(2), ints(-1 << 62)})
		checkNode(t, "Expand", 1, []operand{given(tensor.FromSlice([]int64{4, 5, 6}, 3, 1)), ints(2, 3, 5)})
		checkNode(t, "Tile", 1, []operand{in, ints(1, 2, 1, 3)})
		checkNode(t, "Gather", 1, []operand{in, fixed(tensor.FromSlice([]int64{3, 0, -1, 0, 2, 2}, 2, 3))},
			ir.A("axis", 1))
		checkNode(t, "Gather", 1, []operand{in, fixed(tensor.Scalar(int64(1)))}, ir.A("axis", 2))
		checkNode(t, "DepthToSpace", 1, []operand{in}, ir.A("blocksize", 2))
		checkNode(t, "DepthToSpace", 1, []operand{in}, ir.A("blocksize", 2), ir.A("mode", "CRD"))
		checkNode(t, "SpaceToDepth", 1, []operand{in}, ir.A("blocksize", 2))
		checkNode(t, "Reshape", 1, []operand{in, ints(8, -1)})
		checkNode(t, "Unsqueeze", 1, []operand{in, ints(0, 3)})
		checkNode(t, "Transpose", 1, []operand{in}, ir.A("perm", []int64{2, 0, 3, 1}))
		checkNode(t, "Transpose", 1, []operand{in})
		for _, mode := range []string{"constant", "reflect", "edge", "wrap"} {
			checkNode(t, "Pad", 1, []operand{in, ints(0, 1, 2, 3, 1, 0, 0, 2)}, ir.A("mode", mode))
		}
		checkNode(t, "Pad", 1, []operand{in, ints(0, 1, -2, 3, 1, 0, 0, -2), fill})
		checkNode(t, "Pad", 1, []operand{in, ints(-1, -1, 0, 2), fill, ints(1, 3)})
		if x.DType() == tensor.Float32 {
			checkNode(t, "Resize", 1, []operand{in, {}, fixed(tensor.FromSlice([]float32{1, 1, 2, 1.5}, 4))},
				ir.A("coordinate_transformation_mode", "asymmetric"), ir.A("nearest_mode", "floor"))
		}
	}
}

func TestLSTM(t *testing.T) {
	r := newGen(10)
	for _, c := range []struct {
		length, batch, inputs, hidden int
		direction                     string
	}{{1, 1, 5, 8, "forward"}, {7, 3, 4, 5, "forward"}, {5, 2, 3, 17, "reverse"}, {6, 2, 9, 12, "bidirectional"}} {
		d := 1
		if c.direction == "bidirectional" {
			d = 2
		}
		in := []operand{given(r.floats(1, c.length, c.batch, c.inputs)), fixed(r.floats(0.5, d, 4*c.hidden, c.inputs)),
			fixed(r.floats(0.5, d, 4*c.hidden, c.hidden))}
		attrs := []ir.Attr{ir.A("hidden_size", c.hidden), ir.A("direction", c.direction)}
		checkNode(t, "LSTM", 3, in, attrs...)
		in = append(in, fixed(r.floats(1, d, 8*c.hidden)), operand{}, given(r.floats(1, d, c.batch, c.hidden)),
			given(r.floats(1, d, c.batch, c.hidden)))
		checkNode(t, "LSTM", 3, in, attrs...)
	}
}

func TestMatMul(t *testing.T) {
	r := newGen(11)
	for _, c := range [][2][]int{{{3, 5}, {5, 7}}, {{1, 40}, {40, 33}}, {{2, 3, 7, 16}, {2, 3, 16, 18}},
		{{2, 1, 4, 5}, {3, 5, 1}}, {{64, 96}, {96, 130}}} {
		checkNode(t, "MatMul", 1, []operand{given(r.floats(1, c[0]...)), given(r.floats(1, c[1]...))})
	}
}

// TestBranchesAllocateNothing checks that a model with branches, whose sizes follow from the shapes of inputs, does not
// allocate in a run.
func TestBranchesAllocateNothing(t *testing.T) {
	b := ir.NewBuilder("branches", ops.Default, ops.Opsets())
	r := newGen(12)
	x := b.Input("x", ir.Tensor(tensor.Float32, "a", 4, "c"))
	rate := b.Input("rate", ir.Tensor(tensor.Int64))
	branch := func(taps int) *ir.Graph {
		sub := b.Sub("branch")
		y := sub.Op("", "Conv", []*ir.Value{x, sub.Const("w", r.floats(1, 6, 4, taps))}, ir.A("auto_pad", "SAME_UPPER"))
		shape := sub.Op("", "Concat", []*ir.Value{sub.Op("", "Shape", []*ir.Value{y}, ir.A("end", 1)), sub.Ints(-1)},
			ir.A("axis", 0))
		sub.Output("", sub.Op("", "Reshape", []*ir.Value{y, shape}))
		g, err := sub.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	cond := b.Op("", "Equal", []*ir.Value{rate, b.Const("k", tensor.Scalar(int64(16)))})
	y := b.Op("", "If", []*ir.Value{cond}, ir.A("then_branch", branch(3)), ir.A("else_branch", branch(5)))
	b.Output("y", b.Op("", "Relu", []*ir.Value{y}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	m, err := runtime.New(g, runtime.Options{Backend: New(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, out := m.NewSession(), map[string]tensor.Datum{}
	for _, k := range []int64{16, 8} {
		in := map[string]tensor.Datum{"x": r.floats(1, 2, 4, 9), "rate": tensor.Scalar(k)}
		if err := s.RunInto(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		want := truth(t, g, in)
		compareDatum(t, "If", out["y"], want["y"])
		if n := testing.AllocsPerRun(20, func() {
			if err := s.RunInto(context.Background(), in, out); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("rate %d: %v allocations", k, n)
		}
	}
}

func TestGatedRecurrences(t *testing.T) {
	r := newGen(13)
	for _, op := range []string{"GRU", "RNN"} {
		gates := map[string]int{"GRU": 3, "RNN": 1}[op]
		for _, c := range []struct {
			length, batch, inputs, hidden int
			direction                     string
		}{{1, 1, 5, 8, "forward"}, {7, 3, 4, 5, "forward"}, {5, 2, 3, 17, "reverse"}, {6, 2, 9, 12, "bidirectional"}} {
			d := 1
			if c.direction == "bidirectional" {
				d = 2
			}
			for _, attrs := range [][]ir.Attr{nil, {ir.A("linear_before_reset", 1)}} {
				if op == "RNN" && attrs != nil {
					continue
				}
				attrs = append(attrs, ir.A("hidden_size", c.hidden), ir.A("direction", c.direction))
				in := []operand{given(r.floats(1, c.length, c.batch, c.inputs)),
					fixed(r.floats(0.5, d, gates*c.hidden, c.inputs)),
					fixed(r.floats(0.5, d, gates*c.hidden, c.hidden))}
				checkNode(t, op, 2, in, attrs...)
				in = append(in, fixed(r.floats(1, d, 2*gates*c.hidden)), operand{},
					given(r.floats(1, d, c.batch, c.hidden)))
				checkNode(t, op, 2, in, attrs...)
			}
		}
	}
}

func TestGroupNorm(t *testing.T) {
	r := newGen(14)
	for _, shape := range [][]int{{2, 6, 7}, {1, 6, 5, 9}, {3, 6}, {1, 12, 3, 11, 2}} {
		in := []operand{given(r.floats(1, shape...)), given(r.floats(1, shape[1])), fixed(r.floats(1, shape[1]))}
		if len(shape) > 2 {
			checkNode(t, "InstanceNormalization", 1, in, ir.A("epsilon", 1e-3))
		}
		checkNode(t, "GroupNormalization", 1, in, ir.A("num_groups", 3))
	}
}

func TestQuantize(t *testing.T) {
	r := newGen(15)
	x := with(with(r.floats(2, 3, 5, 7), 4, math.NaN()), 9, math.Inf(1))
	tensor.Data[float32](x)[0] = 0.375 // a tie
	one, per := fixed(tensor.Scalar(float32(0.25))), fixed(tensor.FromSlice([]float32{0.5, 0.1, 0.02, 1, 3}, 5))
	checkNode(t, "QuantizeLinear", 1, []operand{given(x), one})
	checkNode(t, "QuantizeLinear", 1, []operand{given(x), one, fixed(tensor.Scalar(int8(-3)))})
	checkNode(t, "QuantizeLinear", 1, []operand{given(x), per, fixed(tensor.FromSlice([]uint8{0, 3, 128, 255, 9}, 5))})
	bytes, wide := tensor.New(tensor.Uint8, 3, 5, 7), tensor.New(tensor.Int32, 3, 5, 40)
	for i := range tensor.Data[uint8](bytes) {
		tensor.Data[uint8](bytes)[i] = uint8(r.IntN(256))
	}
	for i := range tensor.Data[int32](wide) {
		tensor.Data[int32](wide)[i] = int32(r.IntN(1 << 30))
	}
	checkNode(t, "DequantizeLinear", 1, []operand{given(bytes), one, fixed(tensor.Scalar(uint8(128)))})
	checkNode(t, "DequantizeLinear", 1, []operand{given(bytes), per}, ir.A("axis", -2))
	checkNode(t, "DequantizeLinear", 1, []operand{given(wide), one})
	checkNode(t, "DequantizeLinear", 1, []operand{given(tensor.FromSlice([]int8{-128, 0, 127}, 3)), one})
}
