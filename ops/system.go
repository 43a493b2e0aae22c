package ops

import "github.com/essmc/essmc/ir"

// IsSystem reports whether op is a state-space operator: a linear system that runs along axis 1 of its first input, with a
// state as its last input and last output.
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

// IsFusedSystem reports whether op is a discrete system in one piece, with the projections into its states and out of them.
func IsFusedSystem(op *ir.Op) bool {
	return op.Domain == "essm" && (op.Name == "SSM" || op.Name == "DenseSSM")
}
