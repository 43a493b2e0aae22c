package kernel

import (
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Conv is a convolution of (samples, Groups·Channels, In…) with filters, or its transpose. One thread computes
// one result; it sums over channels, and over taps within each, in order. It is for groups of few filters, where
// matrix products would leave tensor cores idle, for transposes, and for types other than float32; Window is for all
// others.
type Conv struct {
	Type              SumType
	X, W, Bias, Y     Buffer // Bias may be 0
	Samples, Groups   int
	Channels, Filters int   // per group
	In, Out, Taps     []int // 1 to 3 dimensions
	Stride, Dilation  []int
	Before            []int // padding; for a transpose, results that are omitted
	// Transpose: filters are (channels, filters of a group, taps…) instead of (filters, channels of a group,
	// taps…).
	Transpose bool
}

// Calls returns the launches.
func (c Conv) Calls() []Call {
	total := c.Samples * c.Groups * c.Filters * volume(c.Out)
	if total == 0 {
		return nil
	}
	taps := volume(c.Taps)
	// strides between filters and between channels
	perFilter, perChannel := c.Channels*taps, taps
	if c.Transpose {
		perFilter, perChannel = taps, c.Filters*taps
	}
	size := c.Type.Size()
	args := []Arg{U64(total), Ptr(c.X), Ptr(c.W), Ptr(c.Bias), Ptr(c.Y), U32(c.Groups), U32(c.Channels), U32(c.Filters),
		U64(size * volume(c.In)), U64(size * perFilter), U64(size * perChannel)}
	for d := range c.In {
		args = append(args, U32(c.In[d]), U32(c.Out[d]), U32(c.Taps[d]), U32(c.Stride[d]), U32(c.Dilation[d]), U32(c.Before[d]))
	}
	return []Call{NewCall(c.code(), driver.Dim{X: uint32(ceil(total, 128)), Y: 1, Z: 1}, args...)}
}

func (c *Conv) code() *Code {
	typ := c.Type.short(c.Channels * volume(c.Taps))
	dims := len(c.In)
	name := pick(c.Transpose, "conv_transpose", "conv")
	return New(fmt.Sprintf("%s_%v_%dd", name, typ, dims), 128, func(k *ptx.Kernel) {
		total := k.U64Param("total")
		x, w, bias, y := k.PtrParam("x"), k.PtrParam("w"), k.PtrParam("bias"), k.PtrParam("y")
		groups, channels, filters := k.U32Param("groups"), k.U32Param("channels"), k.U32Param("filters")
		plane, perFilter, perChannel := k.U64Param("plane"), k.U64Param("per_filter"), k.U64Param("per_channel")
		type dim struct{ in, out, taps, stride, dilation, before, at ptx.U32 }
		all := make([]dim, dims)
		for d := range all {
			p := func(what string) ptx.U32 { return k.U32Param(fmt.Sprintf("%s%d", what, d)) }
			all[d] = dim{in: p("in"), out: p("out"), taps: p("taps"), stride: p("stride"), dilation: p("dilation"),
				before: p("before")}
		}
		index := k.BlockX().MulWide(ptx.U(128)).Add(k.ThreadX().Wide())
		k.If(index.Ge(total), k.Return)
		rest := index
		for d := dims - 1; d >= 0; d-- {
			next := rest.Div(all[d].out.Wide())
			all[d].at = rest.Sub(next.Mul(all[d].out.Wide())).Low()
			rest = next
		}
		row := rest.Low() // over all samples and filters
		perSample := groups.Mul(filters)
		sample := row.Div(perSample)
		filter := row.Sub(sample.Mul(perSample))
		group := filter.Div(filters)
		// In a transpose, the first axis of filters is the channels of all groups.
		size := c.Type.Size()
		firstX := x.Add(sample.MAD(groups, group).Mul(channels).Wide().Mul(plane))
		var firstW ptx.Addr
		if c.Transpose {
			firstW = w.Add(group.Mul(channels).Wide().Mul(perChannel)).Add(
				filter.Sub(group.Mul(filters)).Wide().Mul(perFilter))
		} else {
			firstW = w.Add(filter.Wide().Mul(perFilter))
		}
		s := typ.adder(k)
		if c.Bias != 0 {
			s.add(s.load(bias.Index(filter, size)), nil)
		}
		fromX, fromW := k.VarAddr(firstX), k.VarAddr(firstW)
		k.For(ptx.U(0), channels, ptx.U(1), func(ptx.U32) {
			tap := k.VarAddr(fromW)
			var nest func(d int, flat ptx.U32, in ptx.Pred)
			nest = func(d int, flat ptx.U32, in ptx.Pred) {
				if d == dims {
					k.If(in, func() { s.add(s.load(fromX.Index(flat, size)), s.load(tap)) })
					tap.Set(tap.Add(ptx.L(uint64(size))))
					return
				}
				a := all[d]
				k.For(ptx.U(0), a.taps, ptx.U(1), func(t ptx.U32) {
					var i ptx.U32
					var inside ptx.Pred
					if c.Transpose {
						// i·stride + t·dilation = at + before. Negative numbers are large unsigned ones.
						far := a.at.Add(a.before).Sub(t.Mul(a.dilation))
						i = far.Div(a.stride)
						inside = far.Eq(i.Mul(a.stride)).And(i.Lt(a.in)).And(far.Lt(ptx.U(uint32(1 << 31))))
					} else {
						i = a.at.Mul(a.stride).Add(t.Mul(a.dilation)).Sub(a.before)
						inside = i.Lt(a.in)
					}
					if d == 0 {
						nest(1, i, inside)
					} else {
						nest(d+1, flat.MAD(a.in, i), in.And(inside))
					}
				})
			}
			nest(0, ptx.U32{}, ptx.Pred{})
			fromX.Set(fromX.Add(plane))
			fromW.Set(fromW.Add(perChannel))
		})
		to := y.Index64(index, size)
		s.put(to)
	})
}
