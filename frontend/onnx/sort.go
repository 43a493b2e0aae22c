package onnx

import "fmt"

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
	for i := range g.nodes {
		n := &g.nodes[i]
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
	for i := range g.nodes {
		g.nodes[i].reads(add)
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
		for _, g := range a.parts().graphs {
			for _, name := range g.freeNames() {
				visit(name)
			}
		}
	}
}

// sortNodes gives the positions of nodes in an order in which values are defined before they are read, keeping theirs
// wherever possible; nil: as they are.
func sortNodes(nodes []nodeProto) ([]int, error) {
	at := make(map[string]int, len(nodes))
	for i := range nodes {
		for _, out := range nodes[i].outputs {
			if out != "" {
				at[out] = i
			}
		}
	}
	sorted := true
	for i := range nodes {
		nodes[i].reads(func(name string) {
			if j, ok := at[name]; ok && j >= i {
				sorted = false
			}
		})
	}
	if sorted {
		return nil, nil
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
	out := make([]int, 0, len(nodes))
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
				out = append(out, f.node)
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
	return out, nil
}
