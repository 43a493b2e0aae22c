package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Pick reduces a sequence to one vector.
var Pick = ops.Register(&ir.Op{
	Domain: "essm", Name: "Pick",
	Doc: `One vector per sample from its first lengths[b] steps, or from all L without lengths: their mean (pool), their sum,
the last, or the first (docs/math.md, Decoder).`,
	In: ops.Sig("x:T[B,L,H]", "lengths:int64[B]?"), Out: ops.Sig("y:T[B,H]"),
	Attrs: []ir.AttrSpec{{Name: "mode", Kind: ir.AttrString, Required: true,
		OneOf: []string{"pool", "last", "first", "sum"}, Doc: "the vector"}},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t := ops.Tensor(in, 0)
		b, l, h := t.Dim(0), t.Dim(1), t.Dim(2)
		var name string
		if v := c.Node.In(1); v != nil {
			name = v.Name
		}
		lengths, err := Lengths(c, name, ops.Tensor(in, 1), b, l)
		if err != nil {
			return nil, err
		}
		x, y := ops.F64(c, in, 0), ops.Make[float64](c, b*h)
		mode := c.Node.Attrs.Str("mode", "")
		for i := range b {
			c.Step(1)
			lo, hi := 0, lengths[i]
			switch mode {
			case "last":
				lo = hi - 1
			case "first":
				hi = 1
			}
			for k := lo; k < hi; k++ {
				c.Step(1)
				for j := range ops.Each(c, h) {
					y[i*h+j] += x[(i*l+k)*h+j]
				}
			}
			if mode == "pool" {
				for j := range ops.Each(c, h) {
					y[i*h+j] /= float64(hi)
				}
			}
		}
		return ops.One(ops.Real(c, t.DType(), y, b, h))
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := in[0]
		f.State = 0
		switch {
		case f.Constant() || f.Global || f.Axis == 0:
		case f.Axis == 1:
			f.Axis, f.Back = -1, ir.Unbounded
			f.Summary, f.Cause = true, n
			f.State, _ = n.In(0).Shape()[2].Known()
		default:
			f.Axis = 1
		}
		return []ir.Fact{f}
	},
	Gradient: gradPick,
	Linear:   ops.LinearFirst,
	Tol:      ir.Summing,
})

// Lengths reads the optional input lengths: one number per sample, each from 1 to l. All are l if t is nil.
func Lengths(c *ir.EvalCtx, name string, t *tensor.Tensor, batch, l int) ([]int, error) {
	out := ops.Make[int](c, batch)
	for i := range out {
		out[i] = l
	}
	var given []int64
	if t != nil {
		var err error
		if given, err = ops.Int64s(c, t); err != nil || len(given) != batch {
			return nil, fmt.Errorf("%s: expected %d lengths, found %s", name, batch, t)
		}
	}
	return out, CheckLengths(name, given, l, out)
}

// CheckLengths refuses sequences of l steps that have none, and given lengths that are not from 1 to l. It writes these
// to out, which is as long as given.
func CheckLengths(name string, given []int64, l int, out []int) error {
	if l < 1 {
		return fmt.Errorf("sequences have no steps")
	}
	for i, k := range given {
		if k < 1 || k > int64(l) {
			return fmt.Errorf("%s[%d]: length %d is not between 1 and %d", name, i, k, l)
		}
		out[i] = int(k)
	}
	return nil
}

// Pair joins the vectors of two documents for the retrieval decoder.
var Pair = ops.Register(&ir.Op{
	Domain: "essm", Name: "Pair",
	Doc: `The features of pairs of documents: [a, b, a-b, a·b] with nli, [a, b] without (docs/math.md, Decoder). The batch
holds all left documents, then all right ones.`,
	In: ops.Sig("x:T[B,H]"), Out: ops.Sig("y:T[floordiv(B,2),H*k]"),
	Attrs: []ir.AttrSpec{{Name: "nli", Kind: ir.AttrInt, Default: int64(0), Doc: "1: difference and product as well"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		if k, ok := b.At("B").Known(); ok && k%2 != 0 {
			return nil, fmt.Errorf("a batch of %d cannot be split into pairs", k)
		}
		b.Dim["k"] = ir.Const(2)
		if n.Attrs.Bool("nli", false) {
			b.Dim["k"] = ir.Const(4)
		}
		return b.Outputs(n.Op)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		t := ops.Tensor(in, 0)
		if t.Dim(0)%2 != 0 {
			return nil, fmt.Errorf("a batch of %d cannot be split into pairs", t.Dim(0))
		}
		x, p, h := ops.F64(c, in, 0), t.Dim(0)/2, t.Dim(1)
		var y []float64
		for i := range p {
			c.Step(1)
			a, b := x[i*h:(i+1)*h], x[(p+i)*h:(p+i+1)*h]
			y = ops.Append(c, ops.Append(c, y, a...), b...)
			if c.Node.Attrs.Bool("nli", false) {
				for j := range ops.Each(c, len(a)) {
					y = ops.Append(c, y, a[j]-b[j])
				}
				for j := range ops.Each(c, len(a)) {
					y = ops.Append(c, y, a[j]*b[j])
				}
			}
		}
		width := 2 * h
		if c.Node.Attrs.Bool("nli", false) {
			width = 4 * h
		}
		return ops.One(ops.Real(c, t.DType(), y, p, width))
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := in[0]
		f.State = 0
		if f.Axis >= 0 { // samples meet in pairs, features in differences
			f = ops.Global(n, in)
		}
		return []ir.Fact{f}
	},
	GradientBody: bodyPair,
	Linear:       linearPair,
	Tol:          ir.Rounding,
})

// StateOrZero is the state of a model before the first step.
var StateOrZero = ops.Register(&ir.Op{
	Domain: "essm", Name: "StateOrZero",
	Doc: "The state, or zeros for each sample of like if there is no state.",
	In:  ops.Sig("like:U[B,...]", "state:T[B,K]?"), Out: ops.Sig("y:T[B,K]"),
	Elems: map[string][]tensor.DType{"U": ops.Any, "T": {tensor.Float32}},
	Attrs: []ir.AttrSpec{{Name: "size", Kind: ir.AttrInt, Required: true, Doc: "scalars per sample"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		size := n.Attrs.Int("size", 0)
		if size < 0 {
			return nil, fmt.Errorf("size: expected 0 or more, found %d", size)
		}
		if k, ok := b.At("K").Known(); n.In(1) != nil && ok && k != size {
			return nil, fmt.Errorf("state: expected %d numbers per sample, found %d", size, k)
		}
		return []ir.Type{ir.Tensor(tensor.Float32, b.At("B"), size)}, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		like, size := ops.Tensor(in, 0), int(c.Node.Attrs.Int("size", 0))
		if s := ops.Tensor(in, 1); s != nil {
			if err := ops.SameShape(s.Shape(), []int{like.Dim(0), size}); err != nil {
				return nil, fmt.Errorf("state: %w", err)
			}
			return []tensor.Datum{s}, nil
		}
		total, err := tensor.Size([]int{like.Dim(0), size})
		if err != nil {
			return nil, fmt.Errorf("size: %w", err)
		}
		return ops.One(ops.Real(c, tensor.Float32, ops.Make[float64](c, total), like.Dim(0), size))
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := in[0]
		f.State = 0
		if f.Axis != 0 { // zeros do not depend on the sequence
			f = ir.Fact{}
		}
		return []ir.Fact{f}
	},
	Gradient: gradStateOrZero,
	Linear:   ops.LinearIn([]int{1}),
	Tol:      ir.Exact,
})

func linearPair(n *ir.Node) [][]int {
	if n.Attrs.Bool("nli", false) { // a product of both is part of the result
		return nil
	}
	return [][]int{{0}}
}
