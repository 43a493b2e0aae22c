package raise

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// stepsOf reads a Scan over axis 1 of k sequences with one state as package lower writes it. It returns the sequences, the
// state before the first step if one is given, the outputs, and the body. The sequences are nil if the node has another
// form.
func (f *surrounding) stepsOf(n *ir.Node, k int) (in []*ir.Value, state *ir.Value, out []*ir.Value, body *ir.Graph) {
	body = n.Attrs.Graph("body")
	if body == nil || len(n.Inputs) != k+1 || len(n.Outputs) != 2 || len(body.Inputs) != k+1 || len(body.Outputs) != 2 ||
		n.Attrs.Int("num_scan_inputs", 0) != int64(k) {
		return nil, nil, nil, nil
	}
	for _, v := range n.Inputs[1:] {
		v = back(v, "Cast")
		if v == nil || len(v.Shape()) != 3 {
			return nil, nil, nil, nil
		}
		in = append(in, v)
	}
	y := f.ahead(n.Out(1), "Cast")
	if y == nil {
		return nil, nil, nil, nil
	}
	if out = []*ir.Value{y}; n.Out(0) != nil {
		if last := f.ahead(n.Out(0), "Reshape", "Cast"); last != nil {
			out = append(out, last)
		}
	}
	return in, back(n.Inputs[0], "Reshape", "Cast"), out, body
}

// expandedGatedScan reads a Scan as a GatedScan.
func expandedGatedScan(f *surrounding, n *ir.Node) *expansion {
	in, state, out, _ := f.stepsOf(n, 2)
	if in == nil {
		return nil
	}
	args := in
	if state != nil {
		args = append(args, state)
	}
	return &expansion{outputs: out, node: &ir.Node{Op: ops.Default.Resolve("essm", "GatedScan", 1), Scope: n.Scope, Inputs: args}}
}

// expandedSelectiveScan reads a Scan as a SelectiveScan.
func expandedSelectiveScan(f *surrounding, n *ir.Node) *expansion {
	in, state, out, body := f.stepsOf(n, 4)
	if in == nil {
		return nil
	}
	next := body.Outputs[0]
	enter := inputOf(next, "Add", 1)
	shape, ok := ops.ConstInts(inputOf(inputOf(enter, "Mul", 1), "Reshape", 1))
	rate := inputOf(back(next, "Add", "Mul", "Reshape", "Exp"), "Mul", 1)
	if !ok || len(shape) != 5 || rate == nil || rate.Const == nil || rate.Const.Rank() != 2 {
		return nil
	}
	args := []*ir.Value{in[0], in[1], rate, in[2], in[3], nil, state}
	if direct := inputOf(inputOf(back(body.Outputs[1], "Reshape"), "Add", 1), "Mul", 1); direct != nil {
		if direct.Const == nil {
			return nil
		}
		t, err := direct.Const.Reshape(direct.Const.Len())
		if err != nil {
			return nil
		}
		args[5] = ir.NewConst("D", t)
	}
	for args[len(args)-1] == nil {
		args = args[:len(args)-1]
	}
	return &expansion{outputs: out, node: &ir.Node{Op: ops.Default.Resolve("essm", "SelectiveScan", 1), Scope: n.Scope,
		Inputs: args, Attrs: ir.NewAttrs(ir.A("groups", shape[1]))}}
}
