package lower

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// listed are the operators that a lowered graph lists in its metadata (ir.MetaOperators), since package raise cannot
// recognize what is written for them. A reader puts them back if they would be lowered to the same nodes again.
var listed = map[string]bool{
	"Attention":           true,
	"essm.ContinuousConv": true,
	"essm.DPLRScan":       true,
	"essm.DenseSSM":       true,
	"essm.FourierMix":     true,
	"essm.GatedScan":      true,
	"essm.Pick":           true,
	"essm.SSM":            true,
	"essm.SelectiveScan":  true,
	"essm.SoftmaxConv":    true,
	"essm.StepMask":       true,
	"essm.SubsetProducts": true,
}

// list adds a node to the list, unless it is written as it is.
func (l *lowerer) list(n *ir.Node) {
	if !l.nested && listed[n.Op.FullName()] && ops.Newest(n.Op) {
		l.operators = append(l.operators, &ir.Node{Op: n.Op, Scope: n.Scope, Attrs: n.Attrs,
			Inputs: slices.Clone(n.Inputs), Outputs: slices.Clone(n.Outputs)})
	}
}

// writeOperators writes the listed operators to the metadata of the finished graph, as a graph in IR text. Its inputs
// and outputs are values of the graph, by their names. A constant of a listed operator is computed from one of the
// graph where that is possible, and else in the text.
func (l *lowerer) writeOperators(g *ir.Graph) error {
	delete(g.Meta, ir.MetaOperators)
	f := &operatorList{g: &ir.Graph{Name: "operators", Opsets: map[string]int{}}, of: map[*ir.Value]*ir.Value{},
		has: map[*ir.Value]bool{}, names: map[string]bool{}, bySize: map[int][]*ir.Value{}}
	f.values(g)
	for _, n := range l.operators {
		in, outs := slices.Clone(n.Inputs), slices.Clone(n.Outputs)
		for i, v := range in {
			in[i] = l.now(v)
		}
		left := false
		for i, v := range outs {
			if outs[i] = l.now(v); !f.has[outs[i]] {
				outs[i] = nil // nothing reads it
			}
			left = left || outs[i] != nil
		}
		if !left {
			continue
		}
		if err := f.add(n, in, outs); err != nil {
			return fmt.Errorf("list of operators: %v: %w", n, err)
		}
	}
	if len(f.g.Nodes) == 0 {
		return nil
	}
	if err := ir.Verify(f.g); err != nil {
		return fmt.Errorf("list of operators: %w", err)
	}
	if g.Meta == nil {
		g.Meta = map[string]string{}
	}
	g.Meta[ir.MetaOperators] = irtext.String(f.g)
	return nil
}

// operatorList is a list of operators under construction.
type operatorList struct {
	g      *ir.Graph
	of     map[*ir.Value]*ir.Value // from values of the lowered graph to those of the list
	has    map[*ir.Value]bool      // the values of the lowered graph
	names  map[string]bool         // their names, and those of the list
	bySize map[int][]*ir.Value     // its constants
}

// values collects the values of the lowered graph, except those of its subgraphs.
func (f *operatorList) values(g *ir.Graph) {
	see := func(v *ir.Value) {
		if v == nil || f.has[v] {
			return
		}
		f.has[v], f.names[v.Name] = true, true
		if v.Const != nil {
			f.bySize[v.Const.Len()] = append(f.bySize[v.Const.Len()], v)
		}
	}
	for _, v := range slices.Concat(g.Inputs, g.Parameters) {
		see(v)
	}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			see(v)
		}
		for _, v := range n.Inputs {
			see(v)
		}
	}
}

// add adds a node whose inputs and outputs are values of the lowered graph, or constants.
func (f *operatorList) add(n *ir.Node, in, outs []*ir.Value) error {
	for i, v := range in {
		if v == nil {
			continue
		}
		var err error
		if in[i], err = f.value(v); err != nil {
			return err
		}
	}
	for i, v := range outs {
		if v != nil {
			outs[i] = &ir.Value{Name: v.Name}
			f.of[v] = outs[i]
			f.g.Outputs = append(f.g.Outputs, outs[i])
		}
	}
	return f.node(&ir.Node{Op: n.Op, Scope: n.Scope, Attrs: n.Attrs, Inputs: in, Outputs: outs})
}

func (f *operatorList) node(n *ir.Node) error {
	for _, v := range n.Outputs {
		if v != nil {
			v.Def = n
		}
	}
	f.g.Opsets[n.Op.Domain] = ops.Opsets()[n.Op.Domain]
	f.g.Nodes = append(f.g.Nodes, n)
	return ir.InferNode(n)
}

// value returns the value of the list for a value of the lowered graph, or for a constant.
func (f *operatorList) value(v *ir.Value) (*ir.Value, error) {
	if w := f.of[v]; w != nil {
		return w, nil
	}
	var w *ir.Value
	if v.Const == nil || f.has[v] {
		w = &ir.Value{Name: v.Name, Type: v.Type}
		f.g.Inputs = append(f.g.Inputs, w)
	} else {
		var err error
		if w, err = f.rearranged(v.Const); err != nil {
			return nil, err
		}
		if w == nil {
			w = ir.NewConst(f.unique(v.Name), v.Const)
		}
	}
	f.of[v] = w
	return w, nil
}

func (f *operatorList) unique(hint string) string {
	name := hint
	for i := 1; f.names[name]; i++ {
		name = fmt.Sprint(hint, "_", i)
	}
	f.names[name] = true
	return name
}

// inText is the number of elements up to which a constant is in the text, without a search for it.
const inText = 64

// rearranged returns t computed from a constant of the lowered graph that has the same elements, perhaps with the last
// two axes exchanged or rounded to its type; nil if there is none. Rounded elements are what the file computes with.
func (f *operatorList) rearranged(t *tensor.Tensor) (*ir.Value, error) {
	if t.Len() <= inText || !t.DType().IsFloat() {
		return nil, nil
	}
	for _, v := range f.bySize[t.Len()] {
		if !v.Const.DType().IsFloat() {
			continue
		}
		rounded, err := t.Convert(v.Const.DType(), false)
		if err != nil {
			return nil, err
		}
		if sameElements(rounded, v.Const) {
			return f.derived(v, false, t)
		}
		rank := v.Const.Rank()
		if rank > 1 && t.Rank() > 1 && t.Dim(-1) == v.Const.Dim(rank-2) && sameElements(rounded, turnedLast(v.Const)) {
			return f.derived(v, true, t)
		}
	}
	return nil, nil
}

// derived returns t computed from the constant v.
func (f *operatorList) derived(v *ir.Value, turned bool, t *tensor.Tensor) (*ir.Value, error) {
	x, err := f.value(v)
	apply := func(name string, attrs []ir.Attr, more ...*ir.Value) {
		if err != nil {
			return
		}
		y := &ir.Value{Name: f.unique(v.Name)}
		err = f.node(&ir.Node{Op: ops.Default.Resolve("", name, ops.Opsets()[""]), Attrs: ir.NewAttrs(attrs...),
			Inputs: append([]*ir.Value{x}, more...), Outputs: []*ir.Value{y}})
		x = y
	}
	if turned {
		perm := make([]int64, v.Const.Rank())
		for i := range perm {
			perm[i] = int64(i)
		}
		slices.Reverse(perm[len(perm)-2:])
		apply("Transpose", []ir.Attr{ir.A("perm", perm)})
	}
	if turned || !slices.Equal(t.Shape(), v.Const.Shape()) {
		shape := make([]int64, t.Rank())
		for i, d := range t.Shape() {
			shape[i] = int64(d)
		}
		apply("Reshape", nil, ir.NewConst(f.unique("shape"), tensor.FromSlice(shape, len(shape))))
	}
	if t.DType() != v.Const.DType() {
		apply("Cast", []ir.Attr{ir.A("to", int(t.DType()))})
	}
	return x, err
}

func sameElements(a, b *tensor.Tensor) bool {
	flat, err := a.Reshape(b.Shape()...)
	return err == nil && tensor.Equal(flat, b)
}

// turnedLast exchanges the last two axes of a tensor of floats.
func turnedLast(t *tensor.Tensor) *tensor.Tensor {
	x, err := t.Float64s()
	if err != nil {
		return t
	}
	rank := t.Rank()
	rows, cols := t.Dim(rank-2), t.Dim(rank-1)
	y := make([]float64, len(x))
	for i := range y {
		m, r, c := i/(rows*cols), i/rows%cols, i%rows
		y[i] = x[(m*rows+c)*cols+r]
	}
	shape := slices.Clone(t.Shape())
	slices.Reverse(shape[rank-2:])
	turned, err := tensor.FromFloat64s(t.DType(), y, shape...)
	if err != nil {
		return t
	}
	return turned
}
