package raise

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
)

// Expanded recognizes single operators that package lower wrote in smaller ones.
var Expanded = &passes.Pass{
	Name: "raise-expanded",
	Doc: "An operator in the smaller ones that `essmc export` writes for it → that operator: Attention, " +
		"essm.ContinuousConv, essm.DPLRScan, essm.FourierMix, essm.GatedScan, essm.SelectiveScan, essm.SoftmaxConv, " +
		"essm.SubsetProducts. The result is lowered again and compared with the graph.",
	Before: []passes.Reason{
		beforeUpgrade,
		beforeCanonical,
	},
	Run: raiseExpanded,
}

// expansion is a part of a graph that looks like an operator that package lower expanded.
type expansion struct {
	node    *ir.Node    // the operator, outside of the graph, with inputs of the graph
	outputs []*ir.Value // the outputs of the part; nil if the operator lacks one
}

// expanded finds expansions at their anchors, by operator name. The functions read a part of the graph loosely, and
// return nil if it has another form.
var expanded = map[string][]func(f *surrounding, n *ir.Node) *expansion{
	"Softmax": {expandedAttention, expandedMasked},
	"Sub":     {expandedFourierMix},
	"Conv":    {expandedSoftmaxConv, expandedContinuousConv},
	"Where":   {expandedSubsetProducts},
	"Scan":    {expandedGatedScan, expandedSelectiveScan, expandedDPLRScan},
}

// surrounding is the information about a graph for the functions of expanded.
type surrounding struct {
	*exported
	graph *ir.Graph
}

func raiseExpanded(c *passes.Context, g *ir.Graph) (int, error) {
	var all []*expansion
	var uses map[*ir.Value][]ir.Use
	for _, n := range g.Nodes {
		c.Check()
		finders := expanded[n.Op.FullName()]
		if len(finders) == 0 {
			continue
		}
		if uses == nil {
			if c.Search().Spend(workOfWalk(g)) != nil {
				break
			}
			uses = g.Uses()
		}
		around := &surrounding{&exported{run: c, uses: uses, anchor: n}, g}
		for _, find := range finders {
			e := find(around, n)
			if e == nil {
				continue
			}
			if why := e.check(c, lower.Form{Opset: g.Opsets[""]}); why != "" {
				missed(c, e.node.Op.FullName(), n, "%s", why)
				continue
			}
			all = append(all, e)
			c.Note("%v and the operators around it → %s", n, e.node.Op.FullName())
			break
		}
	}
	if len(all) == 0 {
		return 0, nil
	}
	if err := ops.Upgrade(g); err != nil { // the file's version may be older than an operator
		return 0, err
	}
	for _, e := range all {
		if err := e.replace(g); err != nil {
			return 0, err
		}
	}
	return len(all), passes.Finish(g)
}

// check returns why the part does not have the form in which the operator is written, or "".
func (e *expansion) check(c *passes.Context, form lower.Form) string {
	e.node.Outputs = nil
	for i, v := range e.outputs {
		var w *ir.Value
		if v != nil {
			w = &ir.Value{Name: fmt.Sprint("y", i), Def: e.node}
		}
		e.node.Outputs = append(e.node.Outputs, w)
	}
	if err := ir.InferNode(e.node); err != nil {
		return err.Error()
	}
	return e.compare(c, form)
}

// replace replaces the part by the operator.
func (e *expansion) replace(g *ir.Graph) error {
	b := passes.Edit(g)
	b.Scope(e.node.Scope)
	in := slices.Clone(e.node.Inputs)
	for i, v := range in {
		if v != nil && v.Const != nil {
			in[i] = b.Const(v.Name, v.Const)
		}
	}
	made := b.Apply(e.node.Op, len(e.outputs), in, e.node.Attrs)
	if err := b.Err(); err != nil {
		return err
	}
	for i, v := range e.outputs {
		if v != nil && !passes.Replace(g, v, made[i]) {
			return fmt.Errorf("%s: an output of the graph cannot be replaced by %v", v.Name, e.node)
		}
	}
	return nil
}

// compare lowers the operator and compares the result with the graph. It returns the first difference.
func (e *expansion) compare(c *passes.Context, form lower.Form) string {
	var want *ir.Graph
	var err error
	if e := passes.Apart(c.Done(), func() { want, err = form.Apply(e.node) }); e != nil {
		return e.Error()
	}
	if err != nil {
		return err.Error()
	}
	same := comparison{of: map[*ir.Value]*ir.Value{}, mine: constants(c, nil), theirs: constants(c, nil)}
	i := 0
	for _, v := range e.node.Inputs {
		if v != nil && v.Const == nil {
			same.of[want.Inputs[i]] = v
			i++
		}
	}
	i = 0
	for _, v := range e.outputs {
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
