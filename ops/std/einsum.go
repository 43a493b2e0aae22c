package std

import (
	"fmt"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Einsum sums products of elements over named axes.
var Einsum = ops.Register(&ir.Op{
	Name: "Einsum", Since: 12,
	Doc: "Einstein's summation: each input's axes are letters, with an ellipsis for any number of them; the output " +
		"has the letters after -> or, without it, those that occur once, in alphabetical order.",
	In: []ir.Param{{Name: "Inputs", Elem: "T", Variadic: true}}, Out: ops.Sig("Output:T"),
	Elems: elems("T", ops.Numbers),
	Attrs: []ir.AttrSpec{{Name: "equation", Kind: ir.AttrString, Required: true, Doc: "the letters, as in ij,jk->ik"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		ranks := make([]int, len(n.Inputs))
		for i := range n.Inputs {
			t := tensorIn(n, i)
			if t == nil {
				return nil, fmt.Errorf("input %d is missing", i)
			}
			if t.NoRank {
				return one(noRank(n.In(0).Elem()))
			}
			ranks[i] = len(t.Shape)
		}
		e, err := parseEinsum(n.Attrs.Str("equation", ""), ranks)
		if err != nil {
			return nil, err
		}
		dims := map[rune]ir.Dim{}
		for i, letters := range e.in {
			n.Step(1 + 4*len(letters))
			for j, l := range letters {
				d := n.In(i).Shape()[j]
				if old, ok := dims[l]; ok {
					s, err := ops.BroadcastShape(ir.Shape{old}, ir.Shape{d})
					if err != nil {
						return nil, fmt.Errorf("input %d: %w", i, err)
					}
					d = s[0]
				}
				dims[l] = d
			}
		}
		out := ir.Shape{}
		for _, l := range e.out {
			out = append(out, dims[l])
		}
		return one(typed(n.In(0).Elem(), out))
	},
	Eval: evalEinsum,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		ranks := make([]int, len(n.Inputs))
		for i, v := range n.Inputs {
			n.Step(1)
			ranks[i] = len(v.Shape())
		}
		w := ir.Work{Bytes: ops.BytesOf(n, bind)}
		e, err := parseEinsum(n.Attrs.Str("equation", ""), ranks)
		if err != nil {
			return w
		}
		size := map[rune]int64{}
		for i, letters := range e.in {
			n.Step(1 + len(letters))
			for j, l := range letters {
				size[l] = max(size[l], ops.DimAt(n.In(i), j, bind))
			}
		}
		points := 2 * float64(len(n.Inputs)) // a product and a sum at each point of the space of all letters
		for _, d := range size {
			points *= float64(d)
		}
		w.Flops = int64(min(points, 1<<62))
		return w
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		ranks, same := make([]int, len(in)), make([]int, len(in))
		for i := range in {
			n.Step(1)
			ranks[i], same[i] = len(n.In(i).Shape()), len(n.Outputs[0].Shape())
		}
		e, err := parseEinsum(n.Attrs.Str("equation", ""), ranks)
		facts := append([]ir.Fact{}, in...)
		for i, f := range in {
			if n.Step(1); f.Constant() || f.Global || f.Axis < 0 {
				continue
			}
			if err != nil || f.Axis >= len(e.in[i]) {
				return spread(n, ops.Global(n, in))
			}
			facts[i].Axis = -1
			for j, l := range e.out {
				if l == e.in[i][f.Axis] {
					facts[i].Axis = j
				}
			}
			if meets(n, e, in, e.in[i][f.Axis]) {
				return spread(n, ops.Global(n, in))
			}
			if facts[i].Axis < 0 || strings.Count(string(e.in[i]), string(e.in[i][f.Axis])) > 1 {
				return spread(n, ops.Global(n, in))
			}
		}
		return spread(n, ops.Join(n, facts, same, len(n.Outputs[0].Shape())))
	},
	Gradient: gradEinsum,
	Linear:   linearOperands,
	Tol:      ir.Summing,
})

// meets reports whether an axis that carries a dimension meets one of another input that does not, and may have more
// than one element: of a part of the dimension, broadcasting would be another.
func meets(n *ir.Node, e einsum, in []ir.Fact, letter rune) bool {
	for i, letters := range e.in {
		n.Step(1)
		for axis, l := range letters {
			if k, known := n.In(i).Shape()[axis].Known(); l == letter && !(known && k == 1) &&
				(in[i].Constant() || in[i].Axis != axis) {
				return true
			}
		}
	}
	return false
}

// einsum is an equation with its ellipses expanded. Their axes get digits as letters; 0 is the last axis.
type einsum struct {
	in  [][]rune
	out []rune
}

func parseEinsum(eq string, ranks []int) (e einsum, err error) {
	eq = strings.ReplaceAll(eq, " ", "")
	left, right, explicit := strings.Cut(eq, "->")
	terms := strings.Split(left, ",")
	if len(terms) != len(ranks) {
		return e, fmt.Errorf("equation %q has %d terms, the node %d inputs", eq, len(terms), len(ranks))
	}
	count, dots := map[rune]int{}, 0
	for i, t := range terms {
		run := ranks[i] - len(strings.Replace(t, "...", "", 1))
		if run < 0 || run > 9 || run > 0 && !strings.Contains(t, "...") {
			return e, fmt.Errorf("equation %q: term %q does not fit rank %d", eq, t, ranks[i])
		}
		dots = max(dots, run)
		letters, err := einsumLetters(t, run)
		if err != nil {
			return e, fmt.Errorf("equation %q: %w", eq, err)
		}
		for _, l := range letters {
			count[l]++
		}
		e.in = append(e.in, letters)
	}
	if explicit {
		if e.out, err = einsumLetters(right, dots); err != nil {
			return e, fmt.Errorf("equation %q: %w", eq, err)
		}
		seen := map[rune]bool{}
		for _, l := range e.out {
			if count[l] == 0 || seen[l] {
				return e, fmt.Errorf("equation %q: output %q is in no term, or twice in the output", eq, l)
			}
			seen[l] = true
		}
		return e, nil
	}
	e.out, _ = einsumLetters("...", dots)
	for l := 'A'; l <= 'z'; l++ {
		if count[l] == 1 {
			e.out = append(e.out, l)
		}
	}
	return e, nil
}

func einsumLetters(term string, run int) ([]rune, error) {
	var digits strings.Builder
	for i := run - 1; i >= 0; i-- {
		digits.WriteByte(byte('0' + i))
	}
	for _, l := range strings.Replace(term, "...", "", 1) {
		if !(l >= 'a' && l <= 'z' || l >= 'A' && l <= 'Z') {
			return nil, fmt.Errorf("%q in term %q is not a letter", l, term)
		}
	}
	return []rune(strings.Replace(term, "...", digits.String(), 1)), nil
}

func evalEinsum(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	parts, ranks := make([]*tensor.Tensor, len(in)), make([]int, len(in))
	for i := range in {
		t, err := need(in, i, "Inputs")
		if err != nil {
			return nil, err
		}
		parts[i], ranks[i] = t, t.Rank()
		if err := sameElem(parts[0], t); err != nil {
			return nil, err
		}
	}
	e, err := parseEinsum(c.Node.Attrs.Str("equation", ""), ranks)
	if err != nil {
		return nil, err
	}
	size, order := map[rune]int{}, append([]rune{}, e.out...)
	for _, l := range e.out {
		size[l] = 1
	}
	for i, letters := range e.in {
		for j, l := range letters {
			old, seen := size[l]
			if !seen {
				order = append(order, l)
				old = 1
			}
			d := parts[i].Dim(j)
			if old != 1 && d != 1 && old != d {
				return nil, fmt.Errorf("axis %q is %d and %d long", l, old, d)
			}
			if size[l] = old; old == 1 {
				size[l] = d
			}
		}
	}
	shape := make([]int, len(order))
	for i, l := range order {
		shape[i] = size[l]
	}
	out := shape[:len(e.out):len(e.out)]
	n, err := ops.Elems(out)
	if err != nil {
		return nil, err
	}
	if _, err := tensor.Size(shape); err != nil {
		return nil, err
	}
	// Every input is read at every point of the space of all letters, with the letters of the output first.
	inner := product(shape[len(out):])
	if parts[0].DType().IsInt() {
		total, err := einsumSum(c, parts, e, order, shape, n, inner,
			func(t *tensor.Tensor) ([]int64, error) { return ops.Int64s(c, t) })
		if err != nil {
			return nil, err
		}
		return ops.One(fromInts(c, parts[0].DType(), total, out...))
	}
	total, err := einsumSum(c, parts, e, order, shape, n, inner,
		func(t *tensor.Tensor) ([]float64, error) { return ops.Float64s(c, t) })
	if err != nil {
		return nil, err
	}
	return ops.One(ops.Real(c, parts[0].DType(), total, out...))
}

func einsumSum[T int64 | float64](c *ir.EvalCtx, parts []*tensor.Tensor, e einsum, order []rune, shape []int,
	n, inner int, read func(*tensor.Tensor) ([]T, error)) ([]T, error) {
	data, strides := make([][]T, len(parts)), make([][]int, len(parts))
	for i, t := range parts {
		var err error
		if data[i], err = read(t); err != nil {
			return nil, err
		}
		strides[i] = make([]int, len(order))
		for j, st := range ops.Strides(t.Shape()) {
			for k, l := range order {
				if l == e.in[i][j] && t.Dim(j) != 1 {
					strides[i][k] += st
				}
			}
		}
	}
	total, index, at := ops.Make[T](c, n), make([]int, len(order)), make([]int, len(parts))
	for p := range ops.Costly(c, n*inner, 4*len(parts)) {
		x := T(1)
		for i := range data {
			x *= data[i][at[i]]
		}
		total[p/inner] += x
		for k := len(order) - 1; k >= 0; k-- {
			index[k]++
			for i := range at {
				at[i] += strides[i][k]
			}
			if index[k] < shape[k] {
				break
			}
			for i := range at {
				at[i] -= strides[i][k] * shape[k]
			}
			index[k] = 0
		}
	}
	return total, nil
}

// EinsumTerms returns the letters of an equation's terms and of its output, for inputs of the given ranks. The
// letters of an ellipsis are digits; 0 is the last axis.
func EinsumTerms(equation string, ranks []int) (in [][]rune, out []rune, err error) {
	e, err := parseEinsum(equation, ranks)
	return e.in, e.out, err
}

// linearOperands are the sets of an operator that is linear in each of its inputs.
func linearOperands(n *ir.Node) [][]int {
	sets := make([][]int, len(n.Inputs))
	for i := range sets {
		sets[i] = []int{i}
	}
	return sets
}
