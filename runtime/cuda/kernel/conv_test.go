package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// convOf computes a convolution or its transpose by plain loops, and the sums of the absolute values of the terms.
func convOf(c kernel.Conv, x, w, bias []float32) (y, sizes []float64) {
	in, out, taps := size(c.In), size(c.Out), size(c.Taps)
	y = make([]float64, c.Samples*c.Groups*c.Filters*out)
	sizes = make([]float64, len(y))
	index := func(i int, dims []int) []int {
		at := make([]int, len(dims))
		for d := len(dims) - 1; d >= 0; d-- {
			at[d] = i % dims[d]
			i /= dims[d]
		}
		return at
	}
	flat := func(at, dims []int) int {
		n := 0
		for d, i := range at {
			if i < 0 || i >= dims[d] {
				return -1
			}
			n = n*dims[d] + i
		}
		return n
	}
	for s := range c.Samples {
		for g := range c.Groups {
			for f := range c.Filters {
				for ch := range c.Channels {
					for t := range taps {
						of := index(t, c.Taps)
						from, weight := c.Out, ((g*c.Filters+f)*c.Channels+ch)*taps+t
						if c.Transpose {
							from, weight = c.In, ((g*c.Channels+ch)*c.Filters+f)*taps+t
						}
						for i := range size(from) {
							at := index(i, from)
							for d := range at {
								at[d] = at[d]*c.Stride[d] + of[d]*c.Dilation[d] - c.Before[d]
							}
							a, b := flat(at, c.In), i
							if c.Transpose {
								a, b = i, flat(at, c.Out)
							}
							if a < 0 || b < 0 {
								continue
							}
							v := float64(x[((s*c.Groups+g)*c.Channels+ch)*in+a]) * float64(w[weight])
							to := ((s*c.Groups+g)*c.Filters+f)*out + b
							y[to] += v
							sizes[to] += math.Abs(v)
						}
					}
				}
			}
		}
	}
	for i := range y {
		if bias != nil {
			b := float64(bias[i/out%len(bias)])
			y[i], sizes[i] = y[i]+b, sizes[i]+math.Abs(b)
		}
	}
	return y, sizes
}

func size(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// convs are convolutions; Out follows.
var convs = []kernel.Conv{
	{Samples: 2, Groups: 1, Channels: 3, Filters: 5, In: []int{11}, Taps: []int{3}, Stride: []int{1}, Dilation: []int{1}, Before: []int{2}},
	{Samples: 1, Groups: 6, Channels: 1, Filters: 1, In: []int{13}, Taps: []int{4}, Stride: []int{1}, Dilation: []int{1}, Before: []int{3}},
	{Samples: 2, Groups: 2, Channels: 3, Filters: 9, In: []int{7, 9}, Taps: []int{3, 2}, Stride: []int{2, 1}, Dilation: []int{1, 2},
		Before: []int{1, 1}},
	{Samples: 1, Groups: 1, Channels: 2, Filters: 17, In: []int{4, 5, 6}, Taps: []int{2, 3, 2}, Stride: []int{1, 2, 3},
		Dilation: []int{2, 1, 1}, Before: []int{1, 0, 1}},
	{Samples: 3, Groups: 1, Channels: 7, Filters: 20, In: []int{40}, Taps: []int{5}, Stride: []int{3}, Dilation: []int{2}, Before: []int{4}},
}

func TestConv(t *testing.T) {
	for i, c := range convs {
		for _, transpose := range []bool{false, true} {
			t.Run(fmt.Sprint(i, transpose), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				b := kerneltest.New(t)
				c := c
				c.Transpose = transpose
				for d := range c.In {
					n := (c.In[d]+2*c.Before[d]-(c.Taps[d]-1)*c.Dilation[d]-1)/c.Stride[d] + 1
					if transpose {
						n = (c.In[d]-1)*c.Stride[d] + (c.Taps[d]-1)*c.Dilation[d] + 1 - 2*c.Before[d]
					}
					c.Out = append(c.Out, n)
				}
				x := normal32(r, c.Samples*c.Groups*c.Channels*size(c.In))
				w := normal32(r, c.Groups*c.Filters*c.Channels*size(c.Taps))
				bias := normal32(r, c.Groups*c.Filters)
				want, sizes := convOf(c, x, w, bias)
				c.X, c.W, c.Bias, c.Y = b.In(x), b.In(w), b.In(bias), b.Out(4*len(want))
				b.Run(c.Calls()...)
				check := func(what string, y kernel.Buffer) {
					for i, v := range b.Float32s(y) {
						if !(math.Abs(float64(v)-want[i]) <= 1e-6*sizes[i]) {
							t.Fatalf("%s: at %d: found %v, expected %v", what, i, v, want[i])
						}
					}
				}
				check("direct", c.Y)
				if transpose {
					return
				}
				// As a product of matrices.
				in, out, depth := size(c.In), size(c.Out), c.Channels*size(c.Taps)
				y := b.Out(4 * len(want))
				b.Run(kernel.Product{M: c.Filters, N: out, K: depth, Batch: []int{c.Samples, c.Groups},
					A: kernel.Matrix{Buffer: c.W, Row: depth, Inner: 1, Batch: []int{0, c.Filters * depth}},
					B: kernel.Matrix{Buffer: c.X, Batch: []int{c.Groups * c.Channels * in, c.Channels * in},
						Window: &kernel.Window{Table: b.In(kernel.WindowTable(c.Channels, c.Taps, c.Dilation)), Channel: in,
							In: c.In, Out: c.Out, Stride: c.Stride, Before: c.Before}},
					C:    kernel.Matrix{Buffer: y, Row: out, Inner: 1, Batch: []int{c.Groups * c.Filters * out, c.Filters * out}},
					Bias: &kernel.Matrix{Buffer: c.Bias, Row: 1, Batch: []int{0, c.Filters}}}.Calls(b.Out)...)
				check("product", y)
			})
		}
	}
}
