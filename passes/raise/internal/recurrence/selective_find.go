package recurrence

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// along is a sequence with its time axis.
type along struct {
	v    *ir.Value
	time int
}

// varying is a recurrence s[t] = decay[t]·s[t-1] + enter[t], element by element, starting from zeros, as exporters
// write it.
type varying struct {
	run          *passes.Context
	decay, enter along // with the axes of the state and the axis of time
	// outputs are the products of the state, a matrix per sample, with this vector; if v is nil, outputs are the
	// states
	read     along
	column   bool      // an output of a product is (samples, features, 1)
	result   along     // the outputs of all steps
	backward bool      // s[t] = decay[t]·s[t+1] + enter[t]
	initial  *ir.Value // before the first step, (samples, numbers); nil for zeros
}

// reader reads one step of a recurrence.
type reader struct {
	run *passes.Context
	// sequence returns the sequence of which v is a step, if it is the right step.
	sequence func(v *ir.Value) (along, bool)
}

// whole follows v back through operators that change nothing.
func whole(v *ir.Value) *ir.Value {
	for v != nil && v.Def != nil && v.Def.Op.Domain == "" {
		n := v.Def
		switch n.Op.Name {
		case "Identity":
		case "Cast":
			if n.In(0).Elem() != v.Elem() {
				return v
			}
		case "Slice": // x[:]
			from, okF := asNumber(n.In(1))
			to, okT := asNumber(n.In(2))
			step, okS := asNumber(n.In(4))
			if !okF || !okT || from != 0 || to < math.MaxInt32 || n.In(4) != nil && (!okS || step != 1) {
				return v
			}
		default:
			return v
		}
		v = n.In(0)
	}
	return v
}

// asNumber returns a constant number, which exporters may write with an extra axis.
func asNumber(v *ir.Value) (int64, bool) {
	for regions.IsOp(v, "Unsqueeze") {
		v = v.Def.In(0)
	}
	x, ok := ops.ConstInts(v)
	if !ok || len(x) != 1 {
		return 0, false
	}
	return x[0], true
}

// step reads the state after a step and its output. before reports whether a value is the state before the step.
func (r *reader) step(next, out *ir.Value, before func(v *ir.Value) bool) (*varying, error) {
	w := &varying{run: r.run}
	next = whole(next)
	if !regions.IsOp(next, "Add") {
		return nil, errors.New("the state is not a sum of two terms")
	}
	for i := range 2 {
		product, enter := whole(next.Def.In(i)), next.Def.In(1-i)
		if !regions.IsOp(product, "Mul") {
			continue
		}
		for j := range 2 {
			if !before(product.Def.In(j)) {
				continue
			}
			var okD, okE bool
			w.decay, okD = r.sequence(product.Def.In(1 - j))
			w.enter, okE = r.sequence(enter)
			if okD && okE {
				return w, r.output(w, next, out)
			}
		}
	}
	return nil, errors.New("no term of the state is a product of the one before with a step of a sequence")
}

// output reads how a step's output is computed from its state.
func (r *reader) output(w *varying, next, out *ir.Value) error {
	v := whole(out)
	if v == next {
		return nil
	}
	w.column = regions.IsOp(v, "MatMul")
	if regions.IsOp(v, "Gather") { // the only column
		if at, ok := asConstant(r.run, v.Def.In(1)); !ok || at != 0 && at != -1 || isIndexed(v, 1) {
			return errors.New("the output takes a part of a product")
		}
		v = whole(v.Def.In(0))
	} else if regions.IsOp(v, "Squeeze") {
		v = whole(v.Def.In(0))
	}
	if !regions.IsOp(v, "MatMul") || whole(v.Def.In(0)) != next {
		return errors.New("the output is not a product of the state and a vector")
	}
	column := whole(v.Def.In(1))
	if !regions.IsOp(column, "Unsqueeze") {
		return errors.New("the state is not multiplied by a column")
	}
	if axes, ok := ops.ConstInts(column.Def.In(1)); !ok || len(axes) != 1 || axes[0] != -1 && axes[0] != 2 {
		return errors.New("the state is not multiplied by a column")
	}
	var ok bool
	if w.read, ok = r.sequence(column.Def.In(0)); !ok {
		return errors.New("the state is not multiplied by a step of a sequence")
	}
	return nil
}

// isIndexed reports whether a Gather along the last axis is of a Gather along another axis: one of the first axes,
// or the axis with the given number.
func isIndexed(v *ir.Value, first int64) bool {
	axis := v.Def.Attrs.Int("axis", 0)
	return axis >= 0 && axis <= first
}

func asConstant(run *passes.Context, v *ir.Value) (int64, bool) {
	if v == nil {
		return 0, false
	}
	t, err := regions.Constant(run, v)
	if err != nil || t.Len() != 1 || !t.DType().IsInt() {
		return 0, false
	}
	x, err := t.Int64s()
	return x[0], err == nil
}

// asGathered returns the sequence from which a Gather takes the step that index accepts.
func asGathered(v *ir.Value, index func(v *ir.Value) bool) (along, bool) {
	v = whole(v)
	if !regions.IsOp(v, "Gather") || !index(v.Def.In(1)) {
		return along{}, false
	}
	x := whole(v.Def.In(0))
	axis, err := ops.Axis(v.Def.Attrs.Int("axis", 0), len(x.Shape()))
	return along{x, axis}, err == nil && len(x.Shape()) > 0
}

// readVarying reads a Loop, or steps whose results a Concat joins. It returns nil without an error for other nodes.
func readVarying(run *passes.Context, n *ir.Node, uses map[*ir.Value][]ir.Use) (*varying, error) {
	switch n.Op.FullName() {
	case "Loop":
		return readVaryingLoop(run, n, uses)
	case "Concat":
		return readVaryingSteps(run, n)
	case "Scan":
		return readVaryingScan(run, n, uses)
	}
	return nil, nil
}

// readVaryingScan reads a Scan of one state over sequences, whose result at each step is the state, or the product of
// the state with a vector.
func readVaryingScan(run *passes.Context, n *ir.Node, uses map[*ir.Value][]ir.Use) (*varying, error) {
	body, scanned := n.Attrs.Graph("body"), int(n.Attrs.Int("num_scan_inputs", 0))
	if n.Op.Since < 9 || body == nil || scanned < 1 || len(n.Inputs) != 1+scanned || len(body.Inputs) != 1+scanned ||
		len(body.Outputs) != 2 || n.Out(1) == nil {
		return nil, nil
	}
	axes := n.Attrs.Ints("scan_input_axes", make([]int64, scanned))
	directions := slices.Concat(n.Attrs.Ints("scan_input_directions", make([]int64, scanned)),
		n.Attrs.Ints("scan_output_directions", []int64{0}))
	r := &reader{run: run, sequence: func(v *ir.Value) (along, bool) {
		i := slices.Index(body.Inputs[1:], whole(v))
		if i < 0 {
			return along{}, false
		}
		x := n.In(1 + i)
		axis, err := ops.Axis(axes[i], len(x.Shape()))
		return along{x, axis}, err == nil
	}}
	w, err := r.step(body.Outputs[0], body.Outputs[1], func(v *ir.Value) bool { return whole(v) == body.Inputs[0] })
	if err != nil {
		return nil, err
	}
	switch {
	case slices.Contains(directions, 1) && slices.Contains(directions, 0):
		return nil, errors.New("some of its sequences run backwards, and some do not")
	case slices.Contains(directions, 1) && w.read.v != nil:
		return nil, errors.New("products of its states run backwards")
	case w.column:
		return nil, errors.New("its outputs are columns")
	}
	if v := n.Out(0); v != nil && len(uses[v]) > 0 {
		return nil, errors.New("its last state is used")
	}
	if !isZero(run, n.In(0)) {
		return nil, errors.New("its first state is not zero")
	}
	w.backward = directions[0] == 1
	w.result = along{n.Out(1), int(n.Attrs.Ints("scan_output_axes", []int64{0})[0])}
	return w, w.check(w.decay.v.Shape()[w.decay.time])
}

func readVaryingLoop(run *passes.Context, n *ir.Node, uses map[*ir.Value][]ir.Use) (*varying, error) {
	body := n.Attrs.Graph("body")
	if body == nil || len(body.Inputs) != 4 && len(body.Inputs) != 3 || len(body.Outputs) != 3 || len(n.Inputs) < 3 {
		return nil, nil
	}
	for _, cond := range []*ir.Value{n.In(1), body.Outputs[0]} {
		if !isTrue(run, cond, body.Inputs[1]) {
			return nil, errors.New("its condition may end it early")
		}
	}
	if v := n.Out(0); v != nil && len(uses[v]) > 0 {
		return nil, errors.New("its last state is used")
	}
	if !isZero(run, n.In(2)) {
		return nil, errors.New("its first state is not zero")
	}
	out, q := body.Outputs[2], sequence{}
	result := n.Out(1)
	if len(body.Inputs) == 4 {
		y, collects, err := collected(body.Inputs[3], out, n.In(3))
		if err != nil {
			return nil, err
		}
		if q = collects; q.reversed {
			return nil, errors.New("results are collected in the opposite order")
		}
		if result, err = joined(uses[result], &q); err != nil {
			return nil, err
		}
		if out = y; q.kept {
			return nil, errors.New("results are joined along an axis that they have")
		}
	}
	counter := body.Inputs[0]
	r := &reader{run: run, sequence: func(v *ir.Value) (along, bool) {
		return asGathered(v, func(i *ir.Value) bool { return i == counter })
	}}
	w, err := r.step(body.Outputs[1], out, func(v *ir.Value) bool { return whole(v) == body.Inputs[2] })
	if err != nil {
		return nil, err
	}
	trips, ok := ops.DimsOf(n.In(0))
	if !ok || len(trips) != 1 {
		return nil, errors.New("the number of its iterations is not known")
	}
	if w.column {
		return nil, errors.New("its outputs are columns")
	}
	w.result = along{result, q.time}
	return w, w.check(trips[0])
}

func readVaryingSteps(run *passes.Context, n *ir.Node) (*varying, error) {
	steps := len(n.Inputs)
	if steps < 3 {
		return nil, nil
	}
	axis, err := ops.Axis(n.Attrs.Int("axis", 0), len(n.Outputs[0].Shape()))
	if err != nil {
		return nil, nil
	}
	var first *varying
	var state *ir.Value
	for t, v := range n.Inputs {
		out := whole(v)
		stacked := regions.IsOp(out, "Unsqueeze")
		if stacked {
			at, ok := ops.ConstInts(out.Def.In(1))
			if !ok || len(at) != 1 || at[0] != int64(axis) && at[0] != int64(axis-len(v.Shape())) {
				return nil, nil
			}
			out = out.Def.In(0)
		}
		next := stateOf(out)
		if next == nil {
			return nil, nil
		}
		r := &reader{run: run, sequence: func(v *ir.Value) (along, bool) {
			return asGathered(v, func(i *ir.Value) bool { k, ok := asConstant(run, i); return ok && k == int64(t) })
		}}
		w, err := r.step(next, out, func(v *ir.Value) bool {
			if t == 0 {
				return isZero(run, v)
			}
			return whole(v) == state
		})
		if t == 0 && err != nil {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", t, err)
		}
		if stacked == w.column || w.column && axis != 2 {
			return nil, fmt.Errorf("results of the shape %v are not joined along an axis of steps", v.Shape())
		}
		if first == nil {
			first = w
		} else if w.decay != first.decay || w.enter != first.enter || w.read != first.read || w.column != first.column {
			return nil, fmt.Errorf("step %d reads other sequences than step 0", t)
		}
		state = next
	}
	first.result = along{n.Outputs[0], axis}
	return first, first.check(ir.Const(int64(steps)))
}

// stateOf returns the state from which the output out is computed.
func stateOf(out *ir.Value) *ir.Value {
	v := whole(out)
	if regions.IsOp(v, "Gather") || regions.IsOp(v, "Squeeze") {
		v = whole(v.Def.In(0))
	}
	if regions.IsOp(v, "MatMul") {
		v = whole(v.Def.In(0))
	}
	if !regions.IsOp(v, "Add") {
		return nil
	}
	return v
}

// check compares the shapes of a recurrence's sequences with the shape of its state, (samples, sizes…).
func (w *varying) check(steps ir.Dim) error {
	shape, ok := w.state(w.decay, steps)
	other, ok2 := w.state(w.enter, steps)
	if !ok || !ok2 || len(shape) != len(other) {
		return fmt.Errorf("%s %v and %s %v are not sequences of %v states", w.decay.v.Name, w.decay.v.Type,
			w.enter.v.Name, w.enter.v.Type, steps)
	}
	for i := range shape {
		if !shape[i].Equal(other[i]) {
			return fmt.Errorf("%s has the shape %v, %s has %v", w.decay.v.Name, shape, w.enter.v.Name, other)
		}
		if _, known := shape[i].Known(); i > 0 && !known {
			return fmt.Errorf("states of the shape %v have no fixed size", shape)
		}
	}
	rank := len(shape)
	if w.read.v != nil {
		vector, ok := w.state(w.read, steps)
		if !ok || rank != 3 || len(vector) != 2 || !vector[1].Equal(shape[2]) || !vector[0].Equal(shape[0]) {
			return fmt.Errorf("states of the shape %v are not multiplied by the vectors %s %v", shape, w.read.v.Name,
				w.read.v.Type)
		}
		rank--
	}
	if w.result.time < 0 {
		w.result.time += rank + 1
	}
	if w.result.time < 0 || w.result.time > rank {
		return errors.New("results have no axis of time")
	}
	elem := w.decay.v.Elem()
	if !elem.IsFloat() || w.enter.v.Elem() != elem || w.result.v.Elem() != elem {
		return fmt.Errorf("its numbers are of %v and %v", elem, w.enter.v.Elem())
	}
	return nil
}

// state returns the shape of one step of a sequence with the given number of steps.
func (w *varying) state(s along, steps ir.Dim) (ir.Shape, bool) {
	shape := s.v.Shape()
	if len(shape) < 2 || s.time >= len(shape) || !shape[s.time].Equal(steps) {
		return nil, false
	}
	var out ir.Shape
	for i, d := range shape {
		if i != s.time {
			out = append(out, d)
		}
	}
	return out, true
}
