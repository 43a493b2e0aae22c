package essm

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// SumTo undoes broadcasting. Gradients need it where it depends on shapes that are not known.
var SumTo = ops.Register(&ir.Op{
	Domain: "essm", Name: "SumTo",
	Doc: `x summed over the axes along which a tensor of the given shape broadcasts to x: axes that it lacks, and those
of size 1. The opposite of Expand.`,
	In: ops.Sig("x:T", "shape:int64[_]"), Out: ops.Sig("y:T"),
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		t := &ir.TensorType{Elem: b.Elem["T"]}
		if dims, ok := ops.DimsOf(n.In(1)); ok {
			t.Shape = dims
			return []ir.Type{t}, checkSummed(n.In(0), dims)
		}
		t.NoRank = true
		return []ir.Type{t}, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x := ops.Tensor(in, 0)
		given, err := ops.Int64s(c, ops.Tensor(in, 1))
		if err != nil {
			return nil, err
		}
		shape := ops.Make[int](c, len(given))
		for i, d := range given {
			if d < 0 {
				return nil, fmt.Errorf("shape %v has a negative dimension", given)
			}
			shape[i] = tensor.Extent(d)
		}
		if all, err := ops.Broadcast(shape, x.Shape()); err != nil || !slices.Equal(all, x.Shape()) {
			return nil, fmt.Errorf("shape %v does not broadcast to %v", given, x.Shape())
		}
		size, err := ops.Elems(shape)
		if err != nil {
			return nil, err
		}
		v, sum, i := ops.F64(c, in, 0), ops.Make[float64](c, size), 0
		ops.Walk(c, x.Shape(), ops.BroadcastStrides(shape, x.Shape()), 0, func(o int) {
			sum[o] += v[i]
			i++
		})
		return ops.One(ops.Real(c, x.DType(), sum, shape...))
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := in[0]
		f.State = 0
		from, to := n.In(0).Shape(), n.Out(0).Shape()
		if f.Constant() || f.Global {
			return []ir.Fact{f}
		}
		axes, ok := ops.SummedAxes(from, to)
		if !ok || f.Axis < 0 || !in[1].Constant() {
			return []ir.Fact{ops.Global(n, in)}
		}
		if slices.Contains(axes, int64(f.Axis)) {
			return []ir.Fact{ops.Global(n, in)}
		}
		f.Axis += len(to) - len(from)
		return []ir.Fact{f}
	},
	Gradient: func(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
		return []*ir.Value{ops.ExpandLike(b, dOut[0], n.In(0))}
	},
	Linear: ops.LinearFirst,
	Tol:    ir.Summing,
})

// checkSummed refuses shapes that do not broadcast to the shape of x.
func checkSummed(x *ir.Value, to ir.Shape) error {
	from := x.Shape()
	if from == nil {
		return nil
	}
	if len(to) > len(from) {
		return fmt.Errorf("shape %v has more axes than %v", to, from)
	}
	for i, d := range to {
		k, known := d.Known()
		m, knownX := from[len(from)-len(to)+i].Known()
		if known && knownX && k != m && k != 1 {
			return fmt.Errorf("shape %v does not broadcast to %v", to, from)
		}
	}
	return nil
}
