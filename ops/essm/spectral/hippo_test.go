package spectral

import (
	"math"
	"math/cmplx"
	"testing"
)

func TestHiPPOKnown(t *testing.T) {
	for n, want := range map[int][]float64{
		1: {0},
		2: {-math.Sqrt(3) / 2, math.Sqrt(3) / 2},
		// ω⁴ - 43/2 ω² + 105/16 = 0: the sum of the squares, and the square of the Pfaffian √105/4.
		4: {-math.Sqrt((21.5 + math.Sqrt(436)) / 2), -math.Sqrt((21.5 - math.Sqrt(436)) / 2),
			math.Sqrt((21.5 - math.Sqrt(436)) / 2), math.Sqrt((21.5 + math.Sqrt(436)) / 2)},
	} {
		lambda, _, err := HiPPO(n)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range lambda {
			if real(l) != -0.5 || !(math.Abs(imag(l)-want[i]) <= 1e-14*(1+math.Abs(want[i]))) {
				t.Errorf("n = %d: value %d is %v, expected -0.5 + %vi", n, i, l, want[i])
			}
		}
	}
	for _, n := range []int{0, -1, maxHiPPO + 1} {
		if _, _, err := HiPPO(n); err == nil {
			t.Errorf("size %d: no error", n)
		}
	}
}

// TestHiPPOSpectrum checks V against the matrix that it comes from: (A + PPᵀ) V = V Λ, V unitary, conjugates exact.
func TestHiPPOSpectrum(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 7, 8, 16, 33, 64, 128} {
		lambda, v, err := HiPPO(n)
		if err != nil {
			t.Fatal(err)
		}
		scale := math.Max(1, cmplx.Abs(lambda[0]))
		for c, l := range lambda {
			for r := range n {
				var sum complex128
				for k := range n {
					a := math.Sqrt(float64(r)+0.5) * math.Sqrt(float64(k)+0.5)
					switch {
					case r > k:
						a -= math.Sqrt(float64(2*r+1)) * math.Sqrt(float64(2*k+1))
					case r == k:
						a -= float64(r + 1)
					}
					sum += complex(a, 0) * v[c][k]
				}
				if d := cmplx.Abs(sum - l*v[c][r]); !(d <= 1e-13*scale) {
					t.Errorf("n = %d: residual %g in row %d of vector %d", n, d, r, c)
				}
				if o := n - 1 - c; v[o][r] != cmplx.Conj(v[c][r]) || lambda[o] != cmplx.Conj(l) {
					t.Errorf("n = %d: vectors %d and %d are no conjugates", n, c, o)
				}
			}
			for d := range lambda {
				var dot complex128
				for r := range n {
					dot += cmplx.Conj(v[c][r]) * v[d][r]
				}
				if c == d {
					dot--
				}
				if !(cmplx.Abs(dot) <= 1e-13) {
					t.Errorf("n = %d: vectors %d and %d have product %v", n, c, d, dot)
				}
			}
			if c > 0 && imag(lambda[c-1]) >= imag(l) {
				t.Errorf("n = %d: values are not in order at %d", n, c)
			}
		}
	}
}

// TestHiPPOLarge checks large sizes without a solver: the squares of the imaginary parts sum up to the
// squares of the elements of the skew-symmetric part.
func TestHiPPOLarge(t *testing.T) {
	for _, n := range []int{511, 1024} {
		lambda, v, err := HiPPO(n)
		if err != nil {
			t.Fatal(err)
		}
		squares, elements := 0.0, 0.0
		for i, l := range lambda {
			squares += imag(l) * imag(l)
			for j := range i {
				elements += 2 * (float64(i) + 0.5) * (float64(j) + 0.5)
			}
		}
		if !(math.Abs(squares/elements-1) <= 1e-13) {
			t.Errorf("n = %d: squares sum up to %v, expected %v", n, squares, elements)
		}
		for _, pair := range [][2]int{{0, 1}, {n/2 - 1, n / 2}, {n / 4, n / 3}} {
			var dot complex128
			for r := range n {
				dot += cmplx.Conj(v[pair[0]][r]) * v[pair[1]][r]
			}
			if !(cmplx.Abs(dot) <= 1e-10) {
				t.Errorf("n = %d: vectors %v have product %v", n, pair, dot)
			}
		}
	}
}

func BenchmarkHiPPO256(b *testing.B) {
	for b.Loop() {
		if _, _, err := HiPPO(256); err != nil {
			b.Fatal(err)
		}
	}
}
