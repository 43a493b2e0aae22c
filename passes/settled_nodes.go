package passes

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// written computes with settled values, in float64, in nodes.
type written struct{ b *ir.Builder }

func (w written) do(op string, in ...*ir.Value) *ir.Value { return w.b.Op("", op, in) }

// double returns v in float64.
func (w written) double(v *ir.Value) *ir.Value { return w.as(v, tensor.Float64) }

// as returns v in another type of numbers.
func (w written) as(v *ir.Value, d tensor.DType) *ir.Value {
	if v == nil || v.Elem() == d {
		return v
	}
	if v.Const != nil {
		t, err := v.Const.Convert(d, false)
		if err != nil {
			w.b.Fail(err)
			return nil
		}
		return w.b.Const(v.Name, t)
	}
	return w.b.Op("", "Cast", []*ir.Value{v}, ir.A("to", int(d)))
}

// number returns a constant.
func (w written) number(x float64) *ir.Value { return w.b.Const("number", tensor.Scalar(x)) }

// shaped returns v with another shape.
func (w written) shaped(v *ir.Value, shape ...int64) *ir.Value {
	return w.do("Reshape", v, w.b.Ints(shape...))
}

// batchNorm returns the scale and shift of a batch norm with fixed statistics: w/√(variance + ε) and b - mean·scale.
func (w written) batchNorm(weight, bias, mean, variance *ir.Value, epsilon float64) (scale, shift *ir.Value) {
	deviation := w.do("Sqrt", w.do("Add", w.double(variance), w.number(epsilon)))
	scale = w.do("Div", w.double(weight), deviation)
	return scale, w.do("Sub", w.double(bias), w.do("Mul", w.double(mean), scale))
}

// affine returns the map that applies s0 and t0 and then s1 and t1.
func (w written) affine(s0, t0, s1, t1 *ir.Value) (scale, shift *ir.Value) {
	return w.do("Mul", s0, s1), w.do("Add", w.do("Mul", t0, s1), t1)
}

// before returns the weights (outputs, inputs) and the bias of a linear layer whose inputs are first scaled and
// shifted.
func (w written) before(weight, bias, scale, shift *ir.Value) (_, _ *ir.Value) {
	long := w.double(weight)
	return w.do("Mul", long, scale), w.do("Add", w.double(bias), w.do("MatMul", long, shift))
}

// after returns those of one whose outputs are then scaled and shifted.
func (w written) after(weight, bias, scale, shift *ir.Value) (_, _ *ir.Value) {
	rows := w.do("Unsqueeze", scale, w.b.Ints(1))
	return w.do("Mul", w.double(weight), rows), w.do("Add", w.do("Mul", w.double(bias), scale), shift)
}
