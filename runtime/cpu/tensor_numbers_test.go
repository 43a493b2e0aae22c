package cpu

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// small returns random numbers of an element type: integers from -3 to 3, or up to 6 where there is no sign.
func (r gen) small(d tensor.DType, shape ...int) *tensor.Tensor {
	n, _ := tensor.Size(shape)
	v := make([]float64, n)
	for i := range v {
		switch v[i] = float64(r.IntN(7)); {
		case d == tensor.Float32:
			v[i] = r.NormFloat64()
		case d == tensor.Float64: // sums do not cancel
			v[i] = 0.5 + r.Float64()
		case !unsigned(d):
			v[i] -= 3
		}
	}
	t, err := ops.FromFloat64s(nil, d, v, shape...)
	if err != nil {
		panic(err)
	}
	return t
}

// unsigned reports whether a type has no negative numbers.
func unsigned(d tensor.DType) bool {
	switch d {
	case tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
		return true
	}
	return false
}

// divisors returns numbers other than 0.
func (r gen) divisors(d tensor.DType, shape ...int) *tensor.Tensor {
	n, _ := tensor.Size(shape)
	v := make([]float64, n)
	for i := range v {
		if v[i] = float64(1 + 2*r.IntN(5)); !unsigned(d) && r.IntN(2) == 0 {
			v[i] = -v[i]
		}
	}
	t, err := ops.FromFloat64s(nil, d, v, shape...)
	if err != nil {
		panic(err)
	}
	return t
}

var reducedTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64}

// TestReduceNumbers checks reductions of all types over all sets of axes.
func TestReduceNumbers(t *testing.T) {
	r := newGen(181)
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
					in := []operand{given(r.small(d, shape...)), ints(axes...)}
					switch float := d.IsFloat(); {
					case float:
						checkNode(t, "Reduce"+op, 1, in, ir.A("keepdims", set&1))
					case op == "Mean" || op == "L2" || op == "LogSumExp":
					default:
						sameNode(t, "Reduce"+op, 1, in, ir.A("keepdims", set&1))
					}
				}
			}
		}
	}
	for _, d := range []tensor.DType{tensor.Int8, tensor.Uint8} {
		for _, op := range []string{"ReduceMax", "ReduceMin"} {
			sameNode(t, op, 1, []operand{given(r.typed(d, 3, 50, 7)), ints(1)})
			sameNode(t, op, 1, []operand{given(r.typed(d, 3, 50, 7)), ints(0, 2)})
		}
	}
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64} { // not all finite
		for _, op := range []string{"ReduceMax", "ReduceMin", "ReduceLogSumExp"} {
			sameAnyhow(t, op, 1, []operand{given(r.typed(d, 3, 5, 7)), ints(0, 2)})
		}
	}
}

// TestReduceZeros checks that +0 is greater than -0, wherever it is among them.
func TestReduceZeros(t *testing.T) {
	r := newGen(183)
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
						sameNode(t, op, 1, []operand{given(x), ints(axes...)})
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
					sameNode(t, op, 1, []operand{given(x), ints(1)})
				}
			}
		}
	}
}

func TestArgExtremeOfTypes(t *testing.T) {
	r := newGen(182)
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int8, tensor.Uint8, tensor.Int32, tensor.Int64} {
		for _, op := range []string{"ArgMax", "ArgMin"} {
			for axis := range 3 {
				for last := range 2 {
					attrs := []ir.Attr{ir.A("axis", axis), ir.A("select_last_index", last)}
					sameNode(t, op, 1, []operand{given(r.small(d, 5, 4, 300))}, attrs...)
					sameNode(t, op, 1, []operand{given(r.typed(d, 5, 9, 7))}, attrs...)
				}
			}
		}
	}
}

// TestLogSumExp checks rows of float32 of all lengths: many at once, and long ones in parts.
func TestLogSumExp(t *testing.T) {
	r := newGen(185)
	for _, shape := range [][]int{{1, 1}, {1000, 3}, {5, 7}, {63, 32}, {65, 33}, {3, 1023}, {2, 1025}, {1, 40000}} {
		for _, special := range [][]float64{nil, {math.Inf(-1)}, {math.Inf(1)}, {math.NaN()}} {
			x := r.floats(20, shape...)
			if special != nil {
				x = with(x, shape[0]*shape[1]/2, special[0])
			}
			checkNode(t, "ReduceLogSumExp", 1, []operand{given(x), ints(1)})
		}
		all := r.floats(1, shape...)
		for i := range tensor.Data[float32](all) {
			tensor.Data[float32](all)[i] = float32(math.Inf(-1))
		}
		checkNode(t, "ReduceLogSumExp", 1, []operand{given(all), ints(1)})
	}
}

func TestIntegersOfTypes(t *testing.T) {
	r := newGen(183)
	one := func(d tensor.DType, v float64) operand {
		x, err := ops.FromFloat64s(nil, d, []float64{v})
		if err != nil {
			t.Fatal(err)
		}
		return given(x)
	}
	for _, d := range []tensor.DType{tensor.Int8, tensor.Uint8, tensor.Int32, tensor.Int64, tensor.Int16, tensor.Uint16,
		tensor.Uint32} {
		x := given(r.typed(d, 3, 333))
		for _, op := range []string{"Abs", "Neg", "Sign", "Relu", "BitwiseNot"} {
			if !unsigned(d) || op != "Neg" && op != "Relu" {
				sameNode(t, op, 1, []operand{x})
			}
		}
		sameNode(t, "Clip", 1, []operand{x, one(d, 1), one(d, 3)})
		sameNode(t, "Clip", 1, []operand{x, {}, one(d, 3)})
		sameNode(t, "Clip", 1, []operand{x, one(d, 2)})
		for _, shapes := range [][2][]int{{{3, 5, 7}, {5, 7}}, {{300}, {1}}, {{1}, {5}}, {{4, 1}, {1, 70}}, {{0, 3}, {3}}} {
			a, b := r.typed(d, shapes[0]...), r.small(d, shapes[1]...)
			odd := r.divisors(d, shapes[1]...)
			for _, op := range []string{"Add", "Sub", "Mul", "Min", "Max", "BitwiseAnd", "Equal", "Less", "GreaterOrEqual"} {
				sameNode(t, op, 1, []operand{given(a), given(b)})
			}
			sameNode(t, "Div", 1, []operand{given(a), given(odd)})
			sameNode(t, "Mod", 1, []operand{given(a), given(odd)})
			sameNode(t, "Mod", 1, []operand{given(a), given(odd)}, ir.A("fmod", 1))
			condition := given(r.typed(tensor.Bool, shapes[1]...))
			sameNode(t, "Where", 1, []operand{condition, given(a), given(b)})
		}
	}
	x, y := given(r.typed(tensor.Bool, 3, 37)), given(r.typed(tensor.Bool, 37))
	for _, op := range []string{"And", "Or", "Xor", "Equal"} {
		sameNode(t, op, 1, []operand{x, y})
		sameNode(t, op, 1, []operand{x, given(r.typed(tensor.Bool, 3, 1))})
	}
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64} {
		sameNode(t, "IsNaN", 1, []operand{given(r.typed(d, 3, 37))})
		for i := range 4 {
			sameNode(t, "IsInf", 1, []operand{given(r.typed(d, 3, 37))}, ir.A("detect_positive", i&1),
				ir.A("detect_negative", i>>1))
		}
	}
}

// TestWideElements checks expressions in float64.
func TestWideElements(t *testing.T) {
	r := newGen(184)
	for _, op := range []string{"Exp", "Sqrt", "Tanh", "Sigmoid", "Erf", "Abs", "Neg", "Floor", "Round", "Reciprocal",
		"Gelu", "Softplus", "HardSwish", "Selu", "Mish", "Sign", "Relu"} {
		for _, shape := range [][]int{{}, {0, 3}, {1}, {3, 700}} {
			sameNode(t, op, 1, []operand{given(r.typed(tensor.Float64, shape...))})
		}
	}
	f := func(shape ...int) operand { return given(r.typed(tensor.Float64, shape...)) }
	for _, shapes := range [][2][]int{{{3, 5, 7}, {5, 7}}, {{300}, {1}}, {{}, {5}}, {{4, 1}, {1, 700}}, {{2, 1, 3}, {5, 1}},
		{{}, {}}} {
		for _, op := range []string{"Min", "Max", "Mean", "Sum"} {
			sameNode(t, op, 1, []operand{f(shapes[0]...), f(shapes[1]...), f(shapes[1]...)})
		}
		sameNode(t, "Pow", 1, []operand{f(shapes[0]...), f(shapes[1]...)})
		sameNode(t, "Mod", 1, []operand{f(shapes[0]...), f(shapes[1]...)}, ir.A("fmod", 1))
	}
	sameNode(t, "Clip", 1, []operand{f(3, 50), f(), f()})
	sameNode(t, "PRelu", 1, []operand{f(3, 50), f(50)})
}

func TestMovesOfNumbers(t *testing.T) {
	r := newGen(185)
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64} {
		for axis := range int64(3) {
			for i := range 4 {
				sameNode(t, "CumSum", 1, []operand{given(r.small(d, 3, 50, 7)), fixed(tensor.Scalar(axis - 3))},
					ir.A("exclusive", i&1), ir.A("reverse", i>>1))
			}
		}
	}
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int8, tensor.Uint8, tensor.Int32, tensor.Int64} {
		for axis := range 3 {
			at := r.indices([]int{9}, 5, 7)
			sameNode(t, "OneHot", 1, []operand{given(at), ints(9), given(r.small(d, 2))}, ir.A("axis", axis))
			sameNode(t, "Split", 2, []operand{given(r.small(d, 4, 6, 8)), ints(1, int64(3+2*axis))}, ir.A("axis", axis))
		}
		sameNode(t, "Split", 3, []operand{given(r.small(d, 7, 5))}, ir.A("num_outputs", 3))
	}
}

func TestMaxPoolOfBytes(t *testing.T) {
	r := newGen(186)
	for _, d := range []tensor.DType{tensor.Int8, tensor.Uint8} {
		for _, attrs := range [][]ir.Attr{
			{ir.A("kernel_shape", []int{3, 3})},
			{ir.A("kernel_shape", []int{3, 2}), ir.A("strides", []int{2, 3}), ir.A("pads", []int{1, 1, 2, 0})},
			{ir.A("kernel_shape", []int{2, 3}), ir.A("dilations", []int{2, 1}), ir.A("auto_pad", "SAME_UPPER")},
			{ir.A("kernel_shape", []int{3, 3}), ir.A("strides", []int{2, 2}), ir.A("ceil_mode", 1)},
		} {
			sameNode(t, "MaxPool", 1, []operand{given(r.bytes(d, 2, 3, 17, 13))}, attrs...)
		}
		sameNode(t, "MaxPool", 1, []operand{given(r.bytes(d, 2, 3, 17))}, ir.A("kernel_shape", []int{3}))
	}
}
