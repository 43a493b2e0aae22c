package regions

import "github.com/essmc/essmc/passes"

// Reasons for the order of passes that several passes share.
var (
	AfterUpgrade       = passes.Reason{Pass: "upgrade", Why: "it adds operators of the newest versions"}
	AfterUpgradeBodies = passes.Reason{Pass: "upgrade", Why: "it reads bodies of operators of the newest versions"}
	AfterShapes        = passes.Reason{Pass: "raise-shapes",
		Why: "with pads and slices of unknown sizes, the number of steps after them is not known"}

	BeforeCancelling  = passes.Reason{Pass: "canonicalize", Why: "transposes around the new operators cancel then"}
	BeforeFoldKernels = passes.Reason{Pass: "fold",
		Why: "the computation of a kernel shows its exponentials; once folded, they must be fitted"}
	BeforeFoldRecurrences = passes.Reason{Pass: "fold",
		Why: "it computes parameters of a recurrence in float64; folding rounds them"}
	BeforeFuse = passes.Reason{Pass: "fuse", Why: "the scans and projections that it makes become one system"}
)
