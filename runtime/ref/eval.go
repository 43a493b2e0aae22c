package ref

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// ErrResult is the error for a result of an operator's Eval that does not have the inferred type. Either the operator has a
// mistake, or unknown dimensions of the graph's inputs do not match.
var ErrResult = errors.New("the result has not the type that the graph states")

type executable struct {
	p     *program
	dims  map[string]int64
	times []stepTime // per node of the main graph; nil without Config.Profile
	live  int64      // bytes of live values, as if none shared storage
}

// frame holds the values of one evaluation of a graph. outer holds those of the graph around it.
type frame struct {
	vals  map[*ir.Value]tensor.Datum
	outer *frame
}

func (f *frame) get(v *ir.Value) (tensor.Datum, bool) {
	for ; f != nil; f = f.outer {
		if d, ok := f.vals[v]; ok {
			return d, true
		}
	}
	return nil, false
}

// Run evaluates the main graph.
func (e *executable) Run(ctx context.Context, in, out []tensor.Datum) error {
	e.live = 0
	res, err := e.graph(ctx, e.p.codes[e.p.main], in, nil)
	if err != nil {
		return err
	}
	for i, d := range res {
		if out[i] == nil {
			out[i] = clone(d) // an output may be an input, a constant or a view of another output
			continue
		}
		if err := runtime.Store(out, i, d); err != nil {
			return fmt.Errorf("output %q %w", e.p.main.Outputs[i].Name, err)
		}
	}
	return nil
}

// graph evaluates a graph. outer holds the values that it may capture.
func (e *executable) graph(ctx context.Context, c *code, in []tensor.Datum, outer *frame) ([]tensor.Datum, error) {
	if err := ctx.Err(); err != nil { // a loop around an empty graph must stop too
		return nil, err
	}
	if len(in) != len(c.graph.Inputs) {
		return nil, fmt.Errorf("graph %s takes %d inputs, found %d", c.graph.Name, len(c.graph.Inputs), len(in))
	}
	f := &frame{vals: make(map[*ir.Value]tensor.Datum, len(c.steps)), outer: outer}
	for i, v := range c.graph.Inputs {
		f.vals[v] = in[i]
		e.live += size(in[i])
	}
	defer func() {
		for _, d := range f.vals {
			e.live -= size(d)
		}
	}()
	for i := range c.steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Time{}
		timed := e.times != nil && c.graph == e.p.main
		if timed {
			start = time.Now()
		}
		if err := e.step(ctx, c, &c.steps[i], f); err != nil {
			return nil, err
		}
		if timed {
			e.times[i].Time += time.Since(start)
			e.times[i].Calls++
		}
	}
	out := make([]tensor.Datum, len(c.graph.Outputs))
	for i, v := range c.graph.Outputs {
		d, err := e.value(f, v)
		if err != nil {
			return nil, fmt.Errorf("graph %s: %w", c.graph.Name, err)
		}
		out[i] = d
	}
	return out, nil
}

// value returns the current datum of v.
func (e *executable) value(f *frame, v *ir.Value) (tensor.Datum, error) {
	if v.Const != nil {
		if d, ok := e.p.consts[v]; ok {
			return d, nil
		}
	}
	d, ok := f.get(v)
	if !ok {
		return nil, fmt.Errorf("value %s has not been computed", v.Name)
	}
	if _, opt := v.Type.(*ir.OptionalType); opt {
		d = present(d)
	}
	return d, nil
}

// step evaluates one node and stores its outputs in f.
func (e *executable) step(ctx context.Context, c *code, s *step, f *frame) (err error) {
	n := s.node
	defer func() {
		if v := recover(); v != nil {
			err = runtime.Recovered(n, v)
		} else if err != nil {
			err = &runtime.NodeError{Node: n, Err: err}
		}
	}()
	in := make([]tensor.Datum, len(n.Inputs))
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		if in[i], err = e.value(f, v); err != nil {
			return err
		}
	}
	if err := e.room(c, n); err != nil {
		return err
	}
	var res []tensor.Datum
	if s.body != nil {
		res, err = e.body(ctx, s, in, f)
	} else {
		res, err = n.Op.Eval(&ir.EvalCtx{
			Node: n, Ctx: ctx, Wide: e.p.config.Wide, Kernel: e.p.config.Kernel,
			Call: func(g *ir.Graph, in []tensor.Datum) ([]tensor.Datum, error) {
				c, ok := e.p.codes[g]
				if !ok {
					return nil, fmt.Errorf("graph %s is no subgraph of the node", g.Name)
				}
				return e.graph(ctx, c, in, f)
			},
		}, in)
	}
	if err != nil {
		return err
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if i >= len(res) {
			return fmt.Errorf("operator gave %d results, output %d (%s) is wanted", len(res), i, v.Name)
		}
		d := res[i]
		if e.p.config.Wide {
			d = widen(d)
		}
		dims := e.dims
		if c.inner {
			dims = nil
		}
		if err := check(d, v.Type, dims, e.p.config.Wide); err != nil {
			return fmt.Errorf("output %d (%s): %w: %w", i, v.Name, ErrResult, err)
		}
		f.vals[v] = d
		e.live += size(d)
		if e.p.config.Observe != nil && !c.body {
			e.p.config.Observe(v, d)
		}
	}
	for _, v := range s.free {
		e.live -= size(f.vals[v])
		delete(f.vals, v)
	}
	if limit := e.p.config.MaxMemory; limit > 0 && e.live > limit {
		return &runtime.MemoryError{Need: e.live, Limit: limit, What: "what is alive"}
	}
	return nil
}

// body evaluates the graph that replaces a node. Its outputs are the used outputs of the node.
func (e *executable) body(ctx context.Context, s *step, in []tensor.Datum, f *frame) ([]tensor.Datum, error) {
	args := make([]tensor.Datum, len(s.in))
	for i, j := range s.in {
		args[i] = in[j]
	}
	got, err := e.graph(ctx, e.p.codes[s.body], args, f)
	if err != nil {
		return nil, err
	}
	res := make([]tensor.Datum, len(s.node.Outputs))
	for i, v := range s.node.Outputs {
		if v != nil {
			res[i], got = got[0], got[1:]
		}
	}
	return res, nil
}

// room returns a MemoryError, before the node allocates, if the types show that its outputs are too large.
func (e *executable) room(c *code, n *ir.Node) error {
	limit := e.p.config.MaxMemory
	if limit == 0 || c.inner {
		return nil
	}
	need := e.live
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		t, ok := v.Type.(*ir.TensorType)
		if !ok || t.NoRank {
			continue
		}
		bytes := int64(elem(t.Elem, e.p.config.Wide).Bits()+7) / 8
		for _, d := range t.Shape {
			k, err := d.Eval(e.dims)
			if err != nil {
				k = 1
			}
			if k > 0 && bytes > limit/k {
				return &runtime.MemoryError{Need: limit + 1, Limit: limit, What: "output " + v.Name + " " + t.String() + ", and more,"}
			}
			bytes *= max(k, 0)
		}
		need += bytes
	}
	if need > limit {
		return &runtime.MemoryError{Need: need, Limit: limit, What: "its result, with what is alive,"}
	}
	return nil
}
