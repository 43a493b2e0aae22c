package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// unfold moves heads from the last of three axes to their own axis: (B,S,H*E) → (B,H,S,E).
func unfold(b *ir.Builder, n *ir.Node, x *ir.Value, count string) *ir.Value {
	if len(x.Shape()) == 4 {
		return x
	}
	h := n.Attrs.Int(count, 0)
	if len(x.Shape()) != 3 || h < 1 {
		b.Fail(fmt.Errorf("%v: expected four axes, or three and %s", x.Type, count))
		return nil
	}
	width := int64(-1)
	if d, ok := x.Shape()[2].Known(); ok && d%h == 0 { // -1 loses it where other sizes are unknown
		width = d / h
	}
	return attr(b, "Transpose", []*ir.Value{op(b, "Reshape", x, b.Ints(0, 0, h, width))}, i64Attr("perm", 0, 2, 1, 3))
}

// refold is the inverse of unfold if x has three axes.
func refold(b *ir.Builder, y, x *ir.Value) *ir.Value {
	if len(x.Shape()) == 4 {
		return y
	}
	return op(b, "Reshape", attr(b, "Transpose", []*ir.Value{y}, i64Attr("perm", 0, 2, 1, 3)), b.Ints(0, 0, -1))
}

func i64Attr(name string, v ...int64) ir.Attr { return ir.A(name, v) }

// dimOf returns the size of an axis as a vector of one number.
func dimOf(b *ir.Builder, x *ir.Value, axis int64) *ir.Value {
	return attr(b, "Shape", []*ir.Value{x}, ir.A("start", axis), ir.A("end", axis+1))
}

// count returns the vector 0, 1, … below the size of an axis.
func count(b *ir.Builder, x *ir.Value, axis int64) *ir.Value {
	zero, one := b.Const("c", tensor.Scalar(int64(0))), b.Const("c", tensor.Scalar(int64(1)))
	return op(b, "Range", zero, op(b, "Squeeze", dimOf(b, x, axis)), one)
}

// shareHeads repeats the hkv heads of x (B,Hkv,S,E) for hq query heads, in groups.
func shareHeads(b *ir.Builder, x *ir.Value, hq, hkv int64) *ir.Value {
	if hq == hkv {
		return x
	}
	shape := attr(b, "Concat", []*ir.Value{dimOf(b, x, 0), b.Ints(hq),
		attr(b, "Shape", []*ir.Value{x}, ir.A("start", 2))}, ir.A("axis", 0))
	return op(b, "Reshape", op(b, "Expand", op(b, "Unsqueeze", x, b.Ints(2)), b.Ints(1, 1, hq/hkv, 1, 1)), shape)
}

func attentionBody(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	arg := func(i int) *ir.Value {
		if i < len(in) {
			return in[i]
		}
		return nil
	}
	q, k, v := unfold(b, n, in[0], "q_num_heads"), unfold(b, n, in[1], "kv_num_heads"),
		unfold(b, n, in[2], "kv_num_heads")
	if b.Err() != nil {
		return make([]*ir.Value, 4)
	}
	if arg(4) != nil && arg(5) != nil {
		k, v = attr(b, "Concat", []*ir.Value{arg(4), k}, ir.A("axis", 2)),
			attr(b, "Concat", []*ir.Value{arg(5), v}, ir.A("axis", 2))
	}
	out := []*ir.Value{nil, op(b, "Identity", k), op(b, "Identity", v), nil}
	hq, okQ := q.Shape()[1].Known()
	hkv, okK := k.Shape()[1].Known()
	width, okE := q.Shape()[3].Known()
	if b.Err() != nil || !okQ || !okK || !okE && !n.Attrs.Has("scale") || hkv < 1 || hq%hkv != 0 {
		b.Fail(fmt.Errorf("Q %v, K %v: expected known numbers of heads, a multiple of each other, and of features",
			q.Type, k.Type))
		return make([]*ir.Value, 4)
	}
	k, v = shareHeads(b, k, hq, hkv), shareHeads(b, v, hq, hkv)
	score := op(b, "MatMul", q, attr(b, "Transpose", []*ir.Value{k}, i64Attr("perm", 0, 1, 3, 2)))
	score = op(b, "Mul", score, constLike(b, score, n.Attrs.Float("scale", 1/math.Sqrt(float64(width)))))
	stages := []*ir.Value{score}
	if cap := getFloat(n, "softcap"); cap > 0 {
		score = op(b, "Mul", op(b, "Tanh", op(b, "Div", score, constLike(b, score, cap))), constLike(b, score, cap))
	}
	stages = append(stages, score)
	bias := attentionBias(b, n, q, k, arg)
	if bias != nil {
		score = op(b, "Add", score, bias)
	}
	stages = append(stages, score)
	weights := attr(b, "Softmax", []*ir.Value{score}, ir.A("axis", -1))
	if bias != nil { // rows without keys
		none := op(b, "Equal", op(b, "ReduceMax", bias, b.Ints(-1)), constLike(b, score, math.Inf(-1)))
		weights = op(b, "Where", none, constLike(b, score, 0), weights)
	}
	stages = append(stages, weights)
	if n.Out(3) == nil {
		out = out[:3]
	} else if mode := getInt(n, "qk_matmul_output_mode"); mode >= 0 && mode < int64(len(stages)) {
		out[3] = op(b, "Identity", stages[mode])
	}
	if q.Elem() != v.Elem() {
		v = attr(b, "Cast", []*ir.Value{v}, ir.A("to", int(q.Elem())))
	}
	out[0] = refold(b, op(b, "MatMul", weights, v), in[0])
	return out
}

// attentionBias returns the terms that are added to the products, -Inf for excluded keys. It is nil if there are none.
func attentionBias(b *ir.Builder, n *ir.Node, q, k *ir.Value, arg func(int) *ir.Value) *ir.Value {
	zero, out := constLike(b, q, 0), constLike(b, q, math.Inf(-1))
	var bias *ir.Value
	add := func(x *ir.Value) {
		if bias == nil {
			bias = x
		} else {
			bias = op(b, "Add", bias, x)
		}
	}
	if mask := arg(3); mask != nil {
		if mask.Elem() == tensor.Bool {
			mask = op(b, "Where", mask, zero, out)
		} else if mask.Elem() != q.Elem() {
			mask = attr(b, "Cast", []*ir.Value{mask}, ir.A("to", int(q.Elem())))
		}
		if s := mask.Shape(); len(s) == 0 || !s[len(s)-1].Equal(k.Shape()[2]) { // a short mask excludes the last keys
			missing := op(b, "Sub", dimOf(b, k, 2), attr(b, "Shape", []*ir.Value{mask}, ir.A("start", -1)))
			mask = op(b, "Pad", mask, attr(b, "Concat", []*ir.Value{b.Ints(0), missing}, ir.A("axis", 0)), out,
				b.Ints(-1))
		}
		add(mask)
	}
	keep := func(allowed *ir.Value) { add(op(b, "Where", allowed, zero, out)) }
	var lens *ir.Value
	keys := count(b, k, 2)
	if arg(6) != nil {
		lens = op(b, "Unsqueeze", arg(6), b.Ints(1, 2, 3))
		keep(op(b, "Less", keys, lens))
	}
	causal, left, right := getInt(n, "is_causal") != 0, getInt(n, "left_window_size"), getInt(n, "right_window_size")
	if !causal && left < 0 && right < 0 {
		return bias
	}
	place := op(b, "Unsqueeze", count(b, q, 2), b.Ints(1))
	switch {
	case arg(4) != nil:
		place = op(b, "Add", place, dimOf(b, arg(4), 2))
	case lens != nil:
		place = op(b, "Add", place, op(b, "Sub", lens, dimOf(b, q, 2)))
	}
	ahead := op(b, "Sub", keys, place)
	if causal {
		keep(op(b, "LessOrEqual", ahead, b.Ints(0)))
	}
	if left >= 0 {
		keep(op(b, "GreaterOrEqual", ahead, b.Ints(-left)))
	}
	if right >= 0 {
		keep(op(b, "LessOrEqual", ahead, b.Ints(right)))
	}
	return bias
}

func rotaryBody(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	x := unfold(b, n, in[0], "num_heads")
	if b.Err() != nil {
		return make([]*ir.Value, 1)
	}
	cos, sin := in[1], in[2]
	if len(in) > 3 && in[3] != nil {
		cos, sin = op(b, "Gather", cos, in[3]), op(b, "Gather", sin, in[3])
	}
	cos, sin = op(b, "Unsqueeze", cos, b.Ints(1)), op(b, "Unsqueeze", sin, b.Ints(1))
	last := func(x *ir.Value, from, to, step int64) *ir.Value {
		return op(b, "Slice", x, b.Ints(from), b.Ints(to), b.Ints(-1), b.Ints(step))
	}
	const end = 1 << 62
	var rest *ir.Value
	if turned := getInt(n, "rotary_embedding_dim"); turned > 0 {
		x, rest = last(x, 0, turned, 1), last(x, turned, end, 1)
	}
	var p, q *ir.Value
	together := getInt(n, "interleaved") != 0
	if together {
		p, q = last(x, 0, end, 2), last(x, 1, end, 2)
	} else {
		halves := b.Ops("", "Split", 2, []*ir.Value{x}, ir.A("axis", -1), ir.A("num_outputs", 2))
		p, q = halves[0], halves[1]
	}
	re := op(b, "Sub", op(b, "Mul", cos, p), op(b, "Mul", sin, q))
	im := op(b, "Add", op(b, "Mul", sin, p), op(b, "Mul", cos, q))
	var y *ir.Value
	if together {
		pair := attr(b, "Concat", []*ir.Value{op(b, "Unsqueeze", re, b.Ints(-1)), op(b, "Unsqueeze", im, b.Ints(-1))},
			ir.A("axis", -1))
		y = op(b, "Reshape", pair, b.Ints(0, 0, 0, -1))
	} else {
		y = attr(b, "Concat", []*ir.Value{re, im}, ir.A("axis", -1))
	}
	if rest != nil {
		y = attr(b, "Concat", []*ir.Value{y, rest}, ir.A("axis", -1))
	}
	return []*ir.Value{refold(b, y, in[0])}
}
