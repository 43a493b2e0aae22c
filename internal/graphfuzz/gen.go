package graphfuzz

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
)

// Data holds inputs or outputs of a run by name.
type Data = map[string]tensor.Datum

// Case is a graph with the inputs of some runs. The shapes of the runs may differ.
type Case struct {
	Graph *ir.Graph
	Runs  []Data
	// Loose is set if the sizes of the first run, too, may contradict what operators expect of unknown dimensions.
	Loose bool
}

// value is a value of the graph under construction, with its datum for the first run, in float64 in place of float32.
type value struct {
	v *ir.Value
	d tensor.Datum
}

// tensor returns the datum of a value that is a tensor, or nil.
func (x *value) tensor() *tensor.Tensor { t, _ := x.d.(*tensor.Tensor); return t }

// elem returns the element type of a tensor, Invalid for other values.
func (x *value) elem() tensor.DType {
	if x.tensor() == nil {
		return tensor.Invalid
	}
	return x.v.Elem()
}

func (x *value) shape() []int {
	if t := x.tensor(); t != nil {
		return t.Shape()
	}
	return nil
}

// input is an input of the graph and the way to make its elements.
type input struct {
	x      *value
	fill   fill
	absent bool // an optional input that is left out
}

// generator makes one case. It computes each node as it adds it, so that later choices fit the values.
type generator struct {
	*Source
	root   *ir.Graph
	graph  *ir.Graph // that nodes are added to: root, or a subgraph
	opsets map[string]int
	inputs []input
	pool   []*value // that may be read in graph
	fixed  int      // the values of pool from graphs around it
	frame  *eval.Frame
	sizes  map[string]int // of symbols, in the first run
	names  int
	depth  int
	nodes  int  // how many may still be added
	wild   bool // infinities and NaN are kept
	plain  bool // float32 alone
	done   []applied
	// Fault is a panic, or a result that contradicts its type.
	fault error
}

// applied is a node without subgraphs that was added in graph.
type applied struct {
	op    *ir.Op
	in    []*value
	outs  int
	attrs []ir.Attr
	graph *ir.Graph
}

// twin adds a node once more, with the same inputs, and most likely other attributes.
func (g *generator) twin() bool {
	if len(g.done) == 0 {
		return false
	}
	a := g.done[g.IntN(len(g.done))]
	for i := len(g.done) - 1; len(a.attrs) == 0 && i >= 0; i-- {
		a = g.done[i]
	}
	if a.graph != g.graph {
		return false
	}
	return g.try(a.op, a.in, a.outs, g.varied(a.attrs)...) != nil
}

// varied changes one of some attributes.
func (g *generator) varied(attrs []ir.Attr) []ir.Attr {
	attrs = slices.Clone(attrs)
	if len(attrs) == 0 {
		return attrs
	}
	i := g.IntN(len(attrs))
	switch v := attrs[i].Value.(type) {
	case int64:
		attrs[i].Value = v + int64(g.IntN(3)) - 1
	case float64:
		attrs[i].Value = v * 0.5
	case []int64:
		c := slices.Clone(v)
		if len(c) > 1 && g.IntN(2) == 0 {
			c[0], c[len(c)-1] = c[len(c)-1], c[0]
		} else if len(c) > 0 {
			c[g.IntN(len(c))] += int64(g.IntN(3)) - 1
		}
		attrs[i].Value = c
	case *ir.Graph:
	default:
		attrs = slices.Delete(attrs, i, i+1)
	}
	return attrs
}

// bytes and work of one evaluation while a graph is made.
const (
	evalBytes = 16 << 20
	evalWork  = 1 << 24
	mostElems = 1 << 14
	evalTime  = time.Second
)

// Generate makes a case from choices. It returns nil if the choices lead to none. An error is a fault of an operator.
func Generate(s *Source) (*Case, error) {
	g := &generator{Source: s, root: &ir.Graph{Name: "random", Meta: map[string]string{}},
		frame: &eval.Frame{Values: map[*ir.Value]tensor.Datum{}}}
	g.graph = g.root
	g.opsets = ops.Opsets()
	g.sizes = map[string]int{"B": pick(s, 2, 1, 3), "L": pick(s, 5, 1, 8, 17, 33, 70, 2, 150, 300),
		"W": pick(s, 4, 1, 3, 16, 0)}
	g.nodes = 1 + s.IntN(10)
	g.wild = s.one(8)
	profiles := []func(*generator){(*generator).any, (*generator).any, (*generator).any, (*generator).network,
		(*generator).sequences, (*generator).control, (*generator).mixed}
	profiles[s.IntN(len(profiles))](g)
	if g.fault != nil {
		return nil, g.fault
	}
	return g.finish()
}

// finish chooses the outputs and the runs.
func (g *generator) finish() (*Case, error) {
	uses := g.root.Uses()
	var ends, rest []*value
	for _, x := range g.pool {
		switch {
		case x.v.Def == nil:
		case len(uses[x.v]) == 0:
			ends = append(ends, x)
		default:
			rest = append(rest, x)
		}
	}
	if len(ends) == 0 {
		return nil, nil
	}
	for len(ends) > 5 {
		ends = slices.Delete(ends, 0, 1)
	}
	if len(rest) > 0 && g.one(3) {
		ends = append(ends, rest[g.IntN(len(rest))])
	}
	if g.one(12) && len(g.inputs) > 0 { // an input or a value twice
		if x := g.inputs[g.IntN(len(g.inputs))]; !x.absent && x.x.d != nil {
			ends = append(ends, x.x)
		}
	}
	for i, x := range ends {
		if i == 0 || !slices.Contains(g.root.Outputs, x.v) {
			g.root.Outputs = append(g.root.Outputs, x.v)
		}
	}
	g.root.Opsets = g.opsets
	g.root.RemoveDead()
	g.dropInputs()
	rename(g.root)
	if err := ir.Verify(g.root); err != nil {
		return nil, fmt.Errorf("the graph that was made is refused: %w", err)
	}
	c := &Case{Graph: g.root, Runs: []Data{g.data(g.sizes, 0)}}
	if len(g.root.Symbols()) > 0 {
		for k := range 1 + g.IntN(2) {
			other := map[string]int{"B": pick(g.Source, 1, 2, 3, 4), "L": pick(g.Source, 3, 1, 9, 16, 31, 64, 130, 260),
				"W": pick(g.Source, 2, 1, 5, 0, 13)}
			c.Runs = append(c.Runs, g.data(other, uint64(k+1)))
		}
	} else if g.one(3) {
		c.Runs = append(c.Runs, g.data(g.sizes, 9))
	}
	return c, nil
}

// dropInputs removes the inputs that nothing reads.
func (g *generator) dropInputs() {
	uses := g.root.Uses()
	g.root.Inputs, g.inputs = nil, slices.DeleteFunc(g.inputs, func(x input) bool { return len(uses[x.x.v]) == 0 })
	for _, x := range g.inputs {
		g.root.Inputs = append(g.root.Inputs, x.x.v)
	}
}

// data returns inputs for given sizes.
func (g *generator) data(sizes map[string]int, run uint64) Data {
	bind := map[string]int64{}
	for name, n := range sizes {
		bind[name] = int64(n)
	}
	out := Data{}
	for _, x := range g.inputs {
		if x.absent {
			continue
		}
		if _, ok := x.fill.given.(*tensor.Tensor); x.fill.given != nil && !ok {
			out[x.x.v.Name] = x.fill.given
			continue
		}
		typ, _ := ir.AsTensor(x.x.v.Type)
		shape := make([]int, len(typ.Shape))
		for i, d := range typ.Shape {
			n, _ := d.Eval(bind)
			shape[i] = int(n)
		}
		f := x.fill
		if f.given == nil {
			f.seed += run << 32
		}
		out[x.x.v.Name] = f.make(typ.Elem, shape)
	}
	return out
}

// rename gives every value a short name of its own.
func rename(g *ir.Graph) {
	n, seen := 0, map[*ir.Value]bool{}
	name := func(prefix string, v *ir.Value) {
		if v != nil && !seen[v] {
			seen[v] = true
			v.Name = fmt.Sprintf("%s%d", prefix, n)
			n++
		}
	}
	var walk func(g *ir.Graph)
	walk = func(g *ir.Graph) {
		for _, v := range g.Inputs {
			name("x", v)
		}
		for _, k := range g.Nodes {
			for _, v := range k.Inputs {
				if v != nil && v.Const != nil {
					name("c", v)
				}
			}
			for _, sub := range k.Subgraphs() {
				walk(sub)
			}
			for _, v := range k.Outputs {
				name("v", v)
			}
		}
		for _, v := range g.Outputs {
			name("c", v)
		}
	}
	walk(g)
}

func (g *generator) name(prefix string) string {
	g.names++
	return fmt.Sprintf("%s_%d", prefix, g.names)
}

// add makes x available to later nodes.
func (g *generator) add(x *value) *value {
	g.pool = append(g.pool, x)
	g.frame.Values[x.v] = x.d
	return x
}

// dims returns the dimensions of an input of a shape. Some of those with the size of a symbol are that symbol.
func (g *generator) dims(shape []int) ir.Shape {
	out := ir.Shape{}
	for i, n := range shape {
		d := ir.Const(int64(n))
		for _, s := range []string{"B", "L", "W"} {
			if g.sizes[s] == n && (s != "B" || i == 0) && g.IntN(3) > 0 {
				d = ir.Sym(s)
				break
			}
		}
		out = append(out, d)
	}
	return out
}

// fillOf returns a fill of a kind with a seed.
func (g *generator) fillOf(kind fillKind) fill {
	return fill{kind: kind, seed: uint64(g.IntN(1 << 16))}
}

// newInput adds an input of the outermost graph.
func (g *generator) newInput(d tensor.DType, dims ir.Shape, shape []int, f fill) *value {
	x := &value{&ir.Value{Name: g.name("in"), Type: &ir.TensorType{Elem: d, Shape: dims}}, eval.Widen(f.make(d, shape))}
	g.inputs = append(g.inputs, input{x: x, fill: f})
	g.root.Inputs = append(g.root.Inputs, x.v)
	return g.addOuter(x)
}

// addOuter adds a value of the outermost graph.
func (g *generator) addOuter(x *value) *value {
	f := g.frame
	for f.Outer != nil {
		f = f.Outer
	}
	f.Values[x.v] = x.d
	g.pool = append(g.pool, x)
	return x
}

// newDatum adds an input that is no tensor, or has just the given elements.
func (g *generator) newDatum(d tensor.Datum, typ ir.Type) *value {
	x := &value{&ir.Value{Name: g.name("in"), Type: typ}, eval.Widen(d)}
	g.inputs = append(g.inputs, input{x: x, fill: fill{given: d}})
	g.root.Inputs = append(g.root.Inputs, x.v)
	return g.addOuter(x)
}

// constant returns a constant.
func (g *generator) constant(t *tensor.Tensor) *value {
	return &value{ir.NewConst(g.name("c"), t), eval.Widen(t)}
}

// ints returns a constant vector of int64.
func (g *generator) ints(v ...int64) *value { return g.constant(tensor.FromSlice(v, len(v))) }

// fresh returns a new input or constant.
func (g *generator) fresh(d tensor.DType, shape []int, f fill) *value {
	if g.IntN(5) < 2 && elems(shape) <= 4096 {
		return g.constant(f.make(d, shape))
	}
	return g.newInput(d, g.dims(shape), shape, f)
}

func elems(shape []int) int {
	n := 1
	for _, k := range shape {
		n *= k
	}
	return n
}

// operand returns a tensor of a type and shape: one that there is, or a new one.
func (g *generator) operand(d tensor.DType, shape []int, kind fillKind) *value {
	if kind == normal || g.one(3) {
		var fit []*value
		for _, x := range g.pool {
			if x.elem() == d && slices.Equal(x.shape(), shape) {
				fit = append(fit, x)
			}
		}
		if len(fit) > 0 && g.IntN(4) > 0 {
			return fit[max(g.IntN(len(fit)), g.IntN(len(fit)))]
		}
		if x := g.adapted(d, shape); x != nil {
			return x
		}
	}
	return g.fresh(d, shape, g.fillOf(g.kind(kind)))
}

// kind replaces normal numbers by others now and then.
func (g *generator) kind(k fillKind) fillKind {
	if k != normal {
		return k
	}
	if g.wild && g.one(3) {
		return odd
	}
	return pick(g.Source, normal, normal, normal, positive, unit, ties)
}

// adapted turns a value into one of another shape or type, if that is simple.
func (g *generator) adapted(d tensor.DType, shape []int) *value {
	if g.IntN(3) > 0 || g.nodes <= 0 {
		return nil
	}
	for range 3 {
		if len(g.pool) == 0 {
			return nil
		}
		x := g.pool[g.IntN(len(g.pool))]
		switch {
		case x.tensor() == nil:
		case x.elem() == d && x.tensor().Len() == elems(shape) && elems(shape) > 0:
			to := make([]int64, len(shape))
			for i, n := range shape {
				to[i] = int64(n)
			}
			return g.op("Reshape", []*value{x, g.ints(to...)})
		case slices.Equal(x.shape(), shape) && x.elem() != d && numeric(d) && numeric(x.elem()):
			return g.op("Cast", []*value{x}, ir.A("to", int64(d)))
		}
	}
	return nil
}

func numeric(d tensor.DType) bool {
	return d == tensor.Float32 || d == tensor.Float64 || d == tensor.Float16 || d == tensor.BFloat16 ||
		d == tensor.Int32 || d == tensor.Int64 || d == tensor.Int8 || d == tensor.Uint8 || d == tensor.Bool ||
		d == tensor.Int16 || d == tensor.Uint16 || d == tensor.Uint32 || d == tensor.Uint64
}

// existing returns a tensor that there is and that ok accepts, or nil.
func (g *generator) existing(ok func(x *value) bool) *value {
	var fit []*value
	for _, x := range g.pool {
		if x.tensor() != nil && ok(x) {
			fit = append(fit, x)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[max(g.IntN(len(fit)), g.IntN(len(fit)))]
}

// some returns a tensor with one of the element types.
func (g *generator) some(rank int, of ...tensor.DType) *value {
	if g.IntN(5) > 0 {
		x := g.existing(func(x *value) bool {
			return slices.Contains(of, x.elem()) && (rank < 0 || len(x.shape()) == rank)
		})
		if x != nil {
			return x
		}
	}
	if rank < 0 {
		rank = g.IntN(5)
	}
	return g.fresh(g.elem(of), g.randomShape(rank), g.fillOf(g.kind(normal)))
}

// elem chooses an element type, mostly float32.
func (g *generator) elem(of []tensor.DType) tensor.DType {
	if slices.Contains(of, tensor.Float32) && (g.plain || g.IntN(3) > 0) {
		return tensor.Float32
	}
	return of[g.IntN(len(of))]
}

// size chooses a dimension.
func (g *generator) size() int {
	switch g.IntN(12) {
	case 0, 1:
		return g.sizes["B"]
	case 2, 3, 4:
		return g.sizes["L"]
	case 5:
		return g.sizes["W"]
	case 6:
		return pick(g.Source, 1, 1, 1, 0)
	case 7:
		return pick(g.Source, 8, 9, 15, 16, 17, 31, 33, 67)
	}
	return 1 + g.IntN(5)
}

func (g *generator) randomShape(rank int) []int {
	for {
		shape := make([]int, rank)
		for i := range shape {
			shape[i] = g.size()
		}
		if elems(shape) <= 6000 {
			return shape
		}
	}
}

// op applies an operator of ai.onnx that has one output. It returns nil if the operator refuses.
func (g *generator) op(name string, in []*value, attrs ...ir.Attr) *value {
	out := g.ops("", name, 1, in, attrs...)
	if out == nil {
		return nil
	}
	return out[0]
}

// ops applies an operator. It returns nil if the operator refuses.
func (g *generator) ops(domain, name string, outs int, in []*value, attrs ...ir.Attr) []*value {
	op := ops.Default.Resolve(domain, name, g.opsets[domain])
	if op == nil {
		return nil
	}
	return g.try(op, in, outs, attrs...)
}

// try adds a node if its operator accepts the inputs: by types, and by computing it. It returns nil if not. Inputs may be
// nil; outputs are nil where there is no datum.
func (g *generator) try(op *ir.Op, in []*value, outs int, attrs ...ir.Attr) []*value {
	for i, a := range attrs { // files hold them as float32
		switch v := a.Value.(type) {
		case float64:
			attrs[i].Value = float64(float32(v))
		case []float64:
			c := slices.Clone(v)
			for j := range c {
				c[j] = float64(float32(c[j]))
			}
			attrs[i].Value = c
		}
	}
	n := &ir.Node{Op: op, Attrs: ir.NewAttrs(attrs...)}
	var data []tensor.Datum
	for _, x := range in {
		if x == nil {
			n.Inputs, data = append(n.Inputs, nil), append(data, nil)
			continue
		}
		n.Inputs, data = append(n.Inputs, x.v), append(data, x.d)
	}
	for len(n.Inputs) > 0 && n.Inputs[len(n.Inputs)-1] == nil {
		n.Inputs, data = n.Inputs[:len(n.Inputs)-1], data[:len(data)-1]
	}
	for i := range outs {
		if i > 0 && i < len(op.Out) && op.Out[i].Optional && g.one(3) {
			n.Outputs = append(n.Outputs, nil)
			continue
		}
		n.Outputs = append(n.Outputs, &ir.Value{Name: g.name("v"), Def: n})
	}
	out, err := g.compute(n, data)
	if err != nil {
		return nil
	}
	for i, v := range n.Outputs {
		if v != nil && (i >= len(out) || !g.tame(v, out[i])) {
			return nil
		}
	}
	g.graph.Nodes = append(g.graph.Nodes, n)
	g.nodes--
	if len(n.Subgraphs()) == 0 {
		g.done = append(g.done, applied{op, in, outs, attrs, g.graph})
	}
	made := make([]*value, outs)
	for i, v := range n.Outputs {
		if v != nil {
			made[i] = g.add(&value{v, out[i]})
		}
	}
	return made
}

// compute infers the types of a node's outputs, and evaluates it.
func (g *generator) compute(n *ir.Node, in []tensor.Datum) (out []tensor.Datum, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v: inference panics: %v", n, v)
			g.fault = err
		}
	}()
	if err := ir.InferNode(n); err != nil {
		return nil, err
	}
	p := eval.New(eval.Options{Wide: true, Bounded: true, Failed: func(n *ir.Node, err error, panicked any) error {
		if _, over := panicked.(*ir.BudgetError); panicked != nil && !over {
			g.fault = fmt.Errorf("%v: %v %v: evaluation panics: %v", n, n.Attrs, in, panicked)
			return g.fault
		}
		if panicked != nil {
			return panicked.(error)
		}
		return err
	}})
	if err := p.AddNode(n); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), evalTime)
	defer cancel()
	return p.Node(ctx, n, in, g.frame, ir.NewBudget(evalBytes, evalWork))
}

// tame reports whether a datum is one to go on with: not too large, and mostly without infinities and NaN.
func (g *generator) tame(v *ir.Value, d tensor.Datum) bool {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d.Len() > mostElems {
			return false
		}
		if !d.DType().IsFloat() {
			return true
		}
		x, err := d.Float64s()
		if err != nil {
			return true
		}
		most := 1e6
		if g.wild {
			return true
		}
		for _, k := range x {
			if math.IsNaN(k) || math.Abs(k) > most {
				return false
			}
		}
	case *tensor.Sequence:
		if len(d.Items) > 64 {
			return false
		}
		for _, x := range d.Items {
			if !g.tame(v, x) {
				return false
			}
		}
	}
	return true
}
