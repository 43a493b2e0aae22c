package kernel_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// pooled computes a kernel.Pool, window by window.
func pooled(kind kernel.PoolKind, x []float32, planes int, over []kernel.PoolAxis) (y []float64, at []int64) {
	size, places := 1, 1
	for _, a := range over {
		size *= a.In
		places *= a.Out
	}
	for p := range planes {
		for o := range places {
			index, rest := make([]int, len(over)), o
			for i := len(over) - 1; i >= 0; i-- {
				index[i], rest = rest%over[i].Out, rest/over[i].Out
			}
			best, from, sum, count, padded := math.Inf(-1), -1, 0.0, 0, 0
			var walk func(i, place int, inside bool)
			walk = func(i, place int, inside bool) {
				if i == len(over) {
					padded++
					if !inside {
						return
					}
					v := float64(x[p*size+place])
					if from < 0 || v > best || v != v && best == best {
						best, from = v, place
					}
					count++
					switch kind {
					case kernel.PoolL1:
						sum += math.Abs(v)
					case kernel.PoolL2:
						sum += v * v
					default:
						sum += v
					}
					return
				}
				a := over[i]
				for tap := range a.Taps {
					if j := index[i]*a.Stride - a.Begin + tap*a.Dilation; j < a.In+a.End {
						walk(i+1, place*a.In+j, inside && j >= 0 && j < a.In)
					}
				}
			}
			walk(0, 0, true)
			switch kind {
			case kernel.PoolMax:
				sum = best
			case kernel.PoolAverage:
				sum /= float64(max(1, count))
			case kernel.PoolAverageAll:
				sum /= float64(max(1, padded))
			case kernel.PoolL2:
				sum = math.Sqrt(sum)
			}
			y, at = append(y, sum), append(at, int64(p*size+from))
		}
	}
	return y, at
}

func TestPool(t *testing.T) {
	cases := [][]kernel.PoolAxis{
		{{In: 9, Out: 5, Taps: 2, Stride: 2, Dilation: 1, End: 1}},
		{{In: 70, Out: 69, Taps: 3, Stride: 1, Dilation: 2, Begin: 2, End: 1}},
		{{In: 1, Out: 1, Taps: 1, Stride: 1, Dilation: 1}},
		{{In: 5, Out: 4, Taps: 3, Stride: 2, Dilation: 1, Begin: 2, End: 2}, {In: 6, Out: 3, Taps: 2, Stride: 2, Dilation: 1}},
		{{In: 3, Out: 3, Taps: 2, Stride: 1, Dilation: 1, Begin: 1}, {In: 4, Out: 2, Taps: 1, Stride: 2, Dilation: 1},
			{In: 5, Out: 4, Taps: 3, Stride: 1, Dilation: 1, Begin: 1}},
		{{In: 2, Out: 4, Taps: 1, Stride: 1, Dilation: 1, Begin: 1, End: 1}}, // windows completely in the pads
	}
	for _, over := range cases {
		const planes = 3
		n := planes
		for _, a := range over {
			n *= a.In
		}
		x := far(n, 1)
		if n > 20 {
			x[n/3], x[n/2] = float32(math.NaN()), float32(math.Inf(-1))
		}
		for kind := kernel.PoolMax; kind <= kernel.PoolL2; kind++ {
			for _, places := range []bool{false, true} {
				if places && kind != kernel.PoolMax {
					continue
				}
				want, wantAt := pooled(kind, x, planes, over)
				b := kerneltest.New(t)
				y := b.Out(4 * len(want))
				var at kernel.Buffer
				if places {
					at = b.Out(8 * len(want))
				}
				call, ok := kernel.Pool(kind, y, at, b.In(x), planes, over)
				if !ok {
					t.Fatal(over)
				}
				b.Run(call)
				name := fmt.Sprintf("kind %d of %+v", kind, over)
				held(t, name, b.Float32s(y), want, 2, 1)
				if places {
					for i, a := range b.Int64s(at) {
						if a != wantAt[i] {
							t.Fatalf("%s: place %d: expected %d, found %d", name, i, wantAt[i], a)
						}
					}
				}
			}
		}
	}
}

func TestPick(t *testing.T) {
	for _, c := range [][3]int{{1, 1, 1}, {3, 5, 7}, {2, 40, 33}, {3, 600, 3}, {2, 9, 64}} {
		batch, length, features := c[0], c[1], c[2]
		x := far(batch*length*features, 1)
		for mode := kernel.PickPool; mode <= kernel.PickFirst; mode++ {
			for _, given := range [][]int64{nil, {int64(length), int64(length+1) / 2, 0}, {1, -1, int64(length) + 1}} {
				b := kerneltest.New(t)
				y := b.Out(4 * batch * features)
				var lengths kernel.Buffer
				if given != nil {
					lengths = b.In(given[:batch])
				}
				fault, refused := b.In([]int32{0}), int32(0)
				call, ok := kernel.Pick(mode, y, b.In(x), lengths, fault, batch, length, features)
				if !ok {
					t.Fatal(c)
				}
				b.Run(call)
				want := make([]float64, batch*features)
				for s := range batch {
					n := length
					if given != nil {
						n = int(given[s])
					}
					for f := range features {
						at := func(t int) float64 { return float64(x[(s*length+t)*features+f]) }
						sum := 0.0
						switch {
						case n < 1 || n > length:
							sum, refused = math.NaN(), 1
						case mode == kernel.PickFirst:
							sum = at(0)
						case mode == kernel.PickLast:
							sum = at(n - 1)
						default:
							for t := range n {
								sum += at(t)
							}
							if mode == kernel.PickPool {
								sum /= float64(n)
							}
						}
						want[s*features+f] = sum
					}
				}
				held(t, fmt.Sprintf("mode %d of %v, lengths %v", mode, c, given), b.Float32s(y), want, 2, 1)
				if found := b.Int32s(fault)[0]; found != refused {
					t.Errorf("mode %d of %v, lengths %v: the fault is %d", mode, c, given, found)
				}
			}
		}
	}
}

func TestPair(t *testing.T) {
	for _, c := range [][2]int{{1, 1}, {3, 5}, {2, 300}} {
		pairs, h := c[0], c[1]
		x := far(2*pairs*h, 0)
		for _, nli := range []bool{false, true} {
			var want []float64
			for p := range pairs {
				a, b := x[p*h:(p+1)*h], x[(pairs+p)*h:(pairs+p+1)*h]
				for kind := range map[bool]int{false: 2, true: 4}[nli] {
					for i := range h {
						want = append(want, [...]float64{float64(a[i]), float64(b[i]), float64(a[i] - b[i]), float64(a[i] * b[i])}[kind])
					}
				}
			}
			b := kerneltest.New(t)
			y := b.Out(4 * len(want))
			call, ok := kernel.Pair(y, b.In(x), pairs, h, nli)
			if !ok {
				t.Fatal(c)
			}
			b.Run(call)
			held(t, fmt.Sprint(c, nli), b.Float32s(y), want, 0, 0)
		}
	}
}
