package passes

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	. "github.com/essmc/essmc/passes/match" //nolint:revive // patterns are written like the operators that they match
)

// rewritten are the weights and bias of a linear operator with a scale and shift of channels beside it, where one of
// these is settled. Nodes compute them.
type rewritten struct {
	rank, axis int   // of the scaled value, and its channels
	channels   int64 // that are scaled
	// weights returns the weights (float64) times the factors of channels.
	weights func(w written, long, scale *ir.Value) *ir.Value
	// sums returns what a shift before the operator adds to each of its outputs; nil: the shift is after it.
	sums    func(w written, long, shift *ir.Value) *ir.Value
	outputs int64
}

// ofConstants reports whether everything that a match of convRules computes with is constant.
func ofConstants(m *Match) bool {
	v := m.Val
	return AllConst(v("w"), v("b"), v("k"), v("scale"), v("shift"), v("mean"), v("variance"))
}

// weightShape returns the shape of a match's weights, if their type and that of the bias let them be scaled.
func weightShape(m *Match) (shape []int64, ok bool) {
	w := m.Val("w")
	if d := w.Elem(); d != tensor.Float32 && d != tensor.Float64 || !ops.Settles(w) || len(w.Shape()) < 2 ||
		len(w.Shape()) > 6 {
		return nil, false
	}
	for _, d := range w.Shape() {
		n, _ := d.Known()
		if n == 0 {
			return nil, false
		}
		shape = append(shape, n)
	}
	return shape, true
}

// isVector reports whether v has n elements in one axis, or is absent.
func isVector(v *ir.Value, n int64) bool {
	return v == nil || len(v.Shape()) == 1 && v.Shape()[0].Equal(ir.Const(n)) && v.Elem().IsFloat()
}

// writeAfter prepares the weights and bias of an operator whose output channels, on an axis from the left or the right,
// are scaled and shifted.
func writeAfter(m *Match, op string, axis int) string {
	n := m.Node("linear")
	shape, ok := weightShape(m)
	if !ok {
		return Leave
	}
	group := int64(1)
	if op == "Conv" || op == "ConvTranspose" {
		group = ops.Int(n, "group")
	}
	r := &rewritten{rank: len(m.Root.Outputs[0].Shape()), axis: axis}
	switch taps := shape[2:]; {
	case op == "ConvTranspose":
		if group < 1 || shape[0]%group != 0 {
			return Leave
		}
		r.channels = group * shape[1]
		r.weights = func(w written, long, scale *ir.Value) *ir.Value {
			long = w.shaped(long, group, shape[0]/group, shape[1], -1)
			return w.shaped(w.do("Mul", long, w.shaped(scale, group, 1, shape[1], 1)), shape...)
		}
	case op == "Gemm" && ops.Int(n, "transB") == 0:
		r.channels = shape[1]
		r.weights = func(w written, long, scale *ir.Value) *ir.Value { return w.do("Mul", long, scale) }
	default:
		r.channels = shape[0]
		r.weights = func(w written, long, scale *ir.Value) *ir.Value {
			rows := []int64{-1, 1}
			for range taps {
				rows = append(rows, 1)
			}
			return w.do("Mul", long, w.shaped(scale, rows...))
		}
	}
	r.outputs = r.channels
	if op == "Gemm" && (n.Attrs.Float("alpha", 1) != 1 || n.Attrs.Float("beta", 1) != 1) ||
		!isVector(m.Val("b"), r.outputs) || !r.affine(m) {
		return Leave
	}
	m.Found = r
	return ""
}

// writeBefore prepares the weights and bias of a convolution whose input channels are scaled and shifted before it.
func writeBefore(m *Match) string {
	n := m.Node("linear")
	shape, ok := weightShape(m)
	group := ops.Int(n, "group")
	if !ok || group < 1 || shape[0]%group != 0 {
		return Leave
	}
	each, ins := shape[0]/group, shape[1]                      // output and input channels per group
	product := func(w written, long, by *ir.Value) *ir.Value { // (groups, outputs, inputs, taps)
		return w.do("Mul", w.shaped(long, group, each, ins, -1), w.shaped(by, group, 1, ins, 1))
	}
	r := &rewritten{rank: len(shape), axis: 1, channels: ins * group, outputs: shape[0],
		weights: func(w written, long, scale *ir.Value) *ir.Value {
			return w.shaped(product(w, long, scale), shape...)
		},
		sums: func(w written, long, shift *ir.Value) *ir.Value {
			sums := w.b.Op("", "ReduceSum", []*ir.Value{product(w, long, shift), w.b.Ints(2, 3)}, ir.A("keepdims", 0))
			return w.shaped(sums, shape[0])
		}}
	if !isVector(m.Val("b"), r.outputs) || !r.affine(m) {
		return Leave
	}
	if name := m.Node("affine").Op.Name; name != "Mul" && name != "Div" { // a shift is not added to what is padded
		ws, err := ops.Windows(n, len(shape)-2)
		if err != nil {
			return Leave
		}
		for _, w := range ws {
			if w.Padded() {
				return Leave
			}
		}
	}
	m.Found = r
	return ""
}

// affine reports whether the match's scale and shift are of r's channels.
func (r *rewritten) affine(m *Match) bool {
	if m.Node("affine").Op.Name == "BatchNormalization" {
		for _, name := range []string{"scale", "shift", "mean", "variance"} {
			if v := m.Val(name); v == nil || !isVector(v, r.channels) {
				return false
			}
		}
		return r.axis == 1 || r.rank == 2 // its channels are on axis 1
	}
	k := m.Val("k")
	if m.Node("affine").Op.Name == "Div" && !divides(k) {
		return false
	}
	axis := r.axis
	if axis < 0 {
		axis += r.rank
	}
	return r.rank > 0 && VariesAlong(k, r.rank, axis, r.channels)
}

// divides reports whether v is a constant without zeros. A quotient by 0 has a sign, which factors of weights would
// lose.
func divides(v *ir.Value) bool {
	if v.Const == nil {
		return false
	}
	x, err := v.Const.Float64s()
	return err == nil && !slices.Contains(x, 0)
}

// channelMap returns the scale and the shift of each channel in float64; nil: 1 or 0.
func (r *rewritten) channelMap(w written, m *Match) (scale, shift *ir.Value) {
	n, v := m.Node("affine"), m.Val
	if n.Op.Name == "BatchNormalization" {
		return w.batchNorm(v("scale"), v("shift"), v("mean"), v("variance"),
			n.Attrs.Float("epsilon", float64(float32(1e-5))))
	}
	k := w.do("Expand", w.shaped(w.double(v("k")), -1), w.b.Ints(r.channels))
	switch n.Op.Name {
	case "Mul":
		return k, nil
	case "Div":
		return w.do("Div", w.number(1), k), nil
	case "Sub":
		k = w.do("Neg", k)
	}
	return nil, k
}

// make makes the linear operator of a match again.
func (r *rewritten) make(b *ir.Builder, m *Match) []*ir.Value {
	w, n := written{b}, m.Node("linear")
	elem := m.Val("w").Elem()
	if n.Op.Domain == "essm" {
		elem = tensor.Float64
	}
	scale, shift := r.channelMap(w, m)
	long, bias := w.double(m.Val("w")), w.double(m.Val("b"))
	add := func(x *ir.Value) {
		if bias == nil {
			bias = x
		} else {
			bias = w.do("Add", bias, x)
		}
	}
	if shift != nil && r.sums != nil {
		shift = r.sums(w, long, shift)
	} else if scale != nil && r.sums == nil && bias != nil {
		bias = w.do("Mul", bias, scale)
	}
	if shift != nil {
		add(shift)
	}
	if scale != nil {
		long = r.weights(w, long, scale)
	}
	in := []*ir.Value{m.Val("x"), w.as(long, elem)}
	if bias != nil {
		in = append(in, w.as(bias, elem))
	}
	return []*ir.Value{b.Op(n.Op.Domain, n.Op.Name, in, n.Attrs...)}
}
