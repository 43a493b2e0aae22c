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

func evalLinearAttention(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	n := c.Node
	query, err := need(in, 0, "query")
	if err != nil {
		return nil, err
	}
	key, err := need(in, 1, "key")
	if err != nil {
		return nil, err
	}
	value, err := need(in, 2, "value")
	if err != nil {
		return nil, err
	}
	hq, hkv := int(getInt(n, "q_num_heads")), int(getInt(n, "kv_num_heads"))
	if hkv < 1 || hq < 1 || hq%hkv != 0 || query.Rank() != 3 || query.Dim(2)%hq != 0 || value.Rank() != 3 ||
		value.Dim(2)%hkv != 0 {
		return nil, fmt.Errorf(
			"query %s with %d heads, value %s with %d: expected three axes, the last of whole heads, and a positive "+
				"multiple of heads", query, hq, value, hkv)
	}
	batch, length, dk, dv := query.Dim(0), query.Dim(1), query.Dim(2)/hq, value.Dim(2)/hkv
	if err := ops.SameShape(key.Shape(), []int{batch, length, hkv * dk}); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if err := ops.SameShape(value.Shape(), []int{batch, length, hkv * dv}); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	rule := getStr(n, "update_rule")
	gated, delta := rule == "gated" || rule == "gated_delta", rule == "delta" || rule == "gated_delta"
	// perStep reads decay or beta. Its last axis may have one of two sizes.
	perStep := func(i int, wanted bool, a, b int) ([]float64, int, error) {
		t := ops.Tensor(in, i)
		if (t != nil) != wanted {
			return nil, 0, fmt.Errorf("%s: update_rule %s requires it: %v, it is given: %v", n.Op.In[i].Name, rule,
				wanted, t != nil)
		}
		if t == nil {
			return nil, 0, nil
		}
		if s := t.Shape(); len(s) != 3 || s[0] != batch || s[1] != length || s[2] != a && s[2] != b {
			return nil, 0, fmt.Errorf("%s: expected (%d,%d,%d) or (%d,%d,%d), found %s", n.Op.In[i].Name, batch, length,
				a, batch, length, b, t)
		}
		return ops.F64(c, in, i), t.Dim(2), nil
	}
	decay, decays, err := perStep(4, gated, hkv, hkv*dk)
	if err != nil {
		return nil, err
	}
	beta, betas, err := perStep(5, delta, hkv, 1)
	if err != nil {
		return nil, err
	}
	states := []int{batch, hkv, dk, dv}
	outShape := []int{batch, length, hq * dv}
	if _, err := ops.Elems(states); err != nil {
		return nil, err
	}
	if _, err := ops.Elems(outShape); err != nil {
		return nil, err
	}
	state, stateType := ops.Make[float64](c, product(states)), query.DType()
	if p := ops.Tensor(in, 3); p != nil {
		if err := ops.SameShape(p.Shape(), states); err != nil {
			return nil, fmt.Errorf("past_state: %w", err)
		}
		state, stateType = ops.F64(c, in, 3), p.DType()
	}
	scale := getFloat(n, "scale")
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(dk))
	}
	q, k, v := ops.F64(c, in, 0), ops.F64(c, in, 1), ops.F64(c, in, 2)
	y, u := ops.Make[float64](c, product(outShape)), ops.Make[float64](c, dv)
	for b := range batch {
		c.Step(1)
		for t := range length {
			c.Step(1)
			at := b*length + t
			for h := range hkv {
				c.Step(1)
				s := state[(b*hkv+h)*dk*dv:][:dk*dv]
				kt, vt := k[(at*hkv+h)*dk:][:dk], v[(at*hkv+h)*dv:][:dv]
				for i := 0; gated && i < dk; i++ {
					g := 0.0
					if decays == hkv {
						g = decay[at*hkv+h]
					} else {
						g = decay[(at*hkv+h)*dk+i]
					}
					g = math.Exp(g)
					for j := range ops.Each(c, dv) {
						s[i*dv+j] *= g
					}
				}
				ops.Put(c, u, vt)
				if delta {
					for i, x := range kt {
						c.Step(1)
						for j := range ops.Each(c, len(u)) {
							u[j] -= x * s[i*dv+j]
						}
					}
					rate := beta[at*betas+h%betas]
					for j := range ops.Each(c, len(u)) {
						u[j] *= rate
					}
				}
				for i, x := range kt {
					c.Step(1)
					for j, z := range ops.All(c, u) {
						s[i*dv+j] += x * z
					}
				}
				for g := h * (hq / hkv); g < (h+1)*(hq/hkv); g++ {
					out := y[(at*hq+g)*dv:][:dv]
					for i, x := range q[(at*hq+g)*dk:][:dk] {
						c.Step(1)
						for j := range ops.Each(c, len(out)) {
							out[j] += scale * x * s[i*dv+j]
						}
					}
				}
			}
		}
	}
	return several(
		func() (*tensor.Tensor, error) { return ops.Real(c, query.DType(), y, outShape...) },
		func() (*tensor.Tensor, error) { return ops.Real(c, stateType, ops.Clone(c, state), states...) })
}

func linearAttentionSets(n *ir.Node) [][]int {
	switch getStr(n, "update_rule") {
	case "linear", "gated":
		return [][]int{{0}, {1, 3}, {2, 3}}
	}
	return [][]int{{0}, {2, 3}} // with a delta rule, keys are read and written
}
