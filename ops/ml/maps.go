package ml

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Operators on maps. They are registered but refused, because a graph has tensors, sequences and optionals only.
var (
	CastMap = refused("CastMap", "A map as a tensor of its values.",
		"takes a map, which graphs here do not have: feed the values as a tensor",
		ops.ChoiceSpec("cast_to", "element type of the result", "TO_FLOAT", "TO_STRING", "TO_INT64"),
		ops.ChoiceSpec("map_form", "whether keys are indices", "DENSE", "SPARSE"),
		ops.IntSpec("max_map", 1, "length of a sparse result"))
	DictVectorizer = refused("DictVectorizer", "A map as a vector with one element per word of a vocabulary.",
		"takes a map, which graphs here do not have: feed the vector",
		intsAttr("int64_vocabulary", "keys"), stringsAttr("string_vocabulary", "keys"))
	ZipMap = refused("ZipMap", "A map from class labels to scores for each row of scores.",
		"returns a sequence of maps, which graphs here do not have: take its input, whose columns are the classes in "+
			"the order of the labels",
		intsAttr("classlabels_int64s", "keys"), stringsAttr("classlabels_strings", "keys"))
)

// refused registers an operator that inference refuses, with the reason.
func refused(name, doc, why string, attrs ...ir.AttrSpec) *ir.Op {
	err := fmt.Errorf("%s.%s %s", Domain, name, why)
	return ops.Register(&ir.Op{
		Domain: Domain, Name: name, Since: 1, Doc: doc + " Refused: " + why + ".", In: ops.Sig("X:T"),
		Out: ops.Sig("Y:T"), Attrs: attrs,
		Elems: elems("T", ops.Any),
		Infer: func(*ir.Node) ([]ir.Type, error) { return nil, err },
		Eval:  func(*ir.EvalCtx, []tensor.Datum) ([]tensor.Datum, error) { return nil, err },
	})
}
