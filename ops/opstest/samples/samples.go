// Package samples has sample applications for each operator of the registry. Tests of operator packages compare
// inference, bodies and facts with evaluations on them; tests of backends run them.
//
// It imports ir, ir/tensor, ops and ops/opstest, and only tests import it. It imports no operators: it returns
// samples for the ones that the importing test registers.
package samples

import (
	"hash/fnv"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
)

// Refused lists, by domain, the operators that cannot occur in a graph. They have no samples.
var Refused = map[string][]string{"ai.onnx.ml": {"CastMap", "DictVectorizer"}}

// byDomain holds the functions that return samples for operators of a domain. A function returns none for an operator
// of another file. The first function that returns samples counts.
var byDomain = map[string][]func(o *ir.Op) []opstest.Sample{
	"": {spectralSamples, lossSamples, visionSamples, recurrentSamples, attentionSamples, earlierSamples, textSamples,
		normSamples,
		quantSamples, selectSamples, randomSamples, stdSamples},
	"ai.onnx.preview":          {previewSamples},
	"ai.onnx.ml":               {mlSamples},
	"ai.onnx.preview.training": {trainingSamples},
	"com.microsoft":            {microsoftSamples},
	"essm":                     {essmSamples},
}

// Of returns samples for an operator, or nil if there are none. Where none are written down, they follow from the
// signature. They are the same in every call.
func Of(o *ir.Op) (all []opstest.Sample) {
	h := fnv.New64a()
	h.Write([]byte(o.FullName()))
	opstest.Seeded(h.Sum64(), func() {
		for _, f := range byDomain[o.Domain] {
			if all = f(o); all != nil {
				return
			}
		}
		if byDomain[o.Domain] != nil && !slices.Contains(Refused[o.Domain], o.Name) {
			all = generated(o)
		}
	})
	return all
}

type list = []opstest.Sample

// Short names for making samples.
var (
	of     = opstest.Of
	normal = opstest.Normal
	inside = opstest.Inside
	whole  = opstest.Whole
	bools  = opstest.Bools
	vec    = opstest.Vec
	num    = opstest.Num
)

func seqOf(items ...tensor.Datum) tensor.Datum { return &tensor.Sequence{Items: items} }

// op applies an operator of ai.onnx.
func op(b *ir.Builder, name string, in ...*ir.Value) *ir.Value { return b.Op("", name, in) }

// graphOf builds a subgraph.
func graphOf(build func(b *ir.Builder)) *ir.Graph {
	b := ir.NewBuilder("body", ops.Default, ops.Opsets())
	build(b)
	g, err := b.Build()
	if err != nil {
		panic(err) // the sample is wrong
	}
	return g
}
