package elements_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestIntegersOfTypes(t *testing.T) {
	r := NewGen(183)
	one := func(d tensor.DType, v float64) Operand {
		x, err := ops.FromFloat64s(nil, d, []float64{v})
		if err != nil {
			t.Fatal(err)
		}
		return Given(x)
	}
	for _, d := range []tensor.DType{tensor.Int8, tensor.Uint8, tensor.Int32, tensor.Int64, tensor.Int16, tensor.Uint16,
		tensor.Uint32} {
		x := Given(r.Typed(d, 3, 333))
		for _, op := range []string{"Abs", "Neg", "Sign", "Relu", "BitwiseNot"} {
			if !Unsigned(d) || op != "Neg" && op != "Relu" {
				on.Same(t, op, 1, []Operand{x})
			}
		}
		on.Same(t, "Clip", 1, []Operand{x, one(d, 1), one(d, 3)})
		on.Same(t, "Clip", 1, []Operand{x, {}, one(d, 3)})
		on.Same(t, "Clip", 1, []Operand{x, one(d, 2)})
		for _, shapes := range [][2][]int{{{3, 5, 7}, {5, 7}}, {{300}, {1}}, {{1}, {5}}, {{4, 1}, {1, 70}}, {{0, 3}, {3}}} {
			a, b := r.Typed(d, shapes[0]...), r.Small(d, shapes[1]...)
			odd := r.Divisors(d, shapes[1]...)
			for _, op := range []string{"Add", "Sub", "Mul", "Min", "Max", "BitwiseAnd", "Equal", "Less", "GreaterOrEqual"} {
				on.Same(t, op, 1, []Operand{Given(a), Given(b)})
			}
			on.Same(t, "Div", 1, []Operand{Given(a), Given(odd)})
			on.Same(t, "Mod", 1, []Operand{Given(a), Given(odd)})
			on.Same(t, "Mod", 1, []Operand{Given(a), Given(odd)}, ir.A("fmod", 1))
			condition := Given(r.Typed(tensor.Bool, shapes[1]...))
			on.Same(t, "Where", 1, []Operand{condition, Given(a), Given(b)})
		}
	}
	x, y := Given(r.Typed(tensor.Bool, 3, 37)), Given(r.Typed(tensor.Bool, 37))
	for _, op := range []string{"And", "Or", "Xor", "Equal"} {
		on.Same(t, op, 1, []Operand{x, y})
		on.Same(t, op, 1, []Operand{x, Given(r.Typed(tensor.Bool, 3, 1))})
	}
	for _, d := range []tensor.DType{tensor.Float32, tensor.Float64} {
		on.Same(t, "IsNaN", 1, []Operand{Given(r.Typed(d, 3, 37))})
		for i := range 4 {
			on.Same(t, "IsInf", 1, []Operand{Given(r.Typed(d, 3, 37))}, ir.A("detect_positive", i&1),
				ir.A("detect_negative", i>>1))
		}
	}
}

func TestArithmeticOfTypes(t *testing.T) {
	r := NewGen(172)
	for _, shapes := range [][2][]int{{{3, 5, 7}, {5, 7}}, {{300}, {1}}, {{}, {5}}, {{4, 1}, {1, 700}},
		{{2, 1, 3}, {5, 1}}, {{0, 3}, {3}}, {{}, {}}, {{2, 1, 1}, {1, 3, 1}}} {
		for _, d := range []tensor.DType{tensor.Int32, tensor.Int64, tensor.Float64, tensor.Uint8} {
			a, b := Given(r.Typed(d, shapes[0]...)), Given(r.Typed(d, shapes[1]...))
			for _, op := range []string{"Add", "Sub", "Mul", "Min", "Max", "Div", "BitwiseAnd", "BitwiseOr", "BitwiseXor"} {
				switch float := d == tensor.Float64; {
				case float && (op[0] == 'B' || op[0] == 'M' && op != "Mul"), !float && op == "Div":
				default:
					on.Same(t, op, 1, []Operand{a, b})
					on.Same(t, op, 1, []Operand{b, a})
				}
			}
			for _, op := range []string{"Less", "Equal", "Greater", "LessOrEqual", "GreaterOrEqual"} {
				if d != tensor.Uint8 {
					on.Same(t, op, 1, []Operand{a, b})
					on.Same(t, op, 1, []Operand{b, a})
				}
			}
		}
		on.Same(t, "Not", 1, []Operand{Given(r.Typed(tensor.Bool, shapes[0]...))})
	}
}
