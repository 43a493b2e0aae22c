package graphfuzz

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/ops/opstest"
)

// views are evaluations of one output: in float64, in the graph's own types, and in float64 with errors as large as the
// operators' tolerances allow.
type views struct {
	wide, narrow tensor.Datum
	// perturbed is nil while bounds follow from wide and narrow alone.
	perturbed []tensor.Datum
	factor    float64
	counts    bool    // shapes may depend on whether numbers are equal
	floor     float64 // least scale of errors
	poles     bool    // numbers may be quotients: near a pole, their reciprocals are compared
	lossy     bool    // products have few digits
}

func (v views) item(i int) views {
	at := func(d tensor.Datum) tensor.Datum {
		if s, ok := eval.Present(d).(*tensor.Sequence); ok && i < len(s.Items) {
			return s.Items[i]
		}
		return nil
	}
	w := v
	w.wide, w.narrow, w.perturbed = at(v.wide), at(v.narrow), nil
	for _, p := range v.perturbed {
		w.perturbed = append(w.perturbed, at(p))
	}
	return w
}

// compare returns the difference of an answer from its views if it is larger than they allow, and "" otherwise.
func compare(got tensor.Datum, v views) string {
	got, v.wide, v.narrow = eval.Present(got), eval.Present(v.wide), eval.Present(v.narrow)
	switch want := v.wide.(type) {
	case nil:
		if got == nil {
			return ""
		}
	case *tensor.Tensor:
		if x, ok := got.(*tensor.Tensor); ok {
			return compareTensors(x, want, v)
		}
	case *tensor.Sequence:
		x, ok := got.(*tensor.Sequence)
		if !ok {
			break
		}
		if len(x.Items) != len(want.Items) {
			if v.unstable(func(d tensor.Datum) bool {
				s, ok := d.(*tensor.Sequence)
				return ok && len(s.Items) == len(want.Items)
			}) {
				return ""
			}
			return fmt.Sprintf("expected a sequence of %d, found %d", len(want.Items), len(x.Items))
		}
		for i := range x.Items {
			if d := compare(x.Items[i], v.item(i)); d != "" {
				return fmt.Sprintf("item %d: %s", i, d)
			}
		}
		return ""
	}
	if v.unstable(func(d tensor.Datum) bool { return (d == nil) == (v.wide == nil) }) {
		return ""
	}
	return fmt.Sprintf("expected %v, found %v", v.wide, got)
}

// unstable reports whether some evaluation with errors is not like the one without.
func (v views) unstable(like func(d tensor.Datum) bool) bool {
	for _, p := range v.perturbed {
		if !like(eval.Present(p)) {
			return true
		}
	}
	return false
}

func compareTensors(got, wide *tensor.Tensor, v views) string {
	sameShape := func(d tensor.Datum) bool {
		t, ok := d.(*tensor.Tensor)
		return ok && slices.Equal(t.Shape(), wide.Shape())
	}
	d := got.DType()
	if wide.DType() != d && !(wide.DType() == tensor.Float64 && d == tensor.Float32) {
		return fmt.Sprintf("expected %v, found %v", wide, got)
	}
	narrow, _ := v.narrow.(*tensor.Tensor)
	if !slices.Equal(got.Shape(), wide.Shape()) {
		if v.unstable(sameShape) || v.counts {
			return ""
		}
		if narrow != nil && slices.Equal(got.Shape(), narrow.Shape()) { // numbers that are 0 in their own precision
			v.wide, v.perturbed = narrow, nil
			return compareTensors(got, narrow, v)
		}
		return fmt.Sprintf("expected %v, found %v", wide, got)
	}
	if v.unstable(sameShape) {
		return ""
	}
	if narrow == nil || !slices.Equal(narrow.Shape(), got.Shape()) {
		if v.perturbed != nil {
			return "" // the interpreter differs from itself: no measure
		}
		return fmt.Sprintf("the interpreter has %v in float64 and %v without", wide, v.narrow)
	}
	if d == tensor.String {
		for i, s := range got.Strings() {
			if s != narrow.Strings()[i] && s != wide.Strings()[i] && !v.nearText(s, i) {
				return fmt.Sprintf("element %d: expected %q, found %q", i, narrow.Strings()[i], s)
			}
		}
		return ""
	}
	x, y, n := reals(got), reals(wide), reals(narrow)
	var others [][]float64
	for _, p := range v.perturbed {
		others = append(others, reals(p.(*tensor.Tensor)))
	}
	if !d.IsFloat() && !d.IsComplex() {
		if tensor.Equal(got, narrow) || tensor.Equal(got, wide) {
			return ""
		}
		if v.unstable(func(d tensor.Datum) bool { return tensor.Equal(d.(*tensor.Tensor), wide) }) && d.Bits() == 64 {
			return ""
		}
		exact := d.Bits() == 64
		for i := range x {
			exact = exact && x[i] == n[i] && x[i] == y[i]
			if x[i] == n[i] || x[i] == y[i] || slices.ContainsFunc(others,
				func(o []float64) bool { return o[i] != y[i] }) {
				continue
			}
			return fmt.Sprintf("element %d: expected %v, found %v", i, y[i], x[i])
		}
		if exact {
			return "differs beyond 2^53"
		}
		return ""
	}
	return compareFloats(d, x, y, n, others, v)
}

// nearText reports whether a text is a number that agrees with the expected one, at place i, to a few digits, or as far
// as evaluations with errors do.
func (v views) nearText(s string, i int) bool {
	number := func(d tensor.Datum) float64 {
		if t, ok := d.(*tensor.Tensor); ok && t.DType() == tensor.String && i < t.Len() {
			if x, err := strconv.ParseFloat(t.Strings()[i], 64); err == nil {
				return x
			}
		}
		return math.NaN()
	}
	x, err := strconv.ParseFloat(s, 64)
	want := number(v.wide)
	bound := 1e-3 * max(1, math.Abs(want))
	for _, p := range v.perturbed {
		if d := math.Abs(number(p) - want); d == d {
			bound = max(bound, v.factor*d)
		}
	}
	return err == nil && math.Abs(x-want) <= bound
}

func compareFloats(d tensor.DType, x, y, n []float64, others [][]float64, v views) string {
	odd := func(k float64) bool { return math.IsNaN(k) || math.IsInf(k, 0) }
	largest := math.MaxFloat64
	switch d {
	case tensor.Float32, tensor.Complex64:
		largest = math.MaxFloat32
	case tensor.Float16:
		largest = 65504
	case tensor.BFloat16:
		largest = 3.39e38
	}
	scale, own, spread := max(1e-30, v.floor), 0.0, 0.0
	for i := range y {
		if !odd(y[i]) && math.Abs(y[i]) <= largest {
			scale = max(scale, math.Abs(y[i]))
			if !odd(n[i]) {
				own = max(own, math.Abs(y[i]-n[i]))
			}
			for _, o := range others {
				if !odd(o[i]) {
					spread = max(spread, math.Abs(y[i]-o[i]))
				}
			}
		}
	}
	bound := max(v.factor*own, 32*opstest.Unit(d)*scale)
	if others != nil {
		bound = max(bound, v.factor*spread)
	}
	for i := range x {
		want := y[i]
		if math.Abs(want) > largest { // overflows
			want = math.Inf(1) * want
		}
		same := func(k float64) bool { return x[i] == k || math.IsNaN(x[i]) && math.IsNaN(k) }
		switch {
		case same(want) || same(n[i]):
		case !odd(x[i]) && (!odd(want) && math.Abs(x[i]-want) <= bound || !odd(n[i]) && math.Abs(x[i]-n[i]) <= bound):
		case slices.ContainsFunc(others, func(o []float64) bool {
			// a border between numbers and infinities, or the one to NaN
			return odd(o[i]) != odd(want) || odd(want) && !(o[i] == want || math.IsNaN(o[i]) && math.IsNaN(want))
		}):
		case math.IsInf(x[i], 0) && slices.ContainsFunc(others, func(o []float64) bool { return o[i]*want < 0 }):
			// a pole
		case v.poles && slices.ContainsFunc(others, func(o []float64) bool {
			return math.Abs(1/x[i]-1/want) <= v.factor*math.Abs(1/o[i]-1/want)
		}):
		case v.poles && v.lossy && others != nil && odd(x[i]): // a product that is 0 in few digits
		case others != nil && odd(n[i]) != odd(want):
		case math.Abs(y[i]) > largest*(1-1e-2) && (odd(x[i]) || math.Abs(x[i]) > largest*(1-1e-2)):
		default:
			return fmt.Sprintf("element %d: expected %v (in its own precision %v), found %v: %.3g allowed at scale "+
				"%.3g",
				i, y[i], n[i], x[i], bound, scale)
		}
	}
	return ""
}

// reals returns a tensor's numbers or, for complex types, the real and imaginary parts in turn.
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
	v, _ := t.Float64s()
	return v
}

// sameBits reports whether two data are equal bit by bit.
func sameBits(a, b tensor.Datum) bool {
	switch a := eval.Present(a).(type) {
	case *tensor.Tensor:
		b, ok := eval.Present(b).(*tensor.Tensor)
		return ok && tensor.Equal(a, b)
	case *tensor.Sequence:
		b, ok := eval.Present(b).(*tensor.Sequence)
		return ok && slices.EqualFunc(a.Items, b.Items, sameBits)
	}
	return eval.Present(b) == nil
}

// sameData returns the name of the first output in which two answers differ in any bit, or "".
func sameData(a, b Data) string {
	for _, name := range names(a) {
		if !sameBits(a[name], b[name]) {
			return name
		}
	}
	return ""
}

func names(d Data) []string { return slices.Sorted(maps.Keys(d)) }

func copyData(d Data) Data {
	c := Data{}
	for name, x := range d {
		c[name] = opstest.Copy(x)
	}
	return c
}

// zeroBits reports the first zero whose sign differs between two tensors of floats, or -1.
func zeroBits(a, b tensor.Datum) int {
	x, ok := eval.Present(a).(*tensor.Tensor)
	y, ok2 := eval.Present(b).(*tensor.Tensor)
	if !ok || !ok2 || !x.DType().IsFloat() || x.Len() != y.Len() {
		return -1
	}
	p, q := reals(x), reals(y)
	for i := range p {
		if p[i] == 0 && q[i] == 0 && math.Signbit(p[i]) != math.Signbit(q[i]) {
			return i
		}
	}
	return -1
}
