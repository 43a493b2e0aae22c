package raise

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Exported puts back operators that package lower wrote in smaller ones.
var Exported = &passes.Pass{
	Name: "raise-exported",
	Doc: "Operators that `essmc export` wrote in smaller ones, by the list in the file's metadata. Each is lowered " +
		"again and compared with the graph. Where nodes or numbers differ, the graph stays as it is.",
	Before: []passes.Reason{
		{Pass: "upgrade", Why: "it reads operators of the versions that the file has"},
		{Pass: "canonicalize", Why: "it reads the nodes as they were written"},
		{Pass: "fold", Why: "kernels that the file computes in float64 are compared before folding may round them"},
	},
	Run: raiseExported,
}

// original is an operator of the list, with values of the graph.
type original struct {
	node    *ir.Node    // outside of the graph
	outputs []*ir.Value // where the graph has its outputs; nil if the operator lacks one
}

func raiseExported(c *passes.Context, g *ir.Graph) (int, error) {
	text, ok := g.Meta[ir.MetaOperators]
	if !ok {
		return 0, nil
	}
	delete(g.Meta, ir.MetaOperators)
	list, err := irtext.Parse([]byte(text), ir.MetaOperators, ops.Default, irtext.Options{Context: c.Done()})
	if err != nil {
		c.Check()
		c.Note("the list of operators in the file's metadata is ignored: %v", err)
		return 0, nil
	}
	of := sameNames(c, list, g)
	var all []*original
	for _, n := range list.Nodes {
		c.Check()
		if n.Op.Domain == "" && slices.Contains(rearranging, n.Op.Name) {
			continue // part of a constant
		}
		if err := c.Search().Spend(regions.WorkOfWalk(g)); err != nil { // replacing it walks over the graph
			c.Note("the rest of the list of operators in the file's metadata is ignored: %v", err)
			break
		}
		o, why := originalOf(c, n, of)
		if why == "" {
			why = o.compare(c, g.Opsets[""])
		}
		if why != "" {
			regions.NoteMiss(c, "exported "+n.Op.FullName(), o.at(n), "%s", why)
			continue
		}
		all = append(all, o)
		c.Note("exported %s: %v and the operators around it → the operator", n.Op.FullName(), o.at(n))
	}
	if len(all) == 0 {
		return 0, nil
	}
	if err := ops.Upgrade(g); err != nil { // the file's version may be older than an operator
		return 0, err
	}
	b, now := passes.Edit(g), map[*ir.Value]*ir.Value{} // now: from outputs that were replaced
	for _, o := range all {
		c.Check()
		if err := o.replace(b, now); err != nil {
			return 0, err
		}
	}
	return len(all), passes.Finish(g)
}

// rearranging are the operators with which the list computes one constant from another.
var rearranging = []string{"Transpose", "Reshape", "Cast"}

// sameNames returns the values of the graph for the inputs and the computed values of the list.
func sameNames(c *passes.Context, list, g *ir.Graph) map[*ir.Value]*ir.Value {
	named := map[string]*ir.Value{}
	for _, v := range slices.Concat(g.Inputs, g.Parameters) {
		named[v.Name] = v
	}
	for _, n := range g.Nodes {
		c.Check()
		for _, vs := range [2][]*ir.Value{n.Inputs, n.Outputs} {
			for _, v := range vs {
				if v != nil {
					named[v.Name] = v
				}
			}
		}
	}
	of := map[*ir.Value]*ir.Value{}
	for _, v := range list.Inputs {
		if w := named[v.Name]; w != nil {
			of[v] = w
			if ir.EqualTypes(v.Type, w.Type) {
				v.Const = w.Const
			}
		}
	}
	for _, n := range list.Nodes {
		for _, v := range n.Outputs {
			if w := named[nameOf(v)]; w != nil && w.Const == nil {
				of[v] = w
			}
		}
	}
	return of
}

func nameOf(v *ir.Value) string {
	if v == nil {
		return ""
	}
	return v.Name
}

// originalOf returns a node of the list with values of the graph, or why that is not possible.
func originalOf(c *passes.Context, n *ir.Node, of map[*ir.Value]*ir.Value) (o *original, why string) {
	o = &original{node: &ir.Node{Op: n.Op, Scope: n.Scope, Attrs: n.Attrs}}
	for _, v := range n.Inputs {
		w := of[v]
		switch {
		case v == nil || w != nil:
		case v.Const != nil:
			w = v
		default: // rearranged
			t, err := regions.Constant(c, v)
			if err == nil {
				t, err = t.Convert(v.Elem(), false)
			}
			if err != nil {
				return o, fmt.Sprintf("%s: %v", v.Name, err)
			}
			w = ir.NewConst(v.Name, t)
		}
		o.node.Inputs = append(o.node.Inputs, w)
	}
	found := false
	for _, v := range n.Outputs {
		w := of[v]
		if v != nil && w == nil {
			return o, fmt.Sprintf("%s: the graph has no such value", v.Name)
		}
		found = found || w != nil
		o.outputs = append(o.outputs, w)
		if w != nil {
			w = &ir.Value{Name: w.Name, Def: o.node}
		}
		o.node.Outputs = append(o.node.Outputs, w)
	}
	if !found {
		return o, "it has no outputs"
	}
	if err := ir.InferNode(o.node); err != nil {
		return o, err.Error()
	}
	return o, ""
}

// at returns the node of the graph that has the operator's first output. Without one, it returns n.
func (o *original) at(n *ir.Node) *ir.Node {
	for _, v := range o.outputs {
		if v != nil && v.Def != nil {
			return v.Def
		}
	}
	return n
}

// compare lowers the operator and compares the result with the graph. It returns the first difference.
func (o *original) compare(c *passes.Context, opset int) string {
	bytes, work := lower.Cost(o.node)
	budget := regions.Memory(c)
	if err := budget.Take(bytes); err != nil {
		return err.Error()
	}
	if err := budget.Spend(work); err != nil {
		return err.Error()
	}
	var want *ir.Graph
	var err error
	if e := passes.Apart(c.Done(), func() { want, err = lower.Apply(o.node, opset) }); e != nil {
		return e.Error()
	}
	if err != nil {
		return err.Error()
	}
	same := comparison{of: map[*ir.Value]*ir.Value{}, mine: regions.Constants(c, nil),
		theirs: regions.Constants(c, nil)}
	i := 0
	for _, v := range o.node.Inputs {
		if v != nil && v.Const == nil {
			same.of[want.Inputs[i]] = v
			i++
		}
	}
	i = 0
	for _, v := range o.outputs {
		if v == nil {
			continue
		}
		if why := same.same(want.Outputs[i], v); why != "" {
			return why
		}
		i++
	}
	return ""
}

// replace replaces the nodes for the operator by it, in the graph of b. now has the values that replace others.
func (o *original) replace(b *ir.Builder, now map[*ir.Value]*ir.Value) error {
	b.Scope(o.node.Scope)
	in := slices.Clone(o.node.Inputs)
	for i, v := range in {
		switch {
		case now[v] != nil:
			in[i] = now[v]
		case v != nil && v.Const != nil:
			in[i] = b.Const(v.Name, v.Const)
		}
	}
	made := b.Apply(o.node.Op, len(o.outputs), in, o.node.Attrs)
	if err := b.Err(); err != nil {
		return err
	}
	for i, v := range o.outputs {
		if v == nil {
			continue
		}
		if !passes.Replace(b.Graph(), v, made[i]) {
			return fmt.Errorf("%s: an output of the graph cannot be replaced by %v", v.Name, o.node)
		}
		now[v] = made[i]
	}
	return nil
}
