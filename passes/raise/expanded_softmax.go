package raise

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
)

// expandedSoftmaxConv reads a Conv with computed kernels as a SoftmaxConv.
func expandedSoftmaxConv(f *surrounding, n *ir.Node) *expansion {
	out, weight := f.ahead(n.Out(0), "Transpose"), back(n.In(1), "Unsqueeze")
	args := make([]*ir.Value, 9)
	if args[0] = back(n.In(0), "Pad", "Transpose"); args[0] == nil || out == nil {
		return nil
	}
	halves, attrs := []*ir.Value{weight}, []ir.Attr{ir.A("direction", essm.Forward)}
	if isOp(weight, "Concat") {
		halves, attrs = weight.Def.Inputs, []ir.Attr{ir.A("direction", essm.Bidirectional)}
		args = args[:9]
	} else {
		args = args[:7]
	}
	if len(halves) > 2 {
		return nil
	}
	for i, v := range halves {
		if i == 0 {
			v = back(v, "Slice")
		}
		v = back(v, "Cast")
		first := inputOf(back(v, "Slice", "Reshape", "Sub"), "MatMul", 0)
		w := back(first, "Sub", "Mul", "Unsqueeze")
		args[5+2*i], args[6+2*i] = back(w, "Sub", "Mul"), inputOf(inputOf(w, "Sub", 1), "Mul", 0)
		if i > 0 {
			continue
		}
		inner := inputOf(back(v, "Slice", "Reshape", "Sub"), "MatMul", 1)
		args[1], args[2] = back(inner, "Mul", "Exp", "Mul", "Unsqueeze"), back(inputOf(inner, "Mul", 1), "Sin", "Add", "Mul", "Unsqueeze")
		size := inputOf(inputOf(back(w, "Sub"), "Mul", 1), "Div", 1)
		epsilon, ok := scalarOf(inputOf(size, "Add", 1))
		if !ok {
			return nil
		}
		attrs = append(attrs, ir.A("epsilon", epsilon))
		q := back(size, "Add", "Add", "Mul")
		args[3], args[4] = inputOf(back(q, "Sub"), "Mul", 1), inputOf(inputOf(q, "Sub", 1), "Mul", 1)
		if limit := inputOf(back(inputOf(v, "Slice", 2), "Unsqueeze"), "Min", 1); limit != nil {
			w, ok := ops.ConstInts(limit)
			if !ok || len(w) != 1 {
				return nil
			}
			attrs = append(attrs, ir.A("window", w[0]))
		}
	}
	for _, v := range args[1:] {
		if v == nil || v.Const == nil {
			return nil
		}
	}
	return &expansion{outputs: []*ir.Value{out}, node: &ir.Node{Op: ops.Default.Resolve("essm", "SoftmaxConv", 1), Scope: n.Scope,
		Inputs: args, Attrs: ir.NewAttrs(attrs...)}}
}

// expandedSubsetProducts reads a Where of a product of gathers as SubsetProducts.
func expandedSubsetProducts(_ *surrounding, n *ir.Node) *expansion {
	size := 1
	v := n.In(1)
	for ; isOp(v, "Mul"); v = back(v, "Mul") {
		size++
	}
	u := back(v, "Gather")
	if size < 2 || u == nil || !isOp(n.In(0), "GreaterOrEqual") {
		return nil
	}
	return &expansion{outputs: []*ir.Value{n.Out(0)}, node: &ir.Node{Op: ops.Default.Resolve("essm", "SubsetProducts", 1),
		Scope: n.Scope, Inputs: []*ir.Value{u}, Attrs: ir.NewAttrs(ir.A("size", size))}}
}
