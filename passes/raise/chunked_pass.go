package raise

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
)

// chunkedForm is the pass of this form, which comes before all others.
var chunkedForm = []*passes.Pass{Chunked}

var chunkedOrders = []passes.Order{
	{Before: "raise-chunked", After: "raise-shapes", Why: "the form is recognised as package lower writes it"},
	{Before: "raise-chunked", After: "raise-scan", Why: "the recurrence from chunk to chunk is one too, but only a part of the layer"},
	{Before: "raise-chunked", After: "fold", Why: "powers in float64 give the exponents; what uses them may be rounded"},
}

// Chunked recognises systems that package lower wrote by chunks.
var Chunked = &passes.Pass{
	Name: "raise-chunked",
	Doc:  "A state-space system by chunks, as `essmc export` writes it → essm.SSM or essm.DenseSSM: its numbers are read off the constants, written by chunks again, and every operator and constant is compared.",
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		changes := 0
		for _, n := range slices.Clone(g.Nodes) {
			if !slices.Contains(g.Nodes, n) {
				continue // went with an earlier one
			}
			f := findChunks(g, n)
			if f == nil {
				continue
			}
			name := n.String()
			made, why := f.raise(g)
			if why != "" {
				missed(c, "system by chunks", n, "%s", why)
				continue
			}
			if err := finish(g); err != nil {
				return changes, err
			}
			changes++
			s := made.In(1).Shape()
			c.Note("system by chunks: %s and what surrounds it → %s %s, channels × heads × states = %v × %v × %v", name, made.Op.FullName(), made.Attrs.Str("direction", "forward"), s[0], s[1], s[2])
		}
		return changes, nil
	},
}

// chunks is a part of a graph that looks like a system by chunks, around its Scan.
type chunks struct {
	uses                   map[*ir.Value][]ir.Use
	scan                   *ir.Node
	u, state               *ir.Value // what the system takes; state may be nil
	y, stateOut            *ir.Value // what it gives, without D u; stateOut may be nil
	enter, leave, within   *ir.Value // tables: from a chunk's inputs to what it leaves, from that to outputs, from inputs to outputs
	dense                  bool      // a full matrix goes from chunk to chunk
	directions             int
	b, c                   []*ir.Value
	steps, heads, features int
	headForm               bool
	opset                  int
}

// inputOf follows v back through one operator of the name; nil where there is another, or v is nil.
func inputOf(v *ir.Value, name string, input int) *ir.Value {
	if !isOp(v, name) {
		return nil
	}
	return v.Def.In(input)
}

// back follows v through operators of these names by their first inputs.
func back(v *ir.Value, names ...string) *ir.Value {
	for _, name := range names {
		v = inputOf(v, name, 0)
	}
	return v
}

// ahead follows v to the one node that reads it, of the name, as its first input or any.
func (f *chunks) ahead(v *ir.Value, names ...string) *ir.Value {
	for _, name := range names {
		if v == nil {
			return nil
		}
		var next *ir.Value
		for _, u := range f.uses[v] {
			if u.Node != nil && u.Node.Op.FullName() == name && u.Node.Out(0) != nil {
				if next != nil && next != u.Node.Out(0) {
					return nil
				}
				next = u.Node.Out(0)
			}
		}
		v = next
	}
	return v
}

// findChunks reads the surroundings of a Scan; nil where they are not those of a system by chunks.
func findChunks(g *ir.Graph, n *ir.Node) *chunks {
	parts := len(n.Inputs) / 2
	if n.Op.FullName() != "Scan" || parts == 0 || len(n.Inputs)%2 != 0 || n.Attrs.Int("num_scan_inputs", 0) != int64(parts) {
		return nil
	}
	next := n.Attrs.Graph("body").Outputs[0]
	f := &chunks{scan: n, opset: g.Opsets[""], directions: parts / 2}
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
	return f
}

// inputs reads what the chunks are made of: (groups, samples·chunks, inputs·steps).
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
	shape, _, err := constantFloats(cut.Def.In(1))
	f.u = back(cut, "Reshape", "Pad")
	if err != nil || len(shape) != 5 || f.u == nil {
		return false
	}
	f.steps, f.heads, f.features = int(shape[2]), int(shape[3]), int(shape[4])
	return f.steps > 0 && f.heads > 0 && f.features > 0
}

// outputs follows the chunks' outputs to the sequence.
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

// states finds the state before the first step and that after the last one, where there are any.
func (f *chunks) states(parts int) {
	v := back(f.scan.Inputs[0], "Transpose", "Reshape")
	if !f.dense {
		v = inputOf(v, "Split", 0)
	}
	f.state = inputOf(v, "Cast", 0)
	v = f.ahead(f.scan.Out(parts), "Gather")
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

// raise puts an SSM in place of the system, or says why not.
func (f *chunks) raise(g *ir.Graph) (*ir.Node, string) {
	numbers, at := f.numbers, 9 // the input D
	if f.dense {
		numbers, at = f.denseNumbers, 5
	}
	s, why := numbers()
	if why != "" {
		return nil, why
	}
	n, err := s.node(f)
	if err != nil {
		return nil, err.Error()
	}
	y := f.y
	if sum, d := f.direct(s); d != nil { // D u belongs to the layer
		with := *n
		with.Inputs = slices.Clone(n.Inputs)
		with.Inputs[at] = d
		if why := f.compare(&with, sum); why == "" {
			n.Inputs[at], y = d, sum
		}
	}
	if y == f.y {
		if why := f.compare(n, y); why != "" {
			return nil, why
		}
	}
	b := edit(g)
	b.Scope(f.scan.Scope)
	in := slices.Clone(n.Inputs)
	for i, v := range in {
		if v != nil && v.Const != nil {
			in[i] = b.Const(v.Name, v.Const)
		}
	}
	for len(in) > 0 && in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	outs := b.Ops("essm", n.Op.Name, len(n.Outputs), in, n.Attrs...)
	if err := b.Err(); err != nil {
		return nil, err.Error()
	}
	made := outs[0].Def
	if !replace(g, y, made.Outputs[0]) {
		return nil, fmt.Sprintf("%s cannot be replaced", y.Name)
	}
	if f.stateOut != nil {
		replace(g, f.stateOut, made.Outputs[1])
	}
	return made, ""
}

// compare writes n by chunks and holds it against the graph.
func (f *chunks) compare(n *ir.Node, y *ir.Value) string {
	want, err := lower.Form{Opset: f.opset, Steps: f.steps, Heads: f.headForm, Chunks: true}.Apply(n)
	if err != nil {
		return err.Error()
	}
	c := comparison{of: map[*ir.Value]*ir.Value{want.Inputs[0]: f.u}, mine: newEvaluator(nil), theirs: newEvaluator(nil)}
	if f.state != nil {
		c.of[want.Inputs[1]] = f.state
	}
	if why := c.same(want.Outputs[0], y); why != "" {
		return why
	}
	if f.stateOut != nil {
		return c.same(want.Outputs[1], f.stateOut)
	}
	return ""
}
