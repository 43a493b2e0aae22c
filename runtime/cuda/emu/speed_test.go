package emu_test

import (
	"testing"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// BenchmarkChecks launches a kernel that does little but access memory, with the checks and counters and without them.
func BenchmarkChecks(b *testing.B) {
	const blocks = 64
	code := kernel.New("transpose", 256, func(k *ptx.Kernel) {
		x, y := k.PtrParam("x"), k.PtrParam("y")
		s := k.SharedArray(33*32*4, 16)
		column, row := k.ThreadX().And(ptx.U(31)), k.ThreadX().Shr(ptx.U(5))
		base := k.BlockX().Mul(ptx.U(1024))
		for j := 0; j < 32; j += 8 {
			r := row.Add(ptx.U(j))
			s.Index(r.MAD(ptx.U(33), column), 4).StoreF32(0, x.Index(base.Add(r.MAD(ptx.U(32), column)), 4).LoadF32(0))
		}
		k.Barrier()
		for j := 0; j < 32; j += 8 {
			r := row.Add(ptx.U(j))
			y.Index(base.Add(r.MAD(ptx.U(32), column)), 4).StoreF32(0, s.Index(column.MAD(ptx.U(33), r), 4).LoadF32(0))
		}
	})
	for _, unchecked := range []bool{false, true} {
		b.Run(map[bool]string{false: "checked", true: "unchecked"}[unchecked], func(b *testing.B) {
			m := newMachine(b, emu.Options{Unchecked: unchecked})
			mod, _, err := m.drv.LoadModule(append([]byte(code.Text), 0))
			m.must(err)
			f, err := m.drv.GetFunction(mod, code.Name)
			m.must(err)
			args := []driver.Ptr{m.memory(blocks*4096, true), m.memory(blocks*4096, false)}
			call := kernel.NewCall(code, driver.Dim{X: blocks, Y: 1, Z: 1}, kernel.Ptr(1), kernel.Ptr(2))
			launch := call.Launch(f, m.stream, func(b kernel.Buffer) driver.Ptr { return args[b-1] })
			for b.Loop() {
				m.must(m.drv.Launch(launch))
				m.must(m.drv.Synchronize(m.stream))
			}
		})
	}
}
