package plan

import (
	"encoding/binary"
	"fmt"

	"github.com/essmc/essmc/internal/ends"
)

// column is one vector of the root table, as plan.fbs declares it.
type column struct {
	name  string
	size  int // size of one element
	align int
	text  bool // elements are offsets of strings
}

// columns are the fields of table Plan in the order of their slots. TestSchema compares them with plan.fbs.
var columns = []column{
	{"strings", 4, 4, true},
	{"dims", 4, 4, false},
	{"types", 12, 4, false},
	{"blobs", 16, 8, false},
	{"extents", 8, 8, false},
	{"elements", 4, 4, false},
	{"tensors", 12, 4, false},
	{"ops", 12, 4, false},
	{"values", 8, 4, false},
	{"constants", 8, 4, false},
	{"numbers", 8, 8, false},
	{"refs", 4, 4, false},
	{"attrs", 16, 8, false},
	{"node_inputs", 4, 4, false},
	{"node_outputs", 4, 4, false},
	{"nodes", 24, 4, false},
	{"graph_inputs", 4, 4, false},
	{"graph_outputs", 4, 4, false},
	{"opsets", 8, 4, false},
	{"meta", 8, 4, false},
	{"notes", 4, 4, false},
	{"events", 16, 8, false},
	{"graphs", 32, 4, false},
	{"parameters", 4, 4, false},
	{"updates", 8, 4, false},
}

const (
	fileIdentifier = "ESSM"
	maxMetadata    = 1<<31 - 1 // offsets in a FlatBuffer; Go's builder stops there
)

// verifier checks the bounds of a FlatBuffer before the generated accessors, which trust their input, read it. After
// that, every offset that they follow leads to an aligned place inside the buffer, and so does all that they read
// there. Offsets only point forward and the schema has one table, so there are neither cycles nor nesting. The total
// size of vectors and strings must not exceed the buffer. So they cannot share bytes to make a reader allocate a
// multiple of the file's size.
type verifier struct {
	b      []byte
	budget uint64
	watch  *ends.Watch
}

func verifyBuffer(w *ends.Watch, b []byte) error {
	if len(b) > maxMetadata {
		return fmt.Errorf("FlatBuffer of %d bytes, at most %d are possible", len(b), maxMetadata)
	}
	v := &verifier{b: b, budget: uint64(len(b)), watch: w}
	if len(b) < 8 || string(b[4:8]) != fileIdentifier {
		return fmt.Errorf("FlatBuffer lacks the identifier %q", fileIdentifier)
	}
	return v.root()
}

// u16 and u32 read at a checked place.
func (v *verifier) u16(at uint64) uint64 { return uint64(binary.LittleEndian.Uint16(v.b[at:])) }
func (v *verifier) u32(at uint64) uint64 { return uint64(binary.LittleEndian.Uint32(v.b[at:])) }

// inside checks that n bytes from at are in the buffer, and that at is a multiple of align.
func (v *verifier) inside(at, n, align uint64) error {
	if l := uint64(len(v.b)); at > l || n > l-at {
		return fmt.Errorf("%d bytes from byte %d are not in the FlatBuffer of %d", n, at, l)
	}
	if at%align != 0 {
		return fmt.Errorf("byte %d is not a multiple of %d", at, align)
	}
	return nil
}

// follow reads the offset at a checked place and returns its target, which has at least n bytes.
func (v *verifier) follow(at, n, align uint64) (uint64, error) {
	off := v.u32(at)
	if off == 0 {
		return 0, fmt.Errorf("offset at byte %d is zero", at)
	}
	to := at + off
	return to, v.inside(to, n, align)
}

func (v *verifier) claim(n uint64) error {
	if n > v.budget {
		return fmt.Errorf("vectors and strings claim more bytes than the FlatBuffer has")
	}
	v.budget -= n
	return nil
}

func (v *verifier) root() error {
	table, err := v.follow(0, 4, 4)
	if err != nil {
		return fmt.Errorf("root table: %w", err)
	}
	back := int64(int32(v.u32(table)))
	vtable := int64(table) - back
	if vtable < 0 {
		return fmt.Errorf("root table: its vtable would start at byte %d", vtable)
	}
	vt := uint64(vtable)
	if err := v.inside(vt, 4, 2); err != nil {
		return fmt.Errorf("vtable: %w", err)
	}
	vtSize, tableSize := v.u16(vt), v.u16(vt+2)
	if vtSize < 4 || vtSize%2 != 0 || vtSize > 4+2*uint64(len(columns)) {
		return fmt.Errorf("vtable: size %d, expected an even number from 4 to %d", vtSize, 4+2*len(columns))
	}
	if err := v.inside(vt, vtSize, 2); err != nil {
		return fmt.Errorf("vtable: %w", err)
	}
	if err := v.inside(table, tableSize, 4); err != nil {
		return fmt.Errorf("root table: %w", err)
	}
	for i := range (vtSize - 4) / 2 {
		field := v.u16(vt + 4 + 2*i)
		if field == 0 {
			continue
		}
		c := columns[i]
		if field < 4 || field+4 > tableSize || field%4 != 0 {
			return fmt.Errorf("%s: field at byte %d of a table of %d", c.name, field, tableSize)
		}
		if err := v.vector(table+field, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (v *verifier) vector(field uint64, c column) error {
	at, err := v.follow(field, 4, 4)
	if err != nil {
		return err
	}
	n := v.u32(at)
	size := n * uint64(c.size)
	if err := v.claim(4 + size); err != nil {
		return err
	}
	if err := v.inside(at+4, size, uint64(c.align)); err != nil {
		return err
	}
	if c.text {
		for i := range n {
			if err := v.text(at + 4 + 4*i); err != nil {
				return fmt.Errorf("string %d: %w", i, err)
			}
		}
	}
	return nil
}

func (v *verifier) text(elem uint64) error {
	v.watch.Step(1)
	at, err := v.follow(elem, 4, 4)
	if err != nil {
		return err
	}
	n := v.u32(at)
	if err := v.claim(4 + n + 1); err != nil {
		return err
	}
	if err := v.inside(at+4, n+1, 1); err != nil {
		return err
	}
	if v.b[at+4+n] != 0 {
		return fmt.Errorf("does not end with a zero byte")
	}
	if !v.watch.ValidUTF8(v.b[at+4 : at+4+n]) {
		return fmt.Errorf("is not UTF-8")
	}
	return nil
}
