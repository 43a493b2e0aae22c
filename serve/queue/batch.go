package queue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// axes are the batch axes of a model's inputs and outputs, in their order; nil if requests cannot be joined.
type axes struct{ in, out []int }

// sampleAxes returns the batch axes of a model whose samples are independent, or the reason for which they cannot be
// joined.
func sampleAxes(m *runtime.Model, symbol string) (axes, string) {
	g := m.Graph()
	if symbol == "" {
		symbol = g.Meta[ir.MetaBatch]
	}
	if symbol == "" {
		return axes{}, "the model declares no batch dimension"
	}
	if len(g.Updates) > 0 {
		return axes{}, "a run updates parameters"
	}
	facts := ops.FactsAlong(g, symbol)
	var a axes
	for _, p := range m.Inputs() {
		axis, why := portAxis(p.Type, symbol, -1)
		if why != "" {
			return axes{}, fmt.Sprintf("input %q %s", p.Name, why)
		}
		a.in = append(a.in, axis)
	}
	for _, p := range m.Outputs() {
		i := slices.IndexFunc(g.Outputs, func(v *ir.Value) bool { return v.Name == p.Name })
		f := facts.Of(g.Outputs[i])
		switch {
		case f.Global || f.Back != 0 || f.Ahead != 0:
			why := ""
			if f.Cause != nil {
				why = ": " + (&ops.Blocker{Node: f.Cause, Why: "mixes them"}).String()
			}
			return axes{}, fmt.Sprintf("output %q depends on several samples%s", p.Name, why)
		case f.Constant() || f.Stride != 1:
			return axes{}, fmt.Sprintf("output %q does not have one part for each sample", p.Name)
		}
		axis, why := portAxis(p.Type, symbol, f.Axis)
		if why != "" {
			return axes{}, fmt.Sprintf("output %q %s", p.Name, why)
		}
		a.out = append(a.out, axis)
	}
	return a, ""
}

// portAxis returns the axis that is the symbol. If axis is not -1, it must be that one.
func portAxis(t ir.Type, symbol string, axis int) (int, string) {
	tt, ok := t.(*ir.TensorType)
	if !ok || tt.NoRank || tt.Elem == tensor.String || tt.Elem.Packed() {
		return 0, fmt.Sprintf("cannot be joined: %v", t)
	}
	found := slices.IndexFunc(tt.Shape, func(d ir.Dim) bool { s, ok := d.Symbol(); return ok && s == symbol })
	if found < 0 || axis >= 0 && found != axis {
		return 0, fmt.Sprintf("has no dimension %s: %v", symbol, t)
	}
	for i, d := range tt.Shape {
		if i != found && slices.Contains(d.Symbols(), symbol) {
			return 0, fmt.Sprintf("has the dimension %s twice: %v", symbol, t)
		}
	}
	return found, ""
}

// key returns the key of a run: presence, element types and shapes of the inputs. It is empty for inputs that the model
// will refuse.
func (a axes) key(m *runtime.Model, in map[string]tensor.Datum) string {
	key := []byte{'r'}
	found := 0
	for i, p := range m.Inputs() {
		d, ok := in[p.Name]
		if ok {
			found++
		}
		t, isTensor := d.(*tensor.Tensor)
		if !isTensor || t == nil {
			key = append(key, 0)
			continue
		}
		if t.Rank() <= a.in[i] || t.DType() == tensor.String {
			return ""
		}
		key = append(key, 1, byte(t.DType()))
		key = binary.AppendUvarint(key, uint64(t.Rank()))
		for _, n := range t.Shape() {
			key = binary.AppendUvarint(key, uint64(n))
		}
	}
	if found < len(in) {
		return ""
	}
	return string(key)
}

// run computes a batch, and sets the results.
func (q *Queue) run(session *runtime.Session, batch []*request) {
	start := time.Now()
	defer func() {
		if v := recover(); v != nil { // a bug; the worker goes on
			for _, r := range batch {
				r.err = runtime.Recovered(nil, v)
			}
		}
	}()
	switch {
	case batch[0].stream != nil:
		q.step(batch)
	case len(batch) == 1:
		runOne(session, batch[0])
	default:
		q.runJoined(session, batch)
	}
	took := time.Since(start)
	for _, r := range batch {
		r.res.Waited, r.res.Ran, r.res.Joined = start.Sub(r.since), took, len(batch)
	}
	if q.o.Ran != nil {
		q.o.Ran(len(batch), took)
	}
}

func runOne(session *runtime.Session, r *request) { r.res.Out, r.err = session.Run(r.ctx, r.in) }

// together returns a context that ends when all contexts of the batch have ended.
func together(batch []*request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	var left atomic.Int64
	left.Store(int64(len(batch)))
	stops := make([]func() bool, len(batch))
	for i, r := range batch {
		stops[i] = context.AfterFunc(r.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// step steps the streams of a batch.
func (q *Queue) step(batch []*request) {
	if len(batch) == 1 {
		r := batch[0]
		r.res.Out = map[string]tensor.Datum{}
		r.err = r.stream.Step(r.ctx, r.in, r.res.Out)
		return
	}
	ctx, cancel := together(batch)
	defer cancel()
	steps := make([]runtime.StreamStep, len(batch))
	for i, r := range batch {
		r.res.Out = map[string]tensor.Datum{}
		steps[i] = runtime.StreamStep{Stream: r.stream, In: r.in, Out: r.res.Out}
	}
	_ = q.m.StepMany(ctx, steps) // each step has its own error
	for i, r := range batch {
		r.err = steps[i].Err
	}
}

// runJoined runs requests with equal keys as one batch. If that fails, they run one by one, and each gets its own
// error.
func (q *Queue) runJoined(session *runtime.Session, batch []*request) {
	ctx, cancel := together(batch)
	defer cancel()
	in, err := q.axes.join(q.m, batch)
	var out []map[string]tensor.Datum
	if err == nil {
		var whole map[string]tensor.Datum
		if whole, err = session.Run(ctx, in); err == nil {
			out, err = q.axes.split(q.m, whole, len(batch))
		}
	}
	if err != nil {
		for _, r := range batch {
			runOne(session, r)
		}
		return
	}
	key := fmt.Sprintf("%s %d", batch[0].key, len(batch))
	q.mu.Lock()
	checked := q.checked[key]
	q.mu.Unlock()
	if checked {
		for i, r := range batch {
			r.res.Out = out[i]
		}
		return
	}
	same, all := true, true
	for i, r := range batch {
		runOne(session, r)
		all = all && r.err == nil
		same = same && (r.err != nil || equal(r.res.Out, out[i]))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !same:
		q.why = fmt.Sprintf("a batch of %d requests had other answers than one by one", len(batch))
	case all:
		if len(q.checked) >= maxChecked {
			clear(q.checked)
		}
		q.checked[key] = true
	}
}

// equal reports whether outputs are equal bit by bit.
func equal(a, b map[string]tensor.Datum) bool {
	for name, d := range a {
		x, okX := d.(*tensor.Tensor)
		y, okY := b[name].(*tensor.Tensor)
		if !okX || !okY || !tensor.Equal(x, y) {
			return false
		}
	}
	return len(a) == len(b)
}

// join returns the joined inputs of requests with equal keys.
func (a axes) join(m *runtime.Model, batch []*request) (map[string]tensor.Datum, error) {
	in := map[string]tensor.Datum{}
	for i, p := range m.Inputs() {
		first, ok := batch[0].in[p.Name].(*tensor.Tensor)
		if !ok || first == nil {
			continue
		}
		shape := slices.Clone(first.Shape())
		shape[a.in[i]] *= len(batch)
		if _, err := tensor.Size(shape); err != nil {
			return nil, err
		}
		whole := tensor.New(first.DType(), shape...)
		for k, r := range batch {
			tensor.CopyPart(whole, r.in[p.Name].(*tensor.Tensor), a.in[i], k, true)
		}
		in[p.Name] = whole
	}
	return in, nil
}

// split divides outputs among n requests.
func (a axes) split(m *runtime.Model, whole map[string]tensor.Datum, n int) ([]map[string]tensor.Datum, error) {
	out := make([]map[string]tensor.Datum, n)
	for k := range out {
		out[k] = map[string]tensor.Datum{}
	}
	for i, p := range m.Outputs() {
		t, ok := whole[p.Name].(*tensor.Tensor)
		if !ok || t.Rank() <= a.out[i] || t.Dim(a.out[i])%n != 0 {
			return nil, errors.New("an output cannot be divided")
		}
		shape := slices.Clone(t.Shape())
		shape[a.out[i]] /= n
		for k := range out {
			x := tensor.New(t.DType(), shape...)
			tensor.CopyPart(t, x, a.out[i], k, false)
			out[k][p.Name] = x
		}
	}
	return out, nil
}
