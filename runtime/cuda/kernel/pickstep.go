package kernel

import (
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// PickStep is Pick for a sequence that arrives in chunks, as package ops/essm defines it. Sum has batch × features
// float64 numbers. Count has two int64 per sample. Both exist before and after the chunk.
type PickStep struct {
	Mode                    PickMode
	Y, X                    Buffer
	Sum, SumOut             Buffer
	Count, CountOut         Buffer
	Lengths, End            Buffer // 0 if absent
	Fault                   Buffer // a number that is set if a length does not fit; 0 if absent
	LengthsOne, EndOne      bool   // one number for all samples
	Batch, Length, Features int
	// A sequence of n steps has (n + Offset)/Rate steps of x, of which the first Delay are ignored.
	Rate, Offset, Delay int
}

// Call returns the launch. If a length contradicts the counted steps, or a count is negative, the sample's row is
// NaN. Call returns false for unsupported shapes.
func (p PickStep) Call() (Call, bool) {
	tiles := (p.Features + 127) / 128
	if p.Batch*tiles > MaxRows || p.Length > MaxRows || p.Features > MaxRows {
		return Call{}, false
	}
	args := []Arg{Ptr(p.Y), Ptr(p.X), Ptr(p.Sum), Ptr(p.SumOut), Ptr(p.Count), Ptr(p.CountOut), U32(p.Length), U32(p.Features),
		U32(tiles), U64(p.Rate), U64(p.Offset), U64(p.Delay), Ptr(p.Fault)}
	for _, x := range []struct {
		b   Buffer
		one bool
	}{{p.Lengths, p.LengthsOne}, {p.End, p.EndOne}} {
		if x.b != 0 {
			each := 1
			if x.one {
				each = 0
			}
			args = append(args, Ptr(x.b), U32(each))
		}
	}
	return NewCall(p.code(), driver.Dim{X: uint32(p.Batch * tiles), Y: 1, Z: 1}, args...), true
}

func (p PickStep) code() *Code {
	name := "pickstep_" + pickNames[p.Mode]
	if p.Lengths != 0 {
		name += "_lengths"
	}
	if p.End != 0 {
		name += "_end"
	}
	if p.Fault != 0 {
		name += "_held"
	}
	return New(name, 128, func(k *ptx.Kernel) {
		y, x, sum, sumOut := k.PtrParam("y"), k.PtrParam("x"), k.PtrParam("sum"), k.PtrParam("sum_out")
		count, countOut := k.PtrParam("count"), k.PtrParam("count_out")
		length32, features, tiles := k.U32Param("length"), k.U32Param("features"), k.U32Param("tiles")
		rate, offset, delay := k.U64Param("rate"), k.U64Param("offset"), k.U64Param("delay")
		fault := k.PtrParam("fault")

		sample := k.BlockX().Div(tiles)
		feature := k.BlockX().Sub(sample.Mul(tiles)).MAD(ptx.U(128), k.ThreadX())
		length := length32.Wide()
		state := count.Index(sample, 16)
		seen, known := state.LoadU64(0), k.VarU64(state.LoadU64(8)) // known: the length of the sequence; 0 until it is known
		less := func(a, b ptx.U64) ptx.U64 { return a.Gt(b).SelectU64(a.Sub(b), ptx.L(0)) }
		counted := k.VarU64(less(seen, delay))
		counted.Set(known.Gt(ptx.L(0)).SelectU64(counted.Min(known), counted))
		good := seen.Or(known).Lt(ptx.L(1 << 63))
		given := func(name string, inSteps bool) {
			at := k.PtrParam(name)
			n := at.Index(sample.Mul(k.U32Param(name+"_each")), 8).LoadU64(0)
			good = good.And(n.Le(ptx.L(1 << 62))) // rejects negative numbers
			if !inSteps {
				m := n.Add(offset)
				n = m.Lt(ptx.L(1<<63)).SelectU64(m.Div(rate), ptx.L(0)) // offset may be negative
			}
			good = good.And(n.Ge(ptx.L(1))).And(n.Ge(counted))
			known.Set(known.Eq(ptx.L(0)).Or(n.Lt(known)).SelectU64(n, known))
		}
		if p.Lengths != 0 {
			given("lengths", true)
		}
		if p.End != 0 {
			given("end", false)
		}
		last := k.VarU64(less(seen.Add(length), delay))
		last.Set(known.Gt(ptx.L(0)).SelectU64(last.Min(known), last))
		from := less(delay, seen).Min(length)
		// At most the steps of the chunk, even for invalid numbers.
		to := from.Add(less(last, counted)).Min(length)

		k.If(feature.Eq(ptx.U(0)), func() {
			out := countOut.Index(sample, 16)
			out.StoreU64(0, seen.Add(length))
			out.StoreU64(8, known)
			if p.Fault != 0 {
				k.If(good.Not(), func() { fault.SetBits(0, ptx.U(1)) })
			}
		})
		k.If(feature.Lt(features), func() {
			at := sample.MulWide(features).Add(feature.Wide())
			acc := k.VarF64(sum.Index64(at, 8).LoadF64(0))
			row := func(i ptx.U64) ptx.F64 {
				return x.Index64(sample.MulWide(length32).Add(i).MAD(features.Wide(), feature.Wide()), 4).LoadF32(0).F64()
			}
			some := to.Gt(from)
			switch p.Mode {
			case PickLast:
				k.If(some, func() { acc.Set(row(to.Sub(ptx.L(1)))) })
			case PickFirst:
				k.If(some.And(counted.Eq(ptx.L(0))), func() { acc.Set(row(from)) })
			default:
				k.For(from.Low(), to.Low(), ptx.U(1), func(i ptx.U32) { acc.Set(acc.Add(row(i.Wide()))) })
			}
			sumOut.Index64(at, 8).StoreF64(0, acc)
			result := ptx.F64(acc)
			if p.Mode == PickPool {
				n := counted.Add(less(to, from))
				result = n.Gt(ptx.L(0)).SelectF64(acc.Div(n.SignedF64()), acc)
			}
			y.Index64(at, 4).StoreF32(0, good.SelectF32(result.F32(), ptx.F(float32(math.NaN()))))
		})
	})
}
