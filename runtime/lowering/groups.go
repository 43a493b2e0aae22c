package lowering

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// A group is a state-space system and the operators around it that treat each step of time and each sample
// separately: the cheap ones before it, and those after it, up to a point where one sequence leaves the group. A
// backend that keeps a tile in the cache through a whole group reads and writes one sequence. Facts decide which
// operators join.

// groups returns the nodes of a graph in the order in which they are lowered, and the number of each node's group,
// or 0. The nodes of a group are consecutive, at the position of the last of them.
func groups(g *ir.Graph, pace *ir.Pacer) ([]*ir.Node, map[*ir.Node]int) {
	of := map[*ir.Node]int{}
	var uses map[*ir.Value][]ir.Use
	settled := ops.SettledOf(g, pace)
	for _, n := range g.Nodes {
		if !ops.IsFusedSystem(n.Op) || of[n] != 0 || len(n.In(0).Shape()) != 3 {
			continue
		}
		if uses == nil {
			uses = g.Uses()
		}
		r := &group{g: g, pace: pace, uses: uses, settled: settled, root: n, nodes: map[*ir.Node]bool{n: true}, taken: of}
		r.growForward()
		r.growBackward()
		k := 1 + len(of)
		for m := range r.nodes {
			of[m] = k
		}
	}
	return order(g, of, pace), of
}

// group collects the nodes of a group.
type group struct {
	g     *ir.Graph
	uses  map[*ir.Value][]ir.Use
	root  *ir.Node
	nodes map[*ir.Node]bool
	taken map[*ir.Node]int // nodes of earlier groups
	pace  *ir.Pacer

	settled map[*ir.Value]bool
}

// fixed reports whether a value does not vary between runs.
func (r *group) fixed(v *ir.Value) bool { return v.Const != nil || r.settled[v] }

// stepwise reports whether a node computes one sequence from sequences, with the batch on axis 0 and time on axis 1,
// each step of each sample separately.
func (r *group) stepwise(n *ir.Node) bool {
	if r.taken[n] != 0 || len(n.Outputs) != 1 || n.Outputs[0] == nil || len(n.Subgraphs()) > 0 || n.Op.Along == nil ||
		n.Op.Random || ops.IsFusedSystem(n.Op) {
		return false
	}
	if len(n.Outputs[0].Shape()) < 2 {
		return false
	}
	for axis := range 2 {
		in := make([]ir.Fact, len(n.Inputs))
		varies := false
		for i, v := range n.Inputs {
			if v == nil || r.fixed(v) {
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
		f := n.Op.Along(n.Paced(r.pace), in)[0]
		if f.Constant() || f.Global || f.Axis != axis || f.Stride != 1 || f.Back != 0 || f.Ahead != 0 {
			return false
		}
	}
	return true
}

// sameSequence reports whether the inputs of a node, except for constants, and its outputs have the batch and length of
// the system.
func (r *group) sameSequence(n *ir.Node) bool {
	want := r.root.Outputs[0].Shape()
	for _, v := range append(slices.Clone(n.Inputs), n.Outputs...) {
		if v == nil || r.fixed(v) {
			continue
		}
		s := v.Shape()
		if len(s) < 2 || !s[0].Equal(want[0]) || !s[1].Equal(want[1]) {
			return false
		}
	}
	return true
}

// growForward adds nodes after the system that read only values of the group, constants, and sequences that do not
// depend on the group. The group ends at the last point where exactly one sequence leaves it.
func (r *group) growForward() {
	tainted := map[*ir.Node]bool{} // nodes that depend on the group but are not part of it
	best, order := 0, []*ir.Node{}
	for _, n := range r.g.Nodes[slices.Index(r.g.Nodes, r.root)+1:] {
		fromGroup, fromTainted := false, false
		for _, v := range append(slices.Clone(n.Inputs), captured(n, r.pace)...) {
			if v != nil && v.Def != nil {
				fromGroup = fromGroup || r.nodes[v.Def]
				fromTainted = fromTainted || tainted[v.Def]
			}
		}
		if !fromGroup && !fromTainted {
			continue
		}
		state := r.root.Out(1)
		if fromTainted || !fromGroup || !r.stepwise(n) || !r.sameSequence(n) ||
			state != nil && slices.Contains(n.Inputs, state) {
			tainted[n] = true
			continue
		}
		r.nodes[n] = true
		order = append(order, n)
		if r.leaving() == 1 {
			best = len(order)
		}
	}
	for _, n := range order[best:] {
		delete(r.nodes, n)
	}
}

func captured(n *ir.Node, pace *ir.Pacer) []*ir.Value {
	var out []*ir.Value
	for _, s := range n.Subgraphs() {
		out = append(out, s.CapturesPaced(pace)...)
	}
	return out
}

// cheap is the maximum number of operations per output element for nodes before the system. They may be computed
// twice, since a bidirectional system reads its input in a backward and in a forward pass.
const cheap = 16

// growBackward adds cheap nodes that compute inputs of the group and that nothing else reads.
func (r *group) growBackward() {
	for grown := true; grown; {
		grown = false
		for _, v := range r.inputs() {
			n := v.Def
			if n == nil || !r.stepwise(n) || !r.sameSequence(n) {
				continue
			}
			if ops.WorkOf(n, nil).Flops > cheap*max(1, ops.Count(n.Outputs[0], nil)) {
				continue
			}
			if !r.leaves(v) {
				r.nodes[n] = true
				grown = true
			}
		}
	}
}

// inputs returns the values that the group reads from outside, without constants, in the order of the graph.
func (r *group) inputs() []*ir.Value {
	var out []*ir.Value
	for _, n := range r.g.Nodes {
		if !r.nodes[n] {
			continue
		}
		for _, v := range n.Inputs {
			if v != nil && !r.fixed(v) && (v.Def == nil || !r.nodes[v.Def]) && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	return out
}

// leaves reports whether v is read outside the group.
func (r *group) leaves(v *ir.Value) bool {
	outside := func(u ir.Use) bool { return u.Node == nil || !r.nodes[u.Node] }
	return slices.Contains(r.g.Outputs, v) || slices.ContainsFunc(r.uses[v], outside)
}

// leaving returns the number of sequences that are read outside the group. The final state is not counted.
func (r *group) leaving() (count int) {
	for n := range r.nodes {
		for _, v := range n.Outputs {
			if v != nil && !(n == r.root && v == n.Out(1)) && r.leaves(v) {
				count++
			}
		}
	}
	return count
}

// order returns the nodes with those of each group together: at the position of the last of them in the graph, or
// earlier if a node in between reads a result of the group.
func order(g *ir.Graph, of map[*ir.Node]int, pace *ir.Pacer) []*ir.Node {
	members, last := map[int][]*ir.Node{}, map[int]*ir.Node{}
	for _, n := range g.Nodes {
		pace.Step(1)
		if k := of[n]; k != 0 {
			members[k], last[k] = append(members[k], n), n
		}
	}
	if len(members) == 0 {
		return g.Nodes
	}
	inGraph, done := map[*ir.Node]bool{}, map[*ir.Node]bool{}
	for _, n := range g.Nodes {
		inGraph[n] = true
	}
	out := make([]*ir.Node, 0, len(g.Nodes))
	// A frame is a node or a group that waits for its inputs. An explicit stack replaces recursion, since graphs may
	// be deep.
	type frame struct {
		nodes []*ir.Node
		deps  []*ir.Value
	}
	open := func(n *ir.Node) frame {
		f := frame{nodes: []*ir.Node{n}}
		if k := of[n]; k != 0 {
			f.nodes = members[k]
		}
		for _, m := range f.nodes {
			done[m] = true
			f.deps = append(append(f.deps, m.Inputs...), captured(m, pace)...)
		}
		return f
	}
	for _, n := range g.Nodes {
		if k := of[n]; done[n] || k != 0 && n != last[k] {
			continue
		}
		stack := []frame{open(n)}
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if len(f.deps) == 0 {
				out = append(out, f.nodes...)
				stack = stack[:len(stack)-1]
				continue
			}
			v := f.deps[0]
			f.deps = f.deps[1:]
			if v != nil && v.Def != nil && inGraph[v.Def] && !done[v.Def] {
				stack = append(stack, open(v.Def))
			}
		}
	}
	return out
}
