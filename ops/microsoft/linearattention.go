package microsoft

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// LinearAttention carries a matrix for each head from step to step, and reads it with the queries.
var LinearAttention = ops.Register(&ir.Op{
	Domain: Domain, Name: "LinearAttention",
	Doc: "A state S (d_k,d_v) for each head of keys, begun with past_state or zeros. At each step S becomes g*S + " +
		"k·(b*u)ᵀ, and the output is scale*Sᵀ·q. update_rule linear: g=1, u=v, b=1. gated: g=exp(decay). delta: " +
		"u=v-Sᵀ·k, b=beta. gated_delta: both, with g*S for S in u. query is (B,L,q_num_heads*d_k), key " +
		"(B,L,kv_num_heads*d_k), value (B,L,kv_num_heads*d_v); decay (B,L,kv_num_heads) or (B,L,kv_num_heads*d_k); " +
		"beta (B,L,kv_num_heads) or (B,L,1). Several heads of queries may share one of keys, and several of keys one " +
		"of queries; the output has those of the larger number.",
	In: ops.Sig("query:T[B,L,_]", "key:T[B,L,_]", "value:T[B,L,_]", "past_state:S[B,_,_,_]?", "decay:T[B,L,_]?",
		"beta:T[B,L,_]?"),
	Out: ops.Sig("output:T[B,L,_]", "present_state:S[B,_,_,_]"), Elems: types{"T": half16, "S": half16},
	Attrs: []ir.AttrSpec{ops.Required(ops.IntSpec("q_num_heads", nil, "heads of queries")),
		ops.Required(ops.IntSpec("kv_num_heads", nil, "heads of keys and values")),
		ops.ChoiceSpec("update_rule", "how the state changes", "gated_delta", "linear", "gated", "delta"),
		ops.FloatSpec("scale", 0, "factor of outputs; 0: 1/√d_k"), ops.IntSpec("chunk_size", 64, "has no meaning here"),
		ops.IntSpec("state_window", 0, "must be 0")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		l, err := linearOf(n)
		if err != nil {
			return nil, err
		}
		q, k, v := n.In(0), n.In(1), n.In(2)
		for i, x := range []*ir.Value{q, k, v} {
			if t, _ := ir.AsTensor(x.Type); t.NoRank || len(t.Shape) != 3 {
				return nil, fmt.Errorf("input %d: expected 3 axes, found %v", i, x.Type)
			}
		}
		part := func(x *ir.Value, heads int) (ir.Dim, error) {
			d, ok := x.Shape()[2].Known()
			if ok && (d < 1 || d%int64(heads) != 0) {
				return ir.Unknown, fmt.Errorf("expected %d heads of 1 or more features, found %v", heads, x.Type)
			} else if !ok {
				return ir.Unknown, nil
			}
			return ir.Const(d / int64(heads)), nil
		}
		dk, err := part(k, l.kv)
		if err != nil {
			return nil, err
		}
		dv, err := part(v, l.kv)
		if err != nil {
			return nil, err
		}
		if d, err := part(q, l.q); err != nil {
			return nil, err
		} else if a, ok := d.Known(); ok {
			if b, known := dk.Known(); known && a != b {
				return nil, fmt.Errorf("query: expected heads of %d features, as key has, found %d", b, a)
			}
		}
		state := ir.Type(&ir.TensorType{Elem: q.Elem(), Shape: ir.Shape{q.Shape()[0], ir.Const(int64(l.kv)), dk, dv}})
		if p := n.In(3); p != nil {
			state.(*ir.TensorType).Elem = p.Elem()
		}
		width := ir.Unknown
		if d, ok := dv.Known(); ok {
			width = ir.Const(d * int64(max(l.q, l.kv)))
		}
		out := []ir.Type{&ir.TensorType{Elem: q.Elem(), Shape: ir.Shape{q.Shape()[0], q.Shape()[1], width}}, state}
		return out[:max(1, len(n.Outputs))], nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		l, err := linearOf(c.Node)
		if err != nil {
			return nil, err
		}
		return l.eval(c, in)
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := ops.Global(n, in)
		return []ir.Fact{f, f}[:max(1, len(n.Outputs))]
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		state := ops.DimAt(n.In(1), 2, bind) * ops.Count(n.In(2), bind) / max(1, ops.Int(n, "kv_num_heads"))
		return ir.Work{Flops: 8 * state, Bytes: ops.BytesOf(n, bind)}
	},
	NoGradient: ops.NotYet,
	Linear:     linearAttentionSets,
	Tol:        ir.Long,
})

// linear is an application of LinearAttention.
type linear struct {
	q, kv         int // heads
	scale         float64
	gated, delta  bool
	dk, dv, width int // features of a head; numbers of a step's decays
}

func linearOf(n *ir.Node) (l linear, err error) {
	q, kv := ops.Int(n, "q_num_heads"), ops.Int(n, "kv_num_heads")
	if q < 1 || kv < 1 || q%kv != 0 && kv%q != 0 {
		return l, fmt.Errorf("q_num_heads %d, kv_num_heads %d: expected numbers of 1 or more, one a multiple of the "+
			"other", q, kv)
	}
	if w := ops.Int(n, "state_window"); w != 0 {
		return l, fmt.Errorf("state_window: expected 0, found %d", w)
	}
	rule := ops.Str(n, "update_rule")
	l = linear{q: int(q), kv: int(kv), scale: ops.Float(n, "scale")}
	l.gated, l.delta = rule == "gated" || rule == "gated_delta", rule == "delta" || rule == "gated_delta"
	if l.gated && n.In(4) == nil || l.delta && n.In(5) == nil {
		return l, fmt.Errorf("update_rule %s: expected the inputs that it reads, decay and beta", rule)
	}
	return l, nil
}

func (l linear) eval(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	qt, kt, vt, dt, bt := ops.Tensor(in, 0), ops.Tensor(in, 1), ops.Tensor(in, 2), ops.Tensor(in, 4), ops.Tensor(in, 5)
	for i, t := range []*tensor.Tensor{qt, kt, vt, dt, bt} {
		if t != nil && (t.Rank() != 3 || t.Dim(0) != qt.Dim(0) || t.Dim(1) != qt.Dim(1)) {
			return nil, fmt.Errorf("inputs: expected the samples and steps of %s, found %s in place %d", qt, t, i)
		}
	}
	samples, steps := qt.Dim(0), qt.Dim(1)
	l.dk, l.dv = kt.Dim(2)/l.kv, vt.Dim(2)/l.kv
	if l.dk < 1 || l.dv < 1 || kt.Dim(2) != l.kv*l.dk || vt.Dim(2) != l.kv*l.dv || qt.Dim(2) != l.q*l.dk {
		return nil, fmt.Errorf("expected %d heads of queries and %d of keys and values, found %s, %s, %s", l.q, l.kv,
			qt, kt, vt)
	}
	q, k, v, s, decay, beta := ops.F64(c, in, 0), ops.F64(c, in, 1), ops.F64(c, in, 2), ops.F64(c, in, 3),
		ops.F64(c, in, 4),
		ops.F64(c, in, 5)
	if l.gated {
		if l.width = dt.Dim(2); l.width != l.kv && l.width != l.kv*l.dk {
			return nil, fmt.Errorf("decay: expected %d or %d numbers for each step, found %s", l.kv, l.kv*l.dk, dt)
		}
	}
	if l.delta && bt.Dim(2) != 1 && bt.Dim(2) != l.kv {
		return nil, fmt.Errorf("beta: expected 1 or %d numbers for each step, found %s", l.kv, bt)
	}
	size := l.dk * l.dv
	if s == nil {
		s = ops.Make[float64](c, samples*l.kv*size)
	} else if p := ops.Tensor(in, 3); len(s) != samples*l.kv*size || p.Rank() != 4 || p.Dim(1) != l.kv ||
		p.Dim(2) != l.dk {
		return nil, fmt.Errorf("past_state: expected [%d,%d,%d,%d], found %s", samples, l.kv, l.dk, l.dv, p)
	}
	heads := max(l.q, l.kv)
	y := ops.Make[float64](c, samples*steps*heads*l.dv)
	if l.scale == 0 {
		l.scale = 1 / math.Sqrt(float64(l.dk))
	}
	u := ops.Make[float64](c, l.dv)
	for row := range samples * steps {
		for h := range l.kv {
			state := s[(row/steps*l.kv+h)*size:][:size]
			key := k[(row*l.kv+h)*l.dk:][:l.dk]
			if l.gated {
				g := decay[row*l.width:][:l.width]
				for i := range ops.Each(c, size) {
					if l.width == l.kv {
						state[i] *= math.Exp(g[h])
					} else {
						state[i] *= math.Exp(g[h*l.dk+i/l.dv])
					}
				}
			}
			copy(u, v[(row*l.kv+h)*l.dv:][:l.dv])
			if l.delta {
				for i := range ops.Each(c, size) {
					u[i%l.dv] -= state[i] * key[i/l.dv]
				}
				b := beta[row*bt.Dim(2)+h%bt.Dim(2)]
				for j := range u {
					u[j] *= b
				}
			}
			for i := range ops.Each(c, size) {
				state[i] += key[i/l.dv] * u[i%l.dv]
			}
		}
		for h := range heads {
			state := s[(row/steps*l.kv+h*l.kv/heads)*size:][:size]
			query := q[(row*l.q+h*l.q/heads)*l.dk:][:l.dk]
			out := y[(row*heads+h)*l.dv:][:l.dv]
			for i := range ops.Each(c, size) {
				out[i%l.dv] += l.scale * query[i/l.dv] * state[i]
			}
		}
	}
	out, err := ops.Real(c, qt.DType(), y, samples, steps, heads*l.dv)
	if err != nil || !wants(c.Node, 1) {
		return []tensor.Datum{out}, err
	}
	elem := qt.DType()
	if p := ops.Tensor(in, 3); p != nil {
		elem = p.DType()
	}
	state, err := ops.Real(c, elem, s, samples, l.kv, l.dk, l.dv)
	return []tensor.Datum{out, state}, err
}

func linearAttentionSets(n *ir.Node) [][]int {
	switch ops.Str(n, "update_rule") {
	case "linear", "gated":
		return [][]int{{0}, {1, 3}, {2, 3}}
	}
	return [][]int{{0}, {2, 3}} // with a delta rule, keys are read and written
}
