package microsoft

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

var convAttrs = []ir.AttrSpec{ops.ChoiceSpec("auto_pad", "computation of pads from sizes", "NOTSET", "SAME_UPPER",
	"SAME_LOWER", "VALID"),
	ops.Spec("dilations", ir.AttrInts, "steps between taps"), ops.IntSpec("group", 1, "number of groups of channels"),
	ops.Spec("kernel_shape", ir.AttrInts, "as W has it"),
	ops.Spec("pads", ir.AttrInts, "zeros before and after each axis"),
	ops.Spec("strides", ir.AttrInts, "steps between results")}

var activationAttrs = []ir.AttrSpec{ops.Spec("activation", ir.AttrString, "activation"),
	ops.Spec("activation_params", ir.AttrFloats, "its parameters")}

// Convolutions with an addend and an activation, and with channels last.
var (
	FusedConv = composed(&ir.Op{Name: "FusedConv", Doc: "Conv plus Z, then an activation by its ONNX name.",
		In: ops.Sig("X:T", "W:T", "B:T?", "Z:T?"), Out: ops.Sig("Y:T"),
		Attrs: append(convAttrs[:6:6], activationAttrs...), Tol: ir.Summing,
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(fusedConv(b, n, x[0], x, in(x, 3)))
		}})
	NhwcConv = composed(&ir.Op{Name: "NhwcConv",
		Doc: "Conv of X with channels as the last axis of X and Y; W is as for Conv.",
		In:  ops.Sig("X:T", "W:T", "B:T?"), Out: ops.Sig("Y:T"), Attrs: convAttrs, Tol: ir.Summing, Body: nhwcConv})
	NhwcFusedConv = composed(&ir.Op{Name: "NhwcFusedConv", Doc: "NhwcConv plus Z, then an activation by its ONNX name.",
		In: ops.Sig("X:T", "W:T", "B:T?", "Z:T?"), Out: ops.Sig("Y:T"),
		Attrs: append(convAttrs[:6:6], activationAttrs...), Tol: ir.Summing, Body: nhwcConv})
)

func fusedConv(b *ir.Builder, n *ir.Node, x *ir.Value, args []*ir.Value, z *ir.Value) *ir.Value {
	conv := vals(x, args[1], in(args, 2))
	if conv[2] == nil {
		conv = conv[:2]
	}
	y := add(b, with(b, "Conv", conv, attrsOf(n, "auto_pad", "dilations", "group", "kernel_shape", "pads",
		"strides")...), z)
	params := n.Attrs.Floats("activation_params", nil)
	return activate(b, y, ops.Str(n, "activation"), func(i int, def float64) float64 {
		if i < len(params) {
			return params[i]
		}
		return def
	})
}

func nhwcConv(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
	z := in(x, 3)
	if z != nil {
		z = channels(b, z, false)
	}
	return vals(channels(b, fusedConv(b, n, channels(b, x[0], false), x, z), true))
}

// channels moves the channels of X (N,…,C) to axis 1, or of X (N,C,…) to the end.
func channels(b *ir.Builder, x *ir.Value, last bool) *ir.Value {
	r := rank(b, x, "X")
	if r < 3 {
		return x
	}
	perm := []int64{0}
	if !last {
		perm = append(perm, int64(r-1))
	}
	for i := 1; i < r-1; i++ {
		perm = append(perm, int64(i))
	}
	if last {
		for i := 1; i < r-1; i++ {
			perm[i]++
		}
		perm = slices.Concat(perm, []int64{1})
	}
	return with(b, "Transpose", vals(x), ir.A("perm", perm))
}

// Quantized operators with channels as the last axis.
var (
	NhwcMaxPool = composed(&ir.Op{Name: "NhwcMaxPool", Doc: "MaxPool of x with channels as the last axis of x and y.",
		In: ops.Sig("x:T"), Out: ops.Sig("y:T"), Elems: types{"T": bytesOnly}, Tol: ir.Exact,
		Attrs: []ir.AttrSpec{convAttrs[0], ops.IntSpec("ceil_mode", 0, "whether sizes are rounded up"),
			ops.Spec("dilations", ir.AttrInts, "distances within the windows"),
			ops.Required(ops.Spec("kernel_shape", ir.AttrInts, "size of the windows")), convAttrs[4], convAttrs[5]},
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			return vals(channels(b, with(b, "MaxPool", vals(channels(b, x[0], false)),
				attrsOf(n, "auto_pad", "ceil_mode",
					"dilations", "kernel_shape", "pads", "strides")...), true))
		}})
	QLinearConv = composed(&ir.Op{Name: "QLinearConv",
		Doc: "QLinearConv of ai.onnx, with channels as the last axis of x and y if channels_last is 1; w is as there.",
		In: ops.Sig("x:T1", "x_scale:float32", "x_zero_point:T1", "w:T2", "w_scale:float32", "w_zero_point:T2",
			"y_scale:float32", "y_zero_point:T3", "B:int32?"), Out: ops.Sig("y:T3"), Tol: ir.Exact,
		Elems: types{"T1": bytesOnly, "T2": bytesOnly, "T3": bytesOnly},
		Attrs: append(convAttrs[:6:6], ops.IntSpec("channels_last", 0, "whether channels are the last axis")),
		Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
			attrs := attrsOf(n, "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
			if ops.Int(n, "channels_last") == 0 {
				return vals(with(b, "QLinearConv", x, attrs...))
			}
			args := append(vals(channels(b, x[0], false)), x[1:]...)
			return vals(channels(b, with(b, "QLinearConv", args, attrs...), true))
		}})
)
