// Package training has the optimizers of ONNX's domain ai.onnx.preview.training, with signature and evaluation. The
// domain's fourth operator, Gradient, is missing: it differentiates the graph around it, which is the work of a
// pass.
//
// It imports ir, ir/tensor and ops only. A node updates several tensors by the same rule. Results have the shapes
// and element types of the tensors that they replace.
package training

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Domain is the domain of these operators as ONNX writes it.
const Domain = "ai.onnx.preview.training"

var floats = []tensor.DType{tensor.Float32, tensor.Float64}

// optimizer registers an operator. Its inputs are a learning rate R, a count of updates T, and then groups: all
// tensors, all gradients, and all of each accumulated state. Its outputs are the new tensors and states. rule returns
// the update of one element, in place, from tensor, gradient and states to the new tensor and states.
func optimizer(name, doc string, states int, rule func(n *ir.Node, rate float64, count int64) func(v []float64),
	attrs ...ir.AttrSpec) *ir.Op {
	return ops.Register(&ir.Op{
		Domain: Domain, Name: name, Since: 1, Doc: doc,
		NoGradient: "updates parameters by gradients, and has none itself",
		In:         ops.Sig("R:T1", "T:int64", "inputs:T3*"), Out: ops.Sig("outputs:T3*"), Attrs: attrs,
		Elems: map[string][]tensor.DType{"T1": floats, "T3": floats},
		Infer: func(n *ir.Node) ([]ir.Type, error) {
			if _, err := ops.Bind(n); err != nil {
				return nil, err
			}
			k, err := groups(len(n.Inputs)-2, states)
			if err != nil {
				return nil, err
			}
			var out []ir.Type
			for i := range k * (states + 1) {
				n.Step(1)
				at := 2 + i
				if i >= k {
					at += k // gradients are not among the outputs
				}
				if n.In(at) == nil {
					return nil, fmt.Errorf("input %d is missing", at)
				}
				out = append(out, n.In(at).Type)
			}
			return out, nil
		},
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			rate, count := ops.F64(c, in, 0), ops.Tensor(in, 1)
			if len(rate) != 1 || count == nil || count.Len() != 1 {
				return nil, fmt.Errorf("expected one learning rate and one count, found %s and %s", ops.Tensor(in, 0),
					count)
			}
			t, err := ops.Int64s(c, count)
			if err != nil {
				return nil, err
			}
			k, err := groups(len(in)-2, states)
			if err != nil {
				return nil, err
			}
			update := rule(c.Node, rate[0], t[0])
			out := ops.Make[tensor.Datum](c, k*(states+1))
			for i := range k {
				x := ops.Tensor(in, 2+i)
				cols := make([][]float64, states+2)
				for j := range cols {
					at := 2 + j*k + i
					y := ops.Tensor(in, at)
					if y == nil || !slices.Equal(y.Shape(), x.Shape()) {
						return nil, fmt.Errorf("input %d: expected the shape of %s, found %s", at, x, y)
					}
					cols[j] = ops.F64(c, in, at)
				}
				v := ops.Make[float64](c, len(cols))
				for e := range ops.Costly(c, len(cols[0]), 8*len(v)) {
					for j := range v {
						v[j] = cols[j][e]
					}
					update(v)
					for j := range v {
						cols[j][e] = v[j]
					}
				}
				for j, col := range slices.Delete(cols, 1, 2) {
					if out[j*k+i], err = ops.FromFloat64s(c, x.DType(), col, x.Shape()...); err != nil {
						return nil, err
					}
				}
			}
			return out, nil
		},
		Along: along(states), Tol: ir.Rounding,
		Linear: func(n *ir.Node) [][]int {
			k, err := groups(len(n.Inputs)-2, states)
			if err != nil {
				return nil
			}
			var sets [][]int
			// gradients do not depend on tensors: in the rate and all tensors
			if ops.Float(n, "norm_coefficient") == 0 {
				set := []int{0}
				for i := range k {
					set = append(set, 2+i)
				}
				sets = append(sets, set)
			}
			if name == "Momentum" { // in tensors, gradients and states
				var set []int
				for i := 2; i < len(n.Inputs); i++ {
					set = append(set, i)
				}
				sets = append(sets, set)
			}
			return sets
		},
	})
}

// groups returns the number of tensors that a node optimizes.
func groups(inputs, states int) (int, error) {
	if inputs < states+2 || inputs%(states+2) != 0 {
		return 0, fmt.Errorf("expected tensors, gradients and %d states of each, found %d inputs", states, inputs)
	}
	return inputs / (states + 2), nil
}

// along treats elements separately. All of them read the rate and the count.
func along(states int) func(*ir.Node, []ir.Fact) []ir.Fact {
	return func(n *ir.Node, in []ir.Fact) []ir.Fact {
		out := make([]ir.Fact, len(n.Outputs))
		k, err := groups(len(in)-2, states)
		global := ops.Global(n, in)
		for i := range out {
			if n.Step(4); err != nil || !in[0].Constant() || !in[1].Constant() {
				out[i] = global
				continue
			}
			var facts []ir.Fact
			var ranks []int
			for at := 2 + i%k; at < len(in); at += k {
				facts, ranks = append(facts, in[at]), append(ranks, len(n.In(at).Shape()))
			}
			out[i] = ops.Join(n, facts, ranks, ranks[0])
		}
		return out
	}
}

var (
	normAttr    = ops.FloatSpec("norm_coefficient", 0, "weight of the squared norm of the tensor in the loss, halved")
	epsilonAttr = ops.FloatSpec("epsilon", 1e-6, "prevents division by zero")
)
