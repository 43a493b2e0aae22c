package kernel_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

func TestMatrixConvolution(t *testing.T) {
	seen := map[int]bool{}
	for i, c := range []kernel.MatrixConvolution{
		{Batch: 1, Length: 1, Groups: 1, In: 1, Out: 1, Taps: 1},
		{Batch: 9, Length: 30, Groups: 2, In: 3, Out: 5, Taps: 12, Ahead: 5},
		{Batch: 3, Length: 77, Groups: 1, In: 9, Out: 4, Taps: 77},
		{Batch: 2, Length: 300, Groups: 3, In: 2, Out: 2, Taps: 40, Ahead: 39},
		{Batch: 5, Length: 150, Groups: 1, In: 3, Out: 9, Taps: 301, Ahead: 150},
		{Batch: 3, Length: 1200, Groups: 1, In: 2, Out: 3, Taps: 1100},
	} {
		n, levels := c.Points()
		seen[levels] = true
		t.Run(fmt.Sprintf("%d points %d levels %d", i, n, levels), func(t *testing.T) {
			r := rand.New(rand.NewPCG(11, uint64(i)))
			ins, outs := c.Groups*c.In, c.Groups*c.Out
			u, k := numbers(r, c.Batch*c.Length*ins), kernels(r, outs*c.In, c.Taps)
			want := make([]float64, c.Batch*c.Length*outs)
			for m := range c.In { // of each group, one after the other
				one := kernel.Convolution{Batch: c.Batch, Length: c.Length, Inputs: outs, Channels: outs, Taps: c.Taps, Ahead: c.Ahead}
				of, taps := make([]float32, len(want)), make([][]float64, outs)
				for o := range outs {
					taps[o] = k[o*c.In+m]
					for row := range c.Batch * c.Length {
						of[row*outs+o] = u[row*ins+o/c.Out*c.In+m]
					}
				}
				for i, x := range plainConvolution(one, of, taps) {
					want[i] += x
				}
			}
			for _, transforms := range []bool{false, true} {
				d := kerneltest.New(t)
				c.U, c.Y = d.In(u), d.Out(4*len(want))
				if !c.Fits() || !c.Transforms() {
					t.Fatal("no kernel")
				}
				d.Run(c.Calls(transforms, ready(func(o, i int) []float64 { return k[o*c.In+i] }), memory(d))...)
				within(t, fmt.Sprint("transforms ", transforms), d.Float32s(c.Y), want, 1e-6)
			}
		})
	}
	if len(seen) != 2 {
		t.Error("no case has two levels")
	}
}

// The products between transforms read the numbers of a pair once, the matrices once for some pairs, and write each result once.
func TestMatrixConvolutionCounters(t *testing.T) {
	c := kernel.MatrixConvolution{Batch: 8, Length: 60, Groups: 1, In: 32, Out: 32, Taps: 60}
	r := rand.New(rand.NewPCG(12, 1))
	u, k := numbers(r, c.Batch*c.Length*c.In), kernels(r, c.Out*c.In, c.Taps)
	d := kerneltest.New(t)
	c.U, c.Y = d.In(u), d.Out(4*len(u))
	calls := c.Calls(true, ready(func(o, i int) []float64 { return k[o*c.In+i] }), memory(d))
	d.ResetCounters()
	d.Run(calls...)
	n, _ := c.Points()
	pairs := (c.Batch + 1) / 2
	for _, q := range d.Counters().Kernels {
		if x := q.Conflicts(); x > 0.05 {
			t.Errorf("%s: conflicts add %.3g to the passes over shared memory", q.Kernel, x)
		}
		if q.Kernel != "convolve_products" {
			continue
		}
		read, written := int64(8*n*(c.In*c.Out+pairs*c.In)), int64(8*n*pairs*c.Out)
		if q.ReadDistinct != read || q.WrittenMoved != written {
			t.Errorf("%d bytes are read, %d written, expected %d and %d", q.ReadDistinct, q.WrittenMoved, read, written)
		}
		if least := int64(8 * n * c.In * c.Out * pairs); q.OpsF32 > least*11/10 {
			t.Errorf("%d operations, expected %d", q.OpsF32, least)
		}
	}
}

// Pairs of pieces that take turns give the same bits as those that are computed at once.
func TestMatrixConvolutionSlabs(t *testing.T) {
	c := kernel.MatrixConvolution{Batch: 11, Length: 50, Groups: 1, In: 2, Out: 3, Taps: 50}
	r := rand.New(rand.NewPCG(13, 1))
	u, k := numbers(r, c.Batch*c.Length*c.In), kernels(r, c.Out*c.In, c.Taps)
	var all [2][]float32
	for i := range all {
		if i == 1 {
			defer kernel.SmallSlabs()()
		}
		d := kerneltest.New(t)
		c.U, c.Y = d.In(u), d.Out(4*c.Batch*c.Length*c.Out)
		calls := c.Calls(true, ready(func(o, i int) []float64 { return k[o*c.In+i] }), memory(d))
		if (len(calls) > 3) != (i == 1) {
			t.Errorf("%d launches", len(calls))
		}
		d.Run(calls...)
		all[i] = d.Float32s(c.Y)
	}
	if !slices.Equal(all[0], all[1]) {
		t.Error("the answers differ")
	}
}
