package plain

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "DeformConv", Build: deformConv, Takes: floats(0, 1, 2, 3, 4)},
		record.Record{Op: "STFT", Build: stft, Takes: floats(0, 2)},
		record.Record{Op: "TensorScatter", Build: tensorScatter})
}

func deformConv(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	x, w, y := d.ShapeOf(s, 0), d.ShapeOf(s, 1), d.Shape(s.Out[0])
	k := len(x) - 2
	group, offsets := int(ops.Int(s.Node, "group")), int(ops.Int(s.Node, "offset_group"))
	if k < 1 || len(w) != len(x) || len(y) != len(x) || group < 1 || offsets < 1 || w[0]%group != 0 || x[1] != w[1]*group ||
		x[1]%offsets != 0 {
		return false
	}
	win, err := ops.Windows(s.Node, k)
	if err != nil {
		return false
	}
	if record.Size(y) == 0 {
		return true
	}
	c := kernel.DeformConv{Samples: x[0], Channels: x[1], Filters: w[0], Groups: group, OffsetGroups: offsets, X: of(b, s, 0),
		W: of(b, s, 1), Offset: of(b, s, 2), Bias: of(b, s, 3), Mask: of(b, s, 4)}
	for i, v := range win {
		v = v.Bind(int64(x[i+2]), int64(w[i+2]))
		c.Over = append(c.Over, kernel.PoolAxis{In: x[i+2], Out: y[i+2], Taps: w[i+2], Stride: int(v.Stride), Dilation: int(v.Dilation),
			Begin: int(v.Begin)})
	}
	want := append([]int{x[0], offsets * record.Size(w[2:]) * k}, y[2:]...)
	if !slices.Equal(d.ShapeOf(s, 2), want) || c.Bias.Type != 0 && record.Size(d.ShapeOf(s, 3)) != w[0] {
		return false
	}
	if want[1] /= k; c.Mask.Type != 0 && !slices.Equal(d.ShapeOf(s, 4), want) {
		return false
	}
	b.Work(ir.Work{Flops: 2 * int64(record.Size(y)) * int64(record.Size(w[1:]))})
	call, ok := c.Call(result(b, s, 0))
	return launch(b, call, ok)
}

func stft(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	x, y := d.ShapeOf(s, 0), d.Shape(s.Out[0])
	step, ok := d.Ints(s, 1)
	if !ok || len(step) != 1 || step[0] < 1 || step[0] > kernel.MaxRows || len(x) != 3 || x[2] != 1 && x[2] != 2 || len(y) != 4 {
		return false
	}
	length := x[1]
	window := of(b, s, 2)
	if window.Type != 0 {
		length = record.Size(d.ShapeOf(s, 2))
	}
	if !s.Absent(3) {
		n, ok := d.Ints(s, 3)
		if !ok || len(n) != 1 || window.Type != 0 && n[0] != int64(length) || n[0] < 1 || n[0] > kernel.MaxRows {
			return false
		}
		length = int(n[0])
	}
	if record.Size(y) == 0 {
		return length > 0
	}
	if length == 0 || y[2] > length || (y[1]-1)*int(step[0])+length > x[1] {
		return false
	}
	b.Work(ir.Work{Flops: 4 * int64(record.Size(y)) * int64(length)})
	f := kernel.FrameSpectra{Batch: x[0], Steps: x[1], Parts: x[2], Frames: y[1], Length: length, Step: int(step[0]), Bins: y[2],
		X: of(b, s, 0), Window: window}
	c, ok := f.Call(result(b, s, 0), b.Constant)
	return launch(b, c, ok)
}

func tensorScatter(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	x, update := d.ShapeOf(s, 0), d.ShapeOf(s, 1)
	axis, err := ops.Axis(ops.Int(s.Node, "axis"), len(x))
	if err != nil || axis == 0 || len(update) != len(x) || update[axis] > x[axis] || d.DType(s.In[0]) != d.DType(s.In[1]) {
		return false
	}
	want := slices.Clone(x)
	if want[axis] = update[axis]; !slices.Equal(update, want) {
		return false
	}
	at := of(b, s, 2)
	if at.Type != 0 && record.Size(d.ShapeOf(s, 2)) != x[0] {
		return false
	}
	c, ok := kernel.WriteSteps(b.Buffer(s.Out[0]), b.Buffer(s.In[0]), b.Buffer(s.In[1]), at.Buffer,
		b.Fault("expected steps that fit into the cache"), d.DType(s.In[0]), x[0], record.Size(x[1:axis]), x[axis], update[axis],
		record.Size(x[axis+1:]), ops.Str(s.Node, "mode") == "circular")
	return launch(b, c, ok)
}
