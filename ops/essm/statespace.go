package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// StateSpace is a layer's linear system as its checkpoint states it.
var StateSpace = ops.Register(&ir.Op{
	Domain: "essm", Name: "StateSpace",
	Doc: `A continuous linear system, discretized and run over a sequence (docs/math.md, System): x' = A x + B u,
y = C x + D u, per channel and head. Either lambda is the stored diagonal of A (real and imaginary parts), or a is A in
full. The state is that of Scan or DenseScan.`,
	In: ops.Sig("u:T[B,L,H]", "log_dt:T[C,S,_]", "B:T[C,S,n,h]", "C:T[C,S,m,n]", "lambda:T[C,S,n,2]?", "a:T[C,S,n,n]?",
		"D:T?", "state:Z[B,Z]?"),
	Out: ops.Sig("y:T[B,L,C*S*m]", "state_out:Z[B,Z]?"),
	Attrs: append([]ir.AttrSpec{
		{Name: "bidirectional", Kind: ir.AttrInt, Default: int64(0), Doc: "1: add the anti-causal half"},
		{Name: "conj_sym", Kind: ir.AttrInt, Default: int64(0),
			Doc: "1: one of each conjugate pair is stored, so C counts twice"},
		{Name: "lambda_real", Kind: ir.AttrString, Default: "clip", OneOf: RealConstraints,
			Doc: "constraint on the real part"},
		{Name: "lambda_imag", Kind: ir.AttrString, Default: "same", OneOf: ImagConstraints,
			Doc: "constraint on the imaginary part"},
		{Name: "max_real_lambda", Kind: ir.AttrFloat, Default: 1e-4, Doc: "bound of the clip constraint"},
		{Name: "epsilon", Kind: ir.AttrFloat, Default: 0.0, Doc: "added to |λ|² in zero-order hold"},
		{Name: "max_kernel_length", Kind: ir.AttrInt, Default: int64(0), Doc: "number of lags of the kernel; 0: all"},
	}, discretizeAttrs...),
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		if (n.In(4) == nil) == (n.In(5) == nil) {
			return nil, fmt.Errorf("expected one of lambda and a, found both or neither")
		}
		if err := checkSystem(n, b, n.In(6)); err != nil {
			return nil, err
		}
		for _, i := range []int{4, 5} {
			if v := n.In(i); v != nil {
				if _, optional := v.Type.(*ir.OptionalType); optional {
					return nil, fmt.Errorf("input %d (%s): may be absent, but the system needs it", i, v.Name)
				}
			}
		}
		window := n.Attrs.Int("max_kernel_length", 0)
		per := int64(1)
		if n.In(4) != nil {
			per = 2
		}
		b.Dim["Z"] = b.At("C").Mul(b.At("S")).Mul(b.At("n")).Mul(ir.Const(per + window))
		if err := checkState(n, direction(n), window, b.At("Z")); err != nil {
			return nil, err
		}
		return systemTypes(n, b)
	},
	Body: bodyStateSpace,
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		z := int64(0)
		if s := n.In(2).Shape(); len(s) == 4 {
			per := int64(1)
			if n.In(4) != nil {
				per = 2
			}
			z, _ = s[0].Mul(s[1]).Mul(s[2]).Mul(ir.Const(per + n.Attrs.Int("max_kernel_length", 0))).Known()
		}
		return alongScan(n, in, direction(n), n.Attrs.Int("max_kernel_length", 0), z, len(n.Outputs))
	},
	Linear: ops.LinearIn([]int{0, 7}, []int{2, 6, 7}, []int{3, 6}),
	Tol:    ir.Long,
})

func direction(n *ir.Node) string {
	if n.Attrs.Bool("bidirectional", false) {
		return Bidirectional
	}
	return Forward
}

// checkSystem checks the input's features and D against the system's matrices.
func checkSystem(n *ir.Node, b *ops.Bindings, d *ir.Value) error {
	want, got := b.At("S").Mul(b.At("h")), b.At("H")
	x, okx := want.Known()
	y, oky := got.Known()
	if okx && oky && x != y {
		return fmt.Errorf("input has %d features, the system takes %d", y, x)
	}
	if d == nil {
		return nil
	}
	t, ok := d.Type.(*ir.TensorType)
	if !ok {
		return fmt.Errorf("D (%s): the graph must state whether it is present, found %v", d.Name, d.Type)
	}
	s := t.Shape
	full := ir.Shape{b.At("C"), b.At("S"), b.At("m"), b.At("h")}
	if t.NoRank || len(s) == 4 &&
		ir.Compatible(ir.Tensor(tensor.Float32, s[0], s[1], s[2], s[3]),
			ir.Tensor(tensor.Float32, full[0], full[1], full[2], full[3])) {
		return nil
	}
	if len(s) == 3 && ir.Compatible(ir.Tensor(tensor.Float32, s[0], s[1], s[2]),
		ir.Tensor(tensor.Float32, full[0], full[1], full[2])) {
		return nil
	}
	return fmt.Errorf("D (%s): expected shape %v (diagonal) or %v (full), found %v", d.Name, full[:3], full, s)
}

// bodyStateSpace is the discrete system: an SSM, or a DenseSSM where A is full, with what Discretize makes of the
// parameters.
func bodyStateSpace(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	arg := func(i int) *ir.Value {
		if i < len(in) {
			return in[i]
		}
		return nil
	}
	a := n.Attrs
	u, logDt, bm, cm, lambda, full, d, state := in[0], in[1], in[2], in[3], arg(4), arg(5), arg(6), arg(7)
	method, rate := ir.A("method", a.Str("method", "zoh")), ir.A("rate", a.Float("rate", 1))
	scan := []ir.Attr{ir.A("direction", direction(n)), ir.A("window", a.Int("max_kernel_length", 0))}
	outs := 1
	if n.Out(1) != nil {
		outs = 2
	}
	var y []*ir.Value
	if lambda != nil {
		p := b.Ops("essm", "Constrain", 2, []*ir.Value{lambda}, ir.A("real", a.Str("lambda_real", "clip")),
			ir.A("imag", a.Str("lambda_imag", "same")), ir.A("max_real", a.Float("max_real_lambda", 1e-4)))
		q := b.Ops("essm", "Discretize", 4, []*ir.Value{p[0], p[1], logDt}, method, rate,
			ir.A("epsilon", a.Float("epsilon", 0)))
		if a.Bool("conj_sym", false) {
			cm = b.Op("", "Add", []*ir.Value{cm, cm}) // γ = 2, exactly, in any type
		}
		y = b.Ops("essm", "SSM", outs, trim(u, q[0], q[1], q[2], q[3], bm, cm, nil, nil, d, state), scan...)
	} else {
		p := b.Ops("essm", "DiscretizeDense", 2, []*ir.Value{full, logDt}, method, rate)
		y = b.Ops("essm", "DenseSSM", outs, trim(u, p[0], p[1], bm, cm, d, state), scan...)
	}
	return append(y, nil)[:2]
}

// trim leaves out the inputs behind the last that is there.
func trim(in ...*ir.Value) []*ir.Value {
	for len(in) > 0 && in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	return in
}

// addDirect adds D u to y; D is diagonal, full or absent.
func addDirect(b *ir.Builder, y, u, d *ir.Value) *ir.Value {
	if d == nil || b.Err() != nil {
		return y
	}
	op := "HeadScale"
	if len(d.Shape()) == 4 {
		op = "HeadLinear"
	}
	return b.Op("", "Add", []*ir.Value{y, b.Op("essm", op, []*ir.Value{u, d})})
}
