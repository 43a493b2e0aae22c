package nodetest

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
)

// Tolerances of the standard's own runner for floats. Everything else must be equal.
const (
	RelTol = 1e-3
	AbsTol = 1e-7
)

// Compare returns an error unless got equals want: floats within AbsTol + RelTol*|want|, NaN for NaN, and everything
// else exactly, including element types, shapes, and the lengths of sequences. An optional equals its value.
func Compare(got, want tensor.Datum) error {
	got, want = inside(got), inside(want)
	switch w := want.(type) {
	case nil:
		if got != nil {
			return fmt.Errorf("expected nothing, found %s", describe(got))
		}
		return nil
	case *tensor.Sequence:
		g, ok := got.(*tensor.Sequence)
		if !ok || len(g.Items) != len(w.Items) {
			return fmt.Errorf("expected %s, found %s", describe(w), describe(got))
		}
		for i := range w.Items {
			if err := Compare(g.Items[i], w.Items[i]); err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
		}
		return nil
	}
	w := want.(*tensor.Tensor)
	g, ok := got.(*tensor.Tensor)
	if !ok || g.DType() != w.DType() || !slices.Equal(g.Shape(), w.Shape()) {
		return fmt.Errorf("expected %s, found %s", describe(w), describe(got))
	}
	return compareTensors(g, w)
}

// inside returns the value of an optional, and an untyped nil for any nil.
func inside(d tensor.Datum) tensor.Datum {
	switch v := d.(type) {
	case *tensor.Optional:
		if v == nil {
			return nil
		}
		return inside(v.Value)
	case *tensor.Tensor:
		if v == nil {
			return nil
		}
	case *tensor.Sequence:
		if v == nil {
			return nil
		}
	}
	return d
}

func compareTensors(g, w *tensor.Tensor) error {
	differ := func(i int, got, want any) error {
		return fmt.Errorf("element %d of %s: expected %v, found %v", i, w, want, got)
	}
	switch d := w.DType(); {
	case d.IsFloat():
		x, err := g.Float64s()
		if err != nil {
			return err
		}
		y, err := w.Float64s()
		if err != nil {
			return err
		}
		for i := range y {
			if !near(x[i], y[i]) {
				return differ(i, x[i], y[i])
			}
		}
	case d.IsComplex():
		x, y := complexes(g), complexes(w)
		for i := range y {
			if x[i] == y[i] || cmplx.IsNaN(x[i]) && cmplx.IsNaN(y[i]) {
				continue
			}
			if !(cmplx.Abs(x[i]-y[i]) <= AbsTol+RelTol*cmplx.Abs(y[i])) || cmplx.IsInf(y[i]) {
				return differ(i, x[i], y[i])
			}
		}
	case d == tensor.String:
		for i, s := range w.Strings() {
			if g.Strings()[i] != s {
				return differ(i, fmt.Sprintf("%q", g.Strings()[i]), fmt.Sprintf("%q", s))
			}
		}
	default:
		if tensor.Equal(g, w) {
			return nil
		}
		x, errX := g.Int64s()
		y, errY := w.Int64s()
		if errX != nil || errY != nil {
			return fmt.Errorf("%s differs", w)
		}
		for i := range y {
			if x[i] != y[i] {
				return differ(i, x[i], y[i])
			}
		}
	}
	return nil
}

func near(x, y float64) bool {
	if x == y || math.IsNaN(x) && math.IsNaN(y) {
		return true
	}
	return math.Abs(x-y) <= AbsTol+RelTol*math.Abs(y) && !math.IsInf(y, 0)
}

func complexes(t *tensor.Tensor) []complex128 {
	if t.DType() == tensor.Complex128 {
		return tensor.Data[complex128](t)
	}
	out := make([]complex128, t.Len())
	for i, v := range tensor.Data[complex64](t) {
		out[i] = complex128(v)
	}
	return out
}

func describe(d tensor.Datum) string {
	switch d := inside(d).(type) {
	case *tensor.Tensor:
		return d.String()
	case *tensor.Sequence:
		return fmt.Sprintf("a sequence of %d", len(d.Items))
	}
	return "nothing"
}
