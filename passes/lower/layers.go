package lower

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
)

// rules lower the essm operators to standard ones. Operators without a rule are expanded by their bodies.
var rules = map[string]func(l *lowerer, n *ir.Node) []*ir.Value{
	"SSM": lowerSystem, "DenseSSM": lowerSystem,
	"HeadLinear":   func(l *lowerer, n *ir.Node) []*ir.Value { return one(l.headLinear(n.Inputs[0], n.Inputs[1])) },
	"HeadScale":    func(l *lowerer, n *ir.Node) []*ir.Value { return one(l.headScale(n.Inputs[0], n.Inputs[1])) },
	"Linear":       lowerLinear,
	"Affine":       lowerAffine,
	"BatchNorm":    lowerBatchNorm,
	"ScalarNorm":   lowerScalarNorm,
	"InstanceNorm": lowerInstanceNorm,
	"Embedding":    lowerEmbedding,
	"Pick":         lowerPick,
	"Pair":         lowerPair,
	"StateOrZero":  lowerStateOrZero,
	"StepMask":     lowerStepMask,
	"DPLRScan":     lowerDPLRScan, "GatedScan": lowerGatedScan, "SelectiveScan": lowerSelectiveScan,
	"LongConv": lowerLongConv, "FourierMix": lowerFourierMix,
	"SoftmaxConv": lowerSoftmaxConv, "SubsetProducts": lowerSubsetProducts,
}

func one(v *ir.Value) []*ir.Value { return []*ir.Value{v} }

// as casts v to the element type elem. A constant stays a constant.
func (l *lowerer) as(v *ir.Value, elem tensor.DType) *ir.Value {
	switch {
	case v == nil || v.Elem() == elem:
		return v
	case v.Const != nil:
		t, err := v.Const.Convert(elem, false)
		if err != nil {
			l.Fail(err)
			return v
		}
		return l.Const(v.Name, t)
	}
	return l.with("Cast", []*ir.Value{v}, ir.A("to", int(elem)))
}

// turned transposes the last two axes of v. A constant stays a constant.
func (l *lowerer) turned(v *ir.Value) *ir.Value {
	rank := len(v.Shape())
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[rank-1], perm[rank-2] = perm[rank-2], perm[rank-1]
	if v.Const == nil || rank != 2 {
		return l.with("Transpose", []*ir.Value{v}, ir.A("perm", perm))
	}
	x, err := v.Const.Float64s()
	if err != nil {
		l.Fail(err)
		return v
	}
	r, c := v.Const.Dim(0), v.Const.Dim(1)
	return l.fill(v.Name, v.Elem(), func(at []int) float64 { return x[at[1]*c+at[0]] }, c, r)
}

func lowerLinear(l *lowerer, n *ir.Node) []*ir.Value {
	x := n.Inputs[0]
	y := l.op("MatMul", x, l.turned(l.as(n.Inputs[1], x.Elem())))
	if b := n.In(2); b != nil {
		y = l.op("Add", y, l.as(b, x.Elem()))
	}
	return one(y)
}

func lowerAffine(l *lowerer, n *ir.Node) []*ir.Value {
	x := n.Inputs[0]
	return one(l.op("Add", l.op("Mul", x, l.as(n.Inputs[1], x.Elem())), l.as(n.Inputs[2], x.Elem())))
}

func lowerBatchNorm(l *lowerer, n *ir.Node) []*ir.Value {
	x, elem := n.Inputs[0], n.Inputs[0].Elem()
	w := make([]*ir.Value, 4)
	for i := range w {
		w[i] = l.wide(n.Inputs[i+1])
	}
	eps := l.number("epsilon", tensor.Float64, []float64{n.Attrs.Float("epsilon", 1e-5)})
	scale := l.op("Div", w[0], l.op("Sqrt", l.op("Add", w[3], eps)))
	shift := l.op("Sub", w[1], l.op("Mul", w[2], scale))
	return one(l.op("Add", l.op("Mul", x, l.as(scale, elem)), l.as(shift, elem)))
}

// mean computes the mean over one axis, which stays with size 1.
func (l *lowerer) mean(x *ir.Value, axis int64) *ir.Value {
	if l.opset >= 18 {
		return l.op("ReduceMean", x, l.Ints(axis))
	}
	return l.with("ReduceMean", []*ir.Value{x}, ir.A("axes", []int64{axis}))
}

func lowerScalarNorm(l *lowerer, n *ir.Node) []*ir.Value {
	x, elem := n.Inputs[0], n.Inputs[0].Elem()
	centred := l.op("Sub", x, l.mean(x, -1))
	std := l.op("Sqrt", l.mean(l.op("Mul", centred, centred), -1))
	return one(l.op("Mul", l.op("Div", l.as(n.Inputs[2], elem), std), l.op("Add", centred, l.as(n.Inputs[1], elem))))
}

func lowerInstanceNorm(l *lowerer, n *ir.Node) []*ir.Value {
	x, elem := n.Inputs[0], n.Inputs[0].Elem()
	centred := l.op("Sub", x, l.mean(x, 1))
	eps := l.number("epsilon", elem, []float64{n.Attrs.Float("epsilon", 1e-5)})
	return one(l.op("Div", centred, l.op("Sqrt", l.op("Add", l.mean(l.op("Mul", centred, centred), 1), eps))))
}

func lowerEmbedding(l *lowerer, n *ir.Node) []*ir.Value {
	return one(l.with("Gather", []*ir.Value{n.Inputs[1], n.Inputs[0]}, ir.A("axis", 0)))
}

// headLinear lowers essm.HeadLinear to a product of batches of matrices, one per head.
func (l *lowerer) headLinear(x, w *ir.Value) *ir.Value {
	if l.Err() != nil {
		return failed
	}
	s := w.Shape()
	dims, known := s.Known()
	if !known || len(dims) != 4 {
		l.Fail(fmt.Errorf("the sizes of the heads' matrices must be known, found %v", s))
		return failed
	}
	elem := x.Elem()
	w = l.as(w, elem)
	ch, heads, p, q := dims[0], dims[1], dims[2], dims[3]
	if ch*heads == 1 {
		return l.op("MatMul", x, l.turned(l.flattened(w, p, q)))
	}
	rank := len(x.Shape())
	g, _ := x.Shape()[rank-1].Known()
	share := ch > 1 && int(g) == heads*q
	sizes := []int64{-1, int64(ch * heads), int64(q)}
	if share {
		sizes = []int64{-1, int64(heads), int64(q)}
	}
	// heads, rows, q
	rows := l.with("Transpose", []*ir.Value{l.op("Reshape", x, l.Ints(sizes...))}, ir.A("perm", []int64{1, 0, 2}))
	turned := l.flattened(w, ch*heads, p, q)
	if share {
		turned = w
	}
	y := l.op("MatMul", rows, l.turned(turned)) // [channels,] heads, rows, p
	if share {
		y = l.with("Transpose", []*ir.Value{y}, ir.A("perm", []int64{2, 0, 1, 3}))
	} else {
		y = l.with("Transpose", []*ir.Value{y}, ir.A("perm", []int64{1, 0, 2}))
	}
	return l.op("Reshape", y, l.rowsOf(x, int64(ch*heads*p)))
}

// flattened reshapes v. A constant stays a constant.
func (l *lowerer) flattened(v *ir.Value, shape ...int) *ir.Value {
	if v.Const != nil {
		t, err := v.Const.Reshape(shape...)
		if err != nil {
			l.Fail(err)
			return v
		}
		return l.Const(v.Name, t)
	}
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	return l.op("Reshape", v, l.Ints(dims...))
}

// rowsOf returns the shape of x with another last dimension.
func (l *lowerer) rowsOf(x *ir.Value, last int64) *ir.Value {
	rank := len(x.Shape())
	if rank == 1 {
		return l.Ints(last)
	}
	shape := l.op("Slice", l.op("Shape", x), l.Ints(0), l.Ints(int64(rank-1)), l.Ints(0))
	return l.with("Concat", []*ir.Value{shape, l.Ints(last)}, ir.A("axis", 0))
}

// headScale lowers essm.HeadScale.
func (l *lowerer) headScale(x, d *ir.Value) *ir.Value {
	if l.Err() != nil {
		return failed
	}
	dims, known := d.Shape().Known()
	if !known || len(dims) != 3 {
		l.Fail(fmt.Errorf("the sizes of the scale must be known, found %v", d.Shape()))
		return failed
	}
	d = l.as(d, x.Elem())
	features := dims[1] * dims[2]
	if dims[0] == 1 {
		return l.op("Mul", x, l.flattened(d, features))
	}
	y := l.op("Mul", l.op("Unsqueeze", x, l.Ints(-2)), l.flattened(d, dims[0], features))
	return l.op("Reshape", y, l.rowsOf(x, int64(dims[0]*features)))
}

// lowerPick selects the first lengths[b] steps by a mask, or for "last" the last of them by its index.
func lowerPick(l *lowerer, n *ir.Node) []*ir.Value {
	x, elem, mode := n.Inputs[0], n.Inputs[0].Elem(), n.Attrs.Str("mode", "")
	lengths := n.In(1)
	step := func(i int64) []*ir.Value {
		return one(l.with("Gather", []*ir.Value{x, l.Const("step", tensor.Scalar(i))}, ir.A("axis", 1)))
	}
	switch {
	case mode == "first":
		return step(0)
	case lengths == nil && mode == "last":
		return step(-1)
	case lengths == nil && mode == "pool":
		return one(l.op("Squeeze", l.mean(x, 1), l.Ints(1)))
	case lengths == nil:
		return one(l.with("ReduceSum", []*ir.Value{x, l.Ints(1)}, ir.A("keepdims", 0)))
	}
	numbers := l.stepNumbers(x, 1)
	until := l.op("Unsqueeze", lengths, l.Ints(1)) // samples, 1
	var mask *ir.Value
	if mode == "last" {
		mask = l.op("Equal", numbers, l.op("Sub", until, l.Ints(1)))
	} else {
		mask = l.op("Less", numbers, until)
	}
	// Where, not Mul: elements after a sequence's end may have any value, NaN included.
	zero := l.number("nothing", elem, []float64{0})
	x = l.op("Where", l.op("Unsqueeze", mask, l.Ints(2)), x, zero)
	y := l.with("ReduceSum", []*ir.Value{x, l.Ints(1)}, ir.A("keepdims", 0))
	if mode == "pool" {
		y = l.op("Div", y, l.with("Cast", []*ir.Value{until}, ir.A("to", int(elem))))
	}
	return one(y)
}

func lowerPair(l *lowerer, n *ir.Node) []*ir.Value {
	x := n.Inputs[0]
	half := l.op("Div", l.with("Gather", []*ir.Value{l.op("Shape", x), l.Ints(0)}, ir.A("axis", 0)), l.Ints(2))
	a := l.op("Slice", x, l.Ints(0), half, l.Ints(0))
	b := l.op("Slice", x, half, l.Ints(math.MaxInt64), l.Ints(0))
	parts := []*ir.Value{a, b}
	if n.Attrs.Bool("nli", false) {
		parts = append(parts, l.op("Sub", a, b), l.op("Mul", a, b))
	}
	return one(l.with("Concat", parts, ir.A("axis", 1)))
}

func lowerStateOrZero(l *lowerer, n *ir.Node) []*ir.Value {
	if s := n.In(1); s != nil {
		return one(l.op("Identity", s))
	}
	samples := l.with("Gather", []*ir.Value{l.op("Shape", n.Inputs[0]), l.Ints(0)}, ir.A("axis", 0))
	shape := l.with("Concat", []*ir.Value{samples, l.Ints(n.Attrs.Int("size", 0))}, ir.A("axis", 0))
	return one(l.with("ConstantOfShape", []*ir.Value{shape}, ir.A("value", tensor.FromSlice([]float32{0}, 1))))
}

// lowerLongConv lowers a long convolution to a Conv with a group per feature.
func lowerLongConv(l *lowerer, n *ir.Node) []*ir.Value {
	x, k := n.Inputs[0], n.Inputs[1]
	if k.Const == nil {
		l.Fail(fmt.Errorf("expected a constant kernel"))
		return one(failed)
	}
	features, taps := k.Const.Dim(0), k.Const.Dim(1)
	w, err := k.Const.Float64s()
	if err != nil {
		l.Fail(err)
		return one(failed)
	}
	before, after := taps-1, 0
	switch n.Attrs.Str("direction", essm.Forward) {
	case essm.Backward:
		before, after = 0, taps
	case essm.Bidirectional:
		after = taps
	}
	forward := n.Attrs.Str("direction", essm.Forward) != essm.Backward
	weight := l.fill("taps", x.Elem(), func(at []int) float64 {
		switch lag := before - at[2]; {
		case lag < 0:
			return w[at[0]*taps-lag-1]
		case forward:
			return w[at[0]*taps+lag]
		}
		return 0
	}, features, 1, before+1+after)
	v := l.with("Transpose", []*ir.Value{x}, ir.A("perm", []int64{0, 2, 1}))
	v = l.with("Conv", []*ir.Value{v, weight}, ir.A("group", features),
		ir.A("kernel_shape", []int64{int64(before + 1 + after)}),
		ir.A("pads", []int64{int64(before), int64(after)}))
	return one(l.with("Transpose", []*ir.Value{v}, ir.A("perm", []int64{0, 2, 1})))
}
