package graphfuzz

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// recipe adds a node of an operator with operands that fit each other. It reports whether it did.
type recipe func(g *generator, op *ir.Op) bool

var recipes map[string]recipe

func init() {
	recipes = map[string]recipe{
		"If": branch, "Loop": loop, "Scan": scan, "SequenceMap": sequenceMap,
	}
	for _, name := range []string{"ArgMax", "ArgMin", "TopK", "Max", "Min", "ReduceMax", "ReduceMin", "Clip", "Relu", "Sign",
		"Abs", "Neg", "IsNaN", "IsInf", "Equal", "Less", "Greater", "Where", "Concat", "Transpose", "Round", "Cast", "MaxPool",
		"Add", "Sub", "Mul", "Sum", "Mod", "CumSum", "ReduceSum", "Gather", "Reshape", "Identity"} {
		recipes[name] = exceptional
	}
}

// exceptional applies an operator as its signature or a sample says, now and then to an input with infinities, NaN and
// zeros of both signs, or with the largest integers.
func exceptional(g *generator, op *ir.Op) bool {
	if !g.one(3) {
		if s := allSamples()[op]; len(s) > 0 && g.one(3) {
			return g.sample(op, s[g.IntN(len(s))])
		}
		return g.generic(op)
	}
	was := g.wild
	g.wild = true
	d := tensor.Float32
	if ints := slices.DeleteFunc(slices.Clone(op.Elems["T"]), func(d tensor.DType) bool { return !d.IsInt() }); len(ints) > 0 &&
		g.IntN(2) == 0 {
		d = ints[g.IntN(len(ints))]
	}
	shape := g.randomShape(1 + g.IntN(3))
	if g.one(4) {
		g.pool = append(g.pool, g.constant(g.fillOf(odd).make(d, shape)))
	} else {
		g.newInput(d, g.dims(shape), shape, g.fillOf(odd))
	}
	done := g.generic(op) // it takes the last value, most likely
	g.wild = was
	return done
}
