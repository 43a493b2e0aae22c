package std

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Earlier versions of operators with the same definition, except for element types and optional attributes. Versions
// with another definition or signature have records of their own, with the newest version as their body.
func init() {
	same := func(versions []int, list ...*ir.Op) {
		for _, op := range list {
			ops.Same(op, versions...)
		}
	}
	same([]int{7}, Acos, Asin, Atan, Cos, Sin, Tan)
	same([]int{9}, Acosh, Asinh, Atanh, Cosh, Sinh, Erf, Sign, Where, MeanVarianceNormalization, OneHot)
	same([]int{7, 13}, Add, Sub, Mul, Div)
	same([]int{1, 11, 12}, ArgMax, ArgMin)
	same([]int{14}, BatchNormalization, HardSwish)
	same([]int{6, 9, 13, 19, 21, 23}, Cast)
	same([]int{15, 19, 21, 23}, CastLike)
	same([]int{11, 12}, Clip)
	same([]int{4, 11}, Concat)
	same([]int{1, 9, 11, 12, 13, 19, 21, 23}, Constant)
	same([]int{9, 20, 21, 23}, ConstantOfShape)
	same([]int{1, 11}, Conv, Gather)
	same([]int{11}, CumSum, GatherElements, Round)
	same([]int{7, 11, 13}, Equal)
	same([]int{8}, Expand)
	same([]int{1, 9, 11, 13, 21, 23}, Flatten)
	same([]int{11, 12}, GatherND)
	same([]int{7, 9, 11}, Gemm)
	same([]int{7, 9}, Greater, Less)
	same([]int{12}, Celu, GreaterOrEqual, LessOrEqual)
	same([]int{1, 13, 14, 16, 19, 21, 23}, Identity)
	same([]int{1, 11, 13, 16, 19, 21, 23}, If, Loop)
	same([]int{10}, IsInf, Mod, ThresholdedRelu)
	same([]int{9, 13}, IsNaN)
	same([]int{1, 9}, MatMul)
	same([]int{6, 8, 12}, Max, Min)
	same([]int{6, 8}, Mean, Sum)
	same([]int{18}, Mish, ReduceMax, ReduceMin)
	same([]int{15}, OptionalGetElement, OptionalHasElement)
	same([]int{11, 13, 18, 19, 21, 23}, Pad)
	same([]int{7, 12, 13}, Pow)
	same([]int{5, 13, 14, 19, 21, 23}, Reshape)
	same([]int{9, 11, 16, 19, 21, 23}, Scan)
	same([]int{11, 13, 16}, ScatterElements, ScatterND)
	same([]int{1, 13, 15, 19, 21, 23}, Shape)
	same([]int{1, 13, 19, 21, 23}, Size)
	same([]int{10, 11}, Slice, TopK)
	same([]int{1}, Softplus, Softsign)
	same([]int{13}, Split)
	same([]int{11}, SplitToSequence)
	same([]int{13, 21, 23}, Squeeze, Unsqueeze)
	same([]int{6}, Tile, InstanceNormalization, Elu, HardSigmoid, LeakyRelu, Selu,
		Abs, Ceil, Exp, Floor, Log, Neg, Reciprocal, Relu, Sigmoid, Sqrt, Tanh)
	same([]int{13}, Relu)
	same([]int{1, 13, 21, 23}, Transpose)

	for _, op := range []*ir.Op{Abs, Ceil, Exp, Floor, Log, Neg, Reciprocal, Relu, Sigmoid, Sqrt, Tanh, Elu,
		HardSigmoid, LeakyRelu,
		InstanceNormalization, Max, Min, Mean, Sum} {
		sameButFor(op, 1, consumed())
	}
	for _, since := range []int{1, 6} {
		sameButFor(Gemm, since, intAttr("broadcast", 0, "ignored: C may always be broadcast"))
	}
}

// consumed returns an attribute of the first operator sets: a hint for memory, without effect.
func consumed() ir.AttrSpec { return intsAttr("consumed_inputs", "ignored") }

// sameButFor registers op for a version with one more attribute, without effect.
func sameButFor(op *ir.Op, since int, extra ir.AttrSpec) {
	old := *op
	old.Since, old.Attrs = since, append(slices.Clone(op.Attrs), extra)
	ops.SameAs(&old, op)
}

// earlier registers a version with another definition, by its body, and the other versions with that definition.
func earlier(op *ir.Op, since ...int) *ir.Op { return ops.Same(ops.Register(ops.ByBody(op)), since...) }
