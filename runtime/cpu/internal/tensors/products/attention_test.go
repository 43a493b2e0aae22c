package products_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"
)

func TestAttention(t *testing.T) {
	r := NewGen(31)
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
		m := r.Floats(1, shape...)
		for i := range m.Len() {
			if r.IntN(4) == 0 {
				With(m, i, inf)
			}
		}
		for i := range shape[len(shape)-1] {
			With(m, i, inf)
		}
		return m
	}
	causal, window := ir.A("is_causal", 1), []ir.Attr{ir.A("left_window_size", 3), ir.A("right_window_size", 2)}
	for _, c := range []struct{ b, hq, hkv, s, t, e, ev int }{{1, 1, 1, 1, 1, 1, 1}, {2, 2, 2, 7, 7, 5, 6},
		{2, 4, 2, 33, 50, 16, 20}, {1, 2, 1, 130, 130, 8, 64}, {1, 3, 3, 1, 40, 64, 16}, {1, 2, 2, 100, 700, 4, 3}} {
		q, k, v := Given(r.Floats(1, c.b, c.hq, c.s, c.e)), Given(r.Floats(1, c.b, c.hkv, c.t, c.e)),
			Given(r.Floats(1, c.b, c.hkv, c.t, c.ev))
		check := func(in []Operand, attrs ...ir.Attr) {
			t.Helper()
			on.Node(t, "Attention", 1, in, attrs...)
		}
		check([]Operand{q, k, v})
		check([]Operand{q, k, v}, causal)
		check([]Operand{q, k, v}, append(window, ir.A("scale", 0.3))...)
		check([]Operand{q, k, v}, ir.A("softcap", 1.5))
		check([]Operand{q, k, v, Given(bools(c.s, c.t))})
		check([]Operand{q, k, v, Given(bools(c.b, 1, c.s, c.t))}, causal)
		check([]Operand{q, k, v, Given(floats(c.b, c.hq, c.s, c.t))}, causal)
		check([]Operand{q, k, v, Given(floats(1, c.s, (c.t+1)/2))})
		lens := tensor.New(tensor.Int64, c.b)
		for i := range tensor.Data[int64](lens) {
			tensor.Data[int64](lens)[i] = int64(r.IntN(c.t + 1))
		}
		check([]Operand{q, k, v, {}, {}, {}, Given(lens)}, causal)
		flat := func(heads, s, e int) Operand { return Given(r.Floats(1, c.b, s, heads*e)) }
		heads := []ir.Attr{ir.A("q_num_heads", c.hq), ir.A("kv_num_heads", c.hkv)}
		check([]Operand{flat(c.hq, c.s, c.e), flat(c.hkv, c.t, c.e), flat(c.hkv, c.t, c.ev)}, append(heads, causal)...)
		past := []Operand{{}, Given(r.Floats(1, c.b, c.hkv, 9, c.e)), Given(r.Floats(1, c.b, c.hkv, 9, c.ev))}
		on.Node(t, "Attention", 3, append([]Operand{q, k, v}, past...), causal)
		on.Node(t, "Attention", 3, append([]Operand{flat(c.hq, c.s, c.e), flat(c.hkv, c.t, c.e),
			flat(c.hkv, c.t, c.ev)}, past...), append(heads, causal)...)
		past[0] = Given(bools(c.s, c.t+9))
		check(append([]Operand{q, k, v}, past...), window...)
	}
}

// TestAttentionNotFinite checks that NaN and infinities reach the answers with a weight for them, and no others.
func TestAttentionNotFinite(t *testing.T) {
	r := NewGen(32)
	mask := tensor.New(tensor.Bool, 5, 20)
	for i := range tensor.Data[bool](mask) {
		tensor.Data[bool](mask)[i] = i%20 != 3
	}
	float := tensor.New(tensor.Float32, 5, 20)
	for i := range 5 {
		With(float, i*20+3, math.Inf(-1))
	}
	for _, m := range []*tensor.Tensor{mask, float} {
		for _, bad := range []float64{math.NaN(), math.Inf(1)} {
			q, k, v := r.Floats(1, 1, 1, 5, 4), r.Floats(1, 1, 1, 20, 4), r.Floats(1, 1, 1, 20, 4)
			on.Node(t, "Attention", 1, []Operand{Given(q), Given(With(k.Clone(), 3*4, bad)), Given(v), Given(m)})
			on.Node(t, "Attention", 1, []Operand{Given(q), Given(k), Given(With(v.Clone(), 3*4, bad)), Given(m)})
			on.Node(t, "Attention", 1, []Operand{Given(With(q.Clone(), 5, bad)), Given(k), Given(v), Given(m)})
		}
	}
}
