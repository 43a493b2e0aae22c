package moves

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors/elements"
)

// joinRuns combines runs of elements, in order, with the elements at their positions. For float32, temp has as many
// numbers as the tensor.
type joinRuns func(c *ir.EvalCtx, dst, src []byte, at []int, run int, temp []float32)

// joinOf returns the function for a type and a reduction of ScatterElements and ScatterND, or nil if there is none.
func joinOf(dtype tensor.DType, reduction string) joinRuns {
	how, ok := map[string]elements.Arithmetic{"add": elements.Adds, "mul": elements.Multiplies, "min": elements.Least, "max": elements.Greatest}[reduction]
	if !ok {
		return nil
	}
	switch dtype {
	case tensor.Float32:
		switch how {
		case elements.Adds:
			return addFloats
		case elements.Least, elements.Greatest:
			return joinFloatRuns[float32](how)
		}
	case tensor.Float64:
		return joinFloatRuns[float64](how)
	case tensor.Int8:
		return joinIntRuns[int8](how)
	case tensor.Int32:
		return joinIntRuns[int32](how)
	case tensor.Int64:
		return joinIntRuns[int64](how)
	case tensor.Uint8:
		return joinIntRuns[uint8](how)
	}
	return nil
}

func joinIntRuns[T elements.Integers](how elements.Arithmetic) joinRuns {
	return func(c *ir.EvalCtx, dst, src []byte, at []int, run int, _ []float32) {
		y, x := tensors.Reinterpret[T](dst), tensors.Reinterpret[T](src)
		if run == 1 && how == elements.Adds {
			for i, p := range ops.All(c, at) {
				y[p] += x[i]
			}
			return
		}
		if run == 1 {
			for i, p := range ops.All(c, at) {
				elements.JoinInts(how, y[p:p+1], y[p:p+1], x[i:])
			}
			return
		}
		for i, p := range ops.All(c, at) {
			for lo, hi := range ops.Parts(c, run) {
				elements.JoinInts(how, y[p+lo:p+hi], y[p+lo:p+hi], x[i*run+lo:])
			}
		}
	}
}

// addFloats tracks the rounding error of each addition, so that the result is rounded about once, however many
// updates a position has.
func addFloats(c *ir.EvalCtx, dst, src []byte, at []int, run int, low []float32) {
	y, x := tensors.Reinterpret[float32](dst), tensors.Reinterpret[float32](src)
	for _, p := range ops.All(c, at) {
		if run == 1 {
			low[p] = 0
		} else {
			ops.Fill(c, low[p:p+run], 0)
		}
	}
	if run == 1 {
		for i, p := range ops.All(c, at) {
			a, b := y[p], x[i]
			s := a + b
			z := s - a
			low[p] += (a - (s - z)) + (b - z)
			y[p] = s
		}
		for _, p := range ops.All(c, at) {
			if l := low[p]; l == l { // not if the sum is infinite
				y[p] += l
			}
			low[p] = 0
		}
		return
	}
	for i, p := range ops.All(c, at) {
		for lo, hi := range ops.Parts(c, run) {
			y, low := y[p+lo:p+hi], low[p+lo:p+hi]
			for j, b := range x[i*run+lo:][:len(y)] {
				a := y[j]
				s := a + b
				z := s - a
				low[j] += (a - (s - z)) + (b - z)
				y[j] = s
			}
		}
	}
	for _, p := range ops.All(c, at) {
		for lo, hi := range ops.Parts(c, run) {
			y, low := y[p+lo:p+hi], low[p+lo:p+hi]
			for j, l := range low[:len(y)] {
				if l == l { // not if the sum is infinite
					y[j] += l
				}
				low[j] = 0
			}
		}
	}
}

func joinFloatRuns[T float32 | float64](how elements.Arithmetic) joinRuns {
	return func(c *ir.EvalCtx, dst, src []byte, at []int, run int, _ []float32) {
		y, x := tensors.Reinterpret[T](dst), tensors.Reinterpret[T](src)
		if run == 1 {
			for i, p := range ops.All(c, at) {
				elements.JoinFloats(how, y[p:p+1], y[p:p+1], x[i:])
			}
			return
		}
		for i, p := range ops.All(c, at) {
			for lo, hi := range ops.Parts(c, run) {
				elements.JoinFloats(how, y[p+lo:p+hi], y[p+lo:p+hi], x[i*run+lo:])
			}
		}
	}
}
