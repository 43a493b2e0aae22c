// Package raise recognizes layers that an exporter has written in primitive operators, and replaces them by essm
// operators: state-space layers in the form of convolutions, transforms and recurrences, and the norms, activations
// and linear layers around them.
//
// The packages below internal recognize convolutions, recurrences, and idioms of exporters. This package has the
// pipeline, the passes that prepare a graph, and the one that reads files of essmc itself.
//
// It imports ir, ir/irtext, the operator packages, passes, and passes/lower, whose nodes it recognizes by lowering an
// operator again. It depends on neither file formats nor machines. A raised graph computes the same as before, to the
// tolerance of its new operators. Other parts of the graph do not change. A near miss leaves a note with the condition
// that failed. Each form is in its own file, with its cases in testdata.
package raise

import (
	"slices"

	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/convolution"
	"github.com/essmc/essmc/passes/raise/internal/idiom"
	"github.com/essmc/essmc/passes/raise/internal/recurrence"
)

// The passes that prepare a graph, and those that recognize convolutions, recurrences and other layers.
var (
	preparations = []*passes.Pass{Exported, Upgrade, Shapes}
	convolutions = []*passes.Pass{convolution.Conv, convolution.DFT, convolution.Toeplitz, convolution.RunningSum}
	recurrences  = []*passes.Pass{recurrence.Scan, recurrence.Loop, recurrence.Unrolled, recurrence.ParallelSystem,
		recurrence.Step}
	layers = []*passes.Pass{idiom.Integers, passes.Fold, passes.Canonicalize, passes.CSE, recurrence.Selective,
		recurrence.Parallel, idiom.Activation, idiom.Norm, idiom.Linear, idiom.Layout, idiom.Reverse}
)

// Pipeline returns the passes that run on an imported graph before passes.Pipeline, in order. Each pass states the
// reasons for its place.
func Pipeline() []*passes.Pass { return slices.Concat(preparations, convolutions, recurrences, layers) }
