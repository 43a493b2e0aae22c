package kernel_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// reduced joins numbers along axes as kernel.Reduce does, one after the other.
func reduced(r kernel.Reduction, x []float32, shape []int, along []bool) []float64 {
	outputs, count := 1, 1
	stride := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		if along[i] {
			count *= shape[i]
		} else {
			stride[i], outputs = outputs, outputs*shape[i]
		}
	}
	lists := make([][]float64, outputs)
	for i, v := range x {
		at, rest := 0, i
		for a := len(shape) - 1; a >= 0; a-- {
			at, rest = at+rest%shape[a]*stride[a], rest/shape[a]
		}
		lists[at] = append(lists[at], float64(v))
	}
	out := make([]float64, outputs)
	for o, list := range lists {
		acc := 0.0
		switch r {
		case kernel.ReduceMax, kernel.ReduceLogSumExp:
			acc = math.Inf(-1)
		case kernel.ReduceMin:
			acc = math.Inf(1)
		case kernel.ReduceProd:
			acc = 1
		}
		for _, v := range list {
			switch r {
			case kernel.ReduceMax:
				acc = max(acc, v)
			case kernel.ReduceMin:
				acc = min(acc, v)
			case kernel.ReduceProd:
				acc *= v
			case kernel.ReduceSumSquare, kernel.ReduceL2:
				acc += v * v
			case kernel.ReduceL1:
				acc += math.Abs(v)
			case kernel.ReduceLogSumExp:
				if high, low := max(acc, v), min(acc, v); math.IsInf(high, 0) || math.IsNaN(high) {
					acc = high
				} else {
					acc = high + math.Log1p(math.Exp(low-high))
				}
			default:
				acc += v
			}
		}
		switch r {
		case kernel.ReduceMean:
			acc /= float64(len(list))
		case kernel.ReduceL2:
			acc = math.Sqrt(acc)
		case kernel.ReduceLogSum:
			acc = math.Log(acc)
		}
		out[o] = acc
	}
	return out
}

func TestReduce(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	cases := []struct {
		shape string // axes that are reduced are R
		dims  []int
	}{
		{"R", []int{1}}, {"R", []int{7}}, {"R", []int{5003}}, {"R", []int{9001}}, {"K", []int{5}}, {"KR", []int{130, 9}},
		{"KR", []int{3, 4999}}, {"KR", []int{2, 9000}}, {"RK", []int{9, 4}}, {"RK", []int{300, 33}}, {"RK", []int{5, 70}},
		{"KRK", []int{3, 50, 40}}, {"KRK", []int{2, 1000, 3}}, {"RKR", []int{4, 3, 50}}, {"KRKR", []int{2, 3, 4, 70}},
		{"RKRK", []int{30, 3, 20, 5}}, {"KRKRK", []int{2, 3, 4, 5, 6}}, {"KKRR", []int{2, 3, 4, 5}}, {"KRR", []int{3, 0, 5}},
		{"KRK", []int{3, 5, 0}}, {"KR", []int{4, 1}},
	}
	for _, c := range cases {
		n, along := 1, make([]bool, len(c.dims))
		for i, d := range c.dims {
			n *= d
			along[i] = c.shape[i] == 'R'
		}
		for r := kernel.ReduceSum; r <= kernel.ReduceProd; r++ {
			for _, special := range []bool{false, true} {
				x := far(n, 2)
				if special && n >= 10 {
					x[n/3], x[n/2], x[n-1] = -inf, inf, nan
				} else if special {
					continue
				}
				want := reduced(r, x, c.dims, along)
				b := kerneltest.New(t)
				y := b.Out(4 * len(want))
				calls, ok := kernel.Reduce(r, y, b.In(x), c.dims, along, b.Out)
				if !ok {
					t.Fatalf("%s %v is not computed", c.shape, c.dims)
				}
				b.Run(calls...)
				units, size := 2.0, 0.0
				if r == kernel.ReduceLogSumExp || r == kernel.ReduceLogSum || r == kernel.ReduceSum || r == kernel.ReduceMean {
					units, size = 16, 1 // they may be near 0
				}
				for i, w := range want { // products of many numbers
					if math.Abs(w) > math.MaxFloat32 {
						want[i] = math.Copysign(math.Inf(1), w)
					}
				}
				if r == kernel.ReduceProd {
					size = 0x1p-126
				}
				held(t, fmt.Sprintf("reduction %d of %s %v, special %v", r, c.shape, c.dims, special), b.Float32s(y), want, units, size)
			}
		}
	}
	if _, ok := kernel.Reduce(kernel.ReduceSum, 1, 2, []int{2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
		[]bool{true, false, true, false, true, false, true, false, true, false}, nil); ok {
		t.Error("five groups of axes are computed")
	}
}

func TestColumns(t *testing.T) {
	for _, c := range [][3]int{{1, 1, 1}, {3, 7, 5}, {2, 16, 33}, {1, 100, 31}, {2, 600, 3}, {4, 1, 40}} {
		outer, n, inner := c[0], c[1], c[2]
		x := far(outer*n*inner, 20)
		column := func(o, i int) []float32 {
			var v []float32
			for j := range n {
				v = append(v, x[(o*n+j)*inner+i])
			}
			return v
		}
		for kind := range 3 {
			b := kerneltest.New(t)
			y, in := b.Out(4*len(x)), b.In(x)
			var call kernel.Call
			var ok bool
			if kind < 2 {
				call, ok = kernel.SoftmaxColumns(y, in, outer, n, inner, kind == 1)
			} else {
				call, ok = kernel.NormColumns(y, in, outer, n, inner, 1e-5)
			}
			if !ok {
				t.Fatal(c)
			}
			b.Run(call)
			want := make([]float64, len(x))
			for o := range outer {
				for i := range inner {
					v := column(o, i)
					var z []float64
					if kind < 2 {
						z = softmax(v, kind == 1)
					} else {
						mean, variance := moments(v, true)
						for _, a := range v {
							z = append(z, (float64(a)-mean)/math.Sqrt(variance+1e-5))
						}
					}
					for j := range n {
						want[(o*n+j)*inner+i] = z[j]
					}
				}
			}
			held(t, fmt.Sprint(kind, " of ", c), b.Float32s(y), want, 16, 0x1p-20)
		}
	}
}
