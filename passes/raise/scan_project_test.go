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

// TestProjectionsOutside tests recurrences with projections of inputs and outputs outside of the operator, where
// exporters of some models put them. The pipelines must leave one system for each. Operators that only resemble
// projections stay outside.
func TestProjectionsOutside(t *testing.T) {
	reversed := strings.ReplaceAll(outsideComplex, "scan_output_axes",
		"scan_input_directions: ints = [1, 1], scan_output_directions: ints = [1, 1], scan_output_axes")
	turned := strings.ReplaceAll(outsideComplex, "scan_output_axes",
		"scan_input_directions: ints = [1, 1], scan_output_axes")
	mask := func(text, of string) string { // multiplied by a number per step
		text = strings.Replace(text, "[B,L,3] u)", "[B,L,3] u, float[L,1,1] m)", 1)
		return strings.Replace(text, "c1 = Mul ("+of, "c0 = Mul (m, "+of+")\n  c1 = Mul (c0", 1)
	}
	for _, c := range []struct {
		name, text string
		want       map[string]int
		inputs     int // features that the system reads; 0: not checked
	}{
		{"real states", outsideReal, map[string]int{"essm.SSM": 1}, 3},
		{"complex states", outsideComplex, map[string]int{"essm.SSM": 1}, 3},
		{"dense", outsideDense, map[string]int{"essm.DenseSSM": 1}, 3},
		{"backward", reversed, map[string]int{"essm.SSM": 1}, 3},
		{"an encoder that others read", outsideShared, map[string]int{"essm.SSM": 1}, 8},
		{"only the last state", outsideLast, map[string]int{"essm.Scan": 1}, 0},
		{"turned around on the way, so that D u is not its own", turned, map[string]int{"essm.SSM": 1}, 3},
		{"a mask behind", mask(outsideComplex, "xr"), map[string]int{"essm.Scan": 1, "ReduceSum": 1}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := irtext.Parse([]byte(c.text), c.name, ops.Default, irtext.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := g.Clone()
			if err := passes.Run(r, Pipeline(), passtest.Verified(t)); err != nil {
				t.Fatal(err)
			}
			passtest.Same(t, g, r, 1e-7, recurrenceDims...)
			if err := passes.Optimize(r); err != nil {
				t.Fatal(err)
			}
			passtest.Same(t, g, r, 1e-7, recurrenceDims...)
			got, inputs := map[string]int{}, 0
			_ = r.Walk(func(_ *ir.Graph, m *ir.Node) error {
				name := m.Op.FullName()
				got[name]++
				if name == "essm.SSM" || name == "essm.DenseSSM" {
					k, _ := m.In(0).Shape()[2].Known()
					inputs = int(k)
				}
				return nil
			})
			for _, op := range []string{"essm.SSM", "essm.DenseSSM", "essm.Scan", "essm.DenseScan", "Scan",
				"ReduceSum"} {
				if got[op] != c.want[op] {
					t.Errorf("%d of %s, expected %d", got[op], op, c.want[op])
				}
			}
			if c.inputs > 0 && inputs != c.inputs {
				t.Errorf("the system reads %d features, expected %d", inputs, c.inputs)
			}
			if t.Failed() {
				var b strings.Builder
				_ = irtext.Print(&b, r, irtext.Options{})
				t.Log(b.String())
			}
		})
	}
}

const outsideReal = `<ir_version: 10, opset_import: ["" : 24, "essm" : 1]>
g (float[B,L,3] u) => (float[B,L,2] y)
<float[4] a = {0.5, 0.3, -0.1, 0.4}, float[3,4] b = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, float[4,2] c = {1, -2, 3, -4, 5, 6, 7, 8},
 float[3,2] d = {1, -2, 3, -4, 5, 6}, float[2] e = {1, 2}, int64[1] i4 = {4}, int64[1] i0 = {0}, int64[1] i1 = {1}>
{
  s = Shape (u)
  n = Slice (s, i0, i1)
  hs = Concat <axis: int = 0> (n, i4)
  h0 = ConstantOfShape (hs)
  bu = MatMul (u, b)
  h1, x = Scan <num_scan_inputs: int = 1, scan_input_axes: ints = [1], scan_output_axes: ints = [1], body: graph = step (float[B,4] h, float[B,4] v) => (float[B,4] k, float[B,4] z) {
    ah = Mul (h, a)
    k = Add (ah, v)
    z = Identity (k)
  }> (h0, bu)
  cx = MatMul (x, c)
  du = MatMul (u, d)
  cd = Add (cx, du)
  y = Add (cd, e)
}`

const outsideComplex = `<ir_version: 10, opset_import: ["" : 24, "essm" : 1]>
g (float[B,L,3] u) => (float[B,L,3] y)
<float[3,2] ar = {0.5, 0.3, -0.1, 0.4, 0.2, 0.6}, float[3,2] ai = {0.5, -0.3, 0.1, 0.4, 0.7, 0.1}, float[3,2] br = {1, 2, 3, 4, 5, 6}, float[3,2] bi = {2, 1, -1, 3, 2, 1},
 float[3,2] cr = {1, -2, 3, -4, 5, 6}, float[3,2] ci = {7, 8, 2, 1, 3, 5}, float[3] d = {1, 2, 3}, int64[2] i32 = {3, 2}, int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] last = {-1}, float two = {2}>
{
  s = Shape (u)
  n = Slice (s, i0, i1)
  hs = Concat <axis: int = 0> (n, i32)
  h0 = ConstantOfShape (hs)
  w = Unsqueeze (u, last)
  vr = Mul (w, br)
  vi = Mul (w, bi)
  h1r, h1i, xr, xi = Scan <num_scan_inputs: int = 2, scan_input_axes: ints = [1, 1], scan_output_axes: ints = [1, 1], body: graph = step (float[B,3,2] hr, float[B,3,2] hi, float[B,3,2] ur, float[B,3,2] ui) => (float[B,3,2] kr, float[B,3,2] ki, float[B,3,2] zr, float[B,3,2] zi) {
    p1 = Mul (ar, hr)
    p2 = Mul (ai, hi)
    p3 = Sub (p1, p2)
    kr = Add (p3, ur)
    q1 = Mul (ar, hi)
    q2 = Mul (ai, hr)
    q3 = Add (q1, q2)
    ki = Add (q3, ui)
    zr = Identity (kr)
    zi = Identity (ki)
  }> (h0, h0, vr, vi)
  c1 = Mul (xr, cr)
  c2 = Mul (xi, ci)
  c3 = Sub (c1, c2)
  cs = ReduceSum <keepdims: int = 0> (c3, last)
  c4 = Mul (cs, two)
  du = Mul (u, d)
  y = Add (c4, du)
}`

const outsideDense = `<ir_version: 10, opset_import: ["" : 24, "essm" : 1]>
g (float[B,L,3] u) => (float[B,L,2] y)
<float[2,2] a = {0.5, 0.3, -0.1, 0.4}, float[3,2] b = {1, 2, 3, 4, 5, 6}, float[2,2] c = {1, -2, 3, -4},
 int64[1] i2 = {2}, int64[1] i0 = {0}, int64[1] i1 = {1}>
{
  s = Shape (u)
  n = Slice (s, i0, i1)
  hs = Concat <axis: int = 0> (n, i2)
  h0 = ConstantOfShape (hs)
  bu = MatMul (u, b)
  h1, x = Scan <num_scan_inputs: int = 1, scan_input_axes: ints = [1], scan_output_axes: ints = [1], body: graph = step (float[B,2] h, float[B,2] v) => (float[B,2] k, float[B,2] z) {
    ah = MatMul (h, a)
    k = Add (ah, v)
    z = Identity (k)
  }> (h0, bu)
  y = MatMul (x, c)
}`

const outsideShared = `<ir_version: 10, opset_import: ["" : 24, "essm" : 1]>
g (float[B,L,2] u) => (float[B,L,8] y)
<float[8] a = {0.5, 0.3, -0.1, 0.4, 0.2, 0.1, 0.6, 0.7}, float[2,8] b = {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1}, float[8] c = {1, -2, 3, -4, 5, 6, 7, 8},
 int64[1] i8 = {8}, int64[1] i0 = {0}, int64[1] i1 = {1}>
{
  s = Shape (u)
  n = Slice (s, i0, i1)
  hs = Concat <axis: int = 0> (n, i8)
  h0 = ConstantOfShape (hs)
  e = MatMul (u, b)
  h1, x = Scan <num_scan_inputs: int = 1, scan_input_axes: ints = [1], scan_output_axes: ints = [1], body: graph = step (float[B,8] h, float[B,8] v) => (float[B,8] k, float[B,8] z) {
    ah = Mul (h, a)
    k = Add (ah, v)
    z = Identity (k)
  }> (h0, e)
  cx = Mul (x, c)
  r = Relu (cx)
  y = Add (r, e)
}`

const outsideLast = `<ir_version: 10, opset_import: ["" : 24, "essm" : 1]>
g (float[B,L,3] u, float[B,4] h0) => (float[B,4] y)
<float[4] a = {0.5, 0.3, -0.1, 0.4}, float[3,4] b = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}>
{
  bu = MatMul (u, b)
  y, x = Scan <num_scan_inputs: int = 1, scan_input_axes: ints = [1], scan_output_axes: ints = [1], body: graph = step (float[B,4] h, float[B,4] v) => (float[B,4] k, float[B,4] z) {
    ah = Mul (h, a)
    k = Add (ah, v)
    z = Identity (k)
  }> (h0, bu)
}`
