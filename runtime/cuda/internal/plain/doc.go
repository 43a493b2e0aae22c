// Package plain registers the records of operators that are rare or cheap. In their kernels, one thread computes one
// element, or one line of elements, in float64, as the operator's evaluation does. Quantization is here, too.
//
// Its invariants: answers equal the evaluation's, rounded once. Content that the evaluation refuses makes the run
// fail.
//
// The package imports ir, ir/tensor, ops, ops/std, runtime/lowering, runtime/cuda/kernel and
// runtime/cuda/internal/record.
package plain

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// elem returns the declared element type of a value, or tensor.Invalid if it is absent or not a tensor.
func elem(v *ir.Value) tensor.DType {
	if v == nil {
		return tensor.Invalid
	}
	if t, ok := ir.AsTensor(v.Type); ok {
		return t.Elem
	}
	return tensor.Invalid
}

// float reports whether kernels compute with a type as floating-point numbers.
func float(t tensor.DType) bool {
	return t == tensor.Float32 || t == tensor.Float64 || t == tensor.Float16 || t == tensor.BFloat16
}

// floats accepts steps of the newest version whose inputs of the given numbers are floats or absent.
func floats(inputs ...int) func(s *lowering.Step) bool {
	return func(s *lowering.Step) bool {
		for _, i := range inputs {
			if t := elem(s.Node.In(i)); t != tensor.Invalid && !float(t) || t == tensor.Invalid && i == 0 {
				return false
			}
		}
		return ops.Newest(s.Node.Op) && s.Rows == nil
	}
}

// computed reports whether kernels compute with elements of a type.
func computed(t tensor.DType) bool { return kernel.Converts(t, t) }

func size(shape []int) int {
	n, _ := tensor.Size(shape)
	return n
}

// around returns the sizes before, along and after an axis.
func around(shape []int, axis int) (outer, n, inner int) {
	return size(shape[:axis]), shape[axis], size(shape[axis+1:])
}

// given reports whether output i of a step is present.
func given(s *lowering.Step, i int) bool { return i < len(s.Out) && s.Out[i] != nil }

// of returns input i of a step, or the zero Tensor.
func of(b *record.Builder, s *lowering.Step, i int) kernel.Tensor {
	if s.Absent(i) || b.Binding.Missing(s.In[i]) {
		return kernel.Tensor{}
	}
	return kernel.Tensor{Buffer: b.Buffer(s.In[i]), Type: b.Binding.DType(s.In[i])}
}

// result returns output i of a step, or the zero Tensor.
func result(b *record.Builder, s *lowering.Step, i int) kernel.Tensor {
	if !given(s, i) {
		return kernel.Tensor{}
	}
	return kernel.Tensor{Buffer: b.Buffer(s.Out[i]), Type: b.Binding.DType(s.Out[i])}
}

// launch adds a launch if ok.
func launch(b *record.Builder, c kernel.Call, ok bool) bool {
	if ok {
		b.Launch(c)
	}
	return ok
}

func launches(b *record.Builder, calls []kernel.Call, ok bool) bool {
	for _, c := range calls {
		b.Launch(c)
	}
	return ok
}
