package microsoft

import (
	"math"
	"math/cmplx"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
)

var (
	of     = opstest.Of
	normal = opstest.Normal
	whole  = opstest.Whole
)

func positive(shape ...int) tensor.Datum { return opstest.Inside(0.05, 0.2, shape...) }

func bytes(shape ...int) tensor.Datum { return whole(tensor.Uint8, 0, 256, shape...) }

func i32(v ...int32) tensor.Datum { return tensor.FromSlice(v, len(v)) }

var suite = opstest.Suite{Domain: Domain, Samples: samples.Of}

func TestInfer(t *testing.T)         { suite.Infer(t) }
func TestBody(t *testing.T)          { suite.Body(t) }
func TestWide(t *testing.T)          { suite.Wide(t) }
func TestBadInputs(t *testing.T)     { suite.BadInputs(t) }
func TestBadAttributes(t *testing.T) { suite.BadAttributes(t) }
func TestAlong(t *testing.T)         { suite.Along(t, 500) }
func TestMoves(t *testing.T)         { suite.Moves(t, nil, nil) }
func TestORT(t *testing.T)           { opstest.Cases(t, "testdata/ort.json") }
func TestSequences(t *testing.T)     { opstest.Cases(t, "testdata/sequences.json") }

// run evaluates an operator for which the oracle has no kernel.
func run(t *testing.T, op *ir.Op, s opstest.Sample) *tensor.Tensor {
	t.Helper()
	got, err := opstest.Eval(opstest.Plain(t, op, s), s.In, false)
	if err != nil {
		t.Fatal(err)
	}
	return ops.Tensor(got, 0)
}

func float64s(t *testing.T, d tensor.Datum) []float64 {
	t.Helper()
	v, err := d.(*tensor.Tensor).Float64s()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestFourier compares transforms with their definition, and with each other.
func TestFourier(t *testing.T) {
	for _, n := range []int{1, 2, 5, 8, 17} {
		x := normal(3, n)
		v, z := float64s(t, x), float64s(t, run(t, Rfft, of(x)))
		bins := n/2 + 1
		for r := range 3 {
			for k := range bins {
				var sum complex128
				for j := range n {
					sum += complex(v[r*n+j], 0) * cmplx.Exp(complex(0, -2*math.Pi*float64(j*k)/float64(n)))
				}
				if got := complex(z[(r*bins+k)*2], z[(r*bins+k)*2+1]); !(cmplx.Abs(got-sum) <= 1e-5) {
					t.Errorf("length %d, term %d: found %v, expected %v", n, k, got, sum)
				}
			}
		}
	}
	for nd, shape := range map[int][]int{1: {2, 6}, 2: {2, 5, 6}, 3: {3, 5, 4}} {
		x := normal(shape...)
		back := run(t, Irfft, of(run(t, Rfft, of(x).With(ir.A("signal_ndim", nd)))).With(ir.A("signal_ndim", nd)))
		if err := opstest.Near(back, x, 1e-5, 1e-6); err != nil {
			t.Errorf("%d axes: %v", nd, err)
		}
	}
}

func TestComplexProducts(t *testing.T) {
	a, b := tensor.FromSlice([]float32{1, 2}, 1, 2), tensor.FromSlice([]float32{3, -5}, 1, 2)
	for op, want := range map[*ir.Op][]float32{ComplexMul: {13, 1}, ComplexMulConj: {-7, 11}} {
		if err := opstest.Near(run(t, op, of(a, b)), tensor.FromSlice(want, 1, 2), 0, 0); err != nil {
			t.Errorf("%s: %v", op.Name, err)
		}
	}
}

// TestLayouts checks that channels last give the results of channels first, and packed attention that of separate
// inputs.
func TestLayouts(t *testing.T) {
	x, w := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 4, 2), normal(3, 2, 2)
	turned := tensor.FromSlice([]float32{1, 3, 5, 7, 2, 4, 6, 8}, 1, 2, 4)
	a, b := float64s(t, run(t, NhwcConv, of(x, w))), float64s(t, run(t, FusedConv, of(turned, w)))
	for i := range 3 {
		for c := range 3 {
			if !(math.Abs(a[i*3+c]-b[c*3+i]) <= 1e-5) {
				t.Errorf("place %d, channel %d: %v and %v", i, c, a[i*3+c], b[c*3+i])
			}
		}
	}
	gamma, beta := normal(4), normal(4)
	first, last := normal(1, 4, 3), tensor.New(tensor.Float32, 1, 3, 4)
	for c := range 4 {
		for i := range 3 {
			tensor.Data[float32](last)[i*4+c] = tensor.Data[float32](first.(*tensor.Tensor))[c*3+i]
		}
	}
	a = float64s(t, run(t, GroupNorm, of(last, gamma, beta).With(ir.A("groups", 2), ir.A("activation", 0))))
	b = float64s(t, run(t, GroupNorm, of(first, gamma, beta).With(ir.A("groups", 2), ir.A("activation", 0),
		ir.A("channels_last", 0))))
	for c := range 4 {
		for i := range 3 {
			if !(math.Abs(a[i*4+c]-b[c*3+i]) <= 1e-5) {
				t.Errorf("channel %d, place %d: %v and %v", c, i, a[i*4+c], b[c*3+i])
			}
		}
	}
	q, k, v := normal(2, 5, 6), normal(2, 5, 6), normal(2, 5, 6)
	packed := tensor.New(tensor.Float32, 2, 5, 2, 3, 3) // (B,L,heads,qkv,features)
	for i := range 2 * 5 {
		for h := range 2 {
			for p, d := range []tensor.Datum{q, k, v} {
				copy(tensor.Data[float32](packed)[((i*2+h)*3+p)*3:][:3],
					tensor.Data[float32](d.(*tensor.Tensor))[i*6+h*3:])
			}
		}
	}
	heads := ir.A("num_heads", 2)
	if err := opstest.Near(run(t, MultiHeadAttention, of(packed).With(heads)),
		run(t, MultiHeadAttention, of(q, k, v).With(heads)), 1e-5, 1e-6); err != nil {
		t.Error(err)
	}
}

// TestRefused checks the errors for forms that bodies do not support.
func TestRefused(t *testing.T) {
	heads := ir.A("num_heads", 2)
	tests := []struct {
		op   *ir.Op
		s    opstest.Sample
		want string
	}{
		{Attention, of(normal(2, 5, 6), normal(6, 12)).With(heads, ir.A("do_rotary", 1)), "do_rotary"},
		{MultiHeadAttention, of(normal(2, 5, 6), nil, nil, nil, nil, nil, nil, nil, i32(1)).With(heads),
			"past_sequence_length"},
		{MultiHeadAttention, of(normal(2, 5), normal(2, 5), normal(2, 5)).With(heads), "3 axes"},
		{RotaryEmbedding, of(normal(2, 5, 8), opstest.Vec(0), normal(7, 2), normal(7, 2)).With(ir.A("scale", 2.0)),
			"scale"},
		{FusedGemm, of(normal(2, 3), normal(3, 4)).With(ir.A("activation", "Cube")), "Cube"},
		{MatMulNBits, of(normal(2, 20), bytes(3, 2, 8), positive(6)).With(ir.A("K", 20), ir.A("N", 3),
			ir.A("block_size", 24)), "block_size"},
		{MatMulNBits, of(normal(2, 20), bytes(3, 2, 8), positive(6)).With(ir.A("K", 20), ir.A("N", 3),
			ir.A("block_size", 16), ir.A("bits", 3)), "bits"},
		{MatMulBnb4, of(normal(5, 20), bytes(30), positive(4)).With(ir.A("K", 20), ir.A("N", 3), ir.A("block_size", 24),
			ir.A("quant_type", 1)), "block_size"},
		{MatMulBnb4, of(normal(5, 20), bytes(30), positive(4)).With(ir.A("K", 20), ir.A("N", 3), ir.A("block_size", 16),
			ir.A("quant_type", 2)), "quant_type"},
		{MatMulBnb4, of(normal(5, 20), bytes(29), positive(4)).With(ir.A("K", 20), ir.A("N", 3), ir.A("block_size", 16),
			ir.A("quant_type", 1)), "reshape"},
		{MoE, of(normal(5, 6), normal(5, 4), normal(4, 3, 6), nil, normal(4, 6, 3)).With(ir.A("k", 5)), "k: expected"},
		{MoE, of(normal(5, 6), normal(5, 7), normal(4, 3, 6), nil, normal(4, 6, 3)), "router_probs"},
		{MoE, of(normal(5, 6), normal(5, 4), normal(4, 4, 6), nil, normal(4, 6, 2)).With(ir.A("activation_type",
			"swiglu")), "fc3_experts_weights"},
		{MoE, of(normal(5, 6), normal(5, 4), normal(4, 3, 6), nil, normal(4, 6, 3)).With(ir.A("activation_type",
			"swiglu"), ir.A("swiglu_fusion", 1)), "even"},
		{MoE, of(normal(5, 6), normal(5, 4), normal(4, 3, 6), nil, normal(4, 6, 3)).With(ir.A("use_sparse_mixer", 1),
			ir.A("k", 2)), "use_sparse_mixer"},
		{QMoE, of(normal(5, 6), normal(5, 4), bytes(4, 4, 3), positive(4, 4), nil, bytes(4, 6, 2), positive(4, 6)).With(
			ir.A("expert_weight_bits", 3)), "expected 2, 4 or 8, found 3"},
		{QMoE, of(normal(5, 6), normal(5, 4), bytes(4, 4, 3), positive(4, 4), nil, bytes(4, 6, 2), positive(4, 6)).With(
			ir.A("block_size", 16)), "fc1_scales: expected 3 axes"},
		{QMoE, of(normal(5, 6), normal(5, 4), bytes(4, 4, 3), positive(4, 4), nil, bytes(4, 6, 2), positive(4, 6)).With(
			ir.A("weights_prepacked", 1)), "weights_prepacked"},
		{Rfft, of(normal(2, 6)).With(ir.A("normalized", 1)), "normalized"},
		{Rfft, of(normal(2, 6)).With(ir.A("signal_ndim", 3)), "3 axes"},
		{Irfft, of(normal(2, 6)).With(ir.A("signal_ndim", 1)), "size 2"},
		{SkipSimplifiedLayerNormalization, of(normal(2, 5, 3), normal(2, 5, 3), normal(3)).Gives(2), "mean"},
		{QLinearConcat, of(positive(), bytes(), bytes(2, 5), positive()).With(ir.A("axis", 0)), "triples"},
		{GroupQueryAttention, of(normal(2, 5, 16), normal(2, 5, 8), normal(2, 5, 8), nil, nil, i32(4, 4),
			tensor.Scalar(int32(5))).With(ir.A("num_heads", 4), ir.A("kv_num_heads", 3)), "kv_num_heads"},
		{GroupQueryAttention, of(normal(2, 5, 16), normal(2, 5, 8), normal(2, 5, 8), nil, nil, i32(4, 4),
			tensor.Scalar(int32(5))).With(ir.A("num_heads", 4), ir.A("kv_num_heads", 2), ir.A("do_rotary", 1)), "cos_cache"},
		{SparseAttention, of(normal(1, 1, 16), normal(1, 1, 8), normal(1, 1, 8), normal(1, 2, 8, 4), normal(1, 2, 8, 4),
			tensor.FromSlice([]int32{0, 1, 0, 1, 0, 1}, 3, 2), tensor.FromSlice([]int32{0, 0, 0}, 3, 1), tensor.Scalar(int32(1)),
			i32(1)).With(ir.A("num_heads", 4), ir.A("kv_num_heads", 2), ir.A("sparse_block_size", 8)).Gives(3),
			"divides 4 heads"},
		{LinearAttention, of(normal(1, 2, 6), normal(1, 2, 6), normal(1, 2, 4)).With(ir.A("q_num_heads", 2),
			ir.A("kv_num_heads", 2)).Gives(2), "decay and beta"},
		{LinearAttention, of(normal(1, 2, 6), normal(1, 2, 6), normal(1, 2, 4)).With(ir.A("q_num_heads", 2),
			ir.A("kv_num_heads", 3), ir.A("update_rule", "linear")).Gives(2), "multiple"},
		{CausalConvWithState, of(normal(1, 2, 5), normal(2, 1, 3)).With(ir.A("ndim", 2)).Gives(2), "ndim"},
		{CausalConvWithState, of(normal(1, 2, 5), normal(2, 1, 3)).With(ir.A("dilation", 0)).Gives(2), "dilation"},
		{RelativePositionBias, of(normal(8, 2), tensor.Scalar(int64(3)), tensor.Scalar(int64(3))).With(ir.A("max_distance", 3)),
			"a distance beyond"},
		{GatherBlockQuantized, of(bytes(6, 12), whole(tensor.Int32, 0, 6, 3), normal(6, 2)).With(ir.A("block_size", 24)),
			"block_size"},
		{GatherBlockQuantized, of(bytes(6, 12), whole(tensor.Int32, 0, 6, 3), normal(6, 2)).With(ir.A("quantize_axis", 0)),
			"two axes"},
		{CDist, of(normal(5, 3), normal(4, 2)), "K"},
		{Tokenizer, of(tensor.FromStrings([]string{"a"}, 1)).With(ir.A("mark", 0), ir.A("mincharnum", 1),
			ir.A("pad_value", ""), ir.A("tokenexp", "(")), "expression"},
		{Tokenizer, of(tensor.FromStrings([]string{"a"}, 1)).With(ir.A("mark", 0), ir.A("mincharnum", 0),
			ir.A("pad_value", ""), ir.A("tokenexp", "a")), "mincharnum"},
		{Tokenizer, of(tensor.FromStrings([]string{"a"}, 1)).With(ir.A("mark", 0), ir.A("mincharnum", 1),
			ir.A("pad_value", "")), "either separators or tokenexp"},
		{Tokenizer, of(tensor.FromStrings([]string{"a"}, 1, 1, 1)).With(ir.A("mark", 0), ir.A("mincharnum", 1),
			ir.A("pad_value", ""), ir.A("tokenexp", "a")), "one or two axes"},
	}
	for _, tt := range tests {
		n := &ir.Node{Op: tt.op, Attrs: ir.NewAttrs(tt.s.Attrs...)}
		for _, d := range tt.s.In {
			var v *ir.Value
			if d != nil {
				v = &ir.Value{Name: "x", Type: ir.Of(d.(*tensor.Tensor))}
			}
			n.Inputs = append(n.Inputs, v)
		}
		for range tt.s.Outs {
			n.Outputs = append(n.Outputs, &ir.Value{Name: "y", Def: n})
		}
		if err := ir.InferNode(n); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %v: expected an error about %q, found %v", tt.op.Name, tt.s.Attrs, tt.want, err)
		}
	}
}

// TestRelativePositionBias compares with the buckets of T5, for which the oracle has no kernel.
func TestRelativePositionBias(t *testing.T) {
	table := make([]float32, 2*8)
	for i := range table {
		table[i] = float32(i) // bucket k of head h is 8*h+k
	}
	for both, want := range map[int][]float64{
		// Buckets of distances into the past 0, 1, 2, 3, 4, …: 4 exact ones, then log(d/4)/log(16/4)*4.
		0: {0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7},
		// 2 exact ones, then log(d/2)/log(16/2)*2.
		1: {0, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3},
	} {
		s := of(tensor.FromSlice(table, 8, 2), tensor.Scalar(int64(18)), tensor.Scalar(int64(18))).With(
			ir.A("max_distance", 16), ir.A("is_bidirectional", both))
		v := float64s(t, run(t, RelativePositionBias, s))
		for i, bucket := range want {
			if got := v[17*18+17-i]; got != bucket {
				t.Errorf("is_bidirectional %d: distance %d has bucket %v, expected %v", both, i, got, bucket)
			}
			ahead := 0.0
			if both == 1 && i > 0 {
				ahead = 4 + bucket
			}
			if got := v[18*18+i] - 8; got != ahead {
				t.Errorf("is_bidirectional %d: %d steps ahead have bucket %v, expected %v", both, i, got, ahead)
			}
		}
	}
}
