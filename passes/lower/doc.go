// Package lower rewrites a portable graph in standard operators, for `essmc export`: the graphs of ONNX files, and
// the bodies of functions in them. It expands operators of the domain essm, each in one file, and converts standard
// operators to the requested version.
//
// It imports ir, ir/irtext, the operator packages and passes, and depends on neither file formats nor engines. The
// result computes the same as the graph, to the tolerance of the expanded operators. Inputs and outputs keep their
// names and types, except that optional inputs become required or are dropped. Constants are computed in float64 and
// rounded once. Equal graphs give equal results.
//
// A state-space system with constants becomes matrix products. Time is cut into chunks of T steps. Inside a chunk
// the convolution is a product with one Toeplitz matrix per group, gathered from the kernel's taps. The state
// between chunks, a few numbers per group, goes through an ONNX Scan over chunks, in float64. Both directions share
// the products. A group is one state between the products with B and C, or a whole head where that is cheaper.
//
// Lower lists operators that cannot be recognized in what is written for them, in the graph's metadata
// (ir.MetaOperators). Package passes/raise lowers each operator of the list again, compares the result with the graph,
// and puts the operator back.
//
// Subgraphs of nodes (branches, bodies of loops) are lowered too. There, only systems in discrete form are expanded;
// passes and frontends create no others.
//
// A system with a window becomes a grouped Conv, with the inputs in the window as its state. The recurrence's part
// of a given state is ignored, since it follows from the inputs. Systems whose numbers are not constants (in the bodies
// of functions) become a Scan over steps, and so do systems that grow.
package lower

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	_ "github.com/essmc/essmc/ops/essm" // the operators to expand
)

// The versions of ai.onnx that a graph can be lowered to.
const (
	MinOpset     = 13
	DefaultOpset = 17
	MaxOpset     = 28 // the newest version in ops/std
)

// Options are the options of Lower.
type Options struct {
	// Opset is the version of ai.onnx. If it is 0, Lower takes the first version from DefaultOpset on that has all
	// operators of the graph.
	Opset int
	// Functions keeps essm operators as nodes, and gives a body for each.
	Functions bool
	// OmitOptional drops optional inputs: all sequences are full, and the state before the first step is zero.
	// Otherwise such inputs become required.
	OmitOptional bool
}

// Function is the body of an operator that stays in the graph, for nodes with the same signature.
type Function struct {
	Nodes    []*ir.Node
	Overload string // distinguishes the bodies of one operator; empty for the first
	Body     *ir.Graph
}

// Lower returns a copy of g in operators of the requested version of ai.onnx. If a node cannot be written in that
// version, the error names the node and the version that it needs.
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
