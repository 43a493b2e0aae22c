package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Before version 14, batch normalization with more than one output was training, and returned the statistics of the
// batch. Before version 9, spatial=0 selected statistics per element of a sample, not per channel.
func init() {
	epsilon, momentum := floatAttr("epsilon", f32(1e-5), "added to the variance"),
		floatAttr("momentum", f32(0.9), "weight of the previous running statistics")
	spatial := intAttr("spatial", 1, "whether statistics are per channel; else per element of a sample")
	test := intAttr("is_test", 0, "ignored: training is selected by outputs besides Y")
	for _, v := range []struct {
		since int
		attrs []ir.AttrSpec
	}{
		{1, []ir.AttrSpec{epsilon, momentum, spatial, test, consumed()}},
		{6, []ir.AttrSpec{epsilon, momentum, spatial, test}},
		{7, []ir.AttrSpec{epsilon, momentum, spatial}},
		{9, []ir.AttrSpec{epsilon, momentum}},
	} {
		earlier(&ir.Op{
			Name: "BatchNormalization", Since: v.since,
			Doc: "As the newest version: with the given statistics if Y is the only output, else with those of the " +
				"batch, which are returned too.",
			In:    ops.Sig("X:T", "scale:T", "B:T", "mean:T", "var:T"),
			Out:   ops.Sig("Y:T", "mean:T", "var:T", "saved_mean:T", "saved_var:T"),
			Attrs: v.attrs, Tol: ir.Summing, Body: batchNormBody,
		})
	}
}

func batchNormBody(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	train := false
	for i, v := range n.Outputs {
		train = train || i > 0 && v != nil
	}
	if n.Op.Since < 9 && getInt(n, "spatial") == 0 {
		if train {
			b.Fail(fmt.Errorf("training with spatial=0 is not defined per channel"))
			return make([]*ir.Value, 5)
		}
		deviation := op(b, "Sqrt", op(b, "Add", in[4], constLike(b, in[4], getFloat(n, "epsilon"))))
		y := op(b, "Div", op(b, "Sub", in[0], in[3]), deviation)
		return []*ir.Value{op(b, "Add", op(b, "Mul", y, in[1]), in[2]), in[3], in[4], in[3], in[4]}
	}
	attrs := []ir.Attr{ir.A("epsilon", getFloat(n, "epsilon")), ir.A("momentum", getFloat(n, "momentum"))}
	if !train {
		return []*ir.Value{attr(b, "BatchNormalization", in, attrs...), in[3], in[4], in[3], in[4]}
	}
	out := b.Ops("", "BatchNormalization", 3, in, append(attrs, ir.A("training_mode", 1))...)
	t := tensorIn(n, 0)
	if t.NoRank {
		b.Fail(fmt.Errorf("training needs an input of known rank"))
		return make([]*ir.Value, 5)
	}
	var axes []int64
	for i := range t.Shape {
		if i != 1 {
			axes = append(axes, int64(i))
		}
	}
	moment := func(x *ir.Value, keep int) *ir.Value {
		return attr(b, "ReduceMean", []*ir.Value{x, b.Ints(axes...)}, ir.A("keepdims", keep))
	}
	d := op(b, "Sub", in[0], moment(in[0], 1))
	return []*ir.Value{out[0], out[1], out[2], moment(in[0], 0), moment(op(b, "Mul", d, d), 0)}
}
