package rows

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Resize", Takes: takesResize, Build: resize})
}

// takesResize accepts the forms that only select elements of the input.
func takesResize(s *lowering.Step) bool {
	a := s.Node.Attrs
	return float32s(1)(s) && a.Str("mode", "nearest") == "nearest" &&
		a.Str("coordinate_transformation_mode", "") != "tf_crop_and_resize" && a.Str("keep_aspect_ratio_policy", "stretch") == "stretch"
}

func resize(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, out := d.ShapeOf(s, 0), d.Shape(s.Out[0])
	if len(in) == 0 || len(out) != len(in) || record.Size(in) == 0 && record.Size(out) > 0 {
		return false
	}
	if record.Size(out) == 0 {
		return true
	}
	args := make([]tensor.Datum, len(s.In))
	for i := 1; i < len(s.In); i++ {
		if s.Absent(i) {
			continue
		}
		t := d.Constant(s.In[i])
		if t == nil {
			return false
		}
		args[i] = t
	}
	axes := make([][]int, len(in))
	for a := range in { // the operator gives the source of the elements of each axis
		if in[a] > 1<<24 {
			return false
		}
		shape, inner := make([]int, len(in)), 1
		for i := range shape { // few along the other axes, of which at least one remains
			shape[i] = (in[i] + out[i] - 1) / out[i]
		}
		shape[a] = in[a]
		for _, k := range shape[a+1:] {
			inner *= k
		}
		x := tensor.NewParts(d.Steps().Pause, tensor.Float32, shape...)
		for i := range ops.Each(d.Steps(), x.Len()) {
			tensor.Data[float32](x)[i] = float32(i / inner % in[a])
		}
		args[0] = x
		y, err := d.Evaluate(d.Concrete(s), args)
		if err != nil {
			return false
		}
		result := y[0].(*tensor.Tensor)
		_, n, step := record.Around(result.Shape(), a)
		v := tensor.Data[float32](result)
		if n != out[a] || step == 0 || len(v) < n*step {
			return false
		}
		for i := range n {
			axes[a] = append(axes[a], int(v[i*step]))
		}
	}
	call, ok := kernel.Places(b.Buffer(s.Out[0]), b.Buffer(s.In[0]), in, axes, b.Constant)
	b.Launch(call)
	return ok
}
