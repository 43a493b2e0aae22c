// Package regions has what the recognizers of package raise share: walks over the values of a graph; regions that are
// affine in one value, with the search for them; constants and shapes that are computed within budgets; the reasons for
// the order of passes.
//
// Recognizers have one manner of names: isX reports whether a node or a value is an X, asX also returns what it
// consists of, readX returns that or the reason why it is none, whyNotX returns only the reason, and findX looks for
// them in a graph.
//
// It imports ir, the operator packages, passes and gonum. What it computes is charged to the budgets of the run, and
// ends with the run's context.
package regions

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/passes"
)

// Region is a part of a graph that computes sink from source by operators that are affine in source. Everything else in
// it depends on constants and shapes only. A region is identified by running it, so all ways to write a convolution are
// equal.
type Region struct {
	Source, Sink *ir.Value
	Nodes        []*ir.Node // in the order of the graph
}

// MaxNodes is the maximum number of nodes of a region.
const MaxNodes = 1000

// Boundaries lists linear operators that end the search for a region, by full name, because they mix features, change
// the number of steps, or are layers already.
var Boundaries = map[string]bool{"Gemm": true, "ReduceMean": true, "ConvTranspose": true, "AveragePool": true,
	"GlobalAveragePool": true, "Resize": true, "GridSample": true, "STFT": true, "essm.Linear": true,
	"essm.HeadLinear": true, "essm.HeadScale": true, "essm.Affine": true, "essm.SSM": true, "essm.DenseSSM": true,
	"essm.StateSpace": true, "essm.Scan": true, "essm.DenseScan": true, "essm.DPLR": true, "essm.DPLRScan": true,
	"essm.SelectiveScan": true, "essm.GatedScan": true, "essm.SoftmaxConv": true, "essm.Pick": true}

// Index is what searches for regions know of a graph. The graph must not change while it is in use.
type Index struct {
	Run      *passes.Context
	G        *ir.Graph
	Position map[*ir.Node]int // in the graph's order
	Uses     map[*ir.Value][]ir.Use
	Settled  passes.Settled      // values that follow from parameters: their numbers are not read
	Unread   map[*ir.Node]string // why the matrix of a product was not read
	Memory   *ir.Budget          // of the probe of one region

	fixed  map[*ir.Value]bool
	along  map[*ir.Node]bool // whether a MatMul or an Einsum may act along time
	affine map[*ir.Node]affine
}

// affine is the answer of Index.Affine for a node.
type affine struct {
	in []*ir.Value
	ok bool
}

// NewIndex walks over a graph once.
func NewIndex(run *passes.Context, g *ir.Graph) *Index {
	ix := &Index{Run: run, G: g, Position: map[*ir.Node]int{}, Uses: g.Uses(), Settled: passes.SettledOf(run, g),
		Unread: map[*ir.Node]string{}, fixed: map[*ir.Value]bool{}, along: map[*ir.Node]bool{},
		affine: map[*ir.Node]affine{}}
	for i, n := range g.Nodes { // in order: inputs precede outputs
		ix.Position[n] = i
		fixed := !n.Op.Random && len(n.Subgraphs()) == 0
		if !n.Op.OfShapes {
			for _, v := range n.Inputs {
				fixed = fixed && (v == nil || ix.IsFixed(v))
			}
		}
		for _, v := range n.Outputs {
			if v != nil {
				ix.fixed[v] = fixed
			}
		}
	}
	return ix
}

// IsFixed reports whether v depends only on constants and shapes. An omitted output depends on nothing.
func (ix *Index) IsFixed(v *ir.Value) bool { return v == nil || v.Const != nil || ix.fixed[v] }

// Affine returns the inputs of n that are not fixed, if n is affine in them.
func (ix *Index) Affine(n *ir.Node) (in []*ir.Value, ok bool) {
	a, known := ix.affine[n]
	if !known {
		a.in, a.ok = AffineIn(n, func(v *ir.Value) bool { return !ix.IsFixed(v) })
		ix.affine[n] = a
	}
	return a.in, a.ok
}

// data returns the inputs in which node n is affine. It returns false if n is not affine, or may not be part of a
// region.
func (ix *Index) data(n *ir.Node) (in []*ir.Value, ok bool) {
	if Boundaries[n.Op.FullName()] {
		return nil, false
	}
	in, ok = ix.Affine(n)
	if !ok {
		return nil, false
	}
	switch n.Op.FullName() {
	case "MatMul", "Einsum":
		return in, ix.ActsAlongSteps(n)
	case "ReduceSum": // others sum over features
		return in, ix.SumsWindows(n)
	case "Cast":
		return in, IsReal(n.Outputs[0].Elem()) && IsReal(in[0].Elem())
	case "Conv":
		return in, WhyNotDepthwise(n) == ""
	}
	return in, true
}

// IsReal reports whether elements of a type have at least float32's precision.
func IsReal(d tensor.DType) bool { return d == tensor.Float32 || d == tensor.Float64 }

// WhyNotDepthwise returns why a convolution is not depthwise with stride 1, or "" if it is.
func WhyNotDepthwise(n *ir.Node) string {
	w := n.In(1).Shape()
	if len(w) < 3 || !w[1].Equal(ir.Const(1)) {
		return fmt.Sprintf("it mixes channels: its kernel is %v, expected one input channel for each output channel",
			n.In(1).Type)
	}
	for _, s := range n.Attrs.Ints("strides", nil) {
		if s != 1 {
			return fmt.Sprintf("it skips steps: its stride is %d, expected 1", s)
		}
	}
	return ""
}

// ActsAlongSteps reports whether a product may act along time: whether its matrix has constant diagonals except for a
// few elements. Other products mix features, and end a region.
func (ix *Index) ActsAlongSteps(n *ir.Node) bool {
	ok, known := ix.along[n]
	if !known {
		for i := range n.Inputs {
			ok = ok || ix.nearlyToeplitz(n, i)
		}
		ix.along[n] = ok
	}
	return ok
}

// Upstream collects the nodes from which sink is computed, back to stop, and the values that they start from. It
// returns false if there are too many.
func (ix *Index) Upstream(sink, stop *ir.Value) (nodes []*ir.Node, leaves []*ir.Value, ok bool) {
	inside := map[*ir.Node]bool{}
	walk := WalkFrom(sink)
	for v := range walk.Values() {
		var in []*ir.Value
		if v != stop && v.Def != nil {
			if d, ok := ix.data(v.Def); ok {
				in = d
			}
		}
		if in == nil {
			leaves = append(leaves, v)
			continue
		}
		if !inside[v.Def] {
			inside[v.Def] = true
			nodes = append(nodes, v.Def)
			if len(nodes) > MaxNodes {
				return nil, nil, false
			}
		}
		walk.Add(in...)
	}
	slices.SortFunc(nodes, func(a, b *ir.Node) int { return ix.Position[a] - ix.Position[b] })
	return nodes, leaves, true
}

// Sources lists the values that all paths to sink pass through, the nearest first.
func (ix *Index) Sources(sink *ir.Value) []*ir.Value {
	nodes, leaves, ok := ix.Upstream(sink, nil)
	if !ok {
		return nil
	}
	// The dominators of each value: the value itself, and those of all its inputs. Values are numbered in the graph's
	// order.
	dom := map[*ir.Value][]*ir.Value{}
	for _, v := range leaves {
		dom[v] = []*ir.Value{v}
	}
	for _, n := range nodes {
		in, _ := ix.data(n)
		common := dom[in[0]]
		for _, v := range in[1:] {
			ix.Run.Check()
			if ix.Run.Search().Spend(int64(len(common))*int64(len(dom[v]))) != nil {
				return nil
			}
			common = slices.DeleteFunc(slices.Clone(common),
				func(d *ir.Value) bool { return !slices.Contains(dom[v], d) })
		}
		for _, o := range n.Outputs {
			if o != nil {
				dom[o] = append(slices.Clone(common), o)
			}
		}
	}
	out := slices.Clone(dom[sink])
	slices.Reverse(out)
	return slices.DeleteFunc(out, func(v *ir.Value) bool { return v == sink })
}

// Sinks lists the values that are computed from anchor's results by affine operators, the farthest first.
func (ix *Index) Sinks(anchor *ir.Node) []*ir.Value {
	var out []*ir.Value
	walk := WalkFrom(anchor.Outputs...)
	for v := range walk.Values() {
		out = append(out, v)
		for _, u := range ix.Uses[v] {
			if u.Node == nil {
				continue
			}
			if _, here := ix.Position[u.Node]; !here { // in a subgraph
				continue
			}
			if _, ok := ix.data(u.Node); ok && len(out) < MaxNodes {
				walk.Add(u.Node.Outputs...)
			}
		}
	}
	slices.SortFunc(out, func(a, b *ir.Value) int { return ix.Position[b.Def] - ix.Position[a.Def] })
	return out
}

// Region returns the region between two values if it contains the anchor. If there is none because a value between them
// is used elsewhere, it returns that as the reason.
func (ix *Index) Region(source, sink *ir.Value, anchor *ir.Node) (*Region, string) {
	nodes, leaves, ok := ix.Upstream(sink, source)
	if !ok || len(leaves) != 1 || leaves[0] != source || !slices.Contains(nodes, anchor) {
		return nil, ""
	}
	inside := map[*ir.Node]bool{}
	for _, n := range nodes {
		inside[n] = true
	}
	late := map[*ir.Value]bool{} // computed from the anchor
	for _, n := range nodes {
		in, _ := ix.data(n)
		if n != anchor && !slices.ContainsFunc(in, func(v *ir.Value) bool { return late[v] }) {
			continue
		}
		for _, v := range n.Outputs {
			if v == nil || v == sink {
				continue
			}
			late[v] = true
			u, elsewhere := Elsewhere(ix.Uses[v], func(n *ir.Node) bool { return inside[n] })
			switch {
			case elsewhere && u.Node == nil:
				return nil, fmt.Sprintf("%s, between %s and %s, is also an output of the graph", v.Name, source.Name,
					sink.Name)
			case elsewhere:
				return nil, fmt.Sprintf("%s, between %s and %s, is also an input of %v", v.Name, source.Name,
					sink.Name, u.Node)
			}
		}
	}
	return &Region{Source: source, Sink: sink, Nodes: nodes}, ""
}

// Run computes the sink for a source. The evaluator e computes fixed values, and keeps them.
func (r *Region) Run(e *eval.Constants, x *tensor.Tensor) (*tensor.Tensor, error) {
	env := map[*ir.Value]tensor.Datum{r.Source: x}
	for _, n := range r.Nodes {
		in := make([]tensor.Datum, len(n.Inputs))
		for i, v := range n.Inputs {
			if v == nil {
				continue
			}
			if d, ok := env[v]; ok {
				in[i] = d
				continue
			}
			d, err := e.Value(v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", v.Name, err)
			}
			in[i] = d
		}
		out, ok, err := quickConv(e, n, in)
		if !ok && err == nil {
			out, err = e.Node(n, in)
		}
		if err != nil {
			return nil, err
		}
		for i, v := range n.Outputs {
			if v != nil {
				env[v] = out[i]
			}
		}
	}
	t, ok := env[r.Sink].(*tensor.Tensor)
	if !ok {
		return nil, fmt.Errorf("%s was not computed", r.Sink.Name)
	}
	return t, nil
}

// LargestNumber returns the largest number that the region could compare a length with: a dimension of a constant, or
// an integer constant that does not mean infinity.
func (ix *Index) LargestNumber(r *Region) int64 {
	most := int64(0)
	compare := func(list []int64) {
		for _, k := range list {
			if k = max(k, -k); k < 1<<30 {
				most = max(most, k)
			}
		}
	}
	walk := WalkFrom()
	for _, n := range r.Nodes {
		walk.Add(n.Inputs...)
		if k, ok := ops.ConstInts(n.In(1)); ok {
			compare(k)
		}
	}
	for v := range walk.Values() {
		switch {
		case v.Const != nil:
			for _, d := range v.Const.Shape() {
				most = max(most, int64(d))
			}
			if x, err := v.Const.Int64s(); err == nil {
				compare(x)
			}
		case ix.IsFixed(v) && v.Def != nil:
			for _, a := range v.Def.Attrs {
				if t, ok := a.Value.(*tensor.Tensor); ok {
					walk.Add(&ir.Value{Const: t})
				}
			}
			if !v.Def.Op.OfShapes {
				walk.Add(v.Def.Inputs...)
			}
		}
	}
	return most
}
