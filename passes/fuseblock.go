package passes

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
)

// FuseBlock joins a system and the operators around it that treat each time step by itself.
var FuseBlock = &Pass{
	Name: "fuse-block",
	Doc:  "A state-space operator, the cheap operators before it, and what follows step by step (activation, mixers, gate, residual, norm) → one Block, as long as one sequence leaves it. What joins is decided by the facts along time and batch.",
	After: []Reason{
		{"fold-norm", "a norm that became an affine map belongs into the block, or has gone into a neighbour"},
		{"fuse", "a block is grown around a fused state-space operator"},
		{"cse", "equal values on both sides of a block's edge could no longer be joined"},
		{"dce", "a dead reader would make a value an output of the block"},
	},
	Run: func(c *Context, g *ir.Graph) (int, error) {
		changes := 0
		for _, n := range slices.Clone(g.Nodes) {
			if !isSystem(n) || !slices.Contains(g.Nodes, n) {
				continue
			}
			r := newRegion(g, n)
			if r == nil {
				continue
			}
			r.growForward()
			r.growBackward()
			block, err := r.extract()
			if err != nil {
				return changes, err
			}
			c.Note("%s: one block of %s and %d operators around it; inputs: %d, outputs: %d", where(n), n.Op.Name, len(r.nodes)-1, len(block.Inputs), len(block.Outputs))
			changes++
		}
		return changes, nil
	},
}

func isSystem(n *ir.Node) bool { return n.Op == essm.SSM || n.Op == essm.DenseSSM }

// region is a set of nodes that is about to become a block.
type region struct {
	g     *ir.Graph
	uses  map[*ir.Value][]ir.Use
	root  *ir.Node
	nodes map[*ir.Node]bool
}

// newRegion starts with the system alone; nil when the facts do not show its input to be a sequence over axis 1.
func newRegion(g *ir.Graph, n *ir.Node) *region {
	u := n.In(0)
	if len(u.Shape()) != 3 {
		return nil
	}
	r := &region{g: g, uses: g.Uses(), root: n, nodes: map[*ir.Node]bool{n: true}}
	return r
}

// stepwise reports whether a node, fed with values that carry time on axis 1 and batch on axis 0 through the inputs that
// are not constants, gives one value of the same kind, step by step and sample by sample.
func stepwise(n *ir.Node) bool {
	if len(n.Outputs) != 1 || len(n.Subgraphs()) > 0 || n.Op.Along == nil || n.Op.Random || isSystem(n) || n.Op == essm.Block {
		return false
	}
	rank := len(n.Outputs[0].Shape())
	if rank < 2 {
		return false
	}
	for axis := range 2 {
		in := make([]ir.Fact, len(n.Inputs))
		varies := false
		for i, v := range n.Inputs {
			if v == nil || v.Const != nil {
				continue
			}
			if _, optional := v.Type.(*ir.OptionalType); optional || len(v.Shape()) < 2 {
				return false
			}
			in[i] = ir.Fact{Symbol: "t", Axis: axis, Stride: 1}
			varies = true
		}
		if !varies {
			return false
		}
		f := n.Op.Along(n, in)[0]
		if f.Constant() || f.Global || f.Axis != axis || f.Stride != 1 || f.Back != 0 || f.Ahead != 0 {
			return false
		}
	}
	return true
}

// growForward adds followers. Each step of a follower needs only values of the region, constants, and sequences that are
// computed without the region. The region ends where exactly one sequence leaves it, as late as possible.
func (r *region) growForward() {
	position := map[*ir.Node]int{}
	for i, n := range r.g.Nodes {
		position[n] = i
	}
	tainted := map[*ir.Node]bool{} // depends on the region, but is not part of it
	best, order := 0, []*ir.Node{}
	for _, n := range r.g.Nodes[position[r.root]+1:] {
		fromRegion, fromTainted := false, false
		for _, v := range append(slices.Clone(n.Inputs), captures(n)...) {
			if v != nil && v.Def != nil {
				fromRegion = fromRegion || r.nodes[v.Def]
				fromTainted = fromTainted || tainted[v.Def]
			}
		}
		if !fromRegion && !fromTainted {
			continue
		}
		if fromTainted || !fromRegion || !stepwise(n) || !r.sameSequence(n) || slices.Contains(n.Inputs, r.root.Out(1)) && r.root.Out(1) != nil {
			tainted[n] = true
			continue
		}
		r.nodes[n] = true
		order = append(order, n)
		if len(r.outputs()) == 1 {
			best = len(order)
		}
	}
	for _, n := range order[best:] {
		delete(r.nodes, n)
	}
}

func captures(n *ir.Node) []*ir.Value {
	var out []*ir.Value
	for _, s := range n.Subgraphs() {
		out = append(out, s.Captures()...)
	}
	return out
}

// sameSequence reports whether the node's varying inputs and its output all have the batch and length of the system's.
func (r *region) sameSequence(n *ir.Node) bool {
	want := r.root.Outputs[0].Shape()
	for _, v := range append(slices.Clone(n.Inputs), n.Outputs...) {
		if v == nil || v.Const != nil {
			continue
		}
		s := v.Shape()
		if len(s) < 2 || !s[0].Equal(want[0]) || !s[1].Equal(want[1]) {
			return false
		}
	}
	return true
}

// cheap bounds the operations per output element of what may be computed twice: a bidirectional system reads its input in
// a backward and in a forward pass.
const cheap = 16

// growBackward adds what leads to the region's inputs, where nobody else reads it and it costs little.
func (r *region) growBackward() {
	for grown := true; grown; {
		grown = false
		for _, v := range r.inputs() {
			n := v.Def
			if n == nil || !stepwise(n) || !r.sameSequence(n) {
				continue
			}
			if ops.WorkOf(n, nil).Flops > cheap*max(1, ops.Count(n.Outputs[0], nil)) {
				continue
			}
			inside := !slices.Contains(r.g.Outputs, v)
			for _, u := range r.uses[v] {
				inside = inside && u.Node != nil && r.nodes[u.Node]
			}
			if inside {
				r.nodes[n] = true
				grown = true
			}
		}
	}
}

// inputs lists the values that the region reads from outside, constants left out, in the order of the graph.
func (r *region) inputs() []*ir.Value {
	var out []*ir.Value
	for _, n := range r.g.Nodes {
		if !r.nodes[n] {
			continue
		}
		for _, v := range n.Inputs {
			if v != nil && v.Const == nil && (v.Def == nil || !r.nodes[v.Def]) && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	return out
}

// outputs lists the sequences that somebody outside of the region reads; the final state is not one.
func (r *region) outputs() []*ir.Value {
	var out []*ir.Value
	for _, n := range r.g.Nodes {
		if !r.nodes[n] {
			continue
		}
		for _, v := range n.Outputs {
			if v == nil || n == r.root && v == n.Out(1) {
				continue
			}
			leaves := slices.Contains(r.g.Outputs, v)
			for _, u := range r.uses[v] {
				leaves = leaves || u.Node == nil || !r.nodes[u.Node]
			}
			if leaves {
				out = append(out, v)
			}
		}
	}
	return out
}

// extract moves the region's nodes into the body of a Block, which takes their place. Readers outside keep the names that
// they know.
func (r *region) extract() (*ir.Node, error) {
	b := Edit(r.g)
	body := b.Sub(where(r.root))
	inputs, outputs := r.inputs(), r.outputs()
	if s := r.root.Out(1); s != nil && len(r.uses[s]) > 0 {
		outputs = append(outputs, s)
	}
	inner := map[*ir.Value]*ir.Value{}
	for _, v := range inputs {
		inner[v] = body.Input(b.Unique(v.Name+".in"), v.Type)
	}
	block := &ir.Node{Op: essm.Block, Name: r.root.Name, Scope: r.root.Scope, Inputs: inputs}
	g := body.Graph()
	at := 0 // the block stands where the region's last node stood, when everything it reads has been computed
	var rest []*ir.Node
	for _, n := range r.g.Nodes {
		if !r.nodes[n] {
			rest = append(rest, n)
			continue
		}
		at = len(rest)
		for i, v := range n.Inputs {
			if w, ok := inner[v]; ok && v != nil {
				n.Inputs[i] = w
			}
		}
		g.Nodes = append(g.Nodes, n)
	}
	r.g.Nodes = slices.Insert(rest, at, block)
	for _, v := range outputs { // the region's own nodes are out of ReplaceUses' sight, so they go on reading v itself
		outer := &ir.Value{Name: v.Name, Type: v.Type, Def: block}
		v.Name = b.Unique(v.Name + ".out")
		r.g.ReplaceUses(v, outer)
		g.Outputs = append(g.Outputs, v)
		block.Outputs = append(block.Outputs, outer)
	}
	block.Attrs = ir.NewAttrs(ir.A("body", g))
	return block, r.g.Sort()
}
