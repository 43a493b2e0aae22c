package raise

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// expandedContinuousConv reads a Conv whose kernels are computed by a network as a ContinuousConv.
func expandedContinuousConv(f *surrounding, n *ir.Node) *expansion {
	out, kernels := f.ahead(n.Out(0), "Transpose"), n.In(1)
	if isOp(kernels, "Cast") {
		kernels = back(kernels, "Cast")
	}
	scaled := back(kernels, "Slice", "Slice", "Reshape")
	rows := back(inputOf(back(scaled, "Mul"), "Where", 2), "Transpose")
	args := make([]*ir.Value, 9)
	args[0] = back(n.In(0), "Pad", "Transpose")
	h := back(rows, "Add", "MatMul")
	if args[0] == nil || out == nil || h == nil {
		return nil
	}
	args[5], args[6] = back(inputOf(back(rows, "Add"), "MatMul", 1), "Transpose"), inputOf(rows, "Add", 1)
	second, activation, norm := unactivated(h)
	args[3], args[4], args[8] = back(inputOf(back(second, "Add"), "MatMul", 1), "Transpose"), inputOf(second, "Add", 1), norm
	first, same, norm := unactivated(back(second, "Add", "MatMul"))
	args[1], args[2], args[7] = inputOf(back(first, "Add"), "Mul", 1), inputOf(first, "Add", 1), norm
	if same != activation {
		return nil
	}
	for i, v := range args[1:] {
		if v == nil && i >= 6 {
			continue
		}
		if v == nil || v.Const == nil {
			return nil
		}
	}
	for args[len(args)-1] == nil {
		args = args[:len(args)-1]
	}
	attrs := []ir.Attr{ir.A("activation", activation)}
	train := inputOf(inputOf(inputOf(scaled, "Mul", 1), "Where", 0), "Greater", 0)
	if t, ok := scalarOf(train); ok {
		if t < 2 || t > ops.MaxElems || t != math.Trunc(t) {
			return nil
		}
		attrs = append(attrs, ir.A("train_length", int64(t)))
	}
	return &expansion{outputs: []*ir.Value{out}, node: &ir.Node{Op: ops.Default.Resolve("essm", "ContinuousConv", 1),
		Scope: n.Scope, Inputs: args, Attrs: ir.NewAttrs(attrs...)}}
}

// unactivated returns the sums of a layer of units whose activation is v, the activation, and the scales and offsets
// of the norm in between, or nil if there is none.
func unactivated(v *ir.Value) (sums *ir.Value, activation string, norm *ir.Value) {
	switch {
	case isOp(v, "Sin"):
		activation, v = "sine", back(v, "Sin")
	case isOp(v, "Relu"):
		activation, v = "relu", back(v, "Relu")
	case isOp(v, "LeakyRelu"):
		activation, v = "leaky_relu", back(v, "LeakyRelu")
	case isOp(v, "Mul") && isOp(v.Def.In(1), "Sigmoid"):
		activation, v = "swish", back(v, "Mul")
	}
	if scale := inputOf(back(v, "Add"), "Mul", 1); isOp(scale, "Gather") {
		return back(v, "Add", "Mul", "Div", "Sub"), activation, back(scale, "Gather")
	}
	return v, activation, nil
}
