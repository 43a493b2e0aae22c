package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// CausalConvWithState is a depthwise convolution along time that keeps the last steps for the next call.
var CausalConvWithState = composed(&ir.Op{Name: "CausalConvWithState",
	Doc: "Each channel of input (B,C,L), or (B,L,C) with channels_last, behind the steps of past_state (B,C,P) or " +
		"zeros, convolved with its own row of weight (C,1,K), plus bias, then x*sigmoid(x) if activation is silu or " +
		"swish. P is (K-1)*dilation, and present_state has the last P steps.",
	In:  ops.Sig("input:T[B,_,_]", "weight:T[C,1,K]", "bias:T[C]?", "past_state:T[B,_,_]?"),
	Out: ops.Sig("output:T[B,_,_]", "present_state:T[B,_,_]"), Elems: types{"T": half16}, Tol: ir.Summing,
	Attrs: []ir.AttrSpec{ops.IntSpec("ndim", 1, "must be 1"), ops.IntSpec("dilation", 1, "steps between taps"),
		ops.ChoiceSpec("activation", "function of the sums", "none", "silu", "swish"),
		ops.IntSpec("channels_last", 0, "whether channels are the last axis"),
		ops.IntSpec("state_channels_last", -1, "must be -1"), ops.IntSpec("state_window", 0, "must be 0"),
		ops.IntSpec("state_length", 0, "must be 0"), ops.IntSpec("state_update_capacity", 0, "must be 0"),
		ops.IntSpec("input_channels", 0, "must be 0"), ops.IntSpec("input_channel_offset", 0, "must be 0")},
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		for name, only := range map[string]int64{"ndim": 1, "state_channels_last": -1, "state_window": 0,
			"state_length": 0, "state_update_capacity": 0, "input_channels": 0, "input_channel_offset": 0} {
			if v := ops.Int(n, name); v != only {
				return fail(b, "%s: expected %d, found %d", name, only, v)
			}
		}
		spacing := ops.Int(n, "dilation")
		if spacing < 1 {
			return fail(b, "dilation: expected 1 or more, found %d", spacing)
		}
		channels, past := dim(b, x[1], 0, "weight"), (dim(b, x[1], 2, "weight")-1)*spacing
		turn := func(v *ir.Value) *ir.Value {
			if ops.Int(n, "channels_last") == 0 {
				return v
			}
			return with(b, "Transpose", vals(v), ir.A("perm", []int{0, 2, 1}))
		}
		if b.Err() != nil || channels < 1 || past < 0 {
			return fail(b, "weight: expected a row of 1 or more for each channel, found %v", x[1].Type)
		}
		var all *ir.Value
		if p := in(x, 3); p != nil {
			all = turn(with(b, "Concat", vals(p, x[0]), ir.A("axis", 2-int(ops.Int(n, "channels_last")))))
		} else {
			all = std(b, "Pad", turn(x[0]), b.Ints(past, 0), constLike(b, x[0], 0), b.Ints(2))
		}
		attrs := []ir.Attr{ir.A("group", channels), ir.A("dilations", []int64{spacing})}
		args := vals(all, x[1])
		if in(x, 2) != nil {
			args = append(args, x[2])
		}
		y := with(b, "Conv", args, attrs...)
		if ops.Str(n, "activation") != "none" {
			y = std(b, "Mul", y, std(b, "Sigmoid", y))
		}
		if len(n.Outputs) < 2 {
			return vals(turn(y))
		}
		end := with(b, "Shape", vals(all), ir.A("start", 2))
		state := std(b, "Slice", all, std(b, "Sub", end, b.Ints(past)), end, b.Ints(2))
		return vals(turn(y), turn(state))
	}})
