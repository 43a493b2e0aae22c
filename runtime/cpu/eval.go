package cpu

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/lowering"
)

// datum gives a value as evaluations see it.
func (e *executable) datum(v *lowering.Value) tensor.Datum {
	if t := e.view[v.ID]; t != nil {
		return t
	}
	return lowering.Present(e.data[v.ID])
}

// eval evaluates a step as ops defines it.
func (e *executable) eval(s *lowering.Step) error {
	in := make([]tensor.Datum, len(s.Args()))
	for i, v := range s.Args() {
		if v != nil {
			in[i] = e.datum(v)
		}
	}
	var captured []tensor.Datum
	for _, c := range s.Captures {
		captured = append(captured, e.datum(c.Outer))
	}
	res, err := e.p.Evaluate(e.ctx, s, in, captured)
	if err != nil {
		return err
	}
	for i, v := range s.Out {
		if v == nil {
			continue
		}
		if err := e.store(v, res[i]); err != nil {
			return fmt.Errorf("output %d (%s): %w", i, v.Name, err)
		}
	}
	for _, v := range s.In {
		if v == nil || e.d.Constant(v) != nil || e.view[v.ID] != nil || e.d.Given[v] {
			continue
		}
		if last := e.d.Last[v.ID]; last < len(e.p.Steps) && e.p.Steps[last] == s { // nobody reads it again
			e.data[v.ID] = nil
		}
	}
	return nil
}

// store keeps a result: copied to where the plan wants it, or as it is.
func (e *executable) store(v *lowering.Value, d tensor.Datum) error {
	t, isTensor := d.(*tensor.Tensor)
	if e.d.F32[v.ID] {
		if !isTensor || t == nil || t.DType() != tensor.Float32 || !slices.Equal(t.Shape(), e.d.Shapes[v.ID]) {
			return fmt.Errorf("expected float32%s, the operator gave %v", tensor.ShapeString(e.d.Shapes[v.ID]), d)
		}
		copy(e.buf[v.ID], tensor.Data[float32](t))
		return nil
	}
	if w := e.view[v.ID]; w != nil {
		if !isTensor || t == nil || t.DType() != w.DType() || !slices.Equal(t.Shape(), w.Shape()) {
			return fmt.Errorf("expected %v, the operator gave %v", w, d)
		}
		copy(w.Bytes(), t.Bytes())
		copy(w.Strings(), t.Strings())
		return nil
	}
	if tt, ok := v.Type.(*ir.TensorType); ok {
		if !isTensor || t == nil || t.DType() != tt.Elem || !tt.NoRank && t.Rank() != len(tt.Shape) {
			return fmt.Errorf("expected %v, the operator gave %v", tt, d)
		}
	}
	e.data[v.ID] = e.own(d)
	return nil
}

// result gives an output as it leaves a run: to the caller it shares nothing; of a subgraph, nothing that its next run, or who gives
// it its inputs, writes to. What has no known shape was given or stored as such.
func (e *executable) result(v *lowering.Value, d tensor.Datum) tensor.Datum {
	if e.root == nil || e.d.Shapes[v.ID] != nil && e.d.Constant(v) == nil {
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
	for _, v := range e.p.Values {
		w := e.view[v.ID]
		if w == nil && e.d.Shapes[v.ID] != nil && e.d.Constant(v) == nil { // an input, or an output that lies where it was asked for
			w, _ = e.data[v.ID].(*tensor.Tensor)
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
