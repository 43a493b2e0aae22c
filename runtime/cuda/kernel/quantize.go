package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Quantize returns launches that divide x by scale, round the quotient to type precision (tensor.Float64 for no
// rounding), and convert it to the type of out. Integers are rounded to nearest even, shifted by zero, and clamped
// to limits (or out's range if they are 0); NaN gives 0. If out is float32, the sum of quotient and zero is stored
// so that a second rounding, to fewer bits, gives the same result as a single one. Operands are laid out along
// shape. zero may have no buffer.
func Quantize(shape []int, limits [2]float64, precision tensor.DType, out, x, scale, zero Operand) (calls []Call, ok bool) {
	list := []Operand{out, x, scale}
	if zero.Buffer != 0 {
		list = append(list, zero)
	}
	for _, o := range list {
		if d, known := domainOf(o.Type); !known || d == truth || d == wide {
			return nil, false
		}
	}
	single := x.Type == tensor.Float32 && scale.Type == tensor.Float32 && precision == tensor.Float32 && out.Type.Bits() <= 16 &&
		out.Type.IsInt() && limits[1] <= 65535
	key := fmt.Sprint(limits, precision, out.Type, x.Type, scale.Type, zero.Type, len(list))
	return mapped("quantize", key, shape, list, func(k *ptx.Kernel, in []raw) raw {
		if single { // as in float64: quotients of float32 round as if once, and everything else is exact
			q := in[0].low.Float().Div(in[1].low.Float()).RoundEven()
			if len(in) > 2 {
				q = q.Add(in[2].elem(zero.Type).integer.SignedF32())
			}
			q = q.IsNaN().SelectF32(ptx.F(0), q.Max(ptx.F(float32(limits[0]))).Min(ptx.F(float32(limits[1]))))
			return raw{low: q.S32().U32()}
		}
		number := func(r raw, t tensor.DType) ptx.F64 { return r.elem(t).to(t, tensor.Float64).wide }
		q := number(in[0], x.Type).Div(number(in[1], scale.Type))
		if precision != tensor.Float64 {
			e := Elem{domain: wide, wide: q}.to(tensor.Float64, precision)
			q = number(e.raw(precision), precision)
		}
		if out.Type.IsInt() {
			q = q.RoundEven()
		}
		if len(in) > 2 {
			q = q.Add(number(in[2], zero.Type))
		}
		if out.Type == tensor.Float32 {
			return raw{low: oddF32(q).Bits()}
		}
		nan := q.IsNaN()
		q = nan.SelectF64(ptx.D(0), q.Max(ptx.D(limits[0])).Min(ptx.D(limits[1])))
		return Elem{domain: integer, integer: q.TruncS64()}.raw(out.Type)
	}), true
}

// Dequantize returns launches that compute (x - zero)·scale, rounded once. Operands are laid out along shape. zero
// may have no buffer.
func Dequantize(shape []int, out, x, scale, zero Operand) (calls []Call, ok bool) {
	list := []Operand{out, x, scale}
	if zero.Buffer != 0 {
		list = append(list, zero)
	}
	for _, o := range list {
		if d, known := domainOf(o.Type); !known || d == truth {
			return nil, false
		}
	}
	single := out.Type == tensor.Float32 && scale.Type == tensor.Float32 && x.Type.IsInt() && x.Type.Bits() <= 16
	key := fmt.Sprint(out.Type, x.Type, scale.Type, zero.Type, len(list))
	return mapped("dequantize", key, shape, list, func(k *ptx.Kernel, in []raw) raw {
		if single { // differences are exact
			v := in[0].elem(x.Type).integer
			if len(in) > 2 {
				v = v.Sub(in[2].elem(zero.Type).integer)
			}
			return raw{low: v.SignedF32().Mul(in[1].low.Float()).Bits()}
		}
		number := func(r raw, t tensor.DType) ptx.F64 { return r.elem(t).to(t, tensor.Float64).wide }
		v := number(in[0], x.Type)
		if len(in) > 2 {
			v = v.Sub(number(in[2], zero.Type))
		}
		y := Elem{domain: wide, wide: v.Mul(number(in[1], scale.Type))}
		return y.to(tensor.Float64, out.Type).raw(out.Type)
	}), true
}

// IntLimits returns the range of an integer type of at most 32 bits.
func IntLimits(t tensor.DType) [2]float64 {
	n := t.Bits()
	switch t {
	case tensor.Int2, tensor.Int4, tensor.Int8, tensor.Int16, tensor.Int32:
		return [2]float64{-math.Ldexp(1, n-1), math.Ldexp(1, n-1) - 1}
	}
	return [2]float64{0, math.Ldexp(1, n) - 1}
}
