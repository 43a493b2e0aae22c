package plan

import (
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Write writes g, which must be an outermost graph that ir.Verify accepts. Equal graphs give equal bytes.
func Write(w io.Writer, g *ir.Graph) (err error) {
	defer tensor.Caught(&err)
	if err := tensor.CheckByteOrder(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if err := ir.Verify(g); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	e := newEncoder()
	if err := e.encode(g); err != nil {
		return fmt.Errorf("plan: graph %s: %w", g.Name, err)
	}
	e.placeBlobs()
	metadata, err := e.build()
	if err != nil {
		return fmt.Errorf("plan: graph %s: %w", g.Name, err)
	}
	hash := sha256.New()
	length, _ := e.writeWeights(hash) // a hash returns no error
	sections := []section{
		{kind: kindMetadata, length: int64(len(metadata)), sum: sha256.Sum256(metadata)},
		{kind: kindWeights, length: length, sum: [sha256.Size]byte(hash.Sum(nil))},
	}
	head := header(sections, place(sections), e.minor())
	end := int64(0)
	put := func(at int64, b []byte) error {
		if err := writeZeros(w, at-end); err != nil {
			return err
		}
		_, err := w.Write(b)
		end = at + int64(len(b))
		return err
	}
	if err := put(0, head); err != nil {
		return err
	}
	if err := put(sections[0].offset, metadata); err != nil {
		return err
	}
	if err := put(sections[1].offset, nil); err != nil {
		return err
	}
	_, err = e.writeWeights(w)
	return err
}

// WriteFile writes g to path, completely or not at all. After an error path is unchanged, and no other file remains.
func WriteFile(path string, g *ir.Graph) error {
	return atomicfile.Write(path, func(w io.Writer) error { return Write(w, g) })
}

// largeBlob is the minimum size of a tensor that is aligned to a cache line. Models have many smaller vectors, whose
// padding would exceed their content.
const largeBlob = 256

// placeBlobs sets the blobs' offsets in the weights section, the large ones first, and renumbers them in that order.
func (e *encoder) placeBlobs() {
	ids := make([]uint32, len(e.blobs))
	var placed []blob
	end := int64(0)
	for _, large := range []bool{true, false} {
		to := int64(8)
		if large {
			to = 64
		}
		for i, b := range e.blobs {
			if (len(b.data) >= largeBlob) != large {
				continue
			}
			b.offset = align(end, to)
			end = b.offset + int64(len(b.data))
			ids[i] = uint32(len(placed))
			placed = append(placed, b)
		}
	}
	e.blobs = placed
	for i := range e.tensors {
		if t := &e.tensors[i]; !t.text {
			t.storage = ids[t.storage]
		}
	}
}

// writeWeights writes the weights section and returns its length.
func (e *encoder) writeWeights(w io.Writer) (int64, error) {
	end := int64(0)
	for _, b := range e.blobs {
		if err := writeZeros(w, b.offset-end); err != nil {
			return end, err
		}
		if _, err := w.Write(b.data); err != nil {
			return end, err
		}
		end = b.offset + int64(len(b.data))
	}
	return end, nil
}

var zeros [64]byte

// writeZeros writes n zeros, fewer than 64.
func writeZeros(w io.Writer, n int64) error {
	if n == 0 {
		return nil
	}
	_, err := w.Write(zeros[:n])
	return err
}
