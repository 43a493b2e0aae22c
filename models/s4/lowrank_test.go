package s4

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/essmc/essmc/models"
)

// TestParameters counts the parameters of models of which papers state them.
func TestParameters(t *testing.T) {
	for id, want := range map[string]int{"s4-sc35": 307} { // Gu et al., 2022: thousands
		for _, p := range fullPresets() {
			if p.ID != id {
				continue
			}
			n, err := models.Parameters(p.Config, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := (n + 500) / 1000; got != want {
				t.Errorf("%s: %d parameters, expected %d thousand", id, n, want)
			}
		}
	}
}

// TestHiPPO checks that the initial systems, with their conjugates, are the matrices of their definitions: A = V(diag(λ) -
// Σ p p*)V*, by responses of the states that no basis changes: B*AᵏB.
func TestHiPPO(t *testing.T) {
	const size = 8
	q := func(i int) float64 { return math.Sqrt(float64(2*i + 1)) }
	for method, matrix := range map[string]func(i, k int) (a, b float64){
		"legs": func(i, k int) (a, b float64) {
			switch {
			case i > k:
				a = -q(i) * q(k)
			case i == k:
				a = -float64(i + 1)
			}
			return a, q(i)
		},
		"legt": func(i, k int) (a, b float64) {
			a = -q(i) * q(k) / 2
			if i < k && (k-i)%2 == 1 {
				a = -a
			}
			return a, q(i) / 2
		},
		"fout": func(i, k int) (a, b float64) {
			of := func(i int) float64 {
				switch {
				case i == 0:
					return 1
				case i%2 == 0:
					return math.Sqrt2
				}
				return 0
			}
			if i/2 == k/2 && i != k {
				if a = math.Pi * float64(i/2); i%2 == 0 {
					a = -a
				}
			}
			return a - of(i)*of(k), of(i)
		},
	} {
		x, y := make([]float64, size), make([]float64, size)
		for i := range x {
			_, x[i] = matrix(i, 0)
			_, y[i] = matrix(i, 0)
		}
		s := hippoSpectrum(method, size)
		n := len(s.lambda)
		if n != size/2 {
			t.Fatalf("%s: %d states", method, n)
		}
		z := append([]complex128(nil), s.b...)
		clipped := false
		for _, b := range s.b {
			clipped = clipped || math.Abs(imag(b)) == 2
		}
		for k := range 4 {
			var want, got float64
			for i := range x {
				want += x[i] * y[i]
			}
			for j := range z {
				got += 2 * real(cmplx.Conj(s.b[j])*z[j])
			}
			if math.Abs(got-want) > 1e-9*(1+math.Abs(want)) && !clipped {
				t.Errorf("%s: power %d gives %v, expected %v", method, k, got, want)
			}
			next := make([]float64, size)
			for i := range next {
				for j := range y {
					a, _ := matrix(i, j)
					next[i] += a * y[j]
				}
			}
			y = next
			w := make([]complex128, n)
			for j := range z {
				w[j] = s.lambda[j] * z[j]
			}
			for _, p := range s.p {
				sum := 0.0
				for j := range z {
					sum += 2 * real(cmplx.Conj(p[j])*z[j])
				}
				for j := range w {
					w[j] -= p[j] * complex(sum, 0)
				}
			}
			z = w
		}
		for j := 1; j < n; j++ {
			if imag(s.lambda[j]) < imag(s.lambda[j-1]) || imag(s.lambda[j]) > 1e-9 {
				t.Errorf("%s: the imaginary parts are out of order: %v", method, s.lambda)
			}
		}
	}
}
