// Package flaxfile reads the files that flax.serialization and flax.training.checkpoints write: a tree in msgpack, with
// arrays in extensions of its own.
//
// It imports internal/ends, internal/files, internal/lfs and ir/tensor. The result is a finite tree, no deeper than
// MaxDepth, of no more than MaxValues values. Memory is bounded by a small multiple of the file's size: arrays refer to
// the file's bytes.
//
// Values are nil, bool, int64 (uint64 beyond its range), float64, string, []byte, complex128, []any (list),
// map[string]any and Array.
package flaxfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
	"github.com/essmc/essmc/ir/tensor"
)

// Limits on a file.
const (
	MaxFile   = 1 << 36
	MaxDepth  = 64
	MaxValues = 1 << 20
	MaxRank   = 32
)

// Array is an array of numbers, in the order of C, or a numpy scalar, of no axes.
type Array struct {
	Shape []int
	DType string // numpy's name
	Data  []byte // little-endian
}

// dtypes are the names of element types that tensors have, too.
var dtypes = map[string]tensor.DType{"float32": tensor.Float32, "float64": tensor.Float64, "float16": tensor.Float16,
	"bfloat16": tensor.BFloat16, "int8": tensor.Int8, "int16": tensor.Int16, "int32": tensor.Int32,
	"int64": tensor.Int64,
	"uint8": tensor.Uint8, "uint16": tensor.Uint16, "uint32": tensor.Uint32, "uint64": tensor.Uint64}

// Tensor returns a copy as a tensor. It calls pause between parts of it.
func (a Array) Tensor(pause func()) (*tensor.Tensor, error) {
	d, ok := dtypes[a.DType]
	if !ok {
		return nil, fmt.Errorf("arrays of %s are not supported", strconv.Quote(clip(a.DType)))
	}
	b := tensor.AlignedParts(len(a.Data), pause)
	const part = 1 << 18
	for from := 0; from < len(b); from += part {
		pause()
		copy(b[from:min(from+part, len(b))], a.Data[from:])
	}
	return tensor.FromBytesParts(pause, d, a.Shape, b)
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40]
	}
	return s
}

// Is reports whether a file may be one of flax, by its first byte: a map that is not empty.
func Is(head []byte) bool {
	return len(head) > 0 && (head[0] > 0x80 && head[0] <= 0x8f || head[0] == 0xde || head[0] == 0xdf)
}

// ReadFile reads the file at path.
func ReadFile(path string) (any, error) { return readFile(nil, path) }

// ReadFileContext is ReadFile, which ends with the cause when ctx is done. ctx may be nil.
func ReadFileContext(ctx context.Context, path string) (_ any, err error) {
	defer ends.Catch(path, &err)
	return readFile(ends.Of(ctx), path)
}

func readFile(w *ends.Watch, path string) (any, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Regular(path)
	if err != nil {
		return nil, err
	}
	if size > min(MaxFile, math.MaxInt) {
		return nil, fmt.Errorf("%s: file has %d bytes, at most %d are read", path, size,
			int64(min(MaxFile, math.MaxInt)))
	}
	data := tensor.AlignedParts(int(size), w.Check)
	if _, err := io.ReadFull(w.Reader(f), data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := lfs.Check(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	v, err := read(w, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// Read reads the content of a file, which must not change afterwards.
func Read(data []byte) (any, error) { return read(nil, data) }

func read(w *ends.Watch, data []byte) (any, error) {
	if err := tensor.CheckByteOrder(); err != nil {
		return nil, err
	}
	r := &reader{data: data, budget: &budget{watch: w, copies: len(data)}}
	v, err := r.value(0)
	if err != nil {
		return nil, fmt.Errorf("byte %d: %w", r.at, err)
	}
	if r.at != len(data) {
		return nil, fmt.Errorf("byte %d: expected the end of the file, found %d bytes more", r.at, len(data)-r.at)
	}
	return v, nil
}

var errShort = errors.New("the file ends too early")

type reader struct {
	*budget
	data []byte
	at   int
}

// budget counts the values of a file that may still be read, and the bytes that may still be copied.
type budget struct {
	watch  *ends.Watch
	values int
	copies int // bytes that may still be copied
}

// take returns the next n bytes.
func (r *reader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.data)-r.at) {
		return nil, errShort
	}
	b := r.data[r.at : r.at+int(n)]
	r.at += int(n)
	return b, nil
}

// number reads an unsigned number of n bytes.
func (r *reader) number(n uint64) (uint64, error) {
	b, err := r.take(n)
	if err != nil {
		return 0, err
	}
	var x uint64
	for _, c := range b {
		x = x<<8 | uint64(c)
	}
	return x, nil
}

// sized reads a number of n bytes, and as many bytes as it says.
func (r *reader) sized(n uint64) ([]byte, error) {
	size, err := r.number(n)
	if err != nil {
		return nil, err
	}
	return r.take(size)
}

func (r *reader) value(depth int) (any, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("values are nested deeper than %d", MaxDepth)
	}
	r.watch.Step(2)
	if r.values++; r.values > MaxValues {
		return nil, fmt.Errorf("more than %d values", MaxValues)
	}
	first, err := r.number(1)
	if err != nil {
		return nil, err
	}
	switch c := byte(first); {
	case c < 0x80:
		return int64(c), nil
	case c < 0x90:
		return r.object(uint64(c&15), depth)
	case c < 0xa0:
		return r.list(uint64(c&15), depth)
	case c < 0xc0:
		return r.text(r.take(uint64(c & 31)))
	case c >= 0xe0:
		return int64(int8(c)), nil
	default:
		return r.tagged(c, depth)
	}
}

// tagged reads a value whose first byte says nothing but its type.
func (r *reader) tagged(c byte, depth int) (any, error) {
	switch c {
	case 0xc0:
		return nil, nil
	case 0xc2, 0xc3:
		return c == 0xc3, nil
	case 0xc4, 0xc5, 0xc6:
		return bytesOf(r.sized(1 << (c - 0xc4)))
	case 0xc7, 0xc8, 0xc9:
		n, err := r.number(1 << (c - 0xc7))
		if err != nil {
			return nil, err
		}
		return r.extension(n, depth)
	case 0xca:
		x, err := r.number(4)
		return float64(math.Float32frombits(uint32(x))), err
	case 0xcb:
		x, err := r.number(8)
		return math.Float64frombits(x), err
	case 0xcc, 0xcd, 0xce, 0xcf:
		x, err := r.number(1 << (c - 0xcc))
		if x > math.MaxInt64 {
			return x, err
		}
		return int64(x), err
	case 0xd0, 0xd1, 0xd2, 0xd3:
		n := 1 << (c - 0xd0)
		x, err := r.number(uint64(n))
		return int64(x<<(64-8*n)) >> (64 - 8*n), err
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return r.extension(1<<(c-0xd4), depth)
	case 0xd9, 0xda, 0xdb:
		return r.text(r.sized(1 << (c - 0xd9)))
	case 0xdc, 0xdd:
		n, err := r.number(2 << (c - 0xdc))
		if err != nil {
			return nil, err
		}
		return r.list(n, depth)
	case 0xde, 0xdf:
		n, err := r.number(2 << (c - 0xde))
		if err != nil {
			return nil, err
		}
		return r.object(n, depth)
	}
	return nil, fmt.Errorf("no value of msgpack begins with %#x", c)
}

func (r *reader) text(b []byte, err error) (any, error) {
	if err == nil && !r.watch.ValidUTF8(b) {
		err = errors.New("expected UTF-8 text")
	}
	return r.watch.String(b), err
}

func bytesOf(b []byte, err error) (any, error) { return b, err }

func (r *reader) list(n uint64, depth int) (any, error) {
	if n > uint64(len(r.data)-r.at) {
		return nil, errShort
	}
	var all []any
	for range n {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func (r *reader) object(n uint64, depth int) (any, error) {
	if n > uint64(len(r.data)-r.at) {
		return nil, errShort
	}
	all := map[string]any{}
	for range n {
		k, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		key, ok := k.(string)
		if !ok {
			return nil, fmt.Errorf("expected a string as the key of a map, found %T", k)
		}
		if _, ok := all[key]; ok {
			return nil, fmt.Errorf("key %s is there twice", strconv.Quote(clip(key)))
		}
		if all[key], err = r.value(depth + 1); err != nil {
			return nil, err
		}
	}
	if all[chunked] == true {
		return r.joined(all)
	}
	return all, nil
}

// Types of extensions.
const (
	arrayType   = 1 // msgpack of (shape, dtype, bytes)
	complexType = 2 // msgpack of (real, imaginary)
	scalarType  = 3 // as an array
)

// extension reads a type and n bytes, which hold msgpack again.
func (r *reader) extension(n uint64, depth int) (any, error) {
	kind, err := r.number(1)
	if err != nil {
		return nil, err
	}
	data, err := r.take(n)
	if err != nil {
		return nil, err
	}
	inner := &reader{data: data, budget: r.budget}
	v, err := inner.value(depth + 1)
	if err != nil || inner.at != len(data) {
		return nil, fmt.Errorf("extension of type %d: expected one value of %d bytes: %w", kind, n, cmpErr(err))
	}
	parts, _ := v.([]any)
	switch {
	case kind == arrayType && len(parts) == 3, kind == scalarType && len(parts) == 3:
		return array(parts)
	case kind == complexType && len(parts) == 2:
		re, okRe := real64(parts[0])
		im, okIm := real64(parts[1])
		if okRe && okIm {
			return complex(re, im), nil
		}
	}
	return nil, fmt.Errorf("extension of type %d: expected an array (1), a complex number (2) or a scalar (3) of flax",
		kind)
}

func cmpErr(err error) error {
	if err == nil {
		return errors.New("found bytes behind it")
	}
	return err
}

func real64(v any) (float64, bool) {
	switch x := v.(type) {
	case float64:
		return x, true
	case int64:
		return float64(x), true
	}
	return 0, false
}

// array makes an array of its shape, element type and bytes.
func array(parts []any) (any, error) {
	sizes, okShape := parts[0].([]any)
	dtype, okType := parts[1].(string)
	data, okData := parts[2].([]byte)
	if parts[0] != nil && !okShape || !okType || !okData || len(sizes) > MaxRank {
		return nil, errors.New("array: expected a shape, an element type and bytes")
	}
	a := Array{Shape: make([]int, len(sizes)), DType: dtype, Data: data}
	for i, s := range sizes {
		n, ok := s.(int64)
		if !ok || n < 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("array: size %d of axis %d is out of range", s, i)
		}
		a.Shape[i] = int(n)
	}
	n, err := tensor.Size(a.Shape)
	if err != nil {
		return nil, fmt.Errorf("array: %w", err)
	}
	if d, ok := dtypes[dtype]; ok && (len(data)%(d.Bits()/8) != 0 || len(data)/(d.Bits()/8) != n) {
		return nil, fmt.Errorf("array %s%s: expected %d numbers, found %d bytes", dtype, tensor.ShapeString(a.Shape), n,
			len(data))
	}
	return a, nil
}

// chunked marks an array that is stored in parts, of 1 GiB.
const chunked = "__msgpack_chunked_array__"

// joined puts an array together.
func (r *reader) joined(m map[string]any) (any, error) {
	sizes, okShape := numbered(m["shape"])
	chunks, okChunks := numbered(m["chunks"])
	if !okShape || !okChunks || len(chunks) == 0 {
		return nil, errors.New("array in parts: expected its shape and chunks")
	}
	var data []byte
	dtype := ""
	size := 0
	for _, c := range chunks {
		a, _ := c.(Array)
		if size += len(a.Data); size > len(r.data) {
			return nil, errors.New("array in parts: its parts are in parts, too")
		}
	}
	data = tensor.AlignedParts(size, r.watch.Check)[:0]
	for i, c := range chunks {
		a, ok := c.(Array)
		if !ok || i > 0 && a.DType != dtype {
			return nil, fmt.Errorf("array in parts: part %d is no array of the same type", i)
		}
		if r.copies -= len(a.Data); r.copies < 0 {
			return nil, errors.New("array in parts: its parts are in parts, too")
		}
		_ = r.watch.Parts(len(a.Data), func(from, to int) error {
			data = append(data, a.Data[from:to]...)
			return nil
		})
		dtype = a.DType
	}
	return array([]any{sizes, dtype, data})
}

// numbered returns the values of a map with the keys "0", "1", …, in order.
func numbered(v any) ([]any, bool) {
	m, ok := v.(map[string]any)
	all := make([]any, len(m))
	for i := range all {
		x, has := m[strconv.Itoa(i)]
		all[i], ok = x, ok && has
	}
	return all, ok
}
