package std

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// TestAlongOfLayers lists facts of layers, on which streams and tiles depend.
func TestAlongOfLayers(t *testing.T) {
	layer := func(gates, dirs int, dir string) sample {
		return of(normal(5, 2, 3), normal(dirs, gates*4, 3), normal(dirs, gates*4, 4)).With(ir.A("hidden_size", 4),
			ir.A("direction", dir))
	}
	heads := []ir.Attr{ir.A("q_num_heads", 2), ir.A("kv_num_heads", 2)}
	attention := func(attrs ...ir.Attr) sample {
		return of(normal(2, 5, 6), normal(2, 5, 6), normal(2, 5, 6)).With(append(attrs, heads...)...)
	}
	linear := of(normal(2, 5, 6), normal(2, 5, 6),
		normal(2, 5, 8)).With(append(heads, ir.A("update_rule", "linear"))...)
	tests := []struct {
		name   string
		op     *ir.Op
		s      sample
		inputs []int
		axis   int
		want   string
	}{
		{"causal pooling", AveragePool, of(normal(1, 2, 8)).With(i64s("kernel_shape", 3), i64s("pads", 2, 0)), []int{0},
			2, "back 2, axis 2"},
		{"strided pooling", MaxPool, of(normal(1, 2, 8)).With(i64s("kernel_shape", 4), i64s("strides", 4)), []int{0}, 2,
			"ahead 3, axis 2, every 4 steps"},
		{"a mean over time", GlobalAveragePool, of(normal(1, 2, 8)), []int{0}, 2, "back all, summed up, state 2"},
		{"a transposed convolution", ConvTranspose, of(normal(1, 3, 7), normal(3, 4, 3)).With(i64s("pads", 0, 2)),
			[]int{0}, 2, "back 2, axis 2"},
		{"one that makes more steps", ConvTranspose, of(normal(1, 3, 7), normal(3, 4, 3)).With(i64s("strides", 2)),
			[]int{0}, 2, "global"},
		{"a forward LSTM", LSTM, layer(4, 1, "forward"), []int{0}, 0, "back all, axis 0, state 8"},
		{"a reverse GRU", GRU, layer(3, 1, "reverse"), []int{0}, 0, "ahead all, axis 0"},
		{"both directions", GRU, layer(3, 2, "bidirectional"), []int{0}, 0, "back all, ahead all, axis 0, state 4"},
		{"samples of an LSTM", LSTM, layer(4, 1, "forward"), []int{0}, 1, "each step by itself, axis 2"},
		{"a spectrum over time", DFT, of(normal(2, 5, 1)), []int{0}, 1, "global"},
		{"a spectrum beside time", DFT, of(normal(5, 6, 2)), []int{0}, 0, "each step by itself, axis 0"},
		{"frames", STFT, of(normal(1, 9, 1), num(2), normal(4)).Fixed(1), []int{0}, 1,
			"ahead 3, axis 1, every 2 steps"},
		{"self-attention", Attention, attention(), []int{0, 1, 2}, 1, "global"},
		{"causal attention", Attention, attention(ir.A("is_causal", 1)), []int{0, 1, 2}, 1, "back all, axis 1"},
		{"attention within a window", Attention, attention(ir.A("left_window_size", 3), ir.A("right_window_size", 1)),
			[]int{0, 1, 2}, 1, "back 3, ahead 1, axis 1"},
		{"queries of other keys", Attention, attention(), []int{0}, 1, "each step by itself, axis 1"},
		{"linear attention", LinearAttention, linear, []int{0, 1, 2}, 1, "back all, axis 1, state 24"},
		{"a causal convolution", CausalConvWithState, of(normal(2, 3, 5), normal(3, 1, 4)), []int{0}, 2,
			"back 3, axis 2"},
		{"a norm of groups", GroupNormalization, of(normal(2, 4, 3), normal(4), normal(4)).With(ir.A("num_groups", 2)),
			[]int{0}, 2, "global"},
		{"a loss of each step", SoftmaxCrossEntropyLoss,
			of(normal(2, 4, 5), whole(tensor.Int64, 0, 4, 2, 5)).With(ir.A("reduction", "none")), []int{0}, 2,
			"each step by itself, axis 1"},
		{"an axis that stays", Resize, of(normal(5, 4), nil, floats32(1, 2)).Fixed(2), []int{0}, 0,
			"each step by itself, axis 0"},
		{"an axis that is sampled anew", Resize, of(normal(5, 4), nil, floats32(1, 2)).Fixed(2), []int{0}, 1, "global"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			varies := func(i int) bool {
				for _, k := range tt.inputs {
					if k == i {
						return true
					}
				}
				return false
			}
			n := node(t, tt.op, tt.s, func(input, a, size int) ir.Dim {
				if varies(input) && a == tt.axis {
					return ir.Sym("L")
				}
				return ir.Const(int64(size))
			})
			in := make([]ir.Fact, len(n.Inputs))
			for i := range in {
				if varies(i) {
					in[i] = ir.Fact{Symbol: "L", Axis: tt.axis, Stride: 1}
				}
			}
			if got := tt.op.Along(n, in)[0].String(); got != tt.want {
				t.Errorf("found %q, expected %q", got, tt.want)
			}
		})
	}
}

// TestSymbolicSizes lists the sizes of windows and transforms of L steps.
func TestSymbolicSizes(t *testing.T) {
	tests := []struct {
		op   *ir.Op
		s    sample
		axis int
		want string
	}{
		{AveragePool, of(normal(1, 2, 8)).With(i64s("kernel_shape", 3), i64s("pads", 1, 1)), 2, "float[1,2,L]"},
		{MaxPool, of(normal(1, 2, 8)).With(i64s("kernel_shape", 2), i64s("strides", 2)), 2,
			"float[1,2,floordiv(L-2,2)+1]"},
		{ConvTranspose, of(normal(1, 3, 7), normal(3, 4, 3)).With(i64s("strides", 2), i64s("pads", 1, 0)), 2,
			"float[1,4,2*L]"},
		{LSTM, of(normal(5, 2, 3), normal(1, 16, 3), normal(1, 16, 4)), 0, "float[L,1,2,4]"},
		{DFT, of(normal(2, 5, 1)).With(ir.A("onesided", 1)), 1, "float[2,floordiv(L,2)+1,2]"},
		{DFT, of(normal(2, 5, 2)).With(ir.A("onesided", 1), ir.A("inverse", 1)), 1, "float[2,2*L-2,1]"},
		{STFT, of(normal(1, 9, 1), num(2), normal(4)).Fixed(1), 1, "float[1,floordiv(L-4,2)+1,3,2]"},
		{Resize, of(normal(5, 4), nil, floats32(2, 1)).Fixed(2), 0, "float[2*L,4]"},
		{Attention, of(normal(2, 5, 6), normal(2, 5, 6), normal(2, 5, 6)).With(ir.A("q_num_heads", 2),
			ir.A("kv_num_heads", 2)), 1, "float[2,L,6]"},
		{DepthToSpace, of(normal(1, 8, 2, 3)).With(ir.A("blocksize", 2)), 2, "float[1,2,2*L,6]"},
	}
	for _, tt := range tests {
		n := node(t, tt.op, tt.s, func(input, a, size int) ir.Dim {
			if size == tt.s.In[0].(*tensor.Tensor).Dim(tt.axis) && a == tt.axis && (input == 0 || tt.op == Attention) {
				return ir.Sym("L")
			}
			return ir.Const(int64(size))
		})
		if got := n.Outputs[0].Type.String(); got != tt.want {
			t.Errorf("%s: found %s, expected %s", tt.op.Name, got, tt.want)
		}
	}
}
