package onnx

import (
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// ParseDatum reads a file with one datum of type t: a TensorProto, a SequenceProto or an OptionalProto, as in ONNX's
// tests. The kind of t selects the message, because the file does not contain it. Element types and shapes are the
// file's. Errors start with name.
func ParseDatum(b []byte, name string, t ir.Type) (tensor.Datum, error) {
	if err := tensor.CheckByteOrder(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := memory(b)
	r := &reader{source: s, budget: Budget{}.withDefaults(s.size), known: map[*tensorProto]*decoded{},
		files: map[string]*externalFile{}}
	p := &parser{budget: r.budget}
	d, err := r.datum(p, s.all(), t, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

func (r *reader) datum(p *parser, c cursor, t ir.Type, depth int) (tensor.Datum, error) {
	if depth > r.budget.Depth {
		return nil, fmt.Errorf("nested deeper than %d", r.budget.Depth)
	}
	switch t := t.(type) {
	case *ir.SequenceType:
		seq := &tensor.Sequence{}
		err := r.items(p, c, t.Elem, depth, func(d tensor.Datum) { seq.Items = append(seq.Items, d) })
		return seq, err
	case *ir.OptionalType:
		o := &tensor.Optional{}
		err := r.items(p, c, t.Elem, depth, func(d tensor.Datum) { o.Value = d })
		return o, err
	}
	x, err := p.dense(c)
	if err != nil {
		return nil, err
	}
	return r.tensor(x)
}

// items calls visit for each element of a SequenceProto or an OptionalProto. Their fields have the same numbers.
func (r *reader) items(p *parser, c cursor, elem ir.Type, depth int, visit func(tensor.Datum)) error {
	return c.each(func(f field) error {
		if f.num < 3 || f.num > 7 {
			return nil
		}
		want := 3
		switch elem.(type) {
		case *ir.SequenceType:
			want = 5
		case *ir.OptionalType:
			want = 7
		}
		switch {
		case f.num == 6:
			return errMap
		case f.num == 4:
			return errors.New("sparse tensors are supported as constants only")
		case int(f.num) != want:
			return fmt.Errorf("holds field %d, expected field %d for %v", f.num, want, elem)
		}
		if err := spend(&p.values, p.budget.Values, "values"); err != nil {
			return err
		}
		var m cursor
		if err := f.message(&m); err != nil {
			return err
		}
		d, err := r.datum(p, m, elem, depth+1)
		if err != nil {
			return err
		}
		visit(d)
		return nil
	})
}
