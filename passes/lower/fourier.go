package lower

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// maxTable is the largest size of a matrix of cosines over steps that is written as a constant. Larger ones are
// computed.
const maxTable = 1 << 10

// lowerFourierMix lowers a transform to products, since engines differ in their DFT: of x (L, H) it is C x C' - S x S'
// with the matrices of cosines and sines over steps, C and S, and over features, C' and S'.
func lowerFourierMix(l *lowerer, n *ir.Node) []*ir.Value {
	x := n.Inputs[0]
	width, known := x.Shape()[2].Known()
	if !known {
		l.Fail(fmt.Errorf("expected a known number of features, found %v", x.Type))
		return one(failed)
	}
	wave := func(name string, f func(float64) float64, size int64) *ir.Value {
		return l.fill(name, x.Elem(), func(at []int) float64 {
			return f(2 * math.Pi * float64(int64(at[0])*int64(at[1])%size) / float64(size))
		}, int(size), int(size))
	}
	over := []*ir.Value{wave("cos", math.Cos, width), wave("sin", math.Sin, width)}
	var along [2]*ir.Value
	if length, ok := x.Shape()[1].Known(); ok && length <= maxTable {
		along = [2]*ir.Value{wave("cos_steps", math.Cos, length), wave("sin_steps", math.Sin, length)}
	} else {
		// The angle 2π(jk mod L)/L: the remainder of integers is exact.
		steps := l.op("Squeeze", l.op("Slice", l.op("Shape", x), l.Ints(1), l.Ints(2)))
		numbers := l.op("Range", l.integer("first", 0), steps, l.integer("next", 1))
		turns := l.op("Mod", l.op("Mul", l.op("Unsqueeze", numbers, l.Ints(1)), numbers), steps)
		elem := ir.A("to", int(x.Elem()))
		angle := l.op("Div", l.number("turn", x.Elem(), []float64{2 * math.Pi}),
			l.with("Cast", []*ir.Value{steps}, elem))
		angle = l.op("Mul", l.with("Cast", []*ir.Value{turns}, elem), angle)
		along = [2]*ir.Value{l.op("Cos", angle), l.op("Sin", angle)}
	}
	var parts [2]*ir.Value
	for i := range parts {
		parts[i] = l.op("MatMul", along[i], l.op("MatMul", x, over[i]))
	}
	return one(l.op("Sub", parts[0], parts[1]))
}

// integer returns a constant number.
func (l *lowerer) integer(name string, x int64) *ir.Value { return l.Const(name, tensor.Scalar(x)) }
