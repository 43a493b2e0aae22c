package lowering

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Widening is a Backend that computes float16 and bfloat16 graphs in float32. The lowering then keeps such values as
// float32 with the same numbers: if an operator rounds its result, a following step rounds that to the type of the
// graph (Rounds). Constants are widened once. Inputs, outputs, and the operands of operators that the backend does
// not widen keep the types of the graph, with casts around them.
type Widening interface {
	Backend
	// Widens reports whether a node is computed in float32. It is called for operators with floats as operands or
	// results, and without attributes that name types.
	Widens(n *ir.Node) bool
}

// roundings are operators on float32 that round to a narrower type.
var roundings = map[tensor.DType]*ir.Op{
	tensor.Float16:  rounding("Float16", scalar.Float16),
	tensor.BFloat16: rounding("BFloat16", scalar.BFloat16),
}

func rounding(name string, round func(scalar.Expr) scalar.Expr) *ir.Op {
	return ops.Complete(&ir.Op{
		Domain: "essmc", Name: name, Doc: "Rounds to a number of the type, which stays a float32.",
		In: ops.Sig("x:float32"), Out: ops.Sig("y:float32"),
		Element: func(_ *ir.Node, x []scalar.Expr) scalar.Expr { return round(x[0]) },
		Tol:     ir.Exact,
	})
}

// Rounds reports whether op is the operator of a step that rounds a widened value.
func Rounds(op *ir.Op) bool {
	return op == roundings[tensor.Float16] || op == roundings[tensor.BFloat16]
}

// widener rewrites a copy of a graph.
type widener struct {
	b     Widening
	steps *ir.EvalCtx
	// For values of the graph in narrow types: the float32 values with their numbers, and, if these differ, values
	// in the narrow types. Each value has at least one of the two. Those of inner graphs are removed at their end.
	wide, own map[*ir.Value]*ir.Value
	made      []entry // of wide and own, in order
	consts    map[*tensor.Tensor]*ir.Value
}

// entry is an entry of a map of forms.
type entry struct {
	of map[*ir.Value]*ir.Value
	v  *ir.Value
}

// widen returns g, or a copy of it in which b computes in float32.
func widen(g *ir.Graph, b Backend, steps *ir.EvalCtx) *ir.Graph {
	w, ok := b.(Widening)
	if !ok || !hasNarrow(g) {
		return g
	}
	g = g.Clone()
	x := widener{b: w, steps: steps, wide: map[*ir.Value]*ir.Value{}, own: map[*ir.Value]*ir.Value{},
		consts: map[*tensor.Tensor]*ir.Value{}}
	x.graph(g)
	return g
}

// narrow returns the element type of v if that is float16 or bfloat16.
func narrow(v *ir.Value) (d tensor.DType, ok bool) {
	if v == nil {
		return d, false
	}
	t, ok := v.Type.(*ir.TensorType)
	if !ok || t.Elem != tensor.Float16 && t.Elem != tensor.BFloat16 {
		return d, false
	}
	return t.Elem, true
}

func isNarrow(v *ir.Value) bool {
	_, ok := narrow(v)
	return ok
}

func hasNarrow(g *ir.Graph) bool {
	if slices.ContainsFunc(g.Inputs, isNarrow) {
		return true
	}
	for _, n := range g.Nodes {
		if slices.ContainsFunc(n.Outputs, isNarrow) || slices.ContainsFunc(n.Inputs, isNarrow) ||
			slices.ContainsFunc(n.Subgraphs(), hasNarrow) {
			return true
		}
	}
	return false
}

// graph rewrites a graph. Its inputs and outputs keep their types.
func (w *widener) graph(g *ir.Graph) {
	mark := len(w.made)
	nodes := g.Nodes
	g.Nodes = nil
	for _, n := range nodes {
		w.steps.Pause()
		w.node(g, n)
	}
	for i, v := range g.Outputs {
		g.Outputs[i] = w.ownOf(g, v)
	}
	for _, e := range w.made[mark:] { // the other form of the value may belong to a graph around this one
		delete(e.of, e.v)
	}
	w.made = w.made[:mark]
}

func (w *widener) node(g *ir.Graph, n *ir.Node) {
	touches := slices.ContainsFunc(n.Inputs, isNarrow) || slices.ContainsFunc(n.Outputs, isNarrow)
	if touches && n.Op.Domain == "" && n.Op.Name == "CastLike" && ops.Newest(n.Op) {
		asCast(n)
	}
	switch {
	case touches && n.Op.Domain == "" && n.Op.Name == "Cast" && ops.Newest(n.Op):
		w.cast(g, n)
		return
	case touches && w.widens(n):
		w.compute(g, n)
		return
	}
	for i, v := range n.Inputs {
		n.Inputs[i] = w.ownOf(g, v)
	}
	for _, s := range n.Subgraphs() {
		w.captures(g, s)
		w.graph(s)
	}
	g.Nodes = append(g.Nodes, n)
}

// asCast makes a Cast of a CastLike, whose second input is read for its type only.
func asCast(n *ir.Node) {
	t, ok := n.Outputs[0].TensorType()
	if !ok {
		return
	}
	n.Op, n.Inputs = ops.Default.Resolve("", "Cast", ops.Opsets()[""]), n.Inputs[:1]
	n.Attrs = append(slices.Clone(n.Attrs), ir.A("to", int(t.Elem)))
}

// widens reports whether a node is computed in float32.
func (w *widener) widens(n *ir.Node) bool {
	if n.Op.Random || len(n.Subgraphs()) > 0 || !ops.Newest(n.Op) || !slices.ContainsFunc(n.Inputs, isNarrow) {
		return false
	}
	for _, v := range slices.Concat(n.Inputs, n.Outputs) {
		if v == nil {
			continue
		}
		if _, ok := v.Type.(*ir.TensorType); !ok {
			return false
		}
	}
	// Quantization divides in the type of its scale.
	quantized := func(v *ir.Value) bool {
		d := v.Elem()
		return (d.IsInt() || d.IsFloat()) && d.Bits() <= 16 && !isNarrow(v)
	}
	if slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return v != nil && quantized(v) }) {
		return false
	}
	// A wide result of a body would reveal that the steps within are not rounded.
	isWide := func(v *ir.Value) bool { return v != nil && IsFloat32(v.Type) }
	if n.Op.Body != nil && slices.ContainsFunc(n.Outputs, isWide) {
		return false
	}
	return followsInputs(n) && w.b.Widens(n)
}

// followsInputs reports whether the narrow results of n would be float32 if its inputs were, and not of a type that an
// attribute states.
func followsInputs(n *ir.Node) bool {
	m := *n
	m.Inputs, m.Outputs = slices.Clone(n.Inputs), make([]*ir.Value, len(n.Outputs))
	for i, v := range n.Inputs {
		if isNarrow(v) {
			m.Inputs[i] = &ir.Value{Name: v.Name, Type: wideType(v)}
		}
	}
	for i, v := range n.Outputs {
		if v != nil {
			m.Outputs[i] = &ir.Value{Name: v.Name, Def: &m}
		}
	}
	if ir.InferNode(&m) != nil {
		return false
	}
	for i, v := range n.Outputs {
		if isNarrow(v) && !IsFloat32(m.Outputs[i].Type) {
			return false
		}
	}
	return true
}

// compute makes n compute in float32.
func (w *widener) compute(g *ir.Graph, n *ir.Node) {
	for i, v := range n.Inputs {
		n.Inputs[i] = w.wideOf(g, v)
	}
	g.Nodes = append(g.Nodes, n)
	for i, v := range n.Outputs {
		d, ok := narrow(v)
		if !ok {
			continue
		}
		n.Outputs[i] = &ir.Value{Name: v.Name, Type: wideType(v), Def: n}
		if n.Op.Tol == ir.Exact {
			w.enter(w.wide, v, n.Outputs[i])
		} else {
			w.enter(w.wide, v, w.round(g, n, n.Outputs[i], v, d))
		}
	}
}

// round adds a node that rounds x to type d, the type of v.
func (w *widener) round(g *ir.Graph, n *ir.Node, x, v *ir.Value, d tensor.DType) *ir.Value {
	r := &ir.Node{Op: roundings[d], Name: n.Name, Scope: n.Scope, Inputs: []*ir.Value{x}}
	r.Outputs = []*ir.Value{{Name: v.Name, Type: wideType(v), Def: r}}
	g.Nodes = append(g.Nodes, r)
	return r.Outputs[0]
}

// cast rewrites a Cast to or from a narrow type.
func (w *widener) cast(g *ir.Graph, n *ir.Node) {
	from, to := n.In(0), n.Out(0)
	elem, fromNarrow := narrow(from)
	d, toNarrow := narrow(to)
	t, ok := from.Type.(*ir.TensorType)
	switch {
	case to == nil:
		return
	case !ok || t.Elem == tensor.String || !fromNarrow && !roundsOnce(t.Elem, d):
		n.Inputs[0] = w.ownOf(g, from)
		g.Nodes = append(g.Nodes, n)
	case !toNarrow: // casts of widened values give the same as before
		n.Inputs[0] = w.wideOf(g, from)
		g.Nodes = append(g.Nodes, n)
	case fromNarrow && elem == d:
		w.enter(w.wide, to, w.wideOf(g, from))
	case fromNarrow || t.Elem == tensor.Float32:
		w.enter(w.wide, to, w.round(g, n, w.wideOf(g, from), to, d))
	default:
		n.Outputs[0] = &ir.Value{Name: to.Name, Type: wideType(to), Def: n}
		n.Attrs = slices.Clone(n.Attrs)
		for i, a := range n.Attrs {
			if a.Name == "to" {
				n.Attrs[i] = ir.A("to", int(tensor.Float32))
			}
		}
		g.Nodes = append(g.Nodes, n)
		w.enter(w.wide, to, w.round(g, n, n.Outputs[0], to, d))
	}
}

// roundsOnce reports whether rounding a number of type d first to float32 and then to the narrow type to equals
// rounding it at once: because float32 represents it exactly, or because it is out of range for to.
func roundsOnce(d, to tensor.DType) bool {
	switch d {
	case tensor.Float32, tensor.Bool, tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16:
		return true
	case tensor.Int32, tensor.Uint32, tensor.Int64, tensor.Uint64:
		return to == tensor.Float16
	}
	return false
}

func wideType(v *ir.Value) ir.Type {
	t := *v.Type.(*ir.TensorType)
	t.Elem = tensor.Float32
	return &t
}

func (w *widener) enter(m map[*ir.Value]*ir.Value, v, x *ir.Value) {
	m[v] = x
	w.made = append(w.made, entry{m, v})
}

// wideOf returns the float32 value for v, or v if it is not narrow.
func (w *widener) wideOf(g *ir.Graph, v *ir.Value) *ir.Value {
	if !isNarrow(v) {
		return v
	}
	if x := w.wide[v]; x != nil {
		return x
	}
	if v.Const != nil {
		x := w.consts[v.Const]
		if x == nil {
			x = &ir.Value{Name: v.Name, Type: wideType(v), Const: w.widened(v.Const)}
			w.consts[v.Const] = x
		}
		return x
	}
	x := w.castTo(g, w.ownOf(g, v), v, tensor.Float32)
	w.enter(w.wide, v, x)
	return x
}

// ownOf returns the value for v in the type of the graph.
func (w *widener) ownOf(g *ir.Graph, v *ir.Value) *ir.Value {
	d, ok := narrow(v)
	if !ok {
		return v
	}
	if x := w.own[v]; x != nil {
		return x
	}
	x := w.wide[v]
	if x == nil {
		return v
	}
	x = w.castTo(g, x, v, d)
	w.enter(w.own, v, x)
	return x
}

// castTo adds a Cast of x, which replaces v.
func (w *widener) castTo(g *ir.Graph, x, v *ir.Value, d tensor.DType) *ir.Value {
	t := *v.Type.(*ir.TensorType)
	t.Elem = d
	c := &ir.Node{Op: ops.Default.Resolve("", "Cast", ops.Opsets()[""]), Inputs: []*ir.Value{x},
		Attrs: []ir.Attr{ir.A("to", int(d))}}
	if x.Def != nil {
		c.Name, c.Scope = x.Def.Name, x.Def.Scope
	}
	c.Outputs = []*ir.Value{{Name: v.Name, Type: &t, Def: c}}
	g.Nodes = append(g.Nodes, c)
	return c.Outputs[0]
}

// captures makes the values that a subgraph captures available in g, so that its iterations share them.
func (w *widener) captures(g, sub *ir.Graph) {
	for _, v := range sub.Captures() {
		if isNarrow(v) && v.Const == nil {
			w.wideOf(g, v)
		}
	}
}

// widened returns the numbers of t as float32.
func (w *widener) widened(t *tensor.Tensor) *tensor.Tensor {
	if t.Lazy() {
		return tensor.LazyFloat32(t)
	}
	x := ops.New(w.steps, tensor.Float32, t.Shape()...)
	y := tensor.Data[float32](x)
	if t.DType() == tensor.Float16 {
		for i, f := range ops.All(w.steps, tensor.Data[tensor.F16](t)) {
			y[i] = f.Float32()
		}
		return x
	}
	for i, f := range ops.All(w.steps, tensor.Data[tensor.BF16](t)) {
		y[i] = f.Float32()
	}
	return x
}
