package reductions_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

var reducedTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64}

// TestReduceNumbers checks reductions of all types over all sets of axes.
func TestReduceNumbers(t *testing.T) {
	r := NewGen(181)
	for _, d := range reducedTypes {
		for _, op := range []string{"Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp"} {
			for _, shape := range [][]int{{3, 5, 2, 7}, {1, 9, 1, 300}, {2, 3, 4, 1}} {
				for set := 1; set < 16; set++ {
					var axes []int64
					for a := range int64(4) {
						if set>>a&1 == 1 {
							axes = append(axes, a)
						}
					}
					in := []Operand{Given(r.Small(d, shape...)), Ints(axes...)}
					switch float := d.IsFloat(); {
					case float:
						on.Node(t, "Reduce"+op, 1, in, ir.A("keepdims", set&1))
					case op == "Mean" || op == "L2" || op == "LogSumExp":
					default:
						on.Same(t, "Reduce"+op, 1, in, ir.A("keepdims", set&1))
					}
				}
			}
		}
	}
	for _, d := range []tensor.DType{tensor.Int8, tensor.Uint8} {
		for _, op := range []string{"ReduceMax", "ReduceMin"} {
			on.Same(t, op, 1, []Operand{Given(r.Typed(d, 3, 50, 7)), Ints(1)})
			on.Same(t, op, 1, []Operand{Given(r.Typed(d, 3, 50, 7)), Ints(0, 2)})
		}
	}
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64} { // not all finite
		for _, op := range []string{"ReduceMax", "ReduceMin", "ReduceLogSumExp"} {
			on.SameAnyhow(t, op, 1, []Operand{Given(r.Typed(d, 3, 5, 7)), Ints(0, 2)})
		}
	}
}

// TestReduceZeros checks that +0 is greater than -0, wherever it is among them.
func TestReduceZeros(t *testing.T) {
	r := NewGen(183)
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64} {
		for _, n := range []int{1, 2, 7, 8, 33, 100} {
			for _, other := range []float64{0, -1, 1} {
				x := tensor.New(d, 3, n, 5)
				for i := range x.Len() {
					v := math.Copysign(0, float64(r.IntN(2)*2-1))
					if r.IntN(3) == 0 {
						v = other
					}
					if i/5%n == 0 && i%5 != 2 {
						v = math.Copysign(0, float64(i%2)-0.5)
					}
					if d == tensor.Float32 {
						tensor.Data[float32](x)[i] = float32(v)
					} else {
						tensor.Data[float64](x)[i] = v
					}
				}
				for _, op := range []string{"ReduceMax", "ReduceMin"} {
					for _, axes := range [][]int64{{1}, {0}, {2}, {0, 2}, {1, 2}, {0, 1, 2}} {
						on.Same(t, op, 1, []Operand{Given(x), Ints(axes...)})
					}
				}
			}
			for _, op := range []string{"ReduceMax", "ReduceMin"} {
				for at := range n {
					x := tensor.New(tensor.Float32, 2, n)
					v := tensor.Data[float32](x)
					for i := range n {
						v[i], v[n+i] = float32(math.Copysign(0, -1)), 0
					}
					v[at], v[n+at] = v[n+at], v[at]
					on.Same(t, op, 1, []Operand{Given(x), Ints(1)})
				}
			}
		}
	}
}

// TestLogSumExp checks rows of float32 of all lengths: many at once, and long ones in parts.
func TestLogSumExp(t *testing.T) {
	r := NewGen(185)
	for _, shape := range [][]int{{1, 1}, {1000, 3}, {5, 7}, {63, 32}, {65, 33}, {3, 1023}, {2, 1025}, {1, 40000}} {
		for _, special := range [][]float64{nil, {math.Inf(-1)}, {math.Inf(1)}, {math.NaN()}} {
			x := r.Floats(20, shape...)
			if special != nil {
				x = With(x, shape[0]*shape[1]/2, special[0])
			}
			on.Node(t, "ReduceLogSumExp", 1, []Operand{Given(x), Ints(1)})
		}
		all := r.Floats(1, shape...)
		for i := range tensor.Data[float32](all) {
			tensor.Data[float32](all)[i] = float32(math.Inf(-1))
		}
		on.Node(t, "ReduceLogSumExp", 1, []Operand{Given(all), Ints(1)})
	}
}
