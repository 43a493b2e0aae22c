package ops

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Axis makes an axis of a tensor of the given rank non-negative.
func Axis(axis int64, rank int) (int, error) {
	if axis < -int64(rank) || axis >= int64(rank) {
		return 0, fmt.Errorf("axis %d is outside of rank %d", axis, rank)
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), nil
}

// AxesOf makes axes non-negative and sorts them. A repeated axis is an error.
func AxesOf(axes []int64, rank int) ([]int, error) {
	out := make([]int, min(len(axes), rank+1)) // one more repeats one of them
	for i, a := range axes[:len(out)] {
		x, err := Axis(a, rank)
		if err != nil {
			return nil, err
		}
		out[i] = x
	}
	slices.Sort(out)
	for i := 1; i < len(out); i++ {
		if out[i] == out[i-1] {
			return nil, fmt.Errorf("axes %v name axis %d twice", axes, out[i])
		}
	}
	return out, nil
}

// Permutation returns a Transpose's order of axes, from 0 on; without the attribute it is the opposite one. The ranks
// of the node must be known.
func Permutation(n *ir.Node) []int64 {
	rank := len(n.Outputs[0].Shape())
	order := make([]int64, rank)
	for i := range order {
		order[i] = int64(rank - 1 - i)
	}
	for i, p := range n.Attrs.Ints("perm", nil) {
		if i == len(order) { // of unknown rank
			order = append(order, 0)
		}
		if order[i] = p; p < 0 {
			order[i] += int64(len(n.Attrs.Ints("perm", nil)))
		}
	}
	return order
}

// ConstInts returns the elements of an integer constant.
func ConstInts(v *ir.Value) ([]int64, bool) {
	if v == nil {
		return nil, false
	}
	if v.Const == nil && v.Def != nil && v.Def.Op.Domain == "" {
		switch v.Def.Op.Name {
		case "Constant":
			if t := v.Def.Attrs.Tensor("value"); t != nil {
				x, err := t.Int64s()
				return x, err == nil
			}
			if x, ok := v.Def.Attrs.Get("value_int").(int64); ok {
				return []int64{x}, true
			}
			if x, ok := v.Def.Attrs.Get("value_ints").([]int64); ok {
				return x, true
			}
		case "Identity":
			return ConstInts(v.Def.In(0))
		}
		return nil, false
	}
	if v.Const == nil {
		return nil, false
	}
	x, err := v.Const.Int64s()
	return x, err == nil
}

// maxDims bounds the length of the integer vectors that DimsOf follows. Longer ones are data, not shapes.
const maxDims = 64

// DimsOf returns the elements of an integer scalar or vector as dimensions. It follows the arithmetic by which models
// compute shapes (Shape, Gather, Slice, Concat, Add, …) back to constants and dimensions of values. Elements of other
// origin are unknown. ok is false if not even their number is known.
func DimsOf(v *ir.Value) (dims ir.Shape, ok bool) {
	t := dimTracer{seen: map[*ir.Value]ir.Shape{}}
	return t.trace(v, 0)
}

type dimTracer struct{ seen map[*ir.Value]ir.Shape }

func (t *dimTracer) trace(v *ir.Value, depth int) (ir.Shape, bool) {
	if v == nil || depth > 64 {
		return nil, false
	}
	if s, ok := t.seen[v]; ok {
		return s, s != nil
	}
	t.seen[v] = nil
	s, ok := t.compute(v, depth)
	if ok {
		s = held(v.Elem(), s)
	} else {
		s, ok = unknownElems(v)
	}
	if ok {
		t.seen[v] = s
	}
	return s, ok
}

// held returns the elements that d holds as they are. Others wrap around, and are unknown.
func held(d tensor.DType, s ir.Shape) ir.Shape {
	if d == tensor.Int64 || d == tensor.Invalid {
		return s
	}
	if !slices.ContainsFunc(s, func(x ir.Dim) bool { return !holds(d, x) }) {
		return s
	}
	out := slices.Clone(s)
	for i, x := range s {
		if !holds(d, x) {
			out[i] = ir.Unknown
		}
	}
	return out
}

func holds(d tensor.DType, x ir.Dim) bool {
	k, known := x.Known()
	if !known {
		return d == tensor.Int32
	}
	if d == tensor.Int32 { // the usual type
		return k == int64(int32(k))
	}
	t, err := tensor.FromSlice([]int64{k}, 1).Convert(d, false)
	if err != nil {
		return false
	}
	v, err := t.Int64s()
	return err == nil && v[0] == k
}

// unknownElems returns unknown dimensions for a vector of known length.
func unknownElems(v *ir.Value) (ir.Shape, bool) {
	tt, ok := v.TensorType()
	if !ok || tt.NoRank || len(tt.Shape) > 1 {
		return nil, false
	}
	n := int64(1)
	if len(tt.Shape) == 1 {
		if n, ok = tt.Shape[0].Known(); !ok || n < 0 || n > maxDims {
			return nil, false
		}
	}
	s := make(ir.Shape, n)
	for i := range s {
		s[i] = ir.Unknown
	}
	return s, true
}

func (t *dimTracer) compute(v *ir.Value, depth int) (ir.Shape, bool) {
	if x, ok := ConstInts(v); ok {
		if len(x) > maxDims || v.Elem() != tensor.Invalid && !v.Elem().IsInt() {
			return nil, false
		}
		s := make(ir.Shape, len(x))
		for i, n := range x {
			s[i] = ir.Const(n)
		}
		return s, true
	}
	n := v.Def
	if n == nil || n.Op.Domain != "" {
		return nil, false
	}
	arg := func(i int) (ir.Shape, bool) { return t.trace(n.In(i), depth+1) }
	switch n.Op.Name {
	case "Shape":
		s := n.In(0).Shape()
		if s == nil {
			return nil, false
		}
		from, to := ShapeRange(n.Attrs, len(s))
		return slices.Clone(s[from:to]), true
	case "Size":
		if s := n.In(0).Shape(); s != nil {
			return ir.Shape{s.Size()}, true
		}
	case "Identity", "Squeeze", "Unsqueeze", "Reshape":
		if len(v.Shape()) <= 1 {
			return arg(0)
		}
	case "Cast":
		if v.Elem().IsInt() && n.In(0).Elem().IsInt() {
			return arg(0)
		}
	case "Concat":
		var out ir.Shape
		for i := range n.Inputs {
			s, ok := arg(i)
			if !ok || len(out)+len(s) > maxDims {
				return nil, false
			}
			out = append(out, s...)
		}
		return out, true
	case "Gather":
		s, ok := arg(0)
		idx, okIdx := ConstInts(n.In(1))
		if !ok || !okIdx || len(idx) > maxDims || len(n.In(0).Shape()) != 1 {
			return nil, false
		}
		out := make(ir.Shape, len(idx))
		for i, x := range idx {
			a, err := Axis(x, len(s))
			if err != nil {
				return nil, false
			}
			out[i] = s[a]
		}
		return out, true
	case "Slice":
		return t.slice(n, arg)
	case "Add", "Sub", "Mul", "Div", "Min", "Max":
		if !v.Elem().IsInt() || len(n.Inputs) != 2 {
			return nil, false
		}
		a, okA := arg(0)
		b, okB := arg(1)
		if !okA || !okB || len(a) != len(b) && len(a) != 1 && len(b) != 1 {
			return nil, false
		}
		out := make(ir.Shape, max(len(a), len(b)))
		if len(a) == 0 || len(b) == 0 {
			out = ir.Shape{}
		}
		for i := range out {
			out[i] = dimArith(n.Op.Name, a[min(i, len(a)-1)], b[min(i, len(b)-1)])
		}
		return out, true
	}
	return nil, false
}

func dimArith(op string, a, b ir.Dim) ir.Dim {
	switch op {
	case "Add":
		return a.Add(b)
	case "Sub":
		return a.Sub(b)
	case "Mul":
		return a.Mul(b)
	case "Min":
		return a.Min(b)
	case "Max":
		return a.Max(b)
	}
	// Integer division truncates, which is the floor for dimensions: they are not negative.
	if k, ok := b.Known(); !ok || k <= 0 {
		return ir.Unknown
	}
	if k, ok := a.Known(); ok && k < 0 {
		return ir.Unknown
	}
	return a.FloorDiv(b)
}

func (t *dimTracer) slice(n *ir.Node, arg func(int) (ir.Shape, bool)) (ir.Shape, bool) {
	s, ok := arg(0)
	starts, ok1 := ConstInts(n.In(1))
	ends, ok2 := ConstInts(n.In(2))
	if !ok || !ok1 || !ok2 || len(starts) != 1 || len(ends) != 1 {
		return nil, false
	}
	step := int64(1)
	if n.In(4) != nil {
		st, ok := ConstInts(n.In(4))
		if !ok || len(st) != 1 || st[0] == 0 {
			return nil, false
		}
		step = st[0]
	}
	from, count := SliceRange(starts[0], ends[0], step, int64(len(s)))
	out := make(ir.Shape, 0, count)
	for range count {
		out = append(out, s[from])
		from += step
	}
	return out, true
}

// SliceRange resolves one axis of ONNX's Slice. It returns the first index and the number of elements. step is not 0.
func SliceRange(start, end, step, dim int64) (first, count int64) {
	if start < 0 {
		start += dim
	}
	if end < 0 {
		end += dim
	}
	if step > 0 {
		start, end = min(max(start, 0), dim), min(max(end, 0), dim)
		if end <= start {
			return start, 0
		}
		return start, (end-start-1)/step + 1
	}
	start, end = min(max(start, 0), dim-1), min(max(end, -1), dim-1)
	if start <= end {
		return max(start, 0), 0
	}
	if step == -1<<63 {
		return start, 1
	}
	return start, (start-end-1)/(-step) + 1
}

// ShapeRange resolves the start and end attributes of ONNX's Shape.
func ShapeRange(attrs ir.Attrs, rank int) (from, to int) {
	r := int64(rank)
	clamp := func(x int64) int64 {
		if x < 0 {
			x += r
		}
		return min(max(x, 0), r)
	}
	a, b := clamp(attrs.Int("start", 0)), clamp(attrs.Int("end", r))
	return int(a), int(max(a, b))
}

// UnionShape returns the type of a value that has type a or b. Ranks and dimensions that differ become unknown. Element
// types must be equal.
func UnionShape(a, b *ir.TensorType) (*ir.TensorType, error) {
	if a.Elem != b.Elem {
		return nil, fmt.Errorf("element types %v and %v differ", a.Elem, b.Elem)
	}
	if a.NoRank || b.NoRank || len(a.Shape) != len(b.Shape) {
		return &ir.TensorType{Elem: a.Elem, NoRank: true}, nil
	}
	t := &ir.TensorType{Elem: a.Elem, Shape: slices.Clone(a.Shape)}
	for i := range t.Shape {
		if !t.Shape[i].Equal(b.Shape[i]) {
			t.Shape[i] = ir.Unknown
		}
	}
	return t, nil
}
