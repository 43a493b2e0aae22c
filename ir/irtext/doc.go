// Package irtext prints graphs as ONNX's textual syntax (onnx/docs/Syntax.md) and reads them back, with operators looked up
// through a resolver that it is given.
//
// It imports ir, ir/tensor, internal/atomicfile and the standard library only. What always holds: the same graph gives the same bytes; parsing
// what was printed and printing it again gives the same bytes, with every type, attribute and bit of every constant; Parse
// never panics, keeps to its budget, returns verified graphs only, and opens no file outside of the folder that it is given.
//
//	<
//	  ir_version: 10,
//	  opset_import: ["" : 24, "essm" : 1]
//	>
//	name (float[B,L,1] x, optional(int64[B]) lengths) => (float[B,"2*L"] y)
//	<
//	  float[3] w = {1, 2, 3},
//	  float[512] long = ["location": "name.weights", "offset": "0", "length": "2048"]
//	>
//	{
//	  [scale @ "layers.0"] t = Mul (x, w)
//	  y = essm.StateSpace <bidirectional: int = 1> (t, "", long)
//	}
//
// As in ONNX: "#" starts a comment; a name that is no identifier stands in quotes, where a backslash takes the next byte as
// it is; the empty name is an absent input or output; attributes may stand before or after the inputs; tensors of float16,
// bfloat16, float8 and float4 list bit patterns; complex ones list real and imaginary parts; bool is 0 and 1; the list in
// angle brackets behind the outputs holds constants and the types of intermediate values.
//
// Beyond ONNX, whose own parser reads a text that uses none of this:
//   - a dimension may be any expression that ir.ParseDim reads. It is printed in quotes, which ONNX reads as a symbol.
//   - float attributes have double precision; numbers are the shortest that read back the same
//   - a NaN other than the usual quiet one shows the bits of its fraction: nan(0x1), -nan(0x400001)
//   - "@" in a node's label gives its scope: [name @ "layers.0"], [@ "layers.0"]
//   - history in the header: history: ["fuse" : 3 ["a note"]]; subgraphs may have a header of their own
//   - domains, operators and attributes may stand in quotes
//   - without opset_import the newest version of each operator is meant
//   - attributes without ": type" have the type that their operator declares
//
// Read, but not kept: ir_version, names of tensors in attributes, and constants that nothing reads. Refused: functions,
// overloads, references to a function's attributes, inputs with a default, map, sparse and opaque types.
package irtext
