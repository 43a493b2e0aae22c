package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Products of complex numbers. The last axis holds real and imaginary parts.
var (
	ComplexMul     = complexMul("ComplexMul", "A*B", 1)
	ComplexMulConj = complexMul("ComplexMulConj", "A times the conjugate of B", -1)
)

// complexMul registers the product with B's imaginary part multiplied by sign.
func complexMul(name, what string, sign float64) *ir.Op {
	return composed(&ir.Op{Name: name, Doc: what +
		" for complex numbers whose real and imaginary parts are the last axis, with broadcasting.",
		In: ops.Sig("A:T", "B:T"), Out: ops.Sig("C:T"), Elems: types{"T": real3}, Tol: ir.Rounding,
		Body: func(b *ir.Builder, _ *ir.Node, x []*ir.Value) []*ir.Value {
			parts := func(v *ir.Value) (re, im *ir.Value) {
				p := b.Ops("", "Split", 2, vals(v, b.Ints(1, 1)), ir.A("axis", -1))
				return p[0], p[1]
			}
			ar, ai := parts(x[0])
			br, bi := parts(x[1])
			if sign < 0 {
				bi = std(b, "Neg", bi)
			}
			re := std(b, "Sub", std(b, "Mul", ar, br), std(b, "Mul", ai, bi))
			im := std(b, "Add", std(b, "Mul", ar, bi), std(b, "Mul", ai, br))
			return vals(with(b, "Concat", vals(re, im), ir.A("axis", -1)))
		}})
}
