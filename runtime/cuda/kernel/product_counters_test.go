package kernel_test

import (
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// At sizes that fit, tiles do no more products than there are, read each matrix once for each row or column of tiles, by
// whole sectors, and meet few conflicts of banks.
func TestProductCounters(t *testing.T) {
	const k = 64
	for tile := range kernel.Tiles {
		m, n := kernel.TileSize(tile)
		m, n = 2*m, 2*n
		for i := range 4 {
			r := rand.New(rand.NewPCG(1, 2))
			b := kerneltest.New(t)
			x, w := stack(r, m, k, i&1 != 0, 0, 0), stack(r, n, k, i&2 != 0, 0, 0)
			p := kernel.Product{M: m, N: n, K: k, A: x.matrix(b), B: w.matrix(b),
				C: kernel.Matrix{Buffer: b.Out(4 * m * n), Row: n, Inner: 1}}
			b.ResetCounters()
			b.Run(p.Cut(tile, 1, b.Out)...)
			all := b.Counters()
			c := all.Kernel(kernel.TileName(tile))
			if want := int64(3 * 2 * m * n * k); c.OpsTF32 != want {
				t.Errorf("%s, order %d: %d operations of tensor cores, expected %d", c.Kernel, i, c.OpsTF32, want)
			}
			if want := int64(2 * 4 * (m + n) * k); c.ReadWanted != want || c.ReadMoved != want {
				t.Errorf("%s, order %d: %d bytes are read, by sectors %d, expected %d", c.Kernel, i, c.ReadWanted, c.ReadMoved, want)
			}
			if want := int64(4 * m * n); c.WrittenWanted != want || c.WrittenMoved != want {
				t.Errorf("%s, order %d: %d bytes are written, by sectors %d, expected %d", c.Kernel, i, c.WrittenWanted, c.WrittenMoved, want)
			}
			if f := c.Conflicts(); f >= 0.05 {
				t.Errorf("%s, order %d: bank conflicts add %.1f%%", c.Kernel, i, 100*f)
				for _, l := range c.Lines {
					if l.Wavefronts != l.LeastWavefronts {
						t.Logf("%d of %d: %s", l.Wavefronts, l.LeastWavefronts, l.Text)
					}
				}
			}
		}
	}
}

// Few rows read each weight once.
func TestFewRowsCounters(t *testing.T) {
	const n, k = 64, 512
	for _, m := range []int{1, 3, 8} {
		r := rand.New(rand.NewPCG(1, 2))
		b := kerneltest.New(t)
		x, w := stack(r, m, k, false, 0, 0), stack(r, n, k, false, 0, 0)
		p := kernel.Product{M: m, N: n, K: k, A: x.matrix(b), B: w.matrix(b),
			C: kernel.Matrix{Buffer: b.Out(4 * m * n), Row: n, Inner: 1}}
		b.ResetCounters()
		b.Run(p.Calls(b.Out)...)
		all := b.Counters()
		c := all.Total()
		rows := 1
		for rows < m {
			rows *= 2
		}
		if want := int64(4 * (n*k + n/2*rows*k)); c.ReadWanted != want || c.ReadMoved != want {
			t.Errorf("%d rows: %d bytes are read, by sectors %d, expected %d", m, c.ReadWanted, c.ReadMoved, want)
		}
		if want := int64(4 * (n*k + m*k)); c.ReadDistinct != want {
			t.Errorf("%d rows: %d different bytes are read, expected %d", m, c.ReadDistinct, want)
		}
	}
}

func TestAttentionCounters(t *testing.T) {
	for _, features := range []int{32, 64, 128} {
		const queries, keys = 128, 128
		r := rand.New(rand.NewPCG(1, 2))
		b := kerneltest.New(t)
		of := func(rows int) kernel.Heads {
			return kernel.Heads{Buffer: b.In(normal32(r, rows*features)), Sample: rows * features, Head: rows * features, Row: features}
		}
		a := kernel.Attention{Q: of(queries), K: of(keys), V: of(keys), Y: of(queries), Samples: 1, HeadCount: 1, KeyHeads: 1,
			Queries: queries, Keys: keys, Features: features, Values: features, Scale: 1}
		b.ResetCounters()
		b.Run(a.Calls()...)
		all := b.Counters()
		c := all.Total()
		if want := int64(3 * 4 * queries * keys * features); c.OpsTF32 != want {
			t.Errorf("%d features: %d operations of tensor cores, expected %d", features, c.OpsTF32, want)
		}
		if want := int64(4 * features * (queries + 2*2*keys)); c.ReadWanted != want {
			t.Errorf("%d features: %d bytes are read, expected %d", features, c.ReadWanted, want)
		}
		if f := c.Conflicts(); f >= 0.05 {
			t.Errorf("%d features: bank conflicts add %.1f%%", features, 100*f)
			for _, l := range all.Kernels[0].Lines {
				if l.Wavefronts != l.LeastWavefronts {
					t.Logf("%d of %d: %s", l.Wavefronts, l.LeastWavefronts, l.Text)
				}
			}
		}
	}
}
