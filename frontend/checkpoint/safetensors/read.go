package safetensors

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
	"github.com/essmc/essmc/ir/tensor"
)

// File is the content of one safetensors file, in memory.
type File struct {
	Tensors map[string]*tensor.Tensor
	// Meta is the header's __metadata__; nil if there is none.
	Meta map[string]string
}

// Names lists the tensors, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Tensors)) }

// ReadFile reads the file at path.
func ReadFile(path string) (*File, error) { return readFile(path, nil) }

// ReadFileWith is like ReadFile, within bounds.
func ReadFileWith(path string, o Options) (*File, error) {
	return readFile(path, &files.Budget{Limit: o.Bytes, Context: o.Context})
}

func readFile(path string, b *files.Budget) (*File, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpen(f, path, b)
}

// readOpen reads an open file within a budget.
func readOpen(f *files.File, name string, b *files.Budget) (*File, error) {
	r, size, err := b.Regular(f, name)
	if err != nil {
		return nil, err
	}
	var ctx context.Context
	if b != nil {
		ctx = b.Context
	}
	return readNamed(ctx, r, size, name)
}

// entry is one tensor of the header. Its data is [begin, end) of the data area.
type entry struct {
	name       string
	dtype      tensor.DType
	shape      []int
	begin, end int64
}

// Read reads a file of the given size. name is its name in errors.
func Read(r io.ReaderAt, size int64, name string) (*File, error) {
	return readNamed(context.Background(), r, size, name)
}

func readNamed(ctx context.Context, r io.ReaderAt, size int64, name string) (_ *File, err error) {
	defer ends.Catch(name, &err)
	if err := tensor.CheckByteOrder(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	w := ends.Of(ctx)
	f, err := read(w, w.ReaderAt(r), size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func read(w *ends.Watch, r io.ReaderAt, size int64) (*File, error) {
	if size > MaxFile {
		return nil, fmt.Errorf("file has %d bytes, at most %d are read", size, int64(MaxFile))
	}
	var b [8]byte
	if size < 8 {
		return nil, fmt.Errorf("file has %d bytes, too short for a safetensors header", size)
	}
	if err := readFull(r, b[:], 0); err != nil {
		return nil, err
	}
	if err := lfs.CheckFile(r, size); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(b[:])
	if n > MaxHeader {
		return nil, fmt.Errorf("header of %d bytes announced, at most %d are allowed", n, MaxHeader)
	}
	if int64(n) > size-8 {
		return nil,
			fmt.Errorf("expected a header of %d bytes, found %d; the file is probably truncated; fetch it again", n,
				size-8)
	}
	header := make([]byte, n)
	if err := readFull(r, header, 8); err != nil {
		return nil, err
	}
	entries, meta, err := parseHeader(w, header)
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	base := 8 + int64(n)
	if err := checkTiling(entries, size-base); err != nil {
		return nil, err
	}
	f := &File{Tensors: make(map[string]*tensor.Tensor, len(entries)), Meta: meta}
	for _, e := range entries {
		w.Step(4)
		data := tensor.AlignedUncleared(int(e.end - e.begin))
		if err := readFull(r, data, base+e.begin); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", e.name, err)
		}
		if e.dtype == tensor.Bool {
			err := w.Parts(len(data), func(from, to int) error {
				if i := slices.IndexFunc(data[from:to], func(b byte) bool { return b > 1 }); i >= 0 {
					return fmt.Errorf("tensor %q: element %d is byte %d, a BOOL is 0 or 1", e.name, from+i,
						data[from+i])
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		if f.Tensors[e.name], err = tensor.FromBytesParts(w.Check, e.dtype, e.shape, data); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", e.name, err)
		}
	}
	return f, nil
}

func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("reading %d bytes at %d: %w", len(b), off, err)
}

// checkTiling sorts the entries by position and checks that they fill the data area exactly.
func checkTiling(entries []entry, size int64) error {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	var at int64
	for i, e := range entries {
		switch {
		case e.begin < at:
			return fmt.Errorf("tensor %q: data at %d overlaps that of %q, which ends at %d", e.name, e.begin,
				entries[i-1].name, at)
		case e.begin > at:
			return fmt.Errorf("tensor %q: data at %d leaves a hole after %d", e.name, e.begin, at)
		case e.end > size:
			return fmt.Errorf("tensor %q: data ends at %d, file holds %d bytes of data", e.name, e.end, size)
		}
		at = e.end
	}
	if at != size {
		return fmt.Errorf("%d bytes of data are described, file holds %d", at, size)
	}
	return nil
}

// parseHeader reads the JSON header token by token, to find duplicate keys, unknown keys and numbers that are not
// integers.
func parseHeader(w *ends.Watch, b []byte) ([]entry, map[string]string, error) {
	b = bytes.TrimRight(b, " ")
	if len(b) == 0 || b[0] != '{' {
		return nil, nil, fmt.Errorf("expected a JSON object")
	}
	if !utf8.Valid(b) {
		return nil, nil, fmt.Errorf("is not UTF-8")
	}
	p := newParser(w, b)
	p.d.UseNumber()
	var entries []entry
	var meta map[string]string
	err := p.object(func(name string) (err error) {
		if name == metadataKey {
			meta, err = p.meta()
			return err
		}
		if len(entries) == MaxTensors {
			return fmt.Errorf("expected at most %d tensors", MaxTensors)
		}
		e, err := p.entry(name)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		entries = append(entries, e)
		return nil
	})
	return entries, meta, p.end(err)
}

type parser struct {
	d     *json.Decoder
	watch *ends.Watch
}

func newParser(w *ends.Watch, b []byte) *parser {
	return &parser{json.NewDecoder(w.Reader(bytes.NewReader(b))), w}
}

// token reads a token. It checks the syntax between tokens, too.
func (p *parser) token() (json.Token, error) {
	p.watch.Step(2)
	t, err := p.d.Token()
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		err = fmt.Errorf("is not JSON: %w", err)
	}
	return t, err
}

// end checks that the text ends, unless there is an error before.
func (p *parser) end(err error) error {
	if err != nil {
		return err
	}
	if _, err := p.d.Token(); err != io.EOF {
		return fmt.Errorf("is not JSON: there is data after the object")
	}
	return nil
}

func (p *parser) delim(want json.Delim) error {
	t, err := p.token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("expected %v, found %v", want, t)
	}
	return nil
}

func (p *parser) string() (string, error) {
	t, err := p.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("expected a string, found %v", t)
	}
	return s, nil
}

// object calls f for each key; f reads the value.
func (p *parser) object(f func(key string) error) error {
	if err := p.delim('{'); err != nil {
		return err
	}
	var few [4]string // keys of one tensor, without an allocation
	list := few[:0]
	var seen map[string]bool
	for p.d.More() {
		key, err := p.string()
		if err != nil {
			return err
		}
		if seen[key] || slices.Contains(list, key) {
			return fmt.Errorf("key %q appears twice", key)
		}
		if len(list) < len(few) {
			list = append(list, key)
		} else {
			if seen == nil {
				seen = map[string]bool{}
			}
			seen[key] = true
		}
		if err := f(key); err != nil {
			return err
		}
	}
	return p.delim('}')
}

func (p *parser) meta() (map[string]string, error) {
	meta := map[string]string{}
	err := p.object(func(key string) (err error) {
		if len(meta) == MaxMetadata {
			return fmt.Errorf("expected at most %d entries", MaxMetadata)
		}
		meta[key], err = p.string()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", metadataKey, err)
	}
	return meta, nil
}

// ints reads an array of at most limit non-negative integers.
func (p *parser) ints(limit int) ([]int64, error) {
	if err := p.delim('['); err != nil {
		return nil, err
	}
	out := []int64{}
	for p.d.More() {
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		s, ok := t.(json.Number)
		if !ok {
			return nil, fmt.Errorf("expected a number, found %v", t)
		}
		n, err := strconv.ParseInt(s.String(), 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("expected a non-negative integer, found %v", s)
		}
		if len(out) == limit {
			return nil, fmt.Errorf("more than %d numbers", limit)
		}
		out = append(out, n)
	}
	return out, p.delim(']')
}

func (p *parser) entry(name string) (entry, error) {
	e := entry{name: name}
	var shape, offsets []int64
	err := p.object(func(key string) (err error) {
		switch key {
		case "dtype":
			var s string
			if s, err = p.string(); err != nil {
				return fmt.Errorf("dtype: %w", err)
			}
			var ok bool
			if e.dtype, ok = dtypeOf(s); !ok {
				return fmt.Errorf("unknown dtype %q", s)
			}
		case "shape":
			if shape, err = p.ints(MaxRank); err != nil {
				return fmt.Errorf("shape: %w", err)
			}
		case "data_offsets":
			if offsets, err = p.ints(2); err != nil {
				return fmt.Errorf("data_offsets: %w", err)
			}
		default:
			return fmt.Errorf("unknown key %q, expected dtype, shape and data_offsets", key)
		}
		return nil
	})
	switch {
	case err != nil:
		return e, err
	case e.dtype == tensor.Invalid:
		return e, fmt.Errorf("no dtype")
	case shape == nil:
		return e, fmt.Errorf("no shape")
	case len(offsets) != 2 || offsets[0] > offsets[1]:
		return e, fmt.Errorf("expected data_offsets [begin, end], found %v", offsets)
	}
	e.begin, e.end = offsets[0], offsets[1]
	for _, d := range shape {
		e.shape = append(e.shape, int(d))
	}
	n, err := tensor.Size(e.shape)
	if err != nil {
		return e, err
	}
	// The first check is on the number of elements, since their size in bits may overflow.
	if length := e.end - e.begin; int64(n) > MaxFile || int64(tensor.ByteSize(e.dtype, n)) != length {
		return e, fmt.Errorf("%v%s does not take the %d bytes of its data_offsets", e.dtype,
			tensor.ShapeString(e.shape), length)
	}
	if e.dtype.Packed() && n*e.dtype.Bits()%8 != 0 {
		return e, fmt.Errorf("%v%s does not fill whole bytes", e.dtype, tensor.ShapeString(e.shape))
	}
	return e, nil
}
