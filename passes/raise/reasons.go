package raise

import "github.com/essmc/essmc/passes"

// Reasons for the order of passes that several passes share.
var (
	afterUpgrade       = passes.Reason{Pass: "upgrade", Why: "it adds operators of the newest versions"}
	afterUpgradeBodies = passes.Reason{Pass: "upgrade", Why: "it reads bodies of operators of the newest versions"}
	afterShapes        = passes.Reason{Pass: "raise-shapes",
		Why: "with pads and slices of unknown sizes, the number of steps after them is not known"}

	beforeCancelling  = passes.Reason{Pass: "canonicalize", Why: "transposes around the new operators cancel then"}
	beforeFoldKernels = passes.Reason{Pass: "fold",
		Why: "the computation of a kernel shows its exponentials; once folded, they must be fitted"}
	beforeFoldRecurrences = passes.Reason{Pass: "fold",
		Why: "it computes parameters of a recurrence in float64; folding rounds them"}
	beforeFuse = passes.Reason{Pass: "fuse", Why: "the scans and projections that it makes become one system"}
)
