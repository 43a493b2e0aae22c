package record

// Operators without kernels.
func init() {
	Register(
		Record{Op: "If", Program: Branches},
		Record{Op: "Loop", Program: Iterations},
		Record{Op: "Scan", Program: Iterations},
		Record{Op: "essm.Block", Program: PartOfGraph},

		Record{Op: "CausalConvWithState", Whole: true},
	)
}
