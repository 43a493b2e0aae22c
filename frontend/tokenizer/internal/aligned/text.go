// Package aligned has text that normalizers change, with the bytes of the original text that each of its bytes comes
// from.
//
// Places are those that NormalizedString of Hugging Face's tokenizers computes: all bytes of a character come from the
// same range of the original, which is whole characters of it. Text that has not changed has no table of places. Bytes
// that are not UTF-8 are characters of one byte each.
package aligned

import (
	"unicode/utf8"
	"unsafe"
)

// MaxOriginal is the maximum length of an original text in bytes.
const MaxOriginal = 1<<31 - 1

// maxLen is the maximum length of any text, whose bytes are counted in int32.
const maxLen = 1<<31 - 1

// Span is a range of bytes of the original text.
type Span struct{ Start, End int32 }

// Text is a text and the places that it comes from. The zero value is empty. A Text keeps its memory for the next text
// that it is given, so that a Text which is used again does not allocate. It is not safe for concurrent use.
type Text struct {
	s      string
	places []Span // of each byte; nil where the text has the places of the original (and maybe other characters)
	start  int32  // the place of the first byte, without places
	origin int32  // where the part of the original begins that the text was made of
	limit  int    // the length that changes may make it grow to

	edit Edit
	// Two texts and two tables: an edit writes one while it reads the other. Views have none.
	bytes [2][]byte
	spans [2][]Span
	next  int
}

// Reset makes the text s, whose first byte is byte start of the original. It refers to s.
func (t *Text) Reset(s string, start int) {
	t.s, t.places, t.start, t.origin = s, nil, int32(start), int32(start)
	t.limit = min(Growth*len(s)+Least, maxLen)
}

// View makes the text the bytes from `from` to `to` of another one. It refers to that one, and is valid as long as that
// is not changed.
func (t *Text) View(of *Text, from, to int) {
	t.limit = min(of.limit/max(1, len(of.s))*(to-from)+Least, maxLen)
	t.s, t.places, t.start = of.s[from:to], nil, of.start+int32(from)
	if of.places != nil {
		t.places = of.places[from:to]
	}
	t.origin = of.origin
	if from < to {
		t.origin = of.Span(from, to).Start
	}
}

// String returns the text. It is valid until the text changes again: who keeps it clones it.
func (t *Text) String() string { return t.s }

// Len returns the length in bytes.
func (t *Text) Len() int { return len(t.s) }

// Origin returns the byte of the original at which the part begins that the text was made of.
func (t *Text) Origin() int { return int(t.origin) }

// Identity reports whether each character has the place, and the length, of one character of the original.
func (t *Text) Identity() bool { return t.places == nil }

// Span returns the bytes of the original that the bytes from `from` to `to` come from, where from < to.
func (t *Text) Span(from, to int) Span {
	if t.places != nil {
		return Span{t.places[from].Start, t.places[to-1].End}
	}
	if c := t.s[from]; c >= utf8.RuneSelf && !utf8.RuneStart(c) {
		from = begin(t.s, from)
	}
	if c := t.s[to-1]; c >= utf8.RuneSelf {
		at := begin(t.s, to-1)
		_, n := utf8.DecodeRuneInString(t.s[at:])
		to = at + n
	}
	return Span{t.start + int32(from), t.start + int32(to)}
}

// begin returns where the character begins that byte i of s belongs to.
func begin(s string, i int) int {
	for at := i; at >= 0 && at > i-utf8.UTFMax; at-- {
		if utf8.RuneStart(s[at]) {
			if _, n := utf8.DecodeRuneInString(s[at:]); at+n > i {
				return at
			}
			break
		}
	}
	return i
}

// view is b as a string, which changes with it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
