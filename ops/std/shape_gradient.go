package std

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// gradExpand sums over what was repeated.
func gradExpand(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	return []*ir.Value{ops.SumLike(b, dOut[0], n.In(0))}
}

// gradTrilu keeps the same part of the gradient.
func gradTrilu(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	in := append([]*ir.Value{dOut[0]}, n.Inputs[1:]...)
	return []*ir.Value{b.Apply(n.Op, 1, in, n.Attrs)[0]}
}

// gradGather adds rows up where they were read. Along other axes than the first it moves the elements by their numbers.
func gradGather(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	a, err := ops.Axis(getInt(n, "axis"), len(n.In(0).Shape()))
	if err != nil || a != 0 {
		return ops.GradientMoved(0)(b, n, dOut)
	}
	at := ops.CastTo(b, op(b, "Unsqueeze", n.In(1), b.Ints(-1)), tensor.Int64)
	return []*ir.Value{attr(b, "ScatterND", []*ir.Value{ops.FilledLike(b, 0, n.In(0)), at, dOut[0]}, ir.A("reduction",
		"add"))}
}

// gradScatter is the Gradient of ScatterND and ScatterElements.
func gradScatter(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	switch r := getStr(n, "reduction"); r {
	case "none":
		return ops.GradientMoved(0, 2)(b, n, dOut)
	case "add":
		if n.Op.Name == "ScatterND" {
			return []*ir.Value{dOut[0], nil, op(b, "GatherND", dOut[0], ops.CastTo(b, n.In(1), tensor.Int64))}
		}
		return []*ir.Value{dOut[0], nil, attr(b, "GatherElements", []*ir.Value{dOut[0], n.In(1)}, ir.A("axis",
			getInt(n, "axis")))}
	default:
		b.Fail(&ops.NoGradientError{Why: "reduction " + r + " is not differentiated"})
		return nil
	}
}

// gradTopK puts the gradients where the elements were.
func gradTopK(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	if dOut[0] == nil {
		return nil
	}
	at := n.Out(1)
	if at == nil {
		at = b.Apply(n.Op, 2, n.Inputs, n.Attrs)[1]
	}
	return []*ir.Value{attr(b, "ScatterElements", []*ir.Value{ops.FilledLike(b, 0, n.In(0)), at, dOut[0]},
		ir.A("axis", getInt(n, "axis")), ir.A("reduction", "add"))}
}

// gradOptional passes the gradient on.
func gradOptional(_ *ir.Builder, _ *ir.Node, dOut []*ir.Value) []*ir.Value { return dOut[:1] }

// gradConcat moves the elements back by their numbers, where the sizes along the axis are not known.
func gradConcat(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	all := make([]int, len(n.Inputs))
	for i := range all {
		all[i] = i
	}
	return ops.GradientMoved(all...)(b, n, dOut)
}

// gradSplit puts the gradients of the parts together.
func gradSplit(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	parts := make([]*ir.Value, len(dOut))
	for i, g := range dOut {
		if parts[i] = g; g == nil && n.Out(i) == nil {
			return ops.GradientMoved(0)(b, n, dOut)
		} else if g == nil {
			parts[i] = ops.FilledLike(b, 0, n.Out(i))
		}
	}
	return []*ir.Value{attr(b, "Concat", parts, ir.A("axis", getInt(n, "axis")))}
}
