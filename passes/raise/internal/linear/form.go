// Package linear computes linear functions that graphs compute: the coefficients of each element of a result, over the
// elements of values that are chosen as a basis. Recurrences are read from such functions, in whatever operators they
// are written.
//
// It imports ir, the operator packages, passes, and package regions. Coefficients are float64, and nothing is rounded
// in between. Work and memory are charged to the budgets of the run.
package linear

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// MaxElements is the maximum number of elements and terms that one linearizer makes, some hundred megabytes.
const MaxElements = 1 << 23

// Term is a basis element with its coefficient.
type Term struct {
	At   int32
	Coef float64
}

// Combination is the affine function Σ coef·basis[at] + c. Terms are sorted by basis element, and their coefficients
// are not
// 0. Elements share terms, which never change.
type Combination struct {
	Terms []Term
	C     float64
}

// Form is a tensor of affine functions of a basis.
type Form struct {
	Shape []int
	Elems []Combination
}

// Linearizer computes values as affine functions of a basis, which consists of the elements of the values that it is
// seeded with. It evaluates values that do not depend on these. It works with the shapes that it finds, since the
// bodies of loops lack types.
type Linearizer struct {
	Run   *passes.Context
	Ev    *eval.Constants         // evaluates what does not vary
	Basis int                     // the number of its elements
	Forms map[*ir.Value]*Form     // of the basis, and of what was computed from it
	Alias map[*ir.Value]*ir.Value // from a value to its replacement
	size  int
	work  int // since the last pay
	acc   accumulator
}

// NewLinearizer returns a linearizer without a basis, for shapes with the given symbols.
func NewLinearizer(run *passes.Context, bind map[string]int64) *Linearizer {
	return &Linearizer{Run: run, Ev: regions.Constants(run, bind), Forms: map[*ir.Value]*Form{}}
}

// ErrTooLarge is the error for more elements and terms than MaxElements.
var ErrTooLarge = errors.New("its matrices are too large to be computed")

// Spend counts n new elements or terms, and their work.
func (l *Linearizer) Spend(n int) error {
	if l.size += n; l.size > MaxElements || n < 0 {
		return ErrTooLarge
	}
	l.work += n
	return l.pay()
}

// PayAfter is the number of terms and elements between two calls of pay.
const PayAfter = 1 << 14

// pay spends the work since the last call from the run's budget, and ends with its context.
func (l *Linearizer) pay() error {
	l.Run.Check()
	n := l.work
	l.work = 0
	return l.Run.Search().Spend(16 * int64(n))
}

// Form returns v as affine functions. If v does not vary, they have no terms.
func (l *Linearizer) Form(v *ir.Value) (*Form, error) {
	f, d, err := l.value(v, 0)
	if err != nil || f != nil {
		return f, err
	}
	return l.lift(d)
}

// lift converts a tensor to a form without terms.
func (l *Linearizer) lift(d tensor.Datum) (*Form, error) {
	t, ok := d.(*tensor.Tensor)
	if !ok || t == nil {
		return nil, errors.New("a sequence cannot be linear, expected a tensor")
	}
	x, err := t.Float64s()
	if err != nil {
		return nil, err
	}
	if err := l.Spend(len(x)); err != nil {
		return nil, err
	}
	f := &Form{Shape: slices.Clone(t.Shape()), Elems: make([]Combination, len(x))}
	for i, c := range x {
		f.Elems[i].C = c
	}
	return f, nil
}

// value returns v as a form or, if v does not vary, as a datum.
func (l *Linearizer) value(v *ir.Value, depth int) (*Form, tensor.Datum, error) {
	if f, ok := l.Forms[v]; ok {
		return f, nil, nil
	}
	if d, ok := l.Ev.Known(v); ok {
		return nil, d, nil
	}
	switch {
	case v.Const != nil:
		return nil, eval.Widen(v.Const), nil
	case l.Alias[v] != nil:
		return l.value(l.Alias[v], depth+1)
	case v.Def == nil:
		return nil, nil, fmt.Errorf("it reads %s, which is neither an input nor a state of the step", v.Name)
	case depth > eval.MaxDepth:
		return nil, nil, fmt.Errorf("more than %d nodes are between %s and the step's inputs", eval.MaxDepth, v.Name)
	}
	n := v.Def
	if n.Op.Random || len(n.Subgraphs()) > 0 {
		return nil, nil, fmt.Errorf("it reads the result of %v", n)
	}
	if n.Op.OfShapes && n.In(0) != nil {
		if t, ok := l.shapeOf(n, depth); ok {
			return nil, t, nil
		}
	}
	in, forms := make([]tensor.Datum, len(n.Inputs)), make([]*Form, len(n.Inputs))
	varies := false
	for i, a := range n.Inputs {
		if a == nil {
			continue
		}
		f, d, err := l.value(a, depth+1)
		if err != nil {
			return nil, nil, err
		}
		in[i], forms[i], varies = d, f, varies || f != nil
	}
	if !varies {
		out, err := l.Ev.Node(n, in)
		if err != nil {
			return nil, nil, err
		}
		for i, o := range n.Outputs {
			if o != nil {
				l.Ev.Set(o, out[i])
			}
		}
		d, _ := l.Ev.Known(v)
		return nil, d, nil
	}
	if err := l.apply(n, forms, in); err != nil {
		return nil, nil, err
	}
	if f, ok := l.Forms[v]; ok {
		return f, nil, nil
	}
	if d, ok := l.Ev.Known(v); ok {
		return nil, d, nil
	}
	return nil, nil, fmt.Errorf("%v computed no %s", n, v.Name)
}

// shapeOf computes Shape and Size from the known dimensions of the argument.
func (l *Linearizer) shapeOf(n *ir.Node, depth int) (tensor.Datum, bool) {
	v := n.In(0)
	shape, known := []int(nil), false
	if f, ok := l.Forms[v]; ok {
		shape, known = f.Shape, true
	} else if t, ok := l.Ev.Shape(n); ok {
		return t, true
	} else if f, d, err := l.value(v, depth+1); err == nil {
		if f != nil {
			shape, known = f.Shape, true
		} else if t, ok := d.(*tensor.Tensor); ok {
			shape, known = t.Shape(), true
		}
	}
	if !known {
		return nil, false
	}
	dims, size := make([]int64, len(shape)), int64(1)
	for i, d := range shape {
		dims[i] = int64(d)
		size *= int64(d)
	}
	if n.Op.Name == "Size" {
		return tensor.Scalar(size), true
	}
	from, to := ops.ShapeRange(n.Attrs, len(dims))
	return tensor.FromSlice(dims[from:to], to-from), true
}

// ErrNonlinear returns an error that names the nonlinear node.
func ErrNonlinear(n *ir.Node) error { return fmt.Errorf("%v is not linear", n) }

// apply computes a node with an input that varies, and enters its outputs.
func (l *Linearizer) apply(n *ir.Node, forms []*Form, in []tensor.Datum) error {
	if n.Op.Domain == "essm" {
		return l.applyLayer(n, forms, in)
	}
	if n.Op.Domain != "" {
		return l.columns(n, forms, in)
	}
	// whose forms follow from those of their inputs, without an evaluation for each element of the basis
	switch n.Op.Name {
	case "Identity", "Dropout":
		l.Forms[n.Outputs[0]] = forms[0]
		return nil
	case "Cast", "CastLike":
		if forms[0] == nil || !n.Outputs[0].Elem().IsFloat() {
			return ErrNonlinear(n)
		}
		l.Forms[n.Outputs[0]] = forms[0]
		return nil
	case "Add", "Sub", "Sum", "Neg", "Mul", "Div":
		return l.arithmetic(n, forms, in)
	case "MatMul":
		return l.matmul(n, forms, in)
	case "Gemm":
		return l.gemm(n, forms, in)
	case "Einsum":
		return l.einsum(n, forms, in)
	case "ReduceSum", "ReduceMean":
		return l.reduce(n, forms, in)
	case "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather", "GatherElements", "GatherND",
		"Concat",
		"Split", "Expand", "Tile", "Pad", "Where":
		return l.move(n, forms, in)
	}
	return l.columns(n, forms, in)
}

// enter makes f the value of v. It keeps a form without terms as a plain tensor.
func (l *Linearizer) enter(v *ir.Value, f *Form) error {
	if v == nil {
		return nil
	}
	varies := false
	for i := range f.Elems {
		e := &f.Elems[i]
		if i%PayAfter == 0 {
			l.Run.Check()
		}
		varies = varies || len(e.Terms) > 0
		bad := math.IsNaN(e.C) || math.IsInf(e.C, 0)
		for _, t := range e.Terms {
			bad = bad || math.IsNaN(t.Coef) || math.IsInf(t.Coef, 0)
		}
		if bad {
			return fmt.Errorf("%s contains NaN or infinity", v.Name)
		}
	}
	if varies {
		l.Forms[v] = f
		return nil
	}
	x := make([]float64, len(f.Elems))
	for i := range x {
		x[i] = f.Elems[i].C
	}
	l.Ev.Set(v, tensor.FromSlice(x, f.Shape...))
	return nil
}

// operand returns input i as a form, lifted if it does not vary.
func (l *Linearizer) operand(forms []*Form, in []tensor.Datum, i int) (*Form, error) {
	if forms[i] != nil {
		return forms[i], nil
	}
	return l.lift(in[i])
}

// arithmetic computes Add, Sub, Sum and Neg, and Mul and Div by values that do not vary.
func (l *Linearizer) arithmetic(n *ir.Node, forms []*Form, in []tensor.Datum) error {
	if !n.Outputs[0].Elem().IsFloat() {
		return ErrNonlinear(n)
	}
	x, err := l.operand(forms, in, 0)
	if err != nil {
		return err
	}
	if n.Op.Name == "Neg" {
		x, err = l.zip(x, x, func(a, _ *Combination) Combination { return l.scaled(a, -1) })
		if err != nil {
			return err
		}
		return l.enter(n.Outputs[0], x)
	}
	for i := 1; i < len(n.Inputs); i++ {
		y, err := l.operand(forms, in, i)
		if err != nil {
			return err
		}
		var f func(a, b *Combination) Combination
		switch n.Op.Name {
		case "Add", "Sum":
			f = func(a, b *Combination) Combination { return l.Sum(a, b, 1) }
		case "Sub":
			f = func(a, b *Combination) Combination { return l.Sum(a, b, -1) }
		case "Mul":
			switch {
			case forms[1] == nil:
				f = func(a, b *Combination) Combination { return l.scaled(a, b.C) }
			case forms[0] == nil:
				f = func(a, b *Combination) Combination { return l.scaled(b, a.C) }
			default:
				return fmt.Errorf("%v multiplies two values that change from step to step", n)
			}
		case "Div":
			if forms[1] != nil {
				return fmt.Errorf("%v divides by a value that changes from step to step", n)
			}
			f = func(a, b *Combination) Combination { return l.scaled(a, 1/b.C) }
		}
		if x, err = l.zip(x, y, f); err != nil {
			return err
		}
	}
	return l.enter(n.Outputs[0], x)
}

// zip applies f to elements at the same position, with broadcasting.
func (l *Linearizer) zip(x, y *Form, f func(a, b *Combination) Combination) (*Form, error) {
	shape, err := broadcast(x.Shape, y.Shape)
	if err != nil {
		return nil, err
	}
	size, err := tensor.Size(shape)
	if err != nil {
		return nil, err
	}
	if err := l.Spend(size); err != nil {
		return nil, err
	}
	out := &Form{Shape: shape, Elems: make([]Combination, size)}
	xs, ys := strides(x.Shape, len(shape)), strides(y.Shape, len(shape))
	at := make([]int, len(shape))
	i, j := 0, 0
	for k := range out.Elems {
		if l.work += 1 + len(x.Elems[i].Terms) + len(y.Elems[j].Terms); l.work > PayAfter {
			if err := l.pay(); err != nil {
				return nil, err
			}
		}
		out.Elems[k] = f(&x.Elems[i], &y.Elems[j])
		for d := len(shape) - 1; d >= 0; d-- {
			at[d]++
			i, j = i+xs[d], j+ys[d]
			if at[d] < shape[d] {
				break
			}
			i, j, at[d] = i-xs[d]*shape[d], j-ys[d]*shape[d], 0
		}
	}
	return out, l.Spend(0) // f may have spent too much
}

func broadcast(a, b []int) ([]int, error) {
	out := make([]int, max(len(a), len(b)))
	for i := range out {
		x, y := 1, 1
		if k := i - len(out) + len(a); k >= 0 {
			x = a[k]
		}
		if k := i - len(out) + len(b); k >= 0 {
			y = b[k]
		}
		if x != y && x != 1 && y != 1 {
			return nil, fmt.Errorf("shapes %v and %v do not match", a, b)
		}
		out[i] = max(x, y)
		if x == 0 || y == 0 {
			out[i] = 0
		}
	}
	return out, nil
}

// strides returns the strides of a row-major tensor that is broadcast to a shape of the given rank.
func strides(shape []int, rank int) []int {
	out := make([]int, rank)
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 {
			out[i+rank-len(shape)] = step
		}
		step *= shape[i]
	}
	return out
}

// scaled returns k·a.
func (l *Linearizer) scaled(a *Combination, k float64) Combination {
	out := Combination{C: a.C * k}
	if k == 1 {
		out.Terms = a.Terms
		return out
	}
	if k == 0 || len(a.Terms) == 0 {
		return out
	}
	l.size += len(a.Terms)
	out.Terms = make([]Term, len(a.Terms))
	for i, t := range a.Terms {
		out.Terms[i] = Term{t.At, t.Coef * k}
	}
	return out
}

// Sum returns a + k·b.
func (l *Linearizer) Sum(a, b *Combination, k float64) Combination {
	out := Combination{C: a.C + k*b.C}
	if len(b.Terms) == 0 {
		out.Terms = a.Terms
		return out
	}
	if len(a.Terms) == 0 && k == 1 {
		out.Terms = b.Terms
		return out
	}
	l.size += len(a.Terms) + len(b.Terms)
	out.Terms = make([]Term, 0, len(a.Terms)+len(b.Terms))
	i, j := 0, 0
	for i < len(a.Terms) || j < len(b.Terms) {
		switch {
		case j == len(b.Terms) || i < len(a.Terms) && a.Terms[i].At < b.Terms[j].At:
			out.Terms = append(out.Terms, a.Terms[i])
			i++
		case i == len(a.Terms) || b.Terms[j].At < a.Terms[i].At:
			out.Terms = append(out.Terms, Term{b.Terms[j].At, k * b.Terms[j].Coef})
			j++
		default:
			if c := a.Terms[i].Coef + k*b.Terms[j].Coef; c != 0 {
				out.Terms = append(out.Terms, Term{a.Terms[i].At, c})
			}
			i, j = i+1, j+1
		}
	}
	return out
}

// accumulator sums up many scaled combinations, in time that does not depend on the size of the basis.
type accumulator struct {
	coef    []float64
	seen    []bool
	touched []int32
	c       float64
}

// Begin begins a sum of scaled combinations, one at a time in a linearizer.
func (l *Linearizer) Begin() {
	if len(l.acc.coef) < l.Basis {
		l.acc.coef, l.acc.seen = make([]float64, l.Basis), make([]bool, l.Basis)
	}
	l.acc.touched, l.acc.c = l.acc.touched[:0], 0
}

// Add adds k·a to the sum.
func (l *Linearizer) Add(a *Combination, k float64) {
	l.acc.c += a.C * k
	if k == 0 {
		return
	}
	for _, t := range a.Terms {
		if !l.acc.seen[t.At] {
			l.acc.seen[t.At] = true
			l.acc.touched = append(l.acc.touched, t.At)
		}
		l.acc.coef[t.At] += t.Coef * k
	}
}

// End returns the sum.
func (l *Linearizer) End() Combination {
	slices.Sort(l.acc.touched)
	out := Combination{C: l.acc.c}
	l.size += len(l.acc.touched)
	for _, at := range l.acc.touched {
		if c := l.acc.coef[at]; c != 0 {
			out.Terms = append(out.Terms, Term{at, c})
		}
		l.acc.coef[at], l.acc.seen[at] = 0, false
	}
	return out
}
