package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// ConvTranspose is the gradient of Conv with respect to its input.
var ConvTranspose = ops.Same(ops.Register(&ir.Op{
	Name: "ConvTranspose", Since: 22,
	Doc: "The sum of the products of each element of X (N,C,…) with the filters W (C,M/group,…), stride steps apart " +
		"in the output (N,M,…), without pads, plus B (M).",
	In: ops.Sig("X:T", "W:T", "B:T[_]?"), Out: ops.Sig("Y:T"),
	Attrs: []ir.AttrSpec{
		autoPad, intsAttr("dilations", "distance of filter taps per axis (default 1)"),
		intAttr("group", 1, "number of groups of channels"),
		intsAttr("kernel_shape", "filter sizes (default: from W)"),
		intsAttr("output_padding", "added to the ends of the output (default 0)"),
		intsAttr("output_shape", "sizes of the output's axes after the channels; pads are computed from them"),
		intsAttr("pads", "all begins, then all ends (default 0)"),
		intsAttr("strides", "steps per axis (default 1)"),
	},
	Infer: inferConvTranspose, Eval: evalConvTranspose, Along: alongConvTranspose,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		w := n.In(1).Shape()
		if len(w) == 0 {
			return workOf(n, bind, 0)
		}
		return workOf(n, bind, 2*sizeOf(n.In(0).Shape(), bind)*sizeOf(w[1:], bind))
	},
	Gradient: gradConvTranspose,
	Linear:   ops.LinearIn([]int{0, 2}, []int{1, 2}),
	Tol:      ir.Summing,
}), 11, 1)

// spreads reads the attributes for k spatial axes: windows, additions at the ends, and output sizes (nil: none).
func spreads(n *ir.Node, k int) (win []ops.Window, extra, sizes []int64, err error) {
	if win, err = ops.Windows(n, k); err != nil {
		return nil, nil, nil, err
	}
	extra = n.Attrs.Ints("output_padding", make([]int64, k))
	sizes = n.Attrs.Ints("output_shape", nil)
	if len(sizes) == k+2 { // some exporters include batch and channels
		sizes = sizes[2:]
	}
	if len(extra) != k || sizes != nil && len(sizes) != k {
		return nil, nil, nil, fmt.Errorf("output_padding %v, output_shape %v: expected %d numbers", extra, sizes, k)
	}
	for i := range k {
		if extra[i] < 0 || extra[i] > 1<<31 || sizes != nil && (sizes[i] < 0 || sizes[i] > 1<<31) {
			return nil, nil, nil, fmt.Errorf("output_padding %v, output_shape %v: outside of 0 … 2^31", extra, sizes)
		}
	}
	return win, extra, sizes, nil
}

// spreadSize returns the size of d elements spread by k taps, before the pads are removed.
func spreadSize(w ops.Window, d, k ir.Dim, extra int64) ir.Dim {
	return d.Sub(
		ir.Const(1)).Mul(ir.Const(w.Stride)).Add(k.Sub(ir.Const(1)).Mul(ir.Const(w.Dilation))).Add(ir.Const(extra + 1))
}

// spreadOut returns the output's size along axis i.
func spreadOut(w ops.Window, d, k ir.Dim, extra int64, sizes []int64, i int) ir.Dim {
	var out ir.Dim
	switch {
	case sizes != nil:
		return ir.Const(sizes[i])
	case w.Same != 0:
		out = d.Mul(ir.Const(w.Stride))
	default:
		out = spreadSize(w, d, k, extra).Sub(ir.Const(w.Begin + w.End))
	}
	if s, ok := out.Known(); ok && s < 0 {
		return ir.Const(0)
	}
	return out
}

func inferConvTranspose(n *ir.Node) ([]ir.Type, error) {
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
	cw, okW := w.Shape[0].Known()
	if group < 1 || okC && okW && c != cw || okW && cw%group != 0 {
		return nil, fmt.Errorf("X %v, W %v and group %d do not match", x.Shape, w.Shape, group)
	}
	win, extra, sizes, err := spreads(n, k)
	if err != nil {
		return nil, err
	}
	out := ir.Shape{x.Shape[0], w.Shape[1].Mul(ir.Const(group))}
	for i := range win {
		out = append(out, spreadOut(win[i], x.Shape[i+2], w.Shape[i+2], extra[i], sizes, i))
	}
	return one(typed(x.Elem, out))
}

func evalConvTranspose(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
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
	channels := w.Dim(0)
	if group < 1 || group > max(1, channels) || x.Dim(1) != channels || channels%group != 0 {
		return nil, fmt.Errorf("X %s, W %s and group %d do not match", x, w, group)
	}
	mg := w.Dim(1)
	b := ops.F64(c, in, 2)
	if b != nil && len(b) != mg*group {
		return nil, fmt.Errorf("B: expected %d elements, found %d", mg*group, len(b))
	}
	if product(w.Shape()[2:]) == 0 {
		return nil, fmt.Errorf("W %s has no taps", w)
	}
	win, extra, sizes, err := spreads(c.Node, k)
	if err != nil {
		return nil, err
	}
	shape := []int{x.Dim(0), mg * group}
	for i := range win {
		d, t := ir.Const(int64(x.Dim(i+2))), ir.Const(int64(w.Dim(i+2)))
		size, ok := spreadOut(win[i], d, t, extra[i], sizes, i).Known()
		if !ok || size > ops.MaxElems {
			return nil, fmt.Errorf("axis %d of the output is too large", i+2)
		}
		shape = append(shape, tensor.Extent(size))
		if sizes != nil || win[i].Same != 0 {
			full, _ := spreadSize(win[i], d, t, extra[i]).Known()
			total := max(0, full-size)
			if win[i].Begin = total - total/2; win[i].Same > 0 {
				win[i].Begin = total / 2
			}
		}
	}
	if _, err := ops.Elems(shape); err != nil {
		return nil, err
	}
	y := ops.Make[float64](c, product(shape))
	err = spreadOver(c, y, ops.F64(c, in, 0), ops.F64(c, in, 1), shape, x.Shape(), w.Shape(), win, group)
	if err != nil {
		return nil, err
	}
	if places := product(shape[2:]); b != nil {
		for i := range ops.Each(c, len(y)) {
			y[i] += b[i/places%len(b)]
		}
	}
	return ops.One(ops.Real(c, x.DType(), y, shape...))
}

// tapPlaces lists, for one tap, the offsets in the output plane (sizes ys) and the offsets in the input plane (sizes
// xs) that contribute to them: position o*stride + tap*dilation - begin receives from position o. room has two slices
// with an element for each input position, for the result.
func tapPlaces(c *ir.EvalCtx, tap []int, win []ops.Window, xs, ys []int, room [2][]int) (from, to []int) {
	k := len(win)
	xStr, yStr := ops.Strides(xs), ops.Strides(ys)
	count, yStep := make([]int, k), make([]int, k)
	xOff, yOff := 0, 0
	for i, v := range win {
		at, s := int(int64(tap[i])*v.Dilation-v.Begin), int(v.Stride)
		first := 0
		if at < 0 {
			first = (-at + s - 1) / s
		}
		end := 0
		if last := ys[i] - 1 - at; last >= 0 {
			end = min(xs[i], last/s+1)
		}
		count[i] = max(0, end-first)
		xOff += first * xStr[i]
		yOff += (at + first*s) * yStr[i]
		yStep[i] = s * yStr[i]
	}
	if product(count) == 0 {
		return nil, nil
	}
	return offsets(c, room[0], count, xStr, xOff), offsets(c, room[1], count, yStep, yOff)
}

func spreadOver(c *ir.EvalCtx, y, x, w []float64, ys, xs, ws []int, win []ops.Window, group int) error {
	n, channels, mg := xs[0], xs[1], ws[1]
	cg := channels / max(1, group)
	xSize, taps, ySize := product(xs[2:]), product(ws[2:]), product(ys[2:])
	tap, room := make([]int, len(win)), [2][]int{ops.Make[int](c, xSize), ops.Make[int](c, xSize)}
	for t := range taps {
		c.Step(1)
		rest := t
		for i := len(win) - 1; i >= 0; i-- {
			tap[i], rest = rest%ws[i+2], rest/ws[i+2]
		}
		from, to := tapPlaces(c, tap, win, xs[2:], ys[2:], room)
		for s := range n {
			c.Step(1)
			for ch := range channels {
				c.Step(1)
				src := x[(s*channels+ch)*xSize:]
				for f := range mg {
					c.Step(1)
					weight := w[(ch*mg+f)*taps+t]
					out := y[(s*mg*group+ch/cg*mg+f)*ySize:]
					for i, o := range ops.All(c, to) {
						out[o] += weight * src[from[i]]
					}
				}
			}
		}
	}
	return nil
}

// alongConvTranspose returns the facts of a ConvTranspose. Step o of the output depends on the input steps (o +
// begin - tap*dilation)/stride that are integers.
func alongConvTranspose(n *ir.Node, in []ir.Fact) []ir.Fact {
	f := in[0]
	f.State = 0
	for _, o := range in[1:] {
		if !o.Constant() {
			return spread(n, ops.Global(n, in))
		}
	}
	if f.Constant() || f.Global || f.Axis <= 0 {
		return spread(n, f)
	}
	ws := n.In(1).Shape()
	if f.Axis == 1 || len(ws) != len(n.In(0).Shape()) {
		return spread(n, ops.Global(n, in))
	}
	win, _, sizes, err := spreads(n, len(ws)-2)
	taps, ok := ws[f.Axis].Known()
	if err != nil || !ok || sizes != nil {
		return spread(n, ops.Global(n, in))
	}
	w := win[f.Axis-2]
	if w.Same != 0 || f.Stride%w.Stride != 0 {
		return spread(n, ops.Global(n, in))
	}
	f.Stride /= w.Stride
	if f.Back < ir.Unbounded {
		f.Back += ((taps-1)*w.Dilation - w.Begin) * f.Stride
	}
	if f.Ahead < ir.Unbounded {
		f.Ahead += w.Begin * f.Stride
	}
	return spread(n, f)
}
