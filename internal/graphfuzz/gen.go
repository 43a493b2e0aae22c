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
	plain  bool // only float32
	most   int  // outputs; 0: 5
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
func Generate(s *Source) (*Case, error) { return generate(s, nil) }

// generate makes a case of a profile, or of a random one for nil.
func generate(s *Source, profile func(*generator)) (*Case, error) {
	g := &generator{Source: s, root: &ir.Graph{Name: "random", Meta: map[string]string{}},
		frame: &eval.Frame{Values: map[*ir.Value]tensor.Datum{}}}
	g.graph = g.root
	g.opsets = ops.Opsets()
	g.sizes = map[string]int{"B": pick(s, 2, 1, 3), "L": pick(s, 5, 1, 8, 17, 33, 70, 2, 150, 300),
		"W": pick(s, 4, 1, 3, 16, 0)}
	g.nodes = 1 + s.IntN(10)
	g.wild = s.one(8)
	profiles := []func(*generator){(*generator).any, (*generator).any, (*generator).systems, (*generator).network,
		(*generator).sequences, (*generator).control, (*generator).mixed}
	switch s.IntN(32) {
	case 30:
		profiles = []func(*generator){(*generator).broad}
	case 31:
		profiles = []func(*generator){(*generator).doubles}
	}
	if profile == nil {
		profile = profiles[s.IntN(len(profiles))]
	}
	profile(g)
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
	if most := max(5, g.most); len(ends) > most {
		ends = ends[len(ends)-most:]
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

// try adds a node if its operator accepts the inputs: by types, and by computing it. It returns nil if not. Inputs may
// be nil; outputs are nil where there is no datum.
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
		switch v := recover().(type) {
		case nil:
		case ir.Interruption: // it takes long
			err = fmt.Errorf("%v: %v", n, v)
		default:
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
		if len(d.Items) > 1024 {
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
