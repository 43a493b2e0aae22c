package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// GatedScan runs a recurrence of the first order whose factor varies with time.
var GatedScan = ops.Register(&ir.Op{
	Domain: "essm", Name: "GatedScan",
	Doc: `h[t] = f[t] h[t-1] + v[t], for each feature (minGRU, minLSTM). The state is h after the last step, in the type of v
or in float64.`,
	In:    ops.Sig("f:T[B,L,N]", "v:T[B,L,N]", "state:Z[B,Z]?"),
	Out:   ops.Sig("h:T[B,L,N]", "state_out:Z[B,Z]?"),
	Elems: map[string][]tensor.DType{"T": ops.Floats, "Z": ops.Floats},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		b.Dim["Z"] = b.At("N")
		if err := checkState(n, Forward, 0, b.At("Z")); err != nil {
			return nil, err
		}
		return systemTypes(n, b)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		v := ops.Tensor(in, 1)
		f, h := ops.F64(c, in, 0), ops.Clone(c, ops.F64(c, in, 1))
		batch, length, n := v.Dim(0), v.Dim(1), v.Dim(2)
		state := ops.Make[float64](c, batch*n)
		if st := ops.Tensor(in, 2); st != nil {
			if st.Dim(1) != n {
				return nil, fmt.Errorf("state: expected %d numbers per sample, found %d", n, st.Dim(1))
			}
			ops.Put(c, state, ops.F64(c, in, 2))
		}
		for r := range batch * length {
			s := state[r/length*n:][:n]
			for j := range ops.Each(c, n) {
				s[j] = f[r*n+j]*s[j] + h[r*n+j]
				h[r*n+j] = s[j]
			}
			c.Step(1)
		}
		t, err := ops.Real(c, v.DType(), h, v.Shape()...)
		if err != nil || c.Node.Out(1) == nil {
			return []tensor.Datum{t, nil}, err
		}
		st, err := ops.Real(c, stateType(ops.Tensor(in, 2), v), state, batch, n)
		return []tensor.Datum{t, st}, err
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		z, _ := n.In(1).Shape()[2].Known()
		return alongScan(n, []ir.Fact{ops.Join(n, in[:2], []int{3, 3}, 3)}, Forward, 0, z, len(n.Outputs))
	},
	Gradient: gradGatedScan,
	Linear:   ops.LinearIn([]int{1, 2}),
	Tol:      ir.Long,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return ir.Work{Flops: 2 * ops.Count(n.In(1), bind), Bytes: ops.BytesOf(n, bind)}
	},
})
