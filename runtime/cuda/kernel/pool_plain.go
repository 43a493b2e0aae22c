package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// PlainPool reduces windows over any axes of planes of any type: to the greatest number, with its index in x if at
// has a buffer (in column order with Columns), or to a p-norm.
type PlainPool struct {
	Norm    float64 // p; 0 for the greatest number
	Columns bool
	Over    []PoolAxis
}

// Call returns the launch.
func (p PlainPool) Call(y Tensor, at Buffer, x Tensor, planes int) (Call, bool) {
	outputs, size, taps := planes, 1, 1
	for _, a := range p.Over {
		if !fits(a.In+a.Begin+a.End+(a.Taps-1)*a.Dilation+(a.Out-1)*a.Stride) || !fits(outputs, a.Out) || !fits(planes, size, a.In) ||
			!fits(taps, a.Taps) {
			return Call{}, false
		}
		outputs, size, taps = outputs*a.Out, size*a.In, taps*a.Taps
	}
	nothing := math.Inf(-1)
	switch x.Type {
	case tensor.Int8:
		nothing = math.MinInt8
	case tensor.Uint8:
		nothing = 0
	}
	name := fmt.Sprintf("pool_plain_%d_%v_%t_%t_%t", len(p.Over), x.Type, p.Norm > 0, at != 0, p.Columns)
	return each(name, outputs, func(d *plain, i ptx.U32) {
		in, taps, size := d.tensor(x), d.size(taps), d.size(size)
		n := len(p.Over)
		param := func(f func(a PoolAxis) int) []ptx.U32 {
			list := make([]ptx.U32, n)
			for i, a := range p.Over {
				list[i] = d.size(f(a))
			}
			return list
		}
		width, block := param(func(a PoolAxis) int { return a.In }), param(func(a PoolAxis) int { return a.Taps })
		stride, dilation := param(func(a PoolAxis) int { return a.Stride }), param(func(a PoolAxis) int { return a.Dilation })
		begin, out := param(func(a PoolAxis) int { return a.Begin }), param(func(a PoolAxis) int { return a.Out })
		place := index(i, append([]ptx.U32{d.size(planes)}, out...))
		base := place[0].Mul(size)
		best, from := d.VarF64(ptx.D(nothing)), d.VarU32(ptx.U(uint32(math.MaxUint32)))
		if p.Norm > 0 {
			best.Set(ptx.D(0))
		}
		d.loop(taps, func(t ptx.U32) {
			o, inside := d.VarU32(ptx.U(0)), t.Eq(t)
			for a, k := range index(t, block) {
				c := place[1+a].MAD(stride[a], k.Mul(dilation[a])).Sub(begin[a]) // negative positions are great numbers
				inside = inside.And(c.Lt(width[a]))
				o = o.MAD(width[a], c)
			}
			d.If(inside, func() {
				v := in.get(base.Add(o).Wide())
				if p.Norm > 0 {
					best.Set(best.Add(powF64(d.Kernel, d.VarF64(v.Abs()), d.VarF64(d.float(p.Norm)))))
					return
				}
				more := from.Eq(ptx.U(uint32(math.MaxUint32))).Or(v.Gt(best)).Or(v.IsNaN().And(best.IsNaN().Not()))
				best.Set(more.SelectF64(v, best))
				from.Set(more.SelectU32(o, from))
			})
		})
		if p.Norm > 0 {
			best.Set(powF64(d.Kernel, best, d.VarF64(d.float(1/p.Norm))))
		}
		if y.Buffer != 0 {
			d.tensor(y).set(i.Wide(), best)
		}
		if at == 0 {
			return
		}
		if p.Columns {
			order, scale := d.VarU32(ptx.U(0)), size
			for a, c := range index(from, width) {
				if a == 0 {
					order = c
					scale = width[0]
					continue
				}
				order = c.MAD(scale, order)
				scale = scale.Mul(width[a])
			}
			none := from.Eq(ptx.U(uint32(math.MaxUint32)))
			from.Set(none.SelectU32(from, order))
		}
		// No number: one before the plane.
		d.vector(at, tensor.Int64).write(i.Wide(), Elem{domain: integer, integer: base.Wide().Add(from.S32().Wide())})
	})
}
