package raise_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/raise"
	"github.com/essmc/essmc/passes/raise/internal/convolution"
)

// TestConvForms runs the passes for convolutions on the graphs in testdata/<pass>. It compares the operators in order
// and the types of their results, but not fitted numbers, whose last digits depend on the machine.
func TestConvForms(t *testing.T) {
	for _, p := range []*passes.Pass{raise.Shapes, convolution.Conv, convolution.DFT, convolution.Toeplitz, convolution.RunningSum} {
		passtest.Golden(t, p, passtest.Case{Tol: 2e-6, Dims: []map[string]int64{{"B": 2, "L": 50}}, Show: operators})
	}
}

func operators(g *ir.Graph) string {
	var b strings.Builder
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "%s %v\n", n.Op.FullName(), n.Outputs[0].Type)
	}
	return b.String()
}
