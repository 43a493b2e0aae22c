package scalar_test

import (
	"fmt"

	"github.com/essmc/essmc/ir/scalar"
)

// A fuser composes the expressions of operators that follow each other: here Gelu(x + bias) times a gate.
func Example() {
	x := scalar.Inputs(3)
	add := scalar.Add(x[0], x[1])
	gelu := scalar.Gelu(x[0]).With(add)
	mul := scalar.Mul(x[0], x[1]).With(gelu, x[2])
	fmt.Println(mul)
	fmt.Println(scalar.Expand(mul, nil))
	// Output:
	// gelu(x0 + x1)*x2
	// t0 = x0 + x1; 0.5*t0*erfc((-t0)/1.4142135623730951)*x2
}

// A backend with a kernel for gelu keeps it as an instruction. Where an instruction reads one value that dies, and
// operands of the program otherwise, a value can stay in one register: the whole expression is a chain.
func ExampleLinearize() {
	x := scalar.Inputs(3)
	e := scalar.Mul(scalar.Gelu(scalar.Add(x[0], x[1])), x[2])
	fmt.Print(scalar.Linearize(func(op scalar.Op) bool { return op == scalar.OpGelu }, e))
	// Output:
	// v0 = input 0
	// v1 = input 1
	// v2 = add v0. v1. -> r0
	// v3 = gelu v2. -> r0
	// v4 = input 2
	// v5 = mul v3. v4. -> r0
	// give v5
}

// Subexpressions of constants are computed once, when a program is compiled: a batch norm becomes a product and a sum.
func ExampleHoist() {
	x := scalar.Inputs(5) // x, weight, bias, mean, variance
	scale := scalar.Div(x[1], scalar.Sqrt(scalar.Add(x[4], scalar.Const(1e-5))))
	e := scalar.Add(scalar.Mul(scale, x[0]), scalar.Sub(x[2], scalar.Mul(x[3], scale)))
	rest, hoisted := scalar.Hoist(e, 5, func(reads []int) bool { return reads[0] > 0 })
	fmt.Println(rest)
	for _, h := range hoisted {
		fmt.Println(h)
	}
	// Output:
	// x5*x0 + x6
	// x1/sqrt(x4 + 1e-05)
	// x2 - x3*(x1/sqrt(x4 + 1e-05))
}
