package ops

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
)

// MostFolded is the number of inputs up to which operators have an expression. The compilation of an expression cannot
// be interrupted.
const MostFolded = 256

// EvalFold evaluates an operator with more than MostFolded inputs. fold combines a value with further ones, in their
// order, and last is applied to the result. The values between are float64, so the result is the same as by one
// expression.
func EvalFold(c *ir.EvalCtx, in []tensor.Datum, fold func([]scalar.Expr) scalar.Expr,
	last func(x scalar.Expr) scalar.Expr) ([]tensor.Datum, error) {
	args, shape, d, err := operands(c, in, nil)
	if err != nil {
		return nil, err
	}
	for len(args) > 0 {
		n := min(len(args), MostFolded)
		part := args[:n]
		var inputs [MostFolded]scalar.Expr
		for i := range n {
			inputs[i] = scalar.Input(i)
		}
		e := fold(inputs[:n])
		if n == len(args) {
			e = last(e)
		}
		to, toShape := d, shape
		if n < len(args) {
			to = tensor.Float64
			if toShape, err = broadcastElements(part); err != nil {
				return nil, err
			}
		}
		out := New(c, to, toShape...)
		if err := evaluate(c, elementKey{e: e}, c.Node, part, out); err != nil {
			return nil, err
		}
		if n == len(args) {
			return []tensor.Datum{out}, nil
		}
		args = args[n-1:]
		args[0] = elements{out, toShape}
	}
	return nil, nil
}
