package raise

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
)

// Chunked recognizes systems that package lower wrote in chunks.
var Chunked = &passes.Pass{
	Name: "raise-chunked",
	Doc: "A state-space system in chunks, as `essmc export` writes it → essm.SSM or essm.DenseSSM, with numbers " +
		"read from the constants. The result is lowered again and compared with the graph.",
	Before: []passes.Reason{
		{Pass: "fold", Why: "exponents are read from powers in float64, which folding may round"},
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		return raiseExports(c, g, "system in chunks", findChunks)
	},
}

// chunks is a part of a graph that looks like a system in chunks. Its anchor is the Scan.
type chunks struct {
	*exported
	// tables: from a chunk's inputs to the next chunk, from there to its outputs, from inputs to outputs
	enter, leave, within   *ir.Value
	dense                  bool // the state passes from chunk to chunk through a full matrix
	directions             int
	b, c                   []*ir.Value
	steps, heads, features int
	headForm               bool
}

// findChunks reads the neighborhood of a Scan. It returns nil if that is not a system in chunks.
func findChunks(run *passes.Context, g *ir.Graph, n *ir.Node) exportedPart {
	parts := len(n.Inputs) / 2
	if n.Op.FullName() != "Scan" || parts == 0 || len(n.Inputs)%2 != 0 ||
		n.Attrs.Int("num_scan_inputs", 0) != int64(parts) {
		return nil
	}
	next := n.Attrs.Graph("body").Outputs[0]
	f := &chunks{exported: &exported{run: run, anchor: n}, directions: parts / 2}
	if f.dense = back(next, "Add", "MatMul") != nil; f.dense {
		f.directions = parts
	} else if parts%2 != 0 {
		return nil
	}
	left := n.Inputs[parts]
	if parts > 1 {
		left = inputOf(left, "Split", 0)
	}
	product := back(left, "Cast", "Transpose", "Reshape")
	if !isOp(product, "MatMul") {
		return nil
	}
	v := product.Def.In(0)
	f.enter = product.Def.In(1)
	if run.Search().Spend(workOfWalk(g)) != nil {
		return nil
	}
	f.uses = g.Uses()
	if !f.inputs(v) {
		return nil
	}
	x := n.Out(parts)
	if parts > 1 {
		x = f.ahead(x, "Concat")
	}
	if x = f.ahead(x, "Cast", "Transpose", "Reshape", "MatMul"); x == nil {
		return nil
	}
	f.leave = x.Def.In(1)
	sum := f.ahead(x, "Add")
	if sum == nil {
		return nil
	}
	for _, v := range sum.Def.Inputs {
		if v != x && isOp(v, "MatMul") {
			f.within = v.Def.In(1)
		}
	}
	if !f.outputs(sum) {
		return nil
	}
	f.states(parts)
	f.form = lower.Form{Opset: g.Opsets[""], Steps: f.steps, Heads: f.headForm, Chunks: true}
	return f
}

// inputs follows v, of shape (groups, samples·chunks, inputs·steps), back to the sequence that is cut into chunks. It
// reports whether there is one.
func (f *chunks) inputs(v *ir.Value) bool {
	parts := []*ir.Value{v}
	if isOp(v, "Concat") {
		parts = v.Def.Inputs
	}
	cut := back(parts[0], "Reshape", "Transpose")
	f.headForm = cut != nil
	if !f.headForm {
		for _, p := range parts {
			m := back(p, "Reshape")
			if !isOp(m, "MatMul") {
				return false
			}
			f.b = append(f.b, m.Def.In(0))
			cut = back(m.Def.In(1), "Reshape", "Transpose")
		}
	}
	if !isOp(cut, "Reshape") {
		return false
	}
	shape, _, err := constantFloats(f.run, cut.Def.In(1))
	f.u = back(cut, "Reshape", "Pad")
	if err != nil || len(shape) != 5 || f.u == nil {
		return false
	}
	f.steps, f.heads, f.features = int(shape[2]), int(shape[3]), int(shape[4])
	return f.steps > 0 && f.heads > 0 && f.features > 0
}

// outputs follows the chunks' outputs to the sequence that joins them. It reports whether there is one.
func (f *chunks) outputs(x *ir.Value) bool {
	if x == nil {
		return false
	}
	if !f.headForm {
		parts := []*ir.Value{x}
		for _, u := range f.uses[x] {
			if u.Node != nil && u.Node.Op.FullName() == "Split" {
				parts = u.Node.Outputs
			}
		}
		var last *ir.Value
		for _, p := range parts {
			m := f.ahead(p, "Reshape", "MatMul")
			if m == nil {
				return false
			}
			f.c = append(f.c, m.Def.In(0))
			last = m
		}
		x = last
		if len(parts) > 1 {
			x = f.ahead(last, "Sub")
		}
	}
	f.y = f.ahead(x, "Reshape", "Transpose", "Reshape", "Slice")
	return f.y != nil
}

// states finds the state before the first step and the state after the last one, if the graph has them.
func (f *chunks) states(parts int) {
	v := back(f.anchor.Inputs[0], "Transpose", "Reshape")
	if !f.dense {
		v = inputOf(v, "Split", 0)
	}
	f.state = inputOf(v, "Cast", 0)
	v = f.ahead(f.anchor.Out(parts), "Gather")
	for range 8 {
		if v == nil {
			return
		}
		if isOp(v, "Cast") {
			f.stateOut = v
			return
		}
		var next *ir.Value
		for _, u := range f.uses[v] {
			if u.Node != nil {
				next = u.Node.Out(0)
				break
			}
		}
		v = next
	}
}
