// Package plan reads and writes plan files (.essm): one portable ir.Graph with everything that belongs to it — subgraphs,
// types with symbolic dimensions, attributes, metadata, history, operator versions, weights.
//
// It imports ir, ir/tensor and the FlatBuffers runtime; operators come from the resolver that a caller passes. What always
// holds: equal graphs give equal bytes; a graph that Read or Open returns has passed every check of this package and
// ir.Verify; no input, however hostile, makes this package panic or allocate out of proportion to the file's size (an
// operator's own type inference is called on what the file says, and answers for itself).
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
// Sections follow in the order of the table, each at the next multiple of 64, with zeros between, and the last one ends the
// file. Kind 1 is the metadata, a FlatBuffer that plan.fbs describes; kind 2 is the weights. A tensor of 256 bytes or more
// starts at a multiple of 64, a smaller one at a multiple of 8; contents that occur more than once are stored once.
//
// # Versions
//
// The promise: a plan is readable by every later version of essmc. A program reads the formats of its own version and all
// before it; testdata/corpus holds it to that. Magic and version stay where they are forever, so every program can tell a
// plan that is too new for it (*VersionError) from one that is damaged. The minor version grows when files can say more, the
// major version when they say it otherwise; a program refuses both when they are newer, since what it cannot read might
// change the meaning of what it can. Write uses the lowest version that can hold the graph.
//
// An operator is stored with the version of its domain that defined it, and is resolved at that version, so a later
// definition of the same name does not change what a plan means.
package plan

//go:generate flatc --go --gen-onefile --go-namespace fb -o internal/fb plan.fbs
//go:generate gofmt -w internal/fb/plan_generated.go
