package raise

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
)

// DFT raises convolutions by transform.
var DFT = &passes.Pass{
	Name: "raise-dft",
	Doc:  "Transform, product with a fixed spectrum, transform back (DFT of any version, full or one-sided; com.microsoft Rfft and Irfft), with pads and slices → essm.SSM if the kernel is a sum of exponentials, else essm.LongConv.",
	After: []passes.Reason{
		{Pass: "upgrade", Why: "what it makes is arranged by operators of the newest versions"},
		{Pass: "raise-shapes", Why: "pads and slices of unknown sizes hide that as many steps come out as went in"},
	},
	Before: []passes.Reason{
		{Pass: "fold", Why: "how a kernel is computed names its exponentials; folded, they have to be fitted"},
		{Pass: "canonicalize", Why: "transposes around what is raised cancel then"},
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		return raiseAll(c, g, "convolution by transform", func(s *surroundings, n *ir.Node) (bool, string) {
			if s.isFixed(n.Outputs[0]) {
				return false, ""
			}
			switch n.Op.FullName() {
			case "DFT": // the transform back; that forth is somewhere behind it
				return n.Attrs.Bool("inverse", false), ""
			case "com.microsoft.Irfft":
				return true, ""
			}
			return false, ""
		})
	},
}
