package onnx

import (
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxSniffed bounds the top-level fields that IsModel reads. A model has a few, and one for each function.
const maxSniffed = 1 << 14

// IsModel reports whether a file of the given size has the form of an ONNX model: valid fields at the top level, one of
// which is a graph. It does not look into the fields, so reading the model may still fail.
func IsModel(r io.ReaderAt, size int64) bool {
	c := cursor{src: newSource(r, size), end: size}
	graph := false
	for range maxSniffed {
		f, ok, err := c.next()
		if err != nil {
			return false
		}
		if !ok {
			return graph
		}
		if typ, known := modelFields[f.num]; known && f.typ != typ {
			return false
		}
		graph = graph || f.num == 7
	}
	return graph
}

// modelFields maps ModelProto's fields to their types.
var modelFields = map[protowire.Number]protowire.Type{
	1: protowire.VarintType, 2: protowire.BytesType, 3: protowire.BytesType, 4: protowire.BytesType,
	5: protowire.VarintType,
	6: protowire.BytesType, 7: protowire.BytesType, 8: protowire.BytesType, 14: protowire.BytesType,
	20: protowire.BytesType,
	25: protowire.BytesType, 26: protowire.BytesType,
}

// Begins reports whether a file that starts with head may be a truncated or damaged ONNX model. Such a file starts
// like those of exporters: with the version of the format, a small number, and another of the model's fields.
func Begins(head []byte) bool {
	if len(head) < 3 || head[0] != 1<<3 || head[1] == 0 || head[1] > 0x7f {
		return false
	}
	field, wire := head[2]>>3, head[2]&7
	return wire == 2 && slices.Contains([]byte{2, 3, 4, 6, 7, 8, 14}, field) || wire == 0 && field == 5
}
