package onnx

import (
	"bytes"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// seeds returns small models that contain every message among them.
func seeds() [][]byte {
	x, y := floats(11, "x", "N", 2), floats(12, "y", "N", 2)
	branch := func(attr, op string) []byte {
		return graphAttr(attr, raw32(5, "k", 2), node(op, "", "x,k", "t"), floats(12, "t", "N", 2))
	}
	return [][]byte{
		model(graph(x, raw32(5, "w", 2), node("Add", "add", "x,w", "y"), y), str(2, "maker"),
			msg(14, str(1, "k"), str(2, "v"))),
		model(graph(x, value(11, "c", tensorType(9)),
			node("If", "", "c", "y", branch("then_branch", "Add"), branch("else_branch", "Mul")), y)),
		chain(2, 2),
		sparseModel(6, packed(5, 7, -8), []int64{2, 3}, []int64{2}, 1, 5),
		model(function("f", "p", "q", msg(11, str(1, "a"), num(20, 1), f32(2, 0.25)),
			nodeIn(7, "LeakyRelu", "", "p", "q", refAttr("alpha", "a", 1))),
			graph(x, node("local:f", "", "x", "y"), y)),
		model(graph(value(11, "s", msg(4, msg(1, tensorType(1, "N")))), node("SequenceLength", "", "s", "y"),
			msg(12, str(1, "y")))),
		model(graph(value(11, "s", msg(9, msg(1, tensorType(1, "N")))), node("OptionalHasElement", "", "s", "y"),
			msg(12, str(1, "y")))),
		model(graph(msg(5, packed(1, 3), num(2, 8), str(8, "w"), strs(6, "a,b,c")), msg(12, str(1, "w")))),
		model(graph(x, node("Transpose", "", "x", "y", msg(5, str(1, "perm"), num(20, 7), packed(8, 1, 0))),
			floats(12, "y", 2, "N"))),
		externalModel(4, "location", "w.bin", "offset", "8"),
		parametersModel(msg(14, str(1, propParameters), str(2, `["layer/w", "layer/b"]`)),
			msg(14, str(1, propUpdates), str(2, `[["layer/b", "a"]]`))),
	}
}

// FuzzParse checks any bytes: no panic, errors of one line that begin with the file's name, verified graphs, and the
// same graph from memory and through a window.
func FuzzParse(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			t.Skip("longer inputs find nothing new")
		}
		o := Options{Budget: Budget{Nodes: 2000, Memory: 1 << 20}}
		g, info, err := read(memory(b), "m.onnx", o)
		h, _, err2 := read(newSource(bytes.NewReader(b), int64(len(b))), "m.onnx", o)
		if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("from memory: %v; from a file: %v", err, err2)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "m.onnx: ") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %q", err)
			}
			return
		}
		if err := ir.Verify(g); err != nil {
			t.Fatal(err)
		}
		if info == nil || text(g) != text(h) {
			t.Fatalf("from memory:\n%s\nfrom a file:\n%s", text(g), text(h))
		}
	})
}

// FuzzParseDatum does the same for tensors, sequences and optionals.
func FuzzParseDatum(f *testing.F) {
	one := join(packed(1, 1), num(2, 1), f32(4, 2))
	f.Add(one, uint8(0))
	f.Add(msg(3, one), uint8(1))
	f.Add(msg(3, one), uint8(2))
	f.Add(msg(5, msg(3, one)), uint8(3))
	t1 := ir.Tensor(tensor.Float32, 1)
	types := []ir.Type{t1, &ir.SequenceType{Elem: t1}, &ir.OptionalType{Elem: t1},
		&ir.OptionalType{Elem: &ir.SequenceType{Elem: t1}}}
	f.Fuzz(func(t *testing.T, b []byte, kind uint8) {
		d, err := ParseDatum(b, "x.pb", types[int(kind)%len(types)])
		if (d == nil) == (err == nil) {
			t.Fatalf("%s, %v", d, err)
		}
	})
}
