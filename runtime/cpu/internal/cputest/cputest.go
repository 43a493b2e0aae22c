// Package cputest is what tests of the CPU backend share: random numbers, graphs of one node, and comparisons of its
// kernels with the interpreter and with definitions. Tests of a kind stand beside its kernels, in packages of their own
// that import runtime/cpu; tests of regions, memory and the executor stand in runtime/cpu. It is only for tests.
//
// It imports ir, ops, runtime, runtime/ref and runtime/backendtest, but not runtime/cpu, whose own tests use it: On has
// the backend.
package cputest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/backendtest"
	"github.com/essmc/essmc/runtime/ref"
)

// Run runs a graph once.
func Run(t testing.TB, g *ir.Graph, o runtime.Options, in map[string]tensor.Datum) map[string]tensor.Datum {
	t.Helper()
	m, err := runtime.New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	out, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Truth evaluates a graph by the interpreter, in float64.
func Truth(t testing.TB, g *ir.Graph, in map[string]tensor.Datum) map[string]tensor.Datum {
	t.Helper()
	return Run(t, g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, in)
}

// CloseTo reports an error unless got is within tol of want, relative to the largest number of want.
func CloseTo(t testing.TB, what string, got, want map[string]tensor.Datum, tol float64) {
	t.Helper()
	for name, w := range want {
		wt, gt := w.(*tensor.Tensor), got[name].(*tensor.Tensor)
		if fmt.Sprint(wt.Shape()) != fmt.Sprint(gt.Shape()) {
			t.Fatalf("%s: %s: shape %v, expected %v", what, name, gt.Shape(), wt.Shape())
		}
		a, _ := wt.Float64s()
		b, _ := gt.Float64s()
		top, worst, at := 1e-6, 0.0, 0
		for i := range a {
			if a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i]) {
				if !math.IsInf(a[i], 0) && !math.IsNaN(a[i]) {
					top = max(top, math.Abs(a[i]))
				}
				continue
			}
			d := math.Abs(a[i] - b[i])
			if !(d <= math.MaxFloat64) { // a number for none, or none for a number
				t.Fatalf("%s: %s[%d] = %g, expected %g", what, name, i, b[i], a[i])
			}
			top = max(top, math.Abs(a[i]))
			if d > worst {
				worst, at = d, i
			}
		}
		if !(worst <= tol*top) {
			t.Errorf("%s: %s[%d] = %g, expected %g; error %.3g relative to %.3g", what, name, at, b[at], a[at],
				worst/top, top)
		}
	}
}

// Directions are those of recurrences.
var Directions = []string{"forward", "backward", "bidirectional"}

// Parse reads a graph in ONNX's textual syntax, without its header.
func Parse(t testing.TB, text string) *ir.Graph {
	t.Helper()
	return ParseWith(t, text)
}

// ParseWith is Parse for graphs with operators of other domains.
func ParseWith(t testing.TB, text string, domains ...string) *ir.Graph {
	t.Helper()
	imports := `"" : 24`
	for _, d := range domains {
		imports += fmt.Sprintf(", %q : 1", d)
	}
	g, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: [`+imports+`]>`+text), "text", ops.Default,
		irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Flag returns a scalar of type bool.
func Flag(b bool) *tensor.Tensor { return tensor.Scalar(b) }

// Whole returns a vector of int64.
func Whole(v ...int64) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }

// Number returns a scalar of type int64.
func Number(v int64) *tensor.Tensor { return tensor.Scalar(v) }

// CompareDatum ends the test unless values are equal within Cases.
func CompareDatum(t *testing.T, name string, got, want tensor.Datum) {
	t.Helper()
	if d := backendtest.Diff(got, want, Cases); d != "" {
		t.Fatalf("%s: %s", name, d)
	}
}

// On returns the backend under test. Its methods check nodes and graphs on it.
type On func() runtime.Backend
