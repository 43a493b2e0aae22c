package ops

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
)

// Upgrade brings a graph and its subgraphs to the operator sets of this program. A node whose operator has a newer
// version with another definition is replaced by the body of its own version. After that, passes and kernels may take
// every operator for its newest version. The graph's values keep their names and types.
func Upgrade(g *ir.Graph) error {
	opsets := Opsets()
	for d, v := range g.Opsets {
		opsets[d] = max(v, opsets[d])
	}
	if err := upgrade(ir.Edit(g, Default, opsets), g, 0); err != nil {
		return err
	}
	_ = g.Walk(func(_ *ir.Graph, n *ir.Node) error { // a record for several versions may be newer than the opset
		opsets[n.Op.Domain] = max(opsets[n.Op.Domain], n.Op.Since)
		return nil
	})
	if g.Opsets != nil {
		g.Opsets = opsets
	}
	return nil
}

// maxUpgrades is the maximum depth of nested bodies, so that a cycle in the registry is an error.
const maxUpgrades = 16

func upgrade(names *ir.Builder, g *ir.Graph, depth int) error {
	if depth > maxUpgrades {
		return fmt.Errorf("graph %s: operators cannot be replaced by their newest versions", g.Name)
	}
	var nodes []*ir.Node
	for _, n := range g.Nodes {
		for _, s := range n.Subgraphs() {
			if err := upgrade(names, s, 0); err != nil {
				return err
			}
		}
		if op := Current(n.Op); op != n.Op {
			n.Op = op
			n.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(a ir.Attr) bool { // attributes without effect
				return !slices.ContainsFunc(op.Attrs, func(s ir.AttrSpec) bool { return s.Name == a.Name })
			})
		}
		if n.Op.Body == nil || Newest(n.Op) {
			nodes = append(nodes, n)
			continue
		}
		b := ir.NewBuilder(g.Name, Default, Opsets())
		b.PaceLike(n)
		b.Scope(n.Scope)
		outs := n.Op.Body(b, n, n.Inputs)
		if err := b.Err(); err != nil {
			return fmt.Errorf("node %v: body: %w", n, err)
		}
		body := b.Graph()
		// Nodes may have many inputs and outputs, so places are looked up.
		type place struct {
			node *ir.Node
			at   int
		}
		made := map[*ir.Value]place{}
		for _, m := range body.Nodes {
			for i, v := range m.Outputs {
				n.Step(4)
				made[v] = place{m, i}
			}
		}
		with, own := map[*ir.Value]*ir.Value{}, map[*ir.Value]bool{}
		for _, v := range n.Inputs {
			n.Step(4)
			own[v] = true
		}
		for i, v := range n.Outputs {
			if n.Step(8); v == nil {
				continue
			}
			if i >= len(outs) || outs[i] == nil {
				return fmt.Errorf("node %v: body has no output %d", n, i)
			}
			o := outs[i]
			p, ok := made[o]
			if !ok || with[o] != nil {
				if o = b.Op("", "Identity", []*ir.Value{o}); o == nil {
					return fmt.Errorf("node %v: body: %w", n, b.Err())
				}
				p = place{o.Def, 0}
			}
			with[o], own[v] = v, true
			p.node.Outputs[p.at], v.Def = v, p.node
		}
		body.ReplaceAll(with)
		for _, m := range body.Nodes {
			for _, vs := range [][]*ir.Value{m.Inputs, m.Outputs} {
				for _, v := range vs {
					if n.Step(4); v != nil && !own[v] && (v.Const != nil || v.Def == m) {
						v.Name = names.Unique(v.Name)
					}
				}
			}
		}
		if err := upgrade(names, body, depth+1); err != nil {
			return err
		}
		nodes = append(nodes, body.Nodes...)
	}
	g.Nodes = nodes
	return nil
}
