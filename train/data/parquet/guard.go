package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	pq "github.com/parquet-go/parquet-go"
)

// Limits of a file. The library allocates what a file claims, so claims are checked before it reads them.
const (
	MaxFile     = 4 << 30
	maxFooter   = 16 << 20
	maxElements = 1 << 18 // of the lists of a footer
	maxHeader   = 1 << 16 // bytes of the header of a page
	maxDepth    = 32
	maxRatio    = 100
	slack       = 1 << 20
)

// errCut is the error for a structure that is longer than the bytes it is in.
var errCut = errors.New("ends within a value")

// compact walks through a structure in the compact protocol of Thrift, in which footers and headers of pages are
// written, and reports its integers.
type compact struct {
	b        []byte
	at       int
	elements int
	integer  func(path []int64, v int64) // the numbers of the fields from the outermost structure on
	path     []int64
}

func (c *compact) byte() (byte, error) {
	if c.at >= len(c.b) {
		return 0, errCut
	}
	c.at++
	return c.b[c.at-1], nil
}

func (c *compact) varint() (uint64, error) {
	v, n := binary.Uvarint(c.b[c.at:])
	if n <= 0 {
		return 0, errCut
	}
	c.at += n
	return v, nil
}

func (c *compact) skip(n uint64) error {
	if n > uint64(len(c.b)-c.at) {
		return errCut
	}
	c.at += int(n)
	return nil
}

// structure walks through the fields of a structure.
func (c *compact) structure(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("expected structures of at most depth %d, found deeper ones", maxDepth)
	}
	c.path = append(c.path, 0)
	defer func() { c.path = c.path[:len(c.path)-1] }()
	for field := int64(0); ; {
		head, err := c.byte()
		if err != nil || head == 0 {
			return err
		}
		if field += int64(head >> 4); head>>4 == 0 {
			v, err := c.varint()
			if err != nil {
				return err
			}
			field = int64(v>>1) ^ -int64(v&1)
		}
		c.path[len(c.path)-1] = field
		if kind := head & 15; kind > 2 { // fields of type bool have their value in the type
			if err := c.value(kind, depth); err != nil {
				return err
			}
		}
	}
}

func (c *compact) value(kind byte, depth int) error {
	switch kind {
	case 1, 2, 3: // in lists, a bool is a byte
		return c.skip(1)
	case 4, 5, 6:
		v, err := c.varint()
		if err == nil && c.integer != nil {
			c.integer(c.path, int64(v>>1)^-int64(v&1))
		}
		return err
	case 7:
		return c.skip(8)
	case 8:
		n, err := c.varint()
		if err != nil {
			return err
		}
		return c.skip(n)
	case 9, 10:
		return c.list(depth)
	case 12:
		return c.structure(depth + 1)
	case 13:
		return c.skip(16)
	}
	return fmt.Errorf("expected a value of a known type, found type %d", kind)
}

func (c *compact) list(depth int) error {
	head, err := c.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = c.varint(); err != nil {
			return err
		}
	}
	if n > uint64(maxElements-c.elements) {
		return fmt.Errorf("expected at most %d elements of lists, found more", maxElements)
	}
	c.elements += int(n)
	for range n {
		if err := c.value(head&15, depth); err != nil {
			return err
		}
	}
	return nil
}

// checkFooter checks the claims of a file's footer.
func checkFooter(r io.ReaderAt, size int64) error {
	var end [8]byte
	if size < 12 {
		return fmt.Errorf("not a Parquet file: expected at least 12 bytes, found %d", size)
	}
	if _, err := r.ReadAt(end[:], size-8); err != nil {
		return err
	}
	if string(end[4:]) != "PAR1" {
		return fmt.Errorf("not a Parquet file, or cut off: expected PAR1 at the end, found %q", end[4:])
	}
	n := int64(binary.LittleEndian.Uint32(end[:4]))
	if n > size-12 || n > maxFooter {
		return fmt.Errorf("footer: expected at most %d bytes, found %d", min(size-12, maxFooter), n)
	}
	b := make([]byte, n)
	if _, err := r.ReadAt(b, size-8-n); err != nil {
		return err
	}
	if err := (&compact{b: b}).structure(1); err != nil {
		return fmt.Errorf("footer: %w", err)
	}
	return nil
}

// checkPages checks the claims of the pages of a column, in all groups of rows.
func checkPages(r io.ReaderAt, size int64, f *pq.File, column int) error {
	for g, group := range f.Metadata().RowGroups {
		if column >= len(group.Columns) {
			return fmt.Errorf("group %d of rows: expected column %d, found %d columns", g, column, len(group.Columns))
		}
		m := group.Columns[column].MetaData
		if limit := 16*size + slack; m.NumValues < 0 || m.NumValues > limit {
			return fmt.Errorf("group %d of rows: expected at most %d values, found %d", g, limit, m.NumValues)
		}
		from := m.DataPageOffset
		if m.DictionaryPageOffset > 0 {
			from = min(from, m.DictionaryPageOffset)
		}
		if from < 0 || m.TotalCompressedSize < 0 || from > size || m.TotalCompressedSize > size-from {
			return fmt.Errorf("group %d of rows: expected %d bytes from byte %d on, found a file of %d",
				g, m.TotalCompressedSize, from, size)
		}
		for at, end := from, from+m.TotalCompressedSize; at < end; {
			n, err := checkPage(r, at, end, m.NumValues)
			if err != nil {
				return fmt.Errorf("group %d of rows: page at byte %d: %w", g, at, err)
			}
			at += n
		}
	}
	return nil
}

// checkPage checks the header of the page at a place, and returns the bytes of the page with its header.
func checkPage(r io.ReaderAt, at, end, values int64) (int64, error) {
	b := make([]byte, min(maxHeader, end-at))
	if _, err := r.ReadAt(b, at); err != nil {
		return 0, err
	}
	var full, packed, most int64 // fields 2 and 3 of a PageHeader; the largest of the numbers of values in 5, 7 and 8
	c := &compact{b: b}
	c.integer = func(path []int64, v int64) {
		switch {
		case len(path) == 1 && path[0] == 2:
			full = v
		case len(path) == 1 && path[0] == 3:
			packed = v
		case len(path) == 2 && (path[0] == 5 || path[0] == 7 || path[0] == 8) && path[1] == 1:
			most = max(most, v)
		}
	}
	if err := c.structure(1); err != nil {
		return 0, fmt.Errorf("header: %w", err)
	}
	switch n := int64(c.at); {
	case packed < 0 || packed > end-at-n:
		return 0, fmt.Errorf("expected at most %d bytes, found %d", end-at-n, packed)
	case full < 0 || full > maxRatio*packed+slack:
		return 0, fmt.Errorf("%d bytes expand to %d", packed, full)
	case most > values:
		return 0, fmt.Errorf("expected at most %d values, as in the column, found %d", values, most)
	default:
		return n + packed, nil
	}
}
