package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// GroupNormalization normalizes groups of channels of each sample. Before version 21, scale and bias are per group.
var (
	GroupNormalization = groupNorm(21, "C", intAttr("stash_type", 1,
		"precision of the moments; they are computed in double here"))
	_ = groupNorm(18, "_")
)

func groupNorm(since int, size string, attrs ...ir.AttrSpec) *ir.Op {
	perGroup := since < 21
	return ops.Register(&ir.Op{
		Name: "GroupNormalization", Since: since,
		Doc: "scale*(X-mean)/sqrt(var+epsilon)+bias with biased mean and variance over each of num_groups groups of " +
			"channels of X (N,C,…).",
		In: ops.Sig("X:T[N,C,...]", "scale:T["+size+"]", "bias:T["+size+"]"), Out: ops.Sig("Y:T[N,C,...]"),
		Attrs: append([]ir.AttrSpec{floatAttr("epsilon", f32(1e-5), "added to the variance"),
			{Name: "num_groups", Kind: ir.AttrInt, Required: true, Doc: "number of groups"}}, attrs...),
		Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
			groups := getInt(n, "num_groups")
			if ch, ok := in[1].Known(); groups < 1 || ok && (groups > max(1, ch) || ch%groups != 0) {
				return nil, fmt.Errorf("X %v: expected channels that divide into %d groups", in, groups)
			}
			return in, nil
		}),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			x, err := need(in, 0, "X")
			if err != nil {
				return nil, err
			}
			groups := int(getInt(c.Node, "num_groups"))
			if x.Rank() < 2 || groups < 1 || groups > max(1, x.Dim(1)) || x.Dim(1)%groups != 0 {
				return nil, fmt.Errorf("X %s: expected channels that divide into %d groups", x, groups)
			}
			ch, inner := x.Dim(1), product(x.Shape()[2:])
			per := ch / groups
			v, scale, bias := ops.F64(c, in, 0), ops.F64(c, in, 1), ops.F64(c, in, 2)
			want := ch
			if perGroup {
				want = groups
			}
			if len(scale) != want || len(bias) != want {
				return nil, fmt.Errorf("scale and bias: expected %d elements each, found %d and %d", want, len(scale),
					len(bias))
			}
			eps := getFloat(c.Node, "epsilon")
			for r := range x.Dim(0) * groups {
				c.Step(1)
				row := v[r*per*inner : (r+1)*per*inner]
				mean, variance := moments(c, row)
				inv := 1 / math.Sqrt(variance+eps)
				for i := range ops.Each(c, len(row)) {
					k := r % groups
					if !perGroup {
						k = k*per + i/inner
					}
					row[i] = (row[i]-mean)*inv*scale[k] + bias[k]
				}
			}
			return ops.One(ops.Real(c, x.DType(), v, x.Shape()...))
		},
		Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
			rank := len(in[0].Shape())
			if rank < 2 {
				b.Fail(fmt.Errorf("X has %d axes, or an unknown number", rank))
				return make([]*ir.Value, 1)
			}
			g := op(b, "Reshape", in[0], b.Ints(0, getInt(n, "num_groups"), -1))
			d := op(b, "Sub", g, op(b, "ReduceMean", g, b.Ints(2)))
			variance := op(b, "ReduceMean", op(b, "Mul", d, d), b.Ints(2))
			y := op(b, "Div", d, op(b, "Sqrt", op(b, "Add", variance, constLike(b, d, getFloat(n, "epsilon")))))
			affine := func(y *ir.Value, rank int) *ir.Value {
				return op(b, "Add", op(b, "Mul", y, perChannel(b, in[1], rank)), perChannel(b, in[2], rank))
			}
			if perGroup {
				groups := getInt(n, "num_groups")
				in = []*ir.Value{in[0], op(b, "Reshape", in[1], b.Ints(groups)),
					op(b, "Reshape", in[2], b.Ints(groups))}
				return []*ir.Value{op(b, "Reshape", affine(y, 3), op(b, "Shape", in[0]))}
			}
			return []*ir.Value{affine(op(b, "Reshape", y, op(b, "Shape", in[0])), rank)}
		},
		Linear: ops.LinearIn([]int{1, 2}),
		Along:  alongKeep(func(_ *ir.Node, axis, _ int) bool { return axis >= 1 }), Tol: ir.Summing,
	})
}
