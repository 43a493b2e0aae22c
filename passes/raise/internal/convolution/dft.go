package convolution

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// DFT raises convolutions that are computed by transforms.
var DFT = &passes.Pass{
	Name: "raise-dft",
	Doc: "Transform, product with a fixed spectrum, transform back (DFT of any version, full or one-sided; " +
		"com.microsoft Rfft and Irfft), with pads and slices → essm.SSM if the kernel is a sum of exponentials, else " +
		"essm.LongConv.",
	After: []passes.Reason{
		regions.AfterUpgrade,
		regions.AfterShapes,
	},
	Before: []passes.Reason{
		regions.BeforeFoldKernels,
		regions.BeforeCancelling,
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		anchors := []string{"DFT", "com.microsoft.Irfft"}
		return raiseAll(c, g, "convolution by transform", anchors, func(ix *regions.Index, n *ir.Node) (bool, string) {
			if ix.IsFixed(n.Outputs[0]) {
				return false, ""
			}
			switch n.Op.FullName() {
			case "DFT": // the inverse transform; the search finds the other one
				return n.Attrs.Bool("inverse", false), ""
			case "com.microsoft.Irfft":
				return true, ""
			}
			return false, ""
		})
	},
}
