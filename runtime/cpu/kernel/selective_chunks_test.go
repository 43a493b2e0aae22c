package kernel

import (
	"fmt"
	"math"
	"testing"
)

// TestSelectiveChunks checks scans in chunks against their definition in float64: chunks of one step and of all,
// heads of one block and of several, groups, and rates from very slow to very fast, whose decay over a chunk
// underflows float32.
func TestSelectiveChunks(t *testing.T) { eachVariant(t, testSelectiveChunks) }

func testSelectiveChunks(t *testing.T) {
	r := newRand()
	for _, per := range []int{8, 16, 24, 32, 48} {
		for _, groups := range []int{1, 2} {
			for _, n := range []int{1, 5, 16, 70} {
				for _, rows := range []int{1, 2, 23, 24, 25, 96, 97, 250} {
					const together = 2 // heads of a group
					heads := together * groups
					features := heads * per
					s := NewSelective(features, groups, n, true)
					if !s.Chunkable(per) {
						if per%16 == 0 {
							t.Fatalf("heads of %d features have no chunks", per)
						}
						continue
					}
					a, direct := make([]float32, heads), random(r, heads)
					for i := range a {
						a[i] = -float32(math.Exp(20*r.Float64() - 14))
					}
					if r.IntN(2) == 0 {
						direct = nil
					}
					s = s.With(heads, a, direct)
					x, delta := random(r, rows*features), random(r, rows*heads)
					for i := range delta {
						delta[i] = float32(math.Abs(float64(delta[i])))
					}
					b, c := random(r, rows*groups*n), random(r, rows*groups*n)
					state := make([]float64, features*n)
					for i := range state {
						state[i] = r.NormFloat64()
					}
					z := make([]float64, s.Blocks()*s.States())
					for k := range s.Blocks() {
						from, _ := s.Block(k)
						LoadStates(s, k, z[k*s.States():][:s.States()], state[from*n:])
					}
					size := make([]float64, len(state)) // of what the states are sums of
					for i, v := range state {
						size[i] = math.Abs(v)
					}
					y := make([]float32, rows*features+2)
					y[0], y[len(y)-1] = guard, guard
					k := s.NewChunks(per)
					for at := 0; at < rows; at += SelectiveChunk {
						steps := min(SelectiveChunk, rows-at)
						for h := range heads {
							if h%together == 0 {
								g := (at*groups + h/together) * n
								k.Begin(b[g:], c[g:], groups*n, steps)
							}
							first, e := h*s.PerHead(per), at*features+h*per
							k.Head(first, y[1+e:len(y)-1], x[e:], features, delta[at*heads+h:], heads,
								z[first*s.States():][:per*n])
						}
					}
					what := fmt.Sprintf("%d×%d heads of %d features, %d states, %d rows", groups, together, per, n, rows)
					if y[0] != guard || y[len(y)-1] != guard {
						t.Fatalf("%s: wrote outside of its rows", what)
					}
					for row := range rows {
						for e := range features {
							h := e / per
							step, u := float64(delta[row*heads+h]), float64(x[row*features+e])
							decay, want := math.Exp(step*float64(a[h])), 0.0
							if direct != nil {
								want = float64(direct[h]) * u
							}
							all := math.Abs(want)
							for j := range n {
								q, g := &state[e*n+j], (row*groups+h/together)*n+j
								*q = decay**q + step*u*float64(b[g])
								size[e*n+j] = decay*size[e*n+j] + math.Abs(step*u*float64(b[g]))
								want += float64(c[g]) * *q
								all += math.Abs(float64(c[g])) * size[e*n+j]
							}
							got := float64(y[1+row*features+e])
							if d := math.Abs(got - want); !(d <= 5e-7*(1+all)) {
								t.Fatalf("%s: y[%d,%d] is %g, expected %g", what, row, e, got, want)
							}
						}
					}
					for k := range s.Blocks() {
						from, count := s.Block(k)
						after := make([]float64, count*n)
						SaveStates(s, k, z[k*s.States():], after)
						for i, v := range after {
							if w := state[from*n+i]; !(math.Abs(v-w) <= 5e-7*(1+size[from*n+i])) {
								t.Fatalf("%s: state %d of block %d is %g, expected %g", what, i, k, v, w)
							}
						}
					}
				}
			}
		}
	}
}

// BenchmarkSelectiveForms measures a head of both forms, for a step.
func BenchmarkSelectiveForms(b *testing.B) {
	r := newRand()
	for _, size := range [][2]int{{32, 64}, {64, 64}, {64, 128}} {
		per, n := size[0], size[1]
		const rows, heads = SelectiveChunk, 8
		features := per * heads
		a := make([]float32, heads)
		for i := range a {
			a[i] = -1
		}
		s := NewSelective(features, 1, n, true).With(heads, a, a)
		x, y, delta, in := random(r, rows*features), make([]float32, rows*features), random(r, rows*features), random(r, rows*n)
		for i := range delta {
			delta[i] = float32(math.Abs(float64(delta[i])))
		}
		wide := make([]float64, len(in))
		for i, v := range in {
			wide[i] = float64(v)
		}
		z := make([]float64, s.Blocks()*s.States())
		measure := func(name string, run func()) {
			b.Run(fmt.Sprintf("%s/%d×%d", name, per, n), func(b *testing.B) {
				for range b.N {
					run()
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N*rows*heads), "ns/head-step")
			})
		}
		measure("scan", func() {
			for k := range s.Blocks() {
				s.Scan(k, y[k*s.lanes:], x[k*s.lanes:], features, delta, features, wide, wide, n, rows, z[k*s.States():])
			}
		})
		k := s.NewChunks(per)
		measure("chunks", func() {
			k.Begin(in, in, n, rows)
			for h := range heads {
				first := h * s.PerHead(per)
				k.Head(first, y[h*per:], x[h*per:], features, delta, features, z[first*s.States():][:per*n])
			}
		})
	}
}
