package microsoft

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// DynamicQuantizeLSTM is an LSTM with quantized weights. ONNX Runtime also quantizes the hidden state before each step,
// over as many samples as its threads take together.
var DynamicQuantizeLSTM = composed(&ir.Op{Name: "DynamicQuantizeLSTM",
	Doc: "LSTM of X, rounded to the numbers that DynamicQuantizeLinear gives it, with the dequantized weights W " +
		"(D,I,4H) and R (D,H,4H) of the D directions. Scales and zero points are (D), or (D,4H) for one per column. " +
		"The hidden state is not quantized.",
	In: ops.Sig("X:float32[_,_,I]", "W:T2[D,I,G]", "R:T2[D,H,G]", "B:float32[D,_]?", "sequence_lens:int32[_]?",
		"initial_h:float32[D,_,H]?", "initial_c:float32[D,_,H]?", "P:float32[D,_]?", "W_scale:float32",
		"W_zero_point:T2",
		"R_scale:float32", "R_zero_point:T2"),
	Out: ops.Sig("Y:float32?", "Y_h:float32?", "Y_c:float32?"), Elems: types{"T2": bytesOnly}, Tol: ir.Long,
	Attrs: []ir.AttrSpec{ops.Spec("activation_alpha", ir.AttrFloats, "as for LSTM"),
		ops.Spec("activation_beta", ir.AttrFloats, "as for LSTM"),
		ops.Spec("activations", ir.AttrStrings, "as for LSTM"), ops.Spec("clip", ir.AttrFloat, "as for LSTM"),
		ops.ChoiceSpec("direction", "direction of time", "forward", "reverse", "bidirectional"),
		ops.IntSpec("hidden_size", nil, "H"), ops.IntSpec("input_forget", 0, "whether f is 1-i")},
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		q := b.Ops("", "DynamicQuantizeLinear", 3, x[:1])
		if b.Err() != nil {
			return nil
		}
		seen := meant(b, q[0], q[1], q[2])
		args := vals(seen, lstmWeights(b, x[1], x[8], x[9], "W_scale"), lstmWeights(b, x[2], x[10], x[11], "R_scale"),
			x[3], x[4], x[5], x[6], x[7])
		for args[len(args)-1] == nil {
			args = args[:len(args)-1]
		}
		if b.Err() != nil {
			return nil
		}
		return b.Ops("", "LSTM", 3, args, attrsOf(n, "activation_alpha", "activation_beta", "activations", "clip",
			"direction", "hidden_size", "input_forget")...)
	}})

// lstmWeights dequantizes weights (D,I,4H), and transposes them for LSTM.
func lstmWeights(b *ir.Builder, w, scale, zero *ir.Value, what string) *ir.Value {
	form := b.Ints(0, 1, -1)
	switch r := rank(b, scale, what); {
	case b.Err() != nil:
		return nil
	case r == 1 || r == 2:
	default:
		fail(b, "%s: expected (D), or (D,4H), found %v", what, scale.Type)
		return nil
	}
	f := func(v *ir.Value) *ir.Value { return cast(b, v, tensor.Float32) }
	y := std(b, "Mul", std(b, "Sub", f(w), std(b, "Reshape", f(zero), form)), std(b, "Reshape", scale, form))
	return with(b, "Transpose", vals(y), ir.A("perm", []int{0, 2, 1}))
}
