package kernel_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/ops/fft"
	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// memory is the memory of an emulated device.
func memory(b *kerneltest.Bench) kernel.Memory {
	tables := map[string]kernel.Buffer{}
	table := func(key string, make func() []byte) kernel.Buffer {
		if tables[key] == 0 {
			tables[key] = b.In(make())
		}
		return tables[key]
	}
	return kernel.Memory{Scratch: b.Out, Constant: table, Derived: table}
}

// ready returns a function that returns f.
func ready[T any](f T) func() T { return func() T { return f } }

func TestFourier(t *testing.T) {
	lengths := []int{1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 16, 17, 19, 30, 64, 77, 100, 101, 128, 210, 257, 512, 600, 1001, 1024, 1031,
		4096, 4100, 5000, 8192}
	for _, n := range lengths {
		for _, c := range []struct {
			outer, inner   int
			inverse        bool
			realIn, real   bool
			mirrored       bool
			present, wants int
		}{
			{2, 1, false, false, false, false, n, n}, {1, 3, true, false, false, false, n, n},
			{3, 1, false, true, false, false, n, n/2 + 1}, {2, 5, false, true, true, false, (n + 1) / 2, n},
			{1, 2, true, false, true, true, n/2 + 1, n}, {35, 1, false, false, false, false, n, n},
		} {
			if n > 600 && c.outer+c.inner > 6 {
				continue
			}
			signals := c.outer * c.inner
			parts, partsOut := 2, 2
			if c.realIn {
				parts = 1
			}
			if c.real {
				partsOut = 1
			}
			x := far(signals*c.present*parts, 0)
			want := make([]float64, signals*c.wants*partsOut)
			plan := fft.New(n, nil)
			scale := 1.0
			if c.inverse {
				scale = 1 / float64(n)
			}
			for o := range c.outer {
				for i := range c.inner {
					z := make([]complex128, n)
					for j := range min(n, c.present) {
						at := ((o*c.present+j)*c.inner + i) * parts
						if z[j] = complex(float64(x[at]), 0); parts == 2 {
							z[j] = complex(float64(x[at]), float64(x[at+1]))
						}
					}
					for j := n/2 + 1; c.mirrored && j < n; j++ {
						z[j] = complex(real(z[n-j]), -imag(z[n-j]))
					}
					if c.inverse {
						plan.Inverse(z, nil)
					} else {
						plan.Forward(z, nil)
					}
					for k := range c.wants {
						at := ((o*c.wants+k)*c.inner + i) * partsOut
						if want[at] = real(z[k]); partsOut == 2 {
							want[at+1] = imag(z[k])
						}
					}
				}
			}
			b := kerneltest.New(t)
			y := b.Out(4 * len(want))
			f := kernel.Fourier{N: n, Inverse: c.inverse, Scale: scale, RealIn: c.realIn, RealOut: c.real, Present: c.present,
				Wanted: c.wants, Mirrored: c.mirrored, Outer: c.outer, Inner: c.inner,
				In:  kernel.FourierPlace{Outer: c.present * c.inner, Inner: 1, Step: c.inner},
				Out: kernel.FourierPlace{Outer: c.wants * c.inner, Inner: 1, Step: c.inner}}
			calls, ok := f.Calls(y, b.In(x), memory(b))
			if !ok {
				t.Fatal(n)
			}
			b.Run(calls...)
			held(t, fmt.Sprintf("length %d, %+v", n, c), b.Float32s(y), want, 30, scale*4*math.Sqrt(float64(n)))
		}
	}
}
