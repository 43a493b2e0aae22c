package kernel

import (
	"fmt"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// SumType is a type of numbers in memory.
type SumType uint8

// The types. Signed and unsigned integers have the same products and sums.
const (
	SumF32 SumType = iota
	SumF64
	SumF16
	SumBF16
	SumI32
	SumI64
	sumF32Short // float32, summed in float32
	SumI8       // only for the result of a product with a Requantization
)

func (n SumType) String() string {
	return [...]string{"f32", "f64", "f16", "bf16", "i32", "i64", "f32_short", "i8"}[n]
}

// Size returns the size of a number in bytes.
func (n SumType) Size() int { return [...]int{4, 8, 2, 2, 4, 8, 4, 1}[n] }

// short returns the type for a sum of count numbers.
func (n SumType) short(count int) SumType {
	if n == SumF32 && count <= 32 {
		return sumF32Short
	}
	return n
}

// Contraction is a sum of products in any order of axes: for each index of the result, the sum over all indices of
// Sums of A·B. It is for sums that are not matrix products, and for types other than float32. One thread computes
// one result, in float64 or in integers, in the order of indices. Short sums of float32 are computed in float32.
type Contraction struct {
	Type    SumType
	A, B, C Buffer // without B, the sum of A
	Results []Axis
	Sums    []Axis
}

// Axis is a dimension of a Contraction: its size, and its strides in the tensors, in numbers.
type Axis struct{ Size, A, B, C int }

// merged joins neighbouring axes that form one axis of even stride in all tensors, and drops those of size 1.
func merged(axes []Axis) []Axis {
	var out []Axis
	for _, x := range axes {
		if x.Size == 1 {
			continue
		}
		if n := len(out); n > 0 {
			if l := &out[n-1]; l.A == x.A*x.Size && l.B == x.B*x.Size && l.C == x.C*x.Size {
				*l = Axis{l.Size * x.Size, x.A, x.B, x.C}
				continue
			}
		}
		out = append(out, x)
	}
	return out
}

// Calls returns the launches.
func (c Contraction) Calls() []Call {
	results, sums := merged(c.Results), merged(c.Sums)
	total := 1
	for _, x := range c.Results {
		total *= x.Size
	}
	if total == 0 {
		return nil
	}
	args := []Arg{U64(total), Ptr(c.A), Ptr(c.B), Ptr(c.C)}
	size, count := c.Type.Size(), 1
	for _, x := range sums {
		count *= x.Size
	}
	for i, x := range append(append([]Axis{}, results...), sums...) {
		args = append(args, U32(x.Size), U64(size*x.A), U64(size*x.B))
		if i < len(results) {
			args = append(args, U64(size*x.C))
		}
	}
	return []Call{NewCall(contractionCode(c.Type.short(count), c.B == 0, len(results), len(sums)),
		driver.Dim{X: uint32(ceil(total, 128)), Y: 1, Z: 1}, args...)}
}

// adder is a sum of products in one type.
type adder struct {
	load func(at ptx.Addr) any
	add  func(a, b any) // b is nil for 1
	put  func(at ptx.Addr)
}

func (n SumType) adder(k *ptx.Kernel) adder {
	switch n {
	case SumI32:
		s := k.VarU32(ptx.U(0))
		return adder{func(at ptx.Addr) any { return at.LoadU32(0) }, func(a, b any) {
			if b == nil {
				s.Set(s.Add(a.(ptx.U32)))
			} else {
				s.Set(a.(ptx.U32).MAD(b.(ptx.U32), s))
			}
		}, func(at ptx.Addr) { at.StoreU32(0, s) }}
	case SumI64:
		s := k.VarU64(ptx.L(0))
		return adder{func(at ptx.Addr) any { return at.LoadU64(0) }, func(a, b any) {
			x := a.(ptx.U64)
			if b != nil {
				x = x.Mul(b.(ptx.U64))
			}
			s.Set(s.Add(x))
		}, func(at ptx.Addr) { at.StoreU64(0, s) }}
	}
	if n == sumF32Short {
		s := k.VarF32(ptx.F(0))
		return adder{func(at ptx.Addr) any { return at.LoadF32(0) }, func(a, b any) {
			if b == nil {
				s.Set(s.Add(a.(ptx.F32)))
			} else {
				s.Set(a.(ptx.F32).FMA(b.(ptx.F32), s))
			}
		}, func(at ptx.Addr) { at.StoreF32(0, s) }}
	}
	s := k.VarF64(ptx.D(0))
	add := func(a, b any) {
		if b == nil {
			s.Set(s.Add(a.(ptx.F64)))
		} else {
			s.Set(a.(ptx.F64).FMA(b.(ptx.F64), s))
		}
	}
	switch n {
	case SumF64:
		return adder{func(at ptx.Addr) any { return at.LoadF64(0) }, add, func(at ptx.Addr) { at.StoreF64(0, s) }}
	case SumF16:
		return adder{func(at ptx.Addr) any { return at.LoadB16(0).F16ToF32().F64() }, add,
			func(at ptx.Addr) { at.StoreB16(0, s.F32().F16()) }}
	case SumBF16:
		return adder{func(at ptx.Addr) any { return at.LoadB16(0).BF16ToF32().F64() }, add,
			func(at ptx.Addr) { at.StoreB16(0, s.F32().BF16()) }}
	}
	return adder{func(at ptx.Addr) any { return at.LoadF32(0).F64() }, add, func(at ptx.Addr) { at.StoreF32(0, s.F32()) }}
}

func contractionCode(t SumType, alone bool, results, sums int) *Code {
	return New(fmt.Sprintf("contract_%v_%d_%d", t, results, sums), 128, func(k *ptx.Kernel) {
		total := k.U64Param("total")
		a, b, c := k.PtrParam("a"), k.PtrParam("b"), k.PtrParam("c")
		type axis struct {
			size    ptx.U32
			a, b, c ptx.U64
		}
		axes := make([]axis, results+sums)
		for i := range axes {
			axes[i] = axis{size: k.U32Param(fmt.Sprintf("size%d", i)), a: k.U64Param(fmt.Sprintf("a%d", i)),
				b: k.U64Param(fmt.Sprintf("b%d", i))}
			if i < results {
				axes[i].c = k.U64Param(fmt.Sprintf("c%d", i))
			}
		}
		i := k.BlockX().MulWide(ptx.U(128)).Add(k.ThreadX().Wide())
		k.If(i.Ge(total), k.Return)
		for d := results - 1; d >= 0; d-- {
			at := i
			if d > 0 {
				next := i.Div(axes[d].size.Wide())
				at = i.Sub(next.Mul(axes[d].size.Wide()))
				i = next
			}
			a, b, c = a.Add(at.Mul(axes[d].a)), b.Add(at.Mul(axes[d].b)), c.Add(at.Mul(axes[d].c))
		}
		s := t.adder(k)
		var nest func(d int, a, b ptx.Addr)
		nest = func(d int, a, b ptx.Addr) {
			if d == len(axes) {
				if x := s.load(a); alone {
					s.add(x, nil)
				} else {
					s.add(x, s.load(b))
				}
				return
			}
			va, vb := k.VarAddr(a), k.VarAddr(b)
			k.For(ptx.U(0), axes[d].size, ptx.U(1), func(ptx.U32) {
				nest(d+1, va, vb)
				va.Set(va.Add(axes[d].a))
				vb.Set(vb.Add(axes[d].b))
			})
		}
		nest(results, a, b)
		s.put(c)
	})
}
