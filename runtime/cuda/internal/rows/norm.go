package rows

import (
	"encoding/binary"
	"math"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "LayerNormalization", Takes: takesNorm, Build: layerNorm},
		record.Record{Op: "RMSNormalization", Takes: takesNorm, Build: rmsNorm},
		record.Record{Op: "essm.ScalarNorm", Takes: takesScalarNorm, Build: scalarNorm},
		record.Record{Op: "essm.InstanceNorm", Takes: float32s(1), Build: instanceNorm},
	)
}

// takesNorm accepts norms of float32. Weights may be constants or settled values of another type.
func takesNorm(s *lowering.Step) bool {
	for i := 1; i < len(s.In); i++ {
		if !s.Absent(i) && s.Fixed(i) == nil && !s.Float32Input(i) {
			return false
		}
	}
	// Statistics have the type of X, float32, whatever type the computation uses.
	return float32s(1)(s) && (s.Node.Attrs.Int("stash_type", 1) == 1 || !s.Gives(1) && !s.Gives(2))
}

// last normalizes the axes from attribute axis on.
func last(b *record.Builder, s *lowering.Step, centered bool) bool {
	d := b.Binding
	shape := d.ShapeOf(s, 0)
	axis, err := ops.Axis(s.Node.Attrs.Int("axis", -1), len(shape))
	if err != nil || !s.Gives(0) || !d.IsFloat32(s.Out[0]) {
		return false
	}
	width := record.Size(shape[axis:])
	rows := record.Size(shape[:axis])
	for i := 1; i <= 2; i++ {
		if !s.Absent(i) && record.Size(d.ShapeOf(s, i)) != width {
			return false
		}
	}
	if width == 0 || rows == 0 {
		return true
	}
	n := kernel.Norm{Width: width, Centered: centered, Statistics: s.Gives(1) || s.Gives(2)}
	o := kernel.NormOperands{Y: b.Buffer(s.Out[0]), X: b.Buffer(s.In[0]), Rows: rows, Gain: 1,
		Epsilon: s.Node.Attrs.Float("epsilon", float64(float32(1e-5)))}
	for i, to := range []*kernel.Buffer{&o.Scale, &o.Shift} {
		if s.Absent(i + 1) {
			continue
		}
		x, ok := b.Float32(s.In[i+1])
		if !ok {
			return false
		}
		*to = x
	}
	n.Scale, n.Shift = o.Scale != 0, o.Shift != 0
	if n.Statistics {
		for i, to := range []*kernel.Buffer{&o.Mean, &o.Factor} {
			if s.Gives(i + 1) {
				*to = b.Buffer(s.Out[i+1])
			} else {
				*to = b.Scratch(4 * rows)
			}
		}
	}
	if rows > kernel.MaxRows || width > kernel.MaxRows {
		return false
	}
	b.Launch(n.Call(o))
	return true
}

func layerNorm(b *record.Builder, s *lowering.Step) bool { return last(b, s, true) }

func rmsNorm(b *record.Builder, s *lowering.Step) bool { return last(b, s, false) }

func takesScalarNorm(s *lowering.Step) bool {
	for i := 1; i <= 2; i++ {
		if t := s.Fixed(i); t == nil || t.Len() != 1 || !record.Fixed(s, i) {
			return false
		}
	}
	return float32s(1)(s)
}

func scalarNorm(b *record.Builder, s *lowering.Step) bool {
	rows, width := lowering.Features(b.Binding.ShapeOf(s, 0))
	if rows == 0 || width == 0 {
		return true
	}
	if rows > kernel.MaxRows || width > kernel.MaxRows {
		return false
	}
	n := kernel.Norm{Width: width, Centered: true}
	o := kernel.NormOperands{Y: b.Buffer(s.Out[0]), X: b.Buffer(s.In[0]), Rows: rows, Gain: 1}
	if lowering.SettledOf(s.In) == nil {
		o.Offset, o.Gain = s.Constant64(1)[0], s.Constant64(2)[0]
	} else {
		n.Apart, o.Numbers = true, b.Derived("gain and offset", func() []byte {
			gain, offset := record.Numbers(s, 2)[0], record.Numbers(s, 1)[0]
			return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, math.Float64bits(gain)), math.Float64bits(offset))
		}, s)
	}
	b.Launch(n.Call(o))
	return true
}

func instanceNorm(b *record.Builder, s *lowering.Step) bool {
	shape := b.Binding.ShapeOf(s, 0)
	if record.Size(shape) == 0 {
		return true
	}
	call, ok := kernel.NormColumns(b.Buffer(s.Out[0]), b.Buffer(s.In[0]), shape[0], shape[1], shape[2],
		s.Node.Attrs.Float("epsilon", 1e-5))
	b.Launch(call)
	return ok
}
