package elements

import (
	"math/bits"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

// Functions of integers, element by element. Results that do not fit wrap around. For floats these operators are
// elementwise.
func init() {
	record.Register(
		record.Record{Op: "Abs", Tensor: record.TensorKind{Make: integerKernel(absolute)}},
		record.Record{Op: "Neg", Tensor: record.TensorKind{Make: integerKernel(negative)}},
		record.Record{Op: "Sign", Tensor: record.TensorKind{Make: integerKernel(sign)}},
		record.Record{Op: "Relu", Tensor: record.TensorKind{Make: integerKernel(rectified)}},
		record.Record{Op: "BitwiseNot", Tensor: record.TensorKind{Make: integerKernel(inverted)}},
		record.Record{Op: "Clip", Tensor: record.TensorKind{Make: clipKernel}, Whole: true},
	)
}

type integerFunction int

const (
	absolute integerFunction = iota
	negative
	sign
	rectified
	inverted
)

type Integers interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

func integerKernel(how integerFunction) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if s.Absent(0) || s.Float32Input(0) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel {
			dtype := d.DType(s.In[0])
			if !d.Typed(s, 0, dtype) || !d.Gives(s, 0, dtype) {
				return nil
			}
			switch dtype {
			case tensor.Int8:
				return newInteger[int8](d, s, how)
			case tensor.Int32:
				return newInteger[int32](d, s, how)
			case tensor.Int64:
				return newInteger[int64](d, s, how)
			case tensor.Uint8:
				return newInteger[uint8](d, s, how)
			case tensor.Int16:
				return newInteger[int16](d, s, how)
			case tensor.Uint16:
				return newInteger[uint16](d, s, how)
			case tensor.Uint32:
				return newInteger[uint32](d, s, how)
			}
			return nil
		}
	}
}

// integerPass computes a function of each element, or clips it to the range from lo to hi.
type integerPass[T Integers] struct {
	how    integerFunction
	clips  bool
	lo, hi T
	x, y   []T
}

func newInteger[T Integers](d *lowering.Binding, s *lowering.Step, how integerFunction) *record.TensorKernel {
	p := &integerPass[T]{how: how}
	x, y := lowering.Input[T](d, s, 0), lowering.Output[T](d, s, 0)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y = x.In(f), y.In(f)
		return e.Parallel(p, (len(p.y)+tensors.IntegerPer-1)/tensors.IntegerPer)
	}}
}

func (p *integerPass[T]) Do(w *record.Workspace, k int) {
	end := min(len(p.y), (k+1)*tensors.IntegerPer)
	w.Steps.Step(end - k*tensors.IntegerPer)
	y := p.y[k*tensors.IntegerPer : end]
	x := p.x[k*tensors.IntegerPer : end][:len(y)]
	// In 64 bits, for which there are conditional moves.
	if p.clips {
		lo, hi := int64(p.lo), int64(p.hi)
		for i, v := range x {
			y[i] = T(min(max(int64(v), lo), hi))
		}
		return
	}
	switch p.how {
	case absolute:
		for i, v := range x {
			s := int64(v) >> 63
			y[i] = T((int64(v) ^ s) - s)
		}
	case negative:
		for i, v := range x {
			y[i] = -v
		}
	case sign:
		for i, v := range x {
			y[i] = T(int64(v)>>63 | int64(uint64(-int64(v))>>63))
		}
	case rectified:
		for i, v := range x {
			y[i] = T(max(int64(v), 0))
		}
	case inverted:
		for i, v := range x {
			y[i] = ^v
		}
	}
}

// clipKernel reads the bounds, which may be absent, during the run.
func clipKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Float32Input(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		dtype := d.DType(s.In[0])
		if !d.Typed(s, 0, dtype) || !d.Gives(s, 0, dtype) {
			return nil
		}
		for i := 1; i < len(s.In); i++ {
			if n, _ := tensor.Size(d.ShapeOf(s, i)); !s.Absent(i) && (!d.Typed(s, i, dtype) || n != 1) {
				return nil
			}
		}
		switch dtype {
		case tensor.Int8:
			return newClip[int8](d, s, -1<<7, 1<<7-1)
		case tensor.Int32:
			return newClip[int32](d, s, -1<<31, 1<<31-1)
		case tensor.Int64:
			return newClip[int64](d, s, -1<<63, 1<<63-1)
		case tensor.Uint8:
			return newClip[uint8](d, s, 0, 1<<8-1)
		case tensor.Int16:
			return newClip[int16](d, s, -1<<15, 1<<15-1)
		case tensor.Uint16:
			return newClip[uint16](d, s, 0, 1<<16-1)
		case tensor.Uint32:
			return newClip[uint32](d, s, 0, 1<<32-1)
		}
		return nil
	}
}

func newClip[T Integers](d *lowering.Binding, s *lowering.Step, least, most T) *record.TensorKernel {
	p := &integerPass[T]{clips: true}
	bounds := [2]lowering.Slot[T]{}
	there := [2]bool{}
	for i := range bounds {
		if there[i] = !s.Absent(i+1) && !d.Missing(s.In[i+1]); there[i] {
			bounds[i] = lowering.Input[T](d, s, i+1)
		}
	}
	x, y := lowering.Input[T](d, s, 0), lowering.Output[T](d, s, 0)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y, p.lo, p.hi = x.In(f), y.In(f), least, most
		if there[0] {
			p.lo = bounds[0].In(f)[0]
		}
		if there[1] {
			p.hi = bounds[1].In(f)[0]
		}
		return e.Parallel(p, (len(p.y)+tensors.IntegerPer-1)/tensors.IntegerPer)
	}}
}

// divisionKernel computes the quotient or the remainder of integers. A zero divisor is left to the evaluation, which
// refuses it.
func divisionKernel(d *lowering.Binding, s *lowering.Step, how Arithmetic) *record.TensorKernel {
	switch d.DType(s.In[0]) {
	case tensor.Int8:
		return newDivision[int8](d, s, how)
	case tensor.Int32:
		return newDivision[int32](d, s, how)
	case tensor.Int64:
		return newDivision[int64](d, s, how)
	case tensor.Uint8:
		return newDivision[uint8](d, s, how)
	case tensor.Int16:
		return newDivision[int16](d, s, how)
	case tensor.Uint16:
		return newDivision[uint16](d, s, how)
	case tensor.Uint32:
		return newDivision[uint32](d, s, how)
	case tensor.Uint64:
		return newDivision[uint64](d, s, how)
	}
	return nil
}

func newDivision[T Integers](d *lowering.Binding, s *lowering.Step, how Arithmetic) *record.TensorKernel {
	k := elementKernel(d, s, inRuns(func(y, a, b []T) { divideInts(how, y, a, b) }))
	if k == nil {
		return nil
	}
	run, divisors := k.Run, lowering.Input[T](d, s, 1)
	k.Run = func(e record.Execution, c record.Call) error {
		for _, v := range ops.All(e.Steps(), divisors.In(e.Frame())) {
			if v == 0 {
				return e.Fallback(s)
			}
		}
		return run(e, c)
	}
	return k
}

func divideInts[T Integers](how Arithmetic, y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	switch how {
	case divides:
		for i, x := range a {
			y[i] = quotient(x, b[i])
		}
	case remains:
		for i, x := range a {
			y[i] = x - quotient(x, b[i])*b[i]
		}
	case remainsAs:
		for i, x := range a {
			r := x - quotient(x, b[i])*b[i]
			if r != 0 && (r < 0) != (b[i] < 0) {
				r += b[i]
			}
			y[i] = r
		}
	}
}

// quotient returns a/b. It uses 32 bits if these suffice, which is much faster.
func quotient[T Integers](a, b T) T {
	if bits.Len64(uint64(a)|uint64(b)) <= 32 {
		return T(uint32(a) / uint32(b))
	}
	return a / b
}
