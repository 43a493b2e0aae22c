package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// kernels returns kernels that decay, of all channels.
func kernels(r *rand.Rand, channels, taps int) [][]float64 {
	k := make([][]float64, channels)
	for i := range k {
		k[i] = make([]float64, taps)
		rate := 4 * r.Float64() / float64(taps)
		for j := range k[i] {
			k[i][j] = (2*r.Float64() - 1) * math.Exp(-rate*float64(j))
		}
	}
	return k
}

// plainConvolution returns the definition.
func plainConvolution(c kernel.Convolution, u []float32, k [][]float64) []float64 {
	y := make([]float64, c.Batch*c.Length*c.Channels)
	for b := range c.Batch {
		for i := range c.Channels {
			for t := range c.Length {
				sum := 0.0
				for j := max(0, t+c.Ahead-c.Length+1); j < c.Taps && j <= t+c.Ahead; j++ {
					sum += k[i][j] * float64(u[(b*c.Length+t+c.Ahead-j)*c.Inputs+i%c.Inputs])
				}
				y[(b*c.Length+t)*c.Channels+i] = sum
			}
		}
	}
	return y
}

func TestConvolution(t *testing.T) {
	seen := map[int]bool{}
	for i, c := range []kernel.Convolution{
		{Batch: 1, Length: 1, Inputs: 1, Channels: 1, Taps: 1},
		{Batch: 3, Length: 7, Inputs: 3, Channels: 3, Taps: 20},
		{Batch: 2, Length: 50, Inputs: 5, Channels: 10, Taps: 9, Ahead: 4},
		{Batch: 1, Length: 100, Inputs: 9, Channels: 9, Taps: 100},
		{Batch: 3, Length: 33, Inputs: 2, Channels: 4, Taps: 65, Ahead: 32},
		{Batch: 1, Length: 300, Inputs: 17, Channels: 17, Taps: 70, Ahead: 69},
		{Batch: 1, Length: 700, Inputs: 3, Channels: 3, Taps: 300, Ahead: 400},
		{Batch: 2, Length: 1300, Inputs: 5, Channels: 5, Taps: 450, Ahead: 7},
		{Batch: 5, Length: 240, Inputs: 9, Channels: 9, Taps: 250, Ahead: 3},
		{Batch: 3, Length: 500, Inputs: 2, Channels: 2, Taps: 500},
		{Batch: 1, Length: 1000, Inputs: 9, Channels: 9, Taps: 1000},
		{Batch: 3, Length: 1500, Inputs: 3, Channels: 3, Taps: 1999, Ahead: 999},
		{Batch: 1, Length: 5000, Inputs: 1, Channels: 1, Taps: 5000},
	} {
		n, levels := c.Points()
		seen[n] = true
		t.Run(fmt.Sprintf("%d points %d levels %d", i, n, levels), func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, uint64(i)))
			u, k := numbers(r, c.Batch*c.Length*c.Inputs), kernels(r, c.Channels, c.Taps)
			want := plainConvolution(c, u, k)
			for _, transforms := range []bool{false, true} {
				d := kerneltest.New(t)
				c.U, c.Y = d.In(u), d.Out(4*len(want))
				if !c.Fits() || !c.Transforms() {
					t.Fatal("no kernel")
				}
				d.Run(c.Calls(transforms, "", ready(func(i int) []float64 { return k[i] }), memory(d))...)
				within(t, fmt.Sprint("transforms ", transforms), d.Float32s(c.Y), want, 1e-6)
			}
		})
	}
	for n := 64; n <= 4096; n *= 2 {
		if !seen[n] {
			t.Errorf("no case has %d points", n)
		}
	}
}

// Pairs of pieces that take turns give the same bits as those that are computed at once.
func TestConvolutionSlabs(t *testing.T) {
	c := kernel.Convolution{Batch: 4, Length: 1000, Inputs: 2, Channels: 2, Taps: 1000}
	r := rand.New(rand.NewPCG(13, 1))
	u, k := numbers(r, c.Batch*c.Length*c.Inputs), kernels(r, c.Channels, c.Taps)
	var all [2][]float32
	for i := range all {
		if i == 1 {
			defer kernel.SmallSlabs()()
		}
		d := kerneltest.New(t)
		c.U, c.Y = d.In(u), d.Out(4*c.Batch*c.Length*c.Channels)
		calls := c.Calls(true, "", ready(func(i int) []float64 { return k[i] }), memory(d))
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

// A kernel that cannot be computed is a panic of the caller, whichever goroutine computes it.
func TestConvolutionPanics(t *testing.T) {
	m := memory(kerneltest.New(t)) // may skip the test, which would run the function below
	defer func() {
		if x := recover(); x != "no kernel" {
			t.Errorf("expected the panic of the kernel, found %v", x)
		}
	}()
	c := kernel.Convolution{Batch: 1, Length: 9, Inputs: 5, Channels: 5, Taps: 9}
	c.Calls(true, "", ready(func(int) []float64 { panic("no kernel") }), m)
}

// Launches of large convolutions fit in a grid, and their scratch memory is within its limit.
func TestConvolutionSizes(t *testing.T) {
	largest := 0
	m := kernel.Memory{Scratch: func(bytes int) kernel.Buffer { largest = max(largest, bytes); return 1 },
		Constant: func(string, func() []byte) kernel.Buffer { return 1 }, Derived: func(string, func() []byte) kernel.Buffer { return 1 }}
	holds := func(what any, calls []kernel.Call) {
		for _, c := range calls {
			if g := c.Grid; g.X == 0 || g.Y == 0 || g.Z == 0 || g.X > math.MaxInt32 || g.Y > 65535 || g.Z > 65535 {
				t.Errorf("%+v: %s has the grid %v", what, c.Code.Name, g)
			}
		}
		if largest > 512<<20 {
			t.Errorf("%+v: %d bytes of scratch memory", what, largest)
		}
		largest = 0
	}
	for _, batch := range []int{1, 7, 70000} {
		for _, length := range []int{1, 300, 1 << 14, 1 << 20} {
			for _, taps := range []int{1, 100, 1 << 12, 1 << 18, 1 << 21} {
				if batch*length > 1<<26 {
					continue // many launches
				}
				for _, channels := range []int{1, 300, 70000} {
					c := kernel.Convolution{Batch: batch, Length: length, Inputs: channels, Channels: channels, Taps: taps, Ahead: taps / 2}
					if !c.Fits() {
						continue
					}
					holds(c, c.Calls(false, "", nil, m))
					if c.Transforms() {
						holds(c, c.Calls(true, "", nil, m))
					}
					if channels > 300 {
						continue
					}
					x := kernel.MatrixConvolution{Batch: batch, Length: length, Groups: 1, In: channels, Out: channels, Taps: taps}
					if !x.Fits() {
						t.Errorf("%+v does not fit", x)
						continue
					}
					holds(x, x.Calls(false, nil, m))
					if x.Transforms() {
						holds(x, x.Calls(true, nil, m))
					}
				}
			}
		}
	}
}
