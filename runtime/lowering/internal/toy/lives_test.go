package toy

import (
	"context"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	_ "github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/lowering"
)

// A lifetime that ends one unit too early shows as NaN: what the suite holds against this backend's answers.
func TestWrongLifetimeShows(t *testing.T) {
	g, err := backendtest.ParseGraph(`g (float[N] x) => (y) {
		a = Exp (x)
		b = Neg (a)
		c = Abs (b)
		y = Add (a, c)
	}`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New().Compile(g, runtime.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 5
	x, out := tensor.New(tensor.Float32, n), []tensor.Datum{nil}
	for _, early := range []bool{false, true} {
		d := p.(program).Program.Bind(
			runtime.Binding{Dims: map[string]int64{"N": n}, Inputs: []ir.Type{ir.Tensor(tensor.Float32, n)}}, nil)
		e := &executable{Frame: d.NewFrame(false)}
		var order [][]*lowering.Step
		for _, s := range d.Program.Steps {
			e.units, order = append(e.units, e.unit(s)), append(order, []*lowering.Step{s})
		}
		lives := d.Lives(order)
		if early {
			lives[d.Program.Steps[0].Out[0].ID].Last--
		}
		if err := e.place(lives); err != nil {
			t.Fatal(err)
		}
		out[0] = nil
		if err := e.Run(context.Background(), []tensor.Datum{x}, out); err != nil {
			t.Fatal(err)
		}
		for _, v := range tensor.Data[float32](out[0].(*tensor.Tensor)) {
			if early != math.IsNaN(float64(v)) || !early && v != 2 {
				t.Fatalf("early %v: found %v", early, out[0].(*tensor.Tensor).Bytes())
			}
		}
	}
}
