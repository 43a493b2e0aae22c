package recurrence

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.SSM",
		Recurrence: record.RecurrenceKind{Make: sisoRecurrence, Constant: []int{1, 2, 3, 4, 5, 6, 7, 8, 9}}})
}

// Siso is an SSM whose heads have one input and one output each. The states between B and C, n for each number that a
// head reads, are not written. In the form scan, heads of many states run one after the other, and heads of one state
// become a scan with B and C in its coefficients. In the forms fft and direct, each head is a convolution with one kernel.
type Siso struct {
	record.RecurrenceInfo
	a      []complex128
	step   []complex128 // ā
	gain   []complex128 // the products of the factors of inputs and outputs, per state
	out    kernel.Gains // C
	direct []float32    // D; nil for none
	heads  *kernel.SISO
	scaled *kernel.Diagonal // instead of heads, if these have one state each
}

// SisoLeast is the minimum number of states of a head in Siso: a vector. Heads of one state are an exception, and so
// are heads for which a form other than scan is requested.
const SisoLeast = 8

// sisoKey identifies packed coefficients, which the programs of a model share.
type sisoKey struct {
	aRe, aIm, bRe, bIm, in, out, inIm, outIm, direct *tensor.Tensor
	scaled                                           bool // the form
}

// gains returns the numbers of B or C.
func gains(s *lowering.Step, re, im int) kernel.Gains {
	g := kernel.Gains{Re: record.Numbers(s, re)}
	if !s.Absent(im) {
		g.Im = record.Numbers(s, im)
	}
	return g
}

// sisoRecurrence returns nil for other systems, and if the form chunked was asked for.
func sisoRecurrence(s *lowering.Step) record.Recurrence {
	dir, window := record.ScanAttrs(s.Node)
	aRe, aIm := record.Numbers64(s, 1), record.Numbers64(s, 2)
	bRe, bIm := record.Numbers64(s, 3), record.Numbers64(s, 4)
	in, out := gains(s, 5, 7), gains(s, 6, 8)
	form := record.Of(s).Form
	if form == essm.FormChunked || window > 0 {
		return nil
	}
	convolved := form == essm.FormFFT || form == essm.FormDirect
	shape, channels := s.ConstShape(5), s.ConstShape(6) // (C,S,n,h) and (C,S,m,n)
	heads, n := shape[0]*shape[1], shape[2]
	state, stateOut := record.Index(!s.Absent(10), 10), record.Index(s.Node.Out(1) != nil, 1)
	u, ok := ir.AsTensor(s.In[0].Type)
	if !ok || u.NoRank || len(u.Shape) != 3 || !u.Shape[2].Equal(ir.Const(int64(heads))) || shape[3] != 1 ||
		channels[2] != 1 ||
		n < SisoLeast && !convolved && (n != 1 || state >= 0 || stateOut >= 0) {
		return nil
	}
	c := &Siso{out: out}
	if !s.Absent(9) {
		if c.direct = record.Numbers(s, 9); len(c.direct) != heads {
			return nil
		}
	}
	all := heads * n
	c.RecurrenceInfo = record.RecurrenceInfo{
		N: heads, States: n, Direction: dir, Size: 2 * all, Saved: 2 * all, PerHead: 1,
		VRe: 0, VIm: -1, State: state, XRe: 0, XIm: -1, StateOut: stateOut, Beside: true,
	}
	inputs := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	record.Keep(s, inputs, nil, func() *Siso {
		c.a, c.step, c.gain = make([]complex128, all), make([]complex128, all), make([]complex128, all)
		return c
	}, func(c *Siso) {
		unstable := false
		for j := range all {
			a := complex(aRe[j], aIm[j])
			c.a[j], c.step[j], c.gain[j] = a, essm.Pow(a, 1), complex(bRe[j], bIm[j])*in.At(j)*out.At(j)
			unstable = unstable || essm.Unstable(a)
		}
		c.Judge(s, unstable)
	})
	of := s.Fixed
	key := sisoKey{of(1), of(2), of(3), of(4), of(5), of(6), of(7), of(8), of(9), n == 1 && state < 0 && stateOut < 0}
	m := record.Keep(s, inputs, key, func() *packedSiso {
		return &packedSiso{system: &kernel.Diagonal{ARe: make([]float64, all), AIm: make([]float64, all), BRe: bRe, BIm: bIm}}
	}, func(m *packedSiso) {
		d := m.system
		for j, a := range c.step {
			d.ARe[j], d.AIm[j] = real(a), imag(a)
		}
		switch {
		case m.heads != nil:
			m.heads.Fill(d, in, out, c.direct)
		case m.scaled != nil:
			m.scaled.Scale(d, in, out)
		case key.scaled:
			m.scaled = kernel.ScaledDiagonal(d, in, out)
		default:
			m.heads = kernel.NewSISO(d, n, in, out, c.direct)
		}
	})
	c.heads, c.scaled = m.heads, m.scaled
	return c
}

// packedSiso is what the programs of a model share: the system, in one of two forms.
type packedSiso struct {
	system *kernel.Diagonal
	heads  *kernel.SISO
	scaled *kernel.Diagonal
}

func (c *Siso) Info() *record.RecurrenceInfo { return &c.RecurrenceInfo }

func (c *Siso) Tiled(_ string, rows int) record.TileKernel {
	k := &sisoScan{c: c, DiagonalScan: DiagonalScan{sys: c.scaled, n: len(c.a)}}
	if c.heads != nil {
		k.size = c.heads.Scratch(rows)
	}
	k.across = newAcross(&c.RecurrenceInfo, c.a, rows)
	return k
}

// sisoScan computes the recurrence of all heads, with B, C and D.
type sisoScan struct {
	DiagonalScan
	c    *Siso
	size int
}

func (k *sisoScan) Scratch() int { return k.size }

func (k *sisoScan) Forward(y, _ []float32, in *record.TileInput, rows int, z []float64, tmp []float32) {
	zr, zi := z[:k.n], z[k.n:2*k.n]
	if k.c.heads != nil {
		k.c.heads.Forward(y, in.Re, rows, zr, zi, tmp)
		return
	}
	k.sys.ScanForward(y, nil, &kernel.Inputs{Re: in.Re}, rows, zr, zi)
	if y != nil && k.c.direct != nil {
		kernel.ScaleAdd(y, in.Re, rows, k.c.direct)
	}
}

func (k *sisoScan) Backward(y, _ []float32, in *record.TileInput, rows int, z []float64, tmp []float32, add bool) {
	zr, zi := z[:k.n], z[k.n:2*k.n]
	if k.c.heads != nil {
		k.c.heads.Backward(y, in.Re, rows, zr, zi, tmp, add)
		return
	}
	k.sys.ScanBackward(y, nil, &kernel.Inputs{Re: in.Re}, rows, zr, zi, add)
	if y != nil && k.c.direct != nil && !add {
		kernel.ScaleAdd(y, in.Re, rows, k.c.direct)
	}
}
