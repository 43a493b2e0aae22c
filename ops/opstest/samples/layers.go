package samples

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
)

// Layers is Of, also for state-space operators, which the tests of backends apply in graphs.
func Layers(o *ir.Op) []opstest.Sample {
	wide := func(shape ...int) tensor.Datum {
		t, err := normal(shape...).(*tensor.Tensor).Convert(tensor.Float64, false)
		if err != nil {
			panic(err)
		}
		return t
	}
	between := func(lo, hi float64, shape ...int) tensor.Datum {
		t, err := opstest.Inside(lo, hi, shape...).(*tensor.Tensor).Convert(tensor.Float64, false)
		if err != nil {
			panic(err)
		}
		return t
	}
	ints := func(n int, shape ...int) tensor.Datum { return opstest.Whole(tensor.Int64, 0, n, shape...) }
	str := func(name, v string) ir.Attr { return ir.A(name, v) }
	// A system of one channel and two heads, with two states each; re is negative, so states decay.
	re, im := between(-1, -0.1, 1, 2, 2), wide(1, 2, 2)
	b := []tensor.Datum{wide(1, 2, 2), wide(1, 2, 2)}
	// A system of three features with two complex states and rank 1.
	low := []tensor.Datum{between(0.01, 0.1, 3, 1), between(-1, -0.1, 3, 2), wide(3, 2), wide(3, 1, 2), wide(3, 1, 2)}
	with := func(list []tensor.Datum, more ...tensor.Datum) []tensor.Datum {
		return append(slices.Clone(list), more...)
	}
	vecs := func(n int) (list []tensor.Datum) {
		for range n {
			list = append(list, wide(3, 2))
		}
		return list
	}
	switch o.Name {
	case "Affine":
		return []opstest.Sample{of(normal(2, 5, 3), wide(3), wide(3))}
	case "BatchNorm":
		return []opstest.Sample{of(normal(2, 5, 3), normal(3), normal(3), normal(3), opstest.Inside(0.5, 2, 3))}
	case "ByteTable":
		return []opstest.Sample{of(opstest.Whole(tensor.Uint8, 0, 256, 3), opstest.Whole(tensor.Int8, -128, 128, 256))}
	case "DPLR":
		all := with(with(with([]tensor.Datum{normal(2, 5, 3)}, low...), vecs(4)...), opstest.Num(0))
		return []opstest.Sample{of(all...), of(with(with(all, nil, nil), wide(2, 12))...).Gives(2),
			of(with(all, vecs(2)...)...).With(str("direction", "bidirectional"))}
	case "DPLRScan":
		all := with(with([]tensor.Datum{normal(2, 5, 3)}, between(-0.5, 0.5, 3, 2), between(-0.5, 0.5, 3, 2)),
			with([]tensor.Datum{between(-0.2, 0.2, 3, 1, 2), between(-0.2, 0.2, 3, 1, 2), wide(3, 1, 2), wide(3, 1, 2)},
				vecs(4)...)...)
		return []opstest.Sample{of(all...), of(with(with(all, nil, nil), wide(2, 12))...).Gives(2),
			of(with(all, vecs(2)...)...).With(str("direction", "bidirectional"))}
	case "DiscretizeDPLR":
		return []opstest.Sample{of(with(low, vecs(2)...)...).Gives(8)}
	case "RestoreDPLR":
		return []opstest.Sample{of(with(low, wide(2, 3, 2), wide(2, 3, 2), opstest.Num(4))...).Gives(2)}
	case "DenseKernel":
		return []opstest.Sample{of(between(-0.5, 0.5, 1, 2, 2, 2), wide(1, 2, 2, 2), opstest.Num(4)).Fixed(2)}
	case "DenseScan":
		a, g := between(-0.5, 0.5, 1, 2, 2, 2), wide(1, 2, 2, 2)
		return []opstest.Sample{of(normal(2, 5, 4), a, g), of(normal(2, 5, 4), a, g, wide(2, 4)).Gives(2),
			of(normal(2, 5, 4), a, g).With(str("direction", "backward"))}
	case "DenseSSM":
		all := []tensor.Datum{normal(2, 5, 6), between(-0.5, 0.5, 1, 2, 2, 2), wide(1, 2, 2, 2), normal(1, 2, 2, 3),
			normal(1, 2, 3, 2)}
		return []opstest.Sample{of(all...), of(with(all, normal(1, 2, 3), wide(2, 4))...).Gives(2)}
	case "Embedding":
		return []opstest.Sample{of(ints(7, 2, 5), normal(7, 3))}
	case "FourierMix", "InstanceNorm":
		return []opstest.Sample{of(normal(2, 5, 4))}
	case "HeadLinear":
		return []opstest.Sample{of(normal(2, 5, 6), normal(1, 2, 4, 3))}
	case "HeadScale":
		return []opstest.Sample{of(normal(2, 5, 6), normal(2, 2, 3))}
	case "Kernel":
		return []opstest.Sample{of(re, im, b[0], b[1], opstest.Num(4)).Fixed(4).Gives(2)}
	case "Linear":
		return []opstest.Sample{of(normal(2, 5, 3), normal(4, 3)), of(normal(2, 5, 3), normal(4, 3), normal(4))}
	case "LongConv":
		return []opstest.Sample{of(normal(2, 5, 3), normal(3, 4)), of(normal(2, 5, 3), normal(3,
			4)).With(str("direction", "backward"))}
	case "Pair":
		return []opstest.Sample{of(normal(4, 3)), of(normal(4, 3)).With(ir.A("nli", 1))}
	case "Pick":
		var list []opstest.Sample
		for _, mode := range []string{"pool", "last", "first", "sum"} {
			list = append(list, of(normal(2, 5, 3), opstest.Vec(3, 5)).With(str("mode", mode)), of(normal(2, 5,
				3)).With(str("mode", mode)))
		}
		return list
	case "Unpick":
		var list []opstest.Sample
		for _, mode := range []string{"pool", "last", "first", "sum"} {
			list = append(list, of(normal(2, 3), opstest.Num(5), opstest.Vec(3, 5)).With(str("mode", mode)),
				of(normal(2, 3), opstest.Num(5)).Fixed(1).With(str("mode", mode)))
		}
		return list
	case "BatchNormTrain":
		return []opstest.Sample{of(normal(2, 5, 3), normal(3), normal(3), normal(3), opstest.Inside(0.5, 2,
			3)).Gives(3),
			of(normal(7, 4), normal(4), normal(4), normal(4), opstest.Inside(0.5, 2, 4)).With(ir.A("momentum", 0.3),
				ir.A("epsilon", 0.1)).Gives(3)}
	case "PickStep":
		var list []opstest.Sample
		for _, mode := range []string{"pool", "last", "first", "sum"} {
			list = append(list, of(normal(2, 5, 3), wide(2, 3), tensor.FromSlice([]int64{2, 2, 3, 3}, 2,
				2)).Gives(3).With(str("mode", mode)))
		}
		return list
	case "SumTo":
		return []opstest.Sample{of(normal(2, 5, 3), opstest.Vec(5, 1)), of(normal(2, 5, 3), opstest.Vec(2, 5,
			3)).Fixed(1),
			of(normal(4, 3), opstest.Vec()).Fixed(1)}
	case "ScalarNorm":
		return []opstest.Sample{of(normal(2, 5, 3), normal(1), normal(1))}
	case "Scan":
		all := []tensor.Datum{normal(2, 5, 4), re, im, b[0], b[1]}
		return []opstest.Sample{of(all...), of(with(all, normal(2, 5, 4), wide(2, 8))...).Gives(3),
			of(with(all, nil, wide(2, 8+3*4))...).With(ir.A("window", 3)).Gives(3), of(all...).With(str("direction",
				"bidirectional"))}
	case "SSM":
		all := []tensor.Datum{normal(2, 5, 6), re, im, b[0], b[1], normal(1, 2, 2, 3), normal(1, 2, 3, 2)}
		more := with(all, normal(1, 2, 2, 3), normal(1, 2, 3, 2))
		return []opstest.Sample{of(all...), of(with(more, normal(1, 2, 3))...), of(with(more, normal(1, 2, 3, 3),
			wide(2, 8))...).Gives(2)}
	case "StateSpace":
		all := []tensor.Datum{normal(2, 5, 6), opstest.Inside(-3, -1, 1, 2, 2), normal(1, 2, 2, 3), normal(1, 2, 3, 2)}
		return []opstest.Sample{of(with(all, normal(1, 2, 2, 2))...), of(with(all, normal(1, 2, 2, 2), nil, normal(1, 2,
			3), wide(2, 8))...).Gives(2)}
	case "SoftmaxConv":
		all := with([]tensor.Datum{normal(2, 5, 3), between(-1, -0.1, 3, 2)}, vecs(5)...)
		return []opstest.Sample{of(all...), of(with(all, vecs(2)...)...).With(str("direction", "bidirectional"))}
	case "StateOrZero":
		return []opstest.Sample{of(normal(2, 3), normal(2, 4)).With(ir.A("size", 4))}
	case "StepMask":
		return []opstest.Sample{of(normal(2, 5, 3), opstest.Vec(3, 5)).With(ir.A("axis", 1)),
			of(normal(2, 5, 3), opstest.Vec(3, 3), opstest.Vec(5, 4)).With(ir.A("axis", 1), ir.A("value", 2.0))}
	case "SubsetProducts":
		return []opstest.Sample{of(normal(2, 9, 3))}
	case "Constrain":
		return []opstest.Sample{of(normal(1, 2, 2, 2)).Gives(2)}
	case "Discretize":
		return []opstest.Sample{of(re, im, opstest.Inside(-3, -1, 1, 2, 1)).Gives(4)}
	case "DiscretizeDense":
		return []opstest.Sample{of(normal(1, 2, 2, 2), opstest.Inside(-3, -1, 1, 2, 1)).Gives(2)}
	case "Diagonalize":
		return []opstest.Sample{of(between(-1, 1, 1, 2, 2, 2), normal(1, 2, 2, 3), normal(1, 2, 3, 2)).Gives(6)}
	}
	return Of(o)
}

// Suites returns the suite of each domain whose operators are registered.
func Suites() []opstest.Suite {
	var list []opstest.Suite
	for _, op := range ops.Default.All() {
		if !slices.ContainsFunc(list, func(u opstest.Suite) bool { return u.Domain == op.Domain }) {
			list = append(list, opstest.Suite{Domain: op.Domain, Samples: Of, Refused: Refused[op.Domain]})
		}
	}
	for i := range list {
		if list[i].Domain == "essm" {
			list[i].Samples = Layers
		}
		if list[i].Domain == "" {
			list[i].Samples = func(op *ir.Op) []opstest.Sample {
				if op.Name == "SimplifiedLayerNormalization" { // package ops/microsoft registers it
					return []opstest.Sample{opstest.Of(opstest.Normal(2, 3), opstest.Normal(3))}
				}
				return Of(op)
			}
		}
	}
	return list
}
