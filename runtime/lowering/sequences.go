package lowering

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// items describes a sequence before the run. It has the items of base, an input of the program, or nil for none, and
// count more, or fewer if count is negative. If counted is false, the number is not known. All items are tensors of
// one type; shape is nil for an empty sequence.
type items struct {
	base    *Value
	count   int
	counted bool
	dtype   tensor.DType
	shape   []int
}

// typ returns the type with which a program is bound to the sequence: that of the items, or none for an empty sequence.
func (q items) typ() ir.Type {
	if q.shape == nil {
		return &ir.SequenceType{}
	}
	return &ir.SequenceType{Elem: TypeOf(q.dtype, q.shape)}
}

// alike returns q with items of a type, or false if q has items of another type.
func (q items) alike(dtype tensor.DType, shape []int) (items, bool) {
	if shape == nil || q.shape != nil && (q.dtype != dtype || !slices.Equal(q.shape, shape)) {
		return q, false
	}
	q.dtype, q.shape = dtype, shape
	return q, true
}

// setItems sets the description of a sequence.
func (d *Binding) setItems(v *Value, q items) {
	if v == nil {
		return
	}
	if d.items == nil {
		d.items = map[*Value]items{}
	}
	d.items[v] = q
}

// takeItems sets the description of an input of type t.
func (d *Binding) takeItems(v *Value, t ir.Type) {
	s, ok := t.(*ir.SequenceType)
	if !ok {
		return
	}
	q := items{base: v, counted: true}
	if e, ok := s.Elem.(*ir.TensorType); ok {
		q.dtype = e.Elem
		if q.shape, ok = e.Shape.Known(); !ok || e.NoRank {
			return
		}
	}
	if s.Elem == nil || q.shape != nil {
		d.setItems(v, q)
	}
}

// resolveSequence finds the number and the shape of the items that operators on sequences return, and the shapes of
// tensors made of items. It reports whether s is such a step.
func (d *Binding) resolveSequence(s *Step) bool {
	if s.Node.Op.Domain != "" || len(s.Out) != 1 || s.Out[0] == nil {
		return false
	}
	var q items
	known := false
	if len(s.In) > 0 && s.In[0] != nil {
		q, known = d.items[s.In[0]]
	}
	out := s.Out[0]
	switch s.Node.Op.Name {
	case "SequenceEmpty":
		d.setItems(out, items{counted: true})
	case "SequenceConstruct":
		q, ok := items{count: len(s.In), counted: true}, true
		for _, v := range s.In {
			if v == nil {
				return true
			}
			if q, ok = q.alike(d.DType(v), d.Shape(v)); !ok {
				return true
			}
		}
		d.setItems(out, q)
	case "SequenceInsert":
		if !known || s.In[1] == nil {
			return true
		}
		if q, ok := q.alike(d.DType(s.In[1]), d.Shape(s.In[1])); ok {
			q.count++
			d.setItems(out, q)
		}
	case "SequenceErase":
		if known {
			q.count--
			d.setItems(out, q)
		}
	case "SequenceLength":
		if known && q.base == nil && q.counted && q.count >= 0 {
			d.setConstant(out, tensor.Scalar(int64(q.count)))
			d.dead[s] = true
		}
	case "SequenceAt":
		if known && q.shape != nil && d.Shape(out) == nil {
			d.setType(out, TypeOf(q.dtype, q.shape))
		}
	case "SplitToSequence":
		d.resolveSplit(s)
	case "ConcatFromSequence":
		if known && q.base == nil && q.counted && q.count > 0 && q.shape != nil && d.Shape(out) == nil {
			d.resolveJoin(s, q)
		}
	default:
		return false
	}
	return true
}

func (d *Binding) resolveSplit(s *Step) {
	shape := d.ShapeOf(s, 0)
	axis, err := ops.Axis(s.Node.Attrs.Int("axis", 0), len(shape))
	if shape == nil || err != nil {
		return
	}
	part, keep := int64(1), true
	if s.Absent(1) {
		keep = s.Node.Attrs.Bool("keepdims", true)
	} else if n, ok := d.Ints(s, 1); ok && len(n) > 0 && len(d.ShapeOf(s, 1)) == 0 {
		part = n[0]
	} else {
		return
	}
	if part < 1 || int64(shape[axis])%part != 0 {
		return
	}
	q := items{count: shape[axis] / int(part), counted: true, dtype: d.DType(s.In[0]), shape: slices.Clone(shape)}
	if q.shape[axis] = int(part); !keep {
		q.shape = slices.Delete(q.shape, axis, axis+1)
	}
	d.setItems(s.Out[0], q)
}

func (d *Binding) resolveJoin(s *Step, q items) {
	shape := slices.Clone(q.shape)
	fresh := s.Node.Attrs.Bool("new_axis", false)
	rank := len(shape)
	if fresh {
		rank++
	}
	axis, err := ops.Axis(s.Node.Attrs.Int("axis", 0), rank)
	if err != nil {
		return
	}
	if fresh {
		shape = slices.Insert(shape, axis, 1)
	}
	shape[axis] *= q.count
	if n, err := tensor.Size(shape); err == nil && n <= ops.MaxElems {
		d.setType(s.Out[0], TypeOf(q.dtype, shape))
	}
}

// inner returns the type with which a program within this one is bound to v, as far as it is known, and the content of
// v. ok is false for an optional whose presence is not known before the run.
func (d *Binding) inner(v *Value) (t ir.Type, content *tensor.Tensor, ok bool) {
	if d.Shape(v) != nil {
		return TypeOf(d.DType(v), d.Shape(v)), d.Constant(v), true
	}
	if _, optional := v.Type.(*ir.OptionalType); optional {
		return nil, nil, d.Missing(v)
	}
	if q, known := d.items[v]; known && q.shape != nil {
		return q.typ(), nil, true
	}
	return nil, nil, true
}

// carriedItems sets in types the types of the sequences that a body carries. A sequence is only known if the body keeps
// its items, and adds or removes some of the same type.
func (d *Binding) carriedItems(s *Step, types []ir.Type, bind func(types []ir.Type) *Binding) {
	b := s.body
	some := false
	for _, c := range b.Carried {
		if q, known := d.items[s.In[c.Arg]]; known {
			types[c.In], some = q.typ(), true
		}
	}
	for range 3 {
		if !some {
			return
		}
		x := bind(types)
		if x == nil {
			return
		}
		changed := false
		for _, c := range b.Carried {
			in, ok := types[c.In].(*ir.SequenceType)
			if !ok {
				continue
			}
			q, known := x.items[b.Program.Outputs[c.Out]]
			switch {
			case !known || q.base != b.Program.Inputs[c.In]:
				types[c.In], changed = nil, true
			case in.Elem == nil && q.shape != nil: // an empty sequence may get items of any type
				types[c.In], changed = q.typ(), true
			}
		}
		if !changed {
			return
		}
	}
	for _, c := range b.Carried {
		if _, ok := types[c.In].(*ir.SequenceType); ok {
			types[c.In] = nil
		}
	}
}

// keepsItems reports whether the sequence to has the items of from, and the type in.
func (d *Binding) keepsItems(in *ir.SequenceType, from, to *Value) bool {
	q, known := d.items[to]
	if !known || q.base != from || (in.Elem == nil) != (q.shape == nil) {
		return false
	}
	return in.Elem == nil || agrees(in.Elem, TypeOf(q.dtype, q.shape))
}

// itemsAfter returns the description of a carried sequence after all iterations.
func (d *Binding) itemsAfter(s *Step, l *LoopBinding, c carried) (q items, known bool) {
	q, known = d.items[s.In[c.Arg]]
	if !known {
		return q, false
	}
	more := 0
	for k, x := range l.Stages {
		o, known := x.items[s.body.Program.Outputs[c.Out]]
		if !known || o.base != s.body.Program.Inputs[c.In] || !o.counted ||
			k > 0 && (o.count != more || !slices.Equal(o.shape, q.shape)) {
			return q, false
		}
		more, q.dtype, q.shape = o.count, o.dtype, o.shape
	}
	if q.counted = q.counted && l.Trip >= 0; q.counted {
		q.count += more * l.Trip
	}
	return q, true
}
