package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// CumProd computes running products of a tensor of outer × n × inner elements along the middle axis. Exclusive
// products omit the element itself; reverse ones start at the end.
func CumProd(y, x Tensor, outer, n, inner int, exclusive, reverse bool) (Call, bool) {
	kind, known := domainOf(x.Type)
	if !known || kind == truth || !fits(outer, n, inner) {
		return Call{}, false
	}
	return each(fmt.Sprintf("cumprod_%v_%t_%t", x.Type, exclusive, reverse), outer*inner, func(d *plain, i ptx.U32) {
		out, in, n, inner := d.tensor(y), d.tensor(x), d.size(n), d.size(inner)
		row := i.Div(inner)
		first := row.Mul(n).MAD(inner, i.Sub(row.Mul(inner)))
		whole, number := d.VarU64(ptx.L(1)), d.VarF64(ptx.D(1))
		d.loop(n, func(j ptx.U32) {
			if reverse {
				j = n.Sub(ptx.U(1)).Sub(j)
			}
			at := j.MAD(inner, first).Wide()
			if kind == integer {
				next := whole.Mul(in.read(at).integer)
				if exclusive {
					out.write(at, Elem{domain: integer, integer: whole})
				} else {
					out.write(at, Elem{domain: integer, integer: next})
				}
				whole.Set(next)
				return
			}
			next := number.Mul(in.get(at))
			if exclusive {
				out.set(at, number)
			} else {
				out.set(at, next)
			}
			number.Set(next)
		})
	})
}

// LpNormalize divides the lines of outer × n × inner numbers along the middle axis by their norms: p is 1 or 2.
// Lines with norm 0 do not change.
func LpNormalize(y, x Tensor, p, outer, n, inner int) (Call, bool) {
	if !fits(outer, n, inner) {
		return Call{}, false
	}
	return each(fmt.Sprintf("lp_normalize_%d_%v", p, x.Type), outer*inner, func(d *plain, i ptx.U32) {
		out, in, n, inner := d.tensor(y), d.tensor(x), d.size(n), d.size(inner)
		row := i.Div(inner)
		first := row.Mul(n).MAD(inner, i.Sub(row.Mul(inner)))
		norm := d.VarF64(ptx.D(0))
		d.loop(n, func(j ptx.U32) {
			v := in.get(j.MAD(inner, first).Wide())
			if p == 1 {
				norm.Set(norm.Add(v.Abs()))
			} else {
				norm.Set(v.FMA(v, norm))
			}
		})
		if p == 2 {
			norm.Set(norm.Sqrt())
		}
		norm.Set(norm.Eq(ptx.D(0)).SelectF64(ptx.D(1), norm))
		d.loop(n, func(j ptx.U32) {
			at := j.MAD(inner, first).Wide()
			out.set(at, in.get(at).Div(norm))
		})
	})
}

// LRN divides each number of outer × n × inner by (bias + alpha·s)^beta. s is the sum of squares of the number,
// the below numbers before it and the above numbers after it along the middle axis, as far as they exist.
func LRN(y, x Tensor, outer, n, inner, below, above int, alpha, beta, bias float64) (Call, bool) {
	below, above = min(below, n), min(above, n)
	if !fits(outer, n, inner) {
		return Call{}, false
	}
	return each(fmt.Sprintf("lrn_%v", x.Type), outer*n*inner, func(d *plain, i ptx.U32) {
		out, in, n, inner := d.tensor(y), d.tensor(x), d.size(n), d.size(inner)
		under, over := d.size(below), d.size(above)
		line := i.Div(inner)
		k := line.Rem(n)
		from := k.Sub(k.Min(under))
		to := k.Add(over).Min(n.Sub(ptx.U(1)))
		first := i.Sub(k.Mul(inner))
		sum := d.VarF64(ptx.D(0))
		d.loop(to.Sub(from).Add(ptx.U(1)), func(j ptx.U32) {
			v := in.get(from.Add(j).MAD(inner, first).Wide())
			sum.Set(v.FMA(v, sum))
		})
		base := sum.Mul(d.float(alpha)).Add(d.float(bias))
		out.set(i.Wide(), in.get(i.Wide()).Div(powF64(d.Kernel, d.VarF64(base), d.VarF64(d.float(beta)))))
	})
}

// TopK writes the k greatest or smallest elements of each line of outer × n × inner along the middle axis, in
// order, and their indices. An element's position is the number of elements that come before it. Equal elements keep
// the order of their indices, and NaN is greater than all numbers. Values and indices may have no buffer.
func TopK(values Tensor, indices Buffer, x Tensor, outer, n, inner, k int, largest bool) (Call, bool) {
	kind, known := domainOf(x.Type)
	if !known || kind == truth || !fits(outer, n, inner) {
		return Call{}, false
	}
	name := fmt.Sprintf("topk_%v_%t_%t_%t", x.Type, largest, values.Buffer != 0, indices != 0)
	return each(name, outer*n*inner, func(d *plain, i ptx.U32) {
		in, n, inner, k := d.tensor(x), d.size(n), d.size(inner), d.size(k)
		line := i.Div(inner)
		row := line.Div(n)
		mine := line.Sub(row.Mul(n))
		first := row.Mul(n).MAD(inner, i.Sub(line.Mul(inner)))
		own := in.read(i.Wide())
		less := func(a, b Elem) ptx.Pred {
			switch {
			case x.Type == tensor.Uint64:
				return a.integer.Lt(b.integer)
			case kind == integer:
				return a.integer.SignedLt(b.integer)
			}
			v, w := a.to(x.Type, tensor.Float64).wide, b.to(x.Type, tensor.Float64).wide
			return v.Lt(w).Or(w.IsNaN().And(v.IsNaN().Not()))
		}
		place := d.VarU32(ptx.U(0))
		d.loop(n, func(j ptx.U32) {
			other := in.read(j.MAD(inner, first).Wide())
			before, behind := less(own, other), less(other, own)
			if !largest {
				before, behind = behind, before
			}
			before = before.Or(behind.Not().And(j.Lt(mine)))
			place.Set(place.Add(before.SelectU32(ptx.U(1), ptx.U(0))))
		})
		d.If(place.Lt(k), func() {
			at := row.Mul(k).Add(place).MAD(inner, i.Sub(line.Mul(inner))).Wide()
			if values.Buffer != 0 {
				d.tensor(values).write(at, own)
			}
			if indices != 0 {
				d.vector(indices, tensor.Int64).write(at, Elem{domain: integer, integer: mine.Wide()})
			}
		})
	})
}

// Determinants eliminates in the square matrices of m rows, with row pivoting. scratch is for the matrices in
// float64.
func Determinants(y, x Tensor, scratch Buffer, count, m int) (Call, bool) {
	if !fits(count, m, m) {
		return Call{}, false
	}
	return each(fmt.Sprintf("determinants_%v", x.Type), count, func(d *plain, i ptx.U32) {
		out, in, a, m := d.tensor(y), d.tensor(x), d.vector(scratch, tensor.Float64), d.size(m)
		base := i.Mul(m).Mul(m)
		d.loop(m.Mul(m), func(j ptx.U32) { a.set(base.Add(j).Wide(), in.get(base.Add(j).Wide())) })
		at := func(r, c ptx.U32) ptx.U64 { return r.MAD(m, c).Add(base).Wide() }
		det := d.VarF64(ptx.D(1))
		d.loop(m, func(k ptx.U32) {
			best, size := d.VarU32(k), d.VarF64(ptx.D(math.Inf(-1)))
			d.For(k, m, ptx.U(1), func(r ptx.U32) {
				v := a.get(at(r, k)).Abs()
				more := v.Gt(size)
				best.Set(more.SelectU32(r, best))
				size.Set(more.SelectF64(v, size))
			})
			d.If(best.Ne(k), func() {
				det.Set(det.Neg())
				d.loop(m, func(j ptx.U32) {
					v, w := a.get(at(k, j)), a.get(at(best, j))
					a.set(at(k, j), w)
					a.set(at(best, j), v)
				})
			})
			p := a.get(at(k, k))
			det.Set(det.Mul(p))
			d.If(p.Ne(ptx.D(0)), func() {
				d.For(k.Add(ptx.U(1)), m, ptx.U(1), func(r ptx.U32) {
					f := a.get(at(r, k)).Div(p)
					d.For(k, m, ptx.U(1), func(j ptx.U32) {
						a.set(at(r, j), a.get(at(r, j)).Sub(f.Mul(a.get(at(k, j)))))
					})
				})
			})
		})
		out.set(i.Wide(), det)
	})
}
