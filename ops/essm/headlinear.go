package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// HeadLinear multiplies each head's features by that head's matrix.
var HeadLinear = ops.Register(&ir.Op{
	Domain: "essm", Name: "HeadLinear",
	Doc: "Block-diagonal product: y[…,c,s,:] = W[c,s] x[…,c,s,:]. The input has C·S·q features, or S·q shared by all " +
		"channels.",
	In: ops.Sig("x:T[...,G]", "w:W[C,S,p,q]"), Out: ops.Sig("y:T[...,C*S*p]"), Elems: floatElems,
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		if _, err := shared(b.At("G"), b.At("C"), b.At("S"), b.At("q")); err != nil {
			return nil, err
		}
		return b.Outputs(n.Op)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, wt := ops.Tensor(in, 0), ops.Tensor(in, 1)
		ch, s, p, q, err := rank4(wt, "w")
		if err != nil {
			return nil, err
		}
		g := x.Dim(-1)
		share, err := shared(ir.Const(int64(g)), ir.Const(int64(ch)), ir.Const(int64(s)), ir.Const(int64(q)))
		if err != nil {
			return nil, err
		}
		u, w := ops.F64(c, in, 0), ops.F64(c, in, 1)
		rows := x.Len() / max(g, 1)
		y := ops.Make[float64](c, rows*ch*s*p)
		for r := range rows {
			c.Step(1)
			for b := range ch * s {
				c.Step(1)
				src := u[r*g:]
				if share {
					src = src[b%s*q:]
				} else {
					src = src[b*q:]
				}
				for i := range p {
					c.Step(1)
					sum := 0.0
					for j, a := range ops.All(c, w[(b*p+i)*q:(b*p+i+1)*q]) {
						sum += a * src[j]
					}
					y[r*ch*s*p+b*p+i] = sum
				}
			}
		}
		return ops.One(ops.Real(c, x.DType(), y, append(append([]int{}, x.Shape()[:x.Rank()-1]...), ch*s*p)...))
	},
	Along:    ops.AlongRows,
	Gradient: gradHeadLinear,
	Linear:   ops.LinearEach,
	Tol:      ir.Summing,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		rows := ops.Count(n.Outputs[0], bind) / max(1, ops.DimAt(n.Outputs[0], -1, bind))
		w := ops.Count(n.In(1), bind)
		return ir.Work{Flops: 2 * rows * w, Bytes: ops.BytesOf(n, bind)}
	},
})

// shared reports whether g features are one channel's, to be shared by all c (true), or all channels' (false).
func shared(g, c, s, q ir.Dim) (bool, error) {
	one, all := s.Mul(q), c.Mul(s).Mul(q)
	switch {
	case g.Equal(all):
		return false, nil
	case g.Equal(one):
		return true, nil
	}
	if k, ok := g.Known(); ok {
		return false, fmt.Errorf(
			"input has %d features, expected %v (heads × columns) or %v (channels × heads × columns)", k, one, all)
	}
	return false, nil
}

// HeadScale multiplies the features of each channel by a vector.
var HeadScale = ops.Register(&ir.Op{
	Domain: "essm", Name: "HeadScale",
	Doc: "Diagonal product: y[…,c,s,i] = d[c,s,i]·x[…,s,i]; the S·m features of the input are shared by all channels.",
	In:  ops.Sig("x:T[...,S*m]", "d:W[C,S,m]"), Out: ops.Sig("y:T[...,C*S*m]"), Elems: floatElems,
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		x, d := n.In(0).Shape(), n.In(1).Shape()
		if len(x) > 0 && len(d) == 3 {
			g, okg := x[len(x)-1].Known()
			w, okw := d[1].Mul(d[2]).Known()
			if okg && okw && g != w {
				return nil, fmt.Errorf("input has %d features, expected %d (heads × outputs)", g, w)
			}
		}
		return b.Outputs(n.Op)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, d, scale := ops.Tensor(in, 0), ops.F64(c, in, 1), ops.Tensor(in, 1)
		g := x.Dim(-1)
		if w := scale.Dim(1) * scale.Dim(2); g == 0 || g != w {
			return nil, fmt.Errorf("input has %d features, expected %d (heads × outputs)", g, w)
		}
		u := ops.F64(c, in, 0)
		rows := len(u) / g
		y := ops.Make[float64](c, rows*len(d))
		for r := range rows {
			c.Step(1)
			for i, s := range ops.All(c, d) {
				y[r*len(d)+i] = s * u[r*g+i%g]
			}
		}
		return ops.One(ops.Real(c, x.DType(), y, append(append([]int{}, x.Shape()[:x.Rank()-1]...), len(d))...))
	},
	Along:    ops.AlongRows,
	Gradient: gradHeadScale,
	Linear:   ops.LinearEach,
	Tol:      ir.Rounding,
})
