package runtime

import (
	"errors"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
)

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
		by, err := solve(places, dims)
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
