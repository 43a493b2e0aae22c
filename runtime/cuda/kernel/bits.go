package kernel

import (
	"fmt"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// BitsOf is an operation on the bits of integers.
type BitsOf string

// The operations: Not has one operand, the others have two.
const (
	And BitsOf = "And"
	Or  BitsOf = "Or"
	Xor BitsOf = "Xor"
	Not BitsOf = "Not"
)

// HasBits reports whether Bits supports a type.
func HasBits(t tensor.DType) bool {
	d, ok := domainOf(t)
	return ok && d == integer
}

// Bits returns launches that combine the bits of integers of one type. ok is false for other types.
func Bits(op BitsOf, shape []int, out Operand, in ...Operand) (calls []Call, ok bool) {
	list := append([]Operand{out}, in...)
	for _, o := range list {
		if !HasBits(o.Type) || o.Type != out.Type {
			return nil, false
		}
	}
	t := out.Type
	return mapped("bits", fmt.Sprint(op, t), shape, list, func(_ *ptx.Kernel, x []raw) raw {
		a := x[0].elem(t).integer
		switch op {
		case Not:
			a = a.Not()
		case And:
			a = a.And(x[1].elem(t).integer)
		case Or:
			a = a.Or(x[1].elem(t).integer)
		case Xor:
			a = a.Xor(x[1].elem(t).integer)
		}
		return Elem{domain: integer, integer: a}.raw(t)
	}), true
}
