// Package recurrence recognizes recurrences: ONNX Scan and Loop, steps that are written out, rounds of associative
// scans, single steps whose state is an input and an output of the graph, and recurrences whose coefficients vary with
// time. They become scans of the essm domain, with the projections around them.
//
// It imports ir, the operator packages, passes, and the packages linear and regions. The matrices of a recurrence
// are computed from its body, for any choice of operators, and each step must follow from the one before it.
package recurrence

import (
	"errors"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/linear"
)

// slot is a tensor of one step: its shape, and the axis of samples (-1 if there is none).
type slot struct {
	v     *ir.Value
	shape []int
	batch int
}

// rest returns the slot's shape without the axis of samples.
func (s slot) rest() []int {
	if s.batch < 0 {
		return s.shape
	}
	return slices.Delete(slices.Clone(s.shape), s.batch, s.batch+1)
}

func (s slot) size() int {
	n := 1
	for _, d := range s.rest() {
		n *= d
	}
	return n
}

// cell is one step of a recurrence, as a graph computes it.
type cell struct {
	run     *passes.Context
	samples int
	bind    map[string]int64
	states  []slot      // before the step
	next    []*ir.Value // the same states after it
	inputs  []slot
	outputs []*ir.Value
	alias   map[*ir.Value]*ir.Value // from a value to its replacement
	eval    *eval.Constants         // evaluates values that do not vary; nil for a new one
}

// system is a cell as matrices: s = A s' + B x + bias, and for each output y = P s + Q s' + D x + bias. s' is the state
// before the step. The features of a tensor are its elements without the axis of samples. States are concatenated, and
// so are inputs.
type system struct {
	n, h    int
	a, b    [][]linear.Term
	bias    []float64
	outputs []outputMap
}

// outputMap is the matrices of an output in slot at.
type outputMap struct {
	at         slot
	next, prev [][]linear.Term
	in         [][]linear.Term
	bias       []float64
}

// read returns the matrices of a cell. The error says why it has none.
func (c *cell) read() (*system, error) {
	s := &system{}
	for _, st := range c.states {
		s.n += st.size()
	}
	for _, in := range c.inputs {
		s.h += in.size()
	}
	k := 2*s.n + s.h // The basis of one sample: states before, inputs, states after.
	seeded := func() (*linear.Linearizer, error) {
		l := linear.NewLinearizer(c.run, c.bind)
		l.Alias = c.alias
		if c.eval != nil {
			l.Ev = c.eval
		}
		l.Basis = k * c.samples
		at := 0
		for _, st := range slices.Concat(c.states, c.inputs) {
			if err := seedSamples(l, st, at, k); err != nil {
				return nil, err
			}
			at += st.size()
		}
		return l, nil
	}
	l, err := seeded()
	if err != nil {
		return nil, err
	}
	l2, err := seeded()
	if err != nil {
		return nil, err
	}
	at := s.n + s.h
	for i, v := range c.next {
		f, err := l.Form(v)
		if err != nil {
			return nil, err
		}
		st := c.states[i]
		if !slices.Equal(f.Shape, st.shape) {
			return nil, fmt.Errorf("state %s has shape %v before a step and %v after it", st.v.Name, st.shape, f.Shape)
		}
		rows, err := samples(c.run, f, st.batch, c.samples, k)
		if err != nil {
			return nil, fmt.Errorf("state %s: %w", st.v.Name, err)
		}
		for _, r := range rows {
			before, in, after := cut(r.Terms, s.n, s.h)
			if len(after) > 0 {
				return nil, errors.New("a state depends on itself")
			}
			s.a, s.b, s.bias = append(s.a, before), append(s.b, in), append(s.bias, r.C)
		}
		if err := seedSamples(l2, slot{v, st.shape, st.batch}, at, k); err != nil {
			return nil, err
		}
		at += st.size()
	}
	for _, v := range c.outputs {
		f, err := l2.Form(v)
		if err != nil {
			return nil, err
		}
		o, err := c.output(f, v, s, k)
		if err != nil {
			return nil, err
		}
		s.outputs = append(s.outputs, o)
	}
	return s, nil
}

// output finds an output's axis of samples, and its matrices.
func (c *cell) output(f *linear.Form, v *ir.Value, s *system, k int) (outputMap, error) {
	axes := []int{-1}
	if !c.single() {
		axes = axes[:0]
		for i, d := range f.Shape {
			if d == c.samples {
				axes = append(axes, i)
			}
		}
	}
	why := fmt.Errorf("output %s has no axis of %d samples", v.Name, c.samples)
	for _, axis := range axes {
		rows, err := samples(c.run, f, axis, c.samples, k)
		if err != nil {
			why = fmt.Errorf("output %s: %w", v.Name, err)
			continue
		}
		o := outputMap{at: slot{v, f.Shape, axis}}
		for _, r := range rows {
			before, in, after := cut(r.Terms, s.n, s.h)
			o.prev, o.in, o.next, o.bias = append(o.prev, before), append(o.in, in), append(o.next, after),
				append(o.bias, r.C)
		}
		return o, nil
	}
	return outputMap{}, why
}

// single reports whether the cell's tensors have no axis of samples.
func (c *cell) single() bool {
	return len(c.inputs) > 0 && c.inputs[0].batch < 0
}

// cut splits the terms of a row into states before the step, inputs, and states after it. Each part counts from 0.
func cut(row []linear.Term, n, h int) (before, in, after []linear.Term) {
	for _, t := range row {
		switch at := int(t.At); {
		case at < n:
			before = append(before, t)
		case at < n+h:
			in = append(in, linear.Term{At: t.At - int32(n), Coef: t.Coef})
		default:
			after = append(after, linear.Term{At: t.At - int32(n+h), Coef: t.Coef})
		}
	}
	return before, in, after
}

// seedSamples makes the elements of a slot's tensor the basis. Those of sample i start at i·k + first.
func seedSamples(l *linear.Linearizer, s slot, first, k int) error {
	n, err := tensor.Size(s.shape)
	if err != nil {
		return err
	}
	if err := l.Spend(2 * n); err != nil {
		return err
	}
	f := &linear.Form{Shape: slices.Clone(s.shape), Elems: make([]linear.Combination, n)}
	all := make([]linear.Term, n)
	eachSample(l.Run, s.shape, s.batch, func(i, sample, feature int) {
		all[i] = linear.Term{At: int32(sample*k + first + feature), Coef: 1}
		f.Elems[i].Terms = all[i : i+1 : i+1]
	})
	l.Forms[s.v] = f
	return nil
}

// eachSample calls visit for each element of a tensor, with its sample and feature.
func eachSample(run *passes.Context, shape []int, axis int, visit func(i, sample, feature int)) {
	n, inner, dim := 1, 1, 1
	for i, d := range shape {
		n *= d
		if axis >= 0 && i > axis {
			inner *= d
		}
	}
	if axis >= 0 {
		dim = shape[axis]
	} else {
		inner = n
	}
	for i := range n {
		if i%linear.PayAfter == 0 {
			run.Check()
		}
		outer, sample, in := i/(inner*dim), i/inner%dim, i%inner
		visit(i, sample, outer*inner+in)
	}
}

// samples returns the rows of one sample. It checks that they are the same for all samples, and that none depends on
// another.
func samples(run *passes.Context, f *linear.Form, axis, count, k int) ([]linear.Combination, error) {
	if axis >= len(f.Shape) || axis >= 0 && f.Shape[axis] != count || axis < 0 && count > 1 {
		return nil, fmt.Errorf("no axis of %d samples in shape %v", count, f.Shape)
	}
	rows := make([]linear.Combination, len(f.Elems)/max(count, 1))
	var err error
	eachSample(run, f.Shape, axis, func(i, sample, feature int) {
		e := f.Elems[i]
		if err != nil {
			return
		}
		if sample == 0 {
			for _, t := range e.Terms {
				if int(t.At) >= k {
					err = errors.New("samples of a batch depend on each other")
				}
			}
			rows[feature] = e
		}
	})
	if err != nil {
		return nil, err
	}
	eachSample(run, f.Shape, axis, func(i, sample, feature int) {
		e, first := f.Elems[i], rows[feature]
		same := e.C == first.C && len(e.Terms) == len(first.Terms)
		for j := 0; same && j < len(e.Terms); j++ {
			same = int(e.Terms[j].At) == int(first.Terms[j].At)+sample*k && e.Terms[j].Coef == first.Terms[j].Coef
		}
		if !same && err == nil {
			err = errors.New("samples of a batch depend on each other, or are treated differently")
		}
	})
	return rows, err
}
