package cpu

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

func TestAttention(t *testing.T) {
	r := newGen(31)
	inf := math.Inf(-1)
	bools := func(shape ...int) *tensor.Tensor {
		m := tensor.New(tensor.Bool, shape...)
		for i := range tensor.Data[bool](m) {
			tensor.Data[bool](m)[i] = r.IntN(3) > 0
		}
		clear(tensor.Data[bool](m)[:shape[len(shape)-1]]) // a query without keys
		return m
	}
	floats := func(shape ...int) *tensor.Tensor {
		m := r.floats(1, shape...)
		for i := range m.Len() {
			if r.IntN(4) == 0 {
				with(m, i, inf)
			}
		}
		for i := range shape[len(shape)-1] {
			with(m, i, inf)
		}
		return m
	}
	causal, window := ir.A("is_causal", 1), []ir.Attr{ir.A("left_window_size", 3), ir.A("right_window_size", 2)}
	for _, c := range []struct{ b, hq, hkv, s, t, e, ev int }{{1, 1, 1, 1, 1, 1, 1}, {2, 2, 2, 7, 7, 5, 6},
		{2, 4, 2, 33, 50, 16, 20}, {1, 2, 1, 130, 130, 8, 64}, {1, 3, 3, 1, 40, 64, 16}, {1, 2, 2, 100, 700, 4, 3}} {
		q, k, v := given(r.floats(1, c.b, c.hq, c.s, c.e)), given(r.floats(1, c.b, c.hkv, c.t, c.e)),
			given(r.floats(1, c.b, c.hkv, c.t, c.ev))
		check := func(in []operand, attrs ...ir.Attr) {
			t.Helper()
			checkNode(t, "Attention", 1, in, attrs...)
		}
		check([]operand{q, k, v})
		check([]operand{q, k, v}, causal)
		check([]operand{q, k, v}, append(window, ir.A("scale", 0.3))...)
		check([]operand{q, k, v}, ir.A("softcap", 1.5))
		check([]operand{q, k, v, given(bools(c.s, c.t))})
		check([]operand{q, k, v, given(bools(c.b, 1, c.s, c.t))}, causal)
		check([]operand{q, k, v, given(floats(c.b, c.hq, c.s, c.t))}, causal)
		check([]operand{q, k, v, given(floats(1, c.s, (c.t+1)/2))})
		lens := tensor.New(tensor.Int64, c.b)
		for i := range tensor.Data[int64](lens) {
			tensor.Data[int64](lens)[i] = int64(r.IntN(c.t + 1))
		}
		check([]operand{q, k, v, {}, {}, {}, given(lens)}, causal)
		flat := func(heads, s, e int) operand { return given(r.floats(1, c.b, s, heads*e)) }
		heads := []ir.Attr{ir.A("q_num_heads", c.hq), ir.A("kv_num_heads", c.hkv)}
		check([]operand{flat(c.hq, c.s, c.e), flat(c.hkv, c.t, c.e), flat(c.hkv, c.t, c.ev)}, append(heads, causal)...)
		past := []operand{{}, given(r.floats(1, c.b, c.hkv, 9, c.e)), given(r.floats(1, c.b, c.hkv, 9, c.ev))}
		checkNode(t, "Attention", 3, append([]operand{q, k, v}, past...), causal)
		checkNode(t, "Attention", 3, append([]operand{flat(c.hq, c.s, c.e), flat(c.hkv, c.t, c.e),
			flat(c.hkv, c.t, c.ev)}, past...), append(heads, causal)...)
		past[0] = given(bools(c.s, c.t+9))
		check(append([]operand{q, k, v}, past...), window...)
	}
}

// TestAttentionNotFinite checks that NaN and infinities reach the answers with a weight for them, and no others.
func TestAttentionNotFinite(t *testing.T) {
	r := newGen(32)
	mask := tensor.New(tensor.Bool, 5, 20)
	for i := range tensor.Data[bool](mask) {
		tensor.Data[bool](mask)[i] = i%20 != 3
	}
	float := tensor.New(tensor.Float32, 5, 20)
	for i := range 5 {
		with(float, i*20+3, math.Inf(-1))
	}
	for _, m := range []*tensor.Tensor{mask, float} {
		for _, bad := range []float64{math.NaN(), math.Inf(1)} {
			q, k, v := r.floats(1, 1, 1, 5, 4), r.floats(1, 1, 1, 20, 4), r.floats(1, 1, 1, 20, 4)
			checkNode(t, "Attention", 1, []operand{given(q), given(with(k.Clone(), 3*4, bad)), given(v), given(m)})
			checkNode(t, "Attention", 1, []operand{given(q), given(k), given(with(v.Clone(), 3*4, bad)), given(m)})
			checkNode(t, "Attention", 1, []operand{given(with(q.Clone(), 5, bad)), given(k), given(v), given(m)})
		}
	}
}
