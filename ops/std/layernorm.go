package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// LayerNormalization normalizes each sample over its last axes.
var LayerNormalization = ops.Register(&ir.Op{
	Name: "LayerNormalization", Since: 17,
	Doc: "(X-mean)/sqrt(var+epsilon)*Scale+B with biased mean and variance over the axes from axis on.",
	In:  ops.Sig("X:T", "Scale:T", "B:T?"), Out: ops.Sig("Y:T", "Mean:U", "InvStdDev:U"),
	Attrs: []ir.AttrSpec{intAttr("axis", -1, "first normalized axis"),
		floatAttr("epsilon", f32(1e-5), "added to the variance"),
		intAttr("stash_type", 1, "element type of Mean and InvStdDev, and of the computation")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		x, stash := tensorIn(n, 0), tensor.DType(getInt(n, "stash_type"))
		if !stash.IsFloat() {
			return nil, fmt.Errorf("stash_type: expected a float type, found %d", getInt(n, "stash_type"))
		}
		if x.NoRank {
			return []ir.Type{x, noRank(stash), noRank(stash)}, nil
		}
		a, err := ops.Axis(getInt(n, "axis"), len(x.Shape))
		if err != nil {
			return nil, err
		}
		for i := 1; i < 3; i++ {
			if err := fillsOut(n, i, x.Shape[a:]); err != nil {
				return nil, err
			}
		}
		row := append(ir.Shape{}, x.Shape...)
		for i := a; i < len(row); i++ {
			row[i] = ir.Const(1)
		}
		return []ir.Type{typed(x.Elem, x.Shape), typed(stash, row), typed(stash, row)}, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "X")
		if err != nil {
			return nil, err
		}
		a, err := ops.Axis(getInt(c.Node, "axis"), x.Rank())
		if err != nil {
			return nil, err
		}
		scale, bias, err := affine(c, in, x.Shape()[a:], x)
		if err != nil {
			return nil, err
		}
		rows, cols := product(x.Shape()[:a]), product(x.Shape()[a:])
		v, eps := ops.F64(c, in, 0), getFloat(c.Node, "epsilon")
		means, invs := ops.Make[float64](c, rows), ops.Make[float64](c, rows)
		for r := range rows {
			c.Step(1)
			row := v[r*cols : (r+1)*cols]
			mean, variance := moments(c, row)
			inv := 1 / math.Sqrt(variance+eps)
			means[r], invs[r] = mean, inv
			for i := range ops.Each(c, len(row)) {
				row[i] = (row[i]-mean)*inv*scale[i] + bias[i]
			}
		}
		stat := append([]int{}, x.Shape()...)
		for i := a; i < len(stat); i++ {
			stat[i] = 1
		}
		stash := tensor.DType(getInt(c.Node, "stash_type"))
		return several(
			func() (*tensor.Tensor, error) { return ops.Real(c, x.DType(), v, x.Shape()...) },
			func() (*tensor.Tensor, error) { return ops.Real(c, stash, means, stat...) },
			func() (*tensor.Tensor, error) { return ops.Real(c, stash, invs, stat...) })
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		x := in[0]
		axes, ok := axesFrom(b, x, getInt(n, "axis"))
		if !ok {
			return make([]*ir.Value, 3)
		}
		stash := []ir.Attr{ir.A("to", getInt(n, "stash_type"))}
		u := attr(b, "Cast", []*ir.Value{x}, stash...)
		mean := op(b, "ReduceMean", u, axes)
		d := op(b, "Sub", u, mean)
		variance := op(b, "ReduceMean", op(b, "Mul", d, d), axes)
		inv := op(b, "Reciprocal", op(b, "Sqrt", op(b, "Add", variance, constLike(b, u, getFloat(n, "epsilon")))))
		y := attr(b, "Cast", []*ir.Value{op(b, "Mul", d, inv)}, ir.A("to", int(x.Elem())))
		y = op(b, "Mul", y, in[1])
		if n.In(2) != nil {
			y = op(b, "Add", y, in[2])
		}
		return []*ir.Value{y, mean, inv}[:max(1, len(n.Outputs))]
	},
	Linear: ops.LinearIn([]int{1, 2}),
	Along:  alongAxesFrom, Tol: ir.Summing,
})

// axesFrom returns the constant list of the axes from axis on.
func axesFrom(b *ir.Builder, x *ir.Value, axis int64) (*ir.Value, bool) {
	s := x.Shape()
	a, err := ops.Axis(axis, len(s))
	if err != nil {
		b.Fail(err)
		return nil, false
	}
	var axes []int64
	for i := a; i < len(s); i++ {
		axes = append(axes, int64(i))
	}
	return b.Ints(axes...), true
}

// alongAxesFrom keeps the axis of rows; the axes from the attribute axis on are mixed.
var alongAxesFrom = alongKeep(func(n *ir.Node, axis, rank int) bool {
	a, err := ops.Axis(getInt(n, "axis"), rank)
	return err != nil || axis >= a
})

// affine reads the scale and the optional bias, broadcast to the shape of one row.
func affine(c *ir.EvalCtx, in []tensor.Datum, row []int, x *tensor.Tensor) (scale, bias []float64, err error) {
	size, err := ops.Elems(row)
	if err != nil {
		return nil, nil, err
	}
	scale, bias = ops.Make[float64](c, size), ops.Make[float64](c, size)
	for i := range ops.Each(c, len(scale)) {
		scale[i] = 1
	}
	for i, to := range []*[]float64{&scale, &bias} {
		t := ops.Tensor(in, i+1)
		if t == nil {
			continue
		}
		if s, err := ops.Broadcast(t.Shape(), row); err != nil || ops.SameShape(s, row) != nil {
			return nil, nil, fmt.Errorf("input %d %s does not broadcast to the normalized axes %v of %s", i+1, t, row,
				x)
		}
		*to = ops.BroadcastTo(c, ops.F64(c, in, i+1), t.Shape(), row)
	}
	return scale, bias, nil
}

// moments returns the mean and the biased variance, computed in two passes.
func moments(c *ir.EvalCtx, v []float64) (mean, variance float64) {
	for _, x := range ops.All(c, v) {
		mean += x
	}
	mean /= float64(len(v))
	for _, x := range ops.All(c, v) {
		variance += (x - mean) * (x - mean)
	}
	return mean, variance / float64(len(v))
}

// several collects results. It returns the first error.
func several(make ...func() (*tensor.Tensor, error)) ([]tensor.Datum, error) {
	var out []tensor.Datum
	for _, f := range make {
		t, err := f()
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}
