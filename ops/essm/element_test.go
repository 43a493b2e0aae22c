package essm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
)

// TestElement compares the operators' expressions with plain Go.
func TestElement(t *testing.T) {
	normal := opstest.Normal
	wide := func(n int) tensor.Datum {
		v, err := normal(n).(*tensor.Tensor).Convert(tensor.Float64, false)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	answers := map[string]struct {
		samples []opstest.Sample
		f       opstest.Answer
	}{
		"Affine": {[]opstest.Sample{opstest.Of(normal(2, 5, 3), wide(3), wide(3)),
			opstest.Of(normal(7, 1), wide(1), wide(1))},
			func(_ *ir.Node, x []float64) float64 { return x[1]*x[0] + x[2] }},
		"Map": {[]opstest.Sample{opstest.Of(normal(2, 5, 3), normal(5, 1)).With(ir.A("f", "x0 - 2*x1")),
			opstest.Of(normal(4), normal(4)).With(ir.A("f", "x0 - 2*x1"))},
			func(_ *ir.Node, x []float64) float64 { return x[0] - 2*x[1] }},
		"BatchNorm": {[]opstest.Sample{opstest.Of(normal(2, 5, 3), normal(3), normal(3), normal(3), normal(3)),
			opstest.Of(normal(2, 3), normal(3), normal(3), normal(3), normal(3)).With(ir.A("epsilon", 0.1))},
			func(n *ir.Node, x []float64) float64 {
				scale := x[1] / math.Sqrt(x[4]+ops.Float(n, "epsilon"))
				return scale*x[0] + (x[2] - x[3]*scale)
			}},
	}
	r := rand.New(rand.NewPCG(11, 13))
	for _, op := range ops.Default.All() {
		if op.Domain != "essm" || op.Element == nil {
			continue
		}
		a, ok := answers[op.Name]
		if !ok {
			t.Errorf("%s has no answers", op.Name)
		}
		delete(answers, op.Name)
		for _, s := range a.samples {
			if opstest.Elements(t, r, op, s, a.f) == 0 {
				t.Errorf("%s was not checked", op.Name)
			}
		}
	}
	if len(answers) > 0 {
		t.Errorf("%d operators have no expression", len(answers))
	}
}
