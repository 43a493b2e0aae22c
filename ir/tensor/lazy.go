package tensor

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Source gives the elements of a lazy tensor, the same ones each time. Its methods may be called concurrently.
type Source interface {
	// Fill writes the bytes of all elements to dst.
	Fill(dst []byte) error
	// Part writes the bytes from at on to dst. Both bounds are multiples of an element's size.
	Part(dst []byte, at int) error
	// Release releases the tensors that the elements are computed from.
	Release()
}

// SourceError is what a lazy tensor's storage panics with when its source fails.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }

func (e *SourceError) Unwrap() error { return e.Err }

// Caught, deferred, sets an error to that of a source that has failed.
func Caught(err *error) {
	if v := recover(); v != nil {
		e, ok := v.(*SourceError)
		if !ok {
			panic(v)
		}
		*err = e.Err
	}
}

// lazy is the storage of lazy tensors: of one, and of others that are reshaped from it.
type lazy struct {
	from Source
	size int
	mu   sync.Mutex // held while the source is asked for all
	data atomic.Pointer[[]byte]
	// transposes are those that LazyTranspose has made, by their columns, so that all uses of a matrix share one.
	transposes sync.Map
}

// LazyLeast is the number of bytes of the smallest tensor whose storage is worth being lazy.
const LazyLeast = 1 << 16

// Lazy makes a tensor whose elements are asked for when they are first read, and again after Release. All of them must
// be valid elements of d, as any bytes are of numbers, whose storage has whole bytes. Data, Bytes and the like panic
// with a *SourceError when the source fails. Lazy panics where New does, and for strings, bools and packed types.
func Lazy(d DType, shape []int, from Source) *Tensor {
	n, err := Size(shape)
	if err != nil || !d.Valid() || d == String || d == Bool || d.Packed() {
		panic(fmt.Sprintf("tensor.Lazy(%v, %v): %v", d, shape, err))
	}
	return &Tensor{dtype: d, shape: slices.Clone(shape), lazy: &lazy{from: from, size: ByteSize(d, n)}}
}

// View views the bytes of a storage, such as those that Source.Fill writes, as elements.
func View[T Elem](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(z)))
}

// Lazy reports whether the tensor was made by Lazy, or reshaped from such a tensor.
func (t *Tensor) Lazy() bool { return t.lazy != nil }

func (l *lazy) bytes() []byte {
	if b := l.data.Load(); b != nil {
		return *b
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.data.Load(); b != nil {
		return *b
	}
	b := l.read()
	l.data.Store(&b)
	return b
}

func (l *lazy) read() []byte {
	b := uncleared(l.size)
	if err := l.from.Fill(b); err != nil {
		panic(&SourceError{err})
	}
	return b
}

// Peek returns the storage of t, which must not be changed, without keeping it: a lazy tensor whose elements nobody has
// read yet, or that was released, asks its source each time.
func (t *Tensor) Peek() (b []byte, err error) {
	if t.lazy == nil {
		return t.data, nil
	}
	if b := t.lazy.data.Load(); b != nil {
		return *b, nil
	}
	b = uncleared(t.lazy.size)
	return b, t.lazy.from.Fill(b)
}

// PeekPart copies the bytes of the storage from at on to dst. It does not make a lazy tensor keep its storage. Both
// bounds must be multiples of an element's size.
func (t *Tensor) PeekPart(dst []byte, at int) error {
	if t.lazy != nil && t.lazy.data.Load() == nil {
		return t.lazy.from.Part(dst, at)
	}
	copy(dst, t.Bytes()[at:])
	return nil
}

// Release tells a lazy tensor that its elements are not needed for now. They are freed once no slice views them, and
// read again where they are needed nevertheless. It does nothing to other tensors.
func (t *Tensor) Release() {
	if t.lazy == nil {
		return
	}
	t.lazy.data.Store(nil)
	t.lazy.from.Release()
	if t.lazy.size >= LazyLeast {
		collect()
	}
}

// collect collects garbage where it is a quarter of the heap, or some megabytes. A process that prepares weights, one
// after the other, would double its heap before the next collection otherwise, since what is released is large.
func collect() {
	const least = 16 << 20
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	for i := range s {
		if s[i].Value.Kind() != metrics.KindUint64 {
			return
		}
	}
	if now, live := s[0].Value.Uint64(), s[1].Value.Uint64(); now > live+max(least, live/4) {
		runtime.GC()
	}
}
