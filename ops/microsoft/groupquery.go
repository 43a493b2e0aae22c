package microsoft

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// GroupQueryAttention attends causally, with keys and values that several heads of queries share, and with caches.
var GroupQueryAttention = composed(&ir.Op{Name: "GroupQueryAttention",
	Doc: "softmax(softcap(Q·Kᵀ·scale) + attention_bias)·V per head, for query (B,L,num_heads*features), key and " +
		"value (B,L,kv_num_heads*features), or all three side by side in query. seqlens_k[b]+1 keys of sample b " +
		"count. If total_sequence_length is L, query i is step i; otherwise the steps are the last ones of each " +
		"sample. A query sees its own step and earlier ones, local_window_size of them if that is positive. " +
		"do_rotary turns queries and keys by the caches at their steps, or at position_ids (B,L). head_sink adds a " +
		"term to each head's denominator, and smooth_softmax e⁰. past (B,kv_num_heads,P,features) holds the keys and " +
		"values of earlier steps; present has max(P, total_sequence_length) steps.",
	In: ops.Sig("query:T[B,L,_]", "key:T[B,L,_]?", "value:T[B,L,_]?", "past_key:T[B,_,P,_]?", "past_value:T[B,_,P,_]?",
		"seqlens_k:int32", "total_sequence_length:int32", "cos_cache:T[_,_]?", "sin_cache:T[_,_]?",
		"position_ids:int64[B,L]?", "attention_bias:T[_,_,_,_]?", "head_sink:T[_]?"),
	Out:   ops.Sig("output:T[B,L,_]", "present_key:T[B,_,_,_]?", "present_value:T[B,_,_,_]?"),
	Elems: types{"T": half16}, Tol: ir.Summing,
	Attrs: []ir.AttrSpec{ops.Required(ops.IntSpec("num_heads", nil, "heads of queries")),
		ops.Required(ops.IntSpec("kv_num_heads", nil, "heads of keys and values")),
		ops.IntSpec("do_rotary", 0, "whether queries and keys are turned by their positions"),
		ops.IntSpec("rotary_interleaved", 0, "whether turned pairs are neighbors"),
		ops.IntSpec("local_window_size", -1, "number of steps that a query sees; not above 0: all"),
		ops.Spec("scale", ir.AttrFloat, "factor of products (0 or absent: 1/√features)"),
		ops.FloatSpec("softcap", 0, "bound of products, by tanh; 0: none"),
		ops.IntSpec("smooth_softmax", 0, "1: the denominators have a further e⁰"),
		ops.IntSpec("qk_output", 0, "must be 0"), ops.IntSpec("kv_cache_bit_width", 0, "must be 0"),
		ops.ChoiceSpec("k_quant_type", "form of the cache", "NONE"),
		ops.ChoiceSpec("v_quant_type", "form of the cache", "NONE")},
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		for _, name := range []string{"qk_output", "kv_cache_bit_width"} {
			if v := ops.Int(n, name); v != 0 {
				return fail(b, "%s: expected 0, found %d", name, v)
			}
		}
		g := grouped{heads: heads{b: b, n: n}, x: x, count: ops.Int(n, "num_heads"), kv: ops.Int(n, "kv_num_heads")}
		if g.count < 1 || g.kv < 1 || g.count%g.kv != 0 {
			return fail(b, "num_heads %d, kv_num_heads %d: expected numbers of 1 or more, the first a multiple of "+
				"the second",
				g.count, g.kv)
		}
		if (in(x, 3) == nil) != (in(x, 4) == nil) || (in(x, 1) == nil) != (in(x, 2) == nil) {
			return fail(b, "expected key and value, and past_key and past_value, together")
		}
		return g.body()
	}})

// grouped builds the body of GroupQueryAttention.
type grouped struct {
	heads
	x         []*ir.Value
	count, kv int64

	steps1, keys *ir.Value // of queries, and of the caches with them: vectors of one number
	prompt       *ir.Value // whether the steps begin with the first
	lens, before *ir.Value // (B,1): keys of each sample, and steps before the first query
}

func (g *grouped) body() []*ir.Value {
	q, k, v, place, size := g.places()
	k, v = g.cached(k, in(g.x, 3)), g.cached(v, in(g.x, 4))
	if g.b.Err() != nil {
		return nil
	}
	y := g.attendGroups(q, k, v, place, size)
	return vals(y, k, v)[:max(1, len(g.n.Outputs))]
}

// places returns the queries, new keys and values at their places, the steps of the queries (B,L), and the features of
// a head.
func (g *grouped) places() (q, k, v, place *ir.Value, size int64) {
	b, x := g.b, g.x
	q, k, v, size = g.split3()
	if b.Err() != nil {
		return nil, nil, nil, nil, 0
	}
	one := b.Ints(1)
	g.steps1 = with(b, "Shape", x[:1], ir.A("start", 1), ir.A("end", 2))
	g.keys = std(b, "Reshape", cast(b, x[6], tensor.Int64), one)
	g.prompt = std(b, "Equal", g.steps1, g.keys)
	g.lens = std(b, "Add", std(b, "Reshape", cast(b, x[5], tensor.Int64), b.Ints(-1, 1)), one)
	g.before = std(b, "Where", g.prompt, b.Ints(0), std(b, "Sub", g.lens, g.steps1))
	place = std(b, "Add", g.before, std(b, "Unsqueeze", g.steps(g.steps1), b.Ints(0)))
	if ops.Int(g.n, "do_rotary") != 0 {
		at := in(x, 9)
		if at == nil { // the steps of padding are meaningless, but ONNX Runtime's values are reproduced
			at = std(b, "Where", std(b, "Less", place, g.lens), place, one)
		}
		q, k = g.turn(q, at, g.count, size), g.turn(k, at, g.kv, size)
	}
	return q, g.form4(k), g.form4(v), place, size
}

// split3 returns query, key and value with three axes, and the features of a head.
func (g *grouped) split3() (q, k, v *ir.Value, size int64) {
	b, x := g.b, g.x
	parts := g.count
	if in(x, 1) == nil {
		parts += 2 * g.kv
	}
	width := dim(b, x[0], 2, "query")
	if size = width / parts; b.Err() == nil && (size < 1 || width%parts != 0) {
		fail(b, "query: expected %d heads of 1 or more features, found %v", parts, x[0].Type)
	}
	if b.Err() != nil || in(x, 1) != nil {
		return x[0], in(x, 1), in(x, 2), size
	}
	p := b.Ops("", "Split", 3, vals(x[0], b.Ints(g.count*size, g.kv*size, g.kv*size)), ir.A("axis", -1))
	return p[0], p[1], p[2], size
}

// turn applies RotaryEmbedding at the positions (B,L).
func (g *grouped) turn(v, at *ir.Value, count, size int64) *ir.Value {
	if in(g.x, 7) == nil || in(g.x, 8) == nil {
		fail(g.b, "do_rotary: expected cos_cache and sin_cache")
		return nil
	}
	attrs := []ir.Attr{ir.A("num_heads", count), ir.A("interleaved", ops.Int(g.n, "rotary_interleaved"))}
	if turned := 2 * dim(g.b, g.x[7], 1, "cos_cache"); turned != size {
		attrs = append(attrs, ir.A("rotary_embedding_dim", turned))
	}
	return with(g.b, "RotaryEmbedding", vals(v, g.x[7], g.x[8], at), attrs...)
}

// form4 reshapes (B,L,kv*features) to (B,kv,L,features).
func (g *grouped) form4(v *ir.Value) *ir.Value {
	y := std(g.b, "Reshape", v, g.b.Ints(0, 0, g.kv, -1))
	return with(g.b, "Transpose", vals(y), ir.A("perm", []int{0, 2, 1, 3}))
}

// cached appends new keys or values to the past ones.
func (g *grouped) cached(v, past *ir.Value) *ir.Value {
	b := g.b
	if past == nil {
		return v
	}
	// Steps of the past that a sample does not have are zeros.
	old := std(b, "Less", std(b, "Unsqueeze", g.steps(g.size(past)), b.Ints(0)), g.before)
	past = std(b, "Where", std(b, "Unsqueeze", old, b.Ints(1, 3)), past, constLike(b, past, 0))
	zero := b.Ints(0)
	more := std(b, "Max", std(b, "Sub", g.keys, g.size(past)), zero)
	room := std(b, "Pad", past, with(b, "Concat", vals(zero, more), ir.A("axis", 0)), constLike(b, past, 0), b.Ints(2))
	return std(b, "TensorScatter", room, v, std(b, "Reshape", g.before, b.Ints(-1)))
}

// attendGroups attends from q at the steps place (B,L) to the caches.
func (g *grouped) attendGroups(q, k, v, place *ir.Value, size int64) *ir.Value {
	b, n := g.b, g.n
	bias, sink := in(g.x, 10), in(g.x, 11)
	if bias != nil { // the bias is for keys without spare capacity for later ones
		k, v = g.first(k), g.first(v)
	}
	keys := std(b, "Unsqueeze", g.steps(g.size(k)), b.Ints(0, 1)) // (1,1,T)
	place = std(b, "Unsqueeze", place, b.Ints(2))
	keep := std(b, "LessOrEqual", keys, place)
	if w := ops.Int(n, "local_window_size"); w > 0 {
		keep = std(b, "And", keep, std(b, "Greater", keys, std(b, "Sub", place, b.Ints(w))))
	}
	mask := std(b, "Unsqueeze", keep, b.Ints(1)) // (B,1,L,T)
	if smooth := ops.Int(n, "smooth_softmax") > 0; bias != nil || sink != nil || smooth {
		mask = std(b, "Where", mask, constLike(b, q, 0), constLike(b, q, math.Inf(-1)))
		mask = add(b, mask, bias)
		if sink != nil || smooth {
			k, v, mask = g.sunk(k), g.sunk(v), g.sinks(q, mask, sink)
		}
	}
	scale := n.Attrs.Float("scale", 0)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(size))
	}
	return with(b, "Attention", vals(q, k, v, mask), ir.A("q_num_heads", g.count), ir.A("kv_num_heads", g.kv),
		ir.A("scale", scale), ir.A("softcap", ops.Float(n, "softcap")))
}

// first returns the steps of a cache that are in use by any sample.
func (g *grouped) first(v *ir.Value) *ir.Value {
	return std(g.b, "Slice", v, g.b.Ints(0), g.keys, g.b.Ints(2))
}

// sunk appends a step of zeros to a cache.
func (g *grouped) sunk(v *ir.Value) *ir.Value {
	return std(g.b, "Pad", v, g.b.Ints(0, 1), constLike(g.b, v, 0), g.b.Ints(2))
}

// sinks appends the term of each head's denominator to a mask, for a step whose products are 0.
func (g *grouped) sinks(q, mask, sink *ir.Value) *ir.Value {
	b := g.b
	if sink == nil {
		sink = constLike(b, q, 0)
	} else {
		sink = std(b, "Reshape", sink, b.Ints(1, -1, 1, 1))
	}
	// Both get the sizes (B,heads,L,…).
	rows := with(b, "Concat", vals(with(b, "Shape", vals(q), ir.A("end", 1)), b.Ints(g.count), g.steps1, b.Ints(1)),
		ir.A("axis", 0))
	return with(b, "Concat", vals(std(b, "Expand", mask, rows), std(b, "Expand", sink, rows)), ir.A("axis", 3))
}
