package aligned

import (
	"fmt"
	"unicode/utf8"
)

// Changes may make a text of n bytes grow to Growth*n + Least bytes in all. Published normalizers stay far below.
const (
	Growth = 64
	Least  = 4096
)

// Edit is a change of a text: it is written from the beginning to the end, from pieces of the text and new characters.
type Edit struct {
	t      *Text
	out    []byte
	places []Span
	moved  bool // some character does not have the place of the original any more: places are written
}

// Edit begins a change. The text stays as it is until Done. One change is made at a time.
func (t *Text) Edit() *Edit {
	e := &t.edit
	*e = Edit{t: t, out: t.bytes[t.next][:0], places: t.spans[t.next][:0], moved: t.places != nil}
	if cap(e.out) < len(t.s) {
		e.out = make([]byte, 0, len(t.s)+len(t.s)/4+64)
	}
	return e
}

// Len returns the length of the changed text so far.
func (e *Edit) Len() int { return len(e.out) }

// Keep appends the bytes from `from` to `to` of the text, with their places.
func (e *Edit) Keep(from, to int) {
	if !e.moved {
		if from == len(e.out) {
			e.out = append(e.out, e.t.s[from:to]...)
			return
		}
		e.move()
	}
	e.out = append(e.out, e.t.s[from:to]...)
	if e.t.places != nil {
		e.places = append(e.places, e.t.places[from:to]...)
		return
	}
	e.places = appendPlaces(e.places, e.t.s[from:to], e.t.start+int32(from))
}

// Byte appends the byte b < 0x80 in place of the character of byte `at` of the text.
func (e *Edit) Byte(b byte, at int) {
	if !e.moved && at == len(e.out) && e.t.s[at] < utf8.RuneSelf {
		e.out = append(e.out, b)
		return
	}
	e.Rune(rune(b), e.t.Span(at, at+1))
}

// Rune appends a character that comes from the given place.
func (e *Edit) Rune(r rune, p Span) {
	at := len(e.out)
	e.out = utf8.AppendRune(e.out, r)
	e.put(at, p)
}

// Put appends a character, which is bytes of the text or others, that comes from the given place.
func (e *Edit) Put(char string, p Span) {
	at := len(e.out)
	e.out = append(e.out, char...)
	e.put(at, p)
}

// String appends characters that all come from the given place.
func (e *Edit) String(s string, p Span) {
	if !e.moved {
		if _, n := utf8.DecodeRuneInString(s); n == len(s) {
			e.Put(s, p)
			return
		}
		e.move()
	}
	e.out = append(e.out, s...)
	for len(e.places) < len(e.out) {
		e.places = append(e.places, p)
	}
}

// put notes the place of the character that begins at byte `at` of the changed text, and is its last one.
func (e *Edit) put(at int, p Span) {
	if !e.moved {
		if at == int(p.Start-e.t.start) && len(e.out)-at == int(p.End-p.Start) {
			return
		}
		last := len(e.out)
		e.out = e.out[:at]
		e.move()
		e.out = e.out[:last]
	}
	for range len(e.out) - at {
		e.places = append(e.places, p)
	}
}

// move writes the places of what has been written without.
func (e *Edit) move() {
	if n := len(e.out) + len(e.t.s) + 64; cap(e.places) < n {
		e.places = make([]Span, 0, n+n/4)
	}
	e.places = appendPlaces(e.places[:0], view(e.out), e.t.start)
	e.moved = true
}

// appendPlaces appends the places of a text that is the original from `start` on.
func appendPlaces(places []Span, s string, start int32) []Span {
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			places = append(places, Span{start + int32(i), start + int32(i) + 1})
			i++
			continue
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		p := Span{start + int32(i), start + int32(i+n)}
		for range n {
			places = append(places, p)
		}
		i += n
	}
	return places
}

// Over reports whether the changed text is longer than it may be.
func (e *Edit) Over() bool { return len(e.out) > e.t.limit }

// Done makes the change that of the text. The error is that the text has become too long; it is empty then.
func (e *Edit) Done() error {
	t := e.t
	t.bytes[t.next] = e.out[:0]
	if cap(e.places) > 0 {
		t.spans[t.next] = e.places[:0]
	}
	if e.Over() {
		t.Reset("", int(t.start))
		return fmt.Errorf("normalized text: expected at most %d bytes, found more", t.limit)
	}
	t.next = 1 - t.next
	t.s, t.places = view(e.out), nil
	if e.moved {
		t.places = e.places
		if t.places == nil {
			t.places = []Span{}
		}
	}
	return nil
}

// Cut keeps only the bytes from `from` to `to`.
func (t *Text) Cut(from, to int) {
	t.s, t.start = t.s[from:to], t.start+int32(from)
	if t.places != nil {
		t.places = t.places[from:to]
	}
}
