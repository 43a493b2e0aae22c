package std

import (
	"errors"
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var errZeroDelta = errors.New("delta is 0")

// constRange returns the length of a range of floats whose inputs are constants; false for others.
func constRange(n *ir.Node) (int, bool) {
	var f [3]float64
	for i := range f {
		v := n.In(i)
		if v == nil || v.Const == nil || v.Const.Len() != 1 || !v.Const.DType().IsFloat() {
			return 0, false
		}
		x, err := v.Const.Float64s()
		if err != nil {
			return 0, false
		}
		f[i] = x[0]
	}
	count := math.Ceil((f[1] - f[0]) / f[2])
	return max(0, int(count)), f[2] != 0 && count <= ops.MaxElems
}

// Range returns a range of numbers.
var Range = ops.Register(&ir.Op{
	Name: "Range", Since: 11,
	Doc: "start, start+delta, … up to but not including limit. The inputs have one element each.",
	In:  ops.Sig("start:T", "limit:T", "delta:T"), Out: ops.Sig("output:T[_]"),
	Elems:   elems("T", append([]tensor.DType{tensor.Int16, tensor.Int32, tensor.Int64}, ops.Floats...)),
	SizedBy: []int{0, 1, 2},
	Attrs: []ir.AttrSpec{intAttr("stash_type", 1,
		"element type for the computation of 16-bit floats; here it is always float64")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		elem, size := n.In(0).Elem(), ir.Unknown
		if k, ok := constRange(n); ok {
			return one(typed(elem, ir.Shape{ir.Const(int64(k))}))
		}
		if elem.IsInt() {
			var v [3]ir.Dim
			for i := range v {
				v[i] = ir.Unknown
				if d, ok := ops.DimsOf(n.In(i)); ok && len(d) == 1 {
					v[i] = d[0]
				}
			}
			if k, ok := v[2].Known(); ok {
				if k == 0 {
					return nil, errZeroDelta
				}
				if k < 0 {
					v[0], v[1], k = v[1], v[0], -k
				}
				size = v[1].Sub(v[0]).Add(ir.Const(k - 1)).FloorDiv(ir.Const(k))
				if !size.IsUnknown() && !nonNegative(size) {
					size = size.Max(ir.Const(0))
				}
			}
		}
		return one(typed(elem, ir.Shape{size}))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t, err := need(in, 0, "start")
		if err != nil {
			return nil, err
		}
		var f [3]float64
		var k [3]int64
		for i := range f {
			if v := ops.F64(c, in, i); len(v) != 1 {
				return nil, fmt.Errorf("input %d: expected a scalar", i)
			} else if f[i] = v[0]; t.DType().IsInt() {
				if k[i], err = scalarInt(c, in, i, "range"); err != nil {
					return nil, err
				}
			}
		}
		if f[2] == 0 {
			return nil, errZeroDelta
		}
		count := math.Ceil((f[1] - f[0]) / f[2])
		if math.IsNaN(count) || count > ops.MaxElems {
			return nil, fmt.Errorf("range of %v elements, more than %d", count, ops.MaxElems)
		}
		n := max(0, int(count))
		if y := plainRange(c, t.DType(), n, k, f); y != nil {
			return ops.One(y, nil)
		}
		if t.DType().IsInt() {
			out := ops.Make[int64](c, n)
			for i := range ops.Each(c, n) {
				out[i] = k[0] + int64(i)*k[2]
			}
			return ops.One(fromInts(c, t.DType(), out, n))
		}
		out := ops.Make[float64](c, n)
		for i := range ops.Each(c, n) {
			out[i] = f[0] + float64(i)*f[2]
		}
		return ops.One(ops.Real(c, t.DType(), out, n))
	},
	// The standard's body is a Loop that adds one element at a time. Here a running sum computes the indices.
	Body: func(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
		as := func(v *ir.Value, elem tensor.DType) *ir.Value {
			return attr(b, "Cast", []*ir.Value{v}, ir.A("to", int64(elem)))
		}
		elem := in[0].Elem()
		var f [3]*ir.Value
		for i := range f {
			f[i] = as(in[i], tensor.Float64)
		}
		size := op(b, "Ceil", op(b, "Div", op(b, "Sub", f[1], f[0]), f[2]))
		size = op(b, "Max", size, constLike(b, size, 0))
		// refused as a size
		size = op(b, "Where", op(b, "Equal", f[2], constLike(b, f[2], 0)), constLike(b, size, -1), size)
		size = as(size, tensor.Int64)
		ones := attr(b, "ConstantOfShape", []*ir.Value{op(b, "Reshape", size, b.Ints(1))},
			ir.A("value", tensor.FromSlice([]int64{1}, 1)))
		at := op(b, "Sub", op(b, "CumSum", ones, b.Const("c", tensor.Scalar(int64(0)))), b.Ints(1))
		first, step := f[0], f[2]
		if elem.IsInt() {
			first, step = as(in[0], tensor.Int64), as(in[2], tensor.Int64)
		} else {
			at = as(at, tensor.Float64)
		}
		return []*ir.Value{as(op(b, "Add", first, op(b, "Mul", at, step)), elem)}
	},
	Tol: ir.Rounding,
})

// plainRange computes a range in its type; nil for other types.
func plainRange(c *ir.EvalCtx, d tensor.DType, n int, k [3]int64, f [3]float64) *tensor.Tensor {
	switch {
	case d == tensor.Int64:
		return rangeOf[int64](c, n, k[0], k[2])
	case d == tensor.Int32:
		return rangeOf[int32](c, n, k[0], k[2])
	case d == tensor.Int16:
		return rangeOf[int16](c, n, k[0], k[2])
	case d == tensor.Float32 && !c.Wide:
		return rangeOf[float32](c, n, f[0], f[2])
	case d == tensor.Float64:
		return rangeOf[float64](c, n, f[0], f[2])
	}
	return nil
}

// rangeOf computes a range in type F, and converts it to T.
func rangeOf[T int16 | int32 | int64 | float32 | float64, F int64 | float64](c *ir.EvalCtx, n int, first,
	step F) *tensor.Tensor {
	out := ops.Make[T](c, n)
	for lo, hi := range ops.Parts(c, n) {
		part, at := out[lo:hi], F(lo)
		for i := range part {
			part[i] = T(first + at*step)
			at++
		}
	}
	return tensor.FromSlice(out, n)
}
