package decode

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/bytelevel"
	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

const replacement = "\uFFFD"

// byteLevel makes all texts one: bytes for the characters that stand for them, or the text itself if it has others.
type byteLevel struct {
	next sink
	rest []byte // the beginning of a character
}

func parseByteLevel(o *part.Object) maker {
	for _, key := range []string{"add_prefix_space", "trim_offsets", "use_regex"} {
		o.Bool(key, true) // of the pre-tokenizer of this name
	}
	return func(next sink, _ bool) sink {
		b := &byteLevel{next: next}
		return &whole{f: b.text, next: b}
	}
}

func (b *byteLevel) put(string, bool) {}

func (b *byteLevel) text(s string) {
	from := len(b.rest)
	for _, r := range s {
		c, ok := bytelevel.ByteOf(r)
		if !ok {
			b.rest = append(b.rest[:from], s...)
			break
		}
		b.rest = append(b.rest, c)
	}
	n := complete(b.rest)
	if n > 0 {
		b.next.put(lossy(b.rest[:n]), false)
		b.rest = append(b.rest[:0], b.rest[n:]...)
	}
}

func (b *byteLevel) close() {
	b.next.put(lossy(b.rest), true)
	b.next.close()
}

// complete returns the length of b without the beginning of a character at its end.
func complete(b []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		if c := b[len(b)-back]; utf8.RuneStart(c) {
			if prefix(b[len(b)-back:]) == back && !utf8.FullRune(b[len(b)-back:]) {
				return len(b) - back
			}
			break
		}
	}
	return len(b)
}

// lossy is bytes as text. Each longest beginning of a character that is not complete is one U+FFFD, and so is each
// other byte, as in the Unicode standard's recommendation.
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			out.WriteString(replacement)
			b = b[prefix(b):]
			continue
		}
		out.Write(b[:n])
		b = b[n:]
	}
	return out.String()
}

// prefix returns how many of the first bytes can begin a character; 1 at least.
func prefix(b []byte) int {
	n, lo, hi := 0, byte(0x80), byte(0xbf)
	switch c := b[0]; {
	case c >= 0xc2 && c <= 0xdf:
		n = 1
	case c >= 0xe0 && c <= 0xef:
		n = 2
		if c == 0xe0 {
			lo = 0xa0
		} else if c == 0xed {
			hi = 0x9f
		}
	case c >= 0xf0 && c <= 0xf4:
		n = 3
		if c == 0xf0 {
			lo = 0x90
		} else if c == 0xf4 {
			hi = 0x8f
		}
	}
	at := 1
	for at <= n && at < len(b) && b[at] >= lo && b[at] <= hi {
		at, lo, hi = at+1, 0x80, 0xbf
	}
	return at
}

// byteFallback makes a text of the bytes that texts such as <0x61> state one after the other.
type byteFallback struct {
	next  sink
	bytes []byte
	live  bool
	begun bool // a part of the text has been written
}

func newByteFallback(next sink, live bool) sink {
	b := &byteFallback{next: next, live: live}
	return &whole{f: b.text, next: b}
}

func (b *byteFallback) put(string, bool) {}

func (b *byteFallback) text(s string) {
	if len(s) == 6 && strings.HasPrefix(s, "<0x") && s[5] == '>' {
		// As in the Rust library a sign may stand before one digit.
		if n, err := strconv.ParseUint(strings.TrimPrefix(s[3:5], "+"), 16, 8); err == nil {
			b.bytes = append(b.bytes, byte(n))
			if b.live && utf8.Valid(b.bytes) {
				b.next.put(string(b.bytes), false)
				b.bytes, b.begun = b.bytes[:0], true
			}
			return
		}
	}
	b.end()
	b.next.put(s, true)
}

// end writes bytes: as text, or one U+FFFD for each if they are not UTF-8.
func (b *byteFallback) end() {
	switch n := len(b.bytes); {
	case b.begun:
		b.next.put(strings.Repeat(replacement, n), true)
	case n > 0 && utf8.Valid(b.bytes):
		b.next.put(string(b.bytes), true)
	default:
		for range n {
			b.next.put(replacement, true)
		}
	}
	b.bytes, b.begun = b.bytes[:0], false
}

func (b *byteFallback) close() {
	b.end()
	b.next.close()
}
