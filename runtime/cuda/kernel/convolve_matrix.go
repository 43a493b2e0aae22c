package kernel

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// MatrixConvolution convolves with one kernel per pair of an output and an input of a group,
//
//	y[t, g·Out + i] = Σ_m Σ_j k[g·Out + i, m, j] u[t+Ahead-j, g·In + m]
//
// over Taps taps, directly or by transforms, like Convolution. With transforms, each input is transformed once,
// matrices are multiplied at each position, and each output is transformed back once.
type MatrixConvolution struct {
	Batch, Length   int
	Groups, In, Out int
	Taps, Ahead     int
	U, Y            Buffer
}

// matrixPairs is the number of pairs of pieces that a thread multiplies with a matrix.
const matrixPairs = 4

// side returns the convolution of all inputs, or of all outputs, each separately.
func (c *MatrixConvolution) side(channels int) Convolution {
	return Convolution{Batch: c.Batch, Length: c.Length, Inputs: channels, Channels: channels, Taps: c.Taps, Ahead: c.Ahead,
		U: c.U, Y: c.Y}
}

// plan returns the best transforms, or false if the kernel is too long for all of them.
func (c *MatrixConvolution) plan() (best convPlan, ok bool) {
	in := c.side(c.Groups * c.In)
	outs := float64(c.Groups * c.Out)
	for n := 64; n <= convTwo; n *= 2 {
		p, fits := in.planOf(n)
		if !fits {
			continue
		}
		points := float64(n) * float64(ceilDiv(in.pairs(p), matrixPairs)) // reads of matrices
		lines := float64(in.lines(p))
		p.time = p.time*float64(c.Batch)*(float64(in.Channels)+outs)/2 + // as if the product with spectra were included
			lines*float64(n)*12*byteTime*(float64(in.Channels)+outs) + // numbers stored between the transforms and the products
			points*outs*float64(c.In)*8*byteTime + lines/2*float64(n)*outs*float64(c.In)*8*directTime
		if !ok || p.time < best.time {
			best, ok = p, true
		}
		if p.pieces == 1 && n > convOne {
			break
		}
	}
	return best, ok
}

// Transforms reports whether transforms can compute the convolution with tables of acceptable size.
func (c *MatrixConvolution) Transforms() bool {
	p, ok := c.plan()
	return ok && 8*float64(p.n)*float64(c.In)*float64(c.Groups*c.Out) <= convTable
}

// Points returns the points and the levels of the transforms.
func (c *MatrixConvolution) Points() (n, levels int) {
	p, _ := c.plan()
	return p.n, p.levels
}

// TransformTime estimates the time of a step of an output by transforms, or infinity if they cannot compute it.
func (c *MatrixConvolution) TransformTime() float64 {
	if !c.Transforms() {
		return math.Inf(1)
	}
	p, _ := c.plan()
	return p.time / float64(max(1, c.Batch*c.Length*c.Groups*c.Out))
}

// DirectTime estimates the time of a step of an output in the direct form.
func (c *MatrixConvolution) DirectTime() float64 {
	s := c.side(c.Groups * c.Out)
	return 4*byteTime + (s.DirectTime()-4*byteTime)*float64(c.In)
}

// DenseTime estimates the time per step and state of a scan with full matrices, when the given number of heads of
// all samples run at once: a block takes about 10 ns per state.
func DenseTime(heads int) float64 { return 8*byteTime + 1e4/float64(max(1, min(heads, 1000))) }

// Fits reports whether steps and channels can be counted in 32 bits, as kernels do.
func (c *MatrixConvolution) Fits() bool {
	if c.Groups < 1 || c.In < 1 || c.Out < 1 || c.Groups > 1<<20 || c.In > 1<<20 || c.Out > 1<<20 {
		return false
	}
	in, out := c.side(c.Groups*c.In), c.side(c.Groups*c.Out)
	return in.Fits() && out.Fits() && int64(c.Taps+directSteps)*int64(c.In) < math.MaxInt32
}

// Calls returns the launches of the direct form, or of transforms if these can compute it. taps is called when a table of
// the kernels is made. It returns a function that returns the kernel for an output (counted over all groups) and an input
// of its group, and is called by several goroutines.
func (c *MatrixConvolution) Calls(transforms bool, taps func() func(output, input int) []float64, m Memory) []Call {
	if c.Batch*c.Length*c.Groups*c.Out == 0 {
		return nil
	}
	if !transforms {
		return []Call{c.direct(m.Derived(fmt.Sprintf("matrix convolution taps %d", c.Taps), func() []byte { return c.directTable(taps()) }))}
	}
	p, _ := c.plan()
	ins, outs := c.Groups*c.In, c.Groups*c.Out
	in, out := c.side(ins), c.side(outs)
	spectra := m.Derived(fmt.Sprintf("matrix spectra taps %d points %d", c.Taps, p.n), func() []byte { return c.spectra(p, taps()) })
	pairs := in.pairs(p)
	slab := min(pairs, max(matrixPairs, convSlab/(8*p.n*(ins+outs))/matrixPairs*matrixPairs))
	x, y := m.Scratch(8*p.n*ins*slab), m.Scratch(8*p.n*outs*slab)
	forward, backward := in.halves(p, x, false, m), out.halves(p, y, true, m)
	code := convolveProducts()
	var calls []Call
	for from := 0; from < pairs; from += slab {
		count := min(slab, pairs-from)
		calls = append(calls, forward(from, count)...)
		gy, gz := gridBatch(ceilDiv(count, matrixPairs))
		calls = append(calls, NewCall(code, driver.Dim{X: uint32(ceilDiv(p.n*outs, scanThreads)), Y: gy, Z: gz}, U32(count), U32(p.n),
			U32(ins), U32(outs), U32(c.In), U32(c.Out), Ptr(x), Ptr(y), Ptr(spectra)))
		calls = append(calls, backward(from, count)...)
	}
	return calls
}

// halves returns a function that makes the launches that transform count pairs from from on, or transform them back.
func (c *Convolution) halves(p convPlan, middle Buffer, back bool, m Memory) func(from, count int) []Call {
	n1, n2 := 1, p.n
	if p.levels == 2 {
		n1, n2 = p.split()
	}
	first, second := newConvFFT(n1), newConvFFT(n2)
	outside := c.U
	if back {
		outside = c.Y
	}
	secondTable := second.table(m)
	if p.levels == 1 {
		code := convolveHalf(second, back)
		return func(from, count int) []Call {
			grid := driver.Dim{X: uint32(ceilDiv(count, second.width/convGroup)), Y: c.groups(), Z: 1}
			return []Call{NewCall(code, grid, append(c.levelSizes(p, from, count, n1, n2), Ptr(outside), Ptr(middle), Ptr(secondTable))...)}
		}
	}
	codes := [2]*Code{convolveColumns(first, back), convolveRowsHalf(second, back)}
	firstTable, turns := first.table(m), p.turns(m)
	return func(from, count int) []Call {
		sizes := c.levelSizes(p, from, count, n1, n2)
		columns := driver.Dim{X: uint32(count * n2 / (first.width / convGroup)), Y: c.groups(), Z: 1}
		rows := driver.Dim{X: uint32(count * n1 / (second.width / convGroup)), Y: c.groups(), Z: 1}
		outer := NewCall(codes[0], columns, append(sizes, Ptr(outside), Ptr(middle), Ptr(firstTable))...)
		inner := NewCall(codes[1], rows, append(sizes, Ptr(middle), Ptr(turns), Ptr(secondTable))...)
		if back {
			return []Call{inner, outer}
		}
		return []Call{outer, inner}
	}
}

// spectra returns the transforms of all kernels, divided by the number of points. For each position and input of a
// group, all outputs are adjacent.
func (c *MatrixConvolution) spectra(p convPlan, taps func(output, input int) []float64) []byte {
	at := p.order()
	outs := c.Groups * c.Out
	all := make([]complex64, p.n*c.In*outs)
	spread(outs, func(next func() int) {
		transform := spectrum(p.n)
		for o := next(); o >= 0; o = next() {
			for i := range c.In {
				z := transform(taps(o, i))
				for place, k := range at {
					all[(place*c.In+i)*outs+o] = complex64(z[k])
				}
			}
		}
	})
	return complex64Bytes(all)
}

// convolveProducts multiplies the matrices of all positions by vectors. A thread computes one number for some pairs.
func convolveProducts() *Code {
	return New("convolve_products", scanThreads, func(k *ptx.Kernel) {
		k.MinBlocks = 1
		pairs, places, ins, outs := k.U32Param("pairs"), k.U32Param("places"), k.U32Param("ins"), k.U32Param("outs")
		in, out := k.U32Param("in"), k.U32Param("out")
		x, y, spectra := k.PtrParam("x"), k.PtrParam("y"), k.PtrParam("spectra")
		q := k.BlockX().MAD(ptx.U(scanThreads), k.ThreadX())
		place := q.Div(outs)
		o := q.Sub(place.Mul(outs))
		first := k.BlockZ().MAD(k.GridY(), k.BlockY()).Mul(ptx.U(matrixPairs))
		k.If(place.Ge(places).Or(first.Ge(pairs)), k.Return)
		var from [matrixPairs]ptx.Addr
		var sums [matrixPairs]complexF32
		channel := o.Div(out).Mul(in)
		for i := range from {
			pair := first.Add(ptx.U(i)).Min(pairs.Sub(ptx.U(1)))
			from[i] = k.VarAddr(x.Index64(pair.MulWide(places).Add(place.Wide()).MAD(ins.Wide(), channel.Wide()), 8))
			sums[i] = complexF32{k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))}
		}
		matrix := k.VarAddr(spectra.Index64(place.MulWide(in).MAD(outs.Wide(), o.Wide()), 8))
		row := outs.MulWide(ptx.U(8))
		k.For(ptx.U(0), in, ptx.U(1), func(ptx.U32) {
			w := matrix.ConstF32s(0, 2)
			less := w[1].Neg()
			matrix.Set(matrix.Add(row))
			for i, s := range sums {
				v := from[i].ConstF32s(0, 2)
				from[i].Set(from[i].Add(ptx.L(8)))
				s.re.Set(less.FMA(v[1], w[0].FMA(v[0], s.re)))
				s.im.Set(w[0].FMA(v[1], w[1].FMA(v[0], s.im)))
			}
		})
		for i, s := range sums {
			pair := first.Add(ptx.U(i))
			to := y.Index64(pair.MulWide(places).Add(place.Wide()).MAD(outs.Wide(), o.Wide()), 8)
			k.Guard(pair.Lt(pairs), func() { to.StoreF32s(0, s.re, s.im) })
		}
	})
}

// directTable returns the taps as the kernel reads them: for each input of a group and each tap, padded to a
// multiple of directSteps, all outputs.
func (c *MatrixConvolution) directTable(taps func(output, input int) []float64) []byte {
	outs, rows := c.Groups*c.Out, ceilDiv(c.Taps, directSteps)*directSteps
	all := make([]float32, rows*c.In*outs)
	spread(outs, func(next func() int) {
		for o := next(); o >= 0; o = next() {
			for i := range c.In {
				for j, x := range taps(o, i) {
					all[(i*rows+j)*outs+o] = float32(x)
				}
			}
		}
	})
	return float32Bytes(all)
}

func (c *MatrixConvolution) direct(table Buffer) Call {
	outs := c.Groups * c.Out
	threads := ceilDiv(c.Length, directSteps) * outs
	y, z := gridBatch(c.Batch)
	return NewCall(convolveDirect(true), driver.Dim{X: uint32(ceilDiv(threads, scanThreads)), Y: y, Z: z}, U32(c.Batch), U32(c.Length),
		U32(c.Groups*c.In), U32(outs), U32(c.Taps), U32(c.Ahead), Ptr(c.U), Ptr(c.Y), Ptr(table), U32(c.In), U32(c.Out))
}
