package ops

import "github.com/essmc/essmc/ir"

// Join returns the fact of a value that is computed step by step from several. Those that vary must vary along the same
// axis, counted from the end if ranks differ (broadcasting), and at the same stride; otherwise the value is global.
// rank is the output's rank, ranks are those of the inputs.
func Join(n *ir.Node, in []ir.Fact, ranks []int, rank int) ir.Fact {
	var out ir.Fact
	for i, f := range in {
		if n.Step(1); f.Constant() {
			continue
		}
		f.State = 0
		if f.Axis >= 0 {
			f.Axis += rank - ranks[i]
		}
		if out.Constant() {
			out = f
			continue
		}
		if out.Global || f.Global {
			return Global(n, in)
		}
		if out.Axis != f.Axis || out.Stride != f.Stride {
			return Global(n, in)
		}
		if f.Back > out.Back {
			out.Back, out.Cause, out.Summary = f.Back, f.Cause, f.Summary
		} else if f.Back == out.Back {
			out.Summary = out.Summary && f.Summary || out.Back == 0
		}
		if f.Ahead > out.Ahead {
			out.Ahead, out.Cause = f.Ahead, f.Cause
		}
	}
	return out
}

// Global returns the fact of a value that may depend on all steps. It is constant if no input varies.
func Global(n *ir.Node, in []ir.Fact) ir.Fact {
	for _, f := range in {
		if n.Step(1); !f.Constant() {
			cause := n
			if f.Global {
				cause = f.Cause
			}
			return ir.Fact{Symbol: f.Symbol, Axis: f.Axis, Stride: 1, Back: ir.Unbounded, Ahead: ir.Unbounded,
				Global: true, Cause: cause}
		}
	}
	return ir.Fact{}
}

// AlongElementwise is the Along of operators whose output elements depend on the input elements at the same index, with
// broadcasting.
func AlongElementwise(n *ir.Node, in []ir.Fact) []ir.Fact {
	rank := len(n.Outputs[0].Shape())
	ranks := make([]int, len(in))
	for i := range in {
		n.Step(1)
		if v := n.In(i); v != nil {
			ranks[i] = len(v.Shape())
		}
	}
	f := Join(n, in, ranks, rank)
	out := make([]ir.Fact, len(n.Outputs))
	for i := range out {
		out[i] = f
	}
	return out
}

// AlongRows is the Along of operators that treat the rows of their first input separately, such as a linear layer or a
// norm over features. They mix its last axis and keep all others. The other inputs must not vary.
func AlongRows(n *ir.Node, in []ir.Fact) []ir.Fact {
	rank := len(n.In(0).Shape())
	f := in[0]
	f.State = 0
	for _, o := range in[1:] {
		if !o.Constant() {
			f = Global(n, in)
		}
	}
	if f.Axis == rank-1 && !f.Constant() {
		f = Global(n, in)
	}
	out := make([]ir.Fact, len(n.Outputs))
	for i := range out {
		out[i] = f
	}
	return out
}

// Along returns the facts of a node's outputs from the facts of its inputs, some of which vary. They come from the
// operator's Along, and are global if it has none. Its arguments come from files, so a panic there means global,
// too.
func Along(n *ir.Node, in []ir.Fact) (out []ir.Fact) {
	if n.Op.Along == nil {
		return globals(n, in)
	}
	defer func() {
		if v := recover(); v != nil {
			ir.PassOn(v)
			out = globals(n, in)
		}
	}()
	return n.Op.Along(n, in)
}

func globals(n *ir.Node, in []ir.Fact) []ir.Fact {
	out, f := make([]ir.Fact, len(n.Outputs)), Global(n, in)
	for i := range out {
		n.Step(1)
		out[i] = f
	}
	return out
}

// Propagate derives the facts of every value of a graph, without those in subgraphs, from the facts of its inputs.
// Inputs without a fact are constant. A node whose subgraphs capture values that vary is global. If a node has several
// outputs, the first one carries the state that the node adds.
func Propagate(g *ir.Graph, seed map[*ir.Value]ir.Fact) map[*ir.Value]ir.Fact {
	facts := make(map[*ir.Value]ir.Fact, len(g.Nodes))
	for v, f := range seed {
		facts[v] = f
	}
	for _, n := range g.Nodes {
		in := make([]ir.Fact, len(n.Inputs))
		varies := false
		for i, v := range n.Inputs {
			n.Step(1)
			in[i] = facts[v]
			varies = varies || !in[i].Constant()
		}
		captures := false
		for _, s := range n.Subgraphs() {
			for _, v := range s.CapturesPaced(n.Pace()) {
				if f := facts[v]; !f.Constant() {
					captures, in = true, append(in, f)
				}
			}
		}
		var out []ir.Fact
		if varies || captures {
			if !captures {
				out = Along(n, in)
			} else {
				out = globals(n, in)
			}
		}
		for i, v := range n.Outputs {
			if v == nil || i >= len(out) {
				continue
			}
			if i > 0 {
				out[i].State = 0
			}
			facts[v] = out[i]
		}
	}
	return facts
}
