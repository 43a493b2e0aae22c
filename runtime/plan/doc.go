// Package plan reads and writes plan files (.essm). A plan stores one portable ir.Graph, complete with subgraphs,
// types with symbolic dimensions, attributes, metadata, history, operator versions and weights.
//
// It imports ir, ir/tensor, internal/lfs and the FlatBuffers runtime. Operators come from the caller's resolver.
// Equal graphs give equal bytes. A graph that Read or Open returns has passed all checks of this package, and
// ir.Verify. No input makes this package panic, or allocate memory out of proportion to the file's size. Two cases
// are not covered: type inference, which the operators implement, and files that change while they are mapped. A
// mapped plan must not be written to or truncated; see File.Mapped and the option Copy of Open.
//
// # Layout
//
// All numbers are little-endian. The header:
//
//	offset  bytes
//	0       8      magic: 0x89 "ESSM" 0x0D 0x0A 0x1A
//	8       2+2    format version: major, minor
//	12      4      number of sections, n
//	16      8      length of the file
//	24      56·n   sections: kind (4), zero (4), offset (8), length (8), SHA-256 of the content (32)
//	24+56·n 32     SHA-256 of the header's bytes before it
//
// Sections follow in the order of the table, each at the next multiple of 64, with zeros between. The last one ends
// the file. Kind 1 is the metadata, a FlatBuffer with the schema plan.fbs. Kind 2 is the weights. A tensor of 256
// bytes or more starts at a multiple of 64, a smaller one at a multiple of 8. Equal contents are stored once.
//
// # Versions
//
// Every later version of essmc can read a plan. A program reads the formats of its own version and all earlier ones,
// which the files in testdata/corpus test. The magic and the version keep their places forever, so every program can
// distinguish a plan that is too new (*VersionError) from one that is damaged. The minor version grows with
// additions to the format, the major version with changes. A program refuses newer versions of both, since a part
// that it cannot read may change the meaning of the rest. Write uses the lowest version that can store the graph.
// Version 1.1 added parameters: a program that knows only 1.0 would take them for constants, so it refuses the plan.
//
// An operator is stored with the version of its domain that defined it, and is resolved at that version. Later
// definitions of the same name do not change the meaning of a plan.
package plan

//go:generate flatc --go --gen-onefile --go-namespace fb -o internal/fb plan.fbs
//go:generate gofmt -w internal/fb/plan_generated.go
