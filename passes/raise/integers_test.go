package raise_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/raise/internal/idiom"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// quantizedGraph makes graphs of values that are quantized between operators.
type quantizedGraph struct {
	*ir.Builder
	*rand.Rand
	x, w tensor.DType // of values, of weights
	zero int          // of results that are quantized
	unit float32      // scale of such results
}

func (q *quantizedGraph) op(name string, in []*ir.Value, attrs ...ir.Attr) *ir.Value {
	return q.Op("", name, in, attrs...)
}

func (q *quantizedGraph) bytes(d tensor.DType, shape ...int) *tensor.Tensor {
	t := tensor.New(d, shape...)
	for i := range t.Bytes() {
		t.Bytes()[i] = byte(q.IntN(256))
	}
	return t
}

func (q *quantizedGraph) scale(n int, least float32) *ir.Value {
	var shape []int
	if n > 0 {
		shape = []int{n}
	}
	t := tensor.New(tensor.Float32, shape...)
	for i := range t.Len() {
		tensor.Data[float32](t)[i] = least * (1 + q.Float32())
	}
	return q.Const("scale", t)
}

// input is an input of bytes, dequantized.
func (q *quantizedGraph) input(name string, scale *ir.Value, shape ...int) *ir.Value {
	t := tensor.New(q.x, shape...)
	return q.op("DequantizeLinear", []*ir.Value{q.Input(name, ir.Of(t)), scale, q.Const("zero", q.bytes(q.x))})
}

// weights are dequantized constants, with one scale, or one for each index of an axis.
func (q *quantizedGraph) weights(axis int, shape ...int) *ir.Value {
	n := 0
	if axis >= 0 {
		n = shape[axis]
	}
	zero := tensor.New(q.w)
	if n > 0 {
		zero = tensor.New(q.w, n)
	}
	if q.w == tensor.Uint8 {
		copy(zero.Bytes(), q.bytes(q.w, zero.Len()).Bytes())
	}
	return q.op("DequantizeLinear", []*ir.Value{q.Const("w", q.bytes(q.w, shape...)), q.scale(n, 0.01),
		q.Const("zero", zero)}, ir.A("axis", max(axis, 0)))
}

func (q *quantizedGraph) quantized(v *ir.Value) *ir.Value {
	zero := tensor.New(q.x)
	zero.Bytes()[0] = byte(q.zero)
	return q.op("QuantizeLinear", []*ir.Value{v, q.Const("unit", tensor.Scalar(q.unit)), q.Const("zero", zero)})
}

func (q *quantizedGraph) floats(n int) *ir.Value {
	t := tensor.New(tensor.Float32, n)
	for i := range n {
		tensor.Data[float32](t)[i] = q.Float32()*4 - 2
	}
	return q.Const("bias", t)
}

// TestIntegers checks the operators on integers against the graph in real numbers: each result differs by one quantum at
// most, and few do. The CPU backend computes the same bytes as the interpreter.
func TestIntegers(t *testing.T) {
	group, pads, turned := ir.A("group", 2), ir.A("pads", []int64{1, 0, 1, 2}), ir.A("transB", 1)
	for _, c := range []struct {
		name, want string
		build      func(q *quantizedGraph) *ir.Value
	}{
		{"conv", "QLinearConv", func(q *quantizedGraph) *ir.Value {
			return q.op("Conv", []*ir.Value{q.input("x", q.scale(0, 0.02), 2, 6, 9, 7), q.weights(0, 4, 3, 3, 2), q.floats(4)},
				group, pads, ir.A("strides", []int64{2, 1}))
		}},
		{"conv without bias", "QLinearConv", func(q *quantizedGraph) *ir.Value {
			return q.op("Conv", []*ir.Value{q.input("x", q.scale(0, 0.02), 1, 3, 30), q.weights(-1, 5, 3, 6)})
		}},
		{"depthwise", "QLinearConv", func(q *quantizedGraph) *ir.Value {
			return q.op("Conv", []*ir.Value{q.input("x", q.scale(0, 0.02), 1, 5, 9, 11), q.weights(0, 5, 1, 3, 3), q.floats(5)},
				ir.A("group", 5))
		}},
		{"pointwise", "QLinearConv", func(q *quantizedGraph) *ir.Value {
			return q.op("Conv", []*ir.Value{q.input("x", q.scale(0, 0.02), 2, 18, 5, 13), q.weights(0, 14, 18, 1, 1), q.floats(14)})
		}},
		{"quantized bias", "QLinearConv", func(q *quantizedGraph) *ir.Value {
			x, w := q.scale(0, 0.02), q.weights(0, 4, 3, 7)
			bias, scale := tensor.New(tensor.Int32, 4), tensor.New(tensor.Float32, 4)
			for i := range 4 {
				tensor.Data[int32](bias)[i] = int32(q.IntN(20000) - 10000)
				tensor.Data[float32](scale)[i] = tensor.Data[float32](x.Const)[0] *
					tensor.Data[float32](w.Def.In(1).Const)[i]
			}
			b := q.op("DequantizeLinear", []*ir.Value{q.Const("b", bias), q.Const("scale", scale)}, ir.A("axis", 0))
			return q.op("Conv", []*ir.Value{q.input("x", x, 1, 3, 30), w, b})
		}},
		{"relu", "QLinearConv", func(q *quantizedGraph) *ir.Value {
			if q.x == tensor.Int8 {
				q.zero = -128
			} else {
				q.zero = 0
			}
			return q.op("Relu", []*ir.Value{q.op("Conv",
				[]*ir.Value{q.input("x", q.scale(0, 0.02), 1, 3, 30), q.weights(0, 5, 3, 6), q.floats(5)})})
		}},
		{"relu inside the range", "Relu", func(q *quantizedGraph) *ir.Value {
			q.zero = 7
			return q.op("Relu", []*ir.Value{q.op("Conv",
				[]*ir.Value{q.input("x", q.scale(0, 0.02), 1, 3, 30), q.weights(0, 5, 3, 6), q.floats(5)})})
		}},
		{"clip", "QLinearConv", func(q *quantizedGraph) *ir.Value {
			least := 0
			if q.x == tensor.Int8 {
				least = -128
			}
			q.zero = least
			most := q.Const("most", tensor.Scalar(255*q.unit))
			return q.op("Clip", []*ir.Value{q.op("Conv", []*ir.Value{q.input("x", q.scale(0, 0.02), 1, 3, 30),
				q.weights(0, 5, 3, 6), q.floats(5)}), q.Const("least", tensor.Scalar(float32(0))), most})
		}},
		{"clip inside the range", "Clip", func(q *quantizedGraph) *ir.Value {
			return q.op("Clip", []*ir.Value{q.op("Conv", []*ir.Value{q.input("x", q.scale(0, 0.02), 1, 3, 30),
				q.weights(0, 5, 3, 6), q.floats(5)}), q.Const("least", tensor.Scalar(-5*q.unit))})
		}},
		{"matmul", "QLinearMatMul", func(q *quantizedGraph) *ir.Value {
			return q.op("MatMul", []*ir.Value{q.input("x", q.scale(0, 0.02), 2, 3, 19), q.weights(1, 19, 23)})
		}},
		{"two inputs", "QLinearMatMul", func(q *quantizedGraph) *ir.Value {
			q.unit = 4
			return q.op("MatMul", []*ir.Value{q.input("x", q.scale(0, 0.02), 2, 3, 19), q.input("y", q.scale(0, 0.02), 2, 19, 5)})
		}},
		{"gemm", "QGemm", func(q *quantizedGraph) *ir.Value {
			return q.op("Gemm", []*ir.Value{q.input("x", q.scale(0, 0.02), 3, 19), q.weights(0, 23, 19), q.floats(23)}, turned)
		}},
		{"gemm by columns", "QGemm", func(q *quantizedGraph) *ir.Value {
			q.unit = 2
			return q.op("Gemm", []*ir.Value{q.input("x", q.scale(0, 0.02), 3, 19), q.weights(-1, 19, 6)})
		}},
		{"scales of rows", "Gemm", func(q *quantizedGraph) *ir.Value {
			return q.op("Gemm", []*ir.Value{q.input("x", q.scale(0, 0.02), 3, 19), q.weights(0, 19, 6)})
		}},
		{"add", "QLinearAdd", func(q *quantizedGraph) *ir.Value {
			q.unit = 2
			return q.op("Add", []*ir.Value{q.input("x", q.scale(0, 0.4), 5, 31, 167), q.input("y", q.scale(0, 0.4), 31, 167)})
		}},
		{"add a row", "QLinearAdd", func(q *quantizedGraph) *ir.Value {
			q.unit = 2
			return q.op("Add", []*ir.Value{q.input("x", q.scale(0, 0.4), 5, 31, 167), q.input("y", q.scale(0, 0.4), 167)})
		}},
		{"add one", "QLinearAdd", func(q *quantizedGraph) *ir.Value {
			q.unit, q.zero = 8, 100
			return q.op("Add", []*ir.Value{q.input("x", q.scale(0, 0.4)), q.input("y", q.scale(0, 0.4), 3, 555)})
		}},
		{"add channels", "QLinearAdd", func(q *quantizedGraph) *ir.Value {
			q.unit = 2
			return q.op("Add", []*ir.Value{q.input("x", q.scale(0, 0.4), 3, 1), q.input("y", q.scale(0, 0.4), 3, 55)})
		}},
		{"sigmoid", "ByteTable", func(q *quantizedGraph) *ir.Value {
			q.unit = 0.01
			return q.op("Sigmoid", []*ir.Value{q.input("x", q.scale(0, 0.1), 3, 5, 67)})
		}},
		{"leaky relu", "ByteTable", func(q *quantizedGraph) *ir.Value {
			return q.op("LeakyRelu", []*ir.Value{q.input("x", q.scale(0, 0.1), 3, 67)}, ir.A("alpha", 0.2))
		}},
		{"swish", "ByteTable", func(q *quantizedGraph) *ir.Value {
			q.unit, q.zero = 0.02, 20
			x := q.input("x", q.scale(0, 0.01), 3, 2, 67)
			gate := q.op("DequantizeLinear", []*ir.Value{q.quantized(q.op("Sigmoid", []*ir.Value{x})),
				q.Const("unit", tensor.Scalar(q.unit)), q.Const("zero", tensor.New(q.x))})
			return q.op("Mul", []*ir.Value{q.op("Mul", []*ir.Value{x, gate}), q.Const("half", tensor.FromSlice([]float32{0.5}, 1))})
		}},
		{"one of a larger rank", "Mul", func(q *quantizedGraph) *ir.Value {
			half := q.Const("half", tensor.FromSlice([]float32{0.5}, 1, 1))
			return q.op("Mul", []*ir.Value{q.input("x", q.scale(0, 0.1), 67), half})
		}},
		{"largest", "MaxPool", func(q *quantizedGraph) *ir.Value {
			x := q.input("x", q.Const("unit", tensor.Scalar(q.unit)), 2, 3, 9, 13)
			q.zero = int(int8(x.Def.In(2).Const.Bytes()[0]))
			return q.op("MaxPool", []*ir.Value{x}, ir.A("kernel_shape", []int64{3, 2}), ir.A("pads", []int64{1, 0, 1, 1}))
		}},
		{"mul", "QLinearMul", func(q *quantizedGraph) *ir.Value {
			return q.op("Mul", []*ir.Value{q.input("x", q.scale(0, 0.1), 1, 67), q.input("y", q.scale(0, 0.1), 3, 5, 67)})
		}},
	} {
		for i, types := range [][2]tensor.DType{{tensor.Uint8, tensor.Int8}, {tensor.Int8, tensor.Int8},
			{tensor.Uint8, tensor.Uint8}} {
			if c.want == "QLinearAdd" || c.want == "QLinearMul" {
				types[1] = types[0]
			}
			q := &quantizedGraph{Rand: rand.New(rand.NewPCG(4, uint64(i))), x: types[0], w: types[1], unit: 0.3, zero: 11}
			q.Builder = ir.NewBuilder("g", ops.Default, ops.Opsets())
			q.Output("z", q.quantized(c.build(q)))
			g, err := q.Build()
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s, %v and %v", c.name, types[0], types[1])
			feed := map[string]tensor.Datum{}
			for _, v := range g.Inputs {
				shape, _ := v.Shape().Known()
				feed[v.Name] = q.bytes(q.x, shape...)
			}
			want := answer(t, g, ref.New(), tensor.Float64, feed)
			if err := passes.Run(g, []*passes.Pass{idiom.Integers}, passtest.Verified(t)); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return n.Op.Name == c.want }) {
				t.Errorf("%s: no %s", name, c.want)
				continue
			}
			got := answer(t, g, ref.New(), tensor.Float32, feed)
			if strings.HasPrefix(c.want, "QLinear") || c.want == "QGemm" || c.want == "ByteTable" || c.want == "MaxPool" {
				if len(g.Nodes) != 1 {
					t.Errorf("%s: %d operators", name, len(g.Nodes))
				}
				if fast := answer(t, g, cpu.New(), tensor.Float32, feed); !slices.Equal(fast.Bytes(), got.Bytes()) {
					t.Errorf("%s: the CPU backend differs", name)
				}
			}
			x, _ := want.Float64s()
			y, _ := got.Float64s()
			other, distinct := 0, map[float64]bool{}
			for i := range x {
				distinct[x[i]] = true
				if d := x[i] - y[i]; d != 0 {
					if other++; d < -1 || d > 1 {
						t.Fatalf("%s: element %d is %v, expected %v", name, i, y[i], x[i])
					}
				}
			}
			if other > 1+len(x)/50 || len(distinct) < 3 {
				t.Errorf("%s: %d of %d elements differ; %d values", name, other, len(x), len(distinct))
			}
		}
	}
}

// TestScaledProducts compares products of numbers that are quantized as they come.
func TestScaledProducts(t *testing.T) {
	for _, c := range []struct {
		want         string
		scales, axes int // of the weights; of the other scale
		zero         bool
	}{
		{"MatMulIntegerToFloat", 0, 0, true}, {"MatMulIntegerToFloat", 33, 0, true}, {"MatMulIntegerToFloat", 1, 1, false},
		{"MatMulInteger", 33, 2, true}, // the sums are multiplied by a scale for each row
	} {
		q := &quantizedGraph{Rand: rand.New(rand.NewPCG(5, 6)), x: tensor.Uint8, w: tensor.Int8}
		q.Builder = ir.NewBuilder("g", ops.Default, ops.Opsets())
		x := q.Input("x", ir.Of(tensor.New(tensor.Float32, 13, 70)))
		parts := q.Ops("", "DynamicQuantizeLinear", 3, []*ir.Value{x})
		in := []*ir.Value{parts[0], q.Const("w", q.bytes(q.w, 70, 33))}
		if c.zero {
			in = append(in, parts[2], q.Const("zero", tensor.New(q.w)))
		}
		scale := parts[1]
		if c.axes > 0 {
			shape := []int64{1, 1}[:c.axes]
			scale = q.op("Reshape", []*ir.Value{scale, q.Const("shape", tensor.FromSlice(shape, c.axes))})
		}
		if c.axes == 2 {
			rows := q.op("Reshape", []*ir.Value{q.scale(13, 0.5), q.Const("shape", tensor.FromSlice([]int64{13, 1}, 2))})
			scale = q.op("Mul", []*ir.Value{scale, rows})
		}
		sums := q.op("Cast", []*ir.Value{q.op("MatMulInteger", in)}, ir.A("to", int(tensor.Float32)))
		q.Output("z", q.op("Mul", []*ir.Value{sums, q.op("Mul", []*ir.Value{scale, q.scale(c.scales, 0.1)})}))
		g, err := q.Build()
		if err != nil {
			t.Fatal(err)
		}
		numbers := tensor.New(tensor.Float32, 13, 70)
		for i := range numbers.Len() {
			tensor.Data[float32](numbers)[i] = float32(q.NormFloat64())
		}
		feed := map[string]tensor.Datum{"x": numbers}
		want := answer(t, g, ref.New(), tensor.Float32, feed)
		if err := passes.Run(g, []*passes.Pass{idiom.Integers}, passtest.Verified(t)); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return n.Op.Name == c.want }) {
			t.Errorf("%v: no %s", c, c.want)
		}
		for _, b := range []runtime.Backend{ref.New(), cpu.New()} {
			if got := answer(t, g, b, tensor.Float32, feed); !slices.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("%v: answers differ", c)
			}
		}
	}
}

func answer(t *testing.T, g *ir.Graph, b runtime.Backend, precision tensor.DType,
	feed map[string]tensor.Datum) *tensor.Tensor {
	t.Helper()
	m, err := runtime.New(g.Clone(), runtime.Options{Backend: b, Precision: precision})
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.NewSession().Run(context.Background(), feed)
	if err != nil {
		t.Fatal(err)
	}
	return out["z"].(*tensor.Tensor)
}
