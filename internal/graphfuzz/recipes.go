package graphfuzz

import (
	"github.com/essmc/essmc/ir"
)

// recipe adds a node of an operator with operands that fit each other. It reports whether it did.
type recipe func(g *generator, op *ir.Op) bool

var recipes map[string]recipe

func init() {
	recipes = map[string]recipe{
		"If": branch, "Loop": loop, "Scan": scan, "SequenceMap": sequenceMap,
	}
}
