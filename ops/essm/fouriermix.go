package essm

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// FourierMix mixes the steps and the features of a sequence, as FNet does.
var FourierMix = ops.Register(&ir.Op{
	Domain: "essm", Name: "FourierMix",
	Doc: "The real part of the Fourier transform over steps and features: y[t,h] = Σ u[s,i] cos(2π(st/L + ih/H)) for " +
		"L steps of H features.",
	In: ops.Sig("u:T[B,L,H]"), Out: ops.Sig("y:T[B,L,H]"),
	Elems: map[string][]tensor.DType{"T": {tensor.Float32, tensor.Float64}},
	Body: func(b *ir.Builder, _ *ir.Node, in []*ir.Value) []*ir.Value {
		dft := func(x *ir.Value, axis int64) *ir.Value {
			return b.Op("", "DFT", []*ir.Value{x, nil, b.Const("axis", tensor.Scalar(axis))})
		}
		y := dft(dft(b.Op("", "Unsqueeze", []*ir.Value{in[0], b.Ints(3)}), 2), 1)
		return []*ir.Value{b.Op("", "Gather", []*ir.Value{y, b.Const("real", tensor.Scalar(int64(0)))},
			ir.A("axis", 3))}
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		if f := in[0]; f.Axis == 0 && !f.Global { // samples are apart
			f.State = 0
			return []ir.Fact{f}
		}
		return []ir.Fact{ops.Global(n, in)}
	},
	Tol: ir.Long,
})
