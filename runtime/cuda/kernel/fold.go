package kernel

import (
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// CausalConv is a causal convolution of each channel with its filter of Taps numbers, over Samples × Channels
// sequences of Length steps. The sequences continue from the Taps - 1 steps of past, or from zeros.
type CausalConv struct {
	Samples, Channels, Length, Taps int
	SiLU                            bool
	X, W, Bias, Past                Tensor // Bias and Past may be absent
}

func (c CausalConv) line(d *plain) func(row, t ptx.U32) ptx.F64 {
	x, length, before := d.tensor(c.X), d.size(c.Length), d.size(c.Taps-1)
	var past vector
	if c.Past.Buffer != 0 {
		past = d.tensor(c.Past)
	}
	return func(row, t ptx.U32) ptx.F64 {
		v := d.VarF64(ptx.D(0))
		d.IfElse(t.Lt(before), func() {
			if c.Past.Buffer != 0 {
				v.Set(past.get(row.MAD(before, t).Wide()))
			}
		}, func() { v.Set(x.get(row.MAD(length, t.Sub(before)).Wide())) })
		return v
	}
}

// Calls returns the launches for the result and for the last Taps - 1 steps; each output may be absent.
func (c CausalConv) Calls(y, present Tensor) (calls []Call, ok bool) {
	if !fits(c.Samples, c.Channels, c.Length+c.Taps) || !fits(c.Channels, c.Taps) {
		return nil, false
	}
	key := fmt.Sprintf("%v_%t_%t", c.X.Type, c.Bias.Buffer != 0, c.Past.Buffer != 0)
	if y.Buffer != 0 {
		call, _ := each(fmt.Sprintf("causal_conv_%s_%t", key, c.SiLU), c.Samples*c.Channels*c.Length, func(d *plain, i ptx.U32) {
			out, w, taps, length, channels := d.tensor(y), d.tensor(c.W), d.size(c.Taps), d.size(c.Length), d.size(c.Channels)
			line := c.line(d)
			row := i.Div(length)
			t, channel := i.Sub(row.Mul(length)), row.Rem(channels)
			sum := d.VarF64(ptx.D(0))
			d.loop(taps, func(k ptx.U32) { sum.Set(w.get(channel.MAD(taps, k).Wide()).FMA(line(row, t.Add(k)), sum)) })
			if c.Bias.Buffer != 0 {
				sum.Set(sum.Add(d.tensor(c.Bias).get(channel.Wide())))
			}
			if c.SiLU {
				sum.Set(sum.Div(expF64(sum.Neg()).Add(ptx.D(1))))
			}
			out.set(i.Wide(), sum)
		})
		calls = append(calls, call)
	}
	if present.Buffer != 0 && c.Taps > 1 {
		call, _ := each("causal_conv_steps_"+key, c.Samples*c.Channels*(c.Taps-1), func(d *plain, i ptx.U32) {
			out, before, length := d.tensor(present), d.size(c.Taps-1), d.size(c.Length)
			line := c.line(d)
			row := i.Div(before)
			out.set(i.Wide(), line(row, i.Sub(row.Mul(before)).Add(length)))
		})
		calls = append(calls, call)
	}
	return calls, true
}

// LinearAttention is the recurrence of ONNX's operator of that name. A thread computes a column of the state of a head.
type LinearAttention struct {
	Batch, Length, Queries, Heads int // Queries is a multiple of Heads
	K, V                          int // rows and columns of a state
	Gated, Delta                  bool
	Decays, Betas                 int // numbers of a step
	Scale                         float64
	Query, Key, Value, Past       Tensor // Past may be absent
	Decay, Beta                   Tensor // may be absent
}

// Call returns the launch. state is float64 scratch memory for all states; y and present may be absent.
func (a LinearAttention) Call(y, present Tensor, state Buffer) (Call, bool) {
	if !fits(a.Batch, a.Length, a.Queries, max(a.K, a.V)) || !fits(a.Batch, a.Heads, a.K, a.V) ||
		!fits(a.Batch, a.Length, max(a.Decays, a.Betas)) {
		return Call{}, false
	}
	name := fmt.Sprintf("linear_attention_%v_%v_%t_%t_%t_%t", a.Query.Type, a.Past.Type, a.Gated, a.Delta, a.Past.Buffer != 0,
		present.Buffer != 0)
	return each(name, a.Batch*a.Heads*a.V, func(d *plain, i ptx.U32) {
		query, key, value, s := d.tensor(a.Query), d.tensor(a.Key), d.tensor(a.Value), d.vector(state, tensor.Float64)
		length, queries, heads := d.size(a.Length), d.size(a.Queries), d.size(a.Heads)
		dk, dv, decays, betas := d.size(a.K), d.size(a.V), d.size(a.Decays), d.size(a.Betas)
		var past, last, out, decay, beta vector
		if a.Past.Buffer != 0 {
			past = d.tensor(a.Past)
		}
		if present.Buffer != 0 {
			last = d.tensor(present)
		}
		if y.Buffer != 0 {
			out = d.tensor(y)
		}
		if a.Gated {
			decay = d.tensor(a.Decay)
		}
		if a.Delta {
			beta = d.tensor(a.Beta)
		}
		scale := d.float(a.Scale)
		head := i.Div(dv)
		j := i.Sub(head.Mul(dv))
		sample := head.Div(heads)
		h := head.Sub(sample.Mul(heads))
		at := func(r ptx.U32) ptx.U64 { return head.MAD(dk, r).MAD(dv, j).Wide() }
		d.loop(dk, func(r ptx.U32) {
			if a.Past.Buffer != 0 {
				s.set(at(r), past.get(at(r)))
			} else {
				s.set(at(r), d.VarF64(ptx.D(0)))
			}
		})
		group := queries.Div(heads)
		each := decays.Eq(heads) // per head, or per row
		d.loop(length, func(t ptx.U32) {
			step := sample.MAD(length, t)
			k := func(r ptx.U32) ptx.F64 { return key.get(step.MAD(heads, h).MAD(dk, r).Wide()) }
			if a.Gated {
				d.loop(dk, func(r ptx.U32) {
					place := each.SelectU32(step.MAD(heads, h), step.MAD(heads, h).MAD(dk, r))
					s.set(at(r), s.get(at(r)).Mul(expF64(decay.get(place.Wide()))))
				})
			}
			u := d.VarF64(value.get(step.MAD(heads, h).MAD(dv, j).Wide()))
			if a.Delta {
				d.loop(dk, func(r ptx.U32) { u.Set(u.Sub(k(r).Mul(s.get(at(r))))) })
				u.Set(u.Mul(beta.get(step.MAD(betas, h.Rem(betas)).Wide())))
			}
			d.loop(dk, func(r ptx.U32) { s.set(at(r), k(r).FMA(u, s.get(at(r)))) })
			if y.Buffer == 0 {
				return
			}
			d.loop(group, func(g ptx.U32) {
				q := step.MAD(queries, h.MAD(group, g))
				sum := d.VarF64(ptx.D(0))
				d.loop(dk, func(r ptx.U32) {
					sum.Set(scale.Mul(query.get(q.MAD(dk, r).Wide())).FMA(s.get(at(r)), sum))
				})
				out.set(q.MAD(dv, j).Wide(), sum)
			})
		})
		if present.Buffer != 0 {
			d.loop(dk, func(r ptx.U32) { last.set(at(r), s.get(at(r))) })
		}
	})
}

// FoldAxis is the layout of blocks along an axis of images.
type FoldAxis struct{ Image, Block, Places, Stride, Dilation, Begin int }

// Col2Im sums blocks of columns: each element of planes images is the sum of the columns that contain it.
func Col2Im(y, x Tensor, planes int, over []FoldAxis) (Call, bool) {
	count, taps, columns := planes, 1, 1
	for _, a := range over {
		if !fits(a.Image+a.Begin+a.Block*a.Dilation) || !fits(a.Stride) || !fits(count, a.Image) || !fits(taps, a.Block) ||
			!fits(columns, a.Places) {
			return Call{}, false
		}
		count, taps, columns = count*a.Image, taps*a.Block, columns*a.Places
	}
	if !fits(planes, taps, columns) {
		return Call{}, false
	}
	return each(fmt.Sprintf("col2im_%d_%v", len(over), x.Type), count, func(d *plain, i ptx.U32) {
		out, in := d.tensor(y), d.tensor(x)
		n := len(over)
		image, block, places := make([]ptx.U32, n), make([]ptx.U32, n), make([]ptx.U32, n)
		stride, dilation, begin := make([]ptx.U32, n), make([]ptx.U32, n), make([]ptx.U32, n)
		for a, o := range over {
			image[a], block[a], places[a] = d.size(o.Image), d.size(o.Block), d.size(o.Places)
			stride[a], dilation[a], begin[a] = d.size(o.Stride), d.size(o.Dilation), d.size(o.Begin)
		}
		taps := d.size(taps)
		at := index(i, append([]ptx.U32{d.size(planes)}, image...))
		sum := d.VarF64(ptx.D(0))
		d.loop(taps, func(t ptx.U32) {
			tap := index(t, block)
			from := at[0].MAD(taps, t)
			inside := from.Eq(from)
			for a := range over {
				p := at[1+a].Add(begin[a]).Sub(tap[a].Mul(dilation[a])) // a negative position is a great number
				q := p.Div(stride[a])
				inside = inside.And(p.S32().Ge(ptx.I(0))).And(q.Lt(places[a])).And(q.Mul(stride[a]).Eq(p))
				from = from.MAD(places[a], q)
			}
			d.If(inside, func() { sum.Set(sum.Add(in.get(from.Wide()))) })
		})
		out.set(i.Wide(), sum)
	})
}
