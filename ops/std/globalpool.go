package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Pooling of each channel of each sample to one number.
var (
	GlobalAveragePool = ops.Same(globalPool("GlobalAveragePool", 22,
		"Mean of each channel of X (N,C,…); all axes after it get size 1.",
		func(*ir.Node) (func(*ir.EvalCtx, []float64) float64, error) {
			return func(c *ir.EvalCtx, v []float64) float64 {
				var sum float64
				for _, x := range ops.All(c, v) {
					sum += x
				}
				return sum / float64(len(v))
			}, nil
		}, "ReduceMean", ir.Summing), 1)
	GlobalMaxPool = ops.Same(globalPool("GlobalMaxPool", 22,
		"Largest element of each channel of X (N,C,…); all axes after it get size 1.",
		func(*ir.Node) (func(*ir.EvalCtx, []float64) float64, error) {
			return func(c *ir.EvalCtx, v []float64) float64 {
				best := math.Inf(-1)
				for _, x := range ops.All(c, v) {
					best = max(best, x)
				}
				return best
			}, nil
		}, "ReduceMax", ir.Exact), 1)
	GlobalLpPool = ops.Same(globalPool("GlobalLpPool", 22,
		"(Σ|x|^p)^(1/p) over each channel of X (N,C,…); all axes after it get size 1.", lpNorm, "", ir.Summing,
		intAttr("p", 2, "exponent")), 2)
	_ = globalPool("GlobalLpPool", 1,
		"(Σ|x|^p)^(1/p) over each channel of X (N,C,…); all axes after it get size 1.", lpNorm, "", ir.Summing,
		floatAttr("p", 2, "exponent"))
)

func lpNorm(n *ir.Node) (func(*ir.EvalCtx, []float64) float64, error) {
	p, err := exponent(n)
	return func(c *ir.EvalCtx, v []float64) float64 {
		var sum float64
		for _, x := range ops.All(c, v) {
			sum += power(math.Abs(x), p)
		}
		return power(sum, 1/p)
	}, err
}

// globalPool registers an operator that reduces each channel. body is the name of the equivalent reduction, if there is
// one.
func globalPool(name string, since int, doc string, reduce func(n *ir.Node) (func(*ir.EvalCtx, []float64) float64,
	error),
	body string, tol ir.Tolerance, attrs ...ir.AttrSpec) *ir.Op {
	o := &ir.Op{
		Name: name, Since: since, Doc: doc, In: ops.Sig("X:T[N,C,...]"), Out: ops.Sig("Y:T"), Attrs: attrs,
		Infer: inferShape(func(_ *ir.Node, in ir.Shape) (ir.Shape, error) {
			out := in[:2:2]
			for range in[2:] {
				out = append(out, ir.Const(1))
			}
			return out, nil
		}),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			f, err := reduce(c.Node)
			if err != nil {
				return nil, err
			}
			x, err := need(in, 0, "X")
			if err != nil {
				return nil, err
			}
			if x.Rank() < 2 {
				return nil, fmt.Errorf("X: expected at least two axes, found %s", x)
			}
			shape := append([]int{}, x.Shape()[:2]...)
			for range x.Shape()[2:] {
				shape = append(shape, 1)
			}
			v, size := ops.F64(c, in, 0), product(x.Shape()[2:])
			y := ops.Make[float64](c, product(shape))
			for i := range ops.Each(c, len(y)) {
				y[i] = f(c, v[i*size:(i+1)*size])
			}
			return ops.One(ops.Real(c, x.DType(), y, shape...))
		},
		Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
			f := in[0]
			f.State = 0
			if !f.Constant() && !f.Global && f.Axis >= 2 {
				f = summed(n, f)
			}
			return spread(n, f)
		},
		Tol: tol,
	}
	if body == "" {
		o.GradientBody = bodyGlobalLp
	} else {
		o.Body = func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
			if len(in[0].Shape()) < 3 {
				return []*ir.Value{op(b, "Identity", in[0])}
			}
			axes, _ := axesFrom(b, in[0], 2)
			return []*ir.Value{op(b, body, in[0], axes)}
		}
	}
	return ops.Register(o)
}
