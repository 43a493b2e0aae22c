package passes

import (
	"errors"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/ops/eval"
)

// foldLimit is the maximum number of elements that folding may add to a plan. A larger result stays a computation,
// unless it is no larger than the constants that it is computed from.
const foldLimit = 1 << 20

// The budget of a compilation is a base and so much per byte of the source's constants: folding may be worth more for a
// larger model. An evaluation may take only a part of it. The search for forms has a part of its own, since it may fit
// each kernel of a model.
const (
	baseBytes, bytesPerByte = 1 << 26, 16
	baseWork, workPerByte   = 1 << 27, 256
	nodeBytes, nodeWork     = 1 << 24, 1 << 26

	searchWork, searchPerByte, maxSearch = 1 << 32, 1 << 15, 1 << 36
)

// NewBudget returns a budget for the work of all passes when g is compiled.
func NewBudget(g *ir.Graph) *ir.Budget { return newBudget(constantBytes(g)) }

func newBudget(source int64) *ir.Budget {
	fold, search := workFor(source)
	return ir.NewBudget(baseBytes+bytesPerByte*source, fold+search)
}

// workFor returns the operations of folding, and of the search for forms.
func workFor(source int64) (fold, search int64) {
	return baseWork + workPerByte*source, min(searchWork+searchPerByte*source, maxSearch)
}

func constantBytes(g *ir.Graph) int64 {
	var sum int64
	seen := map[*ir.Value]bool{}
	var walk func(g *ir.Graph)
	walk = func(g *ir.Graph) {
		for _, n := range g.Nodes {
			for _, v := range n.Inputs {
				if n.Step(1); v != nil && v.Const != nil && !seen[v] {
					seen[v] = true
					sum += ops.SizeOf(v.Const)
				}
			}
			for _, s := range n.Subgraphs() {
				walk(s)
			}
		}
	}
	walk(g)
	return sum
}

// evaluate computes a node from constants, within the part of the run's budget that folding grants a node. The error is
// a *ir.BudgetError if that does not suffice.
func (c *Context) evaluate(n *ir.Node, in []tensor.Datum) ([]tensor.Datum, error) {
	var have int64
	for _, d := range in {
		have += ops.SizeOf(d)
	}
	have = min(have, c.source) // made constants may be larger
	bytes, _ := c.budget.Left()
	b := c.fold.Part(min(bytes, nodeBytes+bytesPerByte*have), nodeWork+workPerByte*have)
	return eval.Options{Bounded: true}.Node(c.Done(), n, in, b)
}

// Fold replaces computations with constants by their results.
var Fold = &Pass{
	Name: "fold",
	Doc:  "Evaluates nodes whose inputs are all constants.",
	Run: func(c *Context, g *ir.Graph) (int, error) {
		n, err := fold(c, g)
		if n > 0 {
			g.RemoveDead()
		}
		return n, err
	},
}

func fold(c *Context, g *ir.Graph) (int, error) {
	f := folding{c: c, made: map[*ir.Value]int64{}, readers: map[*ir.Value]int{}, uses: g.Uses()}
	for v, list := range f.uses {
		v.Def.Step(4)
		f.readers[v] = len(list)
	}
	return f.graph(g)
}

// folding is one run of the pass.
type folding struct {
	c       *Context
	made    map[*ir.Value]int64 // bytes of the constants that were made
	readers map[*ir.Value]int   // that will not be removed
	uses    map[*ir.Value][]ir.Use
}

func (f *folding) graph(g *ir.Graph) (int, error) {
	changes := 0
	for _, n := range slices.Clone(g.Nodes) {
		f.c.Check()
		for _, s := range n.Subgraphs() {
			k, err := f.graph(s)
			changes += k
			if err != nil {
				return changes, err
			}
		}
		if !f.foldable(g, n) {
			continue
		}
		done, err := f.node(g, n)
		if err != nil {
			return changes, fmt.Errorf("node %v: %w", n, err)
		}
		if done {
			changes++
		}
	}
	return changes, nil
}

// node replaces the outputs of a node by constants. It reports false if the node stays, since its evaluation or its
// results do not fit into the budget.
func (f *folding) node(g *ir.Graph, n *ir.Node) (bool, error) {
	in, have := make([]tensor.Datum, len(n.Inputs)), 0
	for i, v := range n.Inputs {
		if n.Step(1); v != nil {
			in[i] = v.Const
			have += v.Const.Len()
		}
	}
	out, err := moved(n, in), error(nil)
	if out == nil {
		out, err = f.c.evaluate(n, in)
	}
	var over *ir.BudgetError
	if errors.As(err, &over) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	var bytes int64
	for i, v := range n.Outputs {
		if n.Step(1); v == nil || i >= len(out) {
			continue
		}
		t, ok := out[i].(*tensor.Tensor)
		if !ok {
			return false, fmt.Errorf("folding computed no tensor for %s", v.Name)
		}
		if size := t.Len(); size > foldLimit && size > have { // the types did not show it
			return false, nil
		}
		bytes += ops.SizeOf(t)
	}
	if f.c.budget.Take(bytes) != nil {
		return false, nil
	}
	for i, v := range n.Outputs {
		if n.Step(8); v == nil || i >= len(out) {
			continue
		}
		t := out[i].(*tensor.Tensor)
		// The node is removed with its last reader, so the constant can take its output's name.
		k := ir.NewConst(v.Name, t)
		v.Name += ".folded"
		for _, u := range f.uses[v] {
			if u.Node != nil {
				u.Node.Inputs[u.Index] = k
			} else {
				u.Graph.Outputs[u.Index] = k
			}
		}
		f.uses[k] = f.uses[v]
		f.made[k], f.readers[k] = ops.SizeOf(t), f.readers[v]
	}
	for _, v := range n.Inputs {
		n.Step(1)
		if f.readers[v]--; v != nil && f.readers[v] == 0 && f.made[v] > 0 { // only dead nodes read it
			f.c.budget.Release(f.made[v])
			v.Const = nil
		}
	}
	return true, nil
}

// moved returns the result of a node that only moves the elements of a lazy tensor, if that is lazy, too; else nil.
func moved(n *ir.Node, in []tensor.Datum) []tensor.Datum {
	if len(in) == 0 || n.Op.Domain != "" || !ops.Newest(n.Op) {
		return nil
	}
	t, ok := in[0].(*tensor.Tensor)
	if !ok || !t.Lazy() {
		return nil
	}
	switch {
	case n.Op.Name == "Identity":
		return []tensor.Datum{t}
	case n.Op.Name == "Transpose":
		if p := ops.Permutation(n); t.Rank() == 2 && p[0] == 1 {
			return []tensor.Datum{tensor.LazyTranspose(t)}
		}
	case n.Op.Reshapes:
		typ, ok := n.Outputs[0].TensorType()
		if !ok || typ.NoRank {
			return nil
		}
		if shape, known := typ.Shape.Known(); known {
			if x, err := t.Reshape(shape...); err == nil {
				return []tensor.Datum{x}
			}
		}
	}
	return nil
}

// foldable reports whether the node may become constants: all its inputs are constants, it is not one of the operators
// that make large tensors from small ones, and none of its outputs is an output of the graph.
func (f *folding) foldable(g *ir.Graph, n *ir.Node) bool {
	if n.Op.Random || len(n.Subgraphs()) > 0 || len(n.Inputs) == 0 && n.Op.Name != "Constant" ||
		n.Op == essm.RestoreDPLR { // discretize computes it, within a larger budget
		return false
	}
	have := int64(0)
	for _, v := range n.Inputs {
		if n.Step(1); v != nil && v.Const == nil {
			return false
		}
		if v != nil {
			have += int64(v.Const.Len())
		}
	}
	for _, v := range n.Outputs {
		if n.Step(2); v == nil {
			continue
		}
		if slices.ContainsFunc(f.uses[v], func(u ir.Use) bool { return u.Node == nil && u.Graph == g }) {
			return false
		}
		if _, ok := v.Type.(*ir.TensorType); !ok {
			return false
		}
		size, known := v.Shape().Size().Known()
		if known && size > foldLimit && size > have {
			return false
		}
	}
	return true
}
