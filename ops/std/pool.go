package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var autoPad = ir.AttrSpec{Name: "auto_pad", Kind: ir.AttrString, Default: "NOTSET",
	OneOf: []string{"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}, Doc: "computation of pads, if they are not given"}

// poolAttrs returns the attributes of all pooling operators.
func poolAttrs(more ...ir.AttrSpec) []ir.AttrSpec {
	return append([]ir.AttrSpec{
		autoPad, intAttr("ceil_mode", 0, "whether a partial window at the end counts"),
		intsAttr("dilations", "distance of taps per axis (default 1)"),
		{Name: "kernel_shape", Kind: ir.AttrInts, Required: true, Doc: "taps per axis"},
		intsAttr("pads", "all begins, then all ends (default 0)"),
		intsAttr("strides", "steps per axis (default 1)"),
	}, more...)
}

// Pooling over windows of all axes after the channels.
var (
	AveragePool = ops.Same(ops.Register(linearIn0(poolOp("AveragePool", 22,
		"Mean over windows of X (N,C,…); pads count as zeros with count_include_pad, and do not count without.",
		averagePool, intAttr("count_include_pad", 0, "whether pads count")))), 19, 11, 10, 7, 1)
	LpPool = ops.Same(ops.Register(poolOp("LpPool", 22, "(Σ|x|^p)^(1/p) over windows of X (N,C,…).", lpPool,
		intAttr("p", 2, "exponent"))), 18, 11, 2)
	_ = ops.Register(poolOp("LpPool", 1, "(Σ|x|^p)^(1/p) over windows of X (N,C,…).", lpPool,
		floatAttr("p", 2, "exponent")))
	MaxPool = func() *ir.Op {
		o := poolOp("MaxPool", 22,
			"Largest element in windows of X (N,C,…), and its flat index in X (in column order within a channel with "+
				"storage_order 1).",
			nil, intAttr("storage_order", 0, "0: rows, 1: columns"))
		o.Out = ops.Sig("Y:T", "Indices:I?")
		o.Elems = elems("T", append(ops.Floats[:len(ops.Floats):len(ops.Floats)], tensor.Int8, tensor.Uint8))
		o.Eval, o.Tol = evalMaxPool, ir.Exact
		o.Gradient, o.GradientBody = gradMaxPool, nil
		return ops.Same(ops.Register(o), 12, 11, 10, 8, 1)
	}()
)

// poolOp returns a pooling operator. reduce returns a function that reduces one window. Its arguments are the offsets
// in a channel's plane, and the number of taps in the plane or its pads.
func poolOp(name string, since int, doc string,
	reduce func(n *ir.Node) (func(c *ir.EvalCtx, plane []float64, at []int, padded int) float64, error),
	more ...ir.AttrSpec) *ir.Op {
	return &ir.Op{
		Name: name, Since: since, Doc: doc, In: ops.Sig("X:T"), Out: ops.Sig("Y:T"), Attrs: poolAttrs(more...),
		Infer: inferPool,
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			f, err := reduce(c.Node)
			if err != nil {
				return nil, err
			}
			x, g, err := bindPool(c.Node, in)
			if err != nil {
				return nil, err
			}
			v, planes := ops.F64(c, in, 0), x.Dim(0)*x.Dim(1)
			y := ops.Make[float64](c, product(g.out))
			size, places := product(x.Shape()[2:]), product(g.out[2:])
			err = g.each(c, func(place int, at []int, padded int) {
				for p := range ops.Each(c, planes) {
					y[p*places+place] = f(c, v[p*size:(p+1)*size], at, padded)
				}
			})
			if err != nil {
				return nil, err
			}
			return ops.One(ops.Real(c, x.DType(), y, g.out...))
		},
		Along: alongPool, GradientBody: bodyPool, Tol: ir.Summing,
		Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
			flops := sizeOf(n.Outputs[0].Shape(), bind)
			for _, k := range n.Attrs.Ints("kernel_shape", nil) {
				flops *= k
			}
			return workOf(n, bind, flops)
		},
	}
}

func averagePool(n *ir.Node) (func(*ir.EvalCtx, []float64, []int, int) float64, error) {
	pads := getInt(n, "count_include_pad") != 0
	return func(c *ir.EvalCtx, plane []float64, at []int, padded int) float64 {
		var sum float64
		for _, o := range ops.All(c, at) {
			sum += plane[o]
		}
		if !pads {
			padded = len(at)
		}
		if padded == 0 {
			return 0
		}
		return sum / float64(padded)
	}, nil
}

// exponent reads p: an integer or, in the first versions, a float.
func exponent(n *ir.Node) (float64, error) {
	p := float64(n.Attrs.Int("p", 2))
	if x, ok := n.Attrs.Get("p").(float64); ok {
		p = x
	}
	if !(p > 0) {
		return 0, fmt.Errorf("p is %v, expected a positive number", p)
	}
	return p, nil
}

func lpPool(n *ir.Node) (func(*ir.EvalCtx, []float64, []int, int) float64, error) {
	p, err := exponent(n)
	return func(c *ir.EvalCtx, plane []float64, at []int, _ int) float64 {
		var sum float64
		for _, o := range ops.All(c, at) {
			sum += power(math.Abs(plane[o]), p)
		}
		return power(sum, 1/p)
	}, err
}

// power returns x^p for x ≥ 0. It is exact if p is 1 or 2, and correctly rounded if p is a half.
func power(x, p float64) float64 {
	switch p {
	case 1:
		return x
	case 2:
		return x * x
	case 0.5:
		return math.Sqrt(x)
	}
	return math.Pow(x, p)
}

// poolWindows reads the attributes for k spatial axes.
func poolWindows(n *ir.Node, k int) (win []ops.Window, taps []int64, err error) {
	taps = n.Attrs.Ints("kernel_shape", nil)
	if len(taps) != k {
		return nil, nil, fmt.Errorf("kernel_shape %v: expected %d numbers", taps, k)
	}
	for _, t := range taps {
		if t < 1 || t > 1<<31 {
			return nil, nil, fmt.Errorf("kernel_shape %v: %d is outside of 1 … 2^31", taps, t)
		}
	}
	win, err = ops.Windows(n, k)
	return win, taps, err
}

// poolSize returns the number of windows of k taps over a dimension. In ceil mode a last, partial window counts, unless
// it would start after the input and its begin pad.
func poolSize(w ops.Window, d ir.Dim, k int64, ceil bool) ir.Dim {
	size := w.Size(d, ir.Const(k))
	if ceil && w.Same == 0 {
		size = w.Size(d.Add(ir.Const(w.Stride-1)), ir.Const(k))
		size = size.Min(d.Add(ir.Const(w.Begin + w.Stride - 1)).FloorDiv(ir.Const(w.Stride)))
	}
	if s, ok := size.Known(); ok && s < 0 {
		size = ir.Const(0)
	}
	return size
}

func inferPool(n *ir.Node) ([]ir.Type, error) {
	if _, err := ops.Bind(n); err != nil {
		return nil, err
	}
	x := tensorIn(n, 0)
	y := noRank(x.Elem)
	if !x.NoRank {
		if len(x.Shape) < 3 {
			return nil, fmt.Errorf("X: expected at least three axes, found %v", x.Shape)
		}
		win, taps, err := poolWindows(n, len(x.Shape)-2)
		if err != nil {
			return nil, err
		}
		shape := x.Shape[:2:2]
		for i, w := range win {
			shape = append(shape, poolSize(w, x.Shape[i+2], taps[i], getInt(n, "ceil_mode") != 0))
		}
		y = typed(x.Elem, shape)
	}
	if len(n.Op.Out) == 1 {
		return one(y)
	}
	return []ir.Type{y, &ir.TensorType{Elem: tensor.Int64, Shape: y.Shape, NoRank: y.NoRank}}, nil
}

// poolGrid is the layout of windows over the axes after the channels.
type poolGrid struct {
	in, out []int // whole shapes
	win     []ops.Window
	taps    []int64
}

func bindPool(n *ir.Node, in []tensor.Datum) (*tensor.Tensor, *poolGrid, error) {
	x, err := need(in, 0, "X")
	if err != nil {
		return nil, nil, err
	}
	if x.Rank() < 3 {
		return nil, nil, fmt.Errorf("X: expected at least three axes, found %s", x)
	}
	g := &poolGrid{in: x.Shape(), out: []int{x.Dim(0), x.Dim(1)}}
	if g.win, g.taps, err = poolWindows(n, x.Rank()-2); err != nil {
		return nil, nil, err
	}
	for i := range g.win {
		d := int64(x.Dim(i + 2))
		g.win[i] = g.win[i].Bind(d, g.taps[i])
		size, _ := poolSize(g.win[i], ir.Const(d), g.taps[i], getInt(n, "ceil_mode") != 0).Known()
		g.out = append(g.out, tensor.Extent(size))
	}
	_, err = ops.Elems(g.out)
	return x, g, err
}

// each calls visit for the windows in order, with the offsets of the taps inside the plane, and the number of taps
// inside it or its pads.
func (g *poolGrid) each(c *ir.EvalCtx, visit func(place int, at []int, padded int)) error {
	k := len(g.win)
	str := ops.Strides(g.in[2:])
	// Per axis and window: the first tap inside, the number inside, and the number inside or in pads.
	type span struct{ from, count, padded int }
	spans := make([][]span, k)
	for i, w := range g.win {
		d := int64(g.in[i+2])
		for o := range g.out[i+2] {
			c.Step(1)
			at := int64(o)*w.Stride - w.Begin
			upTo := func(end int64) int64 { return min(g.taps[i], max(0, (end-at+w.Dilation-1)/w.Dilation)) }
			first := upTo(0)
			spans[i] = append(spans[i], span{int(at + first*w.Dilation), int(max(0, upTo(d)-first)),
				int(upTo(d + w.End))})
		}
	}
	index := make([]int, k)
	var at, next []int
	for place := range product(g.out[2:]) {
		c.Step(1)
		at = append(at[:0], 0)
		count := 1
		for i, o := range index {
			next = next[:0]
			sp := spans[i][o]
			for _, a := range at {
				c.Step(1)
				for t := range ops.Each(c, sp.count) {
					next = append(next, a+(sp.from+t*int(g.win[i].Dilation))*str[i])
				}
			}
			at, next = next, at
			count *= sp.padded
		}
		visit(place, at, count)
		for i := k - 1; i >= 0; i-- {
			if index[i]++; index[i] < g.out[i+2] {
				break
			}
			index[i] = 0
		}
	}
	return nil
}

func evalMaxPool(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, g, err := bindPool(c.Node, in)
	if err != nil {
		return nil, err
	}
	v, planes := ops.F64(c, in, 0), x.Dim(0)*x.Dim(1)
	size, places := product(x.Shape()[2:]), product(g.out[2:])
	y, where := ops.Make[float64](c, product(g.out)), ops.Make[int64](c, product(g.out))
	nothing := math.Inf(-1) // a window wholly in the pads
	if x.DType().IsInt() {
		nothing = map[tensor.DType]float64{tensor.Int8: math.MinInt8}[x.DType()]
	}
	columns := getInt(c.Node, "storage_order") != 0
	err = g.each(c, func(place int, at []int, _ int) {
		for p := range planes {
			c.Step(1)
			best, from := nothing, -1
			for _, o := range ops.All(c, at) {
				if a := v[p*size+o]; from < 0 || a > best || a != a && best == best {
					best, from = a, o
				}
			}
			y[p*places+place] = best
			if columns && from >= 0 {
				from = columnOrder(from, x.Shape()[2:])
			}
			where[p*places+place] = int64(p*size + from)
		}
	})
	if err != nil {
		return nil, err
	}
	return several(
		func() (*tensor.Tensor, error) { return ops.Real(c, x.DType(), y, g.out...) },
		func() (*tensor.Tensor, error) { return tensor.FromSlice(where, g.out...), nil })
}

// columnOrder converts a row-major offset to one in which the first axis varies fastest.
func columnOrder(offset int, shape []int) int {
	out, scale := 0, product(shape)
	for i := len(shape) - 1; i >= 0; i-- {
		scale /= shape[i]
		out += offset % shape[i] * scale
		offset /= shape[i]
	}
	return out
}

func alongPool(n *ir.Node, in []ir.Fact) []ir.Fact {
	f := in[0]
	f.State = 0
	if f.Constant() || f.Global || f.Axis < 0 {
		return spread(n, f)
	}
	out := spread(n, f)
	if f.Axis >= 2 {
		win, taps, err := poolWindows(n, len(n.In(0).Shape())-2)
		if err != nil {
			return spread(n, ops.Global(n, in))
		}
		out = spread(n, alongWindow(n, in, f, win[f.Axis-2], taps[f.Axis-2]))
	}
	if len(out) > 1 { // indices are positions in all of X
		out[1] = ops.Global(n, in)
	}
	return out
}

// linearIn0 marks an operator as linear in its first input.
func linearIn0(op *ir.Op) *ir.Op { op.Linear = ops.LinearFirst; return op }
