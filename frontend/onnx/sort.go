package onnx

import (
	"fmt"

	"github.com/essmc/essmc/internal/ends"
)

// hint is the size with which a table of n entries begins: allocating one for many takes milliseconds.
func hint(n int) int { return min(n, 1<<13) }

// freeNames returns the names that g reads and does not define.
func (g *graphProto) freeNames(w *ends.Watch) []string {
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
		w.Step(1 + len(n.outputs))
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
		g.nodes[i].reads(w, add)
	}
	for _, out := range g.outputs {
		add(out.name)
	}
	return g.free
}

// reads calls visit for each name that n or a subgraph of it reads.
func (n *nodeProto) reads(w *ends.Watch, visit func(string)) {
	w.Step(1)
	for _, in := range n.inputs {
		w.Step(1)
		visit(in)
	}
	for _, a := range n.attrs {
		for _, g := range a.parts().graphs {
			for _, name := range g.freeNames(w) {
				w.Step(1)
				visit(name)
			}
		}
	}
}

// sortNodes returns the indices of nodes in an order in which definitions precede uses, close to the given order. It
// returns nil if that is the given order.
func sortNodes(w *ends.Watch, nodes []nodeProto) ([]int, error) {
	at := make(map[string]int, hint(len(nodes)))
	for i := range nodes {
		w.Step(1)
		for _, out := range nodes[i].outputs {
			if w.Step(8); out != "" {
				at[out] = i
			}
		}
	}
	sorted := true
	for i := range nodes {
		nodes[i].reads(w, func(name string) {
			if j, ok := at[name]; ok && j >= i {
				sorted = false
			}
		})
	}
	if sorted {
		return nil, nil
	}
	deps := func(i int) (list []int) {
		nodes[i].reads(w, func(name string) {
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
