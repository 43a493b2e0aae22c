package raise

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
)

// expandedDPLRScan reads a forward Scan, and a backward one whose outputs are added, as a DPLRScan.
func expandedDPLRScan(f *surrounding, n *ir.Node) *expansion {
	body := n.Attrs.Graph("body")
	if body == nil || len(body.Outputs) != 3 || len(n.Outputs) != 3 || len(n.Inputs) < 3 || n.Attrs.Has("scan_input_directions") {
		return nil
	}
	u := back(n.In(2), "Cast")
	args := make([]*ir.Value, 14)
	args[0] = u
	set := func(at int, parts ...*ir.Value) bool {
		for i, v := range parts {
			if v == nil || v.Const == nil {
				return false
			}
			args[at+i] = v
		}
		return true
	}
	// the state's parts are f∘z - g∘low + b u, minus the input that leaves the window
	var parts [2]*ir.Value
	var window int64
	for i := range parts {
		v := body.Outputs[i]
		if len(n.Inputs) == 4 {
			ends, ok := ops.ConstInts(inputOf(n.In(3), "Slice", 2))
			if !ok || len(ends) != 1 {
				return nil
			}
			window, v = -ends[0], back(v, "Sub")
		}
		parts[i] = v
	}
	re, im := parts[0], parts[1]
	turned := back(re, "Add", "Sub")
	low := inputOf(back(inputOf(back(re, "Add"), "Sub", 1), "ReduceSum"), "Mul", 1)
	product := back(low, "ReduceSum")
	factor := func(v *ir.Value, side int) *ir.Value { return inputOf(inputOf(v, "Sub", side), "Mul", 0) }
	weight := func(v *ir.Value) *ir.Value { return inputOf(inputOf(v, "Add", 1), "Mul", 0) }
	rank := func(v *ir.Value) *ir.Value {
		return inputOf(back(inputOf(back(v, "Add"), "Sub", 1), "ReduceSum"), "Mul", 0)
	}
	y := back(body.Outputs[2], "ReduceSum")
	if u == nil || !set(1, factor(turned, 0), factor(turned, 1)) || !set(3, rank(re), rank(im)) ||
		!set(5, factor(product, 0), factor(product, 1)) || !set(7, weight(re), weight(im)) || !set(9, factor(y, 0), factor(y, 1)) {
		return nil
	}
	direction := essm.Forward
	out := n.Out(2)
	if sum := f.ahead(out, "Add"); sum != nil {
		later := sum.Def.In(1)
		if !isOp(later, "Scan") || later.Def.Attrs.Graph("body") == nil || len(later.Def.Attrs.Graph("body").Outputs) != 3 {
			return nil
		}
		y := back(later.Def.Attrs.Graph("body").Outputs[2], "ReduceSum")
		if !set(11, factor(y, 0), factor(y, 1)) {
			return nil
		}
		direction, out = essm.Bidirectional, sum
	}
	if out = f.ahead(out, "Cast"); out == nil {
		return nil
	}
	args[13] = back(n.In(0), "Reshape", "Split", "Cast")
	for args[len(args)-1] == nil {
		args = args[:len(args)-1]
	}
	attrs := []ir.Attr{ir.A("direction", direction)}
	if window > 0 {
		attrs = append(attrs, ir.A("window", window))
	}
	outputs := []*ir.Value{out}
	if last := f.ahead(n.Out(0), "Reshape", "Concat", "Cast"); last != nil {
		outputs = append(outputs, last)
	}
	return &expansion{outputs: outputs, node: &ir.Node{Op: ops.Default.Resolve("essm", "DPLRScan", 1), Scope: n.Scope,
		Inputs: slices.Clip(args), Attrs: ir.NewAttrs(attrs...)}}
}
