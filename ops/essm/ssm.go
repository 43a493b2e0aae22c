package essm

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// SSM is a discrete diagonal system as one operator. The fuse pass makes it.
var SSM = ops.Register(&ir.Op{
	Domain: "essm", Name: "SSM",
	Doc: `A discrete diagonal system: v = B u, the states x of Scan, y = Re(C x) + D u, per channel and head. B and C may be
complex. C includes γ. D is diagonal (C,S,m), full (C,S,m,h) or absent. The state is that of Scan.`,
	In: ops.Sig("u:T[B,L,H]", "a_re:float64[C,S,n]", "a_im:float64[C,S,n]", "b_re:float64[C,S,n]",
		"b_im:float64[C,S,n]",
		"B_re:W[C,S,n,h]", "C_re:W[C,S,m,n]", "B_im:W[C,S,n,h]?", "C_im:W[C,S,m,n]?", "D:V?", "state:Z[B,Z]?"),
	Out:   ops.Sig("y:T[B,L,C*S*m]", "state_out:Z[B,Z]?"),
	Elems: map[string][]tensor.DType{"T": ops.Floats, "W": ops.Floats, "V": ops.Floats, "Z": ops.Floats},
	Attrs: scanAttrs,
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		if err := checkSystem(n, b, n.In(9)); err != nil {
			return nil, err
		}
		b.Dim["Z"] = ssmState(n, b)
		if err := checkState(n, n.Attrs.Str("direction", Forward), n.Attrs.Int("window", 0), b.At("Z")); err != nil {
			return nil, err
		}
		return systemTypes(n, b)
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		arg := func(i int) *ir.Value {
			if i < len(in) {
				return in[i]
			}
			return nil
		}
		u, bIm, cIm := in[0], arg(7), arg(8)
		var vIm *ir.Value
		v := b.Op("essm", "HeadLinear", []*ir.Value{u, in[5]})
		if bIm != nil {
			vIm = b.Op("essm", "HeadLinear", []*ir.Value{u, bIm})
		}
		outs := 1
		if n.Out(1) != nil {
			outs = 3
		} else if cIm != nil {
			outs = 2
		}
		o := b.Ops("essm", "Scan", outs, []*ir.Value{v, in[1], in[2], in[3], in[4], vIm, arg(10)}, n.Attrs...)
		y := b.Op("essm", "HeadLinear", []*ir.Value{o[0], in[6]})
		if cIm != nil {
			y = b.Op("", "Sub", []*ir.Value{y, b.Op("essm", "HeadLinear", []*ir.Value{o[1], cIm})})
		}
		y = addDirect(b, y, u, arg(9))
		if outs == 3 {
			return []*ir.Value{y, o[2]}
		}
		return []*ir.Value{y, nil}
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		z := int64(0)
		if b, err := ops.Bind(n); err == nil {
			z, _ = ssmState(n, b).Known()
		}
		return alongScan(n, in, n.Attrs.Str("direction", Forward), n.Attrs.Int("window", 0), z, len(n.Outputs))
	},
	Linear: linearSystem([]int{3, 4, 9}, 10, []int{0, 10}, []int{5, 7, 9, 10}, []int{6, 8, 9}),
	Tol:    ir.Long,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		u := n.In(0)
		rows := ops.DimAt(u, 0, bind) * ops.DimAt(u, 1, bind)
		var weights int64
		for _, i := range []int{5, 6, 7, 8, 9} {
			weights += ops.Count(n.In(i), bind)
		}
		k := int64(10)
		if n.Attrs.Str("direction", Forward) == Bidirectional {
			k = 20
		}
		return ir.Work{Flops: rows * (2*weights + k*ops.Count(n.In(1), bind)), Bytes: ops.BytesOf(n, bind)}
	},
})

func ssmState(n *ir.Node, b *ops.Bindings) ir.Dim {
	per := int64(1)
	if n.In(7) != nil {
		per = 2
	}
	return b.At("C").Mul(b.At("S")).Mul(b.At("n")).Mul(ir.Const(2 + per*n.Attrs.Int("window", 0)))
}

// DenseSSM is a discrete system with full matrices as one operator.
var DenseSSM = ops.Register(&ir.Op{
	Domain: "essm", Name: "DenseSSM",
	Doc: `A discrete system with full Ā: v = B u, the states x of DenseScan, y = C x + D u, per channel and head. D is
diagonal (C,S,m), full (C,S,m,h) or absent. The state is that of DenseScan.`,
	In: ops.Sig("u:T[B,L,H]", "abar:float64[C,S,n,n]", "gamma:float64[C,S,n,n]", "B:W[C,S,n,h]", "C:W[C,S,m,n]",
		"D:V?", "state:Z[B,Z]?"),
	Out:   ops.Sig("y:T[B,L,C*S*m]", "state_out:Z[B,Z]?"),
	Elems: map[string][]tensor.DType{"T": ops.Floats, "W": ops.Floats, "V": ops.Floats, "Z": ops.Floats},
	Attrs: scanAttrs,
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		if err := checkSystem(n, b, n.In(5)); err != nil {
			return nil, err
		}
		b.Dim["Z"] = b.At("C").Mul(b.At("S")).Mul(b.At("n")).Mul(ir.Const(1 + n.Attrs.Int("window", 0)))
		if err := checkState(n, n.Attrs.Str("direction", Forward), n.Attrs.Int("window", 0), b.At("Z")); err != nil {
			return nil, err
		}
		return systemTypes(n, b)
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		var d, state *ir.Value
		if len(in) > 5 {
			d = in[5]
		}
		if len(in) > 6 {
			state = in[6]
		}
		outs := 1
		if n.Out(1) != nil {
			outs = 2
		}
		v := b.Op("essm", "HeadLinear", []*ir.Value{in[0], in[3]})
		o := b.Ops("essm", "DenseScan", outs, []*ir.Value{v, in[1], in[2], state}, n.Attrs...)
		y := addDirect(b, b.Op("essm", "HeadLinear", []*ir.Value{o[0], in[4]}), in[0], d)
		if outs == 2 {
			return []*ir.Value{y, o[1]}
		}
		return []*ir.Value{y, nil}
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		z := int64(0)
		if s := n.In(1).Shape(); len(s) == 4 {
			z, _ = s[0].Mul(s[1]).Mul(s[2]).Mul(ir.Const(1 + n.Attrs.Int("window", 0))).Known()
		}
		return alongScan(n, in, n.Attrs.Str("direction", Forward), n.Attrs.Int("window", 0), z, len(n.Outputs))
	},
	Linear: linearSystem([]int{2, 5}, 6, []int{0, 6}, []int{3, 5, 6}, []int{4, 5}),
	Tol:    ir.Long,
})
