package raise

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
)

// maxForms is the maximum number of elements and terms that one linearizer makes, some hundred megabytes.
const maxForms = 1 << 23

// term is a basis element with its coefficient.
type term struct {
	at   int32
	coef float64
}

// combination is the affine function Σ coef·basis[at] + c. Terms are sorted by basis element, and their coefficients
// are not
// 0. Elements share terms, which never change.
type combination struct {
	terms []term
	c     float64
}

// form is a tensor of affine functions of a basis.
type form struct {
	shape []int
	elems []combination
}

// linearizer computes values as affine functions of a basis, which consists of the elements of the values that it is
// seeded with. It evaluates values that do not depend on these. It works with the shapes that it finds, since the
// bodies of loops lack types.
type linearizer struct {
	run   *passes.Context
	ev    *eval.Constants
	basis int
	forms map[*ir.Value]*form
	alias map[*ir.Value]*ir.Value // from a value to its replacement
	size  int
	work  int // since the last pay
	acc   accumulator
}

func newLinearizer(run *passes.Context, bind map[string]int64) *linearizer {
	return &linearizer{run: run, ev: constants(run, bind), forms: map[*ir.Value]*form{}}
}

var errTooLarge = errors.New("its matrices are too large to be computed")

func (l *linearizer) spend(n int) error {
	if l.size += n; l.size > maxForms || n < 0 {
		return errTooLarge
	}
	l.work += n
	return l.pay()
}

// payAfter is the number of terms and elements between two calls of pay.
const payAfter = 1 << 14

// pay spends the work since the last call from the run's budget, and ends with its context.
func (l *linearizer) pay() error {
	l.run.Check()
	n := l.work
	l.work = 0
	return l.run.Search().Spend(16 * int64(n))
}

// form returns v as affine functions. If v does not vary, they have no terms.
func (l *linearizer) form(v *ir.Value) (*form, error) {
	f, d, err := l.value(v, 0)
	if err != nil || f != nil {
		return f, err
	}
	return l.lift(d)
}

// lift converts a tensor to a form without terms.
func (l *linearizer) lift(d tensor.Datum) (*form, error) {
	t, ok := d.(*tensor.Tensor)
	if !ok || t == nil {
		return nil, errors.New("a sequence cannot be linear, expected a tensor")
	}
	x, err := t.Float64s()
	if err != nil {
		return nil, err
	}
	if err := l.spend(len(x)); err != nil {
		return nil, err
	}
	f := &form{shape: slices.Clone(t.Shape()), elems: make([]combination, len(x))}
	for i, c := range x {
		f.elems[i].c = c
	}
	return f, nil
}

// value returns v as a form or, if v does not vary, as a datum.
func (l *linearizer) value(v *ir.Value, depth int) (*form, tensor.Datum, error) {
	if f, ok := l.forms[v]; ok {
		return f, nil, nil
	}
	if d, ok := l.ev.Known(v); ok {
		return nil, d, nil
	}
	switch {
	case v.Const != nil:
		return nil, eval.Widen(v.Const), nil
	case l.alias[v] != nil:
		return l.value(l.alias[v], depth+1)
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
	in, forms := make([]tensor.Datum, len(n.Inputs)), make([]*form, len(n.Inputs))
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
		out, err := l.ev.Node(n, in)
		if err != nil {
			return nil, nil, err
		}
		for i, o := range n.Outputs {
			if o != nil {
				l.ev.Set(o, out[i])
			}
		}
		d, _ := l.ev.Known(v)
		return nil, d, nil
	}
	if err := l.apply(n, forms, in); err != nil {
		return nil, nil, err
	}
	if f, ok := l.forms[v]; ok {
		return f, nil, nil
	}
	if d, ok := l.ev.Known(v); ok {
		return nil, d, nil
	}
	return nil, nil, fmt.Errorf("%v computed no %s", n, v.Name)
}

// shapeOf computes Shape and Size from the known dimensions of the argument.
func (l *linearizer) shapeOf(n *ir.Node, depth int) (tensor.Datum, bool) {
	v := n.In(0)
	shape, known := []int(nil), false
	if f, ok := l.forms[v]; ok {
		shape, known = f.shape, true
	} else if t, ok := l.ev.Shape(n); ok {
		return t, true
	} else if f, d, err := l.value(v, depth+1); err == nil {
		if f != nil {
			shape, known = f.shape, true
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

// errNonlinear returns an error that names the nonlinear node.
func errNonlinear(n *ir.Node) error { return fmt.Errorf("%v is not linear", n) }

// apply computes a node with an input that varies, and enters its outputs.
func (l *linearizer) apply(n *ir.Node, forms []*form, in []tensor.Datum) error {
	if n.Op.Domain == "essm" {
		return l.applyLayer(n, forms, in)
	}
	if n.Op.Domain != "" {
		return l.columns(n, forms, in)
	}
	switch n.Op.Name { // whose forms follow from those of their inputs, without an evaluation for each element of the basis
	case "Identity", "Dropout":
		l.forms[n.Outputs[0]] = forms[0]
		return nil
	case "Cast", "CastLike":
		if forms[0] == nil || !n.Outputs[0].Elem().IsFloat() {
			return errNonlinear(n)
		}
		l.forms[n.Outputs[0]] = forms[0]
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
func (l *linearizer) enter(v *ir.Value, f *form) error {
	if v == nil {
		return nil
	}
	varies := false
	for i := range f.elems {
		e := &f.elems[i]
		if i%payAfter == 0 {
			l.run.Check()
		}
		varies = varies || len(e.terms) > 0
		bad := math.IsNaN(e.c) || math.IsInf(e.c, 0)
		for _, t := range e.terms {
			bad = bad || math.IsNaN(t.coef) || math.IsInf(t.coef, 0)
		}
		if bad {
			return fmt.Errorf("%s contains NaN or infinity", v.Name)
		}
	}
	if varies {
		l.forms[v] = f
		return nil
	}
	x := make([]float64, len(f.elems))
	for i := range x {
		x[i] = f.elems[i].c
	}
	l.ev.Set(v, tensor.FromSlice(x, f.shape...))
	return nil
}

// operand returns input i as a form, lifted if it does not vary.
func (l *linearizer) operand(forms []*form, in []tensor.Datum, i int) (*form, error) {
	if forms[i] != nil {
		return forms[i], nil
	}
	return l.lift(in[i])
}

// arithmetic computes Add, Sub, Sum and Neg, and Mul and Div by values that do not vary.
func (l *linearizer) arithmetic(n *ir.Node, forms []*form, in []tensor.Datum) error {
	if !n.Outputs[0].Elem().IsFloat() {
		return errNonlinear(n)
	}
	x, err := l.operand(forms, in, 0)
	if err != nil {
		return err
	}
	if n.Op.Name == "Neg" {
		x, err = l.zip(x, x, func(a, _ *combination) combination { return l.scaled(a, -1) })
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
		var f func(a, b *combination) combination
		switch n.Op.Name {
		case "Add", "Sum":
			f = func(a, b *combination) combination { return l.sum(a, b, 1) }
		case "Sub":
			f = func(a, b *combination) combination { return l.sum(a, b, -1) }
		case "Mul":
			switch {
			case forms[1] == nil:
				f = func(a, b *combination) combination { return l.scaled(a, b.c) }
			case forms[0] == nil:
				f = func(a, b *combination) combination { return l.scaled(b, a.c) }
			default:
				return fmt.Errorf("%v multiplies two values that change from step to step", n)
			}
		case "Div":
			if forms[1] != nil {
				return fmt.Errorf("%v divides by a value that changes from step to step", n)
			}
			f = func(a, b *combination) combination { return l.scaled(a, 1/b.c) }
		}
		if x, err = l.zip(x, y, f); err != nil {
			return err
		}
	}
	return l.enter(n.Outputs[0], x)
}

// zip applies f to elements at the same position, with broadcasting.
func (l *linearizer) zip(x, y *form, f func(a, b *combination) combination) (*form, error) {
	shape, err := broadcast(x.shape, y.shape)
	if err != nil {
		return nil, err
	}
	size, err := tensor.Size(shape)
	if err != nil {
		return nil, err
	}
	if err := l.spend(size); err != nil {
		return nil, err
	}
	out := &form{shape: shape, elems: make([]combination, size)}
	xs, ys := strides(x.shape, len(shape)), strides(y.shape, len(shape))
	at := make([]int, len(shape))
	i, j := 0, 0
	for k := range out.elems {
		if l.work += 1 + len(x.elems[i].terms) + len(y.elems[j].terms); l.work > payAfter {
			if err := l.pay(); err != nil {
				return nil, err
			}
		}
		out.elems[k] = f(&x.elems[i], &y.elems[j])
		for d := len(shape) - 1; d >= 0; d-- {
			at[d]++
			i, j = i+xs[d], j+ys[d]
			if at[d] < shape[d] {
				break
			}
			i, j, at[d] = i-xs[d]*shape[d], j-ys[d]*shape[d], 0
		}
	}
	return out, l.spend(0) // f may have spent too much
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
func (l *linearizer) scaled(a *combination, k float64) combination {
	out := combination{c: a.c * k}
	if k == 1 {
		out.terms = a.terms
		return out
	}
	if k == 0 || len(a.terms) == 0 {
		return out
	}
	l.size += len(a.terms)
	out.terms = make([]term, len(a.terms))
	for i, t := range a.terms {
		out.terms[i] = term{t.at, t.coef * k}
	}
	return out
}

// sum returns a + k·b.
func (l *linearizer) sum(a, b *combination, k float64) combination {
	out := combination{c: a.c + k*b.c}
	if len(b.terms) == 0 {
		out.terms = a.terms
		return out
	}
	if len(a.terms) == 0 && k == 1 {
		out.terms = b.terms
		return out
	}
	l.size += len(a.terms) + len(b.terms)
	out.terms = make([]term, 0, len(a.terms)+len(b.terms))
	i, j := 0, 0
	for i < len(a.terms) || j < len(b.terms) {
		switch {
		case j == len(b.terms) || i < len(a.terms) && a.terms[i].at < b.terms[j].at:
			out.terms = append(out.terms, a.terms[i])
			i++
		case i == len(a.terms) || b.terms[j].at < a.terms[i].at:
			out.terms = append(out.terms, term{b.terms[j].at, k * b.terms[j].coef})
			j++
		default:
			if c := a.terms[i].coef + k*b.terms[j].coef; c != 0 {
				out.terms = append(out.terms, term{a.terms[i].at, c})
			}
			i, j = i+1, j+1
		}
	}
	return out
}

// accumulator sums up many scaled combinations.
type accumulator struct {
	coef    []float64
	seen    []bool
	touched []int32
	c       float64
}

func (l *linearizer) begin() {
	if len(l.acc.coef) < l.basis {
		l.acc.coef, l.acc.seen = make([]float64, l.basis), make([]bool, l.basis)
	}
	l.acc.touched, l.acc.c = l.acc.touched[:0], 0
}

func (l *linearizer) add(a *combination, k float64) {
	l.acc.c += a.c * k
	if k == 0 {
		return
	}
	for _, t := range a.terms {
		if !l.acc.seen[t.at] {
			l.acc.seen[t.at] = true
			l.acc.touched = append(l.acc.touched, t.at)
		}
		l.acc.coef[t.at] += t.coef * k
	}
}

func (l *linearizer) end() combination {
	slices.Sort(l.acc.touched)
	out := combination{c: l.acc.c}
	l.size += len(l.acc.touched)
	for _, at := range l.acc.touched {
		if c := l.acc.coef[at]; c != 0 {
			out.terms = append(out.terms, term{at, c})
		}
		l.acc.coef[at], l.acc.seen[at] = 0, false
	}
	return out
}
