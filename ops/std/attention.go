package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Attention is scaled dot-product attention.
var Attention = ops.Same(ops.Register(&ir.Op{
	Name: "Attention", Since: 25,
	Doc: "softmax(softcap(Q·Kᵀ·scale) + mask)·V per head, for Q (B,Hq,S,E), K and V (B,Hkv,T,…), or three axes with " +
		"the heads in the last one. Past keys and values come first. Keys that causality, windows, attn_mask or " +
		"nonpad_kv_seqlen exclude have no weight. Rows without keys are 0.",
	In: ops.Sig("Q:T1", "K:T1", "V:T2", "attn_mask:U?", "past_key:T1?", "past_value:T2?",
		"nonpad_kv_seqlen:int64[_]?"),
	Out:   ops.Sig("Y:T1", "present_key:T1?", "present_value:T2?", "qk_matmul_output:T1?"),
	Elems: map[string][]tensor.DType{"U": numbersAndBool},
	Attrs: []ir.AttrSpec{
		intAttr("is_causal", 0,
			"whether query i masks the keys after position i, counted from the end of the past keys"),
		intAttr("kv_num_heads", nil, "heads of keys and values if these are in the last axis"),
		intAttr("q_num_heads", nil, "heads of queries if these are in the last axis"),
		intAttr("left_window_size", -1, "number of keys before its own position that a query sees; -1: all"),
		intAttr("right_window_size", -1, "number of keys after its own position that a query sees; -1: all"),
		intAttr("qk_matmul_output_mode", 0, "0: products, 1: after softcap, 2: with the mask added, 3: after softmax"),
		{Name: "scale", Kind: ir.AttrFloat, Doc: "factor of products (default 1/√E)"},
		floatAttr("softcap", 0, "bound of products, by tanh; 0: none"),
		intAttr("softmax_precision", nil, "element type of the softmax; computations here are in double precision"),
	},
	Infer: inferAttention, Eval: evalAttention, Body: attentionBody, Along: alongAttention,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		q, v := ops.Count(n.In(0), bind), ops.Count(n.Outputs[0], bind)
		keys := ops.DimAt(n.In(1), -2, bind)
		return workOf(n, bind, 2*(q+v)*keys)
	},
	Linear: ops.LinearIn([]int{2, 5}),
	Tol:    ir.Summing,
}), 24, 23)

// headsOf splits the last axis of an input with three axes into heads: (B,S,H*E) → (B,H,S,E).
func headsOf(n *ir.Node, i int, attr string) (ir.Shape, error) {
	t := tensorIn(n, i)
	switch {
	case t.NoRank:
		return unknownShape(4), nil
	case len(t.Shape) == 4:
		return t.Shape, nil
	case len(t.Shape) != 3:
		return nil, fmt.Errorf("input %d is %v: expected three or four axes", i, t)
	}
	h := n.Attrs.Int(attr, 0)
	if h < 1 {
		return nil, fmt.Errorf("input %d is %v: %s is missing", i, t, attr)
	}
	if d, ok := t.Shape[2].Known(); ok && d%h != 0 {
		return nil, fmt.Errorf("input %d is %v: its last axis does not divide into %d heads", i, t, h)
	}
	return ir.Shape{t.Shape[0], ir.Const(h), t.Shape[1], t.Shape[2].FloorDiv(ir.Const(h))}, nil
}

func inferAttention(n *ir.Node) ([]ir.Type, error) {
	if _, err := ops.Bind(n); err != nil {
		return nil, err
	}
	q, err := headsOf(n, 0, "q_num_heads")
	if err != nil {
		return nil, err
	}
	k, err := headsOf(n, 1, "kv_num_heads")
	if err != nil {
		return nil, err
	}
	v, err := headsOf(n, 2, "kv_num_heads")
	if err != nil {
		return nil, err
	}
	for _, pair := range [][2]ir.Dim{{q[0], k[0]}, {q[0], v[0]}, {k[1], v[1]}, {q[3], k[3]}} {
		if a, ok := pair[0].Known(); ok {
			if b, ok := pair[1].Known(); ok && a != b {
				return nil, fmt.Errorf("Q, K, V are %v, %v, %v, which do not match", q, k, v)
			}
		}
	}
	if m := tensorIn(n, 3); m != nil && !m.NoRank && (len(m.Shape) < 1 || len(m.Shape) > 4) {
		return nil, fmt.Errorf("attn_mask is %v: expected one to four axes", m)
	}
	if l := tensorIn(n, 6); l != nil && !l.NoRank {
		batch, ok := q[0].Known()
		if have, known := l.Shape[0].Known(); ok && known && have != batch {
			return nil, fmt.Errorf("nonpad_kv_seqlen: expected %d numbers, found %d", batch, have)
		}
	}
	total := k[2]
	if p := tensorIn(n, 4); p != nil {
		if p.NoRank || len(p.Shape) != 4 {
			total = ir.Unknown
		} else {
			total = p.Shape[2].Add(total)
		}
	}
	t1, t2 := n.In(0).Elem(), n.In(2).Elem()
	y := typed(t1, ir.Shape{q[0], q[1], q[2], v[3]})
	switch t := tensorIn(n, 0); {
	case t.NoRank:
		y = noRank(t1)
	case len(t.Shape) == 3:
		y = typed(t1, ir.Shape{q[0], q[2], q[1].Mul(v[3])})
	}
	return []ir.Type{y, typed(t1, ir.Shape{k[0], k[1], total, k[3]}), typed(t2, ir.Shape{v[0], v[1], total, v[3]}),
		typed(t1, ir.Shape{q[0], q[1], q[2], total})}, nil
}

// heads is a tensor (B,H,S,E), given with four axes, or with three and the heads in the last.
type heads struct {
	v          []float64
	b, h, s, e int
}

func (t *heads) row(b, h, s int) []float64 {
	o := ((b*t.h+h)*t.s + s) * t.e
	return t.v[o : o+t.e]
}

func readHeads(c *ir.EvalCtx, n *ir.Node, in []tensor.Datum, i int, attr string) (*heads, error) {
	t, err := need(in, i, n.Op.In[i].Name)
	if err != nil {
		return nil, err
	}
	v, err := ops.Float64s(c, t)
	if err != nil {
		return nil, err
	}
	if t.Rank() == 4 {
		return &heads{v, t.Dim(0), t.Dim(1), t.Dim(2), t.Dim(3)}, nil
	}
	count := int(n.Attrs.Int(attr, 0))
	if t.Rank() != 3 || count < 1 || count > max(1, t.Dim(2)) || t.Dim(2)%count != 0 {
		return nil, fmt.Errorf("%s: expected four axes, or three of which the last divides into %d heads, found %s",
			n.Op.In[i].Name, count, t)
	}
	out := &heads{ops.Make[float64](c, len(v)), t.Dim(0), count, t.Dim(1), t.Dim(2) / count}
	for b := range out.b {
		c.Step(1)
		for s := range out.s {
			c.Step(1)
			for h := range count {
				ops.Put(c, out.row(b, h, s), v[((b*out.s+s)*count+h)*out.e:])
			}
		}
	}
	return out, nil
}

// after prepends past steps to the steps of t.
func (t *heads) after(c *ir.EvalCtx, past *tensor.Tensor, what string) (*heads, error) {
	if past == nil {
		return t, nil
	}
	p := past.Shape()
	if len(p) != 4 || p[0] != t.b || p[1] != t.h || p[3] != t.e {
		return nil, fmt.Errorf("%s: expected (%d,%d,_,%d), found %s", what, t.b, t.h, t.e, past)
	}
	v, err := ops.Float64s(c, past)
	if err != nil {
		return nil, err
	}
	old := &heads{v, t.b, t.h, p[2], t.e}
	if _, err := ops.Elems([]int{t.b, t.h, t.s + p[2], t.e}); err != nil {
		return nil, err
	}
	out := &heads{ops.Make[float64](c, len(v)+len(t.v)), t.b, t.h, t.s + p[2], t.e}
	for b := range t.b {
		c.Step(1)
		for h := range t.h {
			c.Step(1)
			for s := range ops.Each(c, out.s) {
				if s < old.s {
					ops.Put(c, out.row(b, h, s), old.row(b, h, s))
				} else {
					ops.Put(c, out.row(b, h, s), t.row(b, h, s-old.s))
				}
			}
		}
	}
	return out, nil
}

// attentionMask holds the terms that are added to the products. -Inf excludes a key.
type attentionMask struct {
	v             []float64 // nil: none
	bool          bool
	strides       [4]int
	keys          int // number of keys in the mask; later keys are excluded
	causal        bool
	left, right   int
	offset        int     // index of query 0 among the keys; used if lens is nil
	lens          []int64 // valid keys per sample, or nil
	queries       int
	externalCache bool
}

func readMask(c *ir.EvalCtx, in []tensor.Datum, q, k *heads, past int) (*attentionMask, error) {
	n := c.Node
	m := &attentionMask{causal: getInt(n, "is_causal") != 0, left: int(getInt(n, "left_window_size")),
		right: int(getInt(n, "right_window_size")), offset: past, queries: q.s}
	if m.left < -1 || m.right < -1 {
		return nil, fmt.Errorf("windows of %d and %d keys: expected -1 or more", m.left, m.right)
	}
	var err error
	if m.lens, err = ints(c, in, 6); err != nil {
		return nil, err
	}
	if m.lens != nil && len(m.lens) != q.b {
		return nil, fmt.Errorf("nonpad_kv_seqlen: expected %d numbers, found %d", q.b, len(m.lens))
	}
	m.externalCache = m.lens != nil && ops.Tensor(in, 4) == nil
	t := ops.Tensor(in, 3)
	if t == nil {
		return m, nil
	}
	m.bool = t.DType() == tensor.Bool
	if m.v, err = ops.Float64s(c, t); err != nil {
		return nil, err
	}
	full := []int{q.b, q.h, q.s, k.s}
	if t.Rank() < 1 || t.Rank() > 4 || t.Dim(t.Rank()-1) > k.s {
		return nil, fmt.Errorf("attn_mask: %s does not broadcast to %v", t, full)
	}
	m.keys = t.Dim(t.Rank() - 1)
	for i, st := range ops.Strides(t.Shape()) {
		a := 4 - t.Rank() + i
		switch d := t.Dim(i); {
		case a == 3 || d == full[a]:
			m.strides[a] = st
		case d != 1:
			return nil, fmt.Errorf("attn_mask: %s does not broadcast to %v", t, full)
		}
	}
	return m, nil
}

// row writes the terms for a query's keys. It reports whether any key remains.
func (m *attentionMask) row(c *ir.EvalCtx, bias []float64, b, h, i int) bool {
	at := m.offset + i
	valid := len(bias)
	if m.lens != nil {
		valid = int(min(max(m.lens[b], 0), int64(len(bias))))
		if m.externalCache {
			at = int(min(max(m.lens[b], -1<<40), 1<<40)) - m.queries + i
		}
	}
	any := false
	for j := range len(bias) {
		c.Step(1)
		bias[j] = 0
		out := j >= valid || m.causal && j > at || m.left >= 0 && at-j > m.left || m.right >= 0 && j-at > m.right
		if m.v != nil && !out {
			if out = j >= m.keys; !out {
				x := m.v[b*m.strides[0]+h*m.strides[1]+i*m.strides[2]+j*m.strides[3]]
				if m.bool {
					out = x == 0
				} else {
					bias[j] = x
				}
			}
		}
		if out {
			bias[j] = math.Inf(-1)
		}
		any = any || !math.IsInf(bias[j], -1)
	}
	return any
}

func evalAttention(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	n := c.Node
	q, err := readHeads(c, n, in, 0, "q_num_heads")
	if err != nil {
		return nil, err
	}
	k, err := readHeads(c, n, in, 1, "kv_num_heads")
	if err != nil {
		return nil, err
	}
	v, err := readHeads(c, n, in, 2, "kv_num_heads")
	if err != nil {
		return nil, err
	}
	pastK, pastV := ops.Tensor(in, 4), ops.Tensor(in, 5)
	if (pastK == nil) != (pastV == nil) {
		return nil, fmt.Errorf("past_key and past_value: expected both, or none")
	}
	past := k.s
	if k, err = k.after(c, pastK, "past_key"); err != nil {
		return nil, err
	}
	if v, err = v.after(c, pastV, "past_value"); err != nil {
		return nil, err
	}
	past = k.s - past
	if q.b != k.b || q.b != v.b || k.h != v.h || k.h == 0 || q.h%k.h != 0 || k.s != v.s || q.e != k.e {
		return nil, fmt.Errorf("Q, K, V are (%d,%d,%d,%d), (%d,%d,%d,%d), (%d,%d,%d,%d), which do not match", q.b, q.h,
			q.s, q.e, k.b, k.h, k.s, k.e, v.b, v.h, v.s, v.e)
	}
	mask, err := readMask(c, in, q, k, past)
	if err != nil {
		return nil, err
	}
	scale := n.Attrs.Float("scale", 1/math.Sqrt(float64(q.e)))
	softcap, mode := getFloat(n, "softcap"), getInt(n, "qk_matmul_output_mode")
	wantQK := n.Out(3) != nil
	qkShape := []int{q.b, q.h, q.s, k.s}
	if _, err := ops.Elems(qkShape); wantQK && err != nil {
		return nil, err
	}
	var qk []float64
	y := &heads{nil, q.b, q.h, q.s, v.e}
	if _, err := ops.Elems([]int{y.b, y.h, y.s, y.e}); err != nil {
		return nil, err
	}
	y.v = ops.Make[float64](c, y.b*y.h*y.s*y.e)
	score, bias := ops.Make[float64](c, k.s), ops.Make[float64](c, k.s)
	keep := func(at int64) {
		if wantQK && mode == at {
			qk = ops.Append(c, qk, score...)
		}
	}
	for b := range q.b {
		c.Step(1)
		for h := range q.h {
			c.Step(1)
			kv := h / (q.h / k.h)
			for i := range q.s {
				c.Step(1)
				row := q.row(b, h, i)
				for j := range ops.Each(c, len(score)) {
					score[j] = scale * dot(c, row, k.row(b, kv, j))
				}
				keep(0)
				if softcap > 0 {
					for j, x := range ops.All(c, score) {
						score[j] = softcap * math.Tanh(x/softcap)
					}
				}
				keep(1)
				some := mask.row(c, bias, b, h, i)
				for j, x := range ops.All(c, bias) {
					if score[j] += x; math.IsInf(x, -1) { // the product may be +Inf or NaN
						score[j] = x
					}
				}
				keep(2)
				if some {
					softmaxRow(c, score)
				} else {
					ops.Fill(c, score, 0)
				}
				keep(3)
				out := y.row(b, h, i)
				for j, w := range score {
					c.Step(1)
					if w != 0 {
						for e, x := range ops.All(c, v.row(b, kv, j)) {
							out[e] += w * x
						}
					}
				}
			}
		}
	}
	t1, t2 := ops.Tensor(in, 0).DType(), ops.Tensor(in, 2).DType()
	out, err := several(
		func() (*tensor.Tensor, error) {
			if ops.Tensor(in, 0).Rank() == 4 {
				return ops.Real(c, t1, y.v, y.b, y.h, y.s, y.e)
			}
			return ops.Real(c, t1, y.joined(c), y.b, y.s, y.h*y.e)
		},
		func() (*tensor.Tensor, error) { return ops.Real(c, t1, k.v, k.b, k.h, k.s, k.e) },
		func() (*tensor.Tensor, error) { return ops.Real(c, t2, v.v, v.b, v.h, v.s, v.e) })
	if err != nil || !wantQK {
		return append(out, nil), err
	}
	if len(qk) != product(qkShape) {
		return nil, fmt.Errorf("qk_matmul_output_mode is %d, expected 0 to 3", mode)
	}
	t, err := ops.Real(c, t1, qk, qkShape...)
	return append(out, t), err
}

// joined moves the heads to the last axis: (B,S,H*E).
func (t *heads) joined(c *ir.EvalCtx) []float64 {
	flat := ops.Make[float64](c, len(t.v))[:0]
	for b := range t.b {
		c.Step(1)
		for s := range t.s {
			c.Step(1)
			for h := range ops.Each(c, t.h) {
				row := t.row(b, h, s)
				c.Step(len(row))
				flat = append(flat, row...)
			}
		}
	}
	return flat
}

// softmaxRow replaces numbers by their softmax.
func softmaxRow(c *ir.EvalCtx, v []float64) {
	top := math.Inf(-1)
	for _, x := range ops.All(c, v) {
		top = max(top, x)
	}
	var sum float64
	for i, x := range ops.All(c, v) {
		v[i] = math.Exp(x - top)
		sum += v[i]
	}
	for i := range ops.Each(c, len(v)) {
		v[i] /= sum
	}
}

// alongAttention keeps samples separate. Along the sequence of queries, keys and values, a query looks as far as
// causality and windows allow, back without bound and without a state of fixed size. If only queries vary, each is
// separate.
func alongAttention(n *ir.Node, in []ir.Fact) []ir.Fact {
	seq := func(i int) int {
		if len(n.In(i).Shape()) == 3 {
			return 1
		}
		return 2
	}
	batch, varies := true, 0
	for i, f := range in {
		if f.Constant() {
			continue
		}
		varies++
		batch = batch && !f.Global && f.Axis == 0 && (i != 3 || len(n.In(3).Shape()) == 4)
	}
	q := in[0]
	q.State = 0
	out := spread(n, ops.Global(n, in))
	switch {
	case varies == 0:
		return spread(n, q)
	case batch:
		f := ops.Join(n, in, make([]int, len(in)), 0)
		return spread(n, f)
	case q.Constant() || q.Global || q.Axis != seq(0):
		return out
	}
	causal, left, right := getInt(n, "is_causal") != 0, getInt(n, "left_window_size"), getInt(n, "right_window_size")
	if varies == 1 && !causal && left < 0 && right < 0 {
		out[0] = q
		return out
	}
	for i, f := range in {
		if same := i < 3 && !f.Constant() && !f.Global && f.Axis == seq(i) && f.Stride == q.Stride; !same &&
			!(i == 3 && f.Constant()) && !(i > 3 && n.In(i) == nil) {
			return out
		}
	}
	if causal && right != 0 {
		right = 0
	}
	if right < 0 {
		return out
	}
	f := q
	for _, o := range in[1:3] {
		f.Back, f.Ahead = max(f.Back, o.Back), max(f.Ahead, o.Ahead)
		f.Summary = f.Summary && o.Summary
	}
	f.Ahead += right * f.Stride
	if f.Back += left * f.Stride; left < 0 {
		f.Back, f.Summary, f.Cause = ir.Unbounded, false, n
	}
	f.Back, f.Ahead = min(f.Back, ir.Unbounded), min(f.Ahead, ir.Unbounded)
	out[0] = f
	return out
}
