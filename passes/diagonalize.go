package passes

import (
	"errors"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/ops/essm/spectral"
	"github.com/essmc/essmc/ops/eval"
)

// Diagonalize replaces systems with a full matrix, or a diagonal plus low-rank one, by diagonal ones (docs/math.md,
// Diagonalization).
var Diagonalize = &Pass{
	Name: "diagonalize",
	Doc: "Full A, or diagonal plus low-rank A → its eigenvalues, with B and C in the basis of its eigenvectors. One " +
		"of each conjugate pair is kept. A matrix with nearly dependent eigenvectors stays as it is.",
	After: []Reason{
		{"fold", "a matrix must be a constant to be decomposed"},
	},
	Run: func(c *Context, g *ir.Graph) (int, error) {
		complete(g)
		if !slices.ContainsFunc(g.Nodes, isContinuous) {
			return 0, Finish(g)
		}
		changes := 0
		b := Edit(g)
		settled := SettledOf(c, g)
		for _, n := range slices.Clone(g.Nodes) {
			if n.Op == essm.DPLR {
				n, err := diagonalizeLowRank(c, b, g, n, settled)
				if err != nil {
					return changes, err
				}
				changes += n
				continue
			}
			if !isStateSpace(n) || n.In(5) == nil {
				continue
			}
			if slices.ContainsFunc([]*ir.Value{n.In(1), n.In(2), n.In(3), n.In(5)}, notConst) {
				c.Note("%v: its matrices %s, so A stays full", n, settled.origin(n.In(1), n.In(2), n.In(3), n.In(5)))
				continue
			}
			a := n.In(5).Const
			// Decompositions, here and by the operator, cannot be interrupted.
			var worst float64
			var head int
			var err error
			if e := Apart(c.Done(), func() { worst, head, err = spectral.Condition(c.Done(), a, c.search) }); e != nil {
				return changes, e
			}
			var over *ir.BudgetError
			if errors.As(err, &over) {
				c.Note("%s: A of size %d stays full: %v", where(n), a.Dim(a.Rank()-1), err)
				continue
			}
			if err != nil {
				c.Warn("%s: A stays full: %v", where(n), err)
				continue
			}
			if worst > spectral.MaxCondition {
				c.Warn("%s: A stays full: the eigenvectors of head %d have condition number %.2g, more than %g",
					where(n), head, worst, spectral.MaxCondition)
				continue
			}
			b.Scope(n.Scope)
			y, state, err := diagonal(c, b, n)
			if errors.As(err, &over) {
				c.Note("%s: A left as it is: %v", where(n), err)
				continue
			}
			if err != nil {
				return changes, err
			}
			Replace(g, n.Outputs[0], y)
			if n.Out(1) != nil {
				Replace(g, n.Outputs[1], state)
			}
			c.Note("%s: A of size %v diagonalized, condition number %.3g", where(n), n.In(5).Shape()[3], worst)
			changes++
		}
		return changes, Finish(g)
	},
}

func isStateSpace(n *ir.Node) bool { return n.Op == essm.StateSpace }

func isContinuous(n *ir.Node) bool { return n.Op == essm.StateSpace || n.Op == essm.DPLR }

// diagonal builds the diagonal system of a StateSpace node with constant matrices. It consists of the operators that
// discretize would make, since B and C become complex.
func diagonal(c *Context, b *ir.Builder, n *ir.Node) (y, state *ir.Value, err error) {
	a := n.Attrs
	sys := b.Ops("essm", "Diagonalize", 10, []*ir.Value{n.In(5), n.In(2), n.In(3)},
		ir.A("max_condition", spectral.MaxCondition))
	if err := b.Err(); err != nil {
		return nil, nil, err
	}
	var out []*tensor.Tensor
	if e := Apart(c.Done(), func() { out, err = c.evalConst(sys[0].Def) }); e != nil {
		return nil, nil, e
	}
	if err != nil {
		return nil, nil, err
	}
	k := make([]*ir.Value, len(out))
	for i, t := range out {
		k[i] = b.Const(strings.TrimPrefix(n.Scope+"."+sys[i].Def.Op.Out[i].Name, "."), t)
	}
	re, im, bRe, bIm, cRe, cIm, toRe, toIm, fromRe, fromIm := k[0], k[1], k[2], k[3], k[4], k[5], k[6], k[7], k[8], k[9]
	u, states := n.In(0), k[0].Const.Len()
	window := a.Int("max_kernel_length", 0)
	disc := b.Ops("essm", "Discretize", 4, []*ir.Value{re, im, n.In(1)}, ir.A("method", a.Str("method", "zoh")),
		ir.A("rate", a.Float("rate", 1)))
	v := b.Op("essm", "HeadLinear", []*ir.Value{u, bRe})
	isComplex := !filled(0)(bIm) || !filled(0)(cIm)
	var vIm *ir.Value
	if isComplex {
		vIm = b.Op("essm", "HeadLinear", []*ir.Value{u, bIm})
	}
	var z0 *ir.Value
	per := 2 // numbers per state in one step of history
	if !isComplex {
		per = 1
	}
	if n.In(7) != nil {
		z0 = stateIn(b, n.In(7), toRe, toIm, window, isComplex)
	}
	outs := 1
	if n.Out(1) != nil {
		outs = 3
	} else if isComplex {
		outs = 2
	}
	dir := essm.Forward
	if a.Bool("bidirectional", false) {
		dir = essm.Bidirectional
	}
	x := b.Ops("essm", "Scan", outs, []*ir.Value{v, disc[0], disc[1], disc[2], disc[3], vIm, z0},
		ir.A("direction", dir), ir.A("window", window))
	y = b.Op("essm", "HeadLinear", []*ir.Value{x[0], cRe})
	if isComplex {
		y = b.Op("", "Sub", []*ir.Value{y, b.Op("essm", "HeadLinear", []*ir.Value{x[1], cIm})})
	}
	if d := n.In(6); d != nil {
		op := "HeadScale"
		if len(d.Shape()) == 4 {
			op = "HeadLinear"
		}
		y = b.Op("", "Add", []*ir.Value{y, b.Op("essm", op, []*ir.Value{u, d})})
	}
	if outs == 3 {
		state = stateOut(b, x[2], fromRe, fromIm, states, per, window)
	}
	return y, state, b.Err()
}

// stateIn converts a state of the full system (B, (1+window)·N) to one of the diagonal system: z = T⁻¹x, and the same
// for the inputs in the delay line.
func stateIn(b *ir.Builder, s, toRe, toIm *ir.Value, window int64, isComplex bool) *ir.Value {
	rows := b.Op("", "Reshape", []*ir.Value{s, b.Ints(0, 1+window, -1)})
	re := b.Op("essm", "HeadLinear", []*ir.Value{rows, toRe})
	im := b.Op("essm", "HeadLinear", []*ir.Value{rows, toIm})
	both := b.Op("", "Concat", []*ir.Value{re, im}, ir.A("axis", -1))
	if isComplex || window == 0 {
		return b.Op("", "Reshape", []*ir.Value{both, b.Ints(0, -1)})
	}
	// A real system keeps both parts of z, but only the real part of its inputs.
	z := b.Op("", "Slice", []*ir.Value{both, b.Ints(0), b.Ints(1), b.Ints(1)})
	past := b.Op("", "Slice", []*ir.Value{re, b.Ints(1), b.Ints(1 + window), b.Ints(1)})
	return b.Op("", "Concat", []*ir.Value{b.Op("", "Reshape", []*ir.Value{z, b.Ints(0, -1)}),
		b.Op("", "Reshape", []*ir.Value{past, b.Ints(0, -1)})}, ir.A("axis", 1))
}

// stateOut converts a state of the diagonal system back: x = from_re·Re z + from_im·Im z.
func stateOut(b *ir.Builder, s, fromRe, fromIm *ir.Value, states, per int, window int64) *ir.Value {
	n := int64(states)
	part := func(lo, hi, rows int64) *ir.Value {
		p := b.Op("", "Slice", []*ir.Value{s, b.Ints(lo), b.Ints(hi), b.Ints(1)})
		return b.Op("", "Reshape", []*ir.Value{p, b.Ints(0, rows, -1)})
	}
	back := func(x *ir.Value, width int64, isComplex bool) *ir.Value {
		half := func(lo, hi int64) *ir.Value {
			return b.Op("", "Slice", []*ir.Value{x, b.Ints(lo), b.Ints(hi), b.Ints(2)})
		}
		y := b.Op("essm", "HeadLinear", []*ir.Value{half(0, n), fromRe})
		if isComplex {
			y = b.Op("", "Add", []*ir.Value{y, b.Op("essm", "HeadLinear", []*ir.Value{half(n, 2*n), fromIm})})
		}
		return b.Op("", "Reshape", []*ir.Value{y, b.Ints(0, width)})
	}
	all := int64( // states of the full system
		fromRe.Const.Dim(0) * fromRe.Const.Dim(1) * fromRe.Const.Dim(2))
	z := back(part(0, 2*n, 1), all, true)
	if window == 0 {
		return z
	}
	past := part(2*n, 2*n+window*int64(per)*n, window)
	return b.Op("", "Concat", []*ir.Value{z, back(past, window*all, per == 2)}, ir.A("axis", 1))
}

// evalConst computes a node of constants. All results are tensors.
func (c *Context) evalConst(n *ir.Node) ([]*tensor.Tensor, error) {
	in := make([]tensor.Datum, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil {
			in[i] = v.Const
		}
	}
	res, err := eval.Options{Bounded: true}.Node(c.Done(), n, in, c.search.Part(baseBytes, -1))
	if err != nil {
		return nil, err
	}
	out := make([]*tensor.Tensor, len(res))
	for i, d := range res {
		out[i], _ = d.(*tensor.Tensor)
	}
	return out, nil
}
