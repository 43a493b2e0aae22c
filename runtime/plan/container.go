package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/lfs"
	"github.com/essmc/essmc/ir/tensor"
)

// Major and Minor are the newest format version that this package reads and writes.
const (
	Major = 1
	Minor = 1
)

// minorParameters is the first minor version with parameters.
const minorParameters = 1

const (
	magic       = "\x89ESSM\r\n\x1a" // not text: conversions of line ends damage it
	fixedHeader = 24
	entrySize   = 56
	maxSections = 16
	maxHeader   = fixedHeader + maxSections*entrySize + sha256.Size
)

// Kinds of sections.
const (
	kindMetadata = 1
	kindWeights  = 2
)

var sectionNames = map[uint32]string{kindMetadata: "metadata", kindWeights: "weights"}

type section struct {
	kind           uint32
	offset, length int64
	sum            [sha256.Size]byte
}

func (s section) String() string { return "section " + sectionNames[s.kind] }

func (s section) check(w *ends.Watch, b []byte) error {
	h := sha256.New()
	_ = w.Parts(len(b), func(from, to int) error { h.Write(b[from:to]); return nil })
	if [sha256.Size]byte(h.Sum(nil)) != s.sum {
		return fmt.Errorf("%v: content does not match its SHA-256; fetch the file again, or compile the model again", s)
	}
	return nil
}

// IsPlan reports whether a file that starts with head is a plan.
func IsPlan(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }

func align(n, to int64) int64 { return (n + to - 1) / to * to }

// place sets the offsets of consecutive sections, and returns the length of the file.
func place(sections []section) int64 {
	end := int64(fixedHeader + len(sections)*entrySize + sha256.Size)
	for i := range sections {
		sections[i].offset = align(end, tensor.Align)
		end = sections[i].offset + sections[i].length
	}
	return end
}

// header encodes the header for placed sections, of version Major.minor.
func header(sections []section, length int64, minor int) []byte {
	le := binary.LittleEndian
	h := le.AppendUint16([]byte(magic), Major)
	h = le.AppendUint16(h, uint16(minor))
	h = le.AppendUint32(h, uint32(len(sections)))
	h = le.AppendUint64(h, uint64(length))
	for _, s := range sections {
		h = le.AppendUint64(h, uint64(s.kind))
		h = le.AppendUint64(h, uint64(s.offset))
		h = le.AppendUint64(h, uint64(s.length))
		h = append(h, s.sum[:]...)
	}
	sum := sha256.Sum256(h)
	return append(h, sum[:]...)
}

// readHeader reads the header of a file of the given size. It checks everything that does not need the sections'
// content.
func readHeader(r io.ReaderAt, size int64, name string, lim Limits) (metadata, weights section, minor int, err error) {
	h := make([]byte, max(0, min(size, maxHeader)))
	if err := readAt(r, h, 0); err != nil {
		return metadata, weights, 0, classify(name, err)
	}
	if !IsPlan(h) {
		if len(h) < len(magic) && bytes.HasPrefix([]byte(magic), h) && len(h) > 0 {
			return metadata, weights, 0, fmt.Errorf("%s: %w: ends after %d bytes", name, ErrCorrupt, len(h))
		}
		if err := lfs.Check(h); err != nil {
			return metadata, weights, 0, fmt.Errorf("%s: %w: it %w", name, ErrNotPlan, err)
		}
		return metadata, weights, 0, fmt.Errorf("%s: %w: it does not start with the signature of a plan", name,
			ErrNotPlan)
	}
	le := binary.LittleEndian
	if len(h) >= 12 {
		major := int(le.Uint16(h[8:]))
		minor = int(le.Uint16(h[10:]))
		if major < 1 || major > Major || major == Major && minor > Minor {
			return metadata, weights, 0, &VersionError{File: name, Major: major, Minor: minor}
		}
	}
	metadata, weights, err = parseHeader(h, size, lim)
	return metadata, weights, minor, classify(name, err)
}

// parseHeader reads a header of version 1 from the first bytes of a file.
func parseHeader(h []byte, size int64, lim Limits) (metadata, weights section, err error) {
	fail := func(format string, args ...any) (section, section, error) {
		return section{}, section{}, fmt.Errorf("header: "+format, args...)
	}
	if len(h) < fixedHeader {
		return fail("ends after %d bytes", len(h))
	}
	le := binary.LittleEndian
	n := le.Uint32(h[12:])
	if n > maxSections {
		return fail("%d sections, at most %d are possible", n, maxSections)
	}
	body := fixedHeader + int(n)*entrySize
	if len(h) < body+sha256.Size {
		return fail("ends after %d bytes, %d expected", len(h), body+sha256.Size)
	}
	if sum := sha256.Sum256(h[:body]); !bytes.Equal(sum[:], h[body:body+sha256.Size]) {
		return fail("does not match its SHA-256")
	}
	if l := le.Uint64(h[16:]); l != uint64(size) {
		return fail("file should have %d bytes, it has %d", l, size)
	}
	if int64(int(size)) != size {
		return fail("%w: file has %d bytes, more than this machine can address", ErrLimit, size)
	}
	if size > lim.FileBytes {
		return fail("%w: file has %d bytes, at most %d are allowed", ErrLimit, size, lim.FileBytes)
	}
	found := map[uint32]section{}
	end := int64(body + sha256.Size)
	for i := range int(n) {
		e := h[fixedHeader+i*entrySize:]
		kind, offset, length := le.Uint64(e), le.Uint64(e[8:]), le.Uint64(e[16:])
		if kind > math.MaxUint32 || sectionNames[uint32(kind)] == "" {
			return fail("section %d has unknown kind %d", i, kind)
		}
		s := section{kind: uint32(kind), offset: int64(offset), length: int64(length)}
		copy(s.sum[:], e[24:])
		if _, twice := found[s.kind]; twice {
			return fail("%v occurs twice", s)
		}
		if want := align(end, tensor.Align); offset != uint64(want) {
			return fail("%v starts at byte %d, expected %d", s, offset, want)
		}
		if s.offset > size || length > uint64(size-s.offset) || length > math.MaxInt {
			return fail("%v of %d bytes from byte %d does not fit into the file of %d", s, length, offset, size)
		}
		found[s.kind], end = s, s.offset+s.length
	}
	if end != size {
		return fail("sections end at byte %d, the file at %d", end, size)
	}
	for _, kind := range []uint32{kindMetadata, kindWeights} {
		if _, ok := found[kind]; !ok {
			return fail("no section %s", sectionNames[kind])
		}
	}
	if l := found[kindMetadata].length; l > lim.MetadataBytes {
		return fail("%w: section metadata has %d bytes, at most %d are allowed", ErrLimit, l, lim.MetadataBytes)
	}
	if found[kindMetadata].offset > found[kindWeights].offset {
		return fail("section weights comes before section metadata")
	}
	return found[kindMetadata], found[kindWeights], nil
}

// checkGaps checks that the gaps before sections hold zeros. Together with the checksums this covers every byte of the
// file.
func checkGaps(r io.ReaderAt, sections ...section) error {
	end := int64(fixedHeader + len(sections)*entrySize + sha256.Size)
	var gap [tensor.Align]byte
	for _, s := range sections {
		g := gap[:s.offset-end]
		if err := readAt(r, g, end); err != nil {
			return err
		}
		for i, b := range g {
			if b != 0 {
				return fmt.Errorf("byte %d, before %v, is not zero", end+int64(i), s)
			}
		}
		end = s.offset + s.length
	}
	return nil
}

// readAt fills b from offset off.
func readAt(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("ends before byte %d", off+int64(len(b)))
	}
	return &readError{off, err}
}
