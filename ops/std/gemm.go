package std

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Gemm is the matrix product of linear layers.
var Gemm = ops.Register(&ir.Op{
	Name: "Gemm", Since: 13,
	Doc: "alpha*A'B' + beta*C with A' (M,K) and B' (K,N), transposed by transA and transB, and C broadcast to (M,N).",
	In:  ops.Sig("A:T[_,_]", "B:T[_,_]", "C:T?"), Out: ops.Sig("Y:T[_,_]"), Elems: elems("T", sumTypes),
	Attrs: []ir.AttrSpec{
		floatAttr("alpha", 1, "factor of the product"), floatAttr("beta", 1, "factor of C"),
		intAttr("transA", 0, "whether A is stored as (K,M)"), intAttr("transB", 0, "whether B is stored as (N,K)"),
	},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		a, b := tensorIn(n, 0), tensorIn(n, 1)
		out := unknownShape(2)
		ka, kb := ir.Unknown, ir.Unknown
		if !a.NoRank {
			t := turned(n, "transA")
			out[0], ka = a.Shape[t], a.Shape[1-t]
		}
		if !b.NoRank {
			t := turned(n, "transB")
			kb, out[1] = b.Shape[t], b.Shape[1-t]
		}
		p, okP := ka.Known()
		q, okQ := kb.Known()
		if okP && okQ && p != q {
			return nil, fmt.Errorf("shapes %v and %v: inner dimensions %d and %d differ", a.Shape, b.Shape, p, q)
		}
		if err := fillsOut(n, 2, out); err != nil {
			return nil, err
		}
		return one(typed(a.Elem, out))
	},
	Eval: evalGemm,
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		facts := make([]ir.Fact, len(in))
		ranks := []int{2, 2, 2}
		for i, f := range in {
			facts[i] = f
			if f.Constant() || f.Global || f.Axis < 0 {
				continue
			}
			switch {
			case i == 2:
				ranks[2] = len(n.In(2).Shape())
			case i == 0 && f.Axis == turned(n, "transA"):
				facts[i].Axis = 0
			case i == 1 && f.Axis == 1-turned(n, "transB"):
				facts[i].Axis = 1
			default:
				return spread(n, ops.Global(n, in))
			}
		}
		return spread(n, ops.Join(n, facts, ranks, 2))
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		turn := func(v *ir.Value, by string) *ir.Value {
			if getInt(n, by) != 0 {
				return attr(b, "Transpose", []*ir.Value{v}, ir.A("perm", []int64{1, 0}))
			}
			return v
		}
		times := func(v *ir.Value, by string) *ir.Value {
			if f := getFloat(n, by); f != 1 {
				return op(b, "Mul", v, constLike(b, v, f))
			}
			return v
		}
		whole := func(by string) bool { return getFloat(n, by) == math.Trunc(getFloat(n, by)) }
		elem := n.In(0).Elem()
		wide := elem.IsInt() && !(whole("alpha") && whole("beta")) // the sum is rounded, not the factors
		if wide {
			in = slices.Clone(in)
			for i, v := range in {
				if v != nil {
					in[i] = attr(b, "Cast", []*ir.Value{v}, ir.A("to", int64(tensor.Float64)))
				}
			}
		}
		y := times(op(b, "MatMul", turn(in[0], "transA"), turn(in[1], "transB")), "alpha")
		if n.In(2) != nil {
			y = op(b, "Add", y, times(in[2], "beta"))
		}
		if wide {
			y = attr(b, "Cast", []*ir.Value{y}, ir.A("to", int64(elem)))
		}
		return []*ir.Value{y}
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		s := n.In(0).Shape()
		if s == nil {
			return workOf(n, bind, 0)
		}
		k := s[1-turned(n, "transA")]
		return workOf(n, bind, 2*sizeOf(n.Outputs[0].Shape(), bind)*sizeOf(ir.Shape{k}, bind))
	},
	Linear: ops.LinearIn([]int{0, 2}, []int{1, 2}),
	Tol:    ir.Summing,
})

// turned is 1 if an attribute of Gemm has any value but 0, which means that a matrix is stored transposed, and
// otherwise 0.
func turned(n *ir.Node, attr string) int {
	if getInt(n, attr) != 0 {
		return 1
	}
	return 0
}

func evalGemm(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	a, err := need(in, 0, "A")
	if err != nil {
		return nil, err
	}
	b, err := need(in, 1, "B")
	if err != nil {
		return nil, err
	}
	if a.Rank() != 2 || b.Rank() != 2 {
		return nil, fmt.Errorf("expected matrices, found %s and %s", a, b)
	}
	u, v := ops.F64(c, in, 0), ops.F64(c, in, 1)
	m, k := a.Dim(0), a.Dim(1)
	if turned(c.Node, "transA") != 0 {
		u, m, k = transposed(c, u, m, k), k, m
	}
	kb, p := b.Dim(0), b.Dim(1)
	if turned(c.Node, "transB") != 0 {
		v, kb, p = transposed(c, v, kb, p), p, kb
	}
	if k != kb {
		return nil, fmt.Errorf("%s and %s: inner dimensions %d and %d differ", a, b, k, kb)
	}
	shape := []int{m, p}
	size, err := ops.Elems(shape)
	if err != nil {
		return nil, err
	}
	out := ops.Make[float64](c, size)
	matmul(c, out, u, v, m, k, p)
	if alpha := getFloat(c.Node, "alpha"); alpha != 1 {
		for i := range ops.Each(c, len(out)) {
			out[i] *= alpha
		}
	}
	if t := ops.Tensor(in, 2); t != nil {
		if s, err := ops.Broadcast(t.Shape(), shape); err != nil || ops.SameShape(s, shape) != nil {
			return nil, fmt.Errorf("C %s does not broadcast to %v", t, shape)
		}
		beta := getFloat(c.Node, "beta")
		for i, x := range ops.All(c, ops.BroadcastTo(c, ops.F64(c, in, 2), t.Shape(), shape)) {
			out[i] += beta * x
		}
	}
	return ops.One(ops.Real(c, a.DType(), out, shape...))
}

func transposed(c *ir.EvalCtx, v []float64, rows, cols int) []float64 {
	w := ops.Make[float64](c, len(v))
	for i := range rows {
		c.Step(1)
		for j := range ops.Each(c, cols) {
			w[j*rows+i] = v[i*cols+j]
		}
	}
	return w
}
