package jsontext

import (
	"bytes"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// checker checks the syntax of a document.
type checker struct{ b []byte }

func (c *checker) space(at int) int { return space(c.b, at) }

// wrong is an error at a byte, with the line and the column of it.
func (c *checker) wrong(at int, format string, args ...any) error {
	at = min(at, len(c.b))
	line := 1 + bytes.Count(c.b[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(c.b[:at], '\n')
	found := "the end"
	if at < len(c.b) {
		r, _ := utf8.DecodeRune(c.b[at:])
		found = fmt.Sprintf("%q", r)
	}
	return fmt.Errorf("line %d, column %d: %s, found %s", line, column, fmt.Sprintf(format, args...), found)
}

// value checks the value at a byte and returns its end.
func (c *checker) value(at, depth int) (int, error) {
	if at >= len(c.b) {
		return 0, c.wrong(at, "expected a value")
	}
	switch b := c.b[at]; {
	case b == '"':
		return c.text(at)
	case b == '{' || b == '[':
		if depth == MaxDepth {
			return 0, c.wrong(at, "expected at most %d arrays and objects inside of each other", MaxDepth)
		}
		if b == '{' {
			return c.object(at, depth+1)
		}
		return c.array(at, depth+1)
	case b == '-' || b >= '0' && b <= '9':
		return c.number(at)
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(c.b[at:], []byte(word)) {
			return at + len(word), nil
		}
	}
	return 0, c.wrong(at, "expected a value")
}

func (c *checker) object(at, depth int) (int, error) {
	at = c.space(at + 1)
	if c.is(at, '}') {
		return at + 1, nil
	}
	for {
		if !c.is(at, '"') {
			return 0, c.wrong(at, "expected a key")
		}
		end, err := c.text(at)
		if err != nil {
			return 0, err
		}
		if at = c.space(end); !c.is(at, ':') {
			return 0, c.wrong(at, "expected a colon")
		}
		if at, err = c.value(c.space(at+1), depth); err != nil {
			return 0, err
		}
		at = c.space(at)
		if c.is(at, '}') {
			return at + 1, nil
		}
		if !c.is(at, ',') {
			return 0, c.wrong(at, "expected a comma or }")
		}
		at = c.space(at + 1)
	}
}

func (c *checker) array(at, depth int) (int, error) {
	at = c.space(at + 1)
	if c.is(at, ']') {
		return at + 1, nil
	}
	for {
		end, err := c.value(at, depth)
		if err != nil {
			return 0, err
		}
		at = c.space(end)
		if c.is(at, ']') {
			return at + 1, nil
		}
		if !c.is(at, ',') {
			return 0, c.wrong(at, "expected a comma or ]")
		}
		at = c.space(at + 1)
	}
}

func (c *checker) is(at int, b byte) bool { return at < len(c.b) && c.b[at] == b }

func (c *checker) number(at int) (int, error) {
	if c.is(at, '-') {
		at++
	}
	digits := func() bool {
		from := at
		for at < len(c.b) && c.b[at] >= '0' && c.b[at] <= '9' {
			at++
		}
		return at > from
	}
	zero := c.is(at, '0')
	from := at
	if !digits() || zero && at > from+1 {
		return 0, c.wrong(from, "expected a number")
	}
	if c.is(at, '.') {
		if at++; !digits() {
			return 0, c.wrong(at, "expected digits")
		}
	}
	if c.is(at, 'e') || c.is(at, 'E') {
		if at++; c.is(at, '+') || c.is(at, '-') {
			at++
		}
		if !digits() {
			return 0, c.wrong(at, "expected digits")
		}
	}
	return at, nil
}

// text checks the string at a byte and returns its end.
func (c *checker) text(at int) (int, error) {
	for at++; at < len(c.b); {
		switch b := c.b[at]; {
		case b == '"':
			return at + 1, nil
		case b < ' ':
			return 0, c.wrong(at, "expected no control character in a string")
		case b == '\\':
			n, ok := c.escape(at)
			if !ok {
				return 0, c.wrong(at, "expected an escape as \\n or \\u00e9")
			}
			at += n
		case b < utf8.RuneSelf:
			at++
		default:
			r, n := utf8.DecodeRune(c.b[at:])
			if r == utf8.RuneError && n == 1 {
				return 0, c.wrong(at, "expected UTF-8")
			}
			at += n
		}
	}
	return 0, c.wrong(at, "expected the end of a string")
}

// escape returns the length of the escape at a byte.
func (c *checker) escape(at int) (int, bool) {
	if at+1 >= len(c.b) {
		return 0, false
	}
	if c.b[at+1] != 'u' {
		return 2, bytes.IndexByte([]byte(`"\/bfnrt`), c.b[at+1]) >= 0
	}
	r := hex(c.b[at+2:])
	if r < 0 {
		return 0, false
	}
	if !utf16.IsSurrogate(r) {
		return 6, true
	}
	if !c.is(at+6, '\\') || !c.is(at+7, 'u') {
		return 0, false
	}
	return 12, utf16.DecodeRune(r, hex(c.b[at+8:])) != utf8.RuneError
}
