package cpu

import (
	"context"
	"errors"
	"slices"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
)

// wide returns a model with products that take long for one tile already: a linear layer, and heads.
func wide(t testing.TB) *ir.Graph {
	t.Helper()
	r := NewGen(3)
	b := ir.NewBuilder("wide", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 1800))
	y := b.Op("essm", "Linear", []*ir.Value{x, b.Const("w", r.Floats(0.02, 1111, 1800)),
		b.Const("bias", r.Floats(1, 1111))})
	b.Output("y", b.Op("", "Gelu", []*ir.Value{y}))
	b.Output("z", b.Op("essm", "HeadLinear", []*ir.Value{x, b.Const("heads", r.Floats(0.02, 1, 2, 905, 900))}))
	b.Output("c", b.Op("essm", "HeadLinear", []*ir.Value{x, b.Const("channels", r.Floats(0.02, 2, 1, 603, 1800))}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestLongProducts checks that long products in parts have the answers of whole ones.
func TestLongProducts(t *testing.T) {
	g := wide(t)
	in := map[string]tensor.Datum{"x": NewGen(8).Floats(1, 1, 53, 1800)}
	CloseTo(t, "wide", Run(t, g, runtime.Options{Backend: New(), Threads: 2}, in), Truth(t, g, in), 1e-5)
	e := bindChunks(t, g, stretchRows, 1, []tensor.Datum{in["x"]})
	parts := 0
	for _, u := range e.units {
		for _, c := range u.region.calls {
			if c.parts != nil {
				parts++
				if len(c.parts) < 3 {
					t.Errorf("%v: %d parts", c.src, len(c.parts))
				}
			}
		}
	}
	if parts != 3 {
		t.Errorf("%d products in parts, expected 3", parts)
	}
}

// TestLongProductsLow is TestLongProducts in low precision.
func TestLongProductsLow(t *testing.T) {
	for _, products := range []tensor.DType{tensor.BFloat16, tensor.Int8} {
		r := NewGen(5)
		b := ir.NewBuilder("wide", ops.Default, ops.Opsets())
		x := b.Input("x", ir.Tensor(tensor.Float32, "B", "L", 1800))
		b.Output("y", b.Op("essm", "Linear",
			[]*ir.Value{x, b.Const("w", r.Floats(0.02, 1111, 1800)), b.Const("bias", r.Floats(1, 1111))}))
		b.Output("m", b.Op("", "MatMul", []*ir.Value{x, b.Const("w", r.Floats(0.02, 1800, 1111))}))
		b.Output("z", b.Op("essm", "HeadLinear", []*ir.Value{x, b.Const("heads", r.Floats(0.02, 1, 12, 97, 150))}))
		b.Output("c", b.Op("essm", "HeadLinear", []*ir.Value{x, b.Const("channels", r.Floats(0.02, 5, 1, 203, 1800))}))
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]tensor.Datum{"x": r.Floats(1, 1, 53, 1800)}
		e := bindConfig(t, g, runtime.Config{Threads: 2, Products: products}, stretchRows, []tensor.Datum{in["x"]})
		var parts [][]record.RowFunc
		whole := map[string]*tensor.Tensor{}
		out := make([]tensor.Datum, 4)
		for _, cut := range []bool{true, false} {
			if !cut {
				for _, u := range e.units {
					for i := range u.region.calls {
						if c := &u.region.calls[i]; c.parts != nil {
							parts = append(parts, c.parts)
							c.parts = nil
						}
					}
				}
			}
			if err := e.Run(context.Background(), []tensor.Datum{in["x"]}, out); err != nil {
				t.Fatal(err)
			}
			for i, v := range out {
				y, name := v.(*tensor.Tensor), g.Outputs[i].Name
				if w := whole[name]; w != nil && !tensor.Equal(w, y) {
					t.Errorf("%v: output %s in parts differs", products, name)
				}
				whole[name], out[i] = y, nil
			}
		}
		if len(parts) != 3 {
			t.Fatalf("%v: %d products in parts, expected 3", products, len(parts))
		}
		for i, p := range parts {
			if len(p) < 5 {
				t.Errorf("%v: product %d in %d parts", products, i, len(p))
			}
		}
		got := map[string]tensor.Datum{}
		for name, y := range whole {
			got[name] = y
		}
		CloseTo(t, products.String(), got, Truth(t, g, in), 2e-2)
	}
}

// patience is a context that is done after a number of calls of Err.
type patience struct {
	context.Context
	left int
}

func (p *patience) Err() error {
	if p.left--; p.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestLongProductCancelled checks that a cancelled run ends between two parts.
func TestLongProductCancelled(t *testing.T) {
	g := wide(t)
	in := []tensor.Datum{NewGen(8).Floats(1, 1, 24, 1800)}
	e := bindChunks(t, g, stretchRows, 1, in)
	r := e.units[0].region
	i := slices.IndexFunc(r.calls, func(c call) bool { return c.parts != nil })
	ran := 0
	for k, part := range r.calls[i].parts {
		r.calls[i].parts[k] = func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
			ran++
			part(c, y, x, rows)
		}
	}
	err := e.Run(&patience{context.Background(), 4}, in, make([]tensor.Datum, len(g.Outputs)))
	if !errors.Is(err, context.Canceled) || ran == 0 || ran > 4 || ran == len(r.calls[i].parts) {
		t.Errorf("error %v after %d of %d parts", err, ran, len(r.calls[i].parts))
	}
}
