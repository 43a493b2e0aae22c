package kernel

import (
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// ChannelMoments writes the mean and the variance of each channel of (samples, channels, inner) numbers, in float64.
func ChannelMoments(mean, variance Buffer, x Tensor, samples, channels, inner int) (Call, bool) {
	if !fits(samples, channels, inner) {
		return Call{}, false
	}
	return each(fmt.Sprintf("channel_moments_%v", x.Type), channels, func(d *plain, i ptx.U32) {
		in, samples, channels, inner := d.tensor(x), d.size(samples), d.size(channels), d.size(inner)
		count := samples.Mul(inner).Wide().SignedF64()
		visit := func(f func(v ptx.F64)) {
			d.loop(samples, func(s ptx.U32) {
				row := s.MAD(channels, i).Mul(inner)
				d.loop(inner, func(j ptx.U32) { f(in.get(row.Add(j).Wide())) })
			})
		}
		sum := d.VarF64(ptx.D(0))
		visit(func(v ptx.F64) { sum.Set(sum.Add(v)) })
		mu := d.VarF64(sum.Div(count))
		sum.Set(ptx.D(0))
		visit(func(v ptx.F64) {
			e := v.Sub(mu)
			sum.Set(e.FMA(e, sum))
		})
		d.vector(mean, tensor.Float64).set(i.Wide(), mu)
		d.vector(variance, tensor.Float64).set(i.Wide(), sum.Div(count))
	})
}

// Blend computes old·weight + new·(1 - weight) for n numbers; it copies old where weight is 1.
func Blend(y, old Tensor, blended Buffer, n int, weight float64) (Call, bool) {
	return each(fmt.Sprintf("blend_%v_%v_%t", y.Type, old.Type, weight == 1), n, func(d *plain, i ptx.U32) {
		v := d.tensor(old).get(i.Wide())
		if weight != 1 {
			v = v.Mul(d.float(weight)).Add(d.vector(blended, tensor.Float64).get(i.Wide()).Mul(d.float(1 - weight)))
		}
		d.tensor(y).set(i.Wide(), v)
	})
}

// NormChannels computes (x - mean)/√(variance + epsilon)·scale + bias for each channel of (samples, channels, inner) numbers.
func NormChannels(y, x, scale, bias, mean, variance Tensor, samples, channels, inner int, epsilon float64) (calls []Call, ok bool) {
	shape := []int{samples, channels, inner}
	at := func(t Tensor) Operand { return Operand{Buffer: t.Buffer, Type: t.Type, Strides: []int{0, 1, 0}} }
	list := []Operand{Dense(y.Buffer, y.Type), Dense(x.Buffer, x.Type), at(scale), at(bias), at(mean), at(variance)}
	key := fmt.Sprint(epsilon)
	for _, o := range list {
		if k, known := domainOf(o.Type); !known || k != number && k != wide {
			return nil, false
		}
		key += " " + o.Type.String()
	}
	return mapped("norm_channels", key, shape, list, func(k *ptx.Kernel, in []raw) raw {
		v := make([]ptx.F64, len(in))
		for i, r := range in {
			v[i] = r.elem(list[i+1].Type).to(list[i+1].Type, tensor.Float64).wide
		}
		inverse := v[4].Add(ptx.D(epsilon)).Sqrt().Rcp()
		e := Elem{domain: wide, wide: v[0].Sub(v[3]).Mul(inverse).Mul(v[1]).Add(v[2])}
		return e.to(tensor.Float64, y.Type).raw(y.Type)
	}), true
}
