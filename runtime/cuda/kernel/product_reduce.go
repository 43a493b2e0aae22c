package kernel

import (
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// reduceCall returns the launch that adds up the parts of a product that is split along K, in order.
func (p *Product) reduceCall(parts Buffer, split int) Call {
	f := p.form(blockTile{})
	code := New("product_reduce", 128, func(k *ptx.Kernel) {
		m, n, count := k.U32Param("m"), k.U32Param("n"), k.U32Param("count")
		batch := batchParams(k, f.batch)
		from, step := k.PtrParam("parts"), k.U64Param("step")
		c := matrixParams(k, "c", batch)
		tail := f.tailParams(k, batch, m)
		width := pick(f.pairs, 2, 1)
		i := k.BlockX().MAD(ptx.U(128), k.ThreadX()).Mul(ptx.U(width))
		size := m.Mul(n)
		k.If(i.Lt(size), func() {
			row := i.Div(n)
			col := i.Sub(row.Mul(n))
			from := k.VarAddr(from.Index64(batch.flat.MulWide(size).Add(i.Wide()), 4))
			sums := make([]ptx.F32, width)
			for j := range sums {
				sums[j] = k.VarF32(from.LoadF32(4 * j))
			}
			k.For(ptx.U(1), count, ptx.U(1), func(ptx.U32) {
				from.Set(from.Add(step))
				for j := range sums {
					sums[j].Set(sums[j].Add(from.LoadF32(4 * j)))
				}
			})
			to := col
			if f.pairs {
				to = col.Shr(ptx.U(1))
			}
			f.store(c.at(row, to), tail(row, col, sums))
		})
	})
	args := []Arg{U32(p.M), U32(p.N), U32(split), U32(volume(p.Batch))}
	for _, d := range p.Batch {
		args = append(args, U32(d))
	}
	args = append(args, Ptr(parts), U64(4*p.M*p.N*volume(p.Batch)))
	args = append(args, p.C.args(p.Result.Size())...)
	args = append(args, p.tail()...)
	y := min(volume(p.Batch), 65535)
	return NewCall(code, driver.Dim{X: uint32(ceil(p.M*p.N/pick(p.pairs(), 2, 1), 128)), Y: uint32(y),
		Z: uint32(ceil(volume(p.Batch), y))}, args...)
}
