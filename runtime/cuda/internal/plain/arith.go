package plain

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "Div", Build: divide, Takes: divides},
		record.Record{Op: "Mod", Build: divide, Takes: divides},
		record.Record{Op: "Pow", Build: power, Takes: func(s *lowering.Step) bool {
			a, b := record.Declared(s.Node.In(0)), record.Declared(s.Node.In(1))
			return ops.Newest(s.Node.Op) && s.Rows == nil && computed(a) && computed(b) && (a != b || a.IsInt()) &&
				(!narrow(a) || !narrow(b))
		}},
		record.Record{Op: "EyeLike", Build: eyeLike, Takes: func(s *lowering.Step) bool {
			return ops.Newest(s.Node.Op) && computed(record.Declared(s.Node.Out(0)))
		}},
		record.Record{Op: "ReverseSequence", Build: reverseSequence},
		record.Record{Op: "AffineGrid", Build: affineGrid, Takes: floats(0)})
}

// narrow reports whether elementwise kernels compute a type in float32.
func narrow(t tensor.DType) bool {
	return t == tensor.Float32 || t == tensor.Float16 || t == tensor.BFloat16
}

// divides accepts divisions of integers whose divisors are known only during the run. Others are elementwise.
func divides(s *lowering.Step) bool {
	t, divisor := record.Declared(s.Node.In(0)), s.In[1]
	constant := divisor != nil && divisor.Const != nil && divisor.Const.Len() == 1 && divisor.Const.Bytes() != nil
	return ops.Newest(s.Node.Op) && s.Rows == nil && computed(t) && t.IsInt() && !constant
}

func operand(b *record.Builder, v *lowering.Value, shape []int) kernel.Operand {
	d := b.Binding
	return kernel.Operand{Buffer: b.Buffer(v), Type: d.DType(v), Strides: ops.BroadcastStrides(d.Shape(v), shape)}
}

func divide(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	shape, n := d.Shape(s.Out[0]), record.Size(d.ShapeOf(s, 1))
	if record.Size(shape) == 0 {
		return true
	}
	c, ok := kernel.HasZero(b.Buffer(s.In[1]), d.DType(s.In[1]), n, b.Fault("integer division by zero"))
	if !launch(b, c, ok) {
		return false
	}
	remainder := s.Node.Op.Name == "Mod"
	calls, ok := kernel.Divide(shape, remainder, remainder && ops.Int(s.Node, "fmod") == 0, operand(b, s.Out[0], shape),
		operand(b, s.In[0], shape), operand(b, s.In[1], shape))
	return launches(b, calls, ok)
}

func power(b *record.Builder, s *lowering.Step) bool {
	shape := b.Binding.Shape(s.Out[0])
	if record.Size(shape) == 0 {
		return true
	}
	calls, ok := kernel.Power(shape, operand(b, s.Out[0], shape), operand(b, s.In[0], shape), operand(b, s.In[1], shape))
	return launches(b, calls, ok)
}

func eyeLike(b *record.Builder, s *lowering.Step) bool {
	shape := b.Binding.Shape(s.Out[0])
	if len(shape) != 2 {
		return false
	}
	k := s.Node.Attrs.Int("k", 0)
	if k > kernel.MaxRows || k < -kernel.MaxRows {
		return false
	}
	c, ok := kernel.Diagonal(result(b, s, 0), shape[0], shape[1], int(k))
	return launch(b, c, ok)
}

func reverseSequence(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	shape, across, along := d.ShapeOf(s, 0), ops.Int(s.Node, "batch_axis"), ops.Int(s.Node, "time_axis")
	if across+along != 1 || across*along != 0 || len(shape) < 2 || record.Size(d.ShapeOf(s, 1)) != shape[across] {
		return false
	}
	c, ok := kernel.ReverseSequences(b.Buffer(s.Out[0]), b.Buffer(s.In[0]), b.Buffer(s.In[1]),
		b.Fault("expected lengths of sequences within those of the input"), d.DType(s.In[0]), shape[along], shape[across],
		record.Size(shape[2:]), across == 0)
	return launch(b, c, ok)
}

func affineGrid(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	dims, ok := d.Ints(s, 1)
	k := len(dims) - 2
	if !ok || k != 2 && k != 3 || !slices.Equal(d.ShapeOf(s, 0), []int{int(dims[0]), k, k + 1}) {
		return false
	}
	var sizes []int
	for _, n := range dims[2:] {
		sizes = append(sizes, int(n))
	}
	b.Work(ir.Work{Flops: int64(2*k) * int64(record.Size(d.Shape(s.Out[0])))})
	c, ok := kernel.AffineGrid(result(b, s, 0), of(b, s, 0), int(dims[0]), sizes, ops.Int(s.Node, "align_corners") != 0)
	return launch(b, c, ok)
}
