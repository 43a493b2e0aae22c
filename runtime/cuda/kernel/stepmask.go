package kernel

import (
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// StepMask sets the elements of a chunk outside the sequence to Value, as package ops/essm defines it. Elements have
// 4 bytes.
type StepMask struct {
	Y, X             Buffer
	Steps, End       Buffer // int64; End may be 0 for absent
	StepsOne, EndOne bool   // one number for all samples
	Fault            Buffer // a number that is set if one of them is negative
	Value            float32

	Count        int // number of elements
	Axis, Inner  int // size of the time axis, and stride of steps in elements
	Batch        int // number of samples
	SampleInner  int // stride of samples in elements
	Rate, Offset int // see PickStep
	Delay        int
}

// Call returns the launch. It returns false for unsupported shapes.
func (m StepMask) Call() (Call, bool) {
	if m.Count > MaxRows {
		return Call{}, false
	}
	each := func(one bool) Arg {
		if one {
			return U32(0)
		}
		return U32(1)
	}
	args := []Arg{Ptr(m.Y), Ptr(m.X), Ptr(m.Steps), each(m.StepsOne), Ptr(m.Fault), F32(m.Value), U32(m.Count), U32(m.Axis),
		U32(m.Inner), U32(m.Batch), U32(m.SampleInner), U64(m.Rate), U64(m.Offset), U64(m.Delay)}
	name := "stepmask"
	if m.End != 0 {
		args, name = append(args, Ptr(m.End), each(m.EndOne)), "stepmask_end"
	}
	c := New(name, 256, func(k *ptx.Kernel) {
		y, x := k.PtrParam("y"), k.PtrParam("x")
		steps, stepsEach, fault := k.PtrParam("steps"), k.U32Param("steps_each"), k.PtrParam("fault")
		value, count, axis, inner := k.F32Param("value"), k.U32Param("count"), k.U32Param("axis"), k.U32Param("inner")
		batch, sampleInner := k.U32Param("batch"), k.U32Param("sample_inner")
		rate, offset, delay := k.U64Param("rate"), k.U64Param("offset"), k.U64Param("delay")
		var end ptx.Addr
		var endEach ptx.U32
		if m.End != 0 {
			end, endEach = k.PtrParam("end"), k.U32Param("end_each")
		}
		i := k.BlockX().MAD(ptx.U(256), k.ThreadX())
		k.If(i.Lt(count), func() {
			step, sample := i.Div(inner).Rem(axis), i.Div(sampleInner).Rem(batch)
			before := steps.Index(sample.Mul(stepsEach), 8).LoadU64(0)
			good := before.Le(ptx.L(1 << 62))
			t := before.Div(rate).Add(step.Wide())
			keep := t.Ge(delay)
			if m.End != 0 {
				n := end.Index(sample.Mul(endEach), 8).LoadU64(0)
				good = good.And(n.Le(ptx.L(1 << 62)))
				all := n.Add(offset)
				all = all.Lt(ptx.L(1<<63)).SelectU64(all.Div(rate), ptx.L(0)) // offset may be negative
				keep = keep.And(t.Sub(delay).Lt(all))
			}
			k.If(good.Not(), func() { fault.SetBits(0, ptx.U(1)) })
			y.Index(i, 4).StoreF32(0, keep.SelectF32(x.Index(i, 4).LoadF32(0), value))
		})
	})
	return NewCall(c, driver.Dim{X: uint32((m.Count + 255) / 256), Y: 1, Z: 1}, args...), true
}
