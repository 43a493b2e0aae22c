package raise

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
)

// TestSharedFirstState raises recurrences whose first state is one row for all samples: a constant, or an input, which must
// not be taken for a constant.
func TestSharedFirstState(t *testing.T) {
	const text = `<ir_version: 10, opset_import: ["" : 22]>
g (float[B, L, 4] f, float[B, L, 4] v, STATE) => (float[B, L, 4] y)
<int64 one = {1}, CONSTANT> {
  d = Mul (f, f)
  n = Neg (d)
  a = CumSum (n, one)
  up = Exp (a)
  m = Neg (a)
  down = Exp (m)
  w = Mul (v, down)
  c = CumSum (w, one)
  x = Add (c, s)
  y = Mul (up, x)
}`
	for _, c := range []struct {
		name, state, constant string
		raised                int
	}{
		{"constant", "", "float[1, 1, 4] s = {1, -2, 3, 0.5}", 1},
		{"input", "float[1, 1, 4] s", "", 0},
		{"state of a sample", "float[B, 1, 4] s", "", 1},
	} {
		src := strings.NewReplacer("STATE", c.state, "CONSTANT", c.constant).Replace(text)
		src = strings.NewReplacer(", )", ")", ", >", ">").Replace(src)
		g, err := irtext.Parse([]byte(src), c.name, ops.Default, irtext.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := g.Clone()
		if err := passes.Run(r, Pipeline(), passtest.Verified(t)); err != nil {
			t.Fatal(err)
		}
		passtest.Same(t, g, r, 1e-6, recurrenceDims...)
		raised := 0
		_ = r.Walk(func(_ *ir.Graph, n *ir.Node) error {
			if n.Op.FullName() == "essm.GatedScan" {
				raised++
			}
			return nil
		})
		if raised != c.raised {
			t.Errorf("%s: %d recurrences, expected %d", c.name, raised, c.raised)
		}
	}
}
