package lowering

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// lateBody binds a loop's body during the run, if shapes of its inputs are not known before: they change from one
// iteration to the next, or are not known for the loop's own inputs. It binds the body once for each set of shapes.
// Small bodies are not bound, since evaluation of the steps of unknown shape takes less time.
type lateBody struct {
	l      *LoopBinding
	nester Nester
	made   []lateRunner // for the last sets of shapes
	next   int          // index in made of the one to be replaced next
}

type lateRunner struct {
	d *Binding
	r Runner
}

// lateShapes is the number of sets of shapes for which executables are kept. lateNumbers is the least number of
// elements, in inputs and constants, of a body that is bound.
const (
	lateShapes  = 4
	lateNumbers = 1 << 13
)

// runner returns the executable for the inputs of an iteration: sub, the executable of d, or one for their shapes.
func (b *lateBody) runner(d *Binding, sub Runner, in []tensor.Datum) (Runner, error) {
	if d.accepts(in) {
		return sub, nil
	}
	for _, x := range b.made {
		if x.d.accepts(in) {
			return x.r, nil
		}
	}
	if numbers(d.Program, in) < lateNumbers {
		return sub, nil
	}
	types := make([]ir.Type, len(in))
	for i, v := range d.Program.Inputs {
		if t, ok := in[i].(*tensor.Tensor); ok && t != nil {
			types[i] = TypeOf(t.DType(), t.Shape())
		}
		if !agrees(v.Type, types[i]) {
			return sub, nil
		}
	}
	d = d.Program.bind(runtime.Binding{Inputs: types}, b.l.known, d.memory, newKnown(), d.checks)
	if d.err != nil || d.refused {
		return sub, nil // fails with the operator's error
	}
	var old Runner
	full := len(b.made) == lateShapes
	if full {
		old = b.made[b.next].r
	}
	x, err := b.nester.Nest(d, old)
	if err != nil {
		return nil, err
	}
	if !full {
		b.made = append(b.made, lateRunner{d, x})
		return x, nil
	}
	b.made[b.next] = lateRunner{d, x}
	b.next = (b.next + 1) % lateShapes
	return x, nil
}

// accepts reports whether all inputs have the shapes that are bound.
func (d *Binding) accepts(in []tensor.Datum) bool {
	for i, v := range d.Program.Inputs {
		t, ok := in[i].(*tensor.Tensor)
		if ok && t != nil && (d.Shape(v) == nil || d.DType(v) != t.DType() || !slices.Equal(d.Shape(v), t.Shape())) {
			return false
		}
	}
	return true
}

// numbers returns the number of elements in the inputs and constants of a program.
func numbers(p *Program, in []tensor.Datum) int {
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
