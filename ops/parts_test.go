package ops_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// asked counts the checks of a context.
type asked struct {
	context.Context
	checks int
}

func (a *asked) Err() error { a.checks++; return nil }

// Loops in parts visit what plain ones visit, and check the context about once in ir.Pace operations.
func TestParts(t *testing.T) {
	for _, n := range []int{0, 1, 7, ir.Pace - 1, ir.Pace, ir.Pace + 1, 3*ir.Pace + 5, 20 * ir.Pace} {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(i)
		}
		for name, visit := range map[string]func(c *ir.EvalCtx, see func(i int)){
			"Each": func(c *ir.EvalCtx, see func(i int)) {
				for i := range ops.Each(c, n) {
					see(i)
				}
			},
			"All": func(c *ir.EvalCtx, see func(i int)) {
				for i, x := range ops.All(c, v) {
					if x != v[i] {
						t.Errorf("All: element %d is %v", i, x)
					}
					see(i)
				}
			},
			"Costly": func(c *ir.EvalCtx, see func(i int)) {
				for i := range ops.Costly(c, n, 1) {
					see(i)
				}
			},
			"Parts": func(c *ir.EvalCtx, see func(i int)) {
				for lo, hi := range ops.Parts(c, n) {
					for i := lo; i < hi; i++ {
						see(i)
					}
				}
			},
			"Walk": func(c *ir.EvalCtx, see func(i int)) { ops.Walk(c, []int{n}, []int{1}, 0, see) },
		} {
			a := &asked{Context: context.Background()}
			next := 0
			visit(&ir.EvalCtx{Ctx: a}, func(i int) {
				if i != next {
					t.Fatalf("%s(%d): %d follows %d", name, n, i, next-1)
				}
				next++
			})
			if next != n {
				t.Errorf("%s(%d) ends at %d", name, n, next)
			}
			if want := n / ir.Pace; a.checks < want-1 || a.checks > want+1 {
				t.Errorf("%s(%d) checks the context %d times, expected %d", name, n, a.checks, want)
			}
			next = 0
			if visit(nil, func(int) { next++ }); next != n {
				t.Errorf("%s(%d) without a context ends at %d", name, n, next)
			}
		}
	}
}

// Allocation and conversion in parts give the same as at once, for all element types and at odd sizes.
func TestAllocateInParts(t *testing.T) {
	const n = 1<<15 + 4097
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(i%251 - 3)
	}
	a := &asked{Context: context.Background()}
	c := &ir.EvalCtx{Ctx: a}
	for _, d := range ops.Any {
		if d == tensor.String || d.IsComplex() {
			continue
		}
		want, err := tensor.FromFloat64s(d, values, n)
		if err != nil {
			t.Fatal(err)
		}
		same := func(what string, got *tensor.Tensor, err error) {
			t.Helper()
			if err != nil || !tensor.Equal(got, want) {
				t.Errorf("%s of %v differs, or fails: %v", what, d, err)
			}
		}
		got, err := ops.FromFloat64s(c, d, values, n)
		same("FromFloat64s", got, err)
		same("Copy", ops.Copy(c, got), nil)
		v, err := ops.Float64s(c, want)
		if w, _ := want.Float64s(); err != nil || !slices.EqualFunc(v, w, identical) {
			t.Errorf("Float64s of %v differs, or fails: %v", d, err)
		}
		if d.IsInt() || d == tensor.Bool {
			k, err := ops.Int64s(c, want)
			if w, _ := want.Int64s(); err != nil || !slices.Equal(k, w) {
				t.Errorf("Int64s of %v differs, or fails: %v", d, err)
			}
		}
		for _, to := range ops.Any {
			if to.IsComplex() != d.IsComplex() {
				continue
			}
			for _, saturate := range []bool{false, true} {
				got, err := ops.Convert(c, want, to, saturate)
				if w, _ := want.Convert(to, saturate); err != nil || !tensor.Equal(got, w) {
					t.Errorf("Convert of %v to %v differs, or fails: %v", d, to, err)
				}
			}
		}
		if zero := ops.New(c, d, 3, n); !tensor.Equal(zero, tensor.New(d, 3, n)) {
			t.Errorf("New of %v is not 0", d)
		}
	}
	text, err := ops.Convert(c, tensor.FromSlice(values, n), tensor.String, false)
	if err != nil {
		t.Fatal(err)
	}
	if !tensor.Equal(ops.Copy(c, text), text) {
		t.Error("a copy of strings differs")
	}
	back, err := ops.Convert(c, text, tensor.Float64, false)
	if err != nil || !tensor.Equal(back, tensor.FromSlice(values, n)) {
		t.Errorf("numbers differ after strings: %v", err)
	}
	if v := ops.Repeat(c, values, 5); !slices.Equal(v, slices.Repeat(values, 5)) {
		t.Error("Repeat differs")
	}
	if v := ops.Clone(c, values); !slices.Equal(v, values) {
		t.Error("Clone differs")
	}
	if v := ops.Append(c, ops.Append(c, []float64{1}, values...), values...); len(v) != 2*n+1 || v[n] != values[n-1] ||
		!slices.Equal(v[n+1:], values) {
		t.Error("Append differs")
	}
	if v := ops.Make[int64](c, n); slices.ContainsFunc(v, func(x int64) bool { return x != 0 }) {
		t.Error("Make is not 0")
	}
	if a.checks < 1000 {
		t.Errorf("the context was checked %d times", a.checks)
	}
}

func identical(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
