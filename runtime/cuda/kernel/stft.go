package kernel

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// FrameSpectra are Fourier transforms of frames of Length steps, Step apart, in sequences of Steps steps with Parts
// parts (1 if real), times Window, which may be absent. Bins results of each are wanted.
type FrameSpectra struct {
	Batch, Steps, Parts, Frames, Length, Step, Bins int
	X, Window                                       Tensor
}

// Call returns the launch: one thread computes one number of a spectrum. constant stores the table of the roots of
// unity.
func (f FrameSpectra) Call(y Tensor, constant func(key string, make func() []byte) Buffer) (Call, bool) {
	if !fits(f.Batch, f.Frames, f.Bins, 2) || !fits(f.Batch, f.Steps, f.Parts) || !fits(f.Length, 2) {
		return Call{}, false
	}
	table := constant(fmt.Sprint("roots ", f.Length), func() []byte {
		var b []byte
		for i := range f.Length {
			s, c := math.Sincos(2 * math.Pi * float64(i) / float64(f.Length))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s))
		}
		return b
	})
	name := fmt.Sprintf("frame_spectra_%d_%v_%t", f.Parts, f.X.Type, f.Window.Buffer != 0)
	return each(name, f.Batch*f.Frames*f.Bins, func(d *plain, i ptx.U32) {
		x, out, roots := d.tensor(f.X), d.tensor(y), d.vector(table, tensor.Float64)
		steps, length, step := d.size(f.Steps), d.size(f.Length), d.size(f.Step)
		at := index(i, d.sizes(f.Batch, f.Frames, f.Bins))
		first := at[0].MAD(steps, at[1].Mul(step))
		re, im, turn := d.VarF64(ptx.D(0)), d.VarF64(ptx.D(0)), d.VarU32(ptx.U(0))
		d.loop(length, func(n ptx.U32) {
			c, s := roots.get(turn.Add(turn).Wide()), roots.get(turn.Add(turn).Add(ptx.U(1)).Wide())
			next := turn.Add(at[2])
			turn.Set(next.Ge(length).SelectU32(next.Sub(length), next))
			from := first.Add(n).Mul(ptx.U(f.Parts)).Wide()
			w := d.VarF64(ptx.D(1))
			if f.Window.Buffer != 0 {
				w.Set(d.tensor(f.Window).get(n.Wide()))
			}
			a := x.get(from).Mul(w)
			if f.Parts == 2 {
				b := x.get(from.Add(ptx.L(1))).Mul(w)
				re.Set(b.FMA(s, re))
				im.Set(b.FMA(c, im))
			}
			re.Set(a.FMA(c, re))
			im.Set(a.Neg().FMA(s, im))
		})
		out.set(i.Add(i).Wide(), re)
		out.set(i.Add(i).Add(ptx.U(1)).Wide(), im)
	})
}
