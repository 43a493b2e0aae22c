package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// items is what is known of a sequence before the run: those of base, which is an input of the program, or nil for none, and
// count more, or fewer where count is negative; without counted any number. All are tensors of one type; shape is nil where there is none.
type items struct {
	base    *value
	count   int
	counted bool
	dtype   tensor.DType
	shape   []int
}

// typ is what a program is told of a sequence that it is given: the items' type, or nothing of an empty one.
func (q items) typ() ir.Type {
	if q.shape == nil {
		return &ir.SequenceType{}
	}
	return &ir.SequenceType{Elem: typeOf(q.dtype, q.shape)}
}

// alike gives q with more items of a type, where they are like those that it has.
func (q items) alike(dtype tensor.DType, shape []int) (items, bool) {
	if shape == nil || q.shape != nil && (q.dtype != dtype || !slices.Equal(q.shape, shape)) {
		return q, false
	}
	q.dtype, q.shape = dtype, shape
	return q, true
}

// setItems keeps what is known of a sequence.
func (d *lbinding) setItems(v *value, q items) {
	if v == nil {
		return
	}
	if d.items == nil {
		d.items = map[*value]items{}
	}
	d.items[v] = q
}

// takeItems keeps what is known of an input of the program.
func (d *lbinding) takeItems(v *value, t ir.Type) {
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

// resolveSequence serves the operators on sequences: it learns how many items there are, of which shape, and with that the shapes of
// tensors that are made of them. It reports whether the step is one.
func (d *lbinding) resolveSequence(s *step) bool {
	if s.node.Op.Domain != "" || len(s.out) != 1 || s.out[0] == nil {
		return false
	}
	var q items
	known := false
	if len(s.in) > 0 && s.in[0] != nil {
		q, known = d.items[s.in[0]]
	}
	out := s.out[0]
	switch s.node.Op.Name {
	case "SequenceEmpty":
		d.setItems(out, items{counted: true})
	case "SequenceConstruct":
		q, ok := items{count: len(s.in), counted: true}, true
		for _, v := range s.in {
			if v == nil {
				return true
			}
			if q, ok = q.alike(d.dtype[v.id], d.shapes[v.id]); !ok {
				return true
			}
		}
		d.setItems(out, q)
	case "SequenceInsert":
		if !known || s.in[1] == nil {
			return true
		}
		if q, ok := q.alike(d.dtype[s.in[1].id], d.shapes[s.in[1].id]); ok {
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
		if known && q.shape != nil && d.shapes[out.id] == nil {
			d.setType(out, typeOf(q.dtype, q.shape))
		}
	case "SplitToSequence":
		d.resolveSplit(s)
	case "ConcatFromSequence":
		if known && q.base == nil && q.counted && q.count > 0 && q.shape != nil && d.shapes[out.id] == nil {
			d.resolveJoin(s, q)
		}
	default:
		return false
	}
	return true
}

func (d *lbinding) resolveSplit(s *step) {
	shape := d.shapeOf(s, 0)
	axis, err := ops.Axis(s.node.Attrs.Int("axis", 0), len(shape))
	if shape == nil || err != nil {
		return
	}
	part, keep := int64(1), true
	if s.absent(1) {
		keep = s.node.Attrs.Bool("keepdims", true)
	} else if n, ok := d.ints(s, 1); ok && len(n) > 0 && len(d.shapeOf(s, 1)) == 0 {
		part = n[0]
	} else {
		return
	}
	if part < 1 || int64(shape[axis])%part != 0 {
		return
	}
	q := items{count: shape[axis] / int(part), counted: true, dtype: d.dtype[s.in[0].id], shape: slices.Clone(shape)}
	if q.shape[axis] = int(part); !keep {
		q.shape = slices.Delete(q.shape, axis, axis+1)
	}
	d.setItems(s.out[0], q)
}

func (d *lbinding) resolveJoin(s *step, q items) {
	shape := slices.Clone(q.shape)
	fresh := s.node.Attrs.Bool("new_axis", false)
	rank := len(shape)
	if fresh {
		rank++
	}
	axis, err := ops.Axis(s.node.Attrs.Int("axis", 0), rank)
	if err != nil {
		return
	}
	if fresh {
		shape = slices.Insert(shape, axis, 1)
	}
	shape[axis] *= q.count
	if n, err := tensor.Size(shape); err == nil && n <= ops.MaxElems {
		d.setType(s.out[0], typeOf(q.dtype, shape))
	}
}

// inner gives the type with which a program within this one takes v, as far as that is known, and v's content. It reports false for
// an optional of which only the run knows whether it is there.
func (d *lbinding) inner(v *value) (t ir.Type, content *tensor.Tensor, ok bool) {
	if d.shapes[v.id] != nil {
		return typeOf(d.dtype[v.id], d.shapes[v.id]), d.constant(v), true
	}
	if _, optional := v.typ.(*ir.OptionalType); optional {
		return nil, nil, d.missing(v)
	}
	if q, known := d.items[v]; known && q.shape != nil {
		return q.typ(), nil, true
	}
	return nil, nil, true
}

// carriedItems tells a body of the sequences that it carries, and finds what it does to each: items that are given and kept, and more of them.
// What does not stay as it is from one iteration to the next is not known.
func (d *lbinding) carriedItems(s *step, types []ir.Type, bind func(types []ir.Type) *lbinding) {
	b := s.body
	some := false
	for _, c := range b.carried {
		if q, known := d.items[s.in[c.arg]]; known {
			types[c.in], some = q.typ(), true
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
		for _, c := range b.carried {
			in, ok := types[c.in].(*ir.SequenceType)
			if !ok {
				continue
			}
			q, known := x.items[b.p.outputs[c.out]]
			switch {
			case !known || q.base != b.p.inputs[c.in]:
				types[c.in], changed = nil, true
			case in.Elem == nil && q.shape != nil: // an empty one may get items of any type
				types[c.in], changed = q.typ(), true
			}
		}
		if !changed {
			return
		}
	}
	for _, c := range b.carried {
		if _, ok := types[c.in].(*ir.SequenceType); ok {
			types[c.in] = nil
		}
	}
}

// keepsItems reports whether a sequence that was given with a type comes out as one of that type, with the items that it had.
func (d *lbinding) keepsItems(in *ir.SequenceType, from, to *value) bool {
	q, known := d.items[to]
	if !known || q.base != from || (in.Elem == nil) != (q.shape == nil) {
		return false
	}
	return in.Elem == nil || agrees(in.Elem, typeOf(q.dtype, q.shape))
}

// itemsAfter gives what is known of a sequence that a body carries, after all iterations.
func (d *lbinding) itemsAfter(s *step, l *loopBinding, c carried) (q items, known bool) {
	q, known = d.items[s.in[c.arg]]
	if !known {
		return q, false
	}
	more := 0
	for k, x := range l.stages {
		o, known := x.items[s.body.p.outputs[c.out]]
		if !known || o.base != s.body.p.inputs[c.in] || !o.counted || k > 0 && (o.count != more || !slices.Equal(o.shape, q.shape)) {
			return q, false
		}
		more, q.dtype, q.shape = o.count, o.dtype, o.shape
	}
	if q.counted = q.counted && l.trip >= 0; q.counted {
		q.count += more * l.trip
	}
	return q, true
}
