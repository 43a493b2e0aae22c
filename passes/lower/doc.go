// Package lower writes a portable graph in standard operators: what `essmc export` puts into ONNX files, and the bodies of
// the functions that such files may hold. Operators of the domain essm come apart, each in one file here; standard
// operators are brought to the version that is asked for.
//
// It imports ir, the operator packages and passes, and knows neither file formats nor engines. What always holds: the
// result computes what the graph computes, to the tolerance of the operators that came apart; inputs and outputs keep their
// names, and their types, except that optional inputs become required ones or go; constants are computed in float64 and
// rounded once; the same graph gives the same result.
//
// A state-space system with constants becomes products of matrices. Time is cut into chunks of T steps; inside of a chunk
// the convolution is a product with a Toeplitz matrix per group (gathered from the kernel's taps), and what one chunk leaves
// to the next, a few numbers per group, goes through an ONNX Scan over chunks, in float64. Both directions share the
// products. A group is one state between the products with B and C, or a whole head where those would cost more. Package
// passes/raise recognises the form: it reads the system's numbers off the constants, lowers them again, and compares.
//
// The graphs that nodes hold (branches, bodies of loops) are lowered as the graph around them is. Only systems in their
// discrete form come apart there, which is how passes and frontends write them.
//
// A system with a window becomes a grouped Conv, whose state is the inputs that the window still reaches; what a given
// state says of the recurrence itself is not read, as it follows from them. Its taps are computed in the graph from the
// system's numbers, so that package raise finds these however few the taps are; engines fold that when they load the file.
// (In a file that another program has folded the taps alone are left, which give a system only where there are enough.)
// Systems whose numbers are no constants (in the bodies of functions), and those that grow, become a Scan over steps.
package lower

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	_ "github.com/essmc/essmc/ops/essm" // the operators that come apart
)

// Versions of ai.onnx that a graph can be lowered to.
const (
	MinOpset     = 13
	DefaultOpset = 17
	MaxOpset     = 27 // the newest that ops/std knows
)

// Options say what a graph is lowered to.
type Options struct {
	// Opset is the version of ai.onnx; 0: the first one from DefaultOpset that has all operators of the graph.
	Opset int
	// Functions keeps essm operators as nodes, and gives a body for each.
	Functions bool
	// OmitOptional drops inputs that may be left out: all sequences are full, the state before the first step is zero.
	// Otherwise such an input becomes a required one.
	OmitOptional bool
}

// Function is the body of an operator that stays in the graph, for the nodes that apply it in one way.
type Function struct {
	Nodes    []*ir.Node
	Overload string // tells the bodies of one operator apart; empty for the first
	Body     *ir.Graph
}

// Lower gives a copy of g in operators of the wanted version of ai.onnx. Where a node cannot be written in it, the error
// names the node and the version that it needs.
func Lower(g *ir.Graph, o Options) (*ir.Graph, []Function, error) {
	if o.Opset != 0 {
		if o.Opset < MinOpset || o.Opset > MaxOpset {
			return nil, nil, fmt.Errorf("operator set %d: expected %d to %d", o.Opset, MinOpset, MaxOpset)
		}
		return lowerTo(g, o, o.Opset)
	}
	for v := DefaultOpset; ; v++ {
		out, f, err := lowerTo(g, o, v)
		if err == nil || v >= MaxOpset {
			return out, f, err
		}
	}
}
