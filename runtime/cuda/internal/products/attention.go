package products

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Attention", Takes: takesAttention, Build: attention})
}

// takesAttention reports whether the kernel supports a step. Others run as the operator's body.
func takesAttention(s *lowering.Step) bool {
	for i := 1; i < len(s.Out); i++ {
		if s.Out[i] != nil {
			return false
		}
	}
	for i := 4; i < len(s.In); i++ {
		if !s.Absent(i) {
			return false
		}
	}
	n := s.Node
	if ops.Float(n, "softcap") != 0 || ops.Int(n, "left_window_size") != -1 || ops.Int(n, "right_window_size") != -1 {
		return false
	}
	for i := range 3 {
		t, ok := ir.AsTensor(s.In[i].Type)
		if !ok || t.NoRank || t.Elem != tensor.Float32 {
			return false
		}
		width, ok := t.Shape[len(t.Shape)-1].Known()
		if !ok || width == 0 {
			return false
		}
		if len(t.Shape) == 3 {
			width /= max(1, n.Attrs.Int([]string{"q_num_heads", "kv_num_heads", "kv_num_heads"}[i], 1))
		}
		if width > kernel.MostFeatures {
			return false
		}
	}
	if !s.Absent(3) {
		t, ok := ir.AsTensor(s.In[3].Type)
		return ok && !t.NoRank && (t.Elem == tensor.Float32 || t.Elem == tensor.Bool)
	}
	return true
}

// heads describes a tensor of heads. It has four axes, or three with the heads in the last one.
func heads(x kernel.Buffer, shape []int, count int) (h kernel.Heads, n, rows, features int) {
	if len(shape) == 4 {
		h = kernel.Heads{Buffer: x, Sample: record.Size(shape[1:]), Head: record.Size(shape[2:]), Row: shape[3]}
		return h, shape[1], shape[2], shape[3]
	}
	features = shape[2] / count
	return kernel.Heads{Buffer: x, Sample: record.Size(shape[1:]), Head: features, Row: shape[2]}, count, shape[1], features
}

// attention computes scaled dot-product attention.
func attention(b *record.Builder, s *lowering.Step) bool {
	d, n := b.Binding, s.Node
	var a kernel.Attention
	queryHeads, keyHeads := int(n.Attrs.Int("q_num_heads", 1)), int(n.Attrs.Int("kv_num_heads", 1))
	y := d.Shape(s.Out[0])
	a.Samples = y[0]
	a.Q, a.HeadCount, a.Queries, a.Features = heads(b.Buffer(s.In[0]), d.ShapeOf(s, 0), queryHeads)
	a.K, a.KeyHeads, a.Keys, _ = heads(b.Buffer(s.In[1]), d.ShapeOf(s, 1), keyHeads)
	a.V, _, _, a.Values = heads(b.Buffer(s.In[2]), d.ShapeOf(s, 2), keyHeads)
	a.Y, _, _, _ = heads(b.Buffer(s.Out[0]), y, a.HeadCount)
	if a.KeyHeads == 0 || a.HeadCount%a.KeyHeads != 0 || a.HeadCount > 65535 || a.Samples > 65535 {
		return false
	}
	a.Scale = float32(n.Attrs.Float("scale", 1/math.Sqrt(float64(a.Features))))
	a.Causal = n.Attrs.Bool("is_causal", false)
	if !s.Absent(3) {
		shape := d.ShapeOf(s, 3)
		if len(shape) < 1 || len(shape) > 4 {
			return false
		}
		a.MaskBool = d.Typed(s, 3, tensor.Bool)
		a.Mask = &kernel.Heads{Buffer: b.Buffer(s.In[3])}
		a.Keys = min(a.Keys, shape[len(shape)-1]) // the mask excludes the other keys
		full := []int{a.Samples, a.HeadCount, a.Queries}
		to := []*int{&a.Mask.Sample, &a.Mask.Head, &a.Mask.Row}
		for i, stride := range ops.Strides(shape[:max(0, len(shape)-1)]) {
			at := 4 - len(shape) + i
			switch {
			case shape[i] == full[at]:
				*to[at] = stride * shape[len(shape)-1]
			case shape[i] != 1:
				return false
			}
		}
	}
	b.Work(ir.Work{Flops: 2 * int64(a.Samples*a.HeadCount*a.Queries) * int64(a.Keys*(a.Features+a.Values))})
	b.Launch(a.Calls()...)
	return true
}
