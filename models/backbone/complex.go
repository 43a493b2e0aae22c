package backbone

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Complex is complex values, in two parts of equal shapes.
type Complex struct{ Re, Im *Value }

// Complex splits a value whose last axis holds real and imaginary parts.
func (n *Network) Complex(x *Value) Complex {
	part := func(i int64) *Value {
		return n.Do("Gather", []*Value{x, n.Const("part", tensor.Scalar(i))}, ir.A("axis", -1))
	}
	return Complex{part(0), part(1)}
}

// Mul returns the product, element by element.
func (a Complex) Mul(n *Network, b Complex) Complex {
	mul := func(x, y *Value) *Value { return n.Do("Mul", []*Value{x, y}) }
	return Complex{n.Do("Sub", []*Value{mul(a.Re, b.Re), mul(a.Im, b.Im)}),
		n.Do("Add", []*Value{mul(a.Re, b.Im), mul(a.Im, b.Re)})}
}

// Scale returns the product with real numbers.
func (a Complex) Scale(n *Network, by *Value) Complex {
	return Complex{n.Do("Mul", []*Value{a.Re, by}), n.Do("Mul", []*Value{a.Im, by})}
}
