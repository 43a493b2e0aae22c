package std

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// windowAttrs are the attributes of a convolution with the given windows.
func windowAttrs(win []ops.Window, pads []int64, group int64) []ir.Attr {
	var strides, dilations []int64
	for _, w := range win {
		strides, dilations = append(strides, w.Stride), append(dilations, w.Dilation)
	}
	attrs := []ir.Attr{ir.A("strides", strides), ir.A("dilations", dilations), ir.A("group", group)}
	if pads != nil {
		attrs = append(attrs, ir.A("pads", pads))
	}
	return attrs
}

// resolved gives windows their pads; it fails if they depend on sizes that are not known.
func resolved(b *ir.Builder, x *ir.Value, win []ops.Window, taps []ir.Dim) (pads []int64) {
	k := len(win)
	pads = make([]int64, 2*k)
	for i := range win {
		n, known := taps[i].Known()
		w, ok := win[i].Resolve(x.Shape()[i+2], n)
		if !ok || !known && win[i].Same != 0 {
			b.Fail(&ops.NoGradientError{Why: "pads follow from a size that is not known"})
			return pads
		}
		win[i] = w
		pads[i], pads[k+i] = w.Begin, w.End
	}
	return pads
}

func negative(v []int64) []int64 {
	out := slices.Clone(v)
	for i := range out {
		out[i] = -out[i]
	}
	return out
}

// sumOverPlaces sums over the samples and all places after the channels: the gradient of a bias.
func sumOverPlaces(b *ir.Builder, g *ir.Value) *ir.Value {
	axes := []int64{0}
	for i := 2; i < len(g.Shape()); i++ {
		axes = append(axes, int64(i))
	}
	return attr(b, "ReduceSum", []*ir.Value{g, b.Ints(axes...)}, ir.A("keepdims", 0))
}

// gradConv is the Gradient of Conv.
func gradConv(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	x, w, g := n.In(0), n.In(1), dOut[0]
	k := len(x.Shape()) - 2
	win, err := ops.Windows(n, max(k, 0))
	if err != nil || k < 1 {
		b.Fail(&ops.NoGradientError{Why: "the rank of X is not known"})
		return nil
	}
	pads, group := resolved(b, x, win, w.Shape()[2:]), getInt(n, "group")
	full := attr(b, "ConvTranspose", []*ir.Value{g, w}, windowAttrs(win, nil, group)...)
	dx := ops.PlaceLike(b, full, x, append([]int64{0, 0}, negative(pads[:k])...)...)
	grads := []*ir.Value{dx, gradFilters(b, x, g, w, win, pads, group)}
	if n.In(2) != nil && b.Err() == nil {
		grads = append(grads, sumOverPlaces(b, g))
	}
	return grads
}

// gradFilters is the gradient of Conv with respect to its filters: a convolution of the input by the gradient of the
// output, where samples and channels change places, and strides and dilations.
func gradFilters(b *ir.Builder, x, g, w *ir.Value, win []ops.Window, pads []int64, group int64) *ir.Value {
	if b.Err() != nil {
		return nil
	}
	k := len(win)
	exchanged := make([]ops.Window, k)
	for i, w := range win {
		exchanged[i] = ops.Window{Stride: w.Dilation, Dilation: w.Stride}
	}
	if group > 1 { // (N,G·c,…) → (c,G·N,…)
		places := func(v *ir.Value) *ir.Value {
			return op(b, "Slice", op(b, "Shape", v), b.Ints(2),
				b.Ints(int64(k+2)))
		}
		c := op(b, "Slice", ops.ShapeOf(b, w), b.Ints(1), b.Ints(2))
		split := attr(b, "Concat", []*ir.Value{b.Ints(0, group), c, places(x)}, ir.A("axis", 0))
		perm := []int64{2, 1, 0}
		for i := range k {
			perm = append(perm, int64(i+3))
		}
		x5 := attr(b, "Transpose", []*ir.Value{op(b, "Reshape", x, split)}, ir.A("perm", perm))
		x = op(b, "Reshape", x5, attr(b, "Concat", []*ir.Value{c, b.Ints(-1), places(x)}, ir.A("axis", 0)))
	} else {
		x = exchange(b, x)
	}
	out := attr(b, "Conv", []*ir.Value{x, exchange(b, g)}, windowAttrs(exchanged, pads, group)...)
	return ops.PlaceLike(b, exchange(b, out), w, make([]int64, k+2)...)
}

// exchange swaps the first two axes.
func exchange(b *ir.Builder, v *ir.Value) *ir.Value {
	if b.Err() != nil {
		return nil
	}
	perm := []int64{1, 0}
	for i := 2; i < len(v.Shape()); i++ {
		perm = append(perm, int64(i))
	}
	return attr(b, "Transpose", []*ir.Value{v}, ir.A("perm", perm))
}

// gradConvTranspose is the Gradient of ConvTranspose: a Conv.
func gradConvTranspose(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	x, w, g := n.In(0), n.In(1), dOut[0]
	k := len(x.Shape()) - 2
	win, extra, sizes, err := spreads(n, max(k, 0))
	if err != nil || k < 1 {
		b.Fail(&ops.NoGradientError{Why: "the rank of X is not known"})
		return nil
	}
	// All that the input and the taps reach; the output is a part of it.
	reach, ends := make([]int64, k), make([]int64, k)
	for i := range win {
		d, taps := x.Shape()[i+2], w.Shape()[i+2]
		if sizes != nil || win[i].Same != 0 {
			full, ok := spreadSize(win[i], d, taps, extra[i]).Known()
			size, ok2 := spreadOut(win[i], d, taps, extra[i], sizes, i).Known()
			if !ok || !ok2 {
				b.Fail(&ops.NoGradientError{Why: "pads follow from a size that is not known"})
				return nil
			}
			total := max(0, full-size)
			if win[i].Begin = total - total/2; win[i].Same > 0 {
				win[i].Begin = total / 2
			}
		}
		reach[i] = win[i].Begin
		all := spreadSize(win[i], d, taps, 0)
		end, ok := all.Sub(ir.Const(win[i].Begin)).Sub(g.Shape()[i+2]).Known()
		if !ok {
			b.Fail(&ops.NoGradientError{Why: "the size of the output is not known"})
			return nil
		}
		ends[i] = end
	}
	pads := append([]int64{0, 0}, reach...)
	pads = append(append(pads, 0, 0), ends...)
	all := op(b, "Pad", g, b.Ints(pads...))
	group := getInt(n, "group")
	dx := attr(b, "Conv", []*ir.Value{all, w}, windowAttrs(win, make([]int64, 2*k), group)...)
	grads := []*ir.Value{dx, gradFilters(b, all, x, w, win, make([]int64, 2*k), group)}
	if n.In(2) != nil && b.Err() == nil {
		grads = append(grads, sumOverPlaces(b, g))
	}
	return grads
}

// gradMaxPool adds the gradients up where the largest elements were.
func gradMaxPool(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	if dOut[0] == nil {
		return nil
	}
	attrs := slices.DeleteFunc(slices.Clone(n.Attrs), func(a ir.Attr) bool { return a.Name == "storage_order" })
	at := b.Apply(n.Op, 2, n.Inputs, attrs)[1]
	x := n.In(0)
	flat := func(v *ir.Value) *ir.Value { return op(b, "Reshape", v, b.Ints(-1)) }
	all := op(b, "Expand", ops.ScalarLike(b, 0, x), op(b, "Reshape", op(b, "Size", x), b.Ints(1)))
	sum := attr(b, "ScatterElements", []*ir.Value{all, flat(at), flat(dOut[0])}, ir.A("axis", 0), ir.A("reduction",
		"add"))
	return []*ir.Value{ops.ReshapeLike(b, sum, x)}
}

// sumPool sums x (N,C,…) over the windows of a pool with the output y.
func sumPool(b *ir.Builder, n *ir.Node, x, y *ir.Value, win []ops.Window, pads []int64) *ir.Value {
	k := len(win)
	pads = slices.Clone(pads)
	for i, w := range win {
		if getInt(n, "ceil_mode") != 0 { // one window more may begin inside
			pads[k+i] += w.Stride - 1
		}
	}
	taps := n.Attrs.Ints("kernel_shape", nil)
	ones := op(b, "Expand", ops.ScalarLike(b, 1, x), b.Ints(append([]int64{1, 1}, taps...)...))
	part := func(v *ir.Value, from, to int64) *ir.Value {
		return op(b, "Slice", op(b, "Shape", v), b.Ints(from), b.Ints(to))
	}
	planes := attr(b, "Concat", []*ir.Value{b.Ints(-1, 1), part(x, 2, int64(k+2))}, ir.A("axis", 0))
	sum := attr(b, "Conv", []*ir.Value{op(b, "Reshape", x, planes), ones}, windowAttrs(win, pads, 1)...)
	back := attr(b, "Concat", []*ir.Value{part(x, 0, 2), part(sum, 2, int64(k+2))}, ir.A("axis", 0))
	return ops.PlaceLike(b, op(b, "Reshape", sum, back), y, make([]int64, k+2)...)
}

// bodyPool computes AveragePool and LpPool by sums over windows.
func bodyPool(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	x := in[0]
	k := len(x.Shape()) - 2
	win, taps, err := poolWindows(n, max(k, 0))
	if err != nil || k < 1 {
		b.Fail(&ops.NoGradientError{Why: "the rank of X is not known"})
		return nil
	}
	dims := make([]ir.Dim, k)
	for i, t := range taps {
		dims[i] = ir.Const(t)
	}
	y, pads := n.Out(0), resolved(b, x, win, dims)
	if _, known := y.Shape().Known(); !known { // for its shape only
		y = b.Apply(n.Op, 1, in, n.Attrs)[0]
	}
	if n.Op.Name == "LpPool" {
		p, err := exponent(n)
		if err != nil {
			b.Fail(err)
			return nil
		}
		powers := op(b, "Pow", op(b, "Abs", x), ops.ScalarLike(b, p, x))
		return []*ir.Value{op(b, "Pow", sumPool(b, n, powers, y, win, pads), ops.ScalarLike(b, 1/p, x))}
	}
	sum := sumPool(b, n, x, y, win, pads)
	ones := ops.FilledLike(b, 1, x)
	if getInt(n, "count_include_pad") != 0 {
		all := append(append(append([]int64{0, 0}, pads[:k]...), 0, 0), pads[k:]...)
		ones = op(b, "Pad", ones, b.Ints(all...), ops.ScalarLike(b, 1, x))
		pads = make([]int64, 2*k)
	}
	count := sumPool(b, n, ones, y, win, pads)
	return []*ir.Value{op(b, "Div", sum, op(b, "Max", count, ops.ScalarLike(b, 1, x)))} // an empty window is 0
}

// gradCast rounds the gradient to the type of the input.
func gradCast(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	if !n.In(0).Elem().IsFloat() {
		return nil
	}
	return []*ir.Value{ops.CastLike(b, dOut[0], n.In(0))}
}

// gradDropout drops the gradients of the elements that were dropped.
func gradDropout(b *ir.Builder, n *ir.Node, dOut []*ir.Value) []*ir.Value {
	training := n.In(2)
	if dOut[0] == nil {
		return nil
	}
	if training == nil {
		return dOut[:1]
	}
	if n.Out(1) == nil { // the same draw
		n.Outputs = append(n.Outputs[:1:1], &ir.Value{Name: b.Unique("mask"), Def: n})
		if err := ir.InferNode(n); err != nil {
			b.Fail(err)
			return nil
		}
	}
	g, one := dOut[0], ops.ScalarLike(b, 1, dOut[0])
	ratio := ops.ScalarLike(b, 0.5, g)
	if n.In(1) != nil {
		ratio = ops.CastLike(b, n.In(1), g)
	}
	kept, zero := op(b, "Sub", one, ratio), ops.ScalarLike(b, 0, g)
	scale := op(b, "Where", training, op(b, "Div", one, kept), one)
	grads := []*ir.Value{op(b, "Mul", op(b, "Where", n.Out(1), g, zero), scale), nil}
	if n.In(1) != nil {
		byRatio := op(b, "Div", ops.SumLike(b, op(b, "Mul", g, n.Out(0)), one), kept)
		grads[1] = ops.CastLike(b, op(b, "Where", training, byRatio, zero), n.In(1))
	}
	return grads
}

// bodyPow gives both operands a floating type.
func bodyPow(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
	return []*ir.Value{op(b, "Pow", in[0], ops.CastLike(b, in[1], in[0]))}
}
