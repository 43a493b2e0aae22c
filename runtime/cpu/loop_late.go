package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/lowering"
)

// lateBody binds a body of whose inputs some have shapes that only the run knows, because they change from one iteration to the next or
// because the loop was given such values: once for each set of shapes, where there is enough to compute. A small body is evaluated
// where its shapes are not known, which takes less time than to bind it.
type lateBody struct {
	l    *lowering.LoopBinding
	made []*executable // for the shapes that came last
	next int           // of made: which one gives way
}

// Of as many shapes a body keeps its executables; below this many numbers in what it is given and holds it is not bound.
const (
	lateShapes  = 4
	lateNumbers = 1 << 13
)

// executable gives the executable for the inputs of an iteration: sub, or one for their shapes.
func (b *lateBody) executable(e *executable, u *unit, sub *executable, in []tensor.Datum) (*executable, error) {
	if sub.d.accepts(in) {
		return sub, nil
	}
	for _, x := range b.made {
		if x.d.accepts(in) {
			return x, nil
		}
	}
	if b.numbers(sub.p, in) < lateNumbers {
		return sub, nil
	}
	types := make([]ir.Type, len(in))
	for i, v := range sub.p.Inputs {
		if t, ok := in[i].(*tensor.Tensor); ok && t != nil {
			types[i] = lowering.TypeOf(t.DType(), t.Shape())
		}
		if !lowering.Agrees(v.Type, types[i]) {
			return sub, nil
		}
	}
	d := &binding{sub.p.Program.Bind(runtime.Binding{Inputs: types}, b.l.Known), sub.p}
	if d.Err != nil || d.Refused {
		return sub, nil // says what is wrong
	}
	root := e
	if e.root != nil {
		root = e.root
	}
	x, err := newExecutable(d, d.units(), root)
	if err != nil {
		return nil, err
	}
	root.equip(x)
	if len(b.made) < lateShapes {
		b.made, u.subs = append(b.made, x), append(u.subs, x)
		return x, nil
	}
	old := b.made[b.next]
	u.past = addTimes(u.past, old.Profile())
	b.made[b.next], u.subs[slices.Index(u.subs, old)] = x, x
	b.next = (b.next + 1) % lateShapes
	return x, nil
}

// equip gives the workers, none of which has work now, the memory that a part of the program needs.
func (e *executable) equip(part *executable) {
	for _, w := range e.workers {
		if len(w.scratch) < part.scratch {
			w.scratch = floats(part.scratch)
		}
		if len(w.args) < part.rowArgs {
			w.args = make([][]float32, part.rowArgs)
		}
		if len(w.state) < part.states {
			w.state = make([]float64, part.states)
		}
	}
}

// accepts reports whether the inputs have the shapes that are bound, all of them.
func (d *binding) accepts(in []tensor.Datum) bool {
	for i, v := range d.p.Inputs {
		t, ok := in[i].(*tensor.Tensor)
		if ok && t != nil && (d.Shapes[v.ID] == nil || d.DTypes[v.ID] != t.DType() || !slices.Equal(d.Shapes[v.ID], t.Shape())) {
			return false
		}
	}
	return true
}

// numbers is how many numbers the program is given and holds.
func (b *lateBody) numbers(p *program, in []tensor.Datum) int {
	sum := 0
	for _, d := range in {
		if t, ok := d.(*tensor.Tensor); ok && t != nil {
			sum += t.Len()
		}
	}
	for _, v := range p.Values {
		if v.Const != nil {
			sum += v.Const.Len()
		}
	}
	return sum
}

// addTimes adds what steps took to those of the same name, operator and form.
func addTimes(all, more []runtime.StepTime) []runtime.StepTime {
	for _, t := range more {
		if t.Calls == 0 { // bound, but never run
			continue
		}
		k := slices.IndexFunc(all, func(o runtime.StepTime) bool { return o.Name == t.Name && o.Op == t.Op && o.Form == t.Form })
		if k < 0 {
			all = append(all, t)
			continue
		}
		all[k].Calls, all[k].Time = all[k].Calls+t.Calls, all[k].Time+t.Time
	}
	return all
}
