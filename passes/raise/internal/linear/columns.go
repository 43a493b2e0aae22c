package linear

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// columns computes any operator that is linear in its inputs that vary: it evaluates the operator for the constant part
// and for the coefficients of each element of the basis. The other inputs of the set only count in the constant part.
func (l *Linearizer) columns(n *ir.Node, forms []*Form, in []tensor.Datum) error {
	var varying []int
	for i, f := range forms {
		if f != nil {
			varying = append(varying, i)
		}
	}
	at := slices.IndexFunc(ops.Linear(n), func(set []int) bool {
		return !slices.ContainsFunc(varying, func(i int) bool { return !slices.Contains(set, i) })
	})
	if at < 0 {
		return ErrNonlinear(n)
	}
	set := ops.Linear(n)[at]
	var basis []int32
	seen := map[int32]bool{}
	for _, i := range varying {
		for _, e := range forms[i].Elems {
			for _, t := range e.Terms {
				if !seen[t.At] {
					seen[t.At] = true
					basis = append(basis, t.At)
				}
			}
		}
	}
	slices.Sort(basis)
	args := slices.Clone(in)
	for _, i := range varying {
		c := make([]float64, len(forms[i].Elems))
		for k, e := range forms[i].Elems {
			c[k] = e.C
		}
		args[i] = tensor.FromSlice(c, forms[i].Shape...)
	}
	out, err := l.evaluated(n, args)
	if err != nil {
		return err
	}
	results := make([]*Form, len(out))
	for i, t := range out {
		if t == nil {
			continue
		}
		x, err := t.Float64s()
		if err != nil {
			return ErrNonlinear(n)
		}
		if err := l.Spend(len(x)); err != nil {
			return err
		}
		results[i] = &Form{Shape: slices.Clone(t.Shape()), Elems: make([]Combination, len(x))}
		for k, c := range x {
			results[i].Elems[k].C = c
		}
	}
	for _, i := range set {
		if t, ok := in[i].(*tensor.Tensor); ok && t != nil && forms[i] == nil {
			args[i] = tensor.New(tensor.Float64, t.Shape()...)
		}
	}
	for _, b := range basis {
		for _, i := range varying {
			c := make([]float64, len(forms[i].Elems))
			if err := l.Spend(len(c)); err != nil {
				return err
			}
			for k, e := range forms[i].Elems {
				if at, ok := slices.BinarySearchFunc(e.Terms, b,
					func(t Term, b int32) int { return int(t.At - b) }); ok {
					c[k] = e.Terms[at].Coef
				}
			}
			args[i] = tensor.FromSlice(c, forms[i].Shape...)
		}
		out, err := l.evaluated(n, args)
		if err != nil {
			return err
		}
		for i, f := range results {
			if f == nil || i >= len(out) || out[i] == nil {
				continue
			}
			x, err := out[i].Float64s()
			if err != nil || len(x) != len(f.Elems) {
				return ErrNonlinear(n)
			}
			if err := l.Spend(len(x)); err != nil {
				return err
			}
			for k, c := range x {
				if c != 0 {
					f.Elems[k].Terms = append(f.Elems[k].Terms, Term{b, c})
				}
			}
		}
	}
	for i, f := range results {
		if f == nil {
			continue
		}
		if err := l.enter(n.Outputs[i], f); err != nil {
			return err
		}
	}
	return nil
}

// evaluated returns the results of a node that are used; all must be tensors of floats.
func (l *Linearizer) evaluated(n *ir.Node, in []tensor.Datum) ([]*tensor.Tensor, error) {
	out, err := l.Ev.Node(n, in)
	if err != nil {
		return nil, err
	}
	list := make([]*tensor.Tensor, len(n.Outputs))
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		t, ok := out[i].(*tensor.Tensor)
		if !ok || !t.DType().IsFloat() {
			return nil, ErrNonlinear(n)
		}
		list[i] = t
	}
	return list, nil
}
