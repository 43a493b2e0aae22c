package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// far returns numbers around middle.
func far(n int, middle float64) []float32 {
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(middle + rng.NormFloat64())
	}
	return x
}

// held fails unless the numbers are those expected, within so many of 2^-24 of the greatest of size.
func held(t *testing.T, name string, got []float32, want []float64, units, size float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: expected %d numbers, found %d", name, len(want), len(got))
	}
	for i, w := range want {
		if g := float64(got[i]); math.IsNaN(g) != math.IsNaN(w) ||
			!math.IsNaN(w) && g != w && !(math.Abs(g-w) <= units*0x1p-24*max(size, math.Abs(w))) {
			t.Fatalf("%s: number %d: expected %v, found %v: %.1f units", name, i, w, got[i],
				math.Abs(g-w)/0x1p-24/max(size, math.Abs(w)))
		}
	}
}

// widths has one of each form of rows, and each way to read them.
var widths = []int{1, 2, 3, 7, 8, 20, 33, 64, 100, 255, 256, 1000, 1022, 1023, 1025, 2052, 8191, 8194, 9001}

func TestNorm(t *testing.T) {
	for _, width := range widths {
		rows := 5
		if width > 2000 {
			rows = 2
		}
		for _, middle := range []float64{0, 300} {
			x, scale, shift := far(rows*width, middle), far(width, 1), far(width, 0)
			for _, centered := range []bool{true, false} {
				for _, affine := range []int{0, 1, 2} {
					b := kerneltest.New(t)
					y := b.Out(4 * len(x))
					n := kernel.Norm{Width: width, Centered: centered, Scale: affine > 0, Shift: affine > 1, Statistics: affine == 1}
					o := kernel.NormOperands{Y: y, X: b.In(x), Scale: b.In(scale), Shift: b.In(shift), Mean: b.Out(4 * rows),
						Factor: b.Out(4 * rows), Rows: rows, Epsilon: 1e-5, Gain: 1}
					b.Run(n.Call(o))
					want, means, factors := make([]float64, len(x)), make([]float64, rows), make([]float64, rows)
					for r := range rows {
						row := x[r*width : (r+1)*width]
						mean, variance := moments(row, centered)
						means[r], factors[r] = mean, 1/math.Sqrt(variance+1e-5)
						for i, v := range row {
							z := (float64(v) - mean) * factors[r]
							if n.Scale {
								z *= float64(scale[i])
							}
							if n.Shift {
								z += float64(shift[i])
							}
							want[r*width+i] = z
						}
					}
					name := fmt.Sprintf("width %d, around %v, %+v", width, middle, n)
					held(t, name, b.Float32s(y), want, 8, 1)
					if n.Statistics {
						held(t, name+": factor", b.Float32s(o.Factor), factors, 1, 0)
						if centered {
							held(t, name+": mean", b.Float32s(o.Mean), means, 1, 0)
						}
					}
				}
			}
		}
	}
}

func moments(x []float32, centered bool) (mean, variance float64) {
	if centered {
		for _, v := range x {
			mean += float64(v) / float64(len(x))
		}
	}
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	return mean, variance
}

// The sum of two tensors is normalized, and written if requested; gain and offset come from essm.ScalarNorm.
func TestNormOfSum(t *testing.T) {
	for _, width := range []int{3, 40, 1300, 8200} {
		const rows = 3
		a, c := far(rows*width, 1), far(rows*width+1, 2)[1:]
		b := kerneltest.New(t)
		y, total := b.Out(4*len(a)), b.Out(4*len(a))
		b.Run(kernel.Norm{Width: width, Centered: true, Sum: true, Kept: true}.Call(kernel.NormOperands{Y: y, X: b.In(a),
			Add: b.In(c), Total: total, Rows: rows, Gain: 1.5, Offset: 0.25}))
		want, sums := make([]float64, len(a)), make([]float64, len(a))
		for r := range rows {
			row := make([]float32, width)
			for i := range row {
				row[i] = a[r*width+i] + c[r*width+i]
				sums[r*width+i] = float64(row[i])
			}
			mean, variance := moments(row, true)
			for i, v := range row {
				want[r*width+i] = 1.5 / math.Sqrt(variance) * (float64(v) - mean + 0.25)
			}
		}
		held(t, fmt.Sprint("sums of width ", width), b.Float32s(total), sums, 0, 0)
		held(t, fmt.Sprint("width ", width), b.Float32s(y), want, 8, 1)
	}
}

// softmax returns the softmax of the numbers, or its logarithm.
func softmax(x []float32, logarithm bool) []float64 {
	most, sum := math.Inf(-1), 0.0
	for _, v := range x {
		most = max(most, float64(v))
	}
	for _, v := range x {
		sum += math.Exp(float64(v) - most)
	}
	y := make([]float64, len(x))
	for i, v := range x {
		if y[i] = math.Exp(float64(v)-most) / sum; logarithm {
			y[i] = float64(v) - most - math.Log(sum)
		}
	}
	return y
}

func TestSoftmax(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, width := range widths {
		rows := 7
		if width > 2000 {
			rows = 2
		}
		x := far(rows*width, 50)
		if rows == 7 {
			x[width], x[2*width], x[3*width] = -inf, inf, nan
			for i := range width {
				x[4*width+i] = -inf
			}
		}
		for _, logarithm := range []bool{false, true} {
			b := kerneltest.New(t)
			y := b.Out(4 * len(x))
			b.Run(kernel.SoftmaxRows(y, b.In(x), rows, width, logarithm))
			var want []float64
			for r := range rows {
				want = append(want, softmax(x[r*width:(r+1)*width], logarithm)...)
			}
			held(t, fmt.Sprintf("width %d, logarithm %v", width, logarithm), b.Float32s(y), want, 16, 0x1p-20)
		}
	}
}

// Rows are read once and written once, in whole sectors where their widths are multiples of one.
func TestRowTraffic(t *testing.T) {
	for _, width := range []int{8, 64, 100, 256, 264, 512, 1000, 1024, 1023, 2048, 8192} {
		rows := 64
		if width > 1024 {
			rows = 8
		}
		x := far(rows*width, 0)
		for _, name := range []string{"norm", "softmax", "logsoftmax"} {
			b := kerneltest.New(t)
			y, in := b.Out(4*len(x)), b.In(x)
			call := kernel.SoftmaxRows(y, in, rows, width, name == "logsoftmax")
			if name == "norm" {
				call = kernel.Norm{Width: width, Centered: true}.Call(kernel.NormOperands{Y: y, X: in, Rows: rows, Epsilon: 1e-5, Gain: 1})
			}
			b.ResetCounters()
			b.Run(call)
			n := b.Counters().Total()
			least := int64(4 * len(x))
			read, written := n.ReadWanted, n.WrittenWanted
			if width%8 == 0 {
				read, written = n.ReadMoved, n.WrittenMoved
			}
			if n.ReadDistinct != least || n.WrittenDistinct != least || 10*read > 11*least || 10*written > 11*least {
				t.Errorf("%s of width %d: expected %d bytes read and written, found %+v", name, width, least, n)
			}
			if 20*(n.Wavefronts-n.LeastWavefronts) > n.SharedAccesses {
				t.Errorf("%s of width %d: %d of %d accesses to shared memory conflict", name, width,
					n.Wavefronts-n.LeastWavefronts, n.SharedAccesses)
			}
		}
	}
}
