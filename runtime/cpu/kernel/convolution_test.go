package kernel

import (
	"fmt"
	"math"
	"testing"
)

// TestConvolution checks convolutions against their definition: lengths around powers of two, groups that are not full,
// inputs before the first step, and kernels in both directions.
func TestConvolution(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		r := newRand()
		for _, steps := range []int{1, 2, 3, 4, 7, 8, 16, 31, 33, 64, 79, 80, 90, 128, 250, 256, 300, 512, 600, 1024} {
			for i, features := range []int{1, 8, 13, 40} {
				old, before, after := 0, 0, steps
				switch i {
				case 1:
					old = 5
				case 2:
					before = steps
				}
				if steps%5 == 3 {
					after = 0
					before = steps
				}
				c := NewConvolution(old+steps+max(before, after), features)
				if !c.Prepare(nil) {
					t.Fatal("stopped")
				}
				kernels := make([][2][]float32, features)
				for k := range kernels {
					kernels[k] = [2][]float32{random(r, after), random(r, before)}
				}
				v, past, x := random(r, features*steps), random(r, (features+1)*old), make([]float32, features*steps)
				spec, tmp := make([]float32, c.Len()), make([]float32, c.Scratch())
				for lo := 0; lo < features; lo += c.Group() {
					hi := min(lo+c.Group(), features)
					clear(tmp)
					for k, taps := range kernels[lo:hi] {
						c.Place(tmp, k, taps[0], taps[1])
					}
					c.Transform(spec, tmp, nil)
					f := &Features{X: x[lo:], V: v[lo:], Stride: features, Count: hi - lo, Steps: steps, Old: old}
					if old > 0 {
						f.Past, f.PastStride = past[lo:], features+1
					}
					c.Run(f, spec, tmp, nil)
				}
				worst, size := 0.0, 0.0
				for k := range features {
					for s := range steps {
						sum := 0.0
						for from := -old; from < steps; from++ {
							factor := 0.0
							if lag := s - from; lag >= 0 && lag < after {
								factor = float64(kernels[k][0][lag])
							} else if lag < 0 && -lag <= before {
								factor = float64(kernels[k][1][-lag-1])
							}
							if from < 0 {
								sum += factor * float64(past[(from+old)*(features+1)+k])
							} else {
								sum += factor * float64(v[from*features+k])
							}
						}
						worst = max(worst, math.Abs(sum-float64(x[s*features+k])))
						size = max(size, math.Abs(sum))
					}
				}
				if !(worst <= 5e-7*size) {
					t.Errorf("%d steps, %d features, %d before, %d points: error %g of %g", steps, features, old, c.n, worst, size)
				}
			}
		}
	})
}

// BenchmarkConvolution measures 128 features.
func BenchmarkConvolution(b *testing.B) {
	for _, steps := range []int{256, 1024, 4096, 5000, 16384} {
		b.Run(fmt.Sprint(steps), func(b *testing.B) {
			const features = 128
			r := newRand()
			c := NewConvolution(2*steps, features)
			c.Prepare(nil)
			v, x := random(r, features*steps), make([]float32, features*steps)
			spec, tmp := make([]float32, features/c.Group()*c.Len()), make([]float32, c.Scratch())
			for b.Loop() {
				for lo := 0; lo < features; lo += c.Group() {
					c.Run(&Features{X: x[lo:], V: v[lo:], Stride: features, Count: c.Group(), Steps: steps},
						spec[lo/c.Group()*c.Len():][:c.Len()], tmp, nil)
				}
			}
		})
	}
}
