// Package ends ends the reading of files with a context. A Watch counts small steps of work and checks its context
// after some thousand of them. When the context is done, it panics with a value that Catch turns into an error.
//
// It imports the standard library only.
package ends

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// Watch watches a context for one goroutine. A nil Watch has no context, and its methods do nothing.
type Watch struct {
	ctx  context.Context
	left int
}

// Of returns a Watch of ctx, or nil if ctx is nil.
func Of(ctx context.Context) *Watch {
	if ctx == nil {
		return nil
	}
	return &Watch{ctx: ctx, left: every}
}

// every is the number of steps between two checks.
const every = 2048

// ended is the panic that Catch catches.
type ended struct{ err error }

// Interrupts marks a panic that ends work, for package ir.
func (ended) Interrupts() {}

// Step counts n steps. A step is up to a few hundred nanoseconds of work. It does not return if the context is done.
func (w *Watch) Step(n int) {
	if w == nil {
		return
	}
	if w.left -= n; w.left <= 0 {
		w.left = every
		w.Check()
	}
}

// Check checks the context. It does not return if that is done.
func (w *Watch) Check() {
	if w != nil && w.ctx.Err() != nil {
		panic(ended{context.Cause(w.ctx)})
	}
}

// Checker returns Check, or nil for a nil Watch.
func (w *Watch) Checker() func() {
	if w == nil {
		return nil
	}
	return w.Check
}

// Context returns the context, or nil.
func (w *Watch) Context() context.Context {
	if w == nil {
		return nil
	}
	return w.ctx
}

// Catch sets *err to the cause, after the name of the file, if a Watch has ended the function that defers it. Other
// panics pass.
func Catch(name string, err *error) {
	if v := recover(); v != nil {
		e, ok := v.(ended)
		if !ok {
			panic(v)
		}
		if *err = e.err; name != "" {
			*err = fmt.Errorf("%s: %w", name, e.err)
		}
	}
}

// part is the number of bytes between two checks, some hundred microseconds of copying or hashing.
const part = 1 << 18

// Parts calls f for the parts of n bytes, and checks before each.
func (w *Watch) Parts(n int, f func(from, to int) error) error {
	for from := 0; from < n; from += part {
		w.Check()
		if err := f(from, min(from+part, n)); err != nil {
			return err
		}
	}
	return nil
}

// String is string(b), copied in parts.
func (w *Watch) String(b []byte) string {
	if w == nil || len(b) <= part {
		return string(b)
	}
	var s strings.Builder // its memory is not cleared
	s.Grow(len(b))
	_ = w.Parts(len(b), func(from, to int) error {
		s.Write(b[from:to])
		return nil
	})
	return s.String()
}

// ValidUTF8 is utf8.Valid, in parts.
func (w *Watch) ValidUTF8(b []byte) bool {
	for len(b) > part {
		w.Check()
		to := part
		for back := 1; back < utf8.UTFMax; back++ { // not within a character
			if utf8.RuneStart(b[part-back]) {
				if !utf8.FullRune(b[part-back : part]) {
					to = part - back
				}
				break
			}
		}
		if !utf8.Valid(b[:to]) {
			return false
		}
		b = b[to:]
	}
	return utf8.Valid(b)
}

// ReadAt is r.ReadAt in parts.
func (w *Watch) ReadAt(r io.ReaderAt, b []byte, at int64) (n int, err error) {
	if w == nil || len(b) <= part {
		w.Step(16)
		return r.ReadAt(b, at)
	}
	err = w.Parts(len(b), func(from, to int) error {
		k, err := r.ReadAt(b[from:to], at+int64(from))
		if n += k; k == to-from {
			return nil // io.EOF may come with the last bytes
		}
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	return n, err
}

// ReadString reads n bytes at a place into a string, in parts. The error of a short read is that of r.
func (w *Watch) ReadString(r io.ReaderAt, at int64, n int) (string, error) {
	var s strings.Builder // its memory is not cleared
	s.Grow(n)
	b := make([]byte, min(n, part))
	err := w.Parts(n, func(from, to int) error {
		k, err := r.ReadAt(b[:to-from], at+int64(from))
		s.Write(b[:k])
		switch {
		case k == to-from:
			return nil // io.EOF may come with the last bytes
		case err == nil:
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	return s.String(), err
}

// ReadAll is io.ReadAll in parts, for about size bytes. The result must not be written to.
func (w *Watch) ReadAll(r io.Reader, size int) ([]byte, error) {
	var s strings.Builder // its memory is not cleared
	s.Grow(size)
	b := make([]byte, part)
	for {
		w.Check()
		n, err := r.Read(b)
		s.Write(b[:n])
		if err == io.EOF {
			err = nil
		} else if err == nil {
			continue
		}
		return unsafe.Slice(unsafe.StringData(s.String()), s.Len()), err
	}
}

// ReaderAt returns r, reading in parts with a check before each.
func (w *Watch) ReaderAt(r io.ReaderAt) io.ReaderAt {
	if w == nil {
		return r
	}
	return readerAt{w, r}
}

type readerAt struct {
	w *Watch
	r io.ReaderAt
}

func (r readerAt) ReadAt(b []byte, at int64) (int, error) { return r.w.ReadAt(r.r, b, at) }

// Reader returns r, reading in parts with a check before each.
func (w *Watch) Reader(r io.Reader) io.Reader {
	if w == nil {
		return r
	}
	return reader{w, r}
}

type reader struct {
	w *Watch
	r io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	r.w.Check()
	return r.r.Read(b[:min(len(b), part)])
}
