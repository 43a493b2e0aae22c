package kernel

import (
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Norm normalizes rows of Width numbers: y = (x - mean)/√(variance + epsilon)·scale + shift. Sums are in float64.
// Rows of up to 8192 numbers are read once.
type Norm struct {
	Width int
	// Centered subtracts the mean. Otherwise the mean is not subtracted, and the variance is the mean square.
	Centered bool
	// Scale and Shift: there are numbers per feature.
	Scale, Shift bool
	// Statistics: the mean and 1/√(variance + epsilon) of each row are written.
	Statistics bool
	// Sum: the rows are sums of two tensors. Kept: the sums are written, too.
	Sum, Kept bool
	// Apart: gain and offset are in memory, where they may change between launches.
	Apart bool
}

// NormOperands are the operands of a launch. Rows is the number of rows; the rows of y and x are contiguous.
type NormOperands struct {
	Y, X         Buffer
	Scale, Shift Buffer // Width numbers each
	Mean, Factor Buffer // Rows numbers each
	Add, Total   Buffer // for Sum and Kept
	Rows         int
	Epsilon      float64
	// Gain and Offset change the result to (x - mean + Offset)·Gain/√…; the defaults are 1 and 0.
	Gain, Offset float64
	Numbers      Buffer // for Apart: gain and offset, in float64
}

// Call returns the launch.
func (n Norm) Call(o NormOperands) Call {
	f := rowFormOf(n.Width)
	args := []Arg{Ptr(o.Y), Ptr(o.X), U32(o.Rows), F64(o.Epsilon), F64(o.Gain), F64(o.Offset)}
	for _, a := range []struct {
		is bool
		b  Buffer
	}{{n.Scale, o.Scale}, {n.Shift, o.Shift}, {n.Statistics, o.Mean}, {n.Statistics, o.Factor}, {n.Sum, o.Add}, {n.Kept, o.Total},
		{n.Apart, o.Numbers}} {
		if a.is {
			args = append(args, Ptr(a.b))
		}
	}
	return NewCall(n.code(f), f.grid(o.Rows), args...)
}

func (n Norm) code(f rowForm) *Code {
	return New(fmt.Sprintf("norm_%d", n.Width), f.threads, func(k *ptx.Kernel) {
		y, x, rows := k.PtrParam("y"), k.PtrParam("x"), k.U32Param("rows")
		epsilon, gain, offset := k.F64Param("epsilon"), k.F64Param("gain"), k.F64Param("offset")
		param := func(is bool, name string) (a ptx.Addr) {
			if is {
				a = k.PtrParam(name)
			}
			return a
		}
		scale, shift := param(n.Scale, "scale"), param(n.Shift, "shift")
		means, factors := param(n.Statistics, "mean"), param(n.Statistics, "factor")
		add, total := param(n.Sum, "add"), param(n.Kept, "total")
		if numbers := param(n.Apart, "numbers"); n.Apart {
			gain, offset = numbers.LoadF64(0), numbers.LoadF64(8)
		}

		t := f.begin(k, rows)
		in := t.input(t.at(x, 4), 0)
		row := in.get
		if n.Sum {
			more := t.input(t.at(add, 4), 0)
			var sums rowInput
			sums.kept = make([][]ptx.F32, t.steps)
			row = func(p rowPart) []ptx.F32 {
				if p.step >= 0 && sums.kept[p.step] != nil {
					return sums.kept[p.step]
				}
				a, b := in.get(p), more.get(p)
				s := make([]ptx.F32, len(a))
				for i := range a {
					s[i] = a[i].Add(b[i])
				}
				sums.set(p, s)
				return s
			}
		}
		var mean ptx.F64
		width := ptx.D(float64(n.Width))
		if n.Centered {
			mean = t.sum(func(p rowPart) []ptx.F64 { return wide64(row(p), nil) }).Div(width)
		}
		variance := t.sum(func(p rowPart) []ptx.F64 {
			return wide64(row(p), func(x ptx.F64) ptx.F64 {
				if n.Centered {
					x = x.Sub(mean)
				}
				return x.Mul(x)
			})
		}).Div(width)
		wide := variance.Add(epsilon).Sqrt().Rcp()
		if n.Statistics {
			t.first(func() {
				if n.Centered {
					means.Index(t.row, 4).StoreF32(0, mean.F32())
				}
				factors.Index(t.row, 4).StoreF32(0, wide.F32())
			})
		}
		factor := gain.Mul(wide).F32()
		// The mean as a sum of two numbers, because its rounding error would matter if it is far from 0.
		var high, low ptx.F32
		center := offset.Neg()
		if n.Centered {
			center = mean.Add(center)
		}
		high = center.F32()
		low = center.Sub(high.F64()).F32()
		out := t.at(y, 4)
		var sums ptx.Addr
		if n.Kept {
			sums = t.at(total, 4)
		}
		t.each(func(p rowPart) {
			var w, b []ptx.F32
			if n.Scale {
				w = t.read(scale, p, 0, true)
			}
			if n.Shift {
				b = t.read(shift, p, 0, true)
			}
			v := row(p)
			if n.Kept {
				t.write(sums, p, v)
			}
			z := make([]ptx.F32, len(v))
			for i, x := range v {
				x = x.Sub(high).Sub(low).Mul(factor)
				switch {
				case w != nil && b != nil:
					x = x.FMA(w[i], b[i])
				case w != nil:
					x = x.Mul(w[i])
				case b != nil:
					x = x.Add(b[i])
				}
				z[i] = x
			}
			t.write(out, p, z)
		})
	})
}
