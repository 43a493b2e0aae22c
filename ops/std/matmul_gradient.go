package std

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// gradMatMul is the Gradient of MatMul.
func gradMatMul(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	a, w, g := n.In(0), n.In(1), dOut[0]
	ra, rw := len(a.Shape()), len(w.Shape())
	if ra == 0 || rw == 0 {
		b.Fail(&ops.NoGradientError{Why: "the rank of an input is not known"})
		return nil
	}
	x, y := a, w // as matrices
	if ra == 1 {
		x = op(b, "Unsqueeze", a, b.Ints(0))
	}
	if rw == 1 {
		y = op(b, "Unsqueeze", w, b.Ints(1))
		g = op(b, "Unsqueeze", g, b.Ints(-1))
	}
	if ra == 1 {
		g = op(b, "Unsqueeze", g, b.Ints(-2))
	}
	dx := op(b, "MatMul", g, swapped(b, y))
	var dy *ir.Value
	if len(y.Shape()) == 2 && len(x.Shape()) > 2 { // a matrix for all samples: one product
		rows := func(v *ir.Value) *ir.Value { return attr(b, "Flatten", []*ir.Value{v}, ir.A("axis", -1)) }
		dy = op(b, "MatMul", swapped(b, rows(x)), rows(g))
	} else {
		dy = op(b, "MatMul", swapped(b, x), g)
	}
	if b.Err() != nil {
		return nil
	}
	return []*ir.Value{ops.ReshapeLike(b, ops.SumLike(b, dx, x), a), ops.ReshapeLike(b, ops.SumLike(b, dy, y), w)}
}

// swapped swaps the last two axes.
func swapped(b *ir.Builder, v *ir.Value) *ir.Value {
	if b.Err() != nil {
		return nil
	}
	perm := make([]int64, len(v.Shape()))
	for i := range perm {
		perm[i] = int64(i)
	}
	k := len(perm)
	perm[k-1], perm[k-2] = perm[k-2], perm[k-1]
	return attr(b, "Transpose", []*ir.Value{v}, ir.A("perm", perm))
}

// gradEinsum is the Gradient of Einsum: for each input, the sum over the letters that it lacks of the gradient times
// the other inputs.
func gradEinsum(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	ranks := make([]int, len(n.Inputs))
	for i, v := range n.Inputs {
		ranks[i] = len(v.Shape())
	}
	e, err := parseEinsum(n.Attrs.Str("equation", ""), ranks)
	if err != nil {
		b.Fail(err)
		return nil
	}
	name := plainLetters(e)
	write := func(letters []rune) (s string) {
		for _, l := range letters {
			s += string(name[l])
		}
		return s
	}
	grads := make([]*ir.Value, len(n.Inputs))
	for i, own := range e.in {
		x := n.In(i)
		once := slices.Clone(own) // each letter once: a diagonal, if one is repeated
		for k := 0; k < len(once); k++ {
			if slices.Contains(once[:k], once[k]) {
				once = slices.Delete(once, k, k+1)
				k--
			}
		}
		equation, in := write(e.out), []*ir.Value{dOut[0]}
		there := slices.Clone(e.out)
		for j, letters := range e.in {
			if j != i {
				equation, in, there = equation+","+write(letters), append(in, n.In(j)), append(there, letters...)
			}
		}
		var left []rune // the letters that the other inputs or the result have; over others, x is summed
		var missing []int64
		for k, l := range once {
			if slices.Contains(there, l) {
				left = append(left, l)
			} else {
				missing = append(missing, int64(k))
			}
		}
		g := attr(b, "Einsum", in, ir.A("equation", equation+"->"+write(left)))
		if len(missing) > 0 {
			g = op(b, "Unsqueeze", g, b.Ints(missing...))
		}
		diagonal := attr(b, "Einsum", []*ir.Value{x}, ir.A("equation", write(own)+"->"+write(once)))
		if len(once) == len(own) {
			diagonal = x
		}
		if b.Err() != nil {
			return nil
		}
		// Axes of size 1 broadcast to those of other inputs; missing ones repeat.
		if len(missing) > 0 {
			g = op(b, "Add", g, ops.FilledLike(b, 0, diagonal))
		}
		g = ops.SumLike(b, g, diagonal)
		if diagonal != x {
			g = ops.GradientMoved(0)(b, diagonal.Def, []*ir.Value{g})[0]
		}
		grads[i] = g
	}
	return grads
}

// plainLetters gives each axis of an equation, those of ellipses too, a letter of ASCII.
func plainLetters(e einsum) map[rune]rune {
	name := map[rune]rune{}
	next := 0
	for _, list := range append(slices.Clone(e.in), e.out) {
		for _, l := range list {
			if _, ok := name[l]; !ok {
				name[l] = rune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[next%52])
				next++
			}
		}
	}
	return name
}
