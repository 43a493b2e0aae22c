package ml

import (
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Operators on maps. They are registered but refused, because a graph has tensors, sequences and optionals only. If
// they read an input of a model, package onnx replaces them by other operators, whose input is a tensor of the map's
// values.
var (
	CastMap = refused("CastMap", "A map as a tensor of its values.",
		"takes a map, and only inputs of a model are maps: feed the values as a tensor",
		ops.ChoiceSpec("cast_to", "element type of the result", "TO_FLOAT", "TO_STRING", "TO_INT64"),
		ops.ChoiceSpec("map_form", "whether keys are indices", "DENSE", "SPARSE"),
		ops.IntSpec("max_map", 1, "length of a sparse result"))
	DictVectorizer = refused("DictVectorizer", "A map as a vector with one element per word of a vocabulary.",
		"takes a map, and only inputs of a model are maps: feed the vector",
		intsAttr("int64_vocabulary", "keys"), stringsAttr("string_vocabulary", "keys"))
)

// ZipMap assigns keys to the columns of scores. Its maps are a tensor here, and its keys stay an attribute: package
// onnx keeps the keys of a model's outputs (ir.MetaKeys).
var ZipMap = ops.Register(&ir.Op{
	Domain: Domain, Name: "ZipMap", Since: 1,
	Doc: "A map from labels to scores for each row of scores X (N,C), or for X (C): here X itself, whose columns " +
		"have the labels in their order.",
	In: ops.Sig("X:float32[...]"), Out: ops.Sig("Z:float32[...]"),
	Attrs: []ir.AttrSpec{intsAttr("classlabels_int64s", "labels"), stringsAttr("classlabels_strings", "labels")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		t, ok := ir.AsTensor(n.In(0).Type)
		if !ok || t.Elem != tensor.Float32 || !t.NoRank && len(t.Shape) != 1 && len(t.Shape) != 2 {
			return nil, fmt.Errorf("input 0 (X): expected float32 scores with one or two axes, found %v", n.In(0).Type)
		}
		count, err := keysOf(n)
		if err != nil || t.NoRank {
			return []ir.Type{t}, err
		}
		if k, known := t.Shape[len(t.Shape)-1].Known(); known && k != int64(count) {
			return nil, fmt.Errorf("input 0 (X): expected a column for each of %d labels, found %v", count, t)
		}
		return []ir.Type{t}, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x := ops.Tensor(in, 0)
		if x == nil || x.Rank() != 1 && x.Rank() != 2 {
			return nil, fmt.Errorf("input 0 (X): expected scores with one or two axes, found %s", x)
		}
		count, err := keysOf(c.Node)
		if err == nil && x.Dim(-1) != count {
			err = fmt.Errorf("input 0 (X): expected a column for each of %d labels, found %s", count, x)
		}
		return []tensor.Datum{x}, err
	},
	NoGradient: fitted,
	Linear:     ops.LinearFirst,
	Along:      ops.AlongElementwise, Tol: ir.Exact,
})

// keysOf returns the number of labels of a ZipMap.
func keysOf(n *ir.Node) (int, error) {
	numbers, words := n.Attrs.Ints("classlabels_int64s", nil), n.Attrs.Strs("classlabels_strings", nil)
	if (len(numbers) == 0) == (len(words) == 0) {
		return 0, errors.New("expected either classlabels_int64s or classlabels_strings")
	}
	return len(numbers) + len(words), nil
}

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
