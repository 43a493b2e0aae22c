package raise_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/passtest"
)

// stepMisses are graphs that resemble one step of a recurrence, as nodes over u, h, w float[B,2] that compute y, k
// float[B,2], with the note that each must cause behind ""; it is empty if nothing is near.
var stepMisses = map[string]struct{ text, why string }{
	"the state is read by another operator": {
		text: "p = Mul (a, h)\n  k = Add (p, u)\n  r = Relu (h)\n  y = Add (k, r)",
		why:  "Add -> k left as it is: as the next state of input h: Relu -> r reads h too, expected the next state only",
	},
	"the state before the step makes the result": {
		text: "p = Mul (a, h)\n  k = Add (p, u)\n  r = Mul (b, h)\n  q = Add (r, u)\n  y = Relu (q)",
		why:  "Add -> k left as it is: as the next state of input h: Mul -> r reads h too, expected the next state only",
	},
	"another activation": {
		text: "p = Mul (a, h)\n  q = Add (p, u)\n  k = Tanh (q)\n  y = Mul (b, k)",
		why:  "Tanh -> k left as it is: as the next state of input h: Tanh -> k is not linear",
	},
	"decay from the input": {
		text: "s = Sigmoid (u)\n  p = Mul (s, h)\n  k = Add (p, u)\n  y = Mul (b, k)",
		why:  "Add -> k left as it is: as the next state of input h: Mul -> p is not linear",
	},
	"a connection around a layer": {text: "r = Relu (u)\n  k = Add (h, r)\n  y = Mul (b, k)"},
	"a sum with weights of two inputs": {
		text: "p = Mul (a, h)\n  q = Mul (b, u)\n  k = Add (p, q)\n  y = Mul (a, k)",
		why:  "Add -> k left as it is: as the next state of input h: input u would be its state as well, expected one",
	},
	"a matrix mixes the elements": {
		text: "p = MatMul (h, m)\n  r = Relu (u)\n  k = Add (p, r)\n  y = Mul (b, k)",
		why: "Add -> k left as it is: as the next state of input h: its elements [0 1] depend on each other in the next " +
			"state, expected elements or pairs of them that depend on themselves only",
	},
	"an element is not kept": {
		text: "p = Mul (z, h)\n  r = Relu (u)\n  k = Add (p, r)\n  y = Mul (b, k)",
		why:  "Add -> k left as it is: as the next state of input h: element 1 of it does not reach the next state",
	},
	"nothing is added": {
		text: "k = Mul (a, h)\n  p = Mul (b, k)\n  y = Add (p, u)",
		why:  "Add -> y left as it is: as the next state of input h: output k reads it, expected the next state only",
	},
	"a coefficient of 1": {
		text: "r = Relu (u)\n  p = Mul (one, h)\n  k = Add (p, r)\n  y = Mul (b, k)",
		why: "Add -> k left as it is: as the next state of input h: element 1 of it is multiplied by 1 in a step, " +
			"expected a decay: less than 1",
	},
	"no result reads the next state": {
		text: "r = Relu (u)\n  p = Mul (a, h)\n  k = Add (p, r)\n  y = Mul (b, r)",
		why: "Add -> k left as it is: as the next state of input h: no result reads the next state, expected " +
			"y = C·z' + D·u",
	},
	"samples are mixed": {
		text: "r = Relu (u)\n  t = ReduceMean <keepdims: int = 1> (h, zero)\n  n = Mul (a, t)\n  g = Sub (h, n)\n  p = Mul (a, g)" +
			"\n  k = Add (p, r)\n  y = Mul (b, k)",
		why: "Add -> k left as it is: as the next state of input h: state h: samples of a batch depend on each other",
	},
	"the result is not linear": {
		text: "r = Relu (u)\n  p = Mul (a, h)\n  k = Add (p, r)\n  y = Relu (k)",
		why:  "Add -> k left as it is: as the next state of input h: its results are not linear in the next state",
	},
	"no recurrence": {text: "y = Relu (u)\n  k = Relu (w)"},
}

// TestStepMisses checks that an ordinary input is not taken for a state, and that the note gives the reason.
func TestStepMisses(t *testing.T) {
	for name, m := range stepMisses {
		t.Run(name, func(t *testing.T) {
			g, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 24, "essm" : 1]>
g (float[B,2] u, float[B,2] h, float[B,2] w) => (float[B,2] y, float[B,2] k)
<float[2] a = {0.5, 0.125}, float[2] b = {0.25, 0.75}, float[2] z = {0.5, 0}, float[2] one = {0.5, 1},
 float[2,2] m = {0.5, 0.25, 0.125, 0.5},
 int64[1] zero = {0}>
{
  `+m.text+`
}`), "step", ops.Default, irtext.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := raised(t, g)
			if n := count(r, "essm.SSM", "essm.Scan", "essm.DenseScan"); n != 0 {
				t.Errorf("%d scans, expected none", n)
			}
			notes := passtest.Notes(r)
			if m.why == "" && len(notes) > 0 || m.why != "" && !slices.ContainsFunc(notes, func(s string) bool {
				return strings.HasPrefix(s, "step: "+m.why)
			}) {
				t.Errorf("notes are\n%s\nexpected\n%s", strings.Join(notes, "\n"), m.why)
			}
			agree(t, g, r, 1e-6, map[string]int64{"B": 3})
		})
	}
}
