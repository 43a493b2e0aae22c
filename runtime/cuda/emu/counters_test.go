package emu_test

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// TestCounters counts what kernels do whose counts follow from their text.
func TestCounters(t *testing.T) {
	count := func(threads, blocks int, build func(k *ptx.Kernel, x, y ptx.Addr)) emu.Count {
		m := newMachine(t, emu.Options{})
		code := kernel.New("counted", threads, func(k *ptx.Kernel) { build(k, k.PtrParam("x"), k.PtrParam("y")) })
		m.must(m.run(code, blocks, m.memory(1<<16, true), m.memory(1<<16, true)))
		c := m.drv.Counters()
		if len(m.drv.Findings()) > 0 {
			t.Fatal(m.drv.Findings())
		}
		if !strings.Contains(c.String(), "counted") {
			t.Errorf("the table lacks the kernel:\n%v", c)
		}
		m.drv.ResetCounters()
		if n := m.drv.Counters(); len(n.Kernels) != 0 {
			t.Errorf("after a reset: %v", n)
		}
		return c.Kernel("counted")
	}
	equal := func(name string, got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, expected %d", name, got, want)
		}
	}

	c := count(64, 3, func(k *ptx.Kernel, x, y ptx.Addr) {
		i := k.BlockX().MAD(ptx.U(64), k.ThreadX())
		v := x.Index(i, 4).LoadF32(0)
		y.Index(i, 4).StoreF32(0, v.FMA(v, v).Add(v))
	})
	equal("launches", c.Launches, 1)
	equal("loads", c.Load, 3*2*(2+1)) // of two parameters, too
	equal("stores", c.Store, 3*2)
	equal("read", c.ReadWanted, 3*64*4)
	equal("moved", c.ReadMoved, 3*64*4)
	equal("distinct", c.ReadDistinct, 3*64*4)
	equal("written", c.WrittenMoved, 3*64*4)
	equal("distinct written", c.WrittenDistinct, 3*64*4)
	equal("operations", c.OpsF32, 3*64*3)
	if c.Divergence() != 0 || len(c.Lines) != 2 || !strings.Contains(c.Table(), "ld.global.f32") {
		t.Errorf("divergence %v, lines %v", c.Divergence(), c.Lines)
	}

	c = count(32, 2, func(k *ptx.Kernel, x, y ptx.Addr) {
		x.Index(k.ThreadX(), 64).LoadF32(0) // a sector for each thread
		x.LoadF32(4)                        // one for all
	})
	equal("wanted", c.ReadWanted, 2*2*128)
	equal("moved by strides", c.ReadMoved, 2*33*32)
	equal("distinct by strides", c.ReadDistinct, 32*4+4)

	c = count(32, 1, func(k *ptx.Kernel, x, y ptx.Addr) {
		x.Index(k.ThreadX(), 4).LoadF32(4) // across the sectors' edges
		k.If(k.Lane().Lt(ptx.U(8)), func() { x.Index(k.ThreadX(), 16).LoadF32s(0, 4) })
	})
	equal("moved off the edges", c.ReadMoved, 5*32+4*32)
	if c.Divergence() == 0 {
		t.Errorf("divergence %v", c.Divergence())
	}

	for _, s := range []struct {
		name      string
		n, least  int64
		wide, row int // bytes of a lane, and from lane to lane
	}{
		{"in order", 1, 1, 4, 4}, {"every second", 2, 1, 4, 8}, {"by rows of 32", 32, 1, 4, 128}, {"by rows of 33", 1, 1, 4, 132},
		{"one for all", 1, 1, 4, 0}, {"pairs", 2, 2, 8, 8}, {"pairs by rows", 32, 2, 8, 128}, {"fours", 4, 4, 16, 16},
		{"fours by rows", 32, 4, 16, 128}, {"fours by padded rows", 4, 4, 16, 144},
	} {
		c = count(32, 1, func(k *ptx.Kernel, x, y ptx.Addr) {
			m := k.SharedArray(32*144, 16).Index(k.Lane(), s.row)
			if s.row == 0 {
				k.If(k.Lane().Eq(ptx.U(0)), func() { m.StoreF32(0, ptx.F(0)) })
				k.SyncWarp()
				m.LoadF32(0)
				return
			}
			v := make([]ptx.F32, s.wide/4)
			for i := range v {
				v[i] = ptx.F(0)
			}
			if len(v) == 1 {
				m.StoreF32(0, v[0])
			} else {
				m.StoreF32s(0, v...)
			}
		})
		n := int64(0)
		if s.row == 0 {
			n = 1
		}
		equal(s.name+": wavefronts", c.Wavefronts, s.n+n)
		equal(s.name+": least", c.LeastWavefronts, s.least+n)
	}

	c = count(32, 2, func(k *ptx.Kernel, x, y ptx.Addr) {
		z := k.Lane()
		d := [4]ptx.F32{k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))}
		k.MMATF32(d, [4]ptx.U32{z, z, z, z}, [2]ptx.U32{z, z})
		k.MMABF16(d, [4]ptx.U32{z, z, z, z}, [2]ptx.U32{z, z})
	})
	equal("TF32", c.OpsTF32, 2*2*16*8*8)
	equal("bfloat16", c.OpsBF16, 2*2*16*8*16)
	equal("matrix", c.Matrix, 4)

	// Rows of matrices of 16 bytes: all banks, or by rows of 128 bytes the same four.
	for _, s := range []struct{ row, n int64 }{{16, 4}, {128, 32}, {144, 4}} {
		c = count(32, 1, func(k *ptx.Kernel, x, y ptx.Addr) {
			m := k.SharedArray(32*144, 16)
			for i := range 36 {
				m.Index(k.Lane(), 4).StoreF32(128*i, ptx.F(0))
			}
			k.SyncWarp()
			m.Index(k.Lane(), int(s.row)).LoadMatrix(4, false)
		})
		equal("matrices", c.Wavefronts-36, s.n)
		equal("matrices, least", c.LeastWavefronts-36, 4)
	}
}
