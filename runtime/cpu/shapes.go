package cpu

import (
	"context"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// maxKnown bounds the elements of a value that is computed when shapes are bound: sizes, indices, and the states that an
// exporter fills with zeros.
const maxKnown = 1 << 14

// resolve learns what the graph alone does not say: with the inputs' shapes, operators are inferred again, step by step, and
// what follows from shapes alone (Shape, arithmetic on sizes, ConstantOfShape) is computed. Steps that nothing is left of
// are marked dead.
func (d *lbinding) resolve() {
	for _, s := range d.p.steps {
		if s.branches != nil {
			d.resolveIf(s)
			continue
		}
		if s.body != nil {
			d.resolveBody(s)
			continue
		}
		if d.resolveSequence(s) {
			continue
		}
		known, constant := true, s.node.Op.Eval != nil && !s.node.Op.Random && len(s.captures) == 0 && len(s.node.Subgraphs()) == 0
		for _, v := range s.out {
			known = known && (v == nil || d.shapes[v.id] != nil)
		}
		for _, v := range s.in {
			constant = constant && (v == nil || d.constant(v) != nil)
		}
		if d.sizes(s) || known && !constant {
			continue
		}
		n := d.concrete(s)
		if n == nil {
			continue
		}
		if !known && !d.infer(s, n) {
			continue
		}
		if constant {
			d.compute(s, n)
		}
	}
}

// constant gives what is known of a value's content: from the graph, or from the shapes that are bound.
func (d *lbinding) constant(v *value) *tensor.Tensor {
	switch {
	case v == nil:
		return nil
	case v.konst != nil:
		return v.konst
	}
	return d.konst[v.id]
}

// concrete gives the step's node as it looks with the types that are bound; nil where an input's is not known.
func (d *lbinding) concrete(s *step) *ir.Node {
	n := *s.node
	n.Inputs = make([]*ir.Value, len(s.args()))
	for i, v := range s.args() {
		if v == nil {
			continue
		}
		if d.shapes[v.id] == nil { // an optional that is absent, too: it may as well be a sequence
			return nil
		}
		n.Inputs[i] = &ir.Value{Name: v.name, Type: typeOf(d.dtype[v.id], d.shapes[v.id]), Const: d.constant(v)}
	}
	return &n
}

// shapeOf gives a tensor's shape, never nil.
func shapeOf(t *tensor.Tensor) []int {
	if s := t.Shape(); s != nil {
		return s
	}
	return []int{}
}

func typeOf(dtype tensor.DType, shape []int) *ir.TensorType {
	t := &ir.TensorType{Elem: dtype, Shape: make(ir.Shape, len(shape))}
	for i, k := range shape {
		t.Shape[i] = ir.Const(int64(k))
	}
	return t
}

// infer sets the shapes of a step's outputs. Types that the operator refuses are left to fail when it runs.
func (d *lbinding) infer(s *step, n *ir.Node) bool {
	types, err := inferKnown(n)
	if err != nil {
		d.refused = true
		return false
	}
	done := true
	for i, v := range s.out {
		if v == nil || d.shapes[v.id] != nil {
			continue
		}
		if i >= len(types) || !d.setType(v, types[i]) {
			done = false
		}
	}
	return done
}

func inferKnown(n *ir.Node) (types []ir.Type, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = runtime.Recovered(n, v)
		}
	}()
	return n.Op.Infer(n)
}

// setType keeps the shape of a type, where it is known; it agrees with what the graph declares.
func (d *lbinding) setType(v *value, t ir.Type) bool {
	tt, ok := t.(*ir.TensorType)
	if !ok || tt == nil || tt.NoRank {
		return false
	}
	declared, ok := v.typ.(*ir.TensorType)
	if !ok || declared.Elem != tt.Elem {
		return false
	}
	shape, ok := tt.Shape.Known()
	if !ok {
		return false
	}
	if _, err := tensor.Size(shape); err != nil {
		return false
	}
	d.shapes[v.id], d.dtype[v.id], d.f32[v.id] = shape, tt.Elem, tt.Elem == tensor.Float32
	return true
}

// sizes serves operators that read no content: Shape and Size.
func (d *lbinding) sizes(s *step) bool {
	if s.node.Op.Domain != "" || len(s.in) != 1 || s.in[0] == nil || d.shapes[s.in[0].id] == nil || s.out[0] == nil {
		return false
	}
	shape := d.shapes[s.in[0].id]
	var t *tensor.Tensor
	switch s.node.Op.Name {
	case "Shape":
		from, to := ops.ShapeRange(s.node.Attrs, len(shape))
		t = tensor.New(tensor.Int64, max(0, to-from))
		for i := range tensor.Data[int64](t) {
			tensor.Data[int64](t)[i] = int64(shape[from+i])
		}
	case "Size":
		n, _ := tensor.Size(shape)
		t = tensor.Scalar(int64(n))
	default:
		return false
	}
	d.setConstant(s.out[0], t)
	d.dead[s] = true
	return true
}

func (d *lbinding) setConstant(v *value, t *tensor.Tensor) {
	d.konst[v.id], d.shapes[v.id], d.dtype[v.id], d.f32[v.id] = t, shapeOf(t), t.DType(), t.DType() == tensor.Float32
}

// compute evaluates a step whose inputs are all known.
func (d *lbinding) compute(s *step, n *ir.Node) {
	total := 0
	for _, v := range s.out {
		if v != nil {
			k, _ := tensor.Size(d.shapes[v.id])
			total += k
		}
	}
	if total > maxKnown {
		return
	}
	res, err := evalKnown(n, s.args(), d)
	if err != nil || len(res) < len(s.out) {
		return
	}
	for i, v := range s.out {
		if v == nil {
			continue
		}
		t, ok := res[i].(*tensor.Tensor)
		if !ok || t == nil || t.DType() != d.dtype[v.id] || !slices.Equal(t.Shape(), d.shapes[v.id]) {
			return
		}
	}
	for i, v := range s.out {
		if v != nil {
			d.setConstant(v, res[i].(*tensor.Tensor))
		}
	}
	d.dead[s] = true
}

func evalKnown(n *ir.Node, in []*value, d *lbinding) (res []tensor.Datum, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = runtime.Recovered(n, v)
		}
	}()
	data := make([]tensor.Datum, len(in))
	for i, v := range in {
		if t := d.constant(v); t != nil {
			data[i] = t
		}
	}
	return n.Op.Eval(&ir.EvalCtx{Node: n, Ctx: context.Background()}, data)
}

// ints gives the numbers of an integer input that is known.
func (d *lbinding) ints(s *step, i int) ([]int64, bool) {
	if s.absent(i) {
		return nil, false
	}
	t := d.constant(s.in[i])
	if t == nil {
		return nil, false
	}
	switch t.DType() {
	case tensor.Int64:
		return tensor.Data[int64](t), true
	case tensor.Int32:
		v := make([]int64, t.Len())
		for i, x := range tensor.Data[int32](t) {
			v[i] = int64(x)
		}
		return v, true
	}
	return nil, false
}

// shapeOf gives the shape of input i; nil where it is absent or not known.
func (d *lbinding) shapeOf(s *step, i int) []int {
	if s.absent(i) {
		return nil
	}
	return d.shapes[s.in[i].id]
}

// typed reports whether input i is there, with a known shape and the element type.
func (d *lbinding) typed(s *step, i int, dtype tensor.DType) bool {
	return !s.absent(i) && d.shapes[s.in[i].id] != nil && d.dtype[s.in[i].id] == dtype
}

// gives reports whether output i is wanted, with a known shape and the element type.
func (d *lbinding) gives(s *step, i int, dtype tensor.DType) bool {
	return i < len(s.out) && s.out[i] != nil && d.shapes[s.out[i].id] != nil && d.dtype[s.out[i].id] == dtype
}
