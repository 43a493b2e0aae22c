// Package irtext prints graphs in ONNX's textual syntax (onnx/docs/Syntax.md) and parses them. Operators are looked up
// through a resolver.
//
// It imports ir, ir/tensor, internal packages and the standard library only. Equal graphs give equal
// bytes. Printing, parsing and printing again gives the same bytes, with every type, attribute and bit of every
// constant. Parse never panics, keeps to its budget, returns verified graphs only, and opens no file outside the given
// folder.
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
// As in ONNX, "#" starts a comment. A name that is not an identifier is quoted; in quotes a backslash takes the next
// byte literally. The empty name is an absent input or output. Attributes may stand before or after the inputs. Tensors
// of float16, bfloat16, float8 and float4 list bit patterns, complex ones real and imaginary parts; bool is 0 and 1.
// The list in angle brackets after the outputs holds constants and the types of intermediate values.
//
// There are extensions. ONNX's own parser reads a text that uses none of them:
//   - A dimension may be any expression that ir.ParseDim reads. It is printed in quotes, which ONNX reads as a symbol.
//   - Float attributes have double precision. Numbers are the shortest that read back the same.
//   - A NaN other than the usual quiet one shows the bits of its fraction: nan(0x1), -nan(0x400001).
//   - "@" in a node's label gives its scope: [name @ "layers.0"], [@ "layers.0"].
//   - The header may hold a history: history: ["fuse" : 3 ["a note"]]. Subgraphs may have a header too.
//   - Domains, operators and attributes may be quoted.
//   - Without opset_import, operators have their newest version.
//   - Attributes without ": type" have the type that their operator declares.
//   - The outermost list may have parameters, constants whose content may be replaced, and the outputs that update
//     them: parameter float[3] w = {1, 2, 3}, update w = new_w.
//
// The parser drops ir_version, names of tensors in attributes, and unused constants. It refuses functions, overloads,
// references to a function's attributes, inputs with a default, and map, sparse and opaque types.
package irtext
