package backendtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// Diff returns the difference of got from truth, which was computed in float64, if it is larger than tol allows for
// got's element type, and "" otherwise. Shapes must be equal, and so must integers, bools and strings. NaN and
// infinities must be at the same places as in truth rounded to got's type.
func Diff(got, truth tensor.Datum, tol ir.Tolerance) string {
	switch truth := truth.(type) {
	case nil:
		if got == nil {
			return ""
		}
	case *tensor.Tensor:
		if got, ok := got.(*tensor.Tensor); ok {
			return diffTensors(got, truth, tol)
		}
	case *tensor.Sequence:
		got, ok := got.(*tensor.Sequence)
		if !ok {
			break
		}
		if len(got.Items) != len(truth.Items) {
			return fmt.Sprintf("expected a sequence of %d, found %d", len(truth.Items), len(got.Items))
		}
		for i := range got.Items {
			if d := Diff(got.Items[i], truth.Items[i], tol); d != "" {
				return fmt.Sprintf("item %d: %s", i, d)
			}
		}
		return ""
	case *tensor.Optional:
		return Diff(got, truth.Value, tol)
	}
	if o, ok := got.(*tensor.Optional); ok {
		return Diff(o.Value, truth, tol)
	}
	return fmt.Sprintf("expected %T, found %T", truth, got)
}

func diffTensors(got, truth *tensor.Tensor, tol ir.Tolerance) string {
	d := got.DType()
	same := d == truth.DType() || truth.DType() == tensor.Float64 && d.IsFloat() ||
		truth.DType() == tensor.Complex128 && d == tensor.Complex64
	if !same || !slices.Equal(got.Shape(), truth.Shape()) {
		return fmt.Sprintf("expected %s, found %s", truth, got)
	}
	if !d.IsFloat() && !d.IsComplex() {
		if tensor.Equal(got, truth) {
			return ""
		}
		if d == tensor.String {
			return fmt.Sprintf("expected %q, found %q", truth.Strings(), got.Strings())
		}
		x, _ := got.Float64s()
		y, _ := truth.Float64s()
		for i := range x {
			if x[i] != y[i] {
				return fmt.Sprintf("element %d: expected %v, found %v", i, y[i], x[i])
			}
		}
		return "differs beyond 2^53"
	}
	rounded, err := truth.Convert(d, false)
	if err != nil {
		return err.Error()
	}
	x, y, r := reals(got), reals(truth), reals(rounded)
	scale := scaleOf(y, r)
	bound := tol.Ulps * opstest.Unit(d) * scale
	worst, at := 0.0, -1
	for i := range x {
		switch {
		case math.IsNaN(r[i]) && math.IsNaN(x[i]), x[i] == r[i]:
		case math.IsNaN(r[i]) || math.IsNaN(x[i]) || math.IsInf(r[i], 0) || math.IsInf(x[i], 0):
			return fmt.Sprintf("element %d: expected %v, found %v", i, y[i], x[i])
		default:
			if e := math.Abs(x[i] - y[i]); e > bound && e > worst {
				worst, at = e, i
			}
		}
	}
	if at >= 0 {
		return fmt.Sprintf(
			"element %d: expected %v, found %v: off by %.3g, %.3g allowed (%g units of %v at scale %.3g)",
			at, y[at], x[at], worst, bound, tol.Ulps, d, scale)
	}
	return ""
}

// farthest returns the largest error of an output in units of its element type, at the scale of its largest absolute
// value.
func farthest(got, truth Data) float64 {
	most := 0.0
	for name, d := range truth {
		want, ok := d.(*tensor.Tensor)
		x, okx := got[name].(*tensor.Tensor)
		if !ok || !okx || !x.DType().IsFloat() || x.Len() != want.Len() {
			continue // other types are compared exactly
		}
		a, b := reals(x), reals(want)
		scale := scaleOf(b, b)
		for i := range a {
			if e := math.Abs(a[i] - b[i]); e < math.Inf(1) {
				most = max(most, e/(opstest.Unit(x.DType())*scale))
			}
		}
	}
	return most
}

// scaleOf returns the largest absolute value of the truth that is finite after rounding. It is never 0.
func scaleOf(truth, rounded []float64) float64 {
	scale := 1e-30
	for i, v := range truth {
		if !math.IsInf(rounded[i], 0) && !math.IsNaN(v) {
			scale = max(scale, math.Abs(v))
		}
	}
	return scale
}

// reals returns a float tensor's numbers or, for complex types, the real and imaginary parts in turn.
func reals(t *tensor.Tensor) []float64 {
	switch t.DType() {
	case tensor.Complex64:
		var out []float64
		for _, v := range tensor.Data[complex64](t) {
			out = append(out, float64(real(v)), float64(imag(v)))
		}
		return out
	case tensor.Complex128:
		var out []float64
		for _, v := range tensor.Data[complex128](t) {
			out = append(out, real(v), imag(v))
		}
		return out
	}
	v, err := t.Float64s()
	if err != nil {
		return nil
	}
	return v
}

// GraphTolerance returns the tolerance of a graph's answers, if each node keeps its operator's tolerance and none
// amplifies errors: the sum over all nodes, including bodies and subgraphs.
func GraphTolerance(g *ir.Graph) ir.Tolerance {
	var sum ir.Tolerance
	_ = g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		sum.Ulps += n.Op.Tol.Ulps
		return nil
	})
	return sum
}
