package opstest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Linear checks the sets of inputs in which operators state that they are linear: f(ax+by) = af(x) + bf(y), in float64,
// for random x and y. It also looks for sets in which an operator is linear on a sample, and which it does not state;
// those of operators in silent have a reason there. It fails if fewer than least sets were checked.
func (u Suite) Linear(t *testing.T, least int, silent map[string]string) {
	r := rand.New(rand.NewPCG(21, 22))
	checked, quiet := 0, map[string]bool{}
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		n := Plain(t, op, s)
		if op.Random || len(n.Subgraphs()) > 0 {
			return
		}
		l := linearity{r: r, n: n, in: widened(s.In)}
		claims := ops.Linear(n)
		for _, set := range claims {
			if !l.real(set) {
				continue
			}
			checked++
			if varies, err := l.check(set); err != nil {
				t.Errorf("linear in %v: %v", set, err)
			} else if !varies && !l.zero() {
				t.Errorf("linear in %v: no output depends on them", set)
			}
		}
		for set := range l.candidates() {
			if slices.ContainsFunc(claims, func(c []int) bool { return covers(c, set) }) {
				continue
			}
			if varies, err := l.check(set); err != nil || !varies {
				continue
			}
			if silent[op.FullName()] == "" {
				t.Errorf("linear in %v, but only %v is stated", set, claims)
			}
			quiet[op.FullName()] = true
		}
	})
	for name := range silent {
		if !quiet[name] {
			t.Errorf("%s states all sets in which it is linear; it need not be listed", name)
		}
	}
	if checked < least {
		t.Errorf("only %d sets were checked, expected at least %d", checked, least)
	}
}

// linearity tries sets of a node's inputs.
type linearity struct {
	r  *rand.Rand
	n  *ir.Node
	in []tensor.Datum
}

// maxTried is the number of inputs up to which all their subsets are tried.
const maxTried = 6

// matters reports whether other numbers in input i change a result.
func (l *linearity) matters(i int) bool {
	in := slices.Clone(l.in)
	in[i] = l.drawn(in[i])
	before, err := Eval(l.n, l.in, true)
	if err != nil {
		return true
	}
	after, err := Eval(l.n, in, true)
	for k := range before {
		if err != nil || Near(after[k], before[k], 0, 0) != nil {
			return true
		}
	}
	return false
}

// candidates yields sets of inputs with real numbers that matter, the largest first.
func (l *linearity) candidates() func(yield func(set []int) bool) {
	var all []int
	for i := range l.in {
		if l.real([]int{i}) && l.matters(i) {
			all = append(all, i)
		}
	}
	return func(yield func(set []int) bool) {
		if len(all) > maxTried {
			yield(all)
			return
		}
		for size := len(all); size > 0; size-- {
			for bits := range 1 << len(all) {
				var set []int
				for k, i := range all {
					if bits>>k&1 != 0 {
						set = append(set, i)
					}
				}
				if len(set) == size && !yield(set) {
					return
				}
			}
		}
	}
}

func covers(set, part []int) bool {
	return !slices.ContainsFunc(part, func(i int) bool { return !slices.Contains(set, i) })
}

// real reports whether all inputs of a set are given in float64.
func (l *linearity) real(set []int) bool {
	return !slices.ContainsFunc(set, func(i int) bool { return i >= len(l.in) || !isReal(l.in[i]) })
}

func isReal(d tensor.Datum) bool {
	switch d := d.(type) {
	case *tensor.Tensor:
		return d != nil && d.DType() == tensor.Float64
	case *tensor.Sequence:
		return len(d.Items) > 0 && !slices.ContainsFunc(d.Items, func(x tensor.Datum) bool { return !isReal(x) })
	case *tensor.Optional:
		return isReal(d.Value)
	}
	return false
}

// zero reports whether all results of the sample are zeros, or have no elements.
func (l *linearity) zero() bool {
	out, err := Eval(l.n, l.in, true)
	return err == nil && !slices.ContainsFunc(out, func(d tensor.Datum) bool { return isReal(d) && largest(d) > 0 })
}

// draws is the number of pairs x and y that are tried.
const draws = 4

// check compares f(ax+by) with af(x) + bf(y), for inputs of a set. Outputs that do not depend on them are equal for all
// x and y. varies reports whether there are others.
func (l *linearity) check(set []int) (varies bool, err error) {
	for range draws {
		some, err := l.pair(set)
		if varies = varies || some; err != nil {
			return varies, err
		}
	}
	return varies, nil
}

// pair is check for one x and y.
func (l *linearity) pair(set []int) (varies bool, err error) {
	const a, b = 1.5, -0.625
	in := [3][]tensor.Datum{slices.Clone(l.in), slices.Clone(l.in), slices.Clone(l.in)}
	for _, i := range set {
		x, y := l.drawn(l.in[i]), l.drawn(l.in[i])
		in[0][i], in[1][i], in[2][i] = x, y, joined(a, x, b, y)
	}
	var out [3][]tensor.Datum
	for k := range out {
		if out[k], err = Eval(l.n, in[k], true); err != nil {
			return false, err
		}
	}
	for i := range l.n.Outputs {
		x, y, z := out[0][i], out[1][i], out[2][i]
		if x == nil {
			continue
		}
		if Near(x, y, 0, 0) == nil && Near(x, z, 0, 0) == nil {
			continue
		}
		if !isReal(x) || Near(z, joined(a, x, b, y), 0, 1e-10*(1+largest(x)+largest(y))) != nil {
			return true, fmt.Errorf("output %d is not", i)
		}
		varies = true
	}
	return varies, nil
}

// drawn makes a datum of the same shape with random numbers.
func (l *linearity) drawn(d tensor.Datum) tensor.Datum {
	return mapped(d, func(float64) float64 { return l.r.NormFloat64() })
}

// mapped applies f to each number, in order.
func mapped(d tensor.Datum, f func(float64) float64) tensor.Datum {
	switch d := d.(type) {
	case *tensor.Tensor:
		x := slices.Clone(tensor.Data[float64](d))
		for i := range x {
			x[i] = f(x[i])
		}
		return tensor.FromSlice(x, d.Shape()...)
	case *tensor.Sequence:
		s := &tensor.Sequence{}
		for _, x := range d.Items {
			s.Items = append(s.Items, mapped(x, f))
		}
		return s
	case *tensor.Optional:
		return &tensor.Optional{Value: mapped(d.Value, f)}
	}
	return d
}

// joined returns ax + by, NaN where y has fewer numbers.
func joined(a float64, x tensor.Datum, b float64, y tensor.Datum) tensor.Datum {
	var other []float64
	mapped(y, func(v float64) float64 { other = append(other, v); return v })
	i := -1
	return mapped(x, func(v float64) float64 {
		if i++; i >= len(other) {
			return math.NaN()
		}
		return a*v + b*other[i]
	})
}

// largest returns the greatest absolute value.
func largest(d tensor.Datum) float64 {
	most := 0.0
	mapped(d, func(v float64) float64 { most = max(most, math.Abs(v)); return v })
	return most
}
