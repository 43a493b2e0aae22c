package onnx

import (
	"testing"

	"github.com/essmc/essmc/ir"
)

// mapOf is an input that maps keys to tensors of an element type.
func mapOf(name string, key, elem int64) []byte {
	return value(11, name, msg(5, num(1, key), msg(2, tensorType(elem))))
}

func textsAttr(name string, words ...string) []byte {
	parts := [][]byte{str(1, name), num(20, 8)}
	for _, w := range words {
		parts = append(parts, str(9, w))
	}
	return msg(5, parts...)
}

func intsAttr(name string, v ...int64) []byte {
	return msg(5, str(1, name), num(20, 7), packed(8, v...))
}

func textAttr(name, v string) []byte { return msg(5, str(1, name), num(20, 3), str(4, v)) }

func mapModel(parts ...[]byte) []byte {
	return join(num(1, 10), opset("", 20), opset("ai.onnx.ml", 1), graph(parts...))
}

// TestMapInputs checks that maps are tensors with a column for each key that an operator reads, in the order of the first
// vocabulary, and that the keys are kept.
func TestMapInputs(t *testing.T) {
	const vectorizer, castMap = "ai.onnx.ml:DictVectorizer", "ai.onnx.ml:CastMap"
	y, z := value(12, "y", tensorType(1)), value(12, "z", tensorType(1))
	words := func(w ...string) []byte { return textsAttr("string_vocabulary", w...) }
	for _, c := range []struct {
		name      string
		file      []byte
		typ, keys string
		nodes     []string
	}{
		{"words", mapModel(mapOf("x", 8, 1), nodeIn(1, vectorizer, "", "x", "y", words("b", "a")), y), "float[N,2]",
			`["b","a"]`, []string{"|Identity|x|y"}},
		{"numbers", mapModel(mapOf("x", 7, 11), nodeIn(1, vectorizer, "", "x", "y", intsAttr("int64_vocabulary", 7, -3)),
			value(12, "y", tensorType(11))), "double[N,2]", "[7,-3]", []string{"|Identity|x|y"}},
		{"two vocabularies", mapModel(mapOf("x", 8, 1), nodeIn(1, vectorizer, "", "x", "y", words("b", "a")),
			nodeIn(1, vectorizer, "", "x", "z", words("c", "b")), y, z), "float[N,3]", `["b","a","c"]`,
			[]string{"|Gather|x,x_columns|y", "|Gather|x,x_columns_1|z"}},
		{"dense", mapModel(mapOf("x", 7, 8), nodeIn(1, castMap, "", "x", "y"), y), "string[N,?]", "[]", []string{"|Cast|x|y"}},
		{"sparse", mapModel(mapOf("x", 7, 1), nodeIn(1, castMap, "", "x", "y", textAttr("map_form", "SPARSE"),
			intAttr("max_map", 3)), y), "float[N,3]", "[0,1,2]", []string{"|Identity|x|y"}},
		{"both", mapModel(mapOf("x", 7, 8), nodeIn(1, castMap, "", "x", "y", textAttr("map_form", "SPARSE"),
			intAttr("max_map", 2)), nodeIn(1, vectorizer, "", "x", "z", intsAttr("int64_vocabulary", 1, 5)), y,
			value(12, "z", tensorType(8))), "string[N,3]", "[0,1,5]", []string{"|Gather|x,x_columns|x_values", "|Cast|x_values|y", "|Gather|x,x_columns_1|z"}},
	} {
		g, _ := parse(t, c.file)
		if got := g.Inputs[0].Type.String(); got != c.typ || g.Meta[ir.MetaKeys+"x"] != c.keys {
			t.Errorf("%s: type %s, keys %s, expected %s, %s", c.name, got, g.Meta[ir.MetaKeys+"x"], c.typ, c.keys)
		}
		hasNodes(t, g, c.nodes...)
	}
	for want, file := range map[string][]byte{
		"neither a DictVectorizer nor a CastMap": mapModel(mapOf("x", 8, 1), nodeIn(1, "Abs", "", "x", "y"), y),
		"which only DictVectorizer and CastMap read": mapModel(mapOf("x", 8, 1), nodeIn(1, vectorizer, "", "x", "y",
			words("a")), nodeIn(1, "Abs", "", "x", "z"), y, z),
		"expected a vocabulary of string": mapModel(mapOf("x", 8, 1), nodeIn(1, vectorizer, "", "x", "y",
			intsAttr("int64_vocabulary", 7)), y),
		"expected either string_vocabulary": mapModel(mapOf("x", 8, 1), nodeIn(1, vectorizer, "", "x", "y"), y),
		"a map from int64, found keys":      mapModel(mapOf("x", 8, 1), nodeIn(1, castMap, "", "x", "y"), y),
		"max_map: expected 1 to": mapModel(mapOf("x", 7, 1), nodeIn(1, castMap, "", "x", "y",
			textAttr("map_form", "SPARSE"), intAttr("max_map", 1<<40)), y),
		"read the same map": mapModel(mapOf("x", 7, 1), nodeIn(1, castMap, "", "x", "y"),
			nodeIn(1, vectorizer, "", "x", "z", intsAttr("int64_vocabulary", 7)), y, z),
		"cast_to TO_STRING is not supported": mapModel(mapOf("x", 7, 1), nodeIn(1, castMap, "", "x", "y",
			textAttr("cast_to", "TO_STRING")), y),
		"is a map that is also an input": mapModel(mapOf("x", 8, 1), nodeIn(1, vectorizer, "", "x", "y", words("a")), y,
			value(12, "x", tensorType(1))),
		"expected a map from int64 or string": mapModel(mapOf("x", 1, 1), nodeIn(1, vectorizer, "", "x", "y",
			words("a")), y),
	} {
		refused(t, file, Options{}, want)
	}
}
