package onnx

import (
	"fmt"
	"slices"
)

// freeNames lists the names that g reads and does not define.
func (g *graphProto) freeNames() []string {
	if g.freed {
		return g.free
	}
	g.freed = true
	own := map[string]bool{"": true}
	for _, in := range g.inputs {
		own[in.name] = true
	}
	for _, t := range g.tensors {
		own[t.name] = true
	}
	for _, n := range g.nodes {
		for _, out := range n.outputs {
			own[out] = true
		}
	}
	add := func(name string) {
		if !own[name] {
			own[name] = true
			g.free = append(g.free, name)
		}
	}
	for _, n := range g.nodes {
		n.reads(add)
	}
	for _, out := range g.outputs {
		add(out.name)
	}
	return g.free
}

// reads visits the names that n reads, those of its subgraphs included.
func (n *nodeProto) reads(visit func(string)) {
	for _, in := range n.inputs {
		visit(in)
	}
	for _, a := range n.attrs {
		for _, g := range a.graphs {
			for _, name := range g.freeNames() {
				visit(name)
			}
		}
	}
}

// sortNodes puts nodes in an order in which values are defined before they are read, keeping theirs wherever possible.
func sortNodes(nodes []*nodeProto) ([]*nodeProto, error) {
	at := map[string]int{}
	for i, n := range nodes {
		for _, out := range n.outputs {
			if out != "" {
				at[out] = i
			}
		}
	}
	deps := func(i int) (list []int) {
		nodes[i].reads(func(name string) {
			if j, ok := at[name]; ok {
				list = append(list, j)
			}
		})
		return list
	}
	const (
		unseen = iota
		open
		done
	)
	type frame struct {
		node int
		deps []int
	}
	state := make([]byte, len(nodes))
	out := make([]*nodeProto, 0, len(nodes))
	for i := range nodes {
		if state[i] != unseen {
			continue
		}
		state[i] = open
		stack := []frame{{i, deps(i)}}
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if len(f.deps) == 0 {
				state[f.node] = done
				out = append(out, nodes[f.node])
				stack = stack[:len(stack)-1]
				continue
			}
			j := f.deps[0]
			f.deps = f.deps[1:]
			switch state[j] {
			case open:
				return nil, fmt.Errorf("node %s depends on itself", nodes[j].label())
			case unseen:
				state[j] = open
				stack = append(stack, frame{j, deps(j)})
			}
		}
	}
	return slices.Clip(out), nil
}
