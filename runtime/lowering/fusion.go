package lowering

import (
	"slices"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Backends compute several elementwise steps at once, by themselves or after a product. Which steps these may be, and
// what they compute, is the same on every machine: Follow finds the steps after a producer, a Fusion composes their
// expressions, and SpreadOf tells how an operand is read. Limits, costs and the code are the backend's.

// Spread is how an operand of an elementwise step broadcasts to its result.
type Spread int8

const (
	// General operands repeat in another way than those below, or do not broadcast to the result.
	General Spread = iota
	// Same operands have one number per element.
	Same
	// Single operands have one number for all elements.
	Single
	// PerFeature operands have one number for each index of the last axis.
	PerFeature
	// PerRow operands have one number for each row, which has all indices of the last axis.
	PerRow
)

// SpreadOf returns how an operand of the given shape broadcasts to a result.
func SpreadOf(shape, result []int) Spread {
	missing := len(result) - len(shape)
	if missing < 0 {
		return General
	}
	same, single, feature, row := true, true, true, true
	for i, n := range result {
		k, last := 1, i == len(result)-1
		if i >= missing {
			k = shape[i-missing]
		}
		if k != 1 && k != n {
			return General
		}
		if n == 1 {
			continue
		}
		varies := k == n
		same, single = same && varies, single && !varies
		feature, row = feature && varies == last, row && varies != last
	}
	switch {
	case same:
		return Same
	case single:
		return Single
	case feature:
		return PerFeature
	case row:
		return PerRow
	}
	return General
}

// PerChannel reports whether a tensor of the first shape broadcasts to the second shape with one element for each
// index of axis 1.
func PerChannel(shape, to []int) bool {
	at := len(shape) - len(to) + 1
	if at < 0 || len(shape) > len(to) || shape[at] != to[1] {
		return false
	}
	n, _ := tensor.Size(shape)
	return n == to[1]
}

// Expression returns the expression of an elementwise step over its inputs; the zero Expr if it has none. Inputs for
// which constant returns one real number are constants.
func Expression(s *Step, constant func(v *Value) *tensor.Tensor) scalar.Expr {
	n := s.Node
	if n.Op.Element == nil || len(n.Inputs) > ops.MostFolded {
		return scalar.Expr{}
	}
	x := make([]scalar.Expr, max(len(n.Inputs), len(n.Op.In)))
	for i := range n.Inputs {
		if s.Absent(i) {
			continue
		}
		x[i] = scalar.Input(i)
		var k [1]float64
		if c := constant(s.In[i]); c != nil && c.Len() == 1 && c.ReadFloat64s(k[:], 0) == nil &&
			(c.DType().Bits() < 64 || k[0] == float64(int64(k[0])) || !c.DType().IsInt()) {
			x[i] = scalar.Const(k[0])
		}
	}
	return n.Op.Element(n, x)
}

// Sole returns the only step that reads v, and reads it once; nil if there are others, or if v is an input or output of
// the program.
func (d *Binding) Sole(v *Value) *Step {
	if len(d.Readers(v)) != 1 || d.Leaves(v) || d.Given(v) {
		return nil
	}
	return d.Readers(v)[0]
}

// Maker returns the step that computes v; nil for inputs, constants and settled values.
func (d *Binding) Maker(v *Value) *Step {
	if d.Made(v) < 0 {
		return nil
	}
	return d.Program.Steps[d.Made(v)]
}

// Before reports whether v is ready when the step that computes result begins.
func (d *Binding) Before(v, result *Value) bool { return d.Made(v) < d.Made(result) }

// Fusion composes the expressions of elementwise steps whose results have one shape, each rounded as it would be in
// memory.
type Fusion struct {
	// Operands are the values that the expressions read, by number: those that the fusion began with, and then others
	// in the order in which steps read them.
	Operands []*Value

	d     *Binding
	shape []int
	fits  func(e scalar.Expr, s *Step, operands []*Value) bool
	of    map[*Value]scalar.Expr
}

// NewFusion returns a fusion without steps. operands may be results of a producer. fits reports whether the backend
// computes the expression of a step on the operands.
func NewFusion(d *Binding, shape []int, fits func(e scalar.Expr, s *Step, operands []*Value) bool,
	operands ...*Value) *Fusion {
	return &Fusion{Operands: operands, d: d, shape: shape, fits: fits, of: map[*Value]scalar.Expr{}}
}

// Add composes the expression of a step with those of the steps before it. It returns false, and changes nothing, if
// the step is not elementwise, its result has another shape, or the backend does not compute it.
func (f *Fusion) Add(s *Step) bool {
	d := f.d
	if len(s.Out) != 1 || s.Out[0] == nil || d.Shape(s.Out[0]) == nil || !slices.Equal(d.Shape(s.Out[0]), f.shape) {
		return false
	}
	e := Expression(s, d.Constant)
	if !e.Valid() {
		return false
	}
	operands, args := slices.Clip(f.Operands), make([]scalar.Expr, len(s.In))
	for _, i := range e.Reads() {
		v := s.In[i]
		x, ok := f.of[v]
		if !ok {
			if len(d.Shape(v)) > len(f.shape) {
				return false
			}
			k := slices.Index(operands, v)
			if k < 0 {
				k, operands = len(operands), append(operands, v)
			}
			x = scalar.Input(k)
		}
		args[i] = x
	}
	switch e = e.With(args...); d.DType(s.Out[0]) {
	case tensor.Float16:
		e = scalar.Float16(e)
	case tensor.BFloat16:
		e = scalar.BFloat16(e)
	}
	if !f.fits(e, s, operands) {
		return false
	}
	f.of[s.Out[0]], f.Operands = e, operands
	return true
}

// Of returns the expression of a result or an operand; the zero Expr for other values.
func (f *Fusion) Of(v *Value) scalar.Expr {
	if e, ok := f.of[v]; ok {
		return e
	}
	if i := slices.Index(f.Operands, v); i >= 0 {
		return scalar.Input(i)
	}
	return scalar.Expr{}
}

// Follow returns the steps that a backend can compute together with group, whose results they read. They are the later
// steps that read results of the group, in order, at most most of them, up to the last one after which only its own
// results are read by other steps; other results need no memory then. join lets a step join the group; Follow ends at
// the first reader that cannot. free is a result of the group that others may read, or nil.
func (d *Binding) Follow(group, later []*Step, most int, free *Value, join func(s *Step) bool) []*Step {
	c := closure{d, free, map[*Value]int{}, 0}
	for _, s := range group {
		c.join(s)
	}
	var joined []*Step
	closed := 0
	for _, s := range later {
		if d.Steps().Step(20 + 10*len(s.In)); len(joined) == most {
			break
		}
		if !c.reads(s) || slices.Contains(group, s) {
			continue
		}
		if !join(s) {
			break
		}
		c.join(s)
		joined = append(joined, s)
		if c.closed(s) {
			closed = len(joined)
		}
	}
	return joined[:closed]
}

// closure counts the reads of the results of a group by other steps.
type closure struct {
	d    *Binding
	free *Value
	left map[*Value]int // of each result: the reads outside of the group
	open int            // results with such reads
}

// reads reports whether a step reads a result of the group.
func (c *closure) reads(s *Step) bool {
	for v := range s.Reads {
		if _, ok := c.left[v]; ok {
			return true
		}
	}
	return false
}

// join adds a step to the group.
func (c *closure) join(s *Step) {
	for v := range s.Reads {
		if n, ok := c.left[v]; ok {
			if c.left[v]--; n == 1 {
				c.open--
			}
		}
	}
	for _, v := range s.Out {
		if v == nil {
			continue
		}
		n := 0
		if v != c.free {
			n = len(c.d.Readers(v))
		}
		if v != c.free && c.d.Leaves(v) {
			n++
		}
		if c.left[v] = n; n > 0 {
			c.open++
		}
	}
}

// closed reports whether only the results of last are read by other steps.
func (c *closure) closed(last *Step) bool {
	open := c.open
	for _, v := range last.Out {
		if v != nil && c.left[v] > 0 {
			open--
		}
	}
	return open == 0
}
