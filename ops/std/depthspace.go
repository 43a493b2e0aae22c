package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var blockSize = ir.AttrSpec{Name: "blocksize", Kind: ir.AttrInt, Required: true,
	Doc: "number of elements of a block per axis"}

// DepthToSpace moves channels to spatial axes. SpaceToDepth is its inverse.
var (
	DepthToSpace = ops.Same(ops.Register(regroup("DepthToSpace", 13,
		"input (N,C,H,W) as (N,C/b²,H*b,W*b): channels become blocks of b by b, in the order of mode.", true,
		ir.AttrSpec{Name: "mode", Kind: ir.AttrString, Default: "DCR", OneOf: []string{"DCR", "CRD"},
			Doc: "whether positions in a block come before the channel (DCR) or after it"})), 11, 1)
	SpaceToDepth = ops.Same(ops.Register(regroup("SpaceToDepth", 13,
		"input (N,C,H,W) as (N,C*b²,H/b,W/b): positions in blocks of b by b become channels, before the channel's "+
			"own index.", false)), 1)
)

// regroup registers an operator that is a reshape, a transposition and a reshape.
func regroup(name string, since int, doc string, toSpace bool, attrs ...ir.AttrSpec) *ir.Op {
	// split returns the shape with blocks as separate axes, and their permutation.
	split := func(n *ir.Node, s []int) (parts, perm []int, err error) {
		b := int(getInt(n, "blocksize"))
		switch {
		case len(s) != 4:
			return nil, nil, fmt.Errorf("input: expected four axes, found %v", s)
		case b < 1 || b > 1<<15:
			return nil, nil, fmt.Errorf("blocksize is %d, expected a positive number below 2^15", b)
		case toSpace && s[1]%(b*b) != 0 || !toSpace && (s[2]%b != 0 || s[3]%b != 0):
			return nil, nil, fmt.Errorf("input %v does not divide into blocks of %d", s, b)
		case !toSpace:
			return []int{s[0], s[1], s[2] / b, b, s[3] / b, b}, []int{0, 3, 5, 1, 2, 4}, nil
		case getStr(n, "mode") == "CRD":
			return []int{s[0], s[1] / (b * b), b, b, s[2], s[3]}, []int{0, 1, 4, 2, 5, 3}, nil
		}
		return []int{s[0], b, b, s[1] / (b * b), s[2], s[3]}, []int{0, 3, 4, 1, 5, 2}, nil
	}
	return &ir.Op{
		Name: name, Since: since, Doc: doc, In: ops.Sig("input:T"), Out: ops.Sig("output:T"), Linear: ops.LinearFirst,
		Gradient: ops.GradientMoved(0),
		Elems:    elems("T", ops.Any),
		Attrs:    append([]ir.AttrSpec{blockSize}, attrs...),
		Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
			b := getInt(n, "blocksize")
			if len(in) != 4 || b < 1 || b > 1<<15 {
				return nil, fmt.Errorf("expected input (N,C,H,W) and a blocksize below 2^15, found %v and %d", in, b)
			}
			if s, ok := in.Known(); ok {
				if _, _, err := split(n, s); err != nil {
					return nil, err
				}
			}
			k, kk := ir.Const(b), ir.Const(b*b)
			if toSpace {
				return ir.Shape{in[0], in[1].FloorDiv(kk), in[2].Mul(k), in[3].Mul(k)}, nil
			}
			return ir.Shape{in[0], in[1].Mul(kk), in[2].FloorDiv(k), in[3].FloorDiv(k)}, nil
		}),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			x, err := need(in, 0, "input")
			if err != nil {
				return nil, err
			}
			parts, perm, err := split(c.Node, x.Shape())
			if err != nil {
				return nil, err
			}
			p := make([]int, 6)
			from, strides := ops.Strides(parts), make([]int, 6)
			for i, a := range perm {
				p[i], strides[i] = parts[a], from[a]
			}
			shape := []int{p[0], p[1] * p[2] * p[3], p[4], p[5]}
			if toSpace {
				shape = []int{p[0], p[1], p[2] * p[3], p[4] * p[5]}
			}
			out, err := alloc(c, x.DType(), shape)
			if err != nil {
				return nil, err
			}
			m, i := newMover(c, out, x), 0
			ops.Walk(c, p, strides, 0, func(o int) {
				m.copy(i, o, 1)
				i++
			})
			return ops.One(out, nil)
		},
		Along: alongKeep(func(_ *ir.Node, axis, _ int) bool { return axis > 0 }), Tol: ir.Exact,
	}
}
