package microsoft

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var (
	half16     = []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16}
	headsAttrs = []ir.AttrSpec{ops.Required(ops.IntSpec("num_heads", nil, "number of heads")),
		ops.Spec("scale", ir.AttrFloat, "factor of products (default 1/√features)"),
		ops.FloatSpec("mask_filter_value", -10000, "value added to products with masked keys"),
		ops.IntSpec("unidirectional", 0, "whether steps attend to earlier steps and their own only")}
)

// Attention projects its input and attends to it.
var Attention = composed(&ir.Op{Name: "Attention",
	Doc: "softmax(Q·Kᵀ·scale + mask + attention_bias)·V per head, for Q, K, V the thirds (or the sizes " +
		"qkv_hidden_sizes) of input (B,L,D) times weights plus bias. mask_index is 0 for keys " +
		"that are left out, (B,T) or (B,L,T), or the number of keys of each sample (B). past (2,B,heads,P,features) " +
		"comes before K and V; present is past with them.",
	In: ops.Sig("input:T[B,L,D]", "weights:T[D,_]", "bias:T[_]?", "mask_index:int32?", "past:T?", "attention_bias:T?",
		"past_sequence_length:int32?"),
	Out: ops.Sig("output:T", "present:T?"), Elems: types{"T": half16}, Tol: ir.Summing,
	Attrs: append(headsAttrs[:4:4], ops.Spec("qkv_hidden_sizes", ir.AttrInts, "sizes of Q, K and V"),
		ops.IntSpec("do_rotary", 0, "must be 0"), ops.IntSpec("past_present_share_buffer", 0, "must be 0"),
		ops.IntSpec("rotary_embedding_dim", 0, "not used")),
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		if ops.Int(n, "do_rotary") != 0 || ops.Int(n, "past_present_share_buffer") != 0 || in(x, 6) != nil {
			return fail(b, "expected do_rotary 0, past_present_share_buffer 0 and no past_sequence_length")
		}
		return attendTo(b, n, add(b, std(b, "MatMul", x[0], x[1]), in(x, 2)), in(x, 3), in(x, 4), in(x, 5))
	}})

// QAttention is Attention of quantized inputs.
var QAttention = composed(&ir.Op{Name: "QAttention",
	Doc: "Attention with the projection MatMulInteger of input and weight, times both scales, plus bias. Scale and " +
		"zero point of weight are scalars or one per column.",
	In: ops.Sig("input:T1[B,L,D]", "weight:T2[D,_]", "bias:float32[_]", "input_scale:float32", "weight_scale:float32",
		"mask_index:int32?", "input_zero_point:T1?", "weight_zero_point:T2?", "past:float32?"),
	Out: ops.Sig("output:float32", "present:float32?"), Tol: ir.Summing,
	Elems: types{"T1": bytesOnly, "T2": bytesOnly},
	Attrs: append(headsAttrs[:4:4], ops.IntSpec("do_rotary", 0, "must be 0"),
		ops.IntSpec("past_present_share_buffer", 0, "must be 0")),
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		if ops.Int(n, "do_rotary") != 0 || ops.Int(n, "past_present_share_buffer") != 0 {
			return fail(b, "expected do_rotary 0 and past_present_share_buffer 0")
		}
		all := scaledProduct(b, x[0], x[1], x[3], x[4], in(x, 6), in(x, 7), x[2])
		return attendTo(b, n, all, in(x, 5), in(x, 8), nil)
	}})

// attendTo attends to itself in all, which is Q, K and V side by side.
func attendTo(b *ir.Builder, n *ir.Node, all, mask, past, bias *ir.Value) []*ir.Value {
	var qkv []*ir.Value
	if sizes := n.Attrs.Ints("qkv_hidden_sizes", nil); sizes == nil {
		qkv = b.Ops("", "Split", 3, vals(all), ir.A("axis", -1), ir.A("num_outputs", 3))
	} else {
		qkv = b.Ops("", "Split", 3, vals(all, b.Ints(sizes...)), ir.A("axis", -1))
	}
	h := heads{b: b, n: n}
	q, k, v := h.split(qkv[0], "Q"), h.split(qkv[1], "K"), h.split(qkv[2], "V")
	if past != nil {
		p := b.Ops("", "Split", 2, vals(past), ir.A("axis", 0), ir.A("num_outputs", 2))
		k = with(b, "Concat", vals(std(b, "Squeeze", p[0], b.Ints(0)), k), ir.A("axis", 2))
		v = with(b, "Concat", vals(std(b, "Squeeze", p[1], b.Ints(0)), v), ir.A("axis", 2))
	}
	out := vals(h.merge(h.attend(q, k, v, mask, bias)))
	if wants(n, 1) {
		out = append(out, with(b, "Concat", vals(std(b, "Unsqueeze", k, b.Ints(0)),
			std(b, "Unsqueeze", v, b.Ints(0))), ir.A("axis", 0)))
	}
	return out
}

// MultiHeadAttention attends to projected keys and values.
var MultiHeadAttention = composed(&ir.Op{Name: "MultiHeadAttention",
	Doc: "softmax(Q·Kᵀ·scale + mask + attention_bias)·V per head, for Q (B,L,heads*features), K and V (B,T,…) or " +
		"(B,heads,T,features), each plus its part of bias; or K and V packed in " +
		"key (B,T,heads,2,features), or all three in query (B,L,heads,3,features). key_padding_mask is 0 for keys " +
		"that are left out, (B,T) or (B,L,T), or the number of keys of each sample (B). Past keys " +
		"and values (B,heads,P,features) come first; present ones are past ones with the new.",
	In: ops.Sig("query:T", "key:T?", "value:T?", "bias:T[_]?", "key_padding_mask:int32?", "attention_bias:T?",
		"past_key:T?", "past_value:T?", "past_sequence_length:int32?", "cache_indirection:int32?"),
	Out: ops.Sig("output:T", "present_key:T?", "present_value:T?"), Elems: types{"T": half16}, Attrs: headsAttrs,
	Tol: ir.Summing,
	Body: func(b *ir.Builder, n *ir.Node, x []*ir.Value) []*ir.Value {
		if in(x, 8) != nil || in(x, 9) != nil {
			return fail(b, "expected no past_sequence_length and no cache_indirection")
		}
		h := heads{b: b, n: n}
		q, k, v := h.inputs(x)
		for i, p := range []**ir.Value{&k, &v} {
			if past := in(x, 6+i); past != nil {
				*p = with(b, "Concat", vals(past, *p), ir.A("axis", 2))
			}
		}
		if b.Err() != nil {
			return nil
		}
		return vals(h.merge(h.attend(q, k, v, in(x, 4), in(x, 5))), k, v)[:max(1, len(n.Outputs))]
	}})

// heads builds attention over values (B,heads,L,features).
type heads struct {
	b *ir.Builder
	n *ir.Node
}

// split reshapes (B,L,heads*features) to (B,heads,L,features).
func (h heads) split(v *ir.Value, what string) *ir.Value {
	count := ops.Int(h.n, "num_heads")
	if r := rank(h.b, v, what); h.b.Err() == nil && (count < 1 || r != 3) {
		fail(h.b, "num_heads %d: expected 1 or more, and %s with 3 axes, found %v", count, what, v.Type)
	}
	y := std(h.b, "Reshape", v, h.b.Ints(0, 0, count, -1))
	return with(h.b, "Transpose", vals(y), ir.A("perm", []int{0, 2, 1, 3}))
}

// merge reshapes (B,heads,L,features) to (B,L,heads*features).
func (h heads) merge(v *ir.Value) *ir.Value {
	y := with(h.b, "Transpose", vals(v), ir.A("perm", []int{0, 2, 1, 3}))
	return std(h.b, "Reshape", y, h.b.Ints(0, 0, -1))
}

// features returns the size of the last axis as a vector of one element.
func (h heads) features(v *ir.Value) *ir.Value {
	if h.b.Err() != nil {
		return nil
	}
	if s := v.Shape(); len(s) > 0 {
		if k, ok := s[len(s)-1].Known(); ok {
			return h.b.Ints(k)
		}
	}
	return with(h.b, "Shape", vals(v), ir.A("start", -1))
}

// inputs reads query, key and value in the forms of MultiHeadAttention, and adds their biases.
func (h heads) inputs(x []*ir.Value) (q, k, v *ir.Value) {
	b := h.b
	part := func(packed *ir.Value, count int) []*ir.Value {
		if r := rank(b, packed, "packed input"); b.Err() == nil && r != 5 {
			fail(b, "expected a packed input with 5 axes, found %v", packed.Type)
		}
		ones := make([]int64, count)
		for i := range ones {
			ones[i] = 1
		}
		out := make([]*ir.Value, count)
		for i, p := range b.Ops("", "Split", count, vals(packed, b.Ints(ones...)), ir.A("axis", 3)) {
			out[i] = with(b, "Transpose", vals(std(b, "Squeeze", p, b.Ints(3))), ir.A("perm", []int{0, 2, 1, 3}))
		}
		return out
	}
	key, value := in(x, 1), in(x, 2)
	switch {
	case key == nil:
		p := part(x[0], 3)
		q, k, v = p[0], p[1], p[2]
	case value == nil:
		p := part(key, 2)
		q, k, v = h.split(x[0], "query"), p[0], p[1]
	default:
		q, k, v = h.split(x[0], "query"), h.form(key, "key"), h.form(value, "value")
	}
	bias := in(x, 3)
	if bias == nil || b.Err() != nil {
		return q, k, v
	}
	count := ops.Int(h.n, "num_heads")
	var sizes []*ir.Value
	for _, y := range vals(q, k, v) {
		sizes = append(sizes, std(b, "Mul", h.features(y), b.Ints(count)))
	}
	p := b.Ops("", "Split", 3, vals(bias, with(b, "Concat", sizes, ir.A("axis", 0))), ir.A("axis", 0))
	for i, y := range []**ir.Value{&q, &k, &v} {
		*y = std(b, "Add", *y, std(b, "Reshape", p[i], b.Ints(count, 1, -1)))
	}
	return q, k, v
}

// form returns v in the form of split, which it may have already.
func (h heads) form(v *ir.Value, what string) *ir.Value {
	if rank(h.b, v, what) == 4 {
		return v
	}
	return h.split(v, what)
}

// attend returns softmax(q·kᵀ·scale + mask + bias)·v.
func (h heads) attend(q, k, v, mask, bias *ir.Value) *ir.Value {
	b := h.b
	if b.Err() != nil {
		return nil
	}
	var scale *ir.Value
	if f := h.n.Attrs.Float("scale", 0); f != 0 {
		scale = constLike(b, q, f)
	} else if size, ok := q.Shape()[3].Known(); ok {
		scale = constLike(b, q, 1/math.Sqrt(float64(size)))
	} else {
		scale = std(b, "Reciprocal", std(b, "Sqrt", cast(b, h.features(q), q.Elem())))
	}
	s := std(b, "MatMul", std(b, "Mul", q, scale), swapLast(b, k, "key"))
	filter := ops.Float(h.n, "mask_filter_value")
	if mask != nil {
		s = add(b, s, h.mask(mask, k, s, filter))
	}
	s = add(b, s, bias)
	if ops.Int(h.n, "unidirectional") != 0 && b.Err() == nil {
		// Query i has position i+T-L among T keys.
		queries, keys := h.size(q), h.size(k)
		row := std(b, "Add", h.steps(queries), std(b, "Sub", keys, queries))
		ahead := std(b, "Less", std(b, "Unsqueeze", row, b.Ints(1)), std(b, "Unsqueeze", h.steps(keys), b.Ints(0)))
		s = std(b, "Where", ahead, constLike(b, s, -math.MaxFloat32), s)
	}
	return std(b, "MatMul", with(b, "Softmax", vals(s), ir.A("axis", -1)), v)
}

// size returns the number of steps of (B,heads,L,features) as a vector of one element.
func (h heads) size(v *ir.Value) *ir.Value {
	return with(h.b, "Shape", vals(v), ir.A("start", 2), ir.A("end", 3))
}

// steps returns the vector 0, 1, … below count.
func (h heads) steps(count *ir.Value) *ir.Value {
	zero, one := h.b.Const("zero", tensor.Scalar(int64(0))), h.b.Const("one", tensor.Scalar(int64(1)))
	return std(h.b, "Range", zero, std(h.b, "Reshape", count, h.b.Ints()), one)
}

// mask returns the term that a mask adds to the products s: the filter value for masked keys.
func (h heads) mask(mask, k, s *ir.Value, filter float64) *ir.Value {
	b := h.b
	var keep *ir.Value
	switch r := rank(b, mask, "mask"); {
	case b.Err() != nil:
		return nil
	case r == 1:
		if d, ok := mask.Shape()[0].Known(); ok {
			if n, known := k.Shape()[0].Known(); known && n != d {
				fail(b, "mask: expected one number of keys per sample (%d), found %v", n, mask.Type)
				return nil
			}
		}
		count := std(b, "Unsqueeze", cast(b, mask, tensor.Int64), b.Ints(1, 2, 3))
		keep = std(b, "Less", h.steps(h.size(k)), count)
	case r == 2:
		keep = cast(b, std(b, "Unsqueeze", mask, b.Ints(1, 2)), tensor.Bool)
	case r == 3:
		keep = cast(b, std(b, "Unsqueeze", mask, b.Ints(1)), tensor.Bool)
	default:
		fail(b, "mask: expected 1 to 3 axes, found %v", mask.Type)
		return nil
	}
	if b.Err() != nil {
		return nil
	}
	return std(b, "Where", keep, constLike(b, s, 0), constLike(b, s, filter))
}
