package essm

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// MatrixConv convolves all features with long kernels, one for each pair of an output and an input.
var MatrixConv = ops.Register(&ir.Op{
	Domain: "essm", Name: "MatrixConv",
	Doc: "x[t,i] = Σ k[i,m,j]·v[t-j,m] over inputs m and lags j from 0: a causal convolution with a kernel for each " +
		"pair of an output and an input.",
	In: ops.Sig("v:T[B,L,M]", "k:W[N,M,K]"), Out: ops.Sig("x:T[B,L,N]"), Elems: floatElems,
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		v, k := ops.Tensor(in, 0), ops.Tensor(in, 1)
		if k.Dim(1) != v.Dim(2) {
			return nil, fmt.Errorf("kernel has %d inputs, input has %d features", k.Dim(1), v.Dim(2))
		}
		return convolveMatrix(c, v, ops.F64(c, in, 0), ops.F64(c, in, 1), k.Dim(0), k.Dim(2))
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		// A correlation with the kernel in reverse, of a sequence after K-1 zeros.
		do := func(op string, in []*ir.Value, attrs ...ir.Attr) *ir.Value { return b.Op("", op, in, attrs...) }
		swap := ir.A("perm", []int64{0, 2, 1})
		k := do("Slice", []*ir.Value{in[1], b.Ints(-1), b.Ints(-1 << 62), b.Ints(2), b.Ints(-1)})
		if k.Elem() != in[0].Elem() {
			k = do("Cast", []*ir.Value{k}, ir.A("to", int(in[0].Elem())))
		}
		v := do("Transpose", []*ir.Value{in[0]}, swap)
		zeros := do("Sub", []*ir.Value{do("Shape", []*ir.Value{k}, ir.A("start", 2), ir.A("end", 3)), b.Ints(1)})
		pads := do("Concat", []*ir.Value{zeros, b.Ints(0)}, ir.A("axis", 0))
		v = do("Pad", []*ir.Value{v, pads, nil, b.Ints(2)})
		return []*ir.Value{do("Transpose", []*ir.Value{do("Conv", []*ir.Value{v, k})}, swap)}
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		window := int64(0)
		if s := n.In(1).Shape(); len(s) == 3 {
			window, _ = s[2].Known()
		}
		if !in[1].Constant() {
			return []ir.Fact{ops.Global(n, in)}
		}
		out := alongScan(n, in, Forward, window, 0, 1)
		if out[0].Back >= ir.Unbounded && in[0].Axis == 1 {
			out[0].Summary = in[0].Summary && in[0].Back >= ir.Unbounded // a kernel alone has no state of fixed size
		}
		return out
	},
	Tol: ir.Long,
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		return matrixWork(n, bind, ops.DimAt(n.In(1), 0, bind), ops.DimAt(n.In(1), 2, bind))
	},
})

// matrixWork is the work of a convolution with that many outputs and lags, directly.
func matrixWork(n *ir.Node, bind map[string]int64, outputs, lags int64) ir.Work {
	return ir.Work{Flops: ops.Product(2, ops.Count(n.In(0), bind), outputs, lags), Bytes: ops.BytesOf(n, bind)}
}

// convolveMatrix convolves v, of values src, with kernels k (outputs, inputs, taps).
func convolveMatrix(c *ir.EvalCtx, v *tensor.Tensor, src, k []float64, outputs, taps int) ([]tensor.Datum, error) {
	b, l, m := v.Dim(0), v.Dim(1), v.Dim(2)
	if _, err := ops.Elems([]int{b, l, outputs}); err != nil {
		return nil, err
	}
	x := ops.Make[float64](c, b*l*outputs)
	for i := range b {
		c.Step(1)
		for t := range l {
			c.Step(1)
			for o := range outputs {
				sum := 0.0
				for p := range m {
					c.Step(1)
					kernel := k[(o*m+p)*taps : (o*m+p+1)*taps]
					for j := range ops.Each(c, min(taps, t+1)) {
						sum += kernel[j] * src[(i*l+t-j)*m+p]
					}
				}
				x[(i*l+t)*outputs+o] = sum
			}
		}
	}
	return ops.One(ops.Real(c, v.DType(), x, b, l, outputs))
}
