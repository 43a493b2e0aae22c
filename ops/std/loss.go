package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var lossAttrs = []ir.AttrSpec{{Name: "ignore_index", Kind: ir.AttrInt,
	Doc: "a class that does not count, which may be outside of the classes"},
	oneOf("reduction", "mean", "combination of the losses", "none", "sum")}

// Losses of classifications.
var (
	NegativeLogLikelihoodLoss = ops.Same(ops.Register(&ir.Op{
		Name: "NegativeLogLikelihoodLoss", Since: 22,
		Doc: "-weight[target]·input[target] for input (N,C,…), target (N,…), weight (C); their mean (relative to the " +
			"sum of weights), their sum, or each of them.",
		In: ops.Sig("input:T[N,C,...]", "target:Tind[N,...]", "weight:T[C]?"), Out: ops.Sig("loss:T"),
		Elems: map[string][]tensor.DType{"Tind": indexTypes},
		Attrs: lossAttrs, Infer: inferLoss,
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			x, err := need(in, 0, "input")
			if err != nil {
				return nil, err
			}
			return ops.One(pickLoss(c, in, x.DType(), ops.F64(c, in, 0)))
		},
		Body: lossBody, Along: alongLoss, Tol: ir.Summing,
	}), 13, 12)
	SoftmaxCrossEntropyLoss = ops.Same(ops.Register(&ir.Op{
		Name: "SoftmaxCrossEntropyLoss", Since: 13,
		Doc: "NegativeLogLikelihoodLoss of the logarithms of softmax over axis 1 of scores (N,C,…); the second " +
			"output is these logarithms.",
		In:  ops.Sig("scores:T[N,C,...]", "labels:Tind[N,...]", "weights:T[C]?"),
		Out: ops.Sig("output:T", "log_prob:T?"), Elems: map[string][]tensor.DType{"Tind": indexTypes},
		Attrs: lossAttrs, Infer: inferLoss,
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			x, err := need(in, 0, "scores")
			if err != nil {
				return nil, err
			}
			if x.Rank() < 2 {
				return nil, fmt.Errorf("scores: expected at least two axes, found %s", x)
			}
			v := ops.F64(c, in, 0)
			outer, classes, inner := splitAt(x.Shape(), 1)
			for o := range outer {
				c.Step(1)
				for i := range inner {
					c.Step(1)
					at := func(k int) *float64 { return &v[(o*classes+k)*inner+i] }
					top, sum := math.Inf(-1), 0.0
					for k := range ops.Each(c, classes) {
						top = max(top, *at(k))
					}
					for k := range ops.Each(c, classes) {
						sum += math.Exp(*at(k) - top)
					}
					for k := range ops.Each(c, classes) {
						*at(k) -= top + math.Log(sum)
					}
				}
			}
			loss, err := pickLoss(c, in, x.DType(), v)
			if err != nil {
				return nil, err
			}
			logs, err := ops.Real(c, x.DType(), v, x.Shape()...)
			if err != nil {
				return nil, err
			}
			return []tensor.Datum{loss, logs}, nil
		},
		Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
			logs := attr(b, "LogSoftmax", in[:1], ir.A("axis", 1))
			var attrs []ir.Attr
			for _, a := range n.Attrs {
				attrs = append(attrs, a)
			}
			args := append([]*ir.Value{logs}, in[1:]...)
			return []*ir.Value{attr(b, "NegativeLogLikelihoodLoss", args, attrs...), logs}
		},
		Along: alongLoss, Tol: ir.Summing,
	}), 12)
)

// lossBody is the body of NegativeLogLikelihoodLoss: for each position, the element of its class times the class's
// weight.
func lossBody(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	x, class := in[0], in[1]
	zero := constLike(b, x, 0)
	var ignored *ir.Value
	if k, ok := n.Attrs.Get("ignore_index").(int64); ok {
		ignored = op(b, "Equal", class, constLike(b, class, float64(k)))
		// the ignored class may be outside of the classes
		class = op(b, "Where", ignored, constLike(b, class, 0), class)
	}
	// GatherElements would count classes below 0 from the end
	negative := op(b, "Less", class, constLike(b, class, 0))
	class = op(b, "Where", negative, constLike(b, class, math.MinInt32), class)
	picked := attr(b, "GatherElements", []*ir.Value{x, op(b, "Unsqueeze", class, b.Ints(1))}, ir.A("axis", 1))
	loss := op(b, "Neg", op(b, "Squeeze", picked, b.Ints(1)))
	var weight *ir.Value
	switch {
	case len(in) > 2 && in[2] != nil:
		weight = op(b, "Gather", in[2], class)
		loss = op(b, "Mul", loss, weight)
	case ignored != nil:
		weight = op(b, "Expand", constLike(b, x, 1), op(b, "Shape", class))
	}
	if ignored != nil {
		loss, weight = op(b, "Where", ignored, zero, loss), op(b, "Where", ignored, zero, weight)
	}
	total := func(v *ir.Value) *ir.Value { return attr(b, "ReduceSum", []*ir.Value{v}, ir.A("keepdims", 0)) }
	switch reduction := getStr(n, "reduction"); {
	case reduction == "none":
	case reduction == "sum":
		loss = total(loss)
	case weight != nil:
		loss = op(b, "Div", total(loss), total(weight))
	default:
		loss = attr(b, "ReduceMean", []*ir.Value{loss}, ir.A("keepdims", 0))
	}
	return []*ir.Value{loss}
}

func inferLoss(n *ir.Node) ([]ir.Type, error) {
	if _, err := ops.Bind(n); err != nil {
		return nil, err
	}
	x, target := tensorIn(n, 0), tensorIn(n, 1)
	loss := typed(x.Elem, ir.Shape{})
	if getStr(n, "reduction") == "none" {
		loss = &ir.TensorType{Elem: x.Elem, Shape: target.Shape, NoRank: target.NoRank}
	}
	if len(n.Op.Out) == 1 {
		return one(loss)
	}
	return []ir.Type{loss, x}, nil
}

// pickLoss computes the loss from logarithms of probabilities of the first input's shape.
func pickLoss(c *ir.EvalCtx, in []tensor.Datum, d tensor.DType, logs []float64) (*tensor.Tensor, error) {
	x := ops.Tensor(in, 0)
	target, err := need(in, 1, c.Node.Op.In[1].Name)
	if err != nil {
		return nil, err
	}
	if x.Rank() < 2 {
		return nil, fmt.Errorf("%s: expected at least two axes, found %s", c.Node.Op.In[0].Name, x)
	}
	if err := ops.SameShape(target.Shape(), append([]int{x.Dim(0)}, x.Shape()[2:]...)); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Node.Op.In[1].Name, err)
	}
	classes, weight := x.Dim(1), ops.F64(c, in, 2)
	if weight != nil && len(weight) != classes {
		return nil, fmt.Errorf("%s: expected %d elements, found %d", c.Node.Op.In[2].Name, classes, len(weight))
	}
	labels, err := ops.Int64s(c, target)
	if err != nil {
		return nil, err
	}
	ignored, ignores := c.Node.Attrs.Get("ignore_index").(int64)
	inner := product(x.Shape()[2:])
	losses := ops.Make[float64](c, len(labels))
	var sum, weights float64
	for i, k := range labels {
		c.Step(1)
		if ignores && k == ignored {
			continue
		}
		if k < 0 || k >= int64(classes) {
			return nil, fmt.Errorf("%s: class %d of %d", c.Node.Op.In[1].Name, k, classes)
		}
		w := 1.0
		if weight != nil {
			w = weight[k]
		}
		losses[i] = -w * logs[(i/inner*classes+int(k))*inner+i%inner]
		sum, weights = sum+losses[i], weights+w
	}
	switch getStr(c.Node, "reduction") {
	case "none":
		return ops.Real(c, d, losses, target.Shape()...)
	case "mean":
		sum /= weights
	}
	return ops.Real(c, d, []float64{sum})
}

// alongLoss returns the facts of a loss. Without reduction each position has its own loss.
func alongLoss(n *ir.Node, in []ir.Fact) []ir.Fact {
	var joined ir.Fact
	for i, f := range in {
		if f.Constant() {
			continue
		}
		if i == 0 && f.Axis >= 2 {
			f.Axis--
		} else if i > 1 || i == 0 && f.Axis == 1 {
			return spread(n, ops.Global(n, in))
		}
		joined = ops.Join(n, []ir.Fact{joined, f}, []int{0, 0}, 0)
	}
	if joined.Constant() {
		return spread(n, joined)
	}
	out := spread(n, ops.Global(n, in))
	if joined.Global {
		return out
	}
	if getStr(n, "reduction") == "none" {
		out[0] = joined
	}
	if len(out) > 1 && in[0].Axis != 1 {
		out[1] = in[0]
		out[1].State = 0
	}
	return out
}
