package ref

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/runtime"
)

// ErrResult is the error for a result of an operator's Eval that does not have the inferred type. Either the operator
// has a mistake, or unknown dimensions of the graph's inputs do not match.
var ErrResult = errors.New("the result does not have the type that the graph states")

type executable struct {
	moves ir.EvalCtx // ends the copying and checking of results at the run\'s context
	p     *program
	dims  map[string]int64
	times []stepTime // per node of the main graph; nil without Config.Profile
	start time.Time  // of the node that is evaluated
	// budget bounds the values that are alive, as if none shared storage, and what evaluations allocate.
	budget *ir.Budget
}

// Run evaluates the main graph.
func (e *executable) Run(ctx context.Context, in, out []tensor.Datum) (err error) {
	defer runtime.Ended(&err)
	e.moves = ir.EvalCtx{Ctx: ctx}
	defer func() { e.moves = ir.EvalCtx{} }()
	before := e.budget.Used()
	defer func() { e.budget.Release(e.budget.Used() - before) }()
	res, err := e.p.code.Graph(ctx, e.p.main, in, e.p.parameters(), e.budget, e)
	if err != nil {
		return err
	}
	for _, d := range res {
		e.budget.Hold(ops.SizeIn(&e.moves, d))
	}
	for i, d := range res {
		if out[i] == nil {
			if err := e.budget.Take(ops.SizeIn(&e.moves, d)); err != nil {
				return memory(err, "output "+e.p.main.Outputs[i].Name)
			}
			out[i] = ops.CopyOf(&e.moves, d) // an output may be an input, a constant or a view of another output
			continue
		}
		if err := runtime.Store(out, i, d, e.moves.Pause); err != nil {
			return fmt.Errorf("output %q %w", e.p.main.Outputs[i].Name, err)
		}
	}
	return nil
}

// Before refuses a node whose results would not fit.
func (e *executable) Before(at eval.Place) error {
	if e.times != nil && at.Graph == e.p.main {
		e.start = time.Now()
	}
	return e.room(at)
}

// After holds the results of a node against their types.
func (e *executable) After(at eval.Place, out []tensor.Datum) error {
	dims := e.dims
	if at.Inner {
		dims = nil
	}
	for i, v := range at.Node.Outputs {
		if v == nil {
			continue
		}
		if noTrips(at.Node, out[i]) {
			dims = nil
		}
		if err := check(&e.moves, out[i], v.Type, dims, e.p.config.Wide); err != nil {
			return fmt.Errorf("output %d (%s): %w: %w", i, v.Name, ErrResult, err)
		}
		if e.p.config.Observe != nil && !at.Body {
			e.p.config.Observe(v, out[i])
		}
	}
	return nil
}

// noTrips reports whether a result comes from a Loop or Scan without iterations. Its dimensions are 0 where the type
// has no number.
func noTrips(n *ir.Node, d tensor.Datum) bool {
	t, ok := d.(*tensor.Tensor)
	return ok && t.Len() == 0 && (n.Op.Name == "Loop" || n.Op.Name == "Scan" && n.Op.Domain == "")
}

// Done keeps the time of a node.
func (e *executable) Done(at eval.Place) error {
	if e.times != nil && at.Graph == e.p.main {
		e.times[at.Index].Time += time.Since(e.start)
		e.times[at.Index].Calls++
	}
	return nil
}

// room returns a MemoryError, before the node allocates, if the types show that its outputs are too large.
func (e *executable) room(at eval.Place) error {
	limit := e.budget.Limit()
	if at.Inner {
		return nil
	}
	need := e.budget.Used()
	for _, v := range at.Node.Outputs {
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
				return &runtime.MemoryError{Need: max(limit, limit+1), Limit: limit, What: "output " + v.Name + " " +
					t.String() +
					", and more,"}
			}
			bytes *= max(k, 0)
		}
		need += bytes
	}
	if need > limit {
		return &runtime.MemoryError{Need: need, Limit: limit, What: "its result, with live data,"}
	}
	return nil
}

// memory returns a MemoryError for a budget that something exceeds; other errors stay.
func memory(err error, what string) error {
	var over *ir.BudgetError
	if errors.As(err, &over) {
		return &runtime.MemoryError{Need: over.Need(), Limit: over.Limit, What: what + ", with live data,"}
	}
	return err
}
