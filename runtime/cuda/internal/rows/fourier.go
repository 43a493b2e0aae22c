package rows

import (
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "DFT", Takes: float32s(1), Build: dft},
		record.Record{Op: "essm.FourierMix", Takes: float32s(1), Build: fourierMix},
	)
}

func memoryOf(b *record.Builder) kernel.Memory {
	return kernel.Memory{Scratch: b.Scratch, Constant: b.Constant}
}

func fourier(b *record.Builder, f kernel.Fourier, y, x kernel.Buffer) bool {
	calls, ok := f.Calls(y, x, memoryOf(b))
	b.Launch(calls...)
	return ok
}

func dft(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	in, out := d.ShapeOf(s, 0), d.Shape(s.Out[0])
	last := len(in) - 1
	given := int64(-2)
	if !s.Absent(2) {
		v, ok := d.Ints(s, 2)
		if !ok || len(v) != 1 {
			return false
		}
		given = v[0]
	}
	axis, err := ops.Axis(given, len(in))
	if err != nil || axis == last || len(out) != len(in) {
		return false
	}
	inverse, half := s.Node.Attrs.Bool("inverse", false), s.Node.Attrs.Bool("onesided", false)
	n := in[axis]
	if inverse && half {
		n = 2 * (n - 1)
	}
	if !s.Absent(1) {
		v, ok := d.Ints(s, 1)
		if !ok || len(v) != 1 {
			return false
		}
		n = int(v[0])
	}
	if n < 1 {
		return false
	}
	if record.Size(out) == 0 {
		return true
	}
	outer, present, inner := record.Around(in[:last], axis)
	_, wanted, _ := record.Around(out[:last], axis)
	f := kernel.Fourier{N: n, Inverse: inverse, Scale: 1, RealIn: in[last] == 1, RealOut: out[last] == 1, Present: present,
		Wanted: wanted, Mirrored: inverse && half, Outer: outer, Inner: inner,
		In:  kernel.FourierPlace{Outer: present * inner, Inner: 1, Step: inner},
		Out: kernel.FourierPlace{Outer: wanted * inner, Inner: 1, Step: inner}}
	if inverse {
		f.Scale = 1 / float64(n)
	}
	return fourier(b, f, b.Buffer(s.Out[0]), b.Buffer(s.In[0]))
}

// fourierMix transforms along the features, then along the steps, and keeps the real parts.
func fourierMix(b *record.Builder, s *lowering.Step) bool {
	shape := b.Binding.ShapeOf(s, 0)
	if record.Size(shape) == 0 {
		return true
	}
	batch, length, features := shape[0], shape[1], shape[2]
	middle := b.Scratch(8 * record.Size(shape))
	rows := kernel.FourierPlace{Outer: features, Step: 1}
	steps := kernel.FourierPlace{Outer: length * features, Inner: 1, Step: features}
	return fourier(b, kernel.Fourier{N: features, Scale: 1, RealIn: true, Present: features, Wanted: features,
		Outer: batch * length, Inner: 1, In: rows, Out: rows}, middle, b.Buffer(s.In[0])) &&
		fourier(b, kernel.Fourier{N: length, Scale: 1, RealOut: true, Present: length, Wanted: length,
			Outer: batch, Inner: features, In: steps, Out: steps}, b.Buffer(s.Out[0]), middle)
}
