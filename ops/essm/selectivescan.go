package essm

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// SelectiveScan runs diagonal systems whose step sizes, inputs and outputs vary with time.
var SelectiveScan = ops.Register(&ir.Op{
	Domain: "essm", Name: "SelectiveScan",
	Doc: `Real diagonal systems whose step size, input and output vary with time (Mamba). Heads have features of their own in
turn, E/H each, and N states for each feature; groups of heads share b and c. For feature e of head h in group g:
s[t] = exp(Δ[h] A[h]) s[t-1] + Δ[h] x[e] b[g], y[e] = c[g]·s[t] + D[h] x[e], where Δ, x, b and c are those of step t. A has
a number for each state, or one for all of a head. The state is s after the last step, N numbers of each feature in turn, in
the type of x or in float64.`,
	In:    ops.Sig("x:T[B,L,E]", "delta:T[B,L,H]", "A:W[H,_]", "b:T[B,L,M]", "c:T[B,L,M]", "D:V[H]?", "state:Z[B,Z]?"),
	Out:   ops.Sig("y:T[B,L,E]", "state_out:Z[B,Z]?"),
	Elems: map[string][]tensor.DType{"T": ops.Floats, "W": ops.Floats, "V": ops.Floats, "Z": ops.Floats},
	Attrs: []ir.AttrSpec{{Name: "groups", Kind: ir.AttrInt, Default: int64(1), Doc: "groups of heads"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		groups := n.Attrs.Int("groups", 1)
		if groups < 1 {
			return nil, fmt.Errorf("groups: expected at least 1, found %d", groups)
		}
		sizes := selectiveSizes{groups: groups}
		var known [4]bool
		sizes.features, known[0] = b.At("E").Known()
		sizes.heads, known[1] = b.At("H").Known()
		sizes.shared, known[2] = b.At("M").Known()
		if s := n.In(2).Shape(); len(s) == 2 {
			sizes.columns, known[3] = s[1].Known()
		}
		b.Dim["Z"] = ir.Unknown
		if known == [4]bool{true, true, true, true} {
			if err := sizes.check(); err != nil {
				return nil, err
			}
			b.Dim["Z"] = ir.Const(sizes.features * sizes.states())
		}
		if err := checkState(n, Forward, 0, b.At("Z")); err != nil {
			return nil, err
		}
		return systemTypes(n, b)
	},
	Eval: evalSelectiveScan,
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		if !in[2].Constant() || len(in) > 5 && !in[5].Constant() {
			return alongScan(n, []ir.Fact{ops.Global(n, in)}, Forward, 0, 0, len(n.Outputs))
		}
		f := ops.Join(n, []ir.Fact{in[0], in[1], in[3], in[4]}, []int{3, 3, 3, 3}, 3)
		z := int64(0)
		if e, ok := n.In(0).Shape()[2].Known(); ok {
			if m, ok := n.In(3).Shape()[2].Known(); ok {
				z = e * m / max(1, n.Attrs.Int("groups", 1))
			}
		}
		return alongScan(n, []ir.Fact{f}, Forward, 0, z, len(n.Outputs))
	},
	GradientBody: bodySelectiveScan,
	Linear:       ops.LinearIn([]int{0, 6}, []int{3, 5, 6}, []int{4, 5}),
	Tol:          ir.Long,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		states := ops.DimAt(n.In(3), 2, bind) / max(1, n.Attrs.Int("groups", 1))
		per := int64(6)
		if ops.DimAt(n.In(2), 1, bind) > 1 {
			per = 20 // an exponential for each state
		}
		return ir.Work{Flops: per * states * ops.Count(n.In(0), bind), Bytes: ops.BytesOf(n, bind)}
	},
})

// selectiveSizes are the sizes of a SelectiveScan: of x, Δ, A (its columns) and b.
type selectiveSizes struct{ features, heads, columns, shared, groups int64 }

// states returns the number of states of each feature.
func (s selectiveSizes) states() int64 { return s.shared / s.groups }

func (s selectiveSizes) check() error {
	switch {
	case s.heads < 1 || s.features%s.heads != 0:
		return fmt.Errorf("x has %d features, delta %d heads: expected a positive divisor", s.features, s.heads)
	case s.heads%s.groups != 0 || s.shared%s.groups != 0:
		return fmt.Errorf("groups: expected a divisor of %d heads and of %d numbers in b, found %d", s.heads, s.shared,
			s.groups)
	case s.columns != 1 && s.columns != s.states():
		return fmt.Errorf("A: expected 1 column or %d, one for each state, found %d", s.states(), s.columns)
	}
	return nil
}

func evalSelectiveScan(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	u, delta, a, b := ops.Tensor(in, 0), ops.Tensor(in, 1), ops.Tensor(in, 2), ops.Tensor(in, 3)
	sizes := selectiveSizes{int64(u.Dim(2)), int64(delta.Dim(2)), int64(a.Dim(1)), int64(b.Dim(2)),
		c.Node.Attrs.Int("groups", 1)}
	if sizes.groups < 1 {
		return nil, fmt.Errorf("groups: expected at least 1, found %d", sizes.groups)
	}
	if err := sizes.check(); err != nil {
		return nil, err
	}
	batch, length, features, heads, n := u.Dim(0), u.Dim(1), u.Dim(2), delta.Dim(2), int(sizes.states())
	columns, shared := a.Dim(1), b.Dim(2)
	if _, err := ops.Elems([]int{batch, features, n}); err != nil {
		return nil, err
	}
	x, step, rate := ops.F64(c, in, 0), ops.F64(c, in, 1), ops.F64(c, in, 2)
	give, take, direct := ops.F64(c, in, 3), ops.F64(c, in, 4), ops.F64(c, in, 5)
	state := ops.Make[float64](c, batch*features*n)
	if st := ops.Tensor(in, 6); st != nil {
		if st.Dim(1) != features*n {
			return nil, fmt.Errorf("state: expected %d numbers per sample, found %d", features*n, st.Dim(1))
		}
		ops.Put(c, state, ops.F64(c, in, 6))
	}
	y := ops.Make[float64](c, len(x))
	per, together := features/heads, heads/int(sizes.groups)
	for r := range batch * length {
		for e := range features {
			h := e / per
			g := h / together * n
			s := state[(r/length*features+e)*n:][:n]
			v, sum := step[r*heads+h]*x[r*features+e], 0.0
			for j := range ops.Each(c, n) {
				decay := math.Exp(step[r*heads+h] * rate[h*columns+j%columns])
				s[j] = decay*s[j] + v*give[r*shared+g+j]
				sum += take[r*shared+g+j] * s[j]
			}
			if direct != nil {
				sum += direct[h] * x[r*features+e]
			}
			y[r*features+e] = sum
		}
		c.Step(1)
	}
	t, err := ops.Real(c, u.DType(), y, u.Shape()...)
	if err != nil || c.Node.Out(1) == nil {
		return []tensor.Datum{t, nil}, err
	}
	st, err := ops.Real(c, stateType(ops.Tensor(in, 6), u), state, batch, features*n)
	return []tensor.Datum{t, st}, err
}
