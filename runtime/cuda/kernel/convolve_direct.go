package kernel

import (
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

const (
	directSteps = 8   // per thread
	directPart  = 256 // taps whose sum is computed before it joins the others
)

// directTable returns the taps as the kernel reads them: for each tap all channels, padded with zeros to a multiple
// of directSteps.
func (c *Convolution) directTable(taps func(channel int) []float64) []byte {
	all := make([]float32, ceilDiv(c.Taps, directSteps)*directSteps*c.Channels)
	spread(c.Channels, func(next func() int) {
		for i := next(); i >= 0; i = next() {
			for j, x := range taps(i) {
				all[j*c.Channels+i] = float32(x)
			}
		}
	})
	return float32Bytes(all)
}

func (c *Convolution) direct(table Buffer) Call {
	threads := ceilDiv(c.Length, directSteps) * c.Channels
	y, z := gridBatch(c.Batch)
	return NewCall(convolveDirect(false), driver.Dim{X: uint32(ceilDiv(threads, scanThreads)), Y: y, Z: z}, U32(c.Batch), U32(c.Length),
		U32(c.Inputs), U32(c.Channels), U32(c.Taps), U32(c.Ahead), Ptr(c.U), Ptr(c.Y), Ptr(table))
}

// convolveDirect computes some steps of a channel per thread. Each product has a fixed position in the sum. With
// matrix, a channel has several inputs, one after the other, with taps each.
func convolveDirect(matrix bool) *Code {
	name := "convolve_direct"
	if matrix {
		name += "_matrix"
	}
	return New(name, scanThreads, func(k *ptx.Kernel) {
		batch, length, inputs, channels := k.U32Param("batch"), k.U32Param("length"), k.U32Param("inputs"), k.U32Param("channels")
		taps, ahead := k.U32Param("taps"), k.U32Param("ahead")
		u, y, table := k.PtrParam("u"), k.PtrParam("y"), k.PtrParam("table")
		count, of := ptx.U(1), ptx.U(1) // inputs of a channel, channels that share them
		if matrix {
			count, of = k.U32Param("in"), k.U32Param("out")
		}
		sample := k.BlockZ().MAD(k.GridY(), k.BlockY())
		q := k.BlockX().Wide().MAD(ptx.L(scanThreads), k.ThreadX().Wide())
		tile := q.Div(channels.Wide())
		channel := q.Sub(tile.Mul(channels.Wide())).Low()
		k.If(tile.Ge(length.Wide()).Or(sample.Ge(batch)), k.Return)
		begin := tile.Low().Mul(ptx.U(directSteps))
		k.If(begin.Ge(length), k.Return)
		begins := channel.Rem(inputs)
		if matrix {
			begins = channel.Div(of).Mul(count)
		}
		input := k.VarAddr(u.Index64(sample.MulWide(length).MAD(inputs.Wide(), begins.Wide()), 4))
		read := func(t ptx.U32) ptx.F32 { // negative t means far after the last step
			x := k.VarF32(ptx.F(0))
			k.Guard(t.Lt(length), func() { x.Set(input.Index64(t.MulWide(inputs), 4).ConstF32(0)) })
			return x
		}
		// Step i of the tile uses, for d = 0, 1, …, the input i - d after the one at tap 0.
		at := begin.Add(ahead)
		// Taps before from come too early for any input, taps from to on too late.
		from := at.Sub(at.Min(length.Sub(ptx.U(1)))).And(ptx.U(^uint32(directSteps - 1)))
		to := taps.Min(at.Add(ptx.U(directSteps)))
		var window, sums [directSteps]ptx.F32 // inputs at the steps of the tile, for the current tap
		for i := range window {
			sums[i] = k.VarF32(ptx.F(0))
			window[i] = k.VarF32(ptx.F(0))
		}
		row := channels.MulWide(ptx.U(4))
		places := taps.Add(ptx.U(directSteps - 1)).And(ptx.U(^uint32(directSteps - 1)))
		one := func(first ptx.U32) { // one input, whose taps start there
			for i := 1; i < directSteps; i++ {
				window[i].Set(read(at.Sub(from).Add(ptx.U(i))))
			}
			k.For(from, to, ptx.U(directPart), func(begin ptx.U32) {
				var part [directSteps]ptx.F32
				for i := range part {
					part[i] = k.VarF32(ptx.F(0))
				}
				k.For(begin, to.Min(begin.Add(ptx.U(directPart))), ptx.U(directSteps), func(j ptx.U32) {
					tap := k.VarAddr(table.Index64(first.Add(j).MulWide(channels).Add(channel.Wide()), 4))
					// x[i] is the input of step i at tap j; later taps use the elements before it.
					var x [2*directSteps - 1]ptx.F32
					now := at.Sub(j)
					for i := range directSteps {
						x[i] = read(now.Sub(ptx.U(directSteps - 1 - i)))
					}
					copy(x[directSteps:], window[1:])
					var chunk [directSteps]ptx.F32
					for d := range directSteps {
						w := tap.ConstF32(0)
						tap = tap.Add(row)
						for i := range chunk {
							v := x[directSteps-1+i-d]
							if d == 0 {
								chunk[i] = w.Mul(v)
							} else {
								chunk[i] = w.FMA(v, chunk[i])
							}
						}
					}
					for i := range part {
						part[i].Set(part[i].Add(chunk[i]))
					}
					for i := 1; i < directSteps; i++ {
						window[i].Set(x[i-1])
					}
				})
				for i := range sums {
					sums[i].Set(sums[i].Add(part[i]))
				}
			})
		}
		if matrix {
			k.For(ptx.U(0), count, ptx.U(1), func(i ptx.U32) {
				one(i.Mul(places))
				input.Set(input.Add(ptx.L(4)))
			})
		} else {
			one(ptx.U(0))
		}
		to64 := sample.MulWide(length).Add(begin.Wide()).MAD(channels.Wide(), channel.Wide())
		out := y.Index64(to64, 4)
		for i, x := range sums {
			k.Guard(begin.Add(ptx.U(i)).Lt(length), func() { out.StoreF32(0, x) })
			out = out.Add(row)
		}
	})
}
