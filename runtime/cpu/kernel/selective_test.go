package kernel

import (
	"fmt"
	"math"
	"testing"
)

// TestSelective checks selective scans against their definition in float64: features that do not fill vectors,
// groups, one rate for all states, rates from very slow to very fast, and states that continue from call to call.
func TestSelective(t *testing.T) { eachVariant(t, testSelective) }

func testSelective(t *testing.T) {
	r := newRand()
	for _, per := range []int{1, 3, 8, 15, 16, 17, 40} {
		for _, groups := range []int{1, 2} {
			for _, n := range []int{1, 2, 5, 16} {
				for _, rows := range []int{1, 2, 7, 100} {
					one := r.IntN(2) == 0
					features, columns := per*groups, n
					if one {
						columns = 1
					}
					a := make([]float32, features*columns)
					for i := range a {
						a[i] = -float32(math.Exp(20*r.Float64() - 14))
					}
					var direct []float32
					if r.IntN(2) == 0 {
						direct = random(r, features)
					}
					s := NewSelective(features, groups, n, columns == 1).With(features, a, direct)
					x, delta := random(r, rows*features), random(r, rows*features)
					for i := range delta {
						delta[i] = float32(math.Abs(float64(delta[i])))
					}
					b, c := make([]float64, rows*groups*n), make([]float64, rows*groups*n)
					for i := range b {
						b[i], c[i] = r.NormFloat64(), r.NormFloat64()
					}
					state := make([]float64, features*n)
					for i := range state {
						state[i] = r.NormFloat64()
					}
					z := make([]float64, s.Blocks()*s.States())
					y := make([]float32, rows*features+2)
					y[0], y[len(y)-1] = guard, guard
					for k := range s.Blocks() {
						from, _ := s.Block(k)
						LoadStates(s, k, z[k*s.States():][:s.States()], state[from*n:])
						half := rows / 2
						s.scan(k, y[1:len(y)-1], x, delta, b, c, groups, 0, half, z)
						s.scan(k, y[1:len(y)-1], x, delta, b, c, groups, half, rows-half, z)
					}
					what := fmt.Sprintf("%d×%d features, %d states, %d rows, one rate %v", groups, per, n, rows, one)
					want, size := make([]float64, len(x)), make([]float64, len(x))
					for e := range features {
						for row := range rows {
							at := row*features + e
							step, u := float64(delta[at]), float64(x[at])
							for j := range n {
								q, g := &state[e*n+j], (row*groups+e/per)*n+j
								*q = math.Exp(step*float64(a[e*columns+j%columns]))**q + step*u*b[g]
								want[at] += c[g] * *q
								size[at] += math.Abs(c[g] * *q)
							}
							if direct != nil {
								want[at] += float64(direct[e]) * u
								size[at] += math.Abs(float64(direct[e]) * u)
							}
						}
					}
					if y[0] != guard || y[len(y)-1] != guard {
						t.Fatalf("%s: wrote outside of its rows", what)
					}
					for i, w := range want {
						if d := math.Abs(float64(y[1+i]) - w); !(d <= 1e-6*(1+size[i])) {
							t.Fatalf("%s: y[%d] is %g, expected %g", what, i, y[1+i], w)
						}
					}
					for k := range s.Blocks() {
						from, count := s.Block(k)
						after := make([]float64, count*n)
						SaveStates(s, k, z[k*s.States():], after)
						for i, v := range after {
							if w := state[from*n+i]; !(math.Abs(v-w) <= 2e-6*(1+math.Abs(w))) {
								t.Fatalf("%s: state %d of block %d is %g, expected %g", what, i, k, v, w)
							}
						}
					}
				}
			}
		}
	}
}

// scan advances block k over count rows from row at on, of rows of all features and groups.
func (s *Selective) scan(k int, y, x, delta []float32, b, c []float64, groups, at, count int, z []float64) {
	from, _ := s.Block(k)
	first, g := at*s.features+from, (at*groups+s.Group(k))*s.N
	s.Scan(k, y[first:], x[first:], s.features, delta[first:], s.features, b[g:], c[g:], groups*s.N, count,
		z[k*s.States():][:s.States()])
}

// TestSelectiveSlow checks that states of rates far below the precision of float32 decay as they should: over a million
// steps, the factor e^(Δa) rounded to float32 would be off by a tenth.
func TestSelectiveSlow(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		const rows, rate = 1 << 20, -1e-6
		s := NewSelective(16, 1, 1, false).With(16, make16(rate), nil)
		x, delta, y := make([]float32, 16*64), make([]float32, 16*64), make([]float32, 16*64)
		for i := range delta {
			delta[i] = 1
		}
		ones := make([]float64, 64)
		for i := range ones {
			ones[i] = 1
		}
		z := make([]float64, s.Blocks()*s.States())
		for k := range s.Blocks() {
			LoadStates(s, k, z[k*s.States():][:s.States()], ones[:16])
		}
		for range rows / 64 {
			for k := range s.Blocks() {
				s.scan(k, y, x, delta, ones, ones, 1, 0, 64, z)
			}
		}
		want := math.Exp(rows * float64(float32(rate)))
		if got := float64(y[len(y)-1]); math.Abs(got-want) > 1e-6*want {
			t.Errorf("found %g, expected %g", got, want)
		}
	})
}

func make16(v float32) []float32 {
	a := make([]float32, 16)
	for i := range a {
		a[i] = v
	}
	return a
}

// TestGated checks recurrences with given factors against their definition.
func TestGated(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		r := newRand()
		for _, n := range []int{1, 7, 8, 16, 19, 33} {
			for _, rows := range []int{1, 2, 50} {
				f, v, h := random(r, rows*n), random(r, rows*n), make([]float32, rows*n+1)
				for i := range f {
					f[i] = float32(1 / (1 + math.Exp(float64(f[i]))))
				}
				h[rows*n] = guard
				z := make([]float64, n)
				for i := range z {
					z[i] = r.NormFloat64()
				}
				state := append([]float64(nil), z...)
				Gated(h, f, v, n, n, rows, z)
				if h[rows*n] != guard {
					t.Fatal("wrote outside of its rows")
				}
				for i := range f {
					s := &state[i%n]
					*s = float64(f[i])**s + float64(v[i])
					if math.Abs(float64(h[i])-*s) > 1e-6*(1+math.Abs(*s)) {
						t.Fatalf("%d features, %d rows: h[%d] is %g, expected %g", n, rows, i, h[i], *s)
					}
				}
				for i := range z {
					if math.Abs(z[i]-state[i]) > 1e-12*(1+math.Abs(z[i])) {
						t.Fatalf("%d features, %d rows: state %d is %g, expected %g", n, rows, i, z[i], state[i])
					}
				}
			}
		}
	})
}

// BenchmarkSelective is a scan of Mamba's size: 1536 features with 16 states, and of Mamba-2's, with one rate and 128.
func BenchmarkSelective(b *testing.B) {
	for _, n := range []int{16, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			const features, rows = 1536, 64
			r := newRand()
			a := make([]float32, features)
			if n == 16 {
				a = make([]float32, features*n)
			}
			for i := range a {
				a[i] = -1
			}
			s := NewSelective(features, 1, n, n != 16).With(features, a, random(r, features))
			x, delta, y := random(r, rows*features), random(r, rows*features), make([]float32, rows*features)
			for i := range delta {
				delta[i] = float32(math.Abs(float64(delta[i])))
			}
			g := make([]float64, rows*n)
			z := make([]float64, s.Blocks()*s.States())
			for b.Loop() {
				for k := range s.Blocks() {
					s.scan(k, y, x, delta, g, g, 1, 0, rows, z)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows*features*n), "ns/state")
		})
	}
}
