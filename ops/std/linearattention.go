package std

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// LinearAttention is attention as a recurrence with a state of fixed size. It has no body: that would be a Scan over
// steps of a dozen small operators, and a backend prefers a body to Eval, which is one loop over the state.
var LinearAttention = ops.Register(&ir.Op{
	Name: "LinearAttention", Since: 27,
	Doc: "Per head, S[t] = exp(decay)∘S[t-1] + k⊗u, o = scale·qᵀS, where u is v, or beta·(v - Sᵀk) with a delta " +
		"rule; query (B,L,Hq*K), key (B,L,Hkv*K), value (B,L,Hkv*V), states (B,Hkv,K,V).",
	In: ops.Sig("query:T[B,L,_]", "key:T[B,L,_]", "value:T[B,L,_]", "past_state:S[B,_,_,_]?", "decay:T[B,L,_]?",
		"beta:T[B,L,_]?"), Out: ops.Sig("output:T", "present_state:S"),
	Attrs: []ir.AttrSpec{
		intAttr("chunk_size", 64, "a hint, without effect on results"),
		{Name: "kv_num_heads", Kind: ir.AttrInt, Required: true, Doc: "Hkv"},
		{Name: "q_num_heads", Kind: ir.AttrInt, Required: true, Doc: "Hq, a multiple of Hkv"},
		floatAttr("scale", 0, "factor of the output; 0: 1/√K"),
		oneOf("update_rule", "gated_delta", "terms of the recurrence", "linear", "gated", "delta"),
	},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		hq, hkv := getInt(n, "q_num_heads"), getInt(n, "kv_num_heads")
		if hkv < 1 || hq < 1 || hq%hkv != 0 {
			return nil, fmt.Errorf("%d heads of queries, %d of keys: expected a positive multiple", hq, hkv)
		}
		q, v := tensorIn(n, 0), tensorIn(n, 2)
		s := q.Elem
		if p := n.In(3); p != nil {
			s = p.Elem()
		}
		if q.NoRank || v.NoRank {
			return []ir.Type{noRank(q.Elem), noRank(s)}, nil
		}
		dk, dv := q.Shape[2].FloorDiv(ir.Const(hq)), v.Shape[2].FloorDiv(ir.Const(hkv))
		return []ir.Type{typed(q.Elem, ir.Shape{q.Shape[0], q.Shape[1], dv.Mul(ir.Const(hq))}),
			typed(s, ir.Shape{q.Shape[0], ir.Const(hkv), dk, dv})}, nil
	},
	Eval: evalLinearAttention,
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		var joined ir.Fact
		for i, f := range in {
			if f.Constant() {
				continue
			}
			if f.Global || f.Axis != 0 && (f.Axis != 1 || i == 3) || !joined.Constant() &&
				(f.Axis != joined.Axis || f.Stride != joined.Stride) {
				return spread(n, ops.Global(n, in))
			}
			joined = ops.Join(n, []ir.Fact{joined, f}, []int{0, 0}, 0)
		}
		out := spread(n, joined)
		if joined.Constant() || joined.Axis == 0 {
			return out
		}
		out[0].Summary = joined.Back < ir.Unbounded || joined.Summary
		out[0].Back, out[0].Cause, out[0].State = ir.Unbounded, n, 1
		if q, v := tensorIn(n, 0), tensorIn(n, 2); !q.NoRank && !v.NoRank {
			hq := ir.Const(getInt(n, "q_num_heads"))
			out[0].State = stateSize(ir.Shape{q.Shape[2].FloorDiv(hq), v.Shape[2]})
		}
		for i := 1; i < len(out); i++ {
			out[i] = out[0]
			out[i].Axis, out[i].State = -1, 0
		}
		return out
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		dk := ops.DimAt(n.In(0), 2, bind) / max(1, getInt(n, "q_num_heads"))
		return workOf(n, bind, 6*dk*(ops.Count(n.In(2), bind)+ops.Count(n.Outputs[0], bind)))
	},
	NoGradient: ops.NotYet,
	Linear:     linearAttentionSets,
	Tol:        ir.Long,
})

// linearAttention is an application of LinearAttention to tensors.
type linearAttention struct {
	batch, length   int
	hq, hkv, dk, dv int  // heads of query, and of key and value; their features
	gated, delta    bool // the parts of the update rule
	decay, beta     []float64
	decays, betas   int // the sizes of their last axes
}

// read reads the sizes and the update rule, and checks the inputs.
func (a *linearAttention) read(c *ir.EvalCtx, in []tensor.Datum) error {
	n := c.Node
	query, err := need(in, 0, "query")
	if err != nil {
		return err
	}
	key, err := need(in, 1, "key")
	if err != nil {
		return err
	}
	value, err := need(in, 2, "value")
	if err != nil {
		return err
	}
	hq, hkv := int(getInt(n, "q_num_heads")), int(getInt(n, "kv_num_heads"))
	if hkv < 1 || hq < 1 || hq%hkv != 0 || query.Rank() != 3 || query.Dim(2)%hq != 0 || value.Rank() != 3 ||
		value.Dim(2)%hkv != 0 {
		return fmt.Errorf(
			"query %s with %d heads, value %s with %d: expected three axes, the last of whole heads, and a positive "+
				"multiple of heads", query, hq, value, hkv)
	}
	batch, length, dk, dv := query.Dim(0), query.Dim(1), query.Dim(2)/hq, value.Dim(2)/hkv
	if err := ops.SameShape(key.Shape(), []int{batch, length, hkv * dk}); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if err := ops.SameShape(value.Shape(), []int{batch, length, hkv * dv}); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	rule := getStr(n, "update_rule")
	*a = linearAttention{batch: batch, length: length, hq: hq, hkv: hkv, dk: dk, dv: dv,
		gated: rule == "gated" || rule == "gated_delta", delta: rule == "delta" || rule == "gated_delta"}
	// perStep reads decay or beta. Its last axis may have one of two sizes.
	perStep := func(i int, wanted bool, size, other int) ([]float64, int, error) {
		t := ops.Tensor(in, i)
		if (t != nil) != wanted {
			return nil, 0, fmt.Errorf("%s: update_rule %s requires it: %v, it is given: %v", n.Op.In[i].Name, rule,
				wanted, t != nil)
		}
		if t == nil {
			return nil, 0, nil
		}
		if s := t.Shape(); len(s) != 3 || s[0] != batch || s[1] != length || s[2] != size && s[2] != other {
			return nil, 0, fmt.Errorf("%s: expected (%d,%d,%d) or (%d,%d,%d), found %s", n.Op.In[i].Name, batch, length,
				size, batch, length, other, t)
		}
		return ops.F64(c, in, i), t.Dim(2), nil
	}
	if a.decay, a.decays, err = perStep(4, a.gated, hkv, hkv*dk); err != nil {
		return err
	}
	a.beta, a.betas, err = perStep(5, a.delta, hkv, 1)
	return err
}

func evalLinearAttention(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	var a linearAttention
	if err := a.read(c, in); err != nil {
		return nil, err
	}
	states := []int{a.batch, a.hkv, a.dk, a.dv}
	outShape := []int{a.batch, a.length, a.hq * a.dv}
	if _, err := ops.Elems(states); err != nil {
		return nil, err
	}
	if _, err := ops.Elems(outShape); err != nil {
		return nil, err
	}
	elem := ops.Tensor(in, 0).DType()
	state, stateType := ops.Make[float64](c, product(states)), elem
	if p := ops.Tensor(in, 3); p != nil {
		if err := ops.SameShape(p.Shape(), states); err != nil {
			return nil, fmt.Errorf("past_state: %w", err)
		}
		state, stateType = ops.F64(c, in, 3), p.DType()
	}
	scale := getFloat(c.Node, "scale")
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(a.dk))
	}
	q, k, v := ops.F64(c, in, 0), ops.F64(c, in, 1), ops.F64(c, in, 2)
	y, u := ops.Make[float64](c, product(outShape)), ops.Make[float64](c, a.dv)
	for b := range a.batch {
		c.Step(1)
		for t := range a.length {
			c.Step(1)
			at := b*a.length + t
			for h := range a.hkv {
				c.Step(1)
				s := state[(b*a.hkv+h)*a.dk*a.dv:][:a.dk*a.dv]
				row := at*a.hkv + h
				a.update(c, s, u, k[row*a.dk:][:a.dk], v[row*a.dv:][:a.dv], at, h)
				each := a.hq / a.hkv
				for g := h * each; g < (h+1)*each; g++ {
					row := at*a.hq + g
					out := y[row*a.dv:][:a.dv]
					for i, x := range q[row*a.dk:][:a.dk] {
						c.Step(1)
						for j := range ops.Each(c, len(out)) {
							out[j] += scale * x * s[i*a.dv+j]
						}
					}
				}
			}
		}
	}
	return several(
		func() (*tensor.Tensor, error) { return ops.Real(c, elem, y, outShape...) },
		func() (*tensor.Tensor, error) { return ops.Real(c, stateType, ops.Clone(c, state), states...) })
}

// update updates the state s of head h by the key and the value of a step, the one at index at of all samples. It uses
// u, which is as long as the value.
func (a *linearAttention) update(c *ir.EvalCtx, s, u, key, value []float64, at, h int) {
	dv := a.dv
	for i := 0; a.gated && i < a.dk; i++ {
		g := 0.0
		if a.decays == a.hkv {
			g = a.decay[at*a.hkv+h]
		} else {
			g = a.decay[(at*a.hkv+h)*a.dk+i]
		}
		g = math.Exp(g)
		for j := range ops.Each(c, dv) {
			s[i*dv+j] *= g
		}
	}
	ops.Put(c, u, value)
	if a.delta {
		for i, x := range key {
			c.Step(1)
			for j := range ops.Each(c, len(u)) {
				u[j] -= x * s[i*dv+j]
			}
		}
		rate := a.beta[at*a.betas+h%a.betas]
		for j := range ops.Each(c, len(u)) {
			u[j] *= rate
		}
	}
	for i, x := range key {
		c.Step(1)
		for j, z := range ops.All(c, u) {
			s[i*dv+j] += x * z
		}
	}
}

func linearAttentionSets(n *ir.Node) [][]int {
	switch getStr(n, "update_rule") {
	case "linear", "gated":
		return [][]int{{0}, {1, 3}, {2, 3}}
	}
	return [][]int{{0}, {2, 3}} // with a delta rule, keys are read and written
}
