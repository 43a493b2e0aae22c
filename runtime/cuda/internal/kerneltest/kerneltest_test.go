package kerneltest_test

import (
	"testing"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// sumRows sums up rows of n numbers by blocks of 128 threads.
func sumRows() *kernel.Code {
	return kernel.New("sum_rows", 128, func(k *ptx.Kernel) {
		x, y, n := k.PtrParam("x"), k.PtrParam("y"), k.U32Param("n")
		part := k.SharedArray(16, 16)
		row := x.Index64(k.BlockX().MulWide(n), 4)
		sum := k.VarF32(ptx.F(0))
		k.For(k.ThreadX(), n, ptx.U(128), func(i ptx.U32) { sum.Set(sum.Add(row.Index(i, 4).LoadF32(0))) })
		for by := 16; by > 0; by /= 2 {
			sum.Set(sum.Add(sum.ShuffleXor(ptx.U(by))))
		}
		warp := k.ThreadX().Shr(ptx.U(5))
		k.Guard(k.Lane().Eq(ptx.U(0)), func() { part.Index(warp, 4).StoreF32(0, sum) })
		k.Barrier()
		k.If(k.ThreadX().Eq(ptx.U(0)), func() {
			all := part.LoadF32s(0, 4)
			y.Index(k.BlockX(), 4).StoreF32(0, all[0].Add(all[1]).Add(all[2].Add(all[3])))
		})
	})
}

func TestSumRows(t *testing.T) {
	code := sumRows()
	for _, n := range []int{1, 31, 128, 129, 1000} {
		const rows = 7
		b := kerneltest.New(t)
		x, want := make([]float32, rows*n), make([]float32, rows)
		for i := range x {
			x[i] = float32(i%17) - 5
			want[i/n] += x[i]
		}
		in, out := b.In(x), b.Out(4*rows)
		b.Run(kernel.NewCall(code, driver.Dim{X: rows, Y: 1, Z: 1}, kernel.Ptr(in), kernel.Ptr(out), kernel.U32(n)))
		for i, got := range b.Float32s(out) {
			if got != want[i] {
				t.Errorf("n = %d: row %d is %v, expected %v", n, i, got, want[i])
			}
		}
	}
}

func TestAssemble(t *testing.T) { kerneltest.Assemble(t, sumRows()) }
