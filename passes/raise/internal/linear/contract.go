package linear

import (
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// The linearizer's rules for operators that sum up or move elements.

// oneVaries checks that exactly one of the first two operands varies.
func oneVaries(n *ir.Node, forms []*Form) error {
	if forms[0] != nil && forms[1] != nil {
		return fmt.Errorf("%v multiplies two values that change from step to step", n)
	}
	return nil
}

// factors returns the two factors of a product; one of them varies.
func (l *Linearizer) factors(n *ir.Node, forms []*Form, in []tensor.Datum) (x, y *Form, err error) {
	if err := oneVaries(n, forms); err != nil {
		return nil, nil, err
	}
	if x, err = l.operand(forms, in, 0); err != nil {
		return nil, nil, err
	}
	y, err = l.operand(forms, in, 1)
	return x, y, err
}

// matmul computes a product with one factor that varies.
func (l *Linearizer) matmul(n *ir.Node, forms []*Form, in []tensor.Datum) error {
	x, y, err := l.factors(n, forms, in)
	if err != nil {
		return err
	}
	xs, ys := slices.Clone(x.Shape), slices.Clone(y.Shape)
	if len(xs) == 0 || len(ys) == 0 {
		return ErrNonlinear(n)
	}
	rowX, colY := len(xs) == 1, len(ys) == 1
	if rowX {
		xs = []int{1, xs[0]}
	}
	if colY {
		ys = []int{ys[0], 1}
	}
	if xs[len(xs)-1] != ys[len(ys)-2] {
		return fmt.Errorf("%v: shapes %v and %v do not match", n, x.Shape, y.Shape)
	}
	batch, err := broadcast(xs[:len(xs)-2], ys[:len(ys)-2])
	if err != nil {
		return err
	}
	label := func(k int) []int { // labels of a factor's batch axes, counted from the last
		out := []int{}
		for i := range k {
			out = append(out, len(batch)-k+i)
		}
		return out
	}
	r, k, c := len(batch), len(batch)+1, len(batch)+2
	out, err := l.contract(&Form{xs, x.Elems}, append(label(len(xs)-2), r, k), &Form{ys, y.Elems},
		append(label(len(ys)-2), k, c),
		append(label(len(batch)), r, c), forms[0] != nil)
	if err != nil {
		return err
	}
	if colY {
		out.Shape = slices.Delete(out.Shape, len(out.Shape)-1, len(out.Shape))
	}
	if rowX {
		at := len(out.Shape) - 2
		if colY {
			at++
		}
		out.Shape = slices.Delete(out.Shape, at, at+1)
	}
	return l.enter(n.Outputs[0], out)
}

// gemm computes alpha·A·B + beta·C.
func (l *Linearizer) gemm(n *ir.Node, forms []*Form, in []tensor.Datum) error {
	x, y, err := l.factors(n, forms, in)
	if err != nil {
		return err
	}
	if len(x.Shape) != 2 || len(y.Shape) != 2 {
		return ErrNonlinear(n)
	}
	lx, ly := []int{0, 1}, []int{1, 2}
	if n.Attrs.Bool("transA", false) {
		lx = []int{1, 0}
	}
	if n.Attrs.Bool("transB", false) {
		ly = []int{2, 1}
	}
	out, err := l.contract(x, lx, y, ly, []int{0, 2}, forms[0] != nil)
	if err != nil {
		return err
	}
	alpha, beta := n.Attrs.Float("alpha", 1), n.Attrs.Float("beta", 1)
	for i := range out.Elems {
		out.Elems[i] = l.scaled(&out.Elems[i], alpha)
	}
	if n.In(2) != nil {
		c, err := l.operand(forms, in, 2)
		if err != nil {
			return err
		}
		if out, err = l.zip(out, c, func(a, b *Combination) Combination { return l.Sum(a, b, beta) }); err != nil {
			return err
		}
	}
	return l.enter(n.Outputs[0], out)
}

// einsum computes a sum of products of one or two operands, one of which varies.
func (l *Linearizer) einsum(n *ir.Node, forms []*Form, in []tensor.Datum) error {
	eq := strings.ReplaceAll(n.Attrs.Str("equation", ""), " ", "")
	left, right, ok := strings.Cut(eq, "->")
	parts := strings.Split(left, ",")
	if !ok || strings.Contains(eq, ".") || len(parts) != len(n.Inputs) || len(parts) > 2 {
		return ErrNonlinear(n)
	}
	x, err := l.operand(forms, in, 0)
	if err != nil {
		return err
	}
	first := forms[0] != nil
	y := &Form{Shape: []int{}, Elems: []Combination{{C: 1}}}
	if len(parts) == 1 {
		parts = append(parts, "")
	} else {
		if err := oneVaries(n, forms); err != nil {
			return err
		}
		if y, err = l.operand(forms, in, 1); err != nil {
			return err
		}
	}
	number := map[rune]int{}
	label := func(s string) []int {
		out := []int{}
		for _, r := range s {
			if _, ok := number[r]; !ok {
				number[r] = len(number)
			}
			out = append(out, number[r])
		}
		return out
	}
	out, err := l.contract(x, label(parts[0]), y, label(parts[1]), label(right), first)
	if err != nil {
		return err
	}
	return l.enter(n.Outputs[0], out)
}

// contract sums products of elements of x and y over all labels that the result lacks. first reports whether x is
// the factor that varies.
func (l *Linearizer) contract(x *Form, lx []int, y *Form, ly []int, lo []int, first bool) (*Form, error) {
	dims := map[int]int{}
	for _, o := range []struct {
		f *Form
		l []int
	}{{x, lx}, {y, ly}} {
		if len(o.f.Shape) != len(o.l) {
			return nil, fmt.Errorf("a product needs a factor of rank %d, found rank %d", len(o.l), len(o.f.Shape))
		}
		for i, k := range o.l {
			if d, ok := dims[k]; ok && d != o.f.Shape[i] && d != 1 && o.f.Shape[i] != 1 {
				return nil, fmt.Errorf("factors of shapes %v and %v do not match", x.Shape, y.Shape)
			}
			dims[k] = max(dims[k], o.f.Shape[i])
		}
	}
	order := slices.Clone(lo) // labels of the result, then labels that are summed over
	for _, k := range slices.Concat(lx, ly) {
		if !slices.Contains(order, k) {
			order = append(order, k)
		}
	}
	step := func(f *Form, labels []int) []int {
		own, out := strides(f.Shape, len(f.Shape)), make([]int, len(order))
		for i, k := range labels {
			out[slices.Index(order, k)] += own[i]
		}
		return out
	}
	sx, sy := step(x, lx), step(y, ly)
	shape, size, inner := make([]int, len(lo)), 1, 1
	for i, k := range order {
		d, ok := dims[k]
		if !ok {
			return nil, fmt.Errorf("a product has no axis %d", k)
		}
		if i < len(lo) {
			shape[i], size = d, size*d
		} else {
			inner *= d
		}
	}
	if size*max(inner, 1) > 64*MaxElements {
		return nil, ErrTooLarge
	}
	if err := l.Spend(size); err != nil {
		return nil, err
	}
	out := &Form{Shape: shape, Elems: make([]Combination, size)}
	at := make([]int, len(order))
	i, j := 0, 0
	next := func(from, to int) { // steps through the indices of the axes order[from:to]
		for d := to - 1; d >= from; d-- {
			at[d]++
			i, j = i+sx[d], j+sy[d]
			if at[d] < dims[order[d]] {
				return
			}
			i, j, at[d] = i-sx[d]*dims[order[d]], j-sy[d]*dims[order[d]], 0
		}
	}
	for k := range out.Elems {
		l.Begin()
		for range inner {
			a, by := &x.Elems[i], y.Elems[j].C
			if !first {
				a, by = &y.Elems[j], x.Elems[i].C
			}
			l.Add(a, by)
			if l.work += 1 + len(a.Terms); l.work > PayAfter {
				if err := l.pay(); err != nil {
					return nil, err
				}
			}
			next(len(lo), len(order))
		}
		out.Elems[k] = l.End()
		if l.size > MaxElements {
			return nil, ErrTooLarge
		}
		next(0, len(lo))
	}
	return out, nil
}

// reduce computes ReduceSum and ReduceMean.
func (l *Linearizer) reduce(n *ir.Node, forms []*Form, in []tensor.Datum) error {
	x := forms[0]
	if x == nil {
		return ErrNonlinear(n)
	}
	list := n.Attrs.Ints("axes", nil)
	if len(in) > 1 && in[1] != nil {
		list = intsOf(in[1])
	}
	axes, err := ops.AxesOf(list, len(x.Shape))
	if err != nil {
		return err
	}
	if len(list) == 0 {
		if n.Attrs.Bool("noop_with_empty_axes", false) {
			l.Forms[n.Outputs[0]] = x
			return nil
		}
		for i := range x.Shape {
			axes = append(axes, i)
		}
	}
	all, kept, count := []int{}, []int{}, 1
	shape := []int{}
	for i, d := range x.Shape {
		all = append(all, i)
		if slices.Contains(axes, i) {
			count *= d
			if n.Attrs.Bool("keepdims", true) {
				shape = append(shape, 1)
			}
			continue
		}
		kept = append(kept, i)
		shape = append(shape, d)
	}
	k := 1.0
	if n.Op.Name == "ReduceMean" {
		k = 1 / float64(count)
	}
	out, err := l.contract(x, all, &Form{Shape: []int{}, Elems: []Combination{{C: k}}}, nil, kept, true)
	if err != nil {
		return err
	}
	out.Shape = shape
	return l.enter(n.Outputs[0], out)
}

func intsOf(d tensor.Datum) []int64 {
	t, ok := d.(*tensor.Tensor)
	if !ok || t == nil {
		return nil
	}
	x, err := t.Int64s()
	if err != nil {
		return nil
	}
	return x
}

// movesInput reports whether input i of a moving operator has the elements that move. Other inputs determine their
// positions.
func movesInput(n *ir.Node, i int) bool {
	switch n.Op.Name {
	case "Concat":
		return true
	case "Where":
		return i > 0
	}
	return i == 0
}

// move computes an operator that only moves, repeats or drops elements, by evaluating it on the elements' numbers in a
// pool.
func (l *Linearizer) move(n *ir.Node, forms []*Form, in []tensor.Datum) error {
	pool := []Combination{{}} // number 0 is zero, which Pad inserts
	args := slices.Clone(in)
	for i := range n.Inputs {
		if n.Inputs[i] == nil {
			continue
		}
		if !movesInput(n, i) {
			if forms[i] != nil {
				return fmt.Errorf("%v moves elements to positions that change from step to step", n)
			}
			continue
		}
		f, err := l.operand(forms, in, i)
		if err != nil {
			return err
		}
		numbers := make([]float64, len(f.Elems))
		for k := range numbers {
			numbers[k] = float64(len(pool) + k)
		}
		pool = append(pool, f.Elems...)
		args[i] = tensor.FromSlice(numbers, f.Shape...)
	}
	if n.Op.Name == "Pad" {
		if n.Attrs.Str("mode", "constant") == "constant" && len(in) > 2 && in[2] != nil {
			t, ok := in[2].(*tensor.Tensor)
			if !ok {
				return ErrNonlinear(n)
			}
			c, err := t.Float64s()
			if err != nil || len(c) != 1 {
				return ErrNonlinear(n)
			}
			pool[0].C = c[0]
			args[2] = nil
		}
	}
	out, err := l.Ev.Node(n, args)
	if err != nil {
		return err
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		t, ok := out[i].(*tensor.Tensor)
		if !ok {
			return ErrNonlinear(n)
		}
		numbers, err := t.Float64s()
		if err != nil {
			return err
		}
		if err := l.Spend(len(numbers)); err != nil {
			return err
		}
		f := &Form{Shape: slices.Clone(t.Shape()), Elems: make([]Combination, len(numbers))}
		for k, x := range numbers {
			f.Elems[k] = pool[int(x)]
		}
		if err := l.enter(v, f); err != nil {
			return err
		}
	}
	return nil
}

// applyLayer computes the linear layers of the essm domain.
func (l *Linearizer) applyLayer(n *ir.Node, forms []*Form, in []tensor.Datum) error {
	x := forms[0]
	if x == nil || len(x.Shape) == 0 || n.Op.Name != "Linear" && n.Op.Name != "Affine" && n.Op.Name != "HeadLinear" {
		return l.columns(n, forms, in)
	}
	rank := len(x.Shape)
	lx := make([]int, rank)
	for i := range lx {
		lx[i] = i
	}
	for _, f := range forms[1:] {
		if f != nil {
			return fmt.Errorf("%v multiplies two values that change from step to step", n)
		}
	}
	args := make([]*Form, len(in))
	for i := 1; i < len(in); i++ {
		if in[i] == nil {
			continue
		}
		f, err := l.lift(in[i])
		if err != nil {
			return err
		}
		args[i] = f
	}
	plus := func(out *Form, i int) (*Form, error) {
		if i >= len(args) || args[i] == nil {
			return out, nil
		}
		return l.zip(out, args[i], func(a, b *Combination) Combination { return l.Sum(a, b, 1) })
	}
	var out *Form
	var err error
	switch n.Op.Name {
	case "Linear":
		lo := append(slices.Clone(lx[:rank-1]), rank)
		if out, err = l.contract(x, lx, args[1], []int{rank, rank - 1}, lo, true); err == nil {
			out, err = plus(out, 2)
		}
	case "Affine":
		if out, err = l.zip(x, args[1], func(a, b *Combination) Combination { return l.scaled(a, b.C) }); err == nil {
			out, err = plus(out, 2)
		}
	case "HeadLinear":
		w := args[1].Shape
		if len(w) != 4 || w[0] != 1 || x.Shape[rank-1] != w[1]*w[3] {
			return ErrNonlinear(n)
		}
		split := &Form{append(slices.Clone(x.Shape[:rank-1]), 1, w[1], w[3]), x.Elems}
		rows := lx[:rank-1]
		c, s, p, q := rank, rank+1, rank+2, rank+3
		if out, err = l.contract(split, append(slices.Clone(rows), c, s, q), args[1], []int{c, s, p, q},
			append(slices.Clone(rows), c, s, p), true); err == nil {
			out.Shape = append(slices.Clone(x.Shape[:rank-1]), w[1]*w[2])
		}
	}
	if err != nil {
		return err
	}
	return l.enter(n.Outputs[0], out)
}
