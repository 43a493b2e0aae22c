package opstest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Answer computes an element of an operator's result in float64, independently of its expression. x holds elements of
// the inputs, NaN for an absent one. Truth values are 0 and 1.
type Answer func(n *ir.Node, x []float64) float64

// Edges are values at which functions change their course, or the range of a type ends.
var Edges = func() []float64 {
	var out []float64
	for _, v := range []float64{0, 5e-324, 1e-310, 2.2250738585072014e-308, 1e-45, 1.2e-38, 6e-8, 6.1e-5, 1e-9,
		1e-3, 0.2, 0.25, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 5.5, 6, 17, 20, 40, 88, 104, 700, 709.5, 746,
		65504, 65520, 16777217, 1 << 53, 3.4e38, 1e300, math.MaxFloat64, math.Inf(1)} {
		out = append(out, v, -v)
	}
	return append(out, math.NaN())
}()

// Element compares every operator with an expression against its answer, bit by bit: the evaluation, and the
// expression at single points. Inputs are the samples' with edge values and random numbers, in all floating types
// that the operator accepts. Operators that behave elementwise on their samples, but have no expression, must be in
// without, with the reason.
func (u Suite) Element(t *testing.T, answers map[string]Answer, without map[string]string) {
	r := rand.New(rand.NewPCG(11, 12))
	checked, seen := map[string]int{}, map[string]bool{}
	plain := map[string]bool{} // operators without an expression: whether all samples are elementwise
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		if op.Element == nil {
			if ops.Newest(op) {
				if is, ok := elementwise(t, op, s); ok {
					before, found := plain[op.Name]
					plain[op.Name] = is && (before || !found)
				}
			}
			return
		}
		seen[op.Name] = true
		answer := answers[op.Name]
		if answer == nil {
			t.Fatalf("%s has no answers", op.Name)
		}
		checked[op.Name] += Elements(t, r, op, s, answer)
	})
	for name := range seen {
		if checked[name] == 0 {
			t.Errorf("%s was not checked", name)
		}
	}
	for name := range answers {
		if !seen[name] {
			t.Errorf("there are answers for %s, which has no expression", name)
		}
	}
	for name, is := range plain {
		if why := without[name]; is && why == "" {
			t.Errorf("%s treats each element by itself, but has no expression", name)
		}
	}
	for name := range without {
		if !plain[name] {
			t.Errorf("%s is not elementwise, or has an expression", name)
		}
	}
}

// Elements is Element for one sample. It returns the number of evaluations, 0 if the sample has integers, strings or
// sequences.
func Elements(t *testing.T, r *rand.Rand, op *ir.Op, s Sample, answer Answer) int {
	t.Helper()
	if _, ok := ops.Element(Plain(t, op, s)); !ok {
		return 0
	}
	checked := 0
	for _, d := range ops.Floats {
		for range 30 {
			v := s
			v.In = slices.Clone(s.In)
			for i, x := range s.In {
				if x, ok := x.(*tensor.Tensor); ok && (x.DType() != tensor.Float64 || d == tensor.Float64) {
					v.In[i] = replaced(t, r, x, d)
				}
			}
			n, ok := node(op, v)
			if !ok {
				break // not of this type
			}
			e, ok := ops.Element(n)
			if !ok {
				t.Fatalf("no expression for %v", n)
			}
			for _, wide := range []bool{false, true} {
				in := v.In
				if wide {
					in = widened(in)
				}
				got, err := Eval(n, in, wide)
				if err != nil {
					t.Fatalf("%v: %v", d, err)
				}
				checked++
				compareElements(t, n, e, answer, in, ops.Tensor(got, 0))
			}
		}
	}
	return checked
}

// node applies an operator to a sample. The result is false if types do not fit.
func node(op *ir.Op, s Sample) (*ir.Node, bool) {
	n := &ir.Node{Op: op, Attrs: ir.NewAttrs(s.Attrs...), Outputs: []*ir.Value{{Name: "out"}}}
	for i, d := range s.In {
		var v *ir.Value
		if d != nil {
			v = &ir.Value{Name: fmt.Sprintf("in%d", i), Type: TypeOf(d, itself)}
			if x, ok := d.(*tensor.Tensor); ok && slices.Contains(s.Consts, i) {
				v = ir.NewConst(v.Name, x)
			}
		}
		n.Inputs = append(n.Inputs, v)
	}
	return n, ir.InferNode(n) == nil
}

// replaced makes a tensor of x's shape with other elements, of type d if x has floats.
func replaced(t *testing.T, r *rand.Rand, x *tensor.Tensor, d tensor.DType) *tensor.Tensor {
	t.Helper()
	v := make([]float64, x.Len())
	for i := range v {
		switch {
		case x.DType() == tensor.Bool:
			v[i] = float64(r.IntN(2))
		case r.IntN(3) == 0:
			v[i] = r.NormFloat64() * 3
		default:
			v[i] = Edges[r.IntN(len(Edges))]
		}
	}
	if x.DType() == tensor.Bool {
		d = tensor.Bool
	} else if !x.DType().IsFloat() {
		return x
	}
	y, err := tensor.FromFloat64s(d, v, x.Shape()...)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

func compareElements(t *testing.T, n *ir.Node, e scalar.Expr, answer Answer, in []tensor.Datum, got *tensor.Tensor) {
	t.Helper()
	var shapes [][]int
	nums := make([][]float64, len(in))
	for i := range in {
		if x := ops.Tensor(in, i); x != nil {
			shapes = append(shapes, x.Shape())
			nums[i] = ops.F64(nil, in, i)
		}
	}
	shape, err := ops.Broadcast(shapes...)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(shape, got.Shape()) {
		t.Fatalf("shape %v, expected %v", got.Shape(), shape)
	}
	have, err := got.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float64, len(in))
	for at := range have {
		for i := range in {
			if x[i] = math.NaN(); nums[i] != nil {
				x[i] = nums[i][sourceOf(at, shape, ops.Tensor(in, i).Shape())]
			}
		}
		for way, v := range map[string]float64{"other code": answer(n, x), "the expression " + e.String(): e.At(x...)} {
			want, err := tensor.FromFloat64s(got.DType(), []float64{v}, 1)
			if err != nil {
				t.Fatal(err)
			}
			w, err := want.Float64s()
			if err != nil {
				t.Fatal(err)
			}
			if w, h := w[0], have[at]; math.Float64bits(w) != math.Float64bits(h) && !(w != w && h != h) {
				t.Fatalf("%v: element %d of %v, of %v: evaluated %v, %s gives %v", n.Op.Name, at, got, x, h, way, w)
			}
		}
	}
}

// sourceOf is the element of an operand that broadcasts to place at of a result.
func sourceOf(at int, shape, operand []int) int {
	from, stride := 0, 1
	for i := len(shape) - 1; i >= 0; i-- {
		place := at % shape[i]
		at /= shape[i]
		if k := i - len(shape) + len(operand); k >= 0 {
			if operand[k] > 1 {
				from += place * stride
			}
			stride *= operand[k]
		}
	}
	return from
}

// elementwise changes elements of a sample's float inputs one by one. is reports whether the first output changes
// only at the places to which they broadcast, and ok whether the sample shows that.
func elementwise(t *testing.T, op *ir.Op, s Sample) (is, ok bool) {
	var shapes [][]int
	varies := false
	for i, d := range s.In {
		x, isTensor := d.(*tensor.Tensor)
		if isTensor && x.DType().IsFloat() && x.Len() > 0 {
			shapes = append(shapes, x.Shape())
			varies = varies || x.Len() > 1 && !slices.Contains(s.Consts, i)
		}
	}
	if !varies {
		return false, false
	}
	n := Plain(t, op, s)
	before, err := Eval(n, s.In, false)
	if err != nil {
		return false, false
	}
	out := ops.Tensor(before, 0)
	if out == nil || out.DType() != tensor.Bool && !out.DType().IsFloat() {
		return false, false
	}
	shape, err := ops.Broadcast(shapes...)
	if err != nil || !slices.Equal(shape, out.Shape()) {
		return false, true
	}
	old := ops.F64(nil, before, 0)
	changed := false
	for i, d := range s.In {
		x, isTensor := d.(*tensor.Tensor)
		if !isTensor || x.DType() != tensor.Float32 || slices.Contains(s.Consts, i) {
			continue
		}
		for k := range x.Len() {
			in := slices.Clone(s.In)
			y := x.Clone()
			tensor.Data[float32](y)[k] += 0.75
			in[i] = y
			after, err := Eval(n, in, false)
			if err != nil {
				return false, true
			}
			now := ops.F64(nil, after, 0)
			if len(now) != len(old) {
				return false, true
			}
			for at := range now {
				if math.Float64bits(now[at]) == math.Float64bits(old[at]) {
					continue
				}
				changed = true
				if sourceOf(at, shape, x.Shape()) != k {
					return false, true
				}
			}
		}
	}
	return changed, changed
}
