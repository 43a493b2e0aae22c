package onnx

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/ir/tensor"
)

// source is a file that is read through a window, so that only tensors take memory in proportion to it.
type source struct {
	r      io.ReaderAt
	size   int64
	window []byte
	at     int64 // offset of the window's first byte
	buf    []byte
	watch  *ends.Watch
}

const windowSize = 64 << 10

func newSource(r io.ReaderAt, size int64) *source { return &source{r: r, size: max(size, 0)} }

// peek returns at least n bytes at pos, or those up to end if they are fewer. n is small.
func (s *source) peek(pos, end int64, n int) ([]byte, error) {
	want := min(int64(n), end-pos)
	if have := s.at + int64(len(s.window)) - pos; pos < s.at || have < want {
		if s.buf == nil {
			s.buf = make([]byte, windowSize)
		}
		size := min(windowSize, s.size-pos)
		if k, err := s.r.ReadAt(s.buf[:size], pos); int64(k) < size {
			return nil, fmt.Errorf("at byte %d: %w", pos+int64(k), err)
		}
		s.window, s.at = s.buf[:size], pos
	}
	b := s.window[pos-s.at:]
	if int64(len(b)) > end-pos {
		b = b[:end-pos]
	}
	return b, nil
}

// read fills dst with the bytes at pos.
func (s *source) read(dst []byte, pos int64) error {
	if pos >= s.at && pos+int64(len(dst)) <= s.at+int64(len(s.window)) {
		return s.watch.Parts(len(dst), func(from, to int) error {
			copy(dst[from:to], s.window[pos-s.at+int64(from):])
			return nil
		})
	}
	n, err := s.watch.ReadAt(s.r, dst, pos)
	if n == len(dst) {
		return nil
	}
	return fmt.Errorf("at byte %d: %w", pos+int64(n), err)
}

// cursor walks the fields of one message: the bytes from pos to end.
type cursor struct {
	src      *source
	pos, end int64
}

func (s *source) all() cursor { return cursor{s, 0, s.size} }

func (c cursor) len() int64 { return c.end - c.pos }

// field is one field of a message: a number, or the range of its bytes.
type field struct {
	num  protowire.Number
	typ  protowire.Type
	val  uint64
	body cursor
}

// next returns the next field. It returns false at the end of the message.
func (c *cursor) next() (f field, ok bool, err error) {
	if c.pos >= c.end {
		return f, false, nil
	}
	c.src.watch.Step(1)
	at := c.pos
	b, err := c.src.peek(c.pos, c.end, 2*protowire.SizeVarint(1<<63))
	if err != nil {
		return f, false, err
	}
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, false, fmt.Errorf("at byte %d: %w", at, wireError(n))
	}
	f.num, f.typ = num, typ
	b = b[n:]
	c.pos += int64(n)
	switch typ {
	case protowire.VarintType:
		f.val, n = protowire.ConsumeVarint(b)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(b)
		f.val = uint64(v)
	case protowire.Fixed64Type:
		f.val, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		var size uint64
		size, n = protowire.ConsumeVarint(b)
		if n < 0 {
			break
		}
		c.pos += int64(n)
		if size > uint64(c.len()) {
			return f, false, fmt.Errorf("at byte %d: field %d has %d bytes, only %d are left; the file is probably "+
				"truncated; fetch it again", at, num, size, c.len())
		}
		f.body = cursor{c.src, c.pos, c.pos + int64(size)}
		c.pos = f.body.end
		return f, true, nil
	default:
		return f, false, fmt.Errorf("at byte %d: field %d has wire type %d, which ONNX does not use", at, num, typ)
	}
	if n < 0 {
		return f, false, fmt.Errorf("at byte %d: %w", at, wireError(n))
	}
	c.pos += int64(n)
	return f, true, nil
}

func wireError(n int) error {
	if err := protowire.ParseError(n); !errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not a protobuf message")
	}
	return errors.New("the file ends within a field")
}

// each calls visit for each field of a message.
func (c cursor) each(visit func(f field) error) error {
	for {
		f, ok, err := c.next()
		if err != nil || !ok {
			return err
		}
		if err := visit(f); err != nil {
			return err
		}
	}
}

func (f field) want(typ protowire.Type) error {
	if f.typ != typ {
		return fmt.Errorf("field %d has wire type %d, expected %d", f.num, f.typ, typ)
	}
	return nil
}

// raw reads a field of arbitrary bytes.
func (f field) raw(to *string) error {
	if err := f.want(protowire.BytesType); err != nil {
		return err
	}
	s, n := f.body.src, int(f.body.len())
	if n > windowSize {
		text, err := s.watch.ReadString(s.r, f.body.pos, n)
		if err != nil {
			return fmt.Errorf("at byte %d: %w", f.body.pos+int64(len(text)), err)
		}
		*to = text
		return nil
	}
	b := make([]byte, n)
	err := s.read(b, f.body.pos)
	*to = string(b)
	return err
}

// recurring is raw for bytes that may occur many times, such as the kinds of the nodes of trees.
func (f field) recurring(to *string, w *words) error {
	if n := f.body.len(); f.typ == protowire.BytesType && n > 0 && n <= 32 {
		b, err := f.body.src.peek(f.body.pos, f.body.end, int(n))
		if err == nil {
			*to = w.get(b)
		}
		return err
	}
	return f.raw(to)
}

// maxName is the maximum size of a name in a file in bytes, and mostName of a name that is composed of several: of a
// value in a function, with the names of the calls. IR text accepts names of 64 KiB, so passes may lengthen these.
const maxName, mostName = 32 << 10, 48 << 10

// name reads a name, which must be UTF-8 of at most maxName bytes.
func (f field) name(w *words) (string, error) {
	if err := f.want(protowire.BytesType); err != nil {
		return "", err
	}
	if f.body.len() > maxName {
		return "", fmt.Errorf("a name of %d bytes, more than %d", f.body.len(), maxName)
	}
	b, err := f.body.src.peek(f.body.pos, f.body.end, int(f.body.len()))
	if err != nil {
		return "", err
	}
	s := w.get(b)
	if !utf8.ValidString(s) {
		return "", fmt.Errorf("name %s is not UTF-8", quote(s))
	}
	return s, nil
}

// int reads a number.
func (f field) int(to *int64) error {
	*to = int64(f.val)
	return f.want(protowire.VarintType)
}

// message reads the range of a message.
func (f field) message(to *cursor) error {
	*to = f.body
	return f.want(protowire.BytesType)
}

// only is message for a field that must not repeat.
func (f field) only(to **cursor) error {
	if *to != nil {
		return fmt.Errorf("field %d occurs twice", f.num)
	}
	*to = &cursor{}
	return f.message(*to)
}

// numbers calls visit for each value of a repeated number, packed or not. width is the bytes of a value: 4, 8, or 0 for
// varints.
func (f field) numbers(width int, visit func(v uint64) error) error {
	if f.typ != protowire.BytesType {
		want := protowire.VarintType
		switch width {
		case 4:
			want = protowire.Fixed32Type
		case 8:
			want = protowire.Fixed64Type
		}
		if err := f.want(want); err != nil {
			return err
		}
		return visit(f.val)
	}
	for c := f.body; c.len() > 0; {
		b, err := c.src.peek(c.pos, c.end, 10)
		if err != nil {
			return err
		}
		for len(b) > 0 {
			var v uint64
			var n int
			switch width {
			case 4:
				var w uint32
				w, n = protowire.ConsumeFixed32(b)
				v = uint64(w)
			case 8:
				v, n = protowire.ConsumeFixed64(b)
			default:
				v, n = protowire.ConsumeVarint(b)
			}
			if n < 0 {
				if int64(len(b)) < c.len() && len(b) < 10 {
					break // the number continues beyond the window
				}
				return fmt.Errorf("at byte %d: %w", c.pos, wireError(n))
			}
			c.src.watch.Step(1)
			if err := visit(v); err != nil {
				return err
			}
			b = b[n:]
			c.pos += int64(n)
		}
	}
	return nil
}

// count returns the number of values of a repeated number.
func (f field) count(width int) (n int64, err error) {
	if f.typ == protowire.BytesType && width > 0 {
		if f.body.len()%int64(width) != 0 {
			return 0, fmt.Errorf("field %d: %d bytes are not a whole number of %d-byte values", f.num, f.body.len(),
				width)
		}
		return f.body.len() / int64(width), nil
	}
	err = f.numbers(width, func(uint64) error { n++; return nil })
	return n, err
}

// aligned returns all bytes of c, aligned for a tensor.
func (c cursor) aligned() ([]byte, error) {
	b := tensor.AlignedUncleared(int(c.len()))
	return b, c.src.read(b, c.pos)
}

// quote quotes a name for messages, truncated if it is long.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
