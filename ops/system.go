package ops

import (
	"fmt"

	"github.com/essmc/essmc/ir"
)

// IsSystem reports whether op is a state-space operator: a linear system that runs along axis 1 of its first input,
// with a state as its last input and last output.
func IsSystem(op *ir.Op) bool {
	if op.Domain != "essm" {
		return false
	}
	switch op.Name {
	case "StateSpace", "SSM", "DenseSSM", "Scan", "DenseScan", "DPLR", "DPLRScan":
		return true
	}
	return false
}

// IsFusedSystem reports whether op is a discrete system in one piece, with the projections into its states and out of
// them.
func IsFusedSystem(op *ir.Op) bool {
	return op.Domain == "essm" && (op.Name == "SSM" || op.Name == "DenseSSM")
}

// CheckForm returns an error if a node cannot take the form (ir.EvalCtx.Kernel): a diagonal plus low-rank system has
// the form chunked only by its eigenvectors, whose condition number has been found too large.
func CheckForm(n *ir.Node, form string) error {
	if n.Op.Domain != "essm" || n.Op.Name != "DPLR" && n.Op.Name != "DPLRScan" || form != "chunked" {
		return nil
	}
	if k := n.Attrs.Float("condition", 0); k > 0 {
		return fmt.Errorf("%v: the form chunked needs a diagonal system, but the eigenvectors of this one have "+
			"condition number %.2g; expected scan, fft, direct or auto", n, k)
	}
	return nil
}
