package raise

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
)

// Windowed recognizes systems with a window that package lower wrote as a convolution.
var Windowed = &passes.Pass{
	Name: "raise-windowed",
	Doc: "A state-space system with a window as a Conv, as `essmc export` writes it → essm.SSM or essm.DenseSSM, " +
		"with the numbers that the taps are computed from. The result is lowered again and compared with the graph.",
	Before: []passes.Reason{
		{Pass: "fold", Why: "it reads the computation of the taps, since a few taps do not determine a system"},
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		return raiseExports(c, g, "system with a window", findWindow)
	},
}

// windowed is a part of a graph that looks like a system with a window. Its anchor is the Conv.
type windowed struct {
	*exported
	taps  *headSystem // the system of the taps, without in or out if these are separate products
	b, c  []*ir.Value // the matrices of such products: real part, imaginary part
	delay *ir.Value   // the inputs of the window before the first step, then those of all steps; nil: no state
}

// findWindow reads the neighborhood of a Conv. It returns nil if that is not a system with a window.
func findWindow(run *passes.Context, g *ir.Graph, n *ir.Node) exportedPart {
	if n.Op.FullName() != "Conv" || n.In(2) != nil {
		return nil
	}
	s := readTaps(run, n.In(1))
	if s == nil || run.Search().Spend(workOfWalk(g)) != nil {
		return nil
	}
	f := &windowed{exported: &exported{run: run, anchor: n, uses: g.Uses(), form: lower.Form{Opset: g.Opsets[""]}}, taps: s}
	if !f.inputs(n.In(0)) || !f.outputs(n.Out(0)) {
		return nil
	}
	f.stateAfter()
	return f
}

// inputs follows the convolution's input (samples, features, steps) back to the input of the system. It reports whether
// there is one.
func (f *windowed) inputs(v *ir.Value) bool {
	if f.taps.in != nil {
		if isOp(v, "Concat") { // channels with a common input
			f.taps.c = len(v.Def.Inputs)
			v = v.Def.In(0)
		}
		f.u = back(v, "Transpose")
		return f.u != nil
	}
	f.products(v, map[*ir.Value]bool{})
	return f.u != nil
}

// products collects the products with B from which v is arranged, and the delay line before them.
func (f *windowed) products(v *ir.Value, seen map[*ir.Value]bool) {
	if v == nil || v.Def == nil || seen[v] {
		return
	}
	seen[v] = true
	switch n := v.Def; n.Op.FullName() {
	case "MatMul":
		f.b = append(f.b, n.In(1))
		if f.u == nil {
			f.u = n.In(0)
			if len(n.In(1).Shape()) > 2 { // heads are a batch of matrices
				f.u = back(f.u, "Transpose", "Reshape")
			}
		}
	case "Transpose", "Reshape", "Unsqueeze", "Split":
		f.products(n.In(0), seen)
	case "Concat":
		in := n.Inputs
		if past := in[0]; isOp(past, "Expand") || back(past, "Reshape", "Slice") != nil {
			f.delay, f.state = v, back(past, "Reshape", "Slice")
			in = in[1:]
		}
		for _, w := range in {
			f.products(w, seen)
		}
	}
}

// outputs follows the convolution's output to that of the system. It reports whether there is one.
func (f *windowed) outputs(v *ir.Value) bool {
	if f.delay != nil {
		v = f.ahead(v, "Slice")
	}
	v = f.ahead(v, "Transpose")
	if f.taps.out != nil {
		f.y = v
		return v != nil
	}
	parts := []*ir.Value{v}
	if both := f.ahead(v, "Reshape", "Split"); both != nil { // real and imaginary part
		parts = slices.Clone(both.Def.Outputs)
		for i, p := range parts {
			parts[i] = f.ahead(p, "Squeeze")
		}
	}
	for i, p := range parts {
		m := f.ahead(p, "MatMul")
		parts[i] = m
		if m == nil {
			m = f.ahead(p, "Reshape", "Transpose", "MatMul")
			parts[i] = f.ahead(m, "Transpose", "Reshape")
		}
		if m == nil {
			return false
		}
		f.c = append(f.c, m.Def.In(1))
	}
	f.y = parts[0]
	if len(parts) > 1 {
		f.y = f.ahead(f.y, "Sub")
	}
	return f.y != nil
}

// stateAfter finds the state after the last step, whose last inputs are those still in the window.
func (f *windowed) stateAfter() {
	for _, u := range f.uses[f.ahead(f.delay, "Slice")] {
		if u.Node == nil || u.Node.Op.FullName() != "Reshape" {
			continue
		}
		if v := f.ahead(u.Node.Out(0), "Concat"); v != nil {
			f.stateOut = v
		}
	}
}
