package plain

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "GridSample", Build: gridSample, Takes: floats(0, 1)},
		record.Record{Op: "RoiAlign", Build: roiAlign, Takes: floats(0, 1)})
	for _, op := range []string{"Resize", "Upsample"} { // all versions
		record.Register(record.Record{Op: op, Rank: record.Plain, Takes: resamples, Build: resize, Numbers: []int{1}}) // roi
	}
}

// resamples accepts floats, and copies of elements of all types with arithmetic.
func resamples(s *lowering.Step) bool {
	t := record.Declared(s.Node.In(0))
	return s.Rows == nil && (computed(t) && s.Node.Attrs.Str("mode", "nearest") == "nearest" || record.Float(t))
}

// resize resamples one axis after the other, with float64 values in between.
func resize(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in := make([]tensor.Datum, len(s.In))
	for i := 1; i < len(s.In); i++ {
		if s.Absent(i) {
			continue
		}
		t := d.Constant(s.In[i])
		if t == nil {
			return false
		}
		in[i] = t
	}
	shape := slices.Clone(d.ShapeOf(s, 0))
	x := of(b, s, 0)
	if s.Node.Attrs.Str("mode", "nearest") == "nearest" {
		axes, beyond, err := std.NearestPlan(s.Node, in, shape)
		if err != nil || record.Size(d.Shape(s.Out[0])) == 0 || !slices.EqualFunc(axes, d.Shape(s.Out[0]), func(l []int, n int) bool {
			return len(l) == n
		}) {
			return err == nil && record.Size(d.Shape(s.Out[0])) == 0
		}
		c, ok := kernel.PlacesOf(result(b, s, 0), x, shape, axes, beyond, b.Constant)
		return launch(b, c, ok)
	}
	list, beyond, err := std.ResizePlan(s.Node, in, shape)
	if err != nil {
		return false
	}
	if record.Size(d.Shape(s.Out[0])) == 0 {
		return true
	}
	if len(list) == 0 {
		b.Copy(b.Buffer(s.Out[0]), x.Buffer, b.Bytes(s.Out[0]))
		return true
	}
	for i, a := range list {
		outer, n, inner := record.Around(shape, a.Axis)
		shape[a.Axis] = len(a.First)
		y := result(b, s, 0)
		if i < len(list)-1 {
			y = kernel.Tensor{Buffer: b.Scratch(8 * record.Size(shape)), Type: tensor.Float64}
		}
		c, ok := kernel.ResizeAxis(y, x, outer, inner, kernel.Resampled{In: n, First: a.First, Weights: a.Weights, Beyond: beyond},
			func(key string, make func() []byte) kernel.Buffer {
				return b.Constant(fmt.Sprint(key, " ", a.Axis, " ", d.ShapeOf(s, 0), d.Shape(s.Out[0]), values(in)), make)
			})
		if !launch(b, c, ok) {
			return false
		}
		x = y
	}
	return slices.Equal(shape, d.Shape(s.Out[0]))
}

// values returns a key for the content of small tensors.
func values(in []tensor.Datum) string {
	text := ""
	for _, x := range in {
		if t, ok := x.(*tensor.Tensor); ok && t != nil {
			text += fmt.Sprintf(" %v %x", t.DType(), t.Bytes())
		}
	}
	return text
}

func gridSample(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	x, grid, a := d.ShapeOf(s, 0), d.ShapeOf(s, 1), s.Node.Attrs
	k := len(x) - 2
	if k < 1 || len(grid) != k+2 || grid[0] != x[0] || grid[k+1] != k || record.Size(x[2:]) == 0 {
		return false
	}
	taps := map[string]int{"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}[ops.Str(s.Node, "mode")]
	padding := a.Str("padding_mode", "zeros")
	c, ok := kernel.Grid{Taps: taps, Corners: a.Int("align_corners", 0) != 0, Border: padding == "border",
		Reflection: padding == "reflection"}.Call(result(b, s, 0), of(b, s, 0), of(b, s, 1), x[0], x[1], record.Size(grid[1:k+1]), x[2:])
	return launch(b, c, ok)
}

func roiAlign(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	x, rois, y := d.ShapeOf(s, 0), d.ShapeOf(s, 1), d.Shape(s.Out[0])
	if len(x) != 4 || len(rois) != 2 || rois[1] != 4 || record.Size(d.ShapeOf(s, 2)) != rois[0] || len(y) != 4 {
		return false
	}
	if x[2]*x[3] == 0 {
		b.Fill(b.Buffer(s.Out[0]), 0, b.Bytes(s.Out[0]))
		return true
	}
	ratio := s.Node.Attrs.Int("sampling_ratio", 0)
	if ratio > kernel.MaxRoiSamples {
		return false
	}
	r := kernel.RoiAlign{Samples: x[0], Channels: x[1], Height: x[2], Width: x[3], Regions: rois[0], Rows: y[2], Columns: y[3],
		Scale: ops.Float(s.Node, "spatial_scale"), Half: ops.Str(s.Node, "coordinate_transformation_mode") == "half_pixel",
		Greatest: ops.Str(s.Node, "mode") == "max", Ratio: int(max(ratio, 0)),
		Fault: b.Fault(fmt.Sprintf("expected regions of the %d samples, with at most %d samples in a bin", x[0],
			kernel.MaxRoiSamples))}
	c, ok := r.Call(result(b, s, 0), of(b, s, 0), of(b, s, 1), b.Buffer(s.In[2]))
	return launch(b, c, ok)
}
