package kernel

import (
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// DeformConv is a convolution whose taps are displaced by offsets; see ONNX. Bias and Mask may be absent.
type DeformConv struct {
	Samples, Channels, Filters, Groups, OffsetGroups int
	Over                                             []PoolAxis // only In, Out, Taps, Stride, Dilation and Begin are used
	X, W, Offset, Bias, Mask                         Tensor
}

// Call returns the launch: one thread computes one number of the result.
func (c DeformConv) Call(y Tensor) (Call, bool) {
	k, size, places, taps := len(c.Over), 1, 1, 1
	for _, a := range c.Over {
		if !fits(size, a.In) || !fits(places, a.Out) || !fits(taps, a.Taps) || !fits(a.Out*a.Stride+a.Taps*a.Dilation+a.Begin) {
			return Call{}, false
		}
		size, places, taps = size*a.In, places*a.Out, taps*a.Taps
	}
	if k < 1 || k > 3 || size == 0 || !fits(c.Samples, c.Channels, size) || !fits(c.Samples, c.Filters, places) ||
		!fits(c.Samples, c.OffsetGroups, taps, k, places) || !fits(c.Filters, c.Channels, taps) {
		return Call{}, false
	}
	name := fmt.Sprintf("deform_conv_%d_%v_%t_%t", k, c.X.Type, c.Bias.Buffer != 0, c.Mask.Buffer != 0)
	return each(name, c.Samples*c.Filters*places, func(d *plain, i ptx.U32) {
		x, w, offset := d.tensor(c.X), d.tensor(c.W), d.tensor(c.Offset)
		filters, channels, perGroup := d.size(c.Filters), d.size(c.Channels), d.size(c.Channels/c.Groups)
		perFilter, perOffset, offsets := d.size(c.Filters/c.Groups), d.size(c.Channels/c.OffsetGroups), d.size(c.OffsetGroups)
		size, places, taps := d.size(size), d.size(places), d.size(taps)
		var in, out, block, stride, dilation []ptx.U32
		var begin []ptx.S32
		for _, a := range c.Over {
			in, out, block = append(in, d.size(a.In)), append(out, d.size(a.Out)), append(block, d.size(a.Taps))
			stride, dilation = append(stride, d.size(a.Stride)), append(dilation, d.size(a.Dilation))
			begin = append(begin, d.signed(a.Begin))
		}
		plane := i.Div(places)
		place := i.Sub(plane.Mul(places))
		sample := plane.Div(filters)
		filter := plane.Sub(sample.Mul(filters))
		at := index(place, out)
		total := d.VarF64(ptx.D(0))
		d.loop(perGroup, func(n ptx.U32) {
			channel := filter.Div(perFilter).MAD(perGroup, n)
			base := sample.MAD(channels, channel).Mul(size)
			group := sample.MAD(offsets, channel.Div(perOffset))
			d.loop(taps, func(t ptx.U32) {
				cell := group.MAD(taps, t)
				var low, part []ptx.F64
				inside := t.Eq(t)
				for a, tap := range index(t, block) {
					start := at[a].Mul(stride[a]).S32().Sub(begin[a]).Add(tap.Mul(dilation[a]).S32())
					p := start.ToF64().Add(offset.get(cell.Mul(ptx.U(k)).Add(ptx.U(a)).MAD(places, place).Wide()))
					f := p.Floor()
					inside = inside.And(f.Ge(ptx.D(-1))).And(f.Lt(in[a].Wide().SignedF64()))
					low, part = append(low, f), append(part, p.Sub(f))
				}
				d.If(inside, func() {
					sum := d.VarF64(ptx.D(0))
					for corner := range 1 << k {
						o, weight, there := d.VarU32(base), d.VarF64(ptx.D(1)), inside
						from := d.VarU32(ptx.U(0))
						for a := range c.Over {
							p, q := low[a], ptx.D(1).Sub(part[a])
							if corner>>a&1 == 1 {
								p, q = p.Add(ptx.D(1)), part[a]
							}
							there = there.And(p.Ge(ptx.D(0))).And(p.Lt(in[a].Wide().SignedF64())).And(q.Ne(ptx.D(0)))
							weight.Set(weight.Mul(q))
							from.Set(from.MAD(in[a], p.S32().U32()))
						}
						d.If(there, func() { sum.Set(sum.Add(weight.Mul(x.get(o.Add(from).Wide())))) })
					}
					v := sum.Mul(w.get(filter.MAD(perGroup, n).MAD(taps, t).Wide()))
					if c.Mask.Buffer != 0 {
						v = v.Mul(d.tensor(c.Mask).get(cell.MAD(places, place).Wide()))
					}
					total.Set(total.Add(v))
				})
			})
		})
		if c.Bias.Buffer != 0 {
			total.Set(total.Add(d.tensor(c.Bias).get(filter.Wide())))
		}
		d.tensor(y).set(i.Wide(), total)
	})
}
