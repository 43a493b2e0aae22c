package linear

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/passes"
)

// TestColumns compares the linear functions that the linearizer reads with evaluations, for operators without rules of
// their own: all that are linear in what varies are read.
func TestColumns(t *testing.T) {
	four := func(b *ir.Builder, name string, shape ...int) *ir.Value {
		x := make([]float64, 0, 16)
		for i := range shape[0] * shape[len(shape)-1] {
			x = append(x, math.Sin(float64(3*i+len(name))))
		}
		return b.Const(name, tensor.FromSlice(x, shape...))
	}
	for name, build := range map[string]func(b *ir.Builder, x *ir.Value) *ir.Value{
		"running sums": func(b *ir.Builder, x *ir.Value) *ir.Value {
			return b.Op("", "CumSum", []*ir.Value{x, b.Const("axis", tensor.Scalar(int64(1)))})
		},
		"a triangle": func(b *ir.Builder, x *ir.Value) *ir.Value { return b.Op("", "Trilu", []*ir.Value{x}) },
		"a mean of operands": func(b *ir.Builder, x *ir.Value) *ir.Value {
			return b.Op("", "Mean", []*ir.Value{x, four(b, "other", 4, 4), x})
		},
		"a scatter beside constants": func(b *ir.Builder, x *ir.Value) *ir.Value {
			at := b.Const("at", tensor.FromSlice([]int64{2, 0, 3, 1}, 1, 4))
			row := b.Op("", "Slice", []*ir.Value{x, b.Ints(1), b.Ints(2), b.Ints(0)})
			return b.Op("", "ScatterElements", []*ir.Value{four(b, "data", 4, 4), at, row}, ir.A("reduction", "add"))
		},
		"a layer": func(b *ir.Builder, x *ir.Value) *ir.Value {
			d := b.Const("d", tensor.FromSlice([]float32{1, 2, -3, 4}, 1, 2, 2))
			return b.Op("essm", "HeadScale", []*ir.Value{x, d})
		},
	} {
		b := ir.NewBuilder("g", ops.Default, ops.Opsets())
		x := b.Input("x", ir.Tensor(tensor.Float64, 4, 4))
		three := b.Const("three", tensor.FromSlice([]float64{3}, 1))
		y := build(b, b.Op("", "Sub", []*ir.Value{b.Op("", "Mul", []*ir.Value{x, three}), three}))
		b.Output("y", y)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		l := NewLinearizer(&passes.Context{}, nil)
		l.Basis = 16
		seed := &Form{Shape: []int{4, 4}, Elems: make([]Combination, 16)}
		v := make([]float64, 16)
		for i := range v {
			seed.Elems[i].Terms = []Term{{int32(i), 1}}
			v[i] = math.Cos(float64(i))
		}
		l.Forms[g.Inputs[0]] = seed
		f, err := l.Form(g.Outputs[0])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := opstest.Interpret(&ir.EvalCtx{Wide: true}, g, []tensor.Datum{tensor.FromSlice(v, 4, 4)})
		if err != nil {
			t.Fatal(err)
		}
		w, _ := ops.Tensor(want, 0).Float64s()
		for k, e := range f.Elems {
			got := e.C
			for _, c := range e.Terms {
				got += c.Coef * v[c.At]
			}
			if math.Abs(got-w[k]) > 1e-12 {
				t.Errorf("%s: element %d is %v, expected %v", name, k, got, w[k])
			}
		}
	}
}
