package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
)

// counted counts its checks.
type counted struct {
	context.Context
	n int
}

func (c *counted) Err() error { c.n++; return nil }

// TestSolveLong solves a long chain of sums, from its end. The number of steps must be linear in the number of sums.
func TestSolveLong(t *testing.T) {
	for _, n := range []int{100, 20_000} {
		var places []place
		for i := range n {
			p := place{input: "x", axis: i, dim: ir.Sym(fmt.Sprint("N", i)), found: 1}
			if i < n-1 {
				p.dim, p.found = p.dim.Add(ir.Sym(fmt.Sprint("N", i+1))), 2
			}
			places = append(places, p)
		}
		ctx, dims := &counted{Context: context.Background()}, map[string]int64{}
		_, err := solve(&ir.EvalCtx{Ctx: ctx}, places, dims)
		if err != nil || len(dims) != n || dims["N0"] != 1 {
			t.Fatalf("%d places: %v, %d symbols", n, err, len(dims))
		}
		if most := 2 + n*8000/ir.Pace; ctx.n > most {
			t.Errorf("%d places: %d checks, more than %d", n, ctx.n, most)
		}
	}
}

// Whatever the dimensions are, solve ends, and what it finds agrees with every place that it determines.
func FuzzSolve(f *testing.F) {
	f.Add("B L 2*P P+Q ? 3", int64(2), int64(7))
	f.Add("2*P+1 P*Q floordiv(L,2) L max(L,3)", int64(5), int64(4))
	f.Add("-P 5-P P", int64(0), int64(5))
	f.Add("9223372036854775807*P P+9223372036854775807 -9223372036854775807*P-1", int64(1), int64(-1))
	f.Add("floordiv(P,Q) Q P", int64(0), int64(0))
	f.Fuzz(func(t *testing.T, text string, a, b int64) {
		var places []place
		for i, s := range strings.Fields(text) {
			d, err := ir.ParseDim(s)
			if err != nil || d.IsUnknown() || len(places) == 16 {
				continue
			}
			places = append(places, place{input: "x", axis: i, dim: d, found: []int64{a, b, a + b}[i%3]})
		}
		dims := map[string]int64{}
		by, err := solve(nil, places, dims)
		if err != nil {
			if !errors.Is(err, ErrInput) {
				t.Errorf("%q %d %d: %v is no ErrInput", text, a, b, err)
			}
			return
		}
		for name, n := range dims {
			if n < 0 {
				t.Errorf("%q %d %d: %s is %d", text, a, b, name, n)
			}
			if _, ok := by[name]; !ok {
				t.Errorf("%q %d %d: nothing determined %s", text, a, b, name)
			}
		}
		for _, p := range places {
			if n, err := p.dim.Eval(dims); err == nil && n != p.found {
				t.Errorf("%q %d %d: %v is %d, found %d", text, a, b, p.dim, n, p.found)
			}
		}
	})
}
