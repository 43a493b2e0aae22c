package kernel_test

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// numbers returns n float32 numbers between -1 and 1.
func numbers(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(2*r.Float64() - 1)
	}
	return x
}

// doubles returns n numbers of float32 precision between -by and by.
func doubles(r *rand.Rand, n int, by float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(float32(by * (2*r.Float64() - 1)))
	}
	return x
}

// within holds found against expected: no more than part of the greatest number off.
func within(t *testing.T, what string, found []float32, expected []float64, part float64) {
	t.Helper()
	scale := 1e-30
	for _, x := range expected {
		scale = max(scale, math.Abs(x))
	}
	if len(found) != len(expected) {
		t.Fatalf("%s: %d numbers, expected %d", what, len(found), len(expected))
	}
	worst, at := 0.0, 0
	for i, x := range found {
		if d := math.Abs(float64(x) - expected[i]); !(d <= worst) {
			worst, at = d, i
		}
	}
	if !(worst <= part*scale) {
		t.Errorf("%s: number %d is %v, expected %v: off by %.3g of the greatest number", what, at, found[at], expected[at],
			worst/scale)
	}
}

func single(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

func real64(x []complex128) (re, im []float64) {
	for _, v := range x {
		re, im = append(re, real(v)), append(im, imag(v))
	}
	return re, im
}

// system returns logarithms of eigenvalues, some of them very slow or fast, and weights.
func system(r *rand.Rand, n int) (a, b []complex128) {
	for j := range n {
		rate := -math.Exp(-8 * r.Float64())
		switch j % 7 {
		case 1:
			rate = -1e-5
		case 2:
			rate = -1000
		case 3:
			rate = -3
		}
		a = append(a, complex(rate, 3*r.Float64()*float64(j%3)))
		b = append(b, complex(r.Float64(), r.Float64()-0.5)*complex(math.Min(1, -rate), 0))
	}
	return a, b
}

// plainScan returns the recurrence step by step. v and past are inputs of all states, past those before the first step.
func plainScan(a, b, v, past, z []complex128, forward, backward bool, lags, length int) (x, last []complex128) {
	n := len(a)
	at := func(t, j int) complex128 {
		switch {
		case t >= length:
			return 0
		case t >= 0:
			return v[t*n+j]
		case past == nil:
			return 0
		default:
			return past[(lags+t)*n+j]
		}
	}
	x, last = make([]complex128, length*n), make([]complex128, n)
	for j := range n {
		step, cut := cmplx.Exp(a[j]), complex128(0)
		if lags > 0 {
			cut = cmplx.Exp(complex(float64(lags), 0)*a[j]) * b[j]
		}
		if forward {
			s := z[j]
			for t := range length {
				s = step*s + b[j]*at(t, j)
				if lags > 0 {
					s -= cut * at(t-lags, j)
				}
				x[t*n+j] = s
			}
			last[j] = s
		}
		if backward {
			s := complex128(0)
			for t := length - 1; t >= 0; t-- {
				x[t*n+j] += s
				s = step*s + b[j]*at(t, j)
				if lags > 0 {
					s -= cut * at(t+lags, j)
				}
			}
		}
	}
	return x, last
}

func TestScan(t *testing.T) {
	for i, c := range []struct {
		batch, length, states, lags int
		forward, backward, complex  bool
		state                       bool
	}{
		{1, 1, 3, 0, true, false, false, true},
		{2, 32, 5, 0, true, false, true, true},
		{3, 7, 33, 0, true, true, false, false},
		{2, 33, 5, 0, true, false, false, true},
		{1, 1100, 3, 0, true, false, false, true},
		{3, 261, 37, 0, true, true, true, false},
		{2, 97, 300, 0, false, true, false, false},
		{2, 9, 7, 4, true, false, true, true},
		{2, 9, 7, 20, true, false, false, true},
		{2, 75, 7, 20, true, false, true, true},
		{1, 40, 5, 50, true, false, false, true},
		{2, 75, 7, 20, true, true, true, false},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			a, b := system(r, c.states)
			size := c.batch * c.length * c.states
			re, im := numbers(r, size), numbers(r, size)
			s := kernel.Scan{ScanForm: kernel.ScanForm{Tile: []int{kernel.ScanTile, 8}[i%2], Forward: c.forward, Backward: c.backward,
				Window: c.lags > 0, ComplexIn: c.complex, Re: true, Im: c.complex, State32: i%2 == 1},
				Batch: c.batch, Length: c.length, States: c.states, Lags: c.lags}
			d := kerneltest.New(t)
			s.VRe = d.In(re)
			s.XRe = d.Out(4 * size)
			if c.complex {
				s.VIm, s.XIm = d.In(im), d.Out(4*size)
			}
			s.Coefficients = d.In(kernel.ScanCoefficients(a, b, c.lags))
			s.Powers = d.In(kernel.ScanPowers(a, kernel.ScanExponents(s.Tile, c.length)))
			var first []float64
			if c.state {
				for _, x := range numbers(r, c.batch*s.StateSize()) {
					first = append(first, float64(x))
				}
				if s.State32 {
					s.First, s.Last = d.In(single(first)), d.Out(4*len(first))
				} else {
					s.First, s.Last = d.In(first), d.Out(8*len(first))
				}
			}
			if n := s.ScratchBytes(); n > 0 {
				s.Scratch = d.Out(n)
			}
			d.Run(s.Calls()...)

			var wantRe, wantIm, wantLast []float64
			n := c.states
			for q := range c.batch {
				v := make([]complex128, c.length*n)
				for i := range v {
					v[i] = complex(float64(re[q*len(v)+i]), 0)
					if c.complex {
						v[i] = complex(float64(re[q*len(v)+i]), float64(im[q*len(v)+i]))
					}
				}
				z, past := make([]complex128, n), make([]complex128, c.lags*n)
				per := s.StateSize()
				if c.state {
					f := first[q*per : (q+1)*per]
					for j := range z {
						z[j] = complex(f[j], f[n+j])
					}
					for i := range past {
						if c.complex {
							past[i] = complex(f[2*n+i/n*2*n+i%n], f[2*n+i/n*2*n+n+i%n])
						} else {
							past[i] = complex(f[2*n+i], 0)
						}
					}
				}
				x, last := plainScan(a, b, v, past, z, c.forward, c.backward, c.lags, c.length)
				xr, xi := real64(x)
				wantRe, wantIm = append(wantRe, xr...), append(wantIm, xi...)
				lr, li := real64(last)
				wantLast = append(append(wantLast, lr...), li...)
				all := append(past, v...)
				for _, h := range [][]complex128{all[len(all)-c.lags*n:]} {
					for t := range c.lags {
						hr, hi := real64(h[t*n : (t+1)*n])
						wantLast = append(wantLast, hr...)
						if c.complex {
							wantLast = append(wantLast, hi...)
						}
					}
				}
			}
			within(t, "x_re", d.Float32s(s.XRe), wantRe, 2e-6)
			if c.complex {
				within(t, "x_im", d.Float32s(s.XIm), wantIm, 2e-6)
			}
			if c.state {
				within(t, "state", states(d, s.Last, s.State32), wantLast, 2e-6)
			}
		})
	}
}

// states returns a state stored as float32 if narrow is set, otherwise as float64.
func states(d *kerneltest.Bench, x kernel.Buffer, narrow bool) []float32 {
	if narrow {
		return d.Float32s(x)
	}
	return single(d.Float64s(x))
}

func TestGatedScan(t *testing.T) {
	for i, c := range []struct{ batch, length, features int }{{1, 1, 1}, {2, 32, 7}, {3, 33, 33}, {1, 1000, 300}, {2, 0, 3}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := rand.New(rand.NewPCG(2, uint64(i)))
			size := c.batch * c.length * c.features
			f, v := numbers(r, size), numbers(r, size)
			for i := range f {
				f[i] = 1 - f[i]*f[i]*f[i]*f[i]
			}
			s := kernel.GatedScan{Batch: c.batch, Length: c.length, Features: c.features}
			d := kerneltest.New(t)
			first := make([]float64, c.batch*c.features)
			for j := range first {
				first[j] = r.Float64()
			}
			if size > 0 {
				s.F, s.V, s.H = d.In(f), d.In(v), d.Out(4*size)
			}
			s.First, s.Last = d.In(first), d.Out(8*len(first))
			if n := s.ScratchBytes(); n > 0 {
				s.Scratch = d.Out(n)
			}
			d.Run(s.Calls()...)
			want := make([]float64, size)
			state := append([]float64(nil), first...)
			for q := range want {
				row, j := q/c.features, q%c.features
				h := &state[row/c.length*c.features+j]
				*h = float64(f[q])**h + float64(v[q])
				want[q] = *h
			}
			if size > 0 {
				within(t, "h", d.Float32s(s.H), want, 2e-7)
			}
			within(t, "state", single(d.Float64s(s.Last)), state, 2e-7)
		})
	}
}

func TestSelectiveScan(t *testing.T) {
	for i, c := range []struct {
		batch, length, features, heads, groups, states int
		perState, direct                               bool
	}{
		{1, 1, 3, 3, 1, 16, true, true},
		{2, 20, 6, 2, 1, 5, true, false},
		{2, 300, 40, 40, 1, 16, true, true},
		{1, 75, 12, 4, 2, 16, false, true},
		{1, 1100, 6, 2, 2, 128, false, true},
		{2, 13, 4, 2, 1, 40, false, false},
		{1, 140, 4, 4, 1, 33, true, true},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, uint64(i)))
			rows, n := c.batch*c.length, c.states
			x, delta := numbers(r, rows*c.features), numbers(r, rows*c.heads)
			b, take := numbers(r, rows*c.groups*n), numbers(r, rows*c.groups*n)
			columns := 1
			if c.perState {
				columns = n
			}
			rate, direct := numbers(r, c.heads*columns), numbers(r, c.heads)
			for i := range rate {
				rate[i] = -float32(math.Exp(4 * float64(rate[i])))
			}
			for i := range delta {
				delta[i] = float32(math.Exp(3*float64(delta[i]) - 3))
			}
			s := kernel.SelectiveScan{Batch: c.batch, Length: c.length, Features: c.features, Heads: c.heads, Groups: c.groups,
				States: n, PerState: c.perState, State32: i == 3}
			d := kerneltest.New(t)
			s.X, s.Delta, s.B, s.C, s.A = d.In(x), d.In(delta), d.In(b), d.In(take), d.In(rate)
			if c.direct {
				s.D = d.In(direct)
			}
			s.Y = d.Out(4 * len(x))
			first := make([]float64, c.batch*c.features*n)
			for j := range first {
				first[j] = float64(float32(r.Float64()))
			}
			if s.State32 {
				s.First, s.Last = d.In(single(first)), d.Out(4*len(first))
			} else {
				s.First, s.Last = d.In(first), d.Out(8*len(first))
			}
			if n := s.ScratchBytes(); n > 0 {
				s.Scratch = d.Out(n)
			}
			d.Run(s.Calls()...)
			want, state := make([]float64, len(x)), append([]float64(nil), first...)
			for row := range rows {
				for e := range c.features {
					h := e / (c.features / c.heads)
					g := h / (c.heads / c.groups) * n
					q := state[(row/c.length*c.features+e)*n:][:n]
					size, in := float64(delta[row*c.heads+h]), float64(x[row*c.features+e])
					sum := 0.0
					for j := range q {
						q[j] = math.Exp(size*float64(rate[h*columns+j%columns]))*q[j] + size*in*float64(b[row*c.groups*n+g+j])
						sum += float64(take[row*c.groups*n+g+j]) * q[j]
					}
					if c.direct {
						sum += float64(direct[h]) * in
					}
					want[row*c.features+e] = sum
				}
			}
			within(t, "y", d.Float32s(s.Y), want, 2e-6)
			within(t, "state", states(d, s.Last, s.State32), state, 2e-6)
		})
	}
}

func TestSisoScan(t *testing.T) {
	for i, c := range []struct {
		batch, length, inputs, heads, states, rank, lags int
		backward, direct, state                          bool
	}{
		{1, 1, 3, 3, 5, 0, 0, false, true, true},
		{2, 17, 3, 6, 32, 1, 0, false, true, true},
		{2, 90, 5, 5, 33, 2, 0, true, false, false},
		{1, 40, 7, 7, 4, 0, 0, false, true, true},
		{2, 300, 3, 6, 8, 0, 0, true, true, false},
		{2, 601, 5, 5, 33, 0, 0, false, false, true},
		{1, 3, 3, 3, 128, 0, 0, false, false, true},
		{2, 40, 3, 3, 9, 1, 7, false, false, true},
		{2, 5, 5, 5, 33, 2, 20, false, true, true},
		{2, 40, 3, 3, 9, 2, 11, true, false, false},
		{1, 90, 3, 6, 5, 0, 70, false, true, true},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, uint64(i)))
			all, n := c.heads*c.states, c.states
			var sys kernel.SisoSystem
			sys.A, sys.B = system(r, all)
			_, sys.C = system(r, all)
			if c.direct {
				sys.D = doubles(r, c.heads, 1)
			}
			if c.rank > 0 {
				for _, a := range sys.A {
					sys.F = append(sys.F, cmplx.Exp(a)*0.5)
				}
				_, sys.G = system(r, all*c.rank)
				_, sys.H = system(r, all*c.rank)
				for i := range sys.G {
					sys.G[i], sys.H[i] = sys.G[i]*0.2, sys.H[i]*0.2
				}
				sys.A = nil
			}
			s := kernel.SisoScan{Batch: c.batch, Length: c.length, Inputs: c.inputs, Heads: c.heads, States: n, Rank: c.rank,
				Lags: c.lags, Backward: c.backward, Add: i == 4, State32: i == 3 || i == 8}
			sys.Lags, sys.Heads = c.lags, c.heads
			d := kerneltest.New(t)
			u, y := numbers(r, c.batch*c.length*c.inputs), numbers(r, c.batch*c.length*c.heads)
			s.U, s.Y, s.Tables = d.In(u), d.In(y), d.In(kernel.SisoTables(sys))
			if s.Tiled() {
				s.Powers = d.In(kernel.ScanPowers(sys.A, kernel.ScanExponents(s.Tile(), c.length)))
			}
			per := s.StateSize()
			first := make([]float64, c.batch*per)
			if c.state {
				first = doubles(r, len(first), 1)
				if s.State32 {
					s.First, s.Last = d.In(single(first)), d.Out(4*len(first))
				} else {
					s.First, s.Last = d.In(first), d.Out(8*len(first))
				}
			}
			if n := s.ScratchBytes(); n > 0 {
				s.Scratch = d.Out(n)
			}
			d.Run(s.Calls(c.direct)...)

			want, last := make([]float64, len(y)), make([]float64, len(first))
			f := sys.F
			if f == nil {
				for _, a := range sys.A {
					f = append(f, cmplx.Exp(a))
				}
			}
			for b := range c.batch {
				for head := range c.heads {
					z := make([]complex128, n)
					for j := range z {
						z[j] = complex(first[b*per+head*n+j], first[b*per+all+head*n+j])
					}
					input := func(t int) float64 { // of the head, at a step that may be outside
						switch {
						case t >= c.length:
							return 0
						case t >= 0:
							return float64(u[(b*c.length+t)*c.inputs+head%c.inputs])
						}
						return first[b*per+2*all+(c.lags+t)*c.inputs+head%c.inputs]
					}
					for lag := range c.lags {
						last[b*per+2*all+lag*c.inputs+head%c.inputs] = input(c.length - c.lags + lag)
					}
					// advance is a step of the recurrence, with an input.
					advance := func(z []complex128, u float64) {
						low := make([]float64, c.rank)
						for k := range low {
							for j := range z {
								low[k] += real(sys.H[(head*c.rank+k)*n+j] * z[j])
							}
						}
						for j := range z {
							z[j] = f[head*n+j]*z[j] + sys.B[head*n+j]*complex(u, 0)
							for k := range low {
								z[j] -= sys.G[(head*c.rank+k)*n+j] * complex(low[k], 0)
							}
						}
					}
					cut := append([]complex128(nil), sys.B[head*n:(head+1)*n]...)
					for range c.lags {
						advance(cut, 0)
					}
					read := func(t int) {
						at := (b*c.length+t)*c.heads + head
						if s.Add {
							want[at] = float64(y[at])
						}
						for j := range z {
							want[at] += real(sys.C[head*n+j] * z[j])
						}
						if c.direct {
							want[at] += sys.D[head] * float64(u[(b*c.length+t)*c.inputs+head%c.inputs])
						}
					}
					for q := range c.length {
						t := q
						if c.backward {
							t = c.length - 1 - q
							read(t)
						}
						advance(z, input(t))
						if c.lags > 0 {
							old := input(t - c.lags)
							if c.backward {
								old = input(t + c.lags)
							}
							for j := range z {
								z[j] -= cut[j] * complex(old, 0)
							}
						}
						if !c.backward {
							read(t)
						}
					}
					for j := range z {
						last[b*per+head*n+j], last[b*per+all+head*n+j] = real(z[j]), imag(z[j])
					}
				}
			}
			within(t, "y", d.Float32s(s.Y), want, 2e-6)
			if c.state {
				got := []float32(nil)
				if s.State32 {
					got = d.Float32s(s.Last)
				} else {
					got = single(d.Float64s(s.Last))
				}
				within(t, "state", got, last, 2e-6)
			}
		})
	}
}
