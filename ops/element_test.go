package ops_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// elementNode applies an operator that has nothing but a signature and an expression.
func elementNode(op *ir.Op, in ...tensor.Datum) *ir.Node {
	n := &ir.Node{Op: op, Outputs: []*ir.Value{{Name: "y"}}}
	for i, d := range in {
		var v *ir.Value
		if d != nil {
			v = &ir.Value{Name: fmt.Sprintf("x%d", i), Type: ir.Of(d.(*tensor.Tensor))}
		}
		n.Inputs = append(n.Inputs, v)
	}
	return n
}

func variadic(f func(x []scalar.Expr) scalar.Expr) *ir.Op {
	return &ir.Op{
		Domain: "test", Name: "Op", In: []ir.Param{{Name: "x", Elem: "T", Variadic: true}}, Out: ops.Sig("y:T"),
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return f(x) },
	}
}

func ramp(shape ...int) *tensor.Tensor {
	n, _ := tensor.Size(shape)
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i%97)/16 - 3
	}
	return tensor.FromSlice(v, shape...)
}

// TestElementBroadcasts checks evaluations on operands of many shapes against those on operands that are as large as the
// result.
func TestElementBroadcasts(t *testing.T) {
	op := variadic(func(x []scalar.Expr) scalar.Expr { // the second and third are joined first
		return scalar.Add(scalar.Mul(x[0], scalar.Exp(scalar.Sub(x[1], x[2]))), scalar.Sin(x[2]))
	})
	for _, shapes := range [][3][]int{
		{{7}, {7}, {7}}, {{300}, {1}, {}}, {{5, 300}, {300}, {300}}, {{5, 300}, {5, 1}, {300}}, {{300, 1}, {1, 5}, {1}},
		{{1}, {300, 5}, {5}},
		{{2, 3, 4, 5}, {3, 1, 5}, {2, 1, 1, 1}}, {{2, 1, 4, 1}, {3, 1, 5}, {1, 1, 4, 5}}, {{1, 1}, {1}, {}}, {{0, 3}, {3},
			{1}},
		{{4, 1, 257}, {1, 3, 1}, {4, 3, 1}}, {{2, 300, 1, 2}, {300, 1, 1}, {1, 2}},
	} {
		var in, whole []tensor.Datum
		shape, err := ops.Broadcast(shapes[0], shapes[1], shapes[2])
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range shapes {
			x := ramp(s...)
			in = append(in, x)
			whole = append(whole, tensor.FromSlice(ops.BroadcastTo(nil, tensor.Data[float32](x), s, shape), shape...))
		}
		for _, wide := range []bool{false, true} {
			got, err := ops.EvalElement(&ir.EvalCtx{Node: elementNode(op, in...), Wide: wide}, in)
			if err != nil {
				t.Fatalf("%v: %v", shapes, err)
			}
			want, err := ops.EvalElement(&ir.EvalCtx{Node: elementNode(op, whole...), Wide: wide}, whole)
			if err != nil {
				t.Fatal(err)
			}
			y := got[0].(*tensor.Tensor)
			typed := (y.DType() == tensor.Float64) == wide
			if !tensor.Equal(y, want[0].(*tensor.Tensor)) || !slices.Equal(y.Shape(), shape) || !typed {
				t.Errorf("%v: expected %s, found %s", shapes, want[0], y)
			}
			if v := ops.F64(nil, whole, 0); len(v) > 0 { // and against one point
				k := len(v) - 1
				e := v[k]*math.Exp(ops.F64(nil, whole, 1)[k]-ops.F64(nil, whole, 2)[k]) + math.Sin(
					ops.F64(nil, whole, 2)[k])
				if last := ops.F64(nil, got, 0)[k]; math.Abs(last-e) > 1e-6*math.Abs(e)+1e-9 {
					t.Errorf("%v: expected %v, found %v", shapes, e, last)
				}
			}
		}
	}
}

// TestElementManyInputs goes beyond the sets that keys hold.
func TestElementManyInputs(t *testing.T) {
	op := variadic(func(x []scalar.Expr) scalar.Expr {
		e := x[0]
		for _, a := range x[1:] {
			e = scalar.Add(e, a)
		}
		return e
	})
	for _, n := range []int{1, 5, 63, 64, 65, 200} {
		in := []tensor.Datum{tensor.FromSlice([]float32{0.25, 0.5}, 2)}
		for i := 1; i < n; i++ {
			in = append(in, tensor.Scalar(float32(i)))
		}
		got, err := ops.EvalElement(&ir.EvalCtx{Node: elementNode(op, in...)}, in)
		if err != nil {
			t.Fatal(err)
		}
		sum := float32(n * (n - 1) / 2)
		if want := tensor.FromSlice([]float32{sum + 0.25, sum + 0.5}, 2); !tensor.Equal(got[0].(*tensor.Tensor), want) {
			t.Errorf("%d inputs: %v", n, ops.F64(nil, got, 0))
		}
	}
}

// TestElementAttributes keeps what nodes of one operator with different attributes compute apart.
func TestElementAttributes(t *testing.T) {
	op := &ir.Op{
		Domain: "test", Name: "Op", In: ops.Sig("x:T", "y:T?"), Out: ops.Sig("z:T"),
		Attrs: []ir.AttrSpec{{Name: "k", Kind: ir.AttrFloat, Default: 2.0}, {Name: "mode", Kind: ir.AttrString}},
		Element: func(n *ir.Node, x []scalar.Expr) scalar.Expr {
			e := scalar.Mul(x[0], scalar.Const(n.Attrs.Float("k", 2)))
			if x[1].Valid() {
				e = scalar.Sub(e, x[1])
			}
			if n.Attrs.Str("mode", "") == "neg" {
				e = scalar.Neg(e)
			}
			return e
		},
	}
	numeric := *op
	numeric.Attrs = op.Attrs[:1] // a key of numbers
	var wait sync.WaitGroup
	for i := range 2000 { // more than are kept
		wait.Go(func() {
			x, y := tensor.Scalar(float32(3)), tensor.Scalar(float32(1))
			for _, op := range []*ir.Op{op, &numeric} {
				for _, in := range [][]tensor.Datum{{x}, {x, y}, {x, nil}} {
					n := elementNode(op, in...)
					n.Attrs = ir.NewAttrs(ir.A("k", float64(i)))
					want := 3 * float64(i)
					if len(in) > 1 && in[1] != nil {
						want--
					}
					if i%2 == 1 && op != &numeric {
						n.Attrs = n.Attrs.With("mode", "neg")
						want = -want
					}
					got, err := ops.EvalElement(&ir.EvalCtx{Node: n}, in)
					if err != nil || ops.F64(nil, got, 0)[0] != want {
						t.Errorf("k=%d, %d inputs: expected %v, found %v, %v", i, len(in), want, got, err)
					}
				}
			}
		})
	}
	wait.Wait()
}

// Errors of evaluations name the input, with the expected and the found.
func TestElementErrors(t *testing.T) {
	sum := &ir.Op{Domain: "test", Name: "Op", In: ops.Sig("a:T", "b:T", "c:U?"), Out: ops.Sig("y:T"),
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr {
			if x[2].Valid() {
				return scalar.Expr{}
			}
			return scalar.Add(x[0], x[1])
		}}
	x, large := ramp(3), "more than"
	if strconv.IntSize == 32 {
		large = "too large" // an int cannot count the bytes
	}
	for _, c := range []struct {
		in   []tensor.Datum
		want string
	}{
		{[]tensor.Datum{x}, "input 1 (b) is missing"}, {[]tensor.Datum{nil, x}, "input 0 (a) is missing"},
		{[]tensor.Datum{x, tensor.Scalar(1.0)}, "element types float32 and float64 differ"},
		{[]tensor.Datum{x, ramp(2)}, "do not broadcast"},
		{[]tensor.Datum{x, x, tensor.Scalar(int8(1))}, "test.Op has no expression"},
		{[]tensor.Datum{tensor.FromStrings([]string{"a"}, 1), tensor.FromStrings([]string{"b"}, 1)},
			"cannot read string as float64"},
		{[]tensor.Datum{ramp(1<<20, 1), ramp(1, 1<<20)}, large},
	} {
		_, err := ops.EvalElement(&ir.EvalCtx{Node: elementNode(sum, c.in...)}, c.in)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("expected %q, found %v", c.want, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	x = ramp(1 << 15)
	defer func() {
		if end, ok := recover().(*ir.Ended); !ok || !errors.Is(end, context.Canceled) {
			t.Errorf("a cancelled evaluation ends with %v", end)
		}
	}()
	_, err := ops.EvalElement(&ir.EvalCtx{Node: elementNode(sum, x, x), Ctx: ctx}, []tensor.Datum{x, x})
	t.Errorf("a cancelled evaluation gives %v", err)
}

// TestElementOf lists the nodes that a backend can compute from the expression.
func TestElementOf(t *testing.T) {
	value := func(name string, typ ir.Type) *ir.Value { return &ir.Value{Name: name, Type: typ} }
	f32 := func(dims ...ir.Dim) ir.Type { return &ir.TensorType{Elem: tensor.Float32, Shape: dims} }
	of := func(name string, in ...*ir.Value) *ir.Node {
		n := &ir.Node{Op: ops.Default.Resolve("", name, 99), Inputs: in, Outputs: []*ir.Value{{Name: "y"}}}
		if err := ir.InferNode(n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	l := ir.Sym("L")
	x, y := value("x", f32(l, ir.Const(3))), value("y", f32(ir.Const(3)))
	flag, whole := value("c", &ir.TensorType{Elem: tensor.Bool, Shape: ir.Shape{l, ir.Const(3)}}),
		value("i", &ir.TensorType{Elem: tensor.Int64, Shape: ir.Shape{l, ir.Const(3)}})
	for _, c := range []struct {
		n    *ir.Node
		want string
	}{
		{of("Add", x, y), "x0 + x1"}, {of("Gelu", x), "gelu(x0)"}, {of("Where", flag, x, y), "select(x0, x1, x2)"},
		{of("Less", x, y), "x0 < x1"}, {of("And", flag, flag), "select(x0, x1, 0)"},
		{of("Clip", x, nil, value("max", f32())), "clip(x0, -Inf, x2)"},
		{of("Pow", x, ir.NewConst("two", tensor.Scalar(int64(2)))), "pow(x0, x1)"},
		{of("Pow", x, whole), ""}, {of("Add", whole, whole), ""}, {of("Less", whole, whole), ""},
		{of("Where", flag, whole, whole), ""}, {of("MatMul", x, value("w", f32(ir.Const(3), ir.Const(4)))), ""},
		{of("Clip", y, value("min", f32(ir.Const(1), ir.Const(1)))), ""},
		{of("Clip", x, value("min", &ir.OptionalType{Elem: f32()})), ""},
		{of("Identity", value("s", &ir.SequenceType{Elem: f32()})), ""},
	} {
		e, ok := ops.Element(c.n)
		if ok != (c.want != "") || ok && e.String() != c.want {
			t.Errorf("%v: expected %q, found %v, %v", c.n, c.want, e, ok)
		}
	}
}

// TestElementIsEnough registers an operator by a signature and an expression: the rest of the record follows.
func TestElementIsEnough(t *testing.T) {
	op := ops.Register(&ir.Op{
		Domain: "test", Name: "Hypotenuse", Doc: "sqrt(a²+b²) with broadcasting.", In: ops.Sig("a:T", "b:T"),
		Out: ops.Sig("c:T"), Tol: ir.Rounding,
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr {
			return scalar.Sqrt(scalar.Add(scalar.Mul(x[0], x[0]), scalar.Mul(x[1], x[1])))
		},
	})
	l := ir.Sym("L")
	n := &ir.Node{Op: op, Outputs: []*ir.Value{{Name: "c"}}, Inputs: []*ir.Value{
		{Name: "a", Type: &ir.TensorType{Elem: tensor.Float32, Shape: ir.Shape{l, ir.Const(2)}}},
		{Name: "b", Type: ir.Tensor(tensor.Float32)}}}
	if err := ir.InferNode(n); err != nil || n.Outputs[0].Type.String() != n.Inputs[0].Type.String() {
		t.Errorf("inferred %v, %v", n.Outputs[0].Type, err)
	}
	if f := op.Along(n, []ir.Fact{{Symbol: "L", Axis: 0, Stride: 1},
		{}}); f[0].Axis != 0 || f[0].Global || f[0].Back != 0 {
		t.Errorf("facts %v", f)
	}
	in := []tensor.Datum{tensor.FromSlice([]float32{3, 5}, 1, 2), tensor.FromSlice([]float32{4}, 1)}
	got, err := op.Eval(&ir.EvalCtx{Node: n, Ctx: context.Background()}, in)
	if err != nil || !tensor.Equal(got[0].(*tensor.Tensor), tensor.FromSlice([]float32{5, float32(math.Sqrt(41))},
		1, 2)) {
		t.Errorf("%v, %v", got, err)
	}
}
