package essm_test

import (
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/ops/eval"
)

// lowRank is a continuous diagonal plus low-rank system of each feature, as tensors of DPLR.
type lowRank struct{ dt, re, im, pRe, pIm, bRe, bIm, cRe, cIm, laterRe, laterIm *tensor.Tensor }

func randomLowRank(r *rand.Rand, features, rank, n int, tied bool) lowRank {
	s := lowRank{re: random(r, features, n), im: random(r, features, n), pRe: random(r, features, rank, n),
		pIm: random(r, features, rank, n), bRe: random(r, features, n), bIm: random(r, features, n),
		cRe: random(r, features, n), cIm: random(r, features, n), laterRe: random(r, features, n),
		laterIm: random(r, features, n)}
	k := n
	if tied {
		k = 1
	}
	s.dt = random(r, features, k)
	for i, v := range tensor.Data[float64](s.dt) {
		tensor.Data[float64](s.dt)[i] = 0.05 + 0.1*v*v
	}
	for i, v := range tensor.Data[float64](s.re) {
		tensor.Data[float64](s.re)[i] = -0.1 - math.Abs(v)
		tensor.Data[float64](s.im)[i] *= 5
	}
	return s
}

// plain is a discrete system of one feature over all 2n states, with conjugates: dense, and complex.
type plain struct {
	n       int
	abar    []complex128
	b, c, l []complex128
}

// plain computes the system of feature i from its definition.
func (s lowRank) plain(i int, rate float64) plain {
	n, rank := s.re.Dim(1), s.pRe.Dim(1)
	both := func(re, im *tensor.Tensor, at int) []complex128 {
		z := make([]complex128, 2*n)
		for j := range n {
			z[j] = complex(tensor.Data[float64](re)[at+j], tensor.Data[float64](im)[at+j])
			z[n+j] = cmplx.Conj(z[j])
		}
		return z
	}
	k := s.dt.Dim(1)
	lambda, size := both(s.re, s.im, i*n), 2*n
	left, right := make([]complex128, size*size), make([]complex128, size*(size+1)) // I - ½ΔA; I + ½ΔA and ΔB
	b := both(s.bRe, s.bIm, i*n)
	for j := range size {
		dt := rate * tensor.Data[float64](s.dt)[i*k+j%n%k]
		for q := range size {
			var a complex128
			if j == q {
				a = lambda[j]
			}
			for r := range rank {
				p := both(s.pRe, s.pIm, (i*rank+r)*n)
				a -= p[j] * cmplx.Conj(p[q])
			}
			a *= complex(dt/2, 0)
			left[j*size+q], right[j*(size+1)+q] = -a, a
			if j == q {
				left[j*size+q]++
				right[j*(size+1)+q]++
			}
		}
		right[j*(size+1)+size] = complex(dt, 0) * b[j]
	}
	eliminate(left, right, size, size+1)
	out := plain{n: size, c: both(s.cRe, s.cIm, i*n), l: both(s.laterRe, s.laterIm, i*n)}
	for j := range size {
		out.abar = append(out.abar, right[j*(size+1):j*(size+1)+size]...)
		out.b = append(out.b, right[j*(size+1)+size])
	}
	return out
}

// eliminate replaces b, of q columns, by the solution of a x = b.
func eliminate(a, b []complex128, n, q int) {
	for c := range n {
		p := c
		for r := c; r < n; r++ {
			if cmplx.Abs(a[r*n+c]) > cmplx.Abs(a[p*n+c]) {
				p = r
			}
		}
		for j := range n {
			a[p*n+j], a[c*n+j] = a[c*n+j], a[p*n+j]
		}
		for j := range q {
			b[p*q+j], b[c*q+j] = b[c*q+j], b[p*q+j]
		}
		for r := range n {
			if r == c {
				continue
			}
			f := a[r*n+c] / a[c*n+c]
			for j := range n {
				a[r*n+j] -= f * a[c*n+j]
			}
			for j := range q {
				b[r*q+j] -= f * b[c*q+j]
			}
		}
	}
	for r := range n {
		for j := range q {
			b[r*q+j] /= a[r*n+r]
		}
	}
}

// kernel is c Āᵏ b for k below taps.
func (p plain) kernel(c []complex128, taps int) []float64 {
	z, k := append([]complex128(nil), p.b...), make([]float64, taps)
	for t := range k {
		var y complex128
		next := make([]complex128, p.n)
		for i := range z {
			y += c[i] * z[i]
			for j := range z {
				next[i] += p.abar[i*p.n+j] * z[j]
			}
		}
		k[t], z = real(y), next
	}
	return k
}

// applyBody evaluates one node of op by its body, in the given form.
func applyBody(t *testing.T, op *ir.Op, kernel string, in []*tensor.Tensor, attrs ...ir.Attr) *tensor.Tensor {
	t.Helper()
	b := ir.NewBuilder("body", ops.Default, ops.Opsets())
	vals := make([]*ir.Value, len(in))
	var data []tensor.Datum
	for i, x := range in {
		if x != nil {
			vals[i], data = b.Input(fmt.Sprintf("in%d", i), ir.Of(x)), append(data, x)
		}
	}
	n := b.Apply(op, 1, vals, ir.NewAttrs(attrs...))[0].Def
	b.Output("y", op.Body(b, n, vals)[0])
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p := eval.New(eval.Options{Kernel: kernel})
	if err := p.Add(g); err != nil {
		t.Fatal(err)
	}
	out, err := p.Graph(context.Background(), g, data, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out[0].(*tensor.Tensor)
}

// TestDPLR compares DPLR, in all forms, with the dense system over all conjugate pairs: by its definition.
func TestDPLR(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const batch, length, features = 2, 23, 3
	for _, rank := range []int{1, 2, 3} {
		for _, window := range []int{0, 1, 9, 40} {
			for _, direction := range []string{"forward", "bidirectional"} {
				for _, tied := range []bool{false, true} {
					s := randomLowRank(r, features, rank, 4, tied)
					u := random(r, batch, length, features)
					const rate = 1.5
					want := tensor.New(tensor.Float64, batch, length, features)
					for i := range features {
						p := s.plain(i, rate)
						taps := length
						if window > 0 {
							taps = min(taps, window)
						}
						first, second := p.kernel(p.c, taps), p.kernel(p.l, taps)
						for b := range batch {
							at := func(t int) int { return (b*length+t)*features + i }
							for t := range length {
								for k := range taps {
									if t-k >= 0 {
										tensor.Data[float64](want)[at(t)] += first[k] * tensor.Data[float64](u)[at(t-k)]
									}
									if q := t + 1 + k; direction == "bidirectional" && q < length {
										tensor.Data[float64](want)[at(t)] += second[k] * tensor.Data[float64](u)[at(q)]
									}
								}
							}
						}
					}
					in := []*tensor.Tensor{u, s.dt, s.re, s.im, s.pRe, s.pIm, s.bRe, s.bIm, s.cRe, s.cIm,
						tensor.Scalar(int64(0)), nil, nil}
					if direction == "bidirectional" {
						in[11], in[12] = s.laterRe, s.laterIm
					}
					for _, form := range []string{"scan", "fft", "direct"} {
						got := applyBody(t, essm.DPLR, form, in, ir.A("rate", rate), ir.A("direction", direction),
							ir.A("window", window))
						if d := differ(got, want); d > 1e-12 {
							t.Errorf("rank %d, window %d, %s, tied %v, %s: %.2g off", rank, window, direction, tied, form, d)
						}
					}
				}
			}
		}
	}
}

// TestRestoreDPLR makes C̃ = C(I - Āˡ) by the dense system, and recovers C.
func TestRestoreDPLR(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, length := range []int{0, 1, 2, 23, 100} {
		s := randomLowRank(r, 3, 2, 4, length%2 == 0)
		stored := [2]*tensor.Tensor{tensor.New(tensor.Float64, 1, 3, 4), tensor.New(tensor.Float64, 1, 3, 4)}
		for i := range 3 {
			p := s.plain(i, 1)
			row := append([]complex128(nil), p.c...)
			for range length {
				next := make([]complex128, p.n)
				for a := range row {
					for b := range next {
						next[b] += row[a] * p.abar[a*p.n+b]
					}
				}
				row = next
			}
			for j := range 4 {
				z := p.c[j]
				if length > 0 {
					z -= row[j]
				}
				tensor.Data[float64](stored[0])[i*4+j], tensor.Data[float64](stored[1])[i*4+j] = real(z), imag(z)
			}
		}
		got := apply(t, essm.RestoreDPLR, "", []bool{true, true}, []*tensor.Tensor{s.dt, s.re, s.im, s.pRe, s.pIm, stored[0],
			stored[1], tensor.Scalar(int64(length))})
		for i, want := range []*tensor.Tensor{s.cRe, s.cIm} {
			if d := differ(got[i], want); d > 1e-11 {
				t.Errorf("length %d, part %d: %.2g off", length, i, d)
			}
		}
	}
}

// TestDPLRState takes a sequence in pieces, with the state passed on.
func TestDPLRState(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const batch, length, features = 2, 31, 3
	for _, window := range []int{0, 5} {
		s := randomLowRank(r, features, 2, 4, true)
		u := random(r, batch, length, features)
		d := apply(t, essm.DiscretizeDPLR, "", []bool{true, true, true, true, true, true, true, true},
			[]*tensor.Tensor{s.dt, s.re, s.im, s.pRe, s.pIm, s.bRe, s.bIm})
		args := append(append([]*tensor.Tensor{nil}, d...), s.cRe, s.cIm, nil, nil, nil)
		run := func(form string, lo, hi int, state *tensor.Tensor) []*tensor.Tensor {
			part := tensor.New(tensor.Float64, batch, hi-lo, features)
			for b := range batch {
				copy(tensor.Data[float64](part)[b*(hi-lo)*features:],
					tensor.Data[float64](u)[(b*length+lo)*features:(b*length+hi)*features])
			}
			args[0], args[13] = part, state
			return apply(t, essm.DPLRScan, form, []bool{true, true}, args, ir.A("window", window))
		}
		whole := run("scan", 0, length, nil)
		for _, form := range []string{"scan", "fft", "direct"} {
			var state *tensor.Tensor
			for lo, step := 0, 0; lo < length; lo += step {
				step = min([]int{1, 7, 3}[lo%3], length-lo)
				out := run(form, lo, lo+step, state)
				state = out[1]
				for b := range batch {
					for i := range step * features {
						got := tensor.Data[float64](out[0])[b*step*features+i]
						want := tensor.Data[float64](whole[0])[(b*length+lo)*features+i]
						if math.Abs(got-want) > 1e-11*(1+math.Abs(want)) {
							t.Fatal(fmt.Sprint("window ", window, ", ", form, ", from ", lo), got, want)
						}
					}
				}
			}
			if d := differ(state, whole[1]); d > 1e-11 {
				t.Errorf("window %d, %s: the state is %.2g off", window, form, d)
			}
		}
	}
}
