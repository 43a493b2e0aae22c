package scalar

import (
	"slices"
	"testing"
)

// TestLinear finds the sets of operands in which expressions are linear.
func TestLinear(t *testing.T) {
	x := Inputs(4)
	sum := Add(Add(x[0], x[1]), Sub(x[2], x[3]))
	many := Input(0)
	for i := range 20 {
		many = Add(many, Input(i+1))
	}
	for _, c := range []struct {
		name string
		e    Expr
		want [][]int
	}{
		{"a sum", sum, [][]int{{0, 1, 2, 3}}},
		{"a product", Mul(x[0], x[1]), [][]int{{0}, {1}}},
		{"a quotient", Div(x[0], x[1]), [][]int{{0}}},
		{"scale and shift", FMA(x[1], x[0], x[2]), [][]int{{0, 2}, {1, 2}}},
		{"with constants", Add(Mul(x[0], Const(3)), Const(1)), nil},
		{"a choice", Select(x[0], x[1], Neg(x[2])), [][]int{{1, 2}}},
		{"a choice of zero", Select(x[0], x[1], Const(0)), [][]int{{1}}},
		{"a square", Mul(x[0], x[0]), nil},
		{"a kink", Relu(x[0]), nil},
		{"a comparison", Less(x[0], x[1]), nil},
		{"of rounded numbers", Mul(Float16(x[0]), Exp(x[1])), [][]int{{0}}},
		{"a product of sums", Mul(Add(x[0], x[1]), Sub(x[2], x[3])), [][]int{{0, 1}, {2, 3}}},
		{"nothing", Const(0), nil},
	} {
		if got := Linear(c.e); !slices.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s, %v: linear in %v, expected %v", c.name, c.e, got, c.want)
		}
	}
	if got := Linear(many); len(got) != 1 || len(got[0]) != 21 {
		t.Errorf("a sum of 21: linear in %v", got)
	}
}
