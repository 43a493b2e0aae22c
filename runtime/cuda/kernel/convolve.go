package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/essmc/essmc/ops/fft"
	"github.com/essmc/essmc/runtime/cuda/driver"
)

// Convolution convolves each channel with its own kernel,
//
//	y[t, c] = Σ_j k[c, j] u[t+Ahead-j, c mod Inputs]
//
// over Taps taps, where u is zero outside the sequence; tap Ahead has lag 0. Sequences are laid out (Batch, Length,
// Inputs) and (Batch, Length, Channels) in float32. Kernels and their spectra are computed on the host in float64.
//
// There are three ways:
//
//   - Direct: a thread computes some steps of a channel from taps in memory.
//   - Fourier transforms in shared memory: a block transforms a piece of two sequences, as the real and the imaginary
//     part of one, multiplies by the spectrum, transforms back, and writes the steps that the ends of the piece do not
//     affect (overlap-save). The sequences are read once.
//   - Transforms in two levels, for kernels that exceed shared memory: three passes over memory.
type Convolution struct {
	Batch, Length, Inputs, Channels int
	Taps, Ahead                     int
	U, Y                            Buffer
}

const (
	convGroup  = 8    // adjacent channels of a block: one sector of memory
	convPoints = 8192 // complex numbers that a block transforms at once
	convOne    = convPoints / convGroup
	convTwo    = 1 << 20           // maximum length of two-level transforms
	convTable  = 256 << 20         // maximum bytes of spectra
	maxConv    = math.MaxInt32 / 2 // steps, taps
)

// convSlab is the minimum number of bytes of scratch memory between kernels. If one pair of pieces needs less,
// several pairs are processed together. It is a variable for tests.
var convSlab = 64 << 20

// Rates for comparing forms, in picoseconds on a fully used H100. They have the proportions of data sheets, and have
// not been measured.
const (
	byteTime   = 0.3   // of memory
	cacheTime  = 0.12  // per byte that other blocks have read
	flopTime   = 0.05  // in transforms, including the time of shared memory
	directTime = 0.033 // per product or sum of the direct form
	stateTime  = 1.2   // per step of a complex state in a scan, including its output
)

// convPlan describes how transforms compute a convolution.
type convPlan struct {
	n      int // points
	levels int
	step   int     // outputs per piece
	pieces int     // per sequence
	time   float64 // per channel of a sample
}

// planOf returns how transforms of n points compute the convolution, or false if they cannot.
func (c *Convolution) planOf(n int) (p convPlan, ok bool) {
	if n < c.Taps {
		return p, false
	}
	p = convPlan{n: n, levels: 1, step: min(n-c.Taps+1, max(c.Length, 1))}
	p.pieces = ceilDiv(c.Length, p.step)
	points := float64(n)
	bytes, cached := 4*points+4*float64(p.step), 4*points
	if n > convOne {
		p.levels = 2
		bytes += 16 * points
		cached += 8 * points
	}
	p.time = float64(p.pieces) * (bytes*byteTime + cached*cacheTime + 5*points*math.Log2(points)*flopTime)
	return p, true
}

// plan returns the best transforms. It returns false if the kernel is too long for them.
func (c *Convolution) plan() (best convPlan, ok bool) {
	for n := 64; n <= convTwo; n *= 2 {
		p, fits := c.planOf(n)
		if fits && (!ok || p.time < best.time) {
			best, ok = p, true
		}
		if fits && p.pieces == 1 && n > convOne {
			break
		}
	}
	return best, ok
}

// Transforms reports whether transforms can compute the convolution with tables of acceptable size.
func (c *Convolution) Transforms() bool {
	p, ok := c.plan()
	return ok && 8*float64(p.n)*float64(c.Channels) <= convTable
}

// Points returns the points and the levels of the transforms.
func (c *Convolution) Points() (n, levels int) {
	p, _ := c.plan()
	return p.n, p.levels
}

// DirectTime estimates the time of a step of a channel in the direct form.
func (c *Convolution) DirectTime() float64 {
	return 8*byteTime + 2*directTime*float64(min(c.Taps, max(1, c.Length/2+c.Ahead/2)))
}

// TransformTime estimates the time of a step of a channel by transforms, or infinity if they cannot compute it.
func (c *Convolution) TransformTime() float64 {
	if !c.Transforms() {
		return math.Inf(1)
	}
	p, _ := c.plan()
	return p.time / float64(max(1, c.Length))
}

// ScanTime estimates the time of a step of a scan, for a system of one input and one output with the given number of
// complex states.
func ScanTime(states int) float64 { return 12*byteTime + stateTime*float64(states) }

// Fits reports whether steps and channels can be counted in 32 bits, as kernels do.
func (c *Convolution) Fits() bool {
	if c.Batch < 0 || c.Length > maxConv || c.Taps > maxConv || c.Inputs < 1 || c.Channels > 65535*convGroup ||
		c.Batch > maxConv || c.Taps < 1 || c.Ahead >= maxConv {
		return false
	}
	steps := int64(c.Batch) * int64(c.Length/directSteps+1) // threads of a channel
	return steps < maxConv && steps*int64(c.Channels) < math.MaxInt32*scanThreads/2
}

// Calls returns the launches of the direct form, or of transforms if these can compute it. taps is called when a table of
// the kernels is made. It returns a function that returns the kernel of a channel, and is called by several goroutines.
// name distinguishes kernels that depend on more than the step's constants and the sizes here.
func (c *Convolution) Calls(transforms bool, name string, taps func() func(channel int) []float64, m Memory) []Call {
	if c.Batch*c.Length*c.Channels == 0 {
		return nil
	}
	name += fmt.Sprintf(" taps %d ahead %d", c.Taps, c.Ahead)
	if !transforms {
		return []Call{c.direct(m.Derived("convolution"+name, func() []byte { return c.directTable(taps()) }))}
	}
	p, _ := c.plan()
	spectra := m.Derived(fmt.Sprintf("spectra%s points %d", name, p.n), func() []byte { return c.spectra(p, taps()) })
	if p.levels == 1 {
		return c.oneLevel(p, spectra, m)
	}
	return c.twoLevels(p, spectra, m)
}

// split returns the lengths of the two levels. Rows of 512 would spill registers.
func (p *convPlan) split() (n1, n2 int) {
	n1 = 1
	for n1*n1*4 <= p.n {
		n1 *= 2
	}
	if p.n/n1 == 512 {
		n1 /= 2
	}
	return n1, p.n / n1
}

// order returns the index of the result at each position.
func (p *convPlan) order() []int {
	at := convOrder(p.n)
	if p.levels == 2 {
		n1, n2 := p.split()
		first, second := convOrder(n1), convOrder(n2)
		for i := range at {
			at[i] = first[i/n2] + n1*second[i%n2]
		}
	}
	return at
}

// turns returns the twiddle factors between two levels.
func (p *convPlan) turns(m Memory) Buffer {
	return m.Constant(fmt.Sprintf("turns %d", p.n), func() []byte {
		n1, n2 := p.split()
		z := make([]complex128, p.n)
		for i, k := range convOrder(n1) {
			for j := range n2 {
				s, c := math.Sincos(-2 * math.Pi * float64(k*j) / float64(p.n))
				z[i*n2+j] = complex(c, s)
			}
		}
		return complexBytes(z)
	})
}

// spectra returns the transforms of all kernels, divided by the number of points. For each position of a transform,
// all channels are adjacent.
func (c *Convolution) spectra(p convPlan, taps func(channel int) []float64) []byte {
	at := p.order()
	all := make([]complex64, p.n*c.Channels)
	spread(c.Channels, func(next func() int) {
		transform := spectrum(p.n)
		for i := next(); i >= 0; i = next() {
			z := transform(taps(i))
			for place, k := range at {
				all[place*c.Channels+i] = complex64(z[k])
			}
		}
	})
	return complex64Bytes(all)
}

// spectrum returns a function that transforms a kernel of up to n taps, divided by n. Its result is valid until the
// next call.
func spectrum(n int) func(taps []float64) []complex128 {
	plan, z := fft.New(n, nil), make([]complex128, n)
	return func(taps []float64) []complex128 {
		clear(z)
		for j, x := range taps {
			z[j] = complex(x/float64(n), 0)
		}
		plan.Forward(z, nil)
		return z
	}
}

func complex64Bytes(z []complex64) []byte {
	b := make([]byte, 0, 8*len(z))
	for _, v := range z {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(real(v)))
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(imag(v)))
	}
	return b
}

// spread runs n pieces of work on goroutines. next returns the next piece, or -1 after the last. A panic in a
// goroutine is passed on to the caller.
func spread(n int, work func(next func() int)) {
	var at atomic.Int64
	var all sync.WaitGroup
	panics := make(chan any, min(n, runtime.GOMAXPROCS(0)))
	for range cap(panics) {
		all.Go(func() {
			defer func() {
				if x := recover(); x != nil {
					panics <- x
				}
			}()
			work(func() int {
				if i := int(at.Add(1)) - 1; i < n {
					return i
				}
				return -1
			})
		})
	}
	all.Wait()
	if len(panics) > 0 {
		panic(<-panics)
	}
}

// lines returns the number of pieces of all sequences; pairs returns the number of pairs of them.
func (c *Convolution) lines(p convPlan) int { return c.Batch * p.pieces }

func (c *Convolution) pairs(p convPlan) int { return ceilDiv(c.lines(p), 2) }

func (c *Convolution) groups() uint32 { return uint32(ceilDiv(c.Channels, convGroup)) }

// sizes are the arguments that describe the layout of pieces to the kernels of transforms.
func (c *Convolution) sizes(p convPlan) []Arg {
	return []Arg{U32(c.lines(p)), U32(p.pieces), U32(p.step), U32(c.Length), U32(c.Inputs), U32(c.Channels), U32(c.Ahead), U32(c.Taps - 1)}
}

// levelSizes are the arguments of kernels that keep numbers in memory: count pairs from from on, each of rows times
// columns.
func (c *Convolution) levelSizes(p convPlan, from, count, rows, columns int) []Arg {
	return slices.Clip(append(c.sizes(p), U32(from), U32(count), U32(rows), U32(columns)))
}

func (c *Convolution) oneLevel(p convPlan, spectra Buffer, m Memory) []Call {
	f := newConvFFT(p.n)
	grid := driver.Dim{X: uint32(ceilDiv(c.pairs(p), f.width/convGroup)), Y: c.groups(), Z: 1}
	return []Call{NewCall(convolveCode(f), grid, append(c.sizes(p), Ptr(c.U), Ptr(c.Y), Ptr(spectra), Ptr(f.table(m)))...)}
}

func (c *Convolution) twoLevels(p convPlan, spectra Buffer, m Memory) []Call {
	n1, n2 := p.split()
	first, second := newConvFFT(n1), newConvFFT(n2)
	pairs := c.pairs(p)
	each := 8 * p.n * c.Channels
	slab := min(pairs, max(1, convSlab/each))
	middle := m.Scratch(slab * each)
	turns := p.turns(m)
	forth, through, back := convolveColumns(first, false), convolveRows(second), convolveColumns(first, true)
	firstTable, secondTable := first.table(m), second.table(m)
	var calls []Call
	for from := 0; from < pairs; from += slab {
		count := min(slab, pairs-from)
		sizes := c.levelSizes(p, from, count, n1, n2)
		columns := driver.Dim{X: uint32(count * n2 / (first.width / convGroup)), Y: c.groups(), Z: 1}
		rows := driver.Dim{X: uint32(count * n1 / (second.width / convGroup)), Y: c.groups(), Z: 1}
		calls = append(calls,
			NewCall(forth, columns, append(sizes, Ptr(c.U), Ptr(middle), Ptr(firstTable))...),
			NewCall(through, rows, append(sizes, Ptr(middle), Ptr(spectra), Ptr(turns), Ptr(secondTable))...),
			NewCall(back, columns, append(sizes, Ptr(c.Y), Ptr(middle), Ptr(firstTable))...))
	}
	return calls
}
