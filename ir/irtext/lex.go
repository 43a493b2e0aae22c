package irtext

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/essmc/essmc/internal/ends"
)

// Error is an error in a text, with its position. Columns count bytes.
type Error struct {
	File      string
	Line, Col int
	Msg       string
	// Err is the cause, if there is one besides the message.
	Err error
}

// Error writes "file:line:col: message".
func (e *Error) Error() string { return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// scanner reads characters and words. It keeps the first error and then stays at the end of the text, so callers
// need not check every step, except in loops.
type scanner struct {
	file string
	src  []byte
	i    int
	err  error

	watch *ends.Watch
}

// clip shortens a message that has long names of the text in it.
func clip(s string) string {
	const most = 1000
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func (s *scanner) fail(at int, format string, args ...any) {
	if s.err != nil {
		return
	}
	at = min(at, len(s.src))
	err := fmt.Errorf(format, args...)
	line := 1 + bytes.Count(s.src[:at], []byte{'\n'})
	col := at - bytes.LastIndexByte(s.src[:at], '\n')
	s.err = &Error{File: s.file, Line: line, Col: col, Msg: clip(strings.ReplaceAll(err.Error(), "\n", " ")), Err: err}
	s.i = len(s.src)
}

// lexPart is the number of bytes between two checks of the context.
const lexPart = 1 << 16

// advance passes a byte.
func (s *scanner) advance() {
	if s.i++; s.i%lexPart == 0 {
		s.watch.Check()
	}
}

// skip passes spaces and comments.
func (s *scanner) skip() {
	for s.i < len(s.src) {
		switch c := s.src[s.i]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			s.advance()
		case c == '#':
			for s.i < len(s.src) {
				part := s.src[s.i:min(s.i+lexPart, len(s.src))]
				if n := bytes.IndexByte(part, '\n'); n >= 0 {
					s.i += n
					break
				}
				s.watch.Check()
				s.i += len(part)
			}
		default:
			return
		}
	}
}

// peek returns the next character that is not space, or 0 at the end.
func (s *scanner) peek() byte {
	s.skip()
	if s.i < len(s.src) {
		return s.src[s.i]
	}
	return 0
}

// here returns the position of the next word.
func (s *scanner) here() int { s.skip(); return s.i }

func (s *scanner) accept(c byte) bool {
	if s.peek() == c && s.i < len(s.src) {
		s.i++
		return true
	}
	return false
}

func (s *scanner) expect(c byte, what string) {
	if !s.accept(c) {
		s.fail(s.i, "expected %q %s, found %s", string(c), what, s.found())
	}
}

// found describes the next word, for messages.
func (s *scanner) found() string {
	s.skip()
	if s.i >= len(s.src) {
		return "the end of the text"
	}
	end := s.i + 1
	if isIdentByte(s.src[s.i], false) {
		for end < len(s.src) && end < s.i+40 && isIdentByte(s.src[end], false) {
			end++
		}
	}
	return strconv.Quote(string(s.src[s.i:end]))
}

// ident reads an identifier; empty if there is none.
func (s *scanner) ident() string {
	s.skip()
	from := s.i
	for s.i < len(s.src) && s.i-from <= maxName && isIdentByte(s.src[s.i], s.i == from) {
		s.i++
	}
	if s.i-from > maxName {
		s.tooLong(from)
		return ""
	}
	return string(s.src[from:s.i])
}

// maxName bounds the bytes of a name. The longest that exporters write have some thousands.
const maxName = 1 << 16

func (s *scanner) tooLong(at int) {
	s.fail(at, "expected a name of at most %d bytes, found a longer one", maxName)
}

// peekIdent returns the next identifier without reading past it.
func (s *scanner) peekIdent() string {
	s.skip()
	from := s.i
	id := s.ident()
	if s.err == nil {
		s.i = from
	}
	return id
}

// str reads a quoted string, in which a backslash takes the next byte literally.
func (s *scanner) str(what string) string {
	if s.peek() != '"' {
		s.fail(s.i, "expected %s in quotes, found %s", what, s.found())
		return ""
	}
	start := s.i
	s.i++
	from, n := s.i, 0
	for s.i < len(s.src) { // the length comes first, so that a long string is not copied again as it grows
		c := s.src[s.i]
		s.advance()
		if c == '"' {
			return s.unescaped(s.src[from:s.i-1], n)
		}
		if c == '\\' && s.i < len(s.src) {
			s.advance()
		}
		n++
	}
	s.fail(start, "expected %s in quotes, found a string without an end", what)
	return ""
}

// unescaped returns the n bytes of a quoted string.
func (s *scanner) unescaped(quoted []byte, n int) string {
	if n == len(quoted) && n <= lexPart {
		return string(quoted)
	}
	var b strings.Builder
	b.Grow(n)
	for i := 0; i < len(quoted); i++ {
		if quoted[i] == '\\' && i+1 < len(quoted) {
			i++
		}
		if b.WriteByte(quoted[i]); i%lexPart == 0 {
			s.watch.Check()
		}
	}
	return b.String()
}

// name reads an identifier or a quoted string. It returns false if there is neither.
func (s *scanner) name() (name string, ok bool) {
	if at := s.here(); s.peek() == '"' {
		if name = s.str("a name"); len(name) > maxName {
			s.tooLong(at)
		}
		return name, s.err == nil
	}
	name = s.ident()
	return name, name != ""
}

// need reads a name that must be there.
func (s *scanner) need(what string) string {
	at := s.here()
	name, ok := s.name()
	if !ok {
		s.fail(at, "expected %s, found %s", what, s.found())
	}
	return name
}

// number reads the text of a number, with words for infinity and NaN.
func (s *scanner) number(what string) string {
	at := s.here()
	s.digits("+-", 1)
	from := s.i
	if s.i < len(s.src) && isIdentByte(s.src[s.i], true) {
		word := strings.ToLower(s.ident())
		switch {
		case word == "nan" && bytes.HasPrefix(s.src[s.i:], []byte("(0x")):
			s.i += 3
			s.digits("0123456789abcdefABCDEF", -1)
			s.expect(')', "after the bits of a NaN")
		case word != "nan" && word != "inf" && word != "infinity":
			s.i = at
			s.fail(at, "expected %s, found %s", what, s.found())
		}
		return string(s.src[at:s.i])
	}
	s.digits("0123456789.", -1)
	if s.i == from {
		s.i = at
		s.fail(at, "expected %s, found %s", what, s.found())
		return ""
	}
	if s.i-from > maxName {
		s.fail(at, "expected a number of at most %d characters, found a longer one", maxName)
		return ""
	}
	if s.i < len(s.src) && (s.src[s.i] == 'e' || s.src[s.i] == 'E') {
		s.i++
		s.digits("+-", 1)
		s.digits("0123456789", -1)
	}
	return string(s.src[at:s.i])
}

// digits skips at most n bytes that are in set, or any number of them if n is negative.
func (s *scanner) digits(set string, n int) {
	for most := maxName + 1; n != 0 && most > 0 && s.i < len(s.src) && strings.IndexByte(set, s.src[s.i]) >= 0; n-- {
		s.i++
		most--
	}
}

// integer reads an integer.
func (s *scanner) integer(what string) int64 {
	at := s.here()
	t := s.number(what)
	n, err := strconv.ParseInt(t, 10, 64)
	if err != nil {
		s.fail(at, "expected %s, a whole number of 64 bits, found %s", what, t)
	}
	return n
}
