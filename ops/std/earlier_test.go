package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

func init() { moreSamples = append(moreSamples, earlierSamples) }

// earlierSamples gives samples for earlier versions that are written otherwise than the newest.
func earlierSamples(o *ir.Op) []sample {
	axes := func(v ...int64) ir.Attr { return ir.A("axes", v) }
	switch fmt.Sprintf("%s-%d", o.Name, o.Since) {
	case "Squeeze-11":
		return []sample{of(normal(2, 1, 5, 1)).with(axes(1)), of(normal(2, 1, 5, 1)), of(normal(1, 5)).with(axes(-2))}
	case "Unsqueeze-11":
		return []sample{of(normal(2, 5)).with(axes(0, -1)), of(normal()).with(axes(0))}
	case "ReduceSum-11", "ReduceMean-13", "ReduceProd-13", "ReduceSumSquare-13", "ReduceL1-13", "ReduceL2-13", "ReduceLogSum-13", "ReduceLogSumExp-13", "ReduceMax-13", "ReduceMin-13":
		return []sample{of(inside(0.1, 2, 2, 5, 3)), of(inside(0.1, 2, 2, 5, 3)).with(axes(-1)), of(inside(0.1, 2, 2, 5, 3)).with(axes(0, 2), ir.A("keepdims", 0)), of(whole(tensor.Int32, 1, 5, 2, 5)).with(axes(1))}
	case "Clip-1", "Clip-6":
		return []sample{of(normal(2, 5)).with(ir.A("min", -0.5), ir.A("max", 0.5)), of(normal(2, 5)).with(ir.A("max", 0.0)), of(normal(4))}
	case "Reshape-1":
		return []sample{of(normal(2, 5, 3)).with(ir.A("shape", []int64{0, -1})), of(normal(2, 5, 4)).with(ir.A("shape", []int64{0, 0, 2, 2}))}
	case "Slice-1":
		return []sample{of(normal(2, 5, 7)).with(ir.A("starts", []int64{1, 0}), ir.A("ends", []int64{4, 1000}), axes(1, 2)), of(normal(5, 7)).with(ir.A("starts", []int64{1, -3}), ir.A("ends", []int64{3, 9}))}
	case "Pad-1":
		return []sample{of(normal(2, 5)).with(ir.A("paddings", []int64{0, 2, 0, 1}), ir.A("value", 0.5))}
	case "Pad-2":
		return []sample{of(normal(2, 5)).with(ir.A("pads", []int64{0, 2, 0, 1}), ir.A("value", 0.5)), of(normal(2, 5)).with(ir.A("pads", []int64{1, 2, 0, 3}), ir.A("mode", "reflect")), of(normal(2, 5)).with(ir.A("pads", []int64{0, -1, 0, 3}), ir.A("mode", "edge"))}
	case "Split-1":
		return []sample{of(normal(2, 5, 6)).with(ir.A("axis", 2)).gives(3), of(normal(2, 5), tensor.FromSlice([]float32{2, 3}, 2)).with(ir.A("axis", 1)).gives(2)}
	case "Split-11":
		return []sample{of(normal(2, 5, 6)).with(ir.A("axis", -1)).gives(3), of(normal(2, 5)).with(ir.A("axis", 1), ir.A("split", []int64{2, 3})).gives(2)}
	case "TopK-1":
		return []sample{of(normal(2, 5, 3)).with(ir.A("axis", 1), ir.A("k", 2)).gives(2)}
	case "Tile-1":
		return []sample{of(normal(2, 5), tensor.Scalar(float32(3)), tensor.Scalar(float32(1)))}
	case "Concat-1":
		return []sample{of(normal(2, 5, 3), normal(2, 1, 3)), of(normal(2, 5), normal(1, 5)).with(ir.A("axis", 0))}
	case "Cast-1":
		return []sample{of(normal(2, 5)).with(ir.A("to", "INT32")), of(normal(2, 5)).with(ir.A("to", "DOUBLE"))}
	case "Selu-1":
		return []sample{of(normal(2, 5))}
	case "Scatter-9":
		return []sample{of(normal(4, 3), whole(tensor.Int64, -4, 4, 2, 3), normal(2, 3)), of(normal(4, 3), whole(tensor.Int64, 0, 3, 4, 1), normal(4, 1)).with(ir.A("axis", 1))}
	case "Add-1", "Add-6", "Sub-1", "Sub-6", "Mul-1", "Mul-6", "Div-1", "Div-6", "Less-1", "Greater-1":
		return []sample{of(normal(2, 5, 3), normal(2, 5, 3)), of(normal(2, 5, 3), normal(3)).with(ir.A("broadcast", 1)), of(normal(2, 5, 3), normal(2, 5)).with(ir.A("broadcast", 1), ir.A("axis", 0)),
			of(normal(2, 5, 3), normal(5)).with(ir.A("broadcast", 1), ir.A("axis", 1)), of(normal(2, 5, 3), normal(5)).with(ir.A("broadcast", 1), ir.A("axis", -2))}
	case "Pow-1":
		return []sample{of(inside(0.1, 2, 2, 5), inside(0.1, 2, 2)).with(ir.A("broadcast", 1), ir.A("axis", 0))}
	case "Equal-1":
		return []sample{of(whole(tensor.Int64, 0, 3, 2, 5), whole(tensor.Int64, 0, 3, 2)).with(ir.A("broadcast", 1), ir.A("axis", 0))}
	case "And-1", "Or-1", "Xor-1":
		return []sample{of(bools(2, 5), bools(2, 5)), of(bools(2, 5, 3), bools(5)).with(ir.A("broadcast", 1), ir.A("axis", 1))}
	case "Softmax-11", "LogSoftmax-11", "Hardmax-11":
		return []sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).with(ir.A("axis", 2)), of(normal(2, 5, 3)).with(ir.A("axis", 0)), of(normal(2, 5)).with(ir.A("axis", -1))}
	}
	return nil
}
