package opstest

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
)

// Interpret evaluates a graph node by node.
func Interpret(c *ir.EvalCtx, g *ir.Graph, in []tensor.Datum) ([]tensor.Datum, error) {
	p := eval.New(eval.Options{Wide: c.Wide})
	if err := p.Add(g); err != nil {
		return nil, err
	}
	return p.Graph(context.Background(), g, in, nil, nil, nil)
}

// EvalBody evaluates a node by its operator's body.
func EvalBody(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	b := ir.NewBuilder("body", ops.Default, ops.Opsets())
	vals := make([]*ir.Value, len(c.Node.Inputs))
	var data []tensor.Datum
	for i, v := range c.Node.Inputs {
		if v != nil {
			vals[i] = b.Input(fmt.Sprintf("in%d", i), v.Type)
			data = append(data, in[i])
		}
	}
	outs := c.Node.Op.Body(b, c.Node, vals)
	for i, v := range outs {
		if v != nil { // nil if it is unused
			b.Output(fmt.Sprintf("out%d", i), v)
		}
	}
	g, err := b.Build()
	if err != nil {
		return nil, err
	}
	got, err := Interpret(&ir.EvalCtx{Wide: c.Wide}, g, data)
	if err != nil {
		return nil, err
	}
	for i, v := range outs {
		if v == nil {
			got = slices.Insert(got, i, nil)
		}
	}
	return got, nil
}

// Near compares data: floats within a tolerance, all else exactly.
func Near(got, want tensor.Datum, rtol, atol float64) error {
	switch w := want.(type) {
	case nil:
		if got != nil {
			return fmt.Errorf("expected nothing, found %v", got)
		}
		return nil
	case *tensor.Sequence:
		g, ok := got.(*tensor.Sequence)
		if !ok || len(g.Items) != len(w.Items) {
			return fmt.Errorf("expected a sequence of %d, found %v", len(w.Items), got)
		}
		for i := range w.Items {
			if err := Near(g.Items[i], w.Items[i], rtol, atol); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		return nil
	case *tensor.Optional:
		g, ok := got.(*tensor.Optional)
		if !ok {
			return Near(got, w.Value, rtol, atol)
		}
		return Near(g.Value, w.Value, rtol, atol)
	}
	w := want.(*tensor.Tensor)
	g, ok := got.(*tensor.Tensor)
	if !ok || g == nil {
		return fmt.Errorf("expected %v, found %T", w, got)
	}
	if g.DType() != w.DType() || !slices.Equal(g.Shape(), w.Shape()) {
		return fmt.Errorf("expected %v, found %v", w, g)
	}
	if !w.DType().IsFloat() && !w.DType().IsComplex() {
		if tensor.Equal(g, w) {
			return nil
		}
		return fmt.Errorf("expected %v, found %v", Show(w), Show(g))
	}
	x, y := parts(g), parts(w)
	for i := range y {
		if x[i] == y[i] || math.IsNaN(x[i]) && math.IsNaN(y[i]) {
			continue
		}
		if d := math.Abs(x[i] - y[i]); !(d <= atol+rtol*math.Abs(y[i])) || math.IsInf(y[i], 0) {
			return fmt.Errorf("element %d of %v: expected %v, found %v", i, w, y[i], x[i])
		}
	}
	return nil
}

// parts lists the numbers of a float tensor, and the real and imaginary parts of a complex one.
func parts(t *tensor.Tensor) []float64 {
	var out []float64
	switch t.DType() {
	case tensor.Complex64:
		for _, z := range tensor.Data[complex64](t) {
			out = append(out, float64(real(z)), float64(imag(z)))
		}
	case tensor.Complex128:
		for _, z := range tensor.Data[complex128](t) {
			out = append(out, real(z), imag(z))
		}
	default:
		out, _ = t.Float64s()
	}
	return out
}

// Show writes a tensor with its elements, where they are few.
func Show(t *tensor.Tensor) string {
	if t.Len() > 64 {
		return t.String()
	}
	if v, err := t.Float64s(); err == nil {
		return fmt.Sprintf("%v%v", t, v)
	}
	return fmt.Sprintf("%v%q", t, t.Strings())
}

// Fits reports an error unless a datum may have the type.
func Fits(d tensor.Datum, typ ir.Type) error {
	switch d := d.(type) {
	case *tensor.Tensor:
		t := ir.Of(d)
		if o, ok := typ.(*ir.OptionalType); ok {
			typ = o.Elem
		}
		if !ir.Compatible(t, typ) {
			return fmt.Errorf("%v is not of type %v", d, typ)
		}
	case *tensor.Sequence:
		if o, ok := typ.(*ir.OptionalType); ok {
			typ = o.Elem
		}
		s, ok := typ.(*ir.SequenceType)
		if !ok {
			return fmt.Errorf("a sequence is not of type %v", typ)
		}
		for _, x := range d.Items {
			if err := Fits(x, s.Elem); err != nil {
				return err
			}
		}
	case *tensor.Optional:
		o, ok := typ.(*ir.OptionalType)
		if !ok {
			return fmt.Errorf("an optional is not of type %v", typ)
		}
		if d.Value != nil {
			return Fits(d.Value, o.Elem)
		}
	}
	return nil
}
