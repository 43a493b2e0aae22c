package graphfuzz

import (
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
		"Abs", "Neg", "IsNaN", "IsInf", "Equal", "Less", "Greater", "Where", "Concat", "Transpose", "Round", "Cast", "MaxPool"} {
		recipes[name] = exceptional
	}
}

// exceptional applies an operator as its signature or a sample says, now and then to an input with infinities, NaN and
// zeros of both signs.
func exceptional(g *generator, op *ir.Op) bool {
	if !g.one(3) {
		if s := allSamples()[op]; len(s) > 0 && g.one(3) {
			return g.sample(op, s[g.IntN(len(s))])
		}
		return g.generic(op)
	}
	was := g.wild
	g.wild = true
	shape := g.randomShape(1 + g.IntN(3))
	g.newInput(tensor.Float32, g.dims(shape), shape, g.fillOf(odd))
	done := g.generic(op) // it takes the last value, most likely
	g.wild = was
	return done
}
