package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Conv is the convolution of neural networks (a correlation) over any number of spatial axes.
var Conv = ops.Register(&ir.Op{
	Name: "Conv", Since: 22,
	Doc: "Correlation of X (N,C,…) with M filters W (M,C/group,…) plus B (M), over all axes after the channels, with " +
		"strides, dilations, pads and groups.",
	In: ops.Sig("X:T", "W:T", "B:T[_]?"), Out: ops.Sig("Y:T"),
	Attrs: []ir.AttrSpec{
		{Name: "auto_pad", Kind: ir.AttrString, Default: "NOTSET",
			OneOf: []string{"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"},
			Doc:   "computation of pads, if they are not given"},
		intsAttr("dilations", "distance of filter taps per axis (default 1)"),
		intAttr("group", 1, "number of groups of channels"),
		intsAttr("kernel_shape", "filter sizes (default: from W)"),
		intsAttr("pads", "all begins, then all ends (default 0)"),
		intsAttr("strides", "steps per axis (default 1)"),
	},
	Infer: inferConv, Eval: evalConv, Along: alongConv,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		w := n.In(1).Shape()
		if len(w) == 0 {
			return workOf(n, bind, 0)
		}
		return workOf(n, bind, 2*sizeOf(n.Outputs[0].Shape(), bind)*sizeOf(w[1:], bind))
	},
	Gradient: gradConv,
	Linear:   ops.LinearIn([]int{0, 2}, []int{1, 2}),
	Tol:      ir.Summing,
})

func inferConv(n *ir.Node) ([]ir.Type, error) {
	if _, err := ops.Bind(n); err != nil {
		return nil, err
	}
	x, w := tensorIn(n, 0), tensorIn(n, 1)
	if x.NoRank || w.NoRank {
		return one(noRank(x.Elem))
	}
	k := len(x.Shape) - 2
	if k < 1 || len(w.Shape) != k+2 {
		return nil, fmt.Errorf("X %v and W %v: expected equal ranks of at least 3", x.Shape, w.Shape)
	}
	group := getInt(n, "group")
	c, okC := x.Shape[1].Known()
	cw, okW := w.Shape[1].Known()
	m, okM := w.Shape[0].Known()
	if group < 1 || okC && okW && c != cw*group || okM && m%group != 0 {
		return nil, fmt.Errorf("X %v, W %v and group %d do not match", x.Shape, w.Shape, group)
	}
	ws, err := ops.Windows(n, k)
	if err != nil {
		return nil, err
	}
	kernel := n.Attrs.Ints("kernel_shape", nil)
	out := ir.Shape{x.Shape[0], w.Shape[0]}
	for i, win := range ws {
		taps := w.Shape[i+2]
		if kernel != nil {
			if known, ok := taps.Known(); len(kernel) != k || ok && known != kernel[i] {
				return nil, fmt.Errorf("kernel_shape %v differs from W %v", kernel, w.Shape)
			}
			taps = ir.Const(kernel[i])
		}
		size := win.Size(x.Shape[i+2], taps)
		if s, ok := size.Known(); ok && s < 0 {
			size = ir.Const(0)
		}
		out = append(out, size)
	}
	return one(typed(x.Elem, out))
}

func evalConv(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "X")
	if err != nil {
		return nil, err
	}
	w, err := need(in, 1, "W")
	if err != nil {
		return nil, err
	}
	k := x.Rank() - 2
	if k < 1 || w.Rank() != k+2 {
		return nil, fmt.Errorf("X %s and W %s: expected equal ranks of at least 3", x, w)
	}
	group := int(getInt(c.Node, "group"))
	n, m, cg := x.Dim(0), w.Dim(0), w.Dim(1)
	if group < 1 || group > max(1, m) || x.Dim(1) != cg*group || m%group != 0 {
		return nil, fmt.Errorf("X %s, W %s and group %d do not match", x, w, group)
	}
	if b := ops.Tensor(in, 2); b != nil && (b.Rank() != 1 || b.Len() != m) {
		return nil, fmt.Errorf("B: expected %d elements, found %s", m, b)
	}
	ws, err := ops.Windows(c.Node, k)
	if err != nil {
		return nil, err
	}
	shape := []int{n, m}
	for i := range ws {
		d, t := int64(x.Dim(i+2)), int64(w.Dim(i+2))
		if t == 0 {
			return nil, fmt.Errorf("W %s has no taps", w)
		}
		ws[i] = ws[i].Bind(d, t)
		size, _ := ws[i].Size(ir.Const(d), ir.Const(t)).Known()
		shape = append(shape, tensor.Extent(max(0, size)))
	}
	if _, err := ops.Elems(shape); err != nil {
		return nil, err
	}
	y, err := convolve(c, ops.F64(c, in, 0), ops.F64(c, in, 1), ops.F64(c, in, 2), x.Shape(), w.Shape(), shape,
		ws, group)
	if err != nil {
		return nil, err
	}
	return ops.One(ops.Real(c, x.DType(), y, shape...))
}

// convolve adds, for each sample, filter, channel and tap, a shifted and strided copy of the channel, times the weight
// of the tap, to the output.
func convolve(c *ir.EvalCtx, x, w, b []float64, xs, wsh, ys []int, win []ops.Window, group int) ([]float64, error) {
	n, m, cg := xs[0], wsh[0], wsh[1]
	xSize, taps, ySize := product(xs[2:]), product(wsh[2:]), product(ys[2:])
	y := ops.Make[float64](c, n*m*ySize)
	xStr, yStr := ops.Strides(xs[2:]), ops.Strides(ys[2:])
	tap, room := make([]int, len(win)), [2][]int{}
	for t := range taps {
		c.Step(1)
		rest := t
		for i := len(win) - 1; i >= 0; i-- {
			tap[i], rest = rest%wsh[i+2], rest/wsh[i+2]
		}
		// Per axis, the range of output positions whose tap is inside the input, and the first input position.
		count, yOff, xOff := make([]int, len(win)), 0, 0
		xStep := make([]int, len(win))
		for i, v := range win {
			at := tap[i]*int(v.Dilation) - int(v.Begin) // the input of position 0
			s := int(v.Stride)
			from := 0
			if at < 0 {
				from = (-at + s - 1) / s
			}
			end := 0
			if last := xs[i+2] - 1 - at; last >= 0 {
				end = min(ys[i+2], last/s+1)
			}
			count[i] = max(0, end-from)
			yOff += from * yStr[i]
			xOff += (at + from*s) * xStr[i]
			xStep[i] = xStr[i] * s
		}
		if product(count) == 0 || len(x) == 0 || len(y) == 0 {
			continue
		}
		if len(win) == 1 && xStep[0] == 1 && n*m*cg > 0 { // both follow each other
			lines(c, y[yOff:], w[t:], x[xOff:], count[0], n, m, group, cg, xs[1], taps, xSize, ySize)
			continue
		}
		if room[0] == nil {
			room = [2][]int{ops.Make[int](c, ySize), ops.Make[int](c, ySize)}
		}
		from, to := offsets(c, room[0], count, xStep, xOff), offsets(c, room[1], count, yStr, yOff)
		for s := range n {
			c.Step(1)
			for f := range m {
				c.Step(1)
				out := y[(s*m+f)*ySize:]
				for ch := range cg {
					c.Step(1)
					weight := w[(f*cg+ch)*taps+t]
					src := x[(s*xs[1]+f/(m/group)*cg+ch)*xSize:]
					for i, o := range ops.All(c, to) {
						out[o] += weight * src[from[i]]
					}
				}
			}
		}
	}
	if b != nil {
		for i := range ops.Each(c, len(y)) {
			y[i] += b[i/ySize%m]
		}
	}
	return y, nil
}

// lines adds one tap of a convolution along one axis without strides: y, w and x begin with the first elements of it.
func lines(c *ir.EvalCtx, y, w, x []float64, count, n, m, group, cg, channels, taps, xSize, ySize int) {
	for s := range n {
		c.Step(1)
		for f := range m {
			out := y[(s*m+f)*ySize:][:count]
			for ch := range cg {
				weight := w[(f*cg+ch)*taps]
				src := x[(s*channels+f/(m/group)*cg+ch)*xSize:][:count]
				for lo, hi := range ops.Parts(c, count) {
					part := src[lo:hi]
					for i, o := range out[lo:hi] {
						out[lo+i] = o + weight*part[i]
					}
				}
			}
		}
	}
}

// alongConv returns the facts of a convolution. Along a spatial axis, output step o reads input steps o*stride-begin …
// o*stride-begin+(taps-1)*dilation.
func alongConv(n *ir.Node, in []ir.Fact) []ir.Fact {
	f := in[0]
	f.State = 0
	for _, o := range in[1:] {
		if !o.Constant() {
			return spread(n, ops.Global(n, in))
		}
	}
	if f.Constant() || f.Global || f.Axis < 0 || f.Axis == 0 {
		return spread(n, f)
	}
	xs, ws := n.In(0).Shape(), n.In(1).Shape()
	if f.Axis == 1 || len(ws) != len(xs) {
		return spread(n, ops.Global(n, in))
	}
	win, err := ops.Windows(n, len(xs)-2)
	taps, ok := ws[f.Axis].Known()
	if err != nil || !ok {
		return spread(n, ops.Global(n, in))
	}
	return spread(n, alongWindow(n, in, f, win[f.Axis-2], taps))
}

// alongWindow returns the fact of a value whose step o is computed from the steps o*stride-begin to
// o*stride-begin+(taps-1)*dilation of a value with fact f.
func alongWindow(n *ir.Node, in []ir.Fact, f ir.Fact, w ops.Window, taps int64) ir.Fact {
	w, ok := w.Resolve(ir.Unknown, taps)
	if !ok {
		return ops.Global(n, in)
	}
	if f.Back < ir.Unbounded {
		f.Back += w.Begin * f.Stride
	}
	if f.Ahead < ir.Unbounded {
		f.Ahead += (w.Reach(taps) - w.Begin) * f.Stride
	}
	f.Stride *= w.Stride
	return f
}
