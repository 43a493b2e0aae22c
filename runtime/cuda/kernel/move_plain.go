package kernel

import (
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Diagonal writes a matrix that is 1 where the column equals the row plus k, and 0 elsewhere.
func Diagonal(y Tensor, rows, columns, k int) (Call, bool) {
	if !fits(rows, columns) || k != int(int32(k)) {
		return Call{}, false
	}
	return each(fmt.Sprintf("diagonal_%v", y.Type), rows*columns, func(d *plain, i ptx.U32) {
		columns := d.size(columns)
		row := i.Div(columns)
		hit := i.Sub(row.Mul(columns)).Wide().Eq(row.Wide().Add(d.signed(k).Wide()))
		one := hit.SelectF64(ptx.D(1), ptx.D(0))
		if y.Type == tensor.Bool {
			d.tensor(y).write(i.Wide(), Elem{domain: truth, truth: hit})
			return
		}
		d.tensor(y).set(i.Wide(), one)
	})
}

// ReverseSequences reverses the first steps of each sequence; lengths has the number of steps for each. x has shape
// (steps, batch, inner), or (batch, steps, inner) with batchFirst. A length outside 0 to steps sets fault and
// reverses nothing.
func ReverseSequences(y, x, lengths, fault Buffer, t tensor.DType, steps, batch, inner int, batchFirst bool) (Call, bool) {
	if !fits(steps, batch, inner) || t.Bits() > 64 || t.Bits()%8 != 0 {
		return Call{}, false
	}
	return each(fmt.Sprintf("reverse_sequences_%d_%t", t.Bits(), batchFirst), steps*batch*inner, func(d *plain, i ptx.U32) {
		out, in, n := d.vector(y, t), d.vector(x, t), d.vector(lengths, tensor.Int64)
		bad, steps, batch, inner := d.address(fault), d.size(steps), d.size(batch), d.size(inner)
		line := i.Div(inner)
		rest := i.Sub(line.Mul(inner))
		across := batch
		if batchFirst {
			across = steps
		}
		a := line.Div(across)
		b := line.Sub(a.Mul(across))
		step, sample := a, b
		if batchFirst {
			step, sample = b, a
		}
		length := n.read(sample.Wide()).integer
		good := length.Le(steps.Wide()) // as an unsigned number
		d.If(good.Not(), func() { bad.SetBits(0, ptx.U(1)) })
		back := length.Low().Sub(ptx.U(1)).Sub(step)
		step = good.And(step.Wide().Lt(length)).SelectU32(back, step)
		from := step.MAD(batch, sample)
		if batchFirst {
			from = sample.MAD(steps, step)
		}
		out.copyTo(i.Wide(), in, from.MAD(inner, rest).Wide())
	})
}

// WriteSteps copies x, with the steps of update written to the middle axis of samples × rows × size × inner. They
// start at each sample's position in at, or at 0 if at is absent, modulo size if circular. If they do not fit, fault
// is set and the sample does not change.
func WriteSteps(y, x, update, at, fault Buffer, t tensor.DType, samples, rows, size, steps, inner int, circular bool) (Call, bool) {
	if !fits(samples, rows, max(size, steps), inner) || t.Bits() > 64 || t.Bits()%8 != 0 {
		return Call{}, false
	}
	name := fmt.Sprintf("write_steps_%d_%t_%t", t.Bits(), at != 0, circular)
	return each(name, samples*rows*size*inner, func(d *plain, i ptx.U32) {
		out, old, in := d.vector(y, t), d.vector(x, t), d.vector(update, t)
		rows, size, steps, inner := d.size(rows), d.size(size), d.size(steps), d.size(inner)
		line := i.Div(inner)
		row := line.Div(size)
		place := line.Sub(row.Mul(size)).Wide()
		first, good := d.VarU64(ptx.L(0)), i.Eq(i)
		if at != 0 {
			first.Set(d.vector(at, tensor.Int64).read(row.Div(rows).Wide()).integer)
			if n := size.Wide(); circular {
				rest := first.SignedRem(n)
				first.Set(rest.SignedLt(ptx.L(0)).SelectU64(rest.Add(n), rest))
			} else {
				bad := d.address(fault)
				good = first.SignedLe(n.Sub(steps.Wide())).And(first.SignedLt(ptx.L(0)).Not())
				d.If(good.Not(), func() { bad.SetBits(0, ptx.U(1)) })
			}
		}
		step := place.Sub(first)
		if circular {
			step = place.Lt(first).SelectU64(step.Add(size.Wide()), step)
		}
		rest := i.Sub(line.Mul(inner))
		d.IfElse(good.And(step.Lt(steps.Wide())), func() {
			out.copyTo(i.Wide(), in, row.MAD(steps, step.Low()).MAD(inner, rest).Wide())
		}, func() { out.copyTo(i.Wide(), old, i.Wide()) })
	})
}

// AffineGrid writes the coordinates of an image of the given sizes, mapped by one matrix per sample.
func AffineGrid(y, theta Tensor, samples int, sizes []int, corners bool) (Call, bool) {
	k, places := len(sizes), 1
	for _, n := range sizes {
		places *= n
	}
	if !fits(samples, places, k) || k == 0 {
		return Call{}, false
	}
	return each(fmt.Sprintf("affine_grid_%d_%t_%v", k, corners, y.Type), samples*places*k, func(d *plain, i ptx.U32) {
		out, in := d.tensor(y), d.tensor(theta)
		shape := d.sizes(append([]int{samples}, append(sizes, k)...)...)
		at := index(i, shape)
		row := at[0].MAD(ptx.U(k), at[k+1]).Mul(ptx.U(k + 1)).Wide()
		sum := in.get(row.Add(ptx.L(uint64(k))))
		for a := range k { // the last axis first
			n, c := shape[k-a].Wide().SignedF64(), at[k-a].Wide().SignedF64()
			x := c.Add(c).Add(ptx.D(1)).Div(n).Sub(ptx.D(1))
			if corners {
				last := n.Sub(ptx.D(1))
				x = last.Gt(ptx.D(0)).SelectF64(c.Add(c).Div(last).Sub(ptx.D(1)), ptx.D(-1))
			}
			sum = sum.Add(in.get(row.Add(ptx.L(uint64(a)))).Mul(x))
		}
		out.set(i.Wide(), sum)
	})
}

// Divide computes quotients or remainders of integers along a shape, truncated towards zero. With floor, remainders
// have the sign of the divisor. The result is 0 where the divisor is 0, which HasZero detects.
func Divide(shape []int, remainder, floor bool, out, a, b Operand) (calls []Call, ok bool) {
	t := out.Type
	kind, known := domainOf(t)
	if !known || kind != integer || a.Type != t || b.Type != t {
		return nil, false
	}
	list := []Operand{out, a, b}
	unsigned := !signed(t)
	key := fmt.Sprint(t, remainder, floor)
	return mapped("divide", key, shape, list, func(k *ptx.Kernel, in []raw) raw {
		x, y := in[0].elem(t).integer, in[1].elem(t).integer
		zero := y.Eq(ptx.L(0))
		y = zero.SelectU64(ptx.L(1), y)
		z := x
		switch {
		case unsigned && remainder:
			z = x.Rem(y)
		case unsigned:
			z = x.Div(y)
		default: // the minimum divided by -1 wraps around, without a remainder
			minus := y.Eq(ptx.L(^uint64(0)))
			y = minus.SelectU64(ptx.L(1), y)
			if z = x.SignedRem(y); !remainder {
				z = x.SignedDiv(y)
				z = minus.SelectU64(ptx.L(0).Sub(z), z)
			} else if floor {
				other := z.Ne(ptx.L(0)).And(z.Xor(y).SignedLt(ptx.L(0)))
				z = other.SelectU64(z.Add(y), z)
			}
		}
		return Elem{domain: integer, integer: zero.SelectU64(ptx.L(0), z)}.raw(t)
	}), true
}

// HasZero sets fault if one of n integers is 0.
func HasZero(x Buffer, t tensor.DType, n int, fault Buffer) (Call, bool) {
	return each(fmt.Sprintf("has_zero_%v", t), n, func(d *plain, i ptx.U32) {
		bad := d.address(fault)
		d.If(d.vector(x, t).read(i.Wide()).integer.Eq(ptx.L(0)), func() { bad.SetBits(0, ptx.U(1)) })
	})
}

// Power computes a to the power of b along a shape, for types that Elementwise does not support: integers by
// products, which wrap around, and others in float64.
func Power(shape []int, out, a, b Operand) (calls []Call, ok bool) {
	for _, o := range []Operand{out, a, b} {
		if k, known := domainOf(o.Type); !known || k == truth {
			return nil, false
		}
	}
	ka, _ := domainOf(a.Type)
	kb, _ := domainOf(b.Type)
	key := fmt.Sprint(out.Type, a.Type, b.Type)
	return mapped("power", key, shape, []Operand{out, a, b}, func(k *ptx.Kernel, in []raw) raw {
		x, y := in[0].elem(a.Type), in[1].elem(b.Type)
		if ka != integer || kb != integer {
			z := powF64(k, k.VarF64(x.to(a.Type, tensor.Float64).wide), k.VarF64(y.to(b.Type, tensor.Float64).wide))
			return Elem{domain: wide, wide: z}.to(tensor.Float64, out.Type).raw(out.Type)
		}
		n, square, z := k.VarU64(y.integer), k.VarU64(x.integer), k.VarU64(ptx.L(1))
		if a.Type.Bits() == 32 { // rounded to the type of a
			n.Set(n.Shl(ptx.U(32)).SignedShr(ptx.U(32)))
		}
		below := n.SignedLt(ptx.L(0))
		odd := n.And(ptx.L(1)).Ne(ptx.L(0))
		n.Set(below.SelectU64(ptx.L(0), n))
		k.While(func() ptx.Pred { return n.Ne(ptx.L(0)) }, func() {
			z.Set(n.And(ptx.L(1)).Ne(ptx.L(0)).SelectU64(z.Mul(square), z))
			square.Set(square.Mul(square))
			n.Set(n.Shr(ptx.U(1)))
		})
		// Negative powers are truncated: they are 0, except for 1 and -1.
		unit, minus := x.integer.Eq(ptx.L(1)), x.integer.Eq(ptx.L(^uint64(0)))
		small := unit.SelectU64(ptx.L(1), ptx.L(0))
		small = minus.SelectU64(odd.SelectU64(ptx.L(^uint64(0)), ptx.L(1)), small)
		return Elem{domain: integer, integer: below.SelectU64(small, z)}.raw(out.Type)
	}), true
}
