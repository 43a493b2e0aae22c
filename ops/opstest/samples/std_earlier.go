package samples

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
)

// earlierSamples returns samples for earlier versions whose form differs from the newest.
func earlierSamples(o *ir.Op) []opstest.Sample {
	axes := func(v ...int64) ir.Attr { return ir.A("axes", v) }
	switch fmt.Sprintf("%s-%d", o.Name, o.Since) {
	case "Squeeze-11":
		return []opstest.Sample{of(normal(2, 1, 5, 1)).With(axes(1)), of(normal(2, 1, 5, 1)),
			of(normal(1, 5)).With(axes(-2))}
	case "Unsqueeze-11":
		return []opstest.Sample{of(normal(2, 5)).With(axes(0, -1)), of(normal()).With(axes(0))}
	case "ReduceSum-11", "ReduceMean-13", "ReduceProd-13", "ReduceSumSquare-13", "ReduceL1-13", "ReduceL2-13",
		"ReduceLogSum-13", "ReduceLogSumExp-13", "ReduceMax-13", "ReduceMin-13":
		return []opstest.Sample{of(inside(0.1, 2, 2, 5, 3)), of(inside(0.1, 2, 2, 5, 3)).With(axes(-1)),
			of(inside(0.1, 2, 2, 5, 3)).With(axes(0, 2), ir.A("keepdims", 0)),
			of(whole(tensor.Int32, 1, 5, 2, 5)).With(axes(1))}
	case "Clip-1", "Clip-6":
		return []opstest.Sample{of(normal(2, 5)).With(ir.A("min", -0.5), ir.A("max", 0.5)),
			of(normal(2, 5)).With(ir.A("max", 0.0)), of(normal(4))}
	case "Reshape-1":
		return []opstest.Sample{of(normal(2, 5, 3)).With(ir.A("shape", []int64{0, -1})),
			of(normal(2, 5, 4)).With(ir.A("shape", []int64{0, 0, 2, 2}))}
	case "Slice-1":
		return []opstest.Sample{of(normal(2, 5, 7)).With(ir.A("starts", []int64{1, 0}), ir.A("ends", []int64{4, 1000}),
			axes(1, 2)), of(normal(5, 7)).With(ir.A("starts", []int64{1, -3}), ir.A("ends", []int64{3, 9}))}
	case "Pad-1":
		return []opstest.Sample{of(normal(2, 5)).With(ir.A("paddings", []int64{0, 2, 0, 1}), ir.A("value", 0.5))}
	case "Pad-2":
		return []opstest.Sample{of(normal(2, 5)).With(ir.A("pads", []int64{0, 2, 0, 1}), ir.A("value", 0.5)),
			of(normal(2, 5)).With(ir.A("pads", []int64{1, 2, 0, 3}), ir.A("mode", "reflect")),
			of(normal(2, 5)).With(ir.A("pads", []int64{0, -1, 0, 3}), ir.A("mode", "edge"))}
	case "Split-1":
		return []opstest.Sample{of(normal(2, 5, 6)).With(ir.A("axis", 2)).Gives(3),
			of(normal(2, 5), tensor.FromSlice([]float32{2, 3}, 2)).With(ir.A("axis", 1)).Gives(2)}
	case "Split-11":
		return []opstest.Sample{of(normal(2, 5, 6)).With(ir.A("axis", -1)).Gives(3),
			of(normal(2, 5)).With(ir.A("axis", 1), ir.A("split", []int64{2, 3})).Gives(2)}
	case "TopK-1":
		return []opstest.Sample{of(normal(2, 5, 3)).With(ir.A("axis", 1), ir.A("k", 2)).Gives(2)}
	case "Tile-1":
		return []opstest.Sample{of(normal(2, 5), tensor.Scalar(float32(3)), tensor.Scalar(float32(1)))}
	case "Concat-1":
		return []opstest.Sample{of(normal(2, 5, 3), normal(2, 1, 3)),
			of(normal(2, 5), normal(1, 5)).With(ir.A("axis", 0))}
	case "Cast-1":
		return []opstest.Sample{of(normal(2, 5)).With(ir.A("to", "INT32")), of(normal(2, 5)).With(ir.A("to", "DOUBLE"))}
	case "Selu-1":
		return []opstest.Sample{of(normal(2, 5))}
	case "Scatter-9":
		return []opstest.Sample{of(normal(4, 3), whole(tensor.Int64, -4, 4, 2, 3), normal(2, 3)),
			of(normal(4, 3), whole(tensor.Int64, 0, 3, 4, 1), normal(4, 1)).With(ir.A("axis", 1))}
	case "Add-1", "Add-6", "Sub-1", "Sub-6", "Mul-1", "Mul-6", "Div-1", "Div-6", "Less-1", "Greater-1":
		return []opstest.Sample{of(normal(2, 5, 3), normal(2, 5, 3)),
			of(normal(2, 5, 3), normal(3)).With(ir.A("broadcast", 1)),
			of(normal(2, 5, 3), normal(2, 5)).With(ir.A("broadcast", 1), ir.A("axis", 0)),
			of(normal(2, 5, 3), normal(5)).With(ir.A("broadcast", 1), ir.A("axis", 1)),
			of(normal(2, 5, 3), normal(5)).With(ir.A("broadcast", 1), ir.A("axis", -2))}
	case "Pow-1":
		return []opstest.Sample{of(inside(0.1, 2, 2, 5), inside(0.1, 2, 2)).With(ir.A("broadcast", 1), ir.A("axis", 0))}
	case "Equal-1":
		return []opstest.Sample{of(whole(tensor.Int64, 0, 3, 2, 5),
			whole(tensor.Int64, 0, 3, 2)).With(ir.A("broadcast", 1), ir.A("axis", 0))}
	case "And-1", "Or-1", "Xor-1":
		return []opstest.Sample{of(bools(2, 5), bools(2, 5)),
			of(bools(2, 5, 3), bools(5)).With(ir.A("broadcast", 1), ir.A("axis", 1))}
	case "Softmax-11", "LogSoftmax-11", "Hardmax-11":
		return []opstest.Sample{of(normal(2, 5, 3)), of(normal(2, 5, 3)).With(ir.A("axis", 2)),
			of(normal(2, 5, 3)).With(ir.A("axis", 0)), of(normal(2, 5)).With(ir.A("axis", -1))}
	}
	return nil
}
