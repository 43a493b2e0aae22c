package kernel

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/essmc/essmc/internal/race"
)

func TestFill(t *testing.T) { eachVariant(t, testFill) }

// filled compares what is packed in place, twice with other content, with what is packed anew, and expects that filling
// allocates nothing. pack packs content number i; fill does so in the memory of p.
func filled[P any](t *testing.T, what string, pack func(i int) P, fill func(p P, i int)) {
	t.Helper()
	p := pack(0)
	for _, i := range []int{1, 2, 0} {
		fill(p, i)
		if want := pack(i); !reflect.DeepEqual(p, want) {
			t.Errorf("%s: filled with content %d, it differs from what is packed anew", what, i)
		}
	}
	if race.Enabled {
		return
	}
	if n := testing.AllocsPerRun(3, func() { fill(p, 1) }); n > 0 {
		t.Errorf("%s: fill allocates %v times", what, n)
	}
}

// testFill fills packed forms of every kind in place.
func testFill(t *testing.T) {
	r := newRand()
	several := func(n int) [3][]float32 { return [3][]float32{random(r, n), make([]float32, n), random(r, n)} }
	wide := func(n int) (v [3][]float64) {
		for i, part := range several(n) {
			for _, x := range part {
				v[i] = append(v[i], float64(x))
			}
		}
		return v
	}
	for _, m := range []int{0, 1, 3, 4, 7, 16, 17, 33, 50} {
		for _, k := range []int{0, 1, 2, 3, 5, 8, 31} {
			w := several(m * k)
			if m*k > 2 {
				w[0][1], w[2][2] = float32(math.Inf(1)), -0x1p-130
			}
			for _, rs := range []int{k, 1} {
				cs := 1
				if rs == 1 {
					cs = m
				}
				what := fmt.Sprintf("%d × %d, strides %d and %d", m, k, rs, cs)
				filled(t, "Packed "+what, func(i int) *Packed { return Pack(w[i], m, k, rs, cs) },
					func(p *Packed, i int) { p.Fill(w[i], rs, cs) })
				filled(t, "BF16 "+what, func(i int) *BF16 { return PackBF16(w[i], m, k, rs, cs) },
					func(p *BF16, i int) { p.Fill(w[i], rs, cs) })
				v := w // a scale of NaN is not equal to itself
				if m*k > 2 {
					v = several(m * k)
				}
				filled(t, "Int8 "+what, func(i int) *Int8 { return PackInt8(v[i], m, k, rs, cs) },
					func(p *Int8, i int) { p.Fill(v[i], rs, cs) })
			}
		}
	}
	for _, c := range [][3]int{{6, 4, 3}, {8, 2, 2}, {64, 4, 4}, {6, 4, 8}, {3, 17, 9}, {7, 6, 8}, {5, 8, 6}, {3, 5, 4}, {4, 1, 5},
		{4, 5, 1}, {4, 0, 3}, {0, 1, 3}, {1, 3, 3}} {
		n, m, k := c[0], c[1], c[2]
		w := several(n * m * k)
		filled(t, fmt.Sprint("Blocks ", c), func(i int) *Blocks { return PackBlocks(w[i], n, m, k) },
			func(p *Blocks, i int) { p.Fill(w[i]) })
	}
	for _, n := range []int{1, 7, 16, 37, 64} {
		ar, ai, br, bi := wide(n), wide(n), wide(n), wide(n)
		for i := range ar { // of the first, a scan goes step by step
			for j := range ar[i] {
				if i > 0 {
					ar[i][j], ai[i][j] = math.Tanh(ar[i][j])/2, math.Tanh(ai[i][j])/2
				} else {
					ar[i][j] += 3
				}
			}
		}
		system := func(i int) *Diagonal { return &Diagonal{ARe: ar[i], AIm: ai[i], BRe: br[i], BIm: bi[i]} }
		bRe, bIm, cRe, cIm, direct := several(n), several(n), several(n), several(n), several(n)
		for _, form := range []string{"real", "complex"} {
			gains := func(re, im [3][]float32, i int) Gains {
				if form == "real" {
					return Gains{Re: re[i]}
				}
				return Gains{re[i], im[i]}
			}
			systems := [3]*Diagonal{system(0), system(1), system(2)}
			const rows = 19
			u := random(r, rows)
			answers := func(s *SISO) (all []float32) {
				zr, zi := make([]float64, n), make([]float64, n)
				tmp := make([]float32, s.Scratch(rows))
				for _, run := range []func(y []float32){
					func(y []float32) { s.Forward(y, u, rows, zr, zi, tmp) },
					func(y []float32) { s.Forward(nil, u, rows, zr, zi, tmp) },
					func(y []float32) { s.Backward(y, u, rows, zr, zi, tmp, false) },
				} {
					y := make([]float32, rows)
					run(y)
					all = append(all, y...)
				}
				return append(all, narrowed(zr)...)
			}
			s := NewSISO(systems[1], n, gains(bRe, bIm, 1), gains(cRe, cIm, 1), direct[1])
			for _, i := range []int{0, 2, 1} {
				s.Fill(systems[i], gains(bRe, bIm, i), gains(cRe, cIm, i), direct[i])
				want := NewSISO(systems[i], n, gains(bRe, bIm, i), gains(cRe, cIm, i), direct[i])
				if (s.tables == nil) != (want.tables == nil) || fmt.Sprint(answers(s)) != fmt.Sprint(answers(want)) {
					t.Errorf("SISO %s of %d states: filled with content %d, it differs from what is packed anew", form, n, i)
				}
			}
			if n := testing.AllocsPerRun(3, func() { s.Fill(systems[2], Gains{Re: bRe[2]}, Gains{Re: cRe[2]}, nil) }); n > 0 &&
				form == "real" && !race.Enabled {
				t.Errorf("SISO: Fill allocates %v times", n)
			}
			scaled := ScaledDiagonal(systems[1], gains(bRe, bIm, 1), gains(cRe, cIm, 1))
			for _, i := range []int{0, 2, 1} {
				scaled.Scale(systems[i], gains(bRe, bIm, i), gains(cRe, cIm, i))
				got, want := *scaled, ScaledDiagonal(systems[i], gains(bRe, bIm, i), gains(cRe, cIm, i))
				if got.kept, want.kept = nil, nil; !reflect.DeepEqual(&got, want) {
					t.Errorf("ScaledDiagonal %s of %d states: filled with content %d, it differs from what is made anew", form, n, i)
				}
			}
		}
	}
	for _, c := range [][2]int{{16, 16}, {16, 4}, {9, 9}} {
		features, heads := c[0], c[1]
		for _, n := range []int{1, 5, 16} {
			a, direct := several(heads*n), several(heads)
			filled(t, fmt.Sprint("Selective ", c, n),
				func(i int) *Selective { return NewSelective(features, 1, n, false).With(heads, a[i], direct[i]) },
				func(s *Selective, i int) { s.Fill(heads, a[i], direct[i]) })
		}
	}
	testRefill(t)
}

func narrowed(v []float64) (w []float32) {
	for _, x := range v {
		w = append(w, float32(x))
	}
	return w
}

// testRefill changes the numbers of a fused kernel's constants in place.
func testRefill(t *testing.T) {
	r := newRand()
	for _, width := range []int{1, 3, 17, 300} {
		a, b := random(r, width), random(r, width)
		steps := func() []FusedStep {
			return []FusedStep{{Op: FusedAffine, X: -1, A: a, B: b}, {Op: FusedTanh}, {Op: FusedMul, X: 1},
				{Op: FusedSub, X: -1, A: b}, {Op: FusedClip, B: []float32{-1, 1}}}
		}
		operands := []Operand{{0, width}, {0, width}}
		old := NewFused(width, operands, steps())
		copy(a, random(r, width))
		copy(b, random(r, width))
		old.Refill()
		const rows = 300
		x := [][]float32{random(r, rows*width), random(r, rows*width)}
		got, want := make([]float32, rows*width), make([]float32, rows*width)
		old.Run(got, x, rows)
		NewFused(width, operands, steps()).Run(want, x, rows)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("a fused kernel of width %d differs after Refill from one made anew", width)
		}
	}
}
