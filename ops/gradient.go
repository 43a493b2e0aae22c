package ops

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
)

// The functions of this file add nodes to gradients (ir.Op.Gradient). Values may have symbolic shapes.

// ShapeOf returns the shape of v as a value: a constant if it is known.
func ShapeOf(b *ir.Builder, v *ir.Value) *ir.Value {
	if known, ok := v.Shape().Known(); ok && v.Shape() != nil {
		return b.Ints(int64s(known)...)
	}
	return b.Op("", "Shape", []*ir.Value{v})
}

func int64s(v []int) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

// ReshapeLike gives v the shape of like, which has as many elements.
func ReshapeLike(b *ir.Builder, v, like *ir.Value) *ir.Value {
	if b.Err() != nil || v.Shape() != nil && v.Shape().Equal(like.Shape()) {
		return v
	}
	return b.Op("", "Reshape", []*ir.Value{v, ShapeOf(b, like)}, ir.A("allowzero", 1))
}

// ExpandLike repeats v to the shape of like.
func ExpandLike(b *ir.Builder, v, like *ir.Value) *ir.Value {
	if b.Err() != nil || v.Shape() != nil && v.Shape().Equal(like.Shape()) {
		return v
	}
	return b.Op("", "Expand", []*ir.Value{v, ShapeOf(b, like)})
}

// CastLike gives v the element type of like.
func CastLike(b *ir.Builder, v, like *ir.Value) *ir.Value { return CastTo(b, v, like.Elem()) }

// CastTo gives v an element type.
func CastTo(b *ir.Builder, v *ir.Value, d tensor.DType) *ir.Value {
	if b.Err() != nil || v.Elem() == d {
		return v
	}
	return b.Op("", "Cast", []*ir.Value{v}, ir.A("to", int(d)))
}

// ScalarLike makes a constant of one number, of the element type of like.
func ScalarLike(b *ir.Builder, x float64, like *ir.Value) *ir.Value {
	if b.Err() != nil {
		return nil
	}
	t, err := tensor.FromFloat64s(like.Elem(), []float64{x})
	if err != nil {
		b.Fail(err)
		return nil
	}
	return b.Const("k", t)
}

// FilledLike makes a tensor of the shape and element type of like with one number everywhere.
func FilledLike(b *ir.Builder, x float64, like *ir.Value) *ir.Value {
	if b.Err() != nil {
		return nil
	}
	return ExpandLike(b, ScalarLike(b, x, like), like)
}

// MapOf applies an expression elementwise to values of one floating type, which broadcast to each other. Values that it
// does not read count for nothing.
func MapOf(b *ir.Builder, e scalar.Expr, in ...*ir.Value) *ir.Value {
	if b.Err() != nil {
		return nil
	}
	e = scalar.Simplify(e)
	var used []*ir.Value
	to := make([]scalar.Expr, len(in))
	for i, r := range e.Reads() {
		to[r] = scalar.Input(i)
		used = append(used, in[r])
	}
	if e.Op() == scalar.OpInput {
		return used[0]
	}
	plain := !slices.ContainsFunc(e.Args(), func(a scalar.Expr) bool { return a.Op() != scalar.OpInput })
	switch { // operators that passes know
	case plain && len(used) == 2 && e.Op() == scalar.OpMul:
		return b.Op("", "Mul", used)
	case plain && e.Op() == scalar.OpNeg:
		return b.Op("", "Neg", used)
	}
	return b.Op("essm", "Map", used, ir.A("f", e.With(to...).String()))
}

// SumLike sums g over the axes along which like broadcasts to it.
func SumLike(b *ir.Builder, g, like *ir.Value) *ir.Value {
	if b.Err() != nil {
		return nil
	}
	from, to := g.Shape(), like.Shape()
	if from != nil && to != nil {
		if axes, ok := SummedAxes(from, to); ok {
			if len(axes) > 0 {
				keep := int64(0)
				if len(from) == len(to) {
					keep = 1
				}
				g = b.Op("", "ReduceSum", []*ir.Value{g, b.Ints(axes...)}, ir.A("keepdims", keep))
			}
			return ReshapeLike(b, g, like)
		}
	}
	return b.Op("essm", "SumTo", []*ir.Value{g, ShapeOf(b, like)})
}

// SummedAxes returns the axes of from over which sums make it as large as to, which broadcasts to it. ok is false if
// they do not follow from what is known of the dimensions.
func SummedAxes(from, to ir.Shape) (axes []int64, ok bool) {
	for i, d := range from {
		k := i - len(from) + len(to)
		if k < 0 {
			axes = append(axes, int64(i))
			continue
		}
		if d.Equal(to[k]) {
			continue
		}
		if n, known := to[k].Known(); !known || n != 1 {
			return nil, false
		}
		axes = append(axes, int64(i))
	}
	return axes, len(from) >= len(to)
}

// PlaceLike returns zeros of the shape of like, which has as many axes, but with element i of g at i + at, where that
// is inside.
func PlaceLike(b *ir.Builder, g, like *ir.Value, at ...int64) *ir.Value {
	if b.Err() != nil {
		return nil
	}
	pads := make([]int64, 2*len(at))
	known := g.Shape() != nil && like.Shape() != nil
	for i, p := range at {
		pads[i] = p
		if known {
			pads[len(at)+i], known = like.Shape()[i].Sub(g.Shape()[i]).Sub(ir.Const(p)).Known()
		}
	}
	if known {
		if !slices.ContainsFunc(pads, func(p int64) bool { return p != 0 }) {
			return g
		}
		return b.Op("", "Pad", []*ir.Value{g, b.Ints(pads...)})
	}
	begin := b.Ints(at...)
	end := b.Op("", "Sub", []*ir.Value{b.Op("", "Sub", []*ir.Value{ShapeOf(b, like), ShapeOf(b, g)}), begin})
	return b.Op("", "Pad", []*ir.Value{g, b.Op("", "Concat", []*ir.Value{begin, end}, ir.A("axis", 0))})
}

// GradientMoved returns the Gradient of operators whose outputs only hold elements of some inputs, and zeros. They
// must accept int64 or float64 in place of other numbers: applied to the numbers of the inputs' elements, they give
// where those of the outputs come from. Where the operator's Moves are known, they serve.
func GradientMoved(inputs ...int) func(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	return func(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
		if grads, ok := GradientPieces(b, n, dOut); ok {
			return grads
		}
		d := tensor.Int64
		if allowed := n.Op.Elems[param(n.Op, inputs[0]).Elem]; !slices.Contains(allowed, d) {
			d = tensor.Float64
		}
		one := b.Const("one", tensor.Scalar(int64(1)))
		in, ends := slices.Clone(n.Inputs), []*ir.Value{one} // 0 is left for zeros
		for _, i := range inputs {
			if n.In(i) == nil {
				continue
			}
			first := ends[len(ends)-1]
			end := b.Op("", "Add", []*ir.Value{first, b.Op("", "Size", []*ir.Value{n.In(i)})})
			in[i] = CastTo(b, ReshapeLike(b, b.Op("", "Range", []*ir.Value{first, end, one}), n.In(i)), d)
			ends = append(ends, end)
		}
		numbers := b.Apply(n.Op, len(n.Outputs), in, n.Attrs)
		if b.Err() != nil {
			return nil
		}
		flat := func(v *ir.Value) *ir.Value { return b.Op("", "Reshape", []*ir.Value{v, b.Ints(-1)}) }
		vec := func(v *ir.Value) *ir.Value { return b.Op("", "Reshape", []*ir.Value{v, b.Ints(1)}) }
		sum := b.Op("", "Expand", []*ir.Value{ScalarLike(b, 0, n.In(inputs[0])), vec(ends[len(ends)-1])})
		for i, g := range dOut {
			if g != nil {
				at := CastTo(b, flat(numbers[i]), tensor.Int64)
				sum = b.Op("", "ScatterElements", []*ir.Value{sum, at, flat(g)}, ir.A("axis", 0), ir.A("reduction",
					"add"))
			}
		}
		grads, k := make([]*ir.Value, len(n.Inputs)), 0
		for _, i := range inputs {
			if x := n.In(i); x != nil {
				grads[i] = ReshapeLike(b, b.Op("", "Slice", []*ir.Value{sum, vec(ends[k]), vec(ends[k+1])}), x)
				k++
			}
		}
		return grads
	}
}

// GradientPieces moves the pieces that the outputs of a node consist of back to its inputs (ir.Op.Moves); ok is false
// if they are not known.
func GradientPieces(b *ir.Builder, n *ir.Node, dOut []*ir.Value) (grads []*ir.Value, ok bool) {
	pieces, ok := Moves(n)
	if !ok {
		return nil, false
	}
	parts := make([][]*ir.Value, len(n.Inputs))
	for _, p := range pieces {
		x := n.In(p.Input)
		if p.Output >= len(dOut) || dOut[p.Output] == nil || x == nil || !x.Elem().IsFloat() {
			continue
		}
		g := dOut[p.Output]
		perm, at := make([]int64, len(p.From)), make([]int64, len(p.From))
		same := true
		for a, from := range p.From {
			to := a
			if p.Axes != nil {
				to = p.Axes[a]
			}
			perm[to], at[to] = int64(a), int64(from)
			same = same && to == a
		}
		if !same {
			g = b.Op("", "Transpose", []*ir.Value{g}, ir.A("perm", perm))
		}
		parts[p.Input] = append(parts[p.Input], PlaceLike(b, g, x, at...))
	}
	grads = make([]*ir.Value, len(n.Inputs))
	for i, p := range parts {
		switch len(p) {
		case 0:
		case 1:
			grads[i] = p[0]
		default:
			grads[i] = b.Op("", "Sum", p)
		}
	}
	return grads, true
}

// GradientReshaped is the Gradient of operators that give their first input another shape.
func GradientReshaped(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	return []*ir.Value{ReshapeLike(b, dOut[0], n.In(0))}
}

// GradientZero is the Gradient of operators whose outputs do not depend on the numbers of their inputs, or only by
// steps.
func GradientZero(*ir.Builder, *ir.Node, []*ir.Value) []*ir.Value { return nil }

// NoGradientError reports that a node has no gradient because of its attributes or inputs, while others of its
// operator may have one.
type NoGradientError struct{ Why string }

func (e *NoGradientError) Error() string { return "has no gradient: " + e.Why }

// GradientMap returns the gradients of outputs that are expressions of the inputs at the same place: those of dOut with
// respect to the inputs, which have any floating types. Gradients have the shape of the outputs.
func GradientMap(b *ir.Builder, in, dOut []*ir.Value, outs []scalar.Expr) []*ir.Value {
	if b.Err() != nil {
		return nil
	}
	var like *ir.Value
	for _, g := range dOut {
		if g != nil && (like == nil || g.Elem() == tensor.Float64) {
			like = g
		}
	}
	args := make([]*ir.Value, len(in)+len(dOut))
	arg := func(i int, v *ir.Value) { // casts what is read, once
		if args[i] == nil {
			args[i] = CastLike(b, v, like)
		}
	}
	grads := make([]*ir.Value, len(in))
	for i, v := range in {
		if v == nil || !v.Elem().IsFloat() {
			continue
		}
		var sum scalar.Expr
		for k, e := range outs {
			if dOut[k] == nil {
				continue
			}
			if d := scalar.Derivative(e, i); !d.IsConst(0) {
				term := scaled(scalar.Input(len(in)+k), d)
				if sum.Valid() {
					term = scalar.Add(sum, term)
				}
				sum = term
			}
		}
		if !sum.Valid() {
			continue
		}
		for _, r := range sum.Reads() {
			if r < len(in) {
				arg(r, in[r])
			} else {
				arg(r, dOut[r-len(in)])
			}
		}
		if grads[i] = MapOf(b, sum, args...); b.Err() == nil {
			grads[i] = CastLike(b, grads[i], v)
		}
	}
	return grads
}

// scaled is g·d, but 0 where d selects 0, whatever g is.
func scaled(g, d scalar.Expr) scalar.Expr {
	switch {
	case d.IsConst(0):
		return d
	case d.IsConst(1):
		return g
	case d.IsConst(-1):
		return scalar.Neg(g)
	case d.Op() == scalar.OpSelect:
		return scalar.Select(d.Arg(0), scaled(g, d.Arg(1)), scaled(g, d.Arg(2)))
	case d.Op() == scalar.OpLess, d.Op() == scalar.OpLessEqual, d.Op() == scalar.OpEqual:
		return scalar.Select(d, g, scalar.Const(0))
	}
	return scalar.Mul(g, d)
}

// NotYet is the NoGradient of operators that could have a gradient.
const NotYet = "is not differentiated yet"
