package raise_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/raise"
)

// TestConvForms runs the passes for convolutions on the graphs in testdata/<pass>. Of what a pass leaves the operators are
// held, in order, with the types of what they give: numbers that were fitted are not the same to the last digit everywhere.
func TestConvForms(t *testing.T) {
	for _, p := range []*passes.Pass{raise.Shapes, raise.Conv, raise.DFT, raise.Toeplitz} {
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
