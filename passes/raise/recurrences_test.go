package raise

import (
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/passes/passtest"
)

// recurrenceDims are the sizes at which graphs with recurrences are compared.
var recurrenceDims = []map[string]int64{{"B": 1, "L": 2}, {"B": 2, "L": 7}, {"B": 3, "L": 40}}

// TestForms runs each pass on the graphs in testdata/<pass>.
func TestForms(t *testing.T) {
	for _, p := range slices.Concat(recurrences, layers) {
		if !strings.HasPrefix(p.Name, "raise-") {
			continue // tested where it is defined
		}
		c := passtest.Case{Dims: recurrenceDims}
		if slices.Contains(layers, p) {
			c.Tol = 1e-7 // raised operators have exact numbers where exporters write rounded ones
		}
		passtest.Golden(t, p, c)
	}
}
