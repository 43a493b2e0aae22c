package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// CausalConvWithState is a causal depthwise convolution that takes and returns the steps before a chunk.
var CausalConvWithState = ops.Register(&ir.Op{
	Name: "CausalConvWithState", Since: 27,
	Doc: "Correlation of each channel of input (N,C,L), after past_state (N,C,k-1) or zeros, with its filter in " +
		"weight (C,1,k), plus bias (C), then activation; present_state is the last k-1 steps of past_state and input.",
	In:    ops.Sig("input:T[N,C,L]", "weight:T[C,1,K]", "bias:T[C]?", "past_state:T[N,C,K-1]?"),
	Out:   ops.Sig("output:T[N,C,L]", "present_state:T[N,C,K-1]"),
	Attrs: []ir.AttrSpec{oneOf("activation", "none", "activation of the output", "silu", "swish")},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		w, err := need(in, 1, "weight")
		if err != nil {
			return nil, err
		}
		if x.Rank() != 3 || w.Rank() != 3 || w.Dim(0) != x.Dim(1) || w.Dim(1) != 1 || w.Dim(2) < 1 {
			return nil, fmt.Errorf("input %s, weight %s: expected (N,C,L) and (C,1,k)", x, w)
		}
		channels, length, k := x.Dim(1), x.Dim(2), w.Dim(2)
		states := []int{x.Dim(0), channels, k - 1}
		if _, err := ops.Elems(states); err != nil {
			return nil, err
		}
		bias, past := ops.F64(c, in, 2), ops.F64(c, in, 3)
		if bias != nil && len(bias) != channels {
			return nil, fmt.Errorf("bias: expected %d elements, found %d", channels, len(bias))
		}
		if past == nil {
			past = ops.Make[float64](c, product(states))
		} else if err := ops.SameShape(ops.Tensor(in, 3).Shape(), states); err != nil {
			return nil, fmt.Errorf("past_state: %w", err)
		}
		v, f := ops.F64(c, in, 0), ops.F64(c, in, 1)
		y, present := ops.Make[float64](c, len(v))[:0], ops.Make[float64](c, len(past))[:0]
		silu := getStr(c.Node, "activation") != "none"
		line := ops.Make[float64](c, k-1+length)
		for r := range x.Dim(0) * channels {
			c.Step(1)
			ops.Put(c, line, past[r*(k-1):(r+1)*(k-1)])
			ops.Put(c, line[k-1:], v[r*length:(r+1)*length])
			for t := range ops.Each(c, length) {
				sum := dot(c, f[r%channels*k:(r%channels+1)*k], line[t:])
				if bias != nil {
					sum += bias[r%channels]
				}
				if silu {
					sum *= sigmoid(sum)
				}
				y = append(y, sum)
			}
			present = ops.Append(c, present, line[length:]...)
		}
		return several(
			func() (*tensor.Tensor, error) { return ops.Real(c, x.DType(), y, x.Shape()...) },
			func() (*tensor.Tensor, error) { return ops.Real(c, x.DType(), present, states...) })
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		x, w := in[0], in[1]
		ws := w.Shape()
		k, okK := int64(0), false
		channels, okC := int64(0), false
		if len(ws) == 3 && len(x.Shape()) == 3 {
			k, okK = ws[2].Known()
			if channels, okC = ws[0].Known(); !okC {
				channels, okC = x.Shape()[1].Known()
			}
		}
		if !okK || !okC || k < 1 {
			b.Fail(fmt.Errorf("weight %v: its sizes are not known", w))
			return make([]*ir.Value, 2)
		}
		var past, bias *ir.Value
		if len(in) > 3 {
			past = in[3]
		}
		if len(in) > 2 {
			bias = in[2]
		}
		line := x
		if past != nil {
			line = attr(b, "Concat", []*ir.Value{past, x}, ir.A("axis", 2))
		} else if k > 1 {
			line = op(b, "Pad", x, b.Ints(k-1, 0), nil, b.Ints(2))
		}
		args := []*ir.Value{line, w}
		if bias != nil {
			args = append(args, bias)
		}
		y := attr(b, "Conv", args, ir.A("group", channels))
		if getStr(n, "activation") != "none" {
			y = op(b, "Mul", y, op(b, "Sigmoid", y))
		}
		present := op(b, "Slice", line, b.Ints(1-k), b.Ints(1<<62), b.Ints(2))
		if k == 1 {
			present = op(b, "Slice", line, b.Ints(0), b.Ints(0), b.Ints(2))
		}
		return []*ir.Value{y, present}
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		past := len(in) > 3 && !in[3].Constant()
		f := in[0]
		f.State = 0
		for i, o := range in[1:] {
			if !o.Constant() && i != 2 {
				return spread(n, ops.Global(n, in))
			}
		}
		switch {
		case past:
			f = ops.Join(n, []ir.Fact{f, in[3]}, []int{0, 0}, 0)
			if f.Global || f.Axis == 2 {
				return spread(n, ops.Global(n, in))
			}
		case f.Constant() || f.Global || f.Axis != 2:
		default:
			out := spread(n, f)
			k, ok := int64(0), false
			if ws := n.In(1).Shape(); len(ws) == 3 {
				k, ok = ws[2].Known()
			}
			if !ok {
				return spread(n, ops.Global(n, in))
			}
			if f.Back < ir.Unbounded {
				out[0].Back += (k - 1) * f.Stride
			}
			if len(out) > 1 {
				out[1] = summed(n, f)
				out[1].State = 0
			}
			return out
		}
		return spread(n, f)
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return workOf(n, bind, 2*ops.Count(n.Outputs[0], bind)*ops.DimAt(n.In(1), 2, bind))
	},
	Linear: linearCausalConv,
	Tol:    ir.Summing,
})

func linearCausalConv(n *ir.Node) [][]int {
	if getStr(n, "activation") != "none" {
		return nil
	}
	return [][]int{{0, 2, 3}, {1, 2}}
}
