package cpu

// Records of operators that have no kernel of their own.
func init() {
	register(
		record{op: "Constant", shapes: true},
		record{op: "Shape", shapes: true},
		record{op: "Size", shapes: true},

		record{op: "If", program: branches},
		record{op: "Loop", program: iterations},
		record{op: "Scan", program: iterations},
		record{op: "essm.Block", program: partOfGraph},

		record{op: "AffineGrid", strict: true},
		record{op: "CausalConvWithState", strict: true},
		record{op: "Clip", strict: true},
	)
}
