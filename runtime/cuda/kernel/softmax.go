package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// SoftmaxRows computes e^x/Σe^x for each of rows rows of width numbers, or its logarithm. Exponentials are in
// float32, sums in float64. Rows of up to 8192 numbers are read once.
func SoftmaxRows(y, x Buffer, rows, width int, logarithm bool) Call {
	f := rowFormOf(width)
	return NewCall(softmaxCode(f, logarithm), f.grid(rows), Ptr(y), Ptr(x), U32(rows))
}

func softmaxCode(f rowForm, logarithm bool) *Code {
	name := fmt.Sprintf("softmax_%d", f.width)
	if logarithm {
		name = "log" + name
	}
	return New(name, f.threads, func(k *ptx.Kernel) {
		y, x, rows := k.PtrParam("y"), k.PtrParam("x"), k.U32Param("rows")
		t := f.begin(k, rows)
		in := t.input(t.at(x, 4), 0)
		most := t.fold32(float32(math.Inf(-1)), in.get, ptx.F32.MaxNaN)
		powers := func(p rowPart) []ptx.F32 {
			v := in.get(p)
			e := make([]ptx.F32, len(v))
			for i := range v {
				e[i] = expF32(v[i].Sub(most))
			}
			return e
		}
		sum := t.sum(func(p rowPart) []ptx.F64 {
			e := powers(p)
			if !logarithm {
				in.set(p, e)
			}
			return wide64(e, nil)
		})
		out := t.at(y, 4)
		if logarithm {
			less := wholeLog64(sum).F32()
			t.each(func(p rowPart) {
				v := in.get(p)
				z := make([]ptx.F32, len(v))
				for i := range v {
					z[i] = v[i].Sub(most).Sub(less)
				}
				t.write(out, p, z)
			})
			return
		}
		factor := sum.Rcp().F32()
		t.each(func(p rowPart) {
			e := in.get(p)
			if p.step < 0 {
				e = powers(p)
			}
			z := make([]ptx.F32, len(e))
			for i := range e {
				z[i] = e[i].Mul(factor)
			}
			t.write(out, p, z)
		})
	})
}
