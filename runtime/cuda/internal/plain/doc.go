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
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// floats accepts steps of the newest version whose inputs of the given numbers are floats or absent.
func floats(inputs ...int) func(s *lowering.Step) bool {
	return func(s *lowering.Step) bool {
		for _, i := range inputs {
			if t := record.Declared(s.Node.In(i)); t != tensor.Invalid && !record.Float(t) || t == tensor.Invalid && i == 0 {
				return false
			}
		}
		return ops.Newest(s.Node.Op) && s.Rows == nil
	}
}

// computed reports whether kernels compute with elements of a type.
func computed(t tensor.DType) bool { return kernel.Converts(t, t) }

// of returns input i of a step, or the zero Tensor.
func of(b *record.Builder, s *lowering.Step, i int) kernel.Tensor {
	if s.Absent(i) || b.Binding.Missing(s.In[i]) {
		return kernel.Tensor{}
	}
	return kernel.Tensor{Buffer: b.Buffer(s.In[i]), Type: b.Binding.DType(s.In[i])}
}

// result returns output i of a step, or the zero Tensor.
func result(b *record.Builder, s *lowering.Step, i int) kernel.Tensor {
	if !s.Gives(i) {
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
	b.Launch(calls...)
	return ok
}
