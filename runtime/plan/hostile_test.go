package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
)

// pack makes a whole file of two sections' content.
func pack(metadata, weights []byte) []byte {
	sections := []section{
		{kind: kindMetadata, length: int64(len(metadata)), sum: sha256.Sum256(metadata)},
		{kind: kindWeights, length: int64(len(weights)), sum: sha256.Sum256(weights)},
	}
	file := make([]byte, place(sections))
	copy(file, header(sections, int64(len(file)), Minor))
	copy(file[sections[0].offset:], metadata)
	copy(file[sections[1].offset:], weights)
	return file
}

// unpack gives the sections' content of a file that Write made.
func unpack(file []byte) (metadata, weights []byte) {
	m, w, err := parseHeader(file, int64(len(file)), Limits{}.withDefaults())
	if err != nil {
		panic(err)
	}
	return file[m.offset : m.offset+m.length], file[w.offset : w.offset+w.length]
}

// mend makes the checksums right that a change of the file made wrong, so that the checks behind them have something to do.
func mend(file []byte) []byte {
	if len(file) < fixedHeader {
		return file
	}
	le := binary.LittleEndian
	le.PutUint64(file[16:], uint64(len(file)))
	n := int(min(le.Uint32(file[12:]), maxSections))
	body := fixedHeader + n*entrySize
	if len(file) < body+sha256.Size {
		return file
	}
	for i := range n {
		e := file[fixedHeader+i*entrySize:]
		off, l := le.Uint64(e[8:]), le.Uint64(e[16:])
		if size := uint64(len(file)); off <= size && l <= size-off {
			sum := sha256.Sum256(file[off : off+l])
			copy(e[24:], sum[:])
		}
	}
	sum := sha256.Sum256(file[:body])
	copy(file[body:], sum[:])
	return file
}

// known says whether err is of a kind that callers can tell apart.
func known(err error) bool {
	var version *VersionError
	var unknown *UnknownOpsError
	return errors.Is(err, ErrNotPlan) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrLimit) ||
		errors.As(err, &version) || errors.As(err, &unknown)
}

func TestFlipEveryByte(t *testing.T) {
	count := 0
	for _, name := range []string{"small", "subgraphs", "parameters"} {
		file := write(t, graphs[name](t))
		for i := range file {
			for _, flip := range []byte{0x01, 0x80, 0xff} {
				file[i] ^= flip
				if _, err := readBytes(file, ops); err == nil || !known(err) ||
					!strings.HasPrefix(err.Error(), "m.essm: ") {
					t.Fatalf("%s: byte %d ^ %#x: error %v", name, i, flip, err)
				}
				file[i] ^= flip
				count++
			}
		}
	}
	t.Logf("figure: %d changed plans, none accepted", count)
}

func TestTruncate(t *testing.T) {
	file := write(t, smallGraph(t))
	for n := range file {
		_, err := readBytes(file[:n], ops)
		if want := map[bool]error{true: ErrNotPlan, false: ErrCorrupt}[n == 0]; !errors.Is(err, want) {
			t.Fatalf("first %d bytes: error %v, expected %v", n, err, want)
		}
		// the caller is wrong about the size
		_, err = Read(bytes.NewReader(file[:n]), int64(len(file)), "m.essm", ops, Limits{})
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("first %d bytes of %d: error %v, expected %v", n, len(file), err, ErrCorrupt)
		}
	}
	if _, err := readBytes(append(file, 0), ops); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte too many: error %v, expected %v", err, ErrCorrupt)
	}
	t.Logf("figure: %d lengths, none accepted", len(file))
}

// TestHeader breaks one rule of the header at a time, with right checksums.
func TestHeader(t *testing.T) {
	le := binary.LittleEndian
	entry := func(file []byte, i int) []byte { return file[fixedHeader+i*entrySize:] }
	cases := []struct {
		name, want string
		change     func(file []byte)
	}{
		{"sections", "header: 17 sections, at most 16", func(b []byte) { le.PutUint32(b[12:], 17) }},
		{"no sections", "header: sections end at byte 56", func(b []byte) { le.PutUint32(b[12:], 0) }},
		{"kind", "header: section 1 has unknown kind 3", func(b []byte) { le.PutUint64(entry(b, 1), 3) }},
		{"kind with more", "header: section 0 has unknown kind 4294967297",
			func(b []byte) { le.PutUint64(entry(b, 0), 1<<32+1) }},
		{"twice", "header: section metadata occurs twice", func(b []byte) { le.PutUint64(entry(b, 1), kindMetadata) }},
		{"order", "header: section weights comes before section metadata", func(b []byte) {
			le.PutUint64(entry(b, 0), kindWeights)
			le.PutUint64(entry(b, 1), kindMetadata)
		}},
		{"overlap", "header: section weights starts at byte 192",
			func(b []byte) { copy(entry(b, 1)[8:], entry(b, 0)[8:24]) }},
		{"beyond", "does not fit into the file", func(b []byte) { le.PutUint64(entry(b, 1)[16:], 1<<40) }},
		{"length 2^64-1", "does not fit into the file", func(b []byte) { le.PutUint64(entry(b, 1)[16:], math.MaxUint64) }},
		{"short", "header: sections end at byte", func(b []byte) { le.PutUint64(entry(b, 1)[16:], 1) }},
		{"gap", "before section metadata, is not zero", func(b []byte) { b[fixedHeader+2*entrySize+sha256.Size+3] = 1 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			file := write(t, smallGraph(t))
			c.change(file)
			_, err := readBytes(mend(file), ops)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, expected %q in it", err, c.want)
			}
		})
	}
}

// TestHugeClaims reads a header that claims 2^62 bytes, from a caller who believes it.
func TestHugeClaims(t *testing.T) {
	const claim = math.MaxInt64 / 2
	sections := []section{{kind: kindMetadata, length: 100}, {kind: kindWeights, length: claim}}
	size := place(sections)
	h := header(sections, size, Minor)
	_, err := Read(bytes.NewReader(h), size, "m.essm", ops, Limits{})
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrLimit) {
		t.Errorf("error %v", err)
	}
}

// TestMutations changes sections at random, with right checksums: nothing panics, and nothing allocates out of proportion.
func TestMutations(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var files [][]byte
	for _, name := range sortedKeys(graphs) {
		if name != "tensors" { // its checksums would take the test's time
			files = append(files, write(t, graphs[name](t)))
		}
	}
	good, most, ratio := 0, uint64(0), 0.0
	var before, after runtime.MemStats
	for i := range 20000 {
		m, w := unpack(files[i%len(files)])
		file := pack(mutate(rng, m), w)
		runtime.ReadMemStats(&before)
		_, err := readBytes(file, ops)
		runtime.ReadMemStats(&after)
		switch {
		case err == nil:
			good++
		case !known(err):
			t.Fatalf("mutation %d: error %v", i, err)
		}
		used := after.TotalAlloc - before.TotalAlloc
		most, ratio = max(most, used), max(ratio, float64(used)/float64(len(file)))
		if bound := uint64(64*len(file) + 1<<16); used > bound {
			t.Errorf("mutation %d: %d bytes allocated for a file of %d", i, used, len(file))
		}
	}
	t.Logf("figure: 20000 plans with right checksums; at most %.1f times their size, %d KiB, allocated; %d gave another graph",
		ratio, most>>10, good)
}

// mutate changes a few bytes or words of a copy of b, with a liking for numbers that are nearly right.
func mutate(rng *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + rng.IntN(3) {
		word := b[rng.IntN(len(b)/4)*4:]
		switch rng.IntN(5) {
		case 0:
			b[rng.IntN(len(b))] = byte(rng.Uint32())
		case 1:
			binary.LittleEndian.PutUint32(word, binary.LittleEndian.Uint32(word)+uint32(rng.IntN(9))-4)
		case 2:
			binary.LittleEndian.PutUint32(word, uint32(rng.IntN(len(b))))
		case 3:
			binary.LittleEndian.PutUint32(word, []uint32{0, 1, math.MaxInt32, math.MaxUint32, 1 << 31}[rng.IntN(5)])
		case 4:
			copy(word[:4], b[rng.IntN(len(b)/4)*4:])
		}
	}
	return b
}

func TestVersions(t *testing.T) {
	for _, v := range [][2]uint16{{1, Minor + 1}, {2, 0}, {0xffff, 7}, {0, 9}} {
		file := write(t, smallGraph(t))
		binary.LittleEndian.PutUint16(file[8:], v[0])
		binary.LittleEndian.PutUint16(file[10:], v[1])
		for _, f := range [][]byte{file, file[:20]} { // whatever may have changed behind the version
			_, err := readBytes(f, ops)
			var e *VersionError
			if !errors.As(err, &e) || e.Major != int(v[0]) || e.Minor != int(v[1]) {
				t.Fatalf("version %v: error %v", v, err)
			}
			for _, want := range []string{"m.essm", fmt.Sprintf("%d.%d", v[0], v[1]), "compile the model again"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		}
	}
}

func TestNotPlan(t *testing.T) {
	for _, b := range []string{"", "PK\x03\x04 something else entirely", "\x89PNG\r\n\x1a\n", "\x89ESSM\n\x1a"} {
		if _, err := readBytes([]byte(b), ops); !errors.Is(err, ErrNotPlan) {
			t.Errorf("%q: error %v, expected ErrNotPlan", b, err)
		}
	}
	if !IsPlan(write(t, smallGraph(t))[:16]) || IsPlan([]byte("\x89ESS")) {
		t.Error("IsPlan is wrong")
	}
}

func TestUnknownOps(t *testing.T) {
	file := write(t, subgraphsGraph(t))
	older := testOps{op("test", "Add", 1)} // has an older Add, and no If
	_, err := readBytes(file, older)
	var e *UnknownOpsError
	if !errors.As(err, &e) {
		t.Fatalf("error %v, expected an UnknownOpsError", err)
	}
	if len(e.Ops) != 2 || e.Ops[0].Name != "Add" || e.Ops[0].Since != 7 || len(e.Ops[0].Nodes) != 5 ||
		e.Ops[1].Name != "If" || len(e.Ops[1].Nodes) != 2 {
		t.Errorf("found %+v", e.Ops)
	}
	const want = "m.essm: this program lacks operators that the plan needs: " +
		"test.Add version 7 (node -> Add, node -> Add_4, node -> Add_3 and 2 more); test.If version 2 (node -> y, node -> If); " +
		"domain test is not part of essmc: use a program that registers its operators, such as the one that wrote the plan (docs/extending.md)"
	if err.Error() != want {
		t.Errorf("error\n%s\nexpected\n%s", err, want)
	}
}

// TestLaterOps reads a plan with a resolver that knows a later definition of its operators: the plan keeps its own.
func TestLaterOps(t *testing.T) {
	file := write(t, smallGraph(t))
	g, err := readBytes(file, append(testOps{op("test", "Add", 8), op("", "Identity", 14)}, ops...))
	if err != nil {
		t.Fatal(err)
	}
	if g.Nodes[0].Op.Since != 7 || g.Nodes[1].Op.Since != 13 {
		t.Errorf("operators of versions %d and %d, expected 7 and 13", g.Nodes[0].Op.Since, g.Nodes[1].Op.Since)
	}
}

func TestLimits(t *testing.T) {
	file := write(t, subgraphsGraph(t))
	for _, c := range []struct {
		lim  Limits
		want string
	}{
		{Limits{FileBytes: 100}, "file has"},
		{Limits{MetadataBytes: 100}, "section metadata has"},
		{Limits{Nodes: 2}, "7 nodes, at most 2"},
		{Limits{Depth: 1}, "nested deeper than 1"},
		{Limits{Ports: 1}, `node 0 (test.Add ""): plan exceeds a limit: expected at most 1 inputs, found 2`},
	} {
		_, err := Read(bytes.NewReader(file), int64(len(file)), "m.essm", ops, c.lim)
		if !errors.Is(err, ErrLimit) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c.lim, err)
		}
	}
	if _, err := readBytes(file, nil); err == nil {
		t.Error("read without a resolver")
	}
}

// TestReadTrouble tells trouble with the disk from a damaged plan.
func TestReadTrouble(t *testing.T) {
	file := write(t, tensorsGraph(t))
	bad := errors.New("bad sector")
	for _, at := range []int64{0, 300, int64(len(file)) - 1} {
		r := &broken{bytes.NewReader(file), at, bad}
		_, err := Read(r, int64(len(file)), "m.essm", ops, Limits{})
		if !errors.Is(err, bad) || errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d cannot be read: error %v", at, err)
		}
	}
}

type broken struct {
	io.ReaderAt
	at  int64
	err error
}

func (b *broken) ReadAt(p []byte, off int64) (int, error) {
	if off <= b.at && b.at < off+int64(len(p)) {
		return 0, b.err
	}
	return b.ReaderAt.ReadAt(p, off)
}

// TestVerifier gives the verifier buffers that break one rule each.
func TestVerifier(t *testing.T) {
	metadata, _ := unpack(write(t, smallGraph(t)))
	le := binary.LittleEndian
	root := le.Uint32(metadata)
	vtable := root - le.Uint32(metadata[root:])
	field := func(b []byte, slot int) uint32 { return root + uint32(le.Uint16(b[vtable+4+2*uint32(slot):])) }
	vector := func(b []byte, slot int) uint32 { f := field(b, slot); return f + le.Uint32(b[f:]) }
	text := func(b []byte, i uint32) uint32 { e := vector(b, 0) + 4 + 4*i; return e + le.Uint32(b[e:]) }
	put := le.PutUint32
	cases := []struct {
		name, want string
		change     func(b []byte)
	}{
		{"identifier", "identifier", func(b []byte) { b[4] = 'X' }},
		{"root", "root table: 4 bytes from byte", func(b []byte) { put(b, 1<<31) }},
		{"root unaligned", "root table: byte 25 is not", func(b []byte) { put(b, 25) }},
		{"root zero", "root table: offset at byte 0 is zero", func(b []byte) { put(b, 0) }},
		{"vtable before", "its vtable would start", func(b []byte) { put(b[root:], 1<<30) }},
		{"vtable behind", "vtable: 4 bytes from", func(b []byte) { put(b[root:], 1<<31) }},
		{"vtable odd", "vtable: byte", func(b []byte) { put(b[root:], le.Uint32(b[root:])+1) }},
		{"vtable size", "vtable: size 1", func(b []byte) { le.PutUint16(b[vtable:], 1) }},
		{"more fields", "vtable: size 56", func(b []byte) { le.PutUint16(b[vtable:], 56) }},
		{"table size", "root table: 65535 bytes", func(b []byte) { le.PutUint16(b[vtable+2:], 65535) }},
		{"field", "types: field at byte 3", func(b []byte) { le.PutUint16(b[vtable+4+2*2:], 3) }},
		{"vector", "nodes: 4 bytes from", func(b []byte) { put(b[field(b, 15):], 1<<30) }},
		{"vector length", "nodes: vectors and strings claim", func(b []byte) { put(b[vector(b, 15):], 1<<31) }},
		{"vector length 2^32-1", "blobs: vectors and strings claim",
			func(b []byte) { put(b[vector(b, 3):], math.MaxUint32) }},
		{"string beyond the end", "string 0: 14 bytes from", func(b []byte) { put(b[text(b, 0):], 13) }},
		{"vector unaligned", "blobs: byte", func(b []byte) { f := field(b, 3); put(b[f:], le.Uint32(b[f:])+4) }},
		{"string", "strings: string 1: 4 bytes from", func(b []byte) { put(b[vector(b, 0)+8:], 1<<30) }},
		{"string length", "strings: string 0: vectors and strings claim",
			func(b []byte) { put(b[text(b, 0):], math.MaxUint32) }},
		{"string end", "strings: string 0: does not end", func(b []byte) { put(b[text(b, 0):], 2) }},
		{"string not UTF-8", "strings: string 0: is not UTF-8", func(b []byte) { b[text(b, 0)+4] = 0xff }},
		{"strings claimed twice", "claim more bytes", func(b []byte) {
			at := vector(b, 0)
			for slot, c := range columns { // the strings are what every column holds
				if f := field(b, slot); f != root && c.align == 4 {
					put(b[f:], at-f)
				}
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := bytes.Clone(metadata)
			c.change(b)
			if err := verifyBuffer(nil, b); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, expected %q in it", err, c.want)
			}
		})
	}
	if err := verifyBuffer(nil, metadata); err != nil {
		t.Errorf("the unchanged buffer: %v", err)
	}
}

// TestDecoder changes what a graph's encoder has collected, one thing at a time, and reads the result.
func TestDecoder(t *testing.T) {
	cases := []struct {
		name, graph, want string
		change            func(e *encoder)
	}{
		{"string id", "small", "graph 0: name: string id 99, there are", func(e *encoder) { e.graphs[0].name = 99 }},
		{"type kind", "small", "type 1: unknown kind 9",
			func(e *encoder) { e.types = append(e.types, typeRec{kind: 9, dimsEnd: 3}) }},
		{"type element", "small", "type 0: unknown element type 27", func(e *encoder) { e.types[0].elem = 27 }},
		{"type element 257", "small", "type 0: unknown element type 257", func(e *encoder) { e.types[0].elem = 257 }},
		{"type inside itself", "types", "earlier type id",
			func(e *encoder) { e.types[len(e.types)-1].elem = uint32(len(e.types) - 1) }},
		{"type with dims", "types", "has 4 dimensions", func(e *encoder) { e.types[2].kind = typeNoRank }},
		{"dimension", "small", "type 0: dimension", func(e *encoder) { e.strings[e.dims[1]] = "L+" }},
		{"negative dimension", "small", "negative dimension -3", func(e *encoder) { e.strings[e.dims[2]] = "-3" }},
		{"dims end", "small", "part of dims ends at 9", func(e *encoder) { e.types[0].dimsEnd = 9 }},
		{"dims left over", "small", "dims has 3 entries, only 2 are used", func(e *encoder) { e.types[0].dimsEnd = 2 }},
		{"blob beyond", "small", "are not in the weights", func(e *encoder) { e.blobs[0].data = make([]byte, 13) }},
		{"blob short", "small", "blobs end at byte 11", func(e *encoder) { e.blobs[0].data = e.blobs[0].data[:11] }},
		{"blob order", "tensors", "blob 1 starts at", func(e *encoder) { e.blobs[1].offset = 0 }},
		{"blob far", "small", "blob 0 starts at byte 64", func(e *encoder) { e.blobs[0].offset = 64 }},
		{"blob id", "small", "blob id 7", func(e *encoder) { e.tensors[0].storage = 7 }},
		{"extent", "small", "does not fit into its blob of 12 bytes", func(e *encoder) { e.extents[0] = 1 << 26 }},
		{"extent short", "small", "tensor 0: float32 [2] needs 8 bytes, found 12", func(e *encoder) { e.extents[0] = 2 }},
		{"extent negative", "small", "negative dimension -1", func(e *encoder) { e.extents[0] = -1 }},
		{"extent huge", "small", "too large", func(e *encoder) { e.extents[0] = 1 << 62 }},
		{"tensor dtype", "small", "tensor 0: unknown element type 99", func(e *encoder) { e.tensors[0].dtype = 99 }},
		{"two bool tensors", "tensors", "holds two bool tensors", func(e *encoder) {
			last := e.tensors[len(e.tensors)-1]
			e.tensors = append(e.tensors, last)
			e.tensors[len(e.tensors)-1].extentsEnd++
			e.extents = append(e.extents, e.extents[len(e.extents)-1]*e.extents[len(e.extents)-2])
		}},
		{"op id", "small", "node 0: operator id 9", func(e *encoder) { e.nodes[0].op = 9 }},
		{"op version", "small", "version 4294967295", func(e *encoder) { e.ops[0].since = math.MaxUint32 }},
		{"value type", "small", "value 1 (Add): type id 5", func(e *encoder) {
			e.values[1].b = 5
			e.strings[e.values[1].a] = "Add"
		}},
		{"constant tensor", "small", "constant 0 (w): tensor id 3", func(e *encoder) { e.constants[0].b = 3 }},
		{"input", "small", `node 0 (test.Add "add the weights"): input 0: value id 50`,
			func(e *encoder) { e.nodeIn[0] = 101 }},
		{"read before defined", "small", "is read before it is defined", func(e *encoder) { e.nodeIn[0] = 5 }},
		{"output is constant", "small", "output 0 is a constant", func(e *encoder) { e.nodeOut[0] = 2 }},
		{"defined twice", "small", "is defined twice", func(e *encoder) { e.nodeOut[2] = 3 }},
		{"never defined", "small", "is never defined", func(e *encoder) { e.nodeOut[2] = 0 }},
		{"no graph", "small", "there is not a graph", func(e *encoder) { e.graphs = nil }},
		{"graph inside itself", "subgraphs", "inside graph", func(e *encoder) { e.attrs[len(e.attrs)-1].number = 0 }},
		{"graph id negative", "subgraphs", "graph id 18446744073709551615", func(e *encoder) { e.attrs[0].number = -1 }},
		{"graph twice", "subgraphs", "belongs to two nodes", func(e *encoder) { e.attrs[1].number = e.attrs[0].number }},
		{"attribute kind", "attributes", "unknown kind 13", func(e *encoder) { e.attrs[0].kind = 13 }},
		{"attribute end", "attributes", "part of numbers ends at", func(e *encoder) {
			for i := range e.attrs {
				if e.attrs[i].kind == 7 {
					e.attrs[i].number = -5
				}
			}
		}},
		{"opsets", "small", "does not come after", func(e *encoder) { e.opsets[1] = e.opsets[0] }},
		{"meta", "small", "does not come after", func(e *encoder) { e.meta[1] = e.meta[0] }},
		{"opset of an operator", "small", "operator is from version 7", func(e *encoder) { e.opsets[1].b = 3 }},
		{"parameter id", "parameters", "parameter 1: constant id 99, there are 5", func(e *encoder) { e.parameters[1] = 99 }},
		{"parameter twice", "parameters", "parameter 1: constant 0 (weight) is listed twice",
			func(e *encoder) { e.parameters[1] = 0 }},
		{"update of none", "parameters", "update 0: parameter id 4, there are 4", func(e *encoder) { e.updates[0].a = 4 }},
		{"update by none", "parameters", "update 1 (weight): output id 4, there are 4",
			func(e *encoder) { e.updates[1].b = 4 }},
		{"update of another type", "parameters", "value bias: has type float[3], its update shown is double",
			func(e *encoder) { e.updates[0].b = 1 }},
		{"update twice", "parameters", "value bias: has two updates", func(e *encoder) { e.updates[1].a = 1 }},
		{"update without parameters", "parameters", "update 0: parameter id 1, there are 0",
			func(e *encoder) { e.parameters = nil }},
		{"parameter as an output", "parameters", "output 0 is a constant", func(e *encoder) { e.nodeOut[0] = 2 }},
		{"notes", "small", "event 0 (fold): part of notes", func(e *encoder) { e.events[0].notesEnd = 77 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := newEncoder()
			if err := e.encode(graphs[c.graph](t)); err != nil {
				t.Fatal(err)
			}
			e.placeBlobs()
			var w bytes.Buffer
			if _, err := e.writeWeights(&w); err != nil {
				t.Fatal(err)
			}
			c.change(e)
			m, err := e.build()
			if err != nil {
				t.Fatal(err)
			}
			_, err = readBytes(pack(m, w.Bytes()), ops)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, expected %q in it", err, c.want)
			}
		})
	}
}

// TestMinor: only the graphs that need it are written in version 1.1, and 1.0 has no parameters.
func TestMinor(t *testing.T) {
	for _, name := range sortedKeys(graphs) {
		file := write(t, graphs[name](t))
		minor := binary.LittleEndian.Uint16(file[10:])
		if want := uint16(map[bool]int{true: 1}[name == "parameters"]); minor != want {
			t.Errorf("%s: minor version %d, expected %d", name, minor, want)
		}
		if minor == 0 {
			continue
		}
		binary.LittleEndian.PutUint16(file[10:], 0)
		_, err := readBytes(mend(file), ops)
		if want := "has parameters, which format version 1.0 does not have"; !errors.Is(err, ErrCorrupt) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, expected %q in it", name, err, want)
		}
	}
}

// TestVerifyError sees to it that the verifier's own error comes through.
func TestVerifyError(t *testing.T) {
	e := newEncoder()
	if err := e.encode(smallGraph(t)); err != nil {
		t.Fatal(err)
	}
	e.values[1].a = e.values[0].a // two values of one name
	e.placeBlobs()
	var w bytes.Buffer
	_, _ = e.writeWeights(&w)
	m, _ := e.build()
	_, err := readBytes(pack(m, w.Bytes()), ops)
	var v *ir.VerifyError
	if !errors.As(err, &v) || !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v, expected a VerifyError", err)
	}
}

func fuzzSeeds(f *testing.F, add func(file []byte)) {
	for _, name := range sortedKeys(graphs) {
		if name != "tensors" {
			add(write(f, graphs[name](f)))
		}
	}
	corpus, _ := filepath.Glob("testdata/corpus/*/*.essm")
	for _, path := range corpus {
		if b, err := os.ReadFile(path); err == nil && len(b) < 4096 {
			add(b)
		}
	}
}

// sound reads a file that may be anything; what it gives must be writable, and read back the same.
func sound(t *testing.T, file []byte) {
	g, err := readBytes(file, ops)
	if err != nil {
		if !known(err) {
			t.Errorf("error of no known kind: %v", err)
		}
		return
	}
	var b bytes.Buffer
	if err := Write(&b, g); err != nil {
		if strings.Contains(err.Error(), "cannot be written") {
			return // a dimension whose normal form is longer than what stood in the file
		}
		t.Fatalf("a graph that was read cannot be written: %v", err)
	}
	back, err := readBytes(b.Bytes(), ops)
	if err != nil {
		t.Fatalf("a graph that was read and written cannot be read: %v", err)
	}
	if got, want := dump(back), dump(g); got != want {
		t.Errorf("read, written and read:\n%s\nread:\n%s", got, want)
	}
}

func FuzzRead(f *testing.F) {
	fuzzSeeds(f, func(file []byte) { f.Add(file) })
	f.Fuzz(func(t *testing.T, file []byte) { sound(t, mend(bytes.Clone(file))) })
}

func FuzzSections(f *testing.F) {
	fuzzSeeds(f, func(file []byte) {
		metadata, weights := unpack(file)
		f.Add(metadata, weights)
	})
	f.Fuzz(func(t *testing.T, metadata, weights []byte) { sound(t, pack(metadata, weights)) })
}
