package backendtest

import (
	"math"
	"strings"
	"testing"
)

// computed is the product with operands as round leaves them.
func (p *product) computed(round func(row []float64) []float64) []float64 {
	y := make([]float64, p.rows*p.outs)
	for r := range p.rows {
		x := round(p.x[r*p.k:][:p.k])
		for o := range p.outs {
			y[r*p.outs+o] = p.b[o]
			for k, w := range round(p.w[o*p.k:][:p.k]) {
				y[r*p.outs+o] += x[k] * w
			}
		}
	}
	return y
}

// bits rounds to a number of significant bits.
func bits(n int, nearest bool) func([]float64) []float64 {
	return func(row []float64) []float64 {
		out := make([]float64, len(row))
		for i, x := range row {
			f, e := math.Frexp(x)
			if f = math.Ldexp(f, n); nearest {
				f = math.RoundToEven(f)
			} else {
				f = math.Trunc(f)
			}
			out[i] = math.Ldexp(f, e-n)
		}
		return out
	}
}

// integers rounds to steps of 1/most of the largest of a row.
func integers(most float64) func([]float64) []float64 {
	return func(row []float64) []float64 {
		largest := 0.0
		for _, x := range row {
			largest = max(largest, math.Abs(x))
		}
		out := make([]float64, len(row))
		for i, x := range row {
			out[i] = math.RoundToEven(x/largest*most) * largest / most
		}
		return out
	}
}

// TestLowered checks that products which round as their precision says are within its bound and near enough to it to be told
// from float32, and that those with some bits less are not within it, although the bound that has the scale of the largest
// element let them through.
func TestLowered(t *testing.T) {
	old := map[string]float64{"precision-bfloat16": 5e-2, "precision-int8": 1e-1, "tf32": 1e-2} // of the largest element
	right := map[string]func([]float64) []float64{"precision-bfloat16": bits(8, true), "precision-int8": integers(127),
		"tf32": bits(11, true)}
	wrong := map[string]func([]float64) []float64{"precision-bfloat16": bits(5, true), "precision-int8": integers(24),
		"tf32": bits(8, true)}
	for _, l := range lowerings {
		for _, p := range products(t) {
			if far, bad := p.judge(l, p.computed(right[l.name])); bad != "" || far < 2*effect {
				t.Errorf("%s, %s: at %.3g of the bound: %s", l.name, p.name, far, bad)
			}
			if far, bad := p.judge(l, p.computed(bits(24, true))); bad != "" || far > effect/2 {
				t.Errorf("%s, %s in float32: at %.3g of the bound: %s", l.name, p.name, far, bad)
			}
			if p.k > 100 {
				continue // errors of longer sums cancel, so their bound leaves more room
			}
			y := p.computed(wrong[l.name])
			if _, bad := p.judge(l, y); bad == "" {
				t.Errorf("%s, %s: fewer bits are not found", l.name, p.name)
			}
			exact, largest, most := p.computed(func(row []float64) []float64 { return row }), 0.0, 0.0
			for i := range y {
				largest, most = max(largest, math.Abs(exact[i])), max(most, math.Abs(y[i]-exact[i]))
			}
			if most > old[l.name]*largest {
				t.Errorf("%s, %s: off by %.3g of the largest element: the old bound finds that, too", l.name, p.name, most/largest)
			}
			// an element that is lost altogether
			y = p.computed(right[l.name])
			y[0] = 2*p.b[0] - y[0]
			if _, bad := p.judge(l, y); !strings.HasPrefix(bad, "row 0, output 0") {
				t.Errorf("%s, %s: another sign is not found: %q", l.name, p.name, bad)
			}
		}
	}
}
