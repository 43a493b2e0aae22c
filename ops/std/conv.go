package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Conv is the convolution of networks (a correlation) over any number of spatial axes.
var Conv = ops.Register(&ir.Op{
	Name: "Conv", Since: 22,
	Doc: "Correlation of X (N,C,…) with M filters W (M,C/group,…) plus B (M), over all axes behind the channels, with strides, dilations, pads and groups.",
	In:  ops.Sig("X:T", "W:T", "B:T[_]?"), Out: ops.Sig("Y:T"),
	Attrs: []ir.AttrSpec{
		{Name: "auto_pad", Kind: ir.AttrString, Default: "NOTSET", OneOf: []string{"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}, Doc: "how pads follow, unless given"},
		intsAttr("dilations", "distance of filter taps per axis (default 1)"), intAttr("group", 1, "number of groups of channels"),
		intsAttr("kernel_shape", "filter sizes (default: those of W)"), intsAttr("pads", "all begins, then all ends (default 0)"),
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
	Tol: ir.Summing,
})

// window describes how a convolution moves along one spatial axis. With same, the pads follow from the size: the total is
// split in two, with the odd one at the end (same = 1) or at the begin (same = -1).
type window struct {
	stride, dilation, begin, end int64
	same                         int
}

// windows reads the attributes for k spatial axes.
func windows(n *ir.Node, k int) ([]window, error) {
	out := make([]window, k)
	list := func(name string, want int, def, least int64) ([]int64, error) {
		v := n.Attrs.Ints(name, nil)
		if v == nil {
			v = make([]int64, want)
			for i := range v {
				v[i] = def
			}
		}
		if len(v) != want {
			return nil, fmt.Errorf("%s %v: expected %d numbers", name, v, want)
		}
		for _, x := range v {
			if x < least || x > 1<<31 {
				return nil, fmt.Errorf("%s %v: %d is outside of %d … 2^31", name, v, x, least)
			}
		}
		return v, nil
	}
	strides, err := list("strides", k, 1, 1)
	if err != nil {
		return nil, err
	}
	dilations, err := list("dilations", k, 1, 1)
	if err != nil {
		return nil, err
	}
	pads, err := list("pads", 2*k, 0, 0)
	if err != nil {
		return nil, err
	}
	auto := getStr(n, "auto_pad")
	for i := range out {
		out[i] = window{stride: strides[i], dilation: dilations[i]}
		switch auto {
		case "SAME_UPPER":
			out[i].same = 1
		case "SAME_LOWER":
			out[i].same = -1
		case "NOTSET", "": // "": the operator has no auto_pad
			out[i].begin, out[i].end = pads[i], pads[i+k]
		}
	}
	return out, nil
}

// size returns the number of positions of k taps over a dimension. It may be negative.
func (w window) size(d, k ir.Dim) ir.Dim {
	if w.same != 0 {
		return d.Add(ir.Const(w.stride - 1)).FloorDiv(ir.Const(w.stride))
	}
	span := k.Sub(ir.Const(1)).Mul(ir.Const(w.dilation))
	return d.Add(ir.Const(w.begin + w.end - 1)).Sub(span).FloorDiv(ir.Const(w.stride)).Add(ir.Const(1))
}

// bind resolves the pads for a dimension of d and k taps.
func (w window) bind(d, k int64) window {
	if w.same == 0 {
		return w
	}
	total := max(0, ((d+w.stride-1)/w.stride-1)*w.stride+(k-1)*w.dilation+1-d)
	if w.begin = total / 2; w.same < 0 {
		w.begin = total - total/2
	}
	w.end = total - w.begin
	return w
}

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
		return nil, fmt.Errorf("X %v, W %v and group %d do not meet", x.Shape, w.Shape, group)
	}
	ws, err := windows(n, k)
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
		size := win.size(x.Shape[i+2], taps)
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
		return nil, fmt.Errorf("X %v and W %v: expected equal ranks of at least 3", x, w)
	}
	group := int(getInt(c.Node, "group"))
	n, m, cg := x.Dim(0), w.Dim(0), w.Dim(1)
	if group < 1 || group > max(1, m) || x.Dim(1) != cg*group || m%group != 0 {
		return nil, fmt.Errorf("X %v, W %v and group %d do not meet", x, w, group)
	}
	if b := ops.Tensor(in, 2); b != nil && (b.Rank() != 1 || b.Len() != m) {
		return nil, fmt.Errorf("B: expected %d elements, found %v", m, b)
	}
	ws, err := windows(c.Node, k)
	if err != nil {
		return nil, err
	}
	shape := []int{n, m}
	for i := range ws {
		d, t := int64(x.Dim(i+2)), int64(w.Dim(i+2))
		if t == 0 {
			return nil, fmt.Errorf("W %v has no taps", w)
		}
		ws[i] = ws[i].bind(d, t)
		size, _ := ws[i].size(ir.Const(d), ir.Const(t)).Known()
		shape = append(shape, int(max(0, size)))
	}
	if _, err := ops.Elems(shape); err != nil {
		return nil, err
	}
	y, err := convolve(c, ops.F64(in, 0), ops.F64(in, 1), ops.F64(in, 2), x.Shape(), w.Shape(), shape, ws, group)
	if err != nil {
		return nil, err
	}
	return ops.One(ops.Real(c, x.DType(), y, shape...))
}

// convolve adds, for each sample, filter, channel and tap, a shifted and strided copy of the channel, times the weight of
// the tap, to the output.
func convolve(c *ir.EvalCtx, x, w, b []float64, xs, wsh, ys []int, win []window, group int) ([]float64, error) {
	n, m, cg := xs[0], wsh[0], wsh[1]
	xSize, taps, ySize := product(xs[2:]), product(wsh[2:]), product(ys[2:])
	y := make([]float64, n*m*ySize)
	xStr, yStr := ops.Strides(xs[2:]), ops.Strides(ys[2:])
	tap := make([]int, len(win))
	for t := range taps {
		if c.Ctx != nil && c.Ctx.Err() != nil {
			return nil, c.Ctx.Err()
		}
		rest := t
		for i := len(win) - 1; i >= 0; i-- {
			tap[i], rest = rest%wsh[i+2], rest/wsh[i+2]
		}
		// Per axis, the range of output positions whose tap is inside the input, and the first input position.
		count, yOff, xOff := make([]int, len(win)), 0, 0
		xStep := make([]int, len(win))
		for i, v := range win {
			at := tap[i]*int(v.dilation) - int(v.begin) // the input of position 0
			s := int(v.stride)
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
		if product(count) == 0 {
			continue
		}
		var from []int
		ops.Walk(count, xStep, xOff, func(o int) { from = append(from, o) })
		var to []int
		ops.Walk(count, yStr, yOff, func(o int) { to = append(to, o) })
		for s := range n {
			for f := range m {
				out := y[(s*m+f)*ySize:]
				for ch := range cg {
					weight := w[(f*cg+ch)*taps+t]
					src := x[(s*xs[1]+f/(m/group)*cg+ch)*xSize:]
					for i, o := range to {
						out[o] += weight * src[from[i]]
					}
				}
			}
		}
	}
	if b != nil {
		for i := range y {
			y[i] += b[i/ySize%m]
		}
	}
	return y, nil
}

// alongConv: along a spatial axis, output step o reads input steps o*stride-begin … o*stride-begin+(taps-1)*dilation.
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
	win, err := windows(n, len(xs)-2)
	taps, ok := ws[f.Axis].Known()
	if err != nil || !ok {
		return spread(n, ops.Global(n, in))
	}
	return spread(n, alongWindow(n, in, f, win[f.Axis-2], taps))
}

// alongWindow returns the fact of a value whose step o is computed from the steps o*stride-begin to
// o*stride-begin+(taps-1)*dilation of a value with fact f.
func alongWindow(n *ir.Node, in []ir.Fact, f ir.Fact, w window, taps int64) ir.Fact {
	if w.same != 0 {
		if w.stride != 1 { // the pads depend on the size
			return ops.Global(n, in)
		}
		w = w.bind(taps*w.dilation+1, taps)
	}
	if f.Back < ir.Unbounded {
		f.Back += w.begin * f.Stride
	}
	if f.Ahead < ir.Unbounded {
		f.Ahead += ((taps-1)*w.dilation - w.begin) * f.Stride
	}
	f.Stride *= w.stride
	return f
}
