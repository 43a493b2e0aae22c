package recurrence

import (
	"errors"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Loop recognizes linear recurrences in the operator Loop.
var Loop = &passes.Pass{
	Name: "raise-loop",
	Doc: "ONNX Loop over the steps of sequences (Gather or Slice at the iteration, results collected by " +
		"SequenceInsert and ConcatFromSequence or as scan outputs) whose body is linear → essm.Scan or " +
		"essm.DenseScan with projections.",
	After: []passes.Reason{
		regions.AfterUpgradeBodies,
	},
	Before: []passes.Reason{
		regions.BeforeFoldRecurrences,
		regions.BeforeFuse,
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		return eachDraft(c, g, "loop", readLoop)
	},
}

// readLoop reads a Loop node.
func readLoop(run *passes.Context, n *ir.Node, uses map[*ir.Value][]ir.Use) (*draft, error) {
	if n.Op.FullName() != "Loop" {
		return nil, nil
	}
	body := n.Attrs.Graph("body")
	if len(body.Inputs) < 2 {
		return nil, errors.New("it carries no state")
	}
	for _, cond := range []*ir.Value{n.In(1), body.Outputs[0]} {
		if !isTrue(run, cond, body.Inputs[1]) {
			return nil, fmt.Errorf("the condition %s may end it early, expected one that is always true", cond.Name)
		}
	}
	d := &draft{run: run, node: n, alias: map[*ir.Value]*ir.Value{}}
	carried := len(body.Inputs) - 2
	for i := range carried {
		in, out := body.Inputs[i+2], body.Outputs[i+1]
		init, result := n.In(i+2), n.Out(i)
		used := result != nil && len(uses[result]) > 0
		if _, ok := init.Type.(*ir.SequenceType); ok {
			if !used {
				continue
			}
			y, q, err := collected(in, out, init)
			if err != nil {
				return nil, err
			}
			all, err := joined(uses[result], &q)
			if err != nil {
				return nil, err
			}
			d.outputs, d.out, d.results = append(d.outputs, y), append(d.out, q), append(d.results, all)
			continue
		}
		if in == out && !used {
			d.alias[in] = init
			continue
		}
		d.states = append(d.states, stepValue{in, init.Shape()})
		d.next, d.initial = append(d.next, out), append(d.initial, init)
		if !used {
			result = nil
		}
		d.final = append(d.final, result)
	}
	for i, v := range body.Outputs[1+carried:] {
		o := n.Out(carried + i)
		if o == nil || len(uses[o]) == 0 {
			continue
		}
		d.outputs, d.out, d.results = append(d.outputs, v), append(d.out, sequence{}), append(d.results, o)
	}
	return d, d.steps(n, body)
}

// isTrue reports whether a condition is always true: it is absent, constant, or the previous condition passed on.
func isTrue(run *passes.Context, v, before *ir.Value) bool {
	for regions.IsOp(v, "Identity") {
		v = v.Def.In(0)
	}
	if v == nil || v == before {
		return true
	}
	t, err := regions.Constant(run, v)
	return err == nil && t.DType() == tensor.Bool && t.Len() == 1 && tensor.Data[bool](t)[0]
}

// collected reads how a body appends one value per step to a sequence.
func collected(in, out, init *ir.Value) (*ir.Value, sequence, error) {
	if !regions.IsOp(init, "SequenceEmpty") {
		return nil, sequence{}, fmt.Errorf("the sequence %s is not empty at first", init.Name)
	}
	if !regions.IsOp(out, "SequenceInsert") || out.Def.In(0) != in {
		return nil, sequence{}, fmt.Errorf("the sequence %s does not grow by one value in each step", in.Name)
	}
	q := sequence{}
	if pos := out.Def.In(2); pos != nil {
		at, ok := ops.ConstInts(pos)
		if !ok || len(at) != 1 || at[0] != 0 {
			return nil, sequence{},
				fmt.Errorf("values are inserted into the sequence %s at varying places, expected the end", in.Name)
		}
		q.reversed = true
	}
	return out.Def.In(1), q, nil
}

// joined finds the one tensor that a sequence is concatenated to, and sets its axis.
func joined(uses []ir.Use, q *sequence) (*ir.Value, error) {
	if len(uses) != 1 || uses[0].Node == nil || uses[0].Node.Op.FullName() != "ConcatFromSequence" {
		return nil, errors.New("the sequence of its results is used for more than one concatenation")
	}
	n := uses[0].Node
	q.time = int(n.Attrs.Int("axis", 0))
	q.kept = !n.Attrs.Bool("new_axis", false)
	return n.Outputs[0], nil
}

// steps finds where the body reads a step of a sequence outside it, and checks that it reads every step.
func (d *draft) steps(n *ir.Node, body *ir.Graph) error {
	counter := body.Inputs[0]
	trips, ok := ops.DimsOf(n.In(0))
	if n.In(0) == nil || !ok || len(trips) != 1 {
		return errors.New("the number of its iterations is not known, expected the length of a sequence")
	}
	own := map[*ir.Value]bool{}
	for _, v := range body.Inputs {
		own[v] = true
	}
	for _, m := range body.Nodes {
		for _, v := range m.Outputs {
			own[v] = true
		}
	}
	for _, m := range body.Nodes {
		if name := m.Op.FullName(); name != "Gather" && name != "Slice" {
			continue
		}
		x := whole(m.In(0)) // x[:, i] is a Slice of all samples first
		if own[x] {
			continue
		}
		q, at, ok := asStep(m, counter)
		if !ok {
			continue
		}
		shape := x.Shape()
		if shape == nil {
			return fmt.Errorf("the shape of %s is not known", x.Name)
		}
		length := shape[q.time]
		if !length.Equal(trips[0]) {
			return fmt.Errorf("it has %v iterations, expected one for each of the %v steps of %s", trips[0], length,
				x.Name)
		}
		switch {
		case at.coef == 1 && at.offset.Equal(ir.Const(0)):
		case at.coef == -1 && (at.offset.Equal(length.Sub(ir.Const(1))) || at.offset.Equal(ir.Const(-1))):
			q.reversed = true
		default:
			return fmt.Errorf(
				"iteration i reads step %d·i + %v of %s, expected all steps, in order or in the opposite order",
				at.coef, at.offset, x.Name)
		}
		q.v = x
		step := slices.Clone(shape)
		if q.kept {
			step[q.time] = ir.Const(1)
		} else {
			step = slices.Delete(step, q.time, q.time+1)
		}
		d.inputs = append(d.inputs, stepValue{m.Outputs[0], step})
		d.in = append(d.in, q)
	}
	return nil
}

// index is coef·i + offset in iteration i.
type index struct {
	coef   int64
	offset ir.Dim
}

// asStep returns the step that a Gather or Slice reads. It returns false if the step does not depend on the counter.
func asStep(m *ir.Node, counter *ir.Value) (q sequence, at index, ok bool) {
	rank := len(whole(m.In(0)).Shape())
	if m.Op.Name == "Gather" {
		axis, err := ops.Axis(m.Attrs.Int("axis", 0), rank)
		at, ok := asIndex(m.In(1), counter, 0)
		if err != nil || !ok || at.coef == 0 {
			return q, at, false
		}
		r := indexRank(m.In(1), counter)
		return sequence{time: axis, kept: r == 1}, at, r >= 0
	}
	axes, okA := ops.ConstInts(m.In(3))
	from, okF := asIndex(m.In(1), counter, 0)
	to, okT := asIndex(m.In(2), counter, 0)
	if m.In(3) == nil || !okA || len(axes) != 1 || !okF || !okT || from.coef == 0 {
		return q, at, false
	}
	if steps, ok := ops.ConstInts(m.In(4)); m.In(4) != nil && (!ok || len(steps) != 1 || steps[0] != 1) {
		return q, at, false
	}
	if to.coef != from.coef || !to.offset.Equal(from.offset.Add(ir.Const(1))) {
		return q, at, false
	}
	axis, err := ops.Axis(axes[0], rank)
	return sequence{time: axis, kept: true}, from, err == nil
}

// indexRank returns the rank of an index that is computed from the counter: 0 or 1, or -1 if unknown.
func indexRank(v, counter *ir.Value) int {
	if v == counter {
		return 0
	}
	if s := v.Shape(); s != nil {
		return len(s)
	}
	if v.Def != nil && v.Def.Op.FullName() == "Unsqueeze" {
		if r := indexRank(v.Def.In(0), counter); r >= 0 {
			return r + 1
		}
	}
	return -1
}

// asIndex reads the arithmetic that computes an index from the counter.
func asIndex(v, counter *ir.Value, depth int) (index, bool) {
	if v == nil || depth > 16 {
		return index{}, false
	}
	if v == counter {
		return index{coef: 1}, true
	}
	if v.Const == nil && v.Def != nil && v.Def.Op.Domain == "" {
		n := v.Def
		arg := func(i int) (index, bool) { return asIndex(n.In(i), counter, depth+1) }
		switch n.Op.Name {
		case "Identity", "Cast", "Unsqueeze", "Squeeze", "Reshape":
			if n.Op.Name != "Cast" || v.Elem().IsInt() {
				return arg(0)
			}
		case "Neg":
			x, ok := arg(0)
			return index{-x.coef, ir.Const(0).Sub(x.offset)}, ok
		case "Add", "Sub":
			x, okX := arg(0)
			y, okY := arg(1)
			if okX && okY && n.Op.Name == "Add" {
				return index{x.coef + y.coef, x.offset.Add(y.offset)}, true
			}
			if okX && okY {
				return index{x.coef - y.coef, x.offset.Sub(y.offset)}, true
			}
		case "Mul":
			x, okX := arg(0)
			y, okY := arg(1)
			if okX && okY && x.coef == 0 {
				x, y = y, x
			}
			if k, known := y.offset.Known(); okX && okY && y.coef == 0 && known {
				return index{x.coef * k, x.offset.Mul(y.offset)}, true
			}
		}
	}
	dims, ok := ops.DimsOf(v)
	if !ok || len(dims) != 1 || dims[0].IsUnknown() {
		return index{}, false
	}
	return index{0, dims[0]}, true
}
