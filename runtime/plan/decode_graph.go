package plan

import (
	"cmp"
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/plan/internal/fb"
)

// readGraphs reads all graphs. They form a tree: each but the first is in one attribute of a node of an earlier one.
func (d *decoder) readGraphs() error {
	p := d.p
	n := p.GraphsLength()
	if n == 0 {
		return fmt.Errorf("there is not a graph")
	}
	if l := p.NodesLength(); l > d.lim.Nodes {
		return fmt.Errorf("%w: %d nodes, at most %d are allowed", ErrLimit, l, d.lim.Nodes)
	}
	d.graphs, d.parent, d.depth = make([]*ir.Graph, n), make([]int, n), make([]int, n)
	for i := range d.graphs {
		d.graphs[i], d.parent[i] = &ir.Graph{}, -1
	}
	d.numbers = pool{what: "numbers", len: p.NumbersLength(), watch: d.watch}
	d.refs = pool{what: "refs", len: p.RefsLength(), watch: d.watch}
	d.nodeIn = pool{what: "node_inputs", len: p.NodeInputsLength()}
	d.nodeOut = pool{what: "node_outputs", len: p.NodeOutputsLength()}
	d.attrs = pool{what: "attrs", len: p.AttrsLength()}
	b := bodies{
		inputs:  pool{what: "graph_inputs", len: p.GraphInputsLength()},
		outputs: pool{what: "graph_outputs", len: p.GraphOutputsLength()},
		nodes:   pool{what: "nodes", len: p.NodesLength()},
		opsets:  pool{what: "opsets", len: p.OpsetsLength()},
		meta:    pool{what: "meta", len: p.MetaLength()},
		events:  pool{what: "events", len: p.EventsLength()},
		notes:   pool{what: "notes", len: p.NotesLength()},
	}
	for i := range d.graphs {
		if i > 0 && d.parent[i] < 0 {
			return fmt.Errorf("graph %d belongs to no node before it", i)
		}
		if err := d.graph(i, &b); err != nil {
			return fmt.Errorf("graph %d: %w", i, err)
		}
	}
	for i, defined := range d.defined {
		if !defined {
			return fmt.Errorf("value %d (%s) is never defined", i, d.values[i].Name)
		}
	}
	return cmp.Or(d.numbers.done(), d.refs.done(), d.nodeIn.done(), d.nodeOut.done(), d.attrs.done(), b.inputs.done(),
		b.outputs.done(), b.nodes.done(), b.opsets.done(), b.meta.done(), b.events.done(), b.notes.done())
}

// bodies holds the lists that graphs share.
type bodies struct{ inputs, outputs, nodes, opsets, meta, events, notes pool }

func (d *decoder) graph(i int, b *bodies) (err error) {
	var r fb.Graph
	d.p.Graphs(&r, i)
	g := d.graphs[i]
	if g.Name, err = d.text(r.Name()); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if g.Doc, err = d.text(r.Doc()); err != nil {
		return fmt.Errorf("documentation: %w", err)
	}
	from, to, err := b.inputs.next(uint64(r.InputsEnd()))
	if err != nil {
		return err
	}
	for j := from; j < to; j++ {
		v, err := d.define(uint64(d.p.GraphInputs(j)))
		if err != nil {
			return fmt.Errorf("input %d: %w", j-from, err)
		}
		g.Inputs = append(g.Inputs, v)
	}
	if from, to, err = b.nodes.next(uint64(r.NodesEnd())); err != nil {
		return err
	}
	g.Nodes = make([]*ir.Node, 0, to-from)
	for j := from; j < to; j++ {
		d.watch.Step(4)
		n, err := d.node(j, i)
		if err != nil {
			return fmt.Errorf("node %d%s: %w", j-from, called(n), err)
		}
		g.Nodes = append(g.Nodes, n)
	}
	if from, to, err = b.outputs.next(uint64(r.OutputsEnd())); err != nil {
		return err
	}
	for j := from; j < to; j++ {
		v, err := d.operand(d.p.GraphOutputs(j))
		if err != nil {
			return fmt.Errorf("output %d: %w", j-from, err)
		}
		g.Outputs = append(g.Outputs, v)
	}
	if err := d.opsets(g, &r, b); err != nil {
		return err
	}
	if err := d.meta(g, &r, b, i == 0); err != nil {
		return err
	}
	return d.history(g, &r, b)
}

// called returns the known names of a node, to follow its number in messages.
func called(n *ir.Node) string {
	if n.Op == nil {
		return ""
	}
	return fmt.Sprintf(" (%s %q)", n.Op.FullName(), n.Name)
}

func (d *decoder) opsets(g *ir.Graph, r *fb.Graph, b *bodies) error {
	from, to, err := b.opsets.next(uint64(r.OpsetsEnd()))
	if err != nil || from == to {
		return err
	}
	g.Opsets = make(map[string]int, to-from)
	var o fb.Opset
	last := ""
	for j := from; j < to; j++ {
		d.p.Opsets(&o, j)
		domain, err := d.text(o.Domain())
		if err != nil {
			return fmt.Errorf("opset %d: %w", j-from, err)
		}
		if j > from && domain <= last {
			return fmt.Errorf("opset %d: domain %q does not come after %q", j-from, domain, last)
		}
		if o.Version() > math.MaxInt32 {
			return fmt.Errorf("opset %d: version %d of domain %q", j-from, o.Version(), domain)
		}
		g.Opsets[domain], last = int(o.Version()), domain
	}
	return nil
}

func (d *decoder) meta(g *ir.Graph, r *fb.Graph, b *bodies, outermost bool) error {
	from, to, err := b.meta.next(uint64(r.MetaEnd()))
	if err != nil {
		return err
	}
	if from < to || outermost {
		g.Meta = make(map[string]string, to-from)
	}
	var m fb.Pair
	last := ""
	for j := from; j < to; j++ {
		d.p.Meta(&m, j)
		key, err := d.text(m.Key())
		if err != nil {
			return fmt.Errorf("meta %d: key: %w", j-from, err)
		}
		if j > from && key <= last {
			return fmt.Errorf("meta %d: key %q does not come after %q", j-from, key, last)
		}
		if g.Meta[key], err = d.text(m.Value()); err != nil {
			return fmt.Errorf("meta %q: %w", key, err)
		}
		last = key
	}
	return nil
}

func (d *decoder) history(g *ir.Graph, r *fb.Graph, b *bodies) error {
	from, to, err := b.events.next(uint64(r.EventsEnd()))
	if err != nil {
		return err
	}
	var e fb.Event
	for j := from; j < to; j++ {
		d.p.Events(&e, j)
		pass, err := d.text(e.Pass())
		if err != nil {
			return fmt.Errorf("event %d: %w", j-from, err)
		}
		if c := e.Changes(); c > math.MaxInt || c < math.MinInt {
			return fmt.Errorf("event %d (%s): %d changes", j-from, pass, c)
		}
		first, end, err := b.notes.next(uint64(e.NotesEnd()))
		if err != nil {
			return fmt.Errorf("event %d (%s): %w", j-from, pass, err)
		}
		ev := ir.Event{Pass: pass, Changes: int(e.Changes())}
		for k := first; k < end; k++ {
			note, err := d.text(d.p.Notes(k))
			if err != nil {
				return fmt.Errorf("event %d (%s): note %d: %w", j-from, pass, k-first, err)
			}
			ev.Notes = append(ev.Notes, note)
		}
		g.History = append(g.History, ev)
	}
	return nil
}

// node reads node j, of graph owner. With an error it returns the part of the node that was read.
func (d *decoder) node(j, owner int) (*ir.Node, error) {
	var r fb.Node
	d.p.Nodes(&r, j)
	n := &ir.Node{}
	var err error
	if n.Op, err = at("operator", d.ops, uint64(r.Op())); err != nil {
		return n, err
	}
	if n.Name, err = d.text(r.Name()); err != nil {
		return n, fmt.Errorf("name: %w", err)
	}
	if n.Scope, err = d.text(r.Scope()); err != nil {
		return n, fmt.Errorf("scope: %w", err)
	}
	from, to, err := d.nodeIn.next(uint64(r.InputsEnd()))
	if err != nil {
		return n, err
	}
	if to-from > d.lim.Ports {
		return n, fmt.Errorf("%w: expected at most %d inputs, found %d", ErrLimit, d.lim.Ports, to-from)
	}
	for k := from; k < to; k++ {
		v, err := d.operand(d.p.NodeInputs(k))
		if err != nil {
			return n, fmt.Errorf("input %d: %w", k-from, err)
		}
		n.Inputs = append(n.Inputs, v)
	}
	if from, to, err = d.nodeOut.next(uint64(r.OutputsEnd())); err != nil {
		return n, err
	}
	if to-from > d.lim.Ports {
		return n, fmt.Errorf("%w: expected at most %d outputs, found %d", ErrLimit, d.lim.Ports, to-from)
	}
	for k := from; k < to; k++ {
		ref := d.p.NodeOutputs(k)
		var v *ir.Value
		if ref != 0 {
			if ref%2 == 0 {
				return n, fmt.Errorf("output %d is a constant", k-from)
			}
			if v, err = d.define(uint64(ref / 2)); err != nil {
				return n, fmt.Errorf("output %d: %w", k-from, err)
			}
			v.Def = n
		}
		n.Outputs = append(n.Outputs, v)
	}
	if from, to, err = d.attrs.next(uint64(r.AttrsEnd())); err != nil {
		return n, err
	}
	for k := from; k < to; k++ {
		a, err := d.attr(k, owner)
		if err != nil {
			return n, fmt.Errorf("attribute %d %q: %w", k-from, a.Name, err)
		}
		n.Attrs = append(n.Attrs, a)
	}
	return n, nil
}

// attr reads attribute k, of a node of graph owner.
func (d *decoder) attr(k, owner int) (a ir.Attr, err error) {
	var r fb.Attr
	d.p.Attrs(&r, k)
	if a.Name, err = d.text(r.Name()); err != nil {
		return a, err
	}
	number := r.Number()
	kind := int(r.Kind()) - 1
	if kind < 0 || kind >= len(attrKinds) {
		return a, fmt.Errorf("unknown kind %d", r.Kind())
	}
	// A negative number is neither an id nor an end. As an unsigned number it is beyond every column.
	switch id := uint64(number); attrKinds[kind] {
	case ir.AttrInt:
		a.Value = number
	case ir.AttrFloat:
		a.Value = math.Float64frombits(id)
	case ir.AttrString:
		a.Value, err = at("string", d.strings, id)
	case ir.AttrTensor:
		a.Value, err = at("tensor", d.tensors, id)
	case ir.AttrGraph:
		a.Value, err = d.subgraph(id, owner)
	case ir.AttrType:
		a.Value, err = at("type", d.types, id)
	case ir.AttrInts:
		a.Value, err = list(&d.numbers, id, func(i int) (int64, error) { return d.p.Numbers(i), nil })
	case ir.AttrFloats:
		a.Value, err = list(&d.numbers, id,
			func(i int) (float64, error) { return math.Float64frombits(uint64(d.p.Numbers(i))), nil })
	case ir.AttrStrings:
		a.Value, err = list(&d.refs, id,
			func(i int) (string, error) { return at("string", d.strings, uint64(d.p.Refs(i))) })
	case ir.AttrTensors:
		a.Value, err = list(&d.refs, id,
			func(i int) (*tensor.Tensor, error) { return at("tensor", d.tensors, uint64(d.p.Refs(i))) })
	case ir.AttrGraphs:
		a.Value, err = list(&d.refs, id, func(i int) (*ir.Graph,
			error) {
			return d.subgraph(uint64(d.p.Refs(i)), owner)
		})
	case ir.AttrTypes:
		a.Value, err = list(&d.refs, id, func(i int) (ir.Type,
			error) {
			return at("type", d.types, uint64(d.p.Refs(i)))
		})
	}
	return a, err
}

// list reads the part of a pool that ends at end.
func list[T any](p *pool, end uint64, get func(i int) (T, error)) ([]T, error) {
	from, to, err := p.next(end)
	if err != nil {
		return nil, err
	}
	out := make([]T, 0, to-from)
	for i := from; i < to; i++ {
		p.watch.Step(1)
		x, err := get(i)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i-from, err)
		}
		out = append(out, x)
	}
	return out, nil
}

// subgraph returns graph id, for a node of graph owner.
func (d *decoder) subgraph(id uint64, owner int) (*ir.Graph, error) {
	g, err := at("graph", d.graphs, id)
	if err != nil {
		return nil, err
	}
	if id <= uint64(owner) {
		return nil, fmt.Errorf("graph %d inside graph %d", id, owner)
	}
	if d.parent[id] >= 0 {
		return nil, fmt.Errorf("graph %d belongs to two nodes", id)
	}
	d.parent[id], d.depth[id] = owner, d.depth[owner]+1
	if d.depth[id] > d.lim.Depth {
		return nil, fmt.Errorf("%w: graph %d is nested deeper than %d", ErrLimit, id, d.lim.Depth)
	}
	return g, nil
}
