package lower

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// functions converts the standard operators of g and keeps the essm operators. It returns a body for each distinct
// application of those.
func (l *lowerer) functions(g *ir.Graph) ([]Function, error) {
	var out []Function
	byBody := map[string]int{} // from operator and body to index in out
	count := map[string]int{}
	nodes := g.Nodes
	g.Nodes = nil
	for _, n := range nodes {
		if n.Op.Domain != "essm" {
			if err := l.node(n); err != nil {
				return nil, err
			}
			continue
		}
		for i, v := range n.Inputs {
			n.Inputs[i] = l.now(v)
		}
		g.Nodes = append(g.Nodes, n)
		body, err := bodyOf(n, l.opset)
		if err != nil {
			return nil, err
		}
		key := n.Op.FullName() + "\n" + signature(body)
		i, ok := byBody[key]
		if !ok {
			i = len(out)
			byBody[key] = i
			f := Function{Body: body}
			if k := count[n.Op.Name]; k > 0 {
				f.Overload = strconv.Itoa(k)
			}
			count[n.Op.Name]++
			out = append(out, f)
		}
		out[i].Nodes = append(out[i].Nodes, n)
	}
	for i, v := range g.Outputs {
		g.ReplaceOutput(i, l.now(v))
	}
	return out, nil
}

// bodyOf lowers one node to a graph whose inputs are those of the node, including constants.
func bodyOf(n *ir.Node, version int) (*ir.Graph, error) {
	g := &ir.Graph{Name: n.Op.Name, Opsets: map[string]int{}}
	m := &ir.Node{Op: n.Op, Attrs: n.Attrs}
	for i, v := range n.Inputs {
		if v == nil {
			m.Inputs = append(m.Inputs, nil)
			g.Inputs = append(g.Inputs, &ir.Value{Name: "no_" + n.Op.In[i].Name, Type: ir.Tensor(0)})
			continue
		}
		in := &ir.Value{Name: n.Op.In[i].Name, Type: v.Type}
		g.Inputs = append(g.Inputs, in)
		m.Inputs = append(m.Inputs, in)
	}
	for i, v := range n.Outputs {
		if v == nil {
			m.Outputs = append(m.Outputs, nil)
			continue
		}
		w := &ir.Value{Name: n.Op.Out[i].Name, Type: v.Type, Def: m}
		m.Outputs = append(m.Outputs, w)
		g.Outputs = append(g.Outputs, w)
	}
	g.Nodes = []*ir.Node{m}
	l := newLowerer(g, version)
	if err := l.graph(g); err != nil {
		return nil, err
	}
	g.RemoveDead()
	g.Opsets = map[string]int{"": version}
	return g, g.Sort()
}

// signature returns the text of a body without types: bodies that differ only in the sizes of their inputs are shared.
func signature(g *ir.Graph) string {
	var b strings.Builder
	number := map[*ir.Value]int{}
	var graph func(g *ir.Graph)
	see := func(v *ir.Value) {
		if v == nil {
			b.WriteString(" -")
			return
		}
		k, seen := number[v]
		if !seen {
			k = len(number)
			number[v] = k
		}
		fmt.Fprintf(&b, " %d", k)
		if v.Const != nil && !seen {
			fmt.Fprintf(&b, "=%s%x", v.Const, v.Const.Bytes())
		}
	}
	graph = func(g *ir.Graph) {
		for _, v := range g.Inputs {
			see(v)
		}
		for _, n := range g.Nodes {
			fmt.Fprintf(&b, "\n%s/%d", n.Op.FullName(), n.Op.Since)
			for _, v := range n.Inputs {
				see(v)
			}
			b.WriteString(" ->")
			for _, v := range n.Outputs {
				see(v)
			}
			for _, a := range n.Attrs {
				fmt.Fprintf(&b, " %s:", a.Name)
				switch v := a.Value.(type) {
				case *ir.Graph:
					graph(v)
				case *tensor.Tensor:
					fmt.Fprintf(&b, "%s%x", v, v.Bytes())
				default:
					fmt.Fprintf(&b, "%v", v)
				}
			}
		}
		b.WriteString("\n=>")
		for _, v := range g.Outputs {
			see(v)
		}
	}
	graph(g)
	return b.String()
}
