package cpu

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// datum gives a value as evaluations see it.
func (e *executable) datum(v *value) tensor.Datum {
	if t := e.view[v.id]; t != nil {
		return t
	}
	return present(e.data[v.id])
}

// eval evaluates a step as ops defines it.
func (e *executable) eval(s *step) error {
	in := make([]tensor.Datum, len(s.args()))
	for i, v := range s.args() {
		if v != nil {
			in[i] = e.datum(v)
		}
	}
	var outer *scope
	if len(s.captures) > 0 {
		outer = &scope{vals: map[*ir.Value]tensor.Datum{}}
		for _, c := range s.captures {
			outer.vals[c.ir] = e.datum(c.val)
		}
	}
	res, err := e.p.interp.eval(e.ctx, e.p.config.Kernel, s.node, in, outer)
	if err != nil {
		return err
	}
	for i, v := range s.out {
		if v == nil {
			continue
		}
		if err := e.store(v, res[i]); err != nil {
			return fmt.Errorf("output %d (%s): %w", i, v.name, err)
		}
	}
	for _, v := range s.in {
		if v == nil || e.d.constant(v) != nil || e.view[v.id] != nil || e.d.given[v] {
			continue
		}
		if last := e.d.last[v.id]; last < len(e.p.steps) && e.p.steps[last] == s { // nobody reads it again
			e.data[v.id] = nil
		}
	}
	return nil
}

// store keeps a result: copied to where the plan wants it, or as it is.
func (e *executable) store(v *value, d tensor.Datum) error {
	t, isTensor := d.(*tensor.Tensor)
	if e.d.f32[v.id] {
		if !isTensor || t == nil || t.DType() != tensor.Float32 || !slices.Equal(t.Shape(), e.d.shapes[v.id]) {
			return fmt.Errorf("expected float32%s, the operator gave %v", tensor.ShapeString(e.d.shapes[v.id]), d)
		}
		copy(e.buf[v.id], tensor.Data[float32](t))
		return nil
	}
	if w := e.view[v.id]; w != nil {
		if !isTensor || t == nil || t.DType() != w.DType() || !slices.Equal(t.Shape(), w.Shape()) {
			return fmt.Errorf("expected %v, the operator gave %v", w, d)
		}
		copy(w.Bytes(), t.Bytes())
		copy(w.Strings(), t.Strings())
		return nil
	}
	if tt, ok := v.typ.(*ir.TensorType); ok {
		if !isTensor || t == nil || t.DType() != tt.Elem || !tt.NoRank && t.Rank() != len(tt.Shape) {
			return fmt.Errorf("expected %v, the operator gave %v", tt, d)
		}
	}
	e.data[v.id] = e.own(d)
	return nil
}

// result gives an output as it leaves a run: to the caller it shares nothing; of a subgraph, nothing that its next run, or who gives
// it its inputs, writes to. What has no known shape was given or stored as such.
func (e *executable) result(v *value, d tensor.Datum) tensor.Datum {
	if e.root == nil || e.d.shapes[v.id] != nil && e.d.constant(v) == nil {
		return clone(d)
	}
	return d
}

// own gives d, copied where it lies in memory that is used again: the arena, and what else has a place of its own; and of a
// subgraph, its inputs and outputs.
func (e *executable) own(d tensor.Datum) tensor.Datum {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d != nil && e.passing(d) {
			return d.Clone()
		}
	case *tensor.Sequence:
		if d != nil {
			for i, item := range d.Items {
				if o := e.own(item); o != item {
					c := &tensor.Sequence{Items: slices.Clone(d.Items)}
					for j := i; j < len(c.Items); j++ {
						c.Items[j] = e.own(c.Items[j])
					}
					return c
				}
			}
		}
	case *tensor.Optional:
		if d != nil && d.Value != nil {
			if o := e.own(d.Value); o != d.Value {
				return &tensor.Optional{Value: o}
			}
		}
	}
	return d
}

// passing reports whether other elements will stand where t's are.
func (e *executable) passing(t *tensor.Tensor) bool {
	if len(e.arena) > 0 && overlap(t.Bytes(), unsafe.Slice((*byte)(unsafe.Pointer(&e.arena[0])), 4*len(e.arena))) {
		return true
	}
	if e.root == nil {
		return false
	}
	for _, v := range e.p.values {
		w := e.view[v.id]
		if w == nil && e.d.shapes[v.id] != nil && e.d.constant(v) == nil { // an input, or an output that lies where it was asked for
			w, _ = e.data[v.id].(*tensor.Tensor)
		}
		if w != nil && (w == t || overlap(t.Bytes(), w.Bytes()) || t.DType() == tensor.String && w.DType() == tensor.String) {
			return true
		}
	}
	return false
}

func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	p, q := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}

// clone copies a datum with its storage.
func clone(d tensor.Datum) tensor.Datum {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d != nil {
			return d.Clone()
		}
	case *tensor.Sequence:
		if d != nil {
			c := &tensor.Sequence{Items: make([]tensor.Datum, len(d.Items))}
			for i, item := range d.Items {
				c.Items[i] = clone(item)
			}
			return c
		}
	case *tensor.Optional:
		if d != nil {
			return &tensor.Optional{Value: clone(d.Value)}
		}
	}
	return nil
}
