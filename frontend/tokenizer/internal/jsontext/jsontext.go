// Package jsontext reads JSON of untrusted files in place: a document is checked once, and its parts are views of it.
// Reading allocates nothing that the caller does not keep.
//
// It imports the standard library only.
package jsontext

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// MaxDepth is the number of arrays and objects that may be inside of each other.
const MaxDepth = 128

// Value is the text of a value in a document that Parse has checked, without space around it.
type Value []byte

// Kinds of values: the first byte of their text, '0' for numbers.
const (
	Object = '{'
	Array  = '['
	String = '"'
	Number = '0'
	True   = 't'
	False  = 'f'
	Null   = 'n'
)

// Parse checks that b is one value and returns it. It refuses text that is not UTF-8, halves of surrogate pairs, and
// more than MaxDepth levels. It takes time in proportion to the length.
func Parse(b []byte) (Value, error) {
	c := checker{b: b}
	from := c.space(0)
	to, err := c.value(from, 0)
	if err != nil {
		return nil, err
	}
	if end := c.space(to); end != len(b) {
		return nil, c.wrong(end, "expected the end of the file")
	}
	return Value(b[from:to]), nil
}

// Kind returns the kind of a value.
func (v Value) Kind() byte {
	if len(v) == 0 {
		return Null
	}
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		return c
	}
	return Number
}

// Name returns the kind of a value in words, for errors.
func (v Value) Name() string {
	switch v.Kind() {
	case Object:
		return "an object"
	case Array:
		return "an array"
	case String:
		return "a string"
	case Number:
		return "a number"
	case Null:
		return "null"
	}
	return string(v)
}

// Fields calls f for each key of an object, in order. The key is valid during the call.
func (v Value) Fields(f func(key []byte, v Value) error) error {
	if v.Kind() != Object {
		return fmt.Errorf("expected an object, found %s", v.Name())
	}
	var buffer []byte
	for at := space(v, 1); v[at] != '}'; {
		end := skip(v, at)
		key := v[at+1 : end-1]
		if buffer = buffer[:0]; !plain(key) {
			buffer = Value(v[at:end]).Text(buffer)
			key = buffer
		}
		at = space(v, space(v, end)+1) // behind the colon
		end = skip(v, at)
		if err := f(key, v[at:end]); err != nil {
			return err
		}
		if at = space(v, end); v[at] == ',' {
			at = space(v, at+1)
		}
	}
	return nil
}

// Items calls f for each element of an array, in order.
func (v Value) Items(f func(i int, v Value) error) error {
	if v.Kind() != Array {
		return fmt.Errorf("expected an array, found %s", v.Name())
	}
	i := 0
	for at := space(v, 1); v[at] != ']'; i++ {
		end := skip(v, at)
		if err := f(i, v[at:end]); err != nil {
			return err
		}
		if at = space(v, end); v[at] == ',' {
			at = space(v, at+1)
		}
	}
	return nil
}

// Len returns the number of elements of an array, or of keys of an object.
func (v Value) Len() int {
	n := 0
	switch v.Kind() {
	case Array:
		v.Items(func(int, Value) error { n++; return nil })
	case Object:
		v.Fields(func([]byte, Value) error { n++; return nil })
	}
	return n
}

// Count returns the number of values in a value: elements and keys, and theirs, and itself.
func (v Value) Count() int {
	n := 1
	for at := 0; at < len(v); at++ {
		switch v[at] {
		case '"':
			at = skip(v, at) - 1
		case ',', '{', '[':
			n++
		}
	}
	return n
}

// Text appends the characters of a string.
func (v Value) Text(dst []byte) []byte {
	s := v[1 : len(v)-1]
	for at := 0; at < len(s); {
		if s[at] != '\\' {
			from := at
			for at < len(s) && s[at] != '\\' {
				at++
			}
			dst = append(dst, s[from:at]...)
			continue
		}
		switch c := s[at+1]; c {
		case 'u':
			r := hex(s[at+2:])
			at += 6
			if utf16.IsSurrogate(r) {
				r = utf16.DecodeRune(r, hex(s[at+2:]))
				at += 6
			}
			dst = utf8.AppendRune(dst, r)
			continue
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		default:
			dst = append(dst, c)
		}
		at += 2
	}
	return dst
}

// Str returns a string; an error for other values.
func (v Value) Str() (string, error) {
	if v.Kind() != String {
		return "", fmt.Errorf("expected a string, found %s", v.Name())
	}
	if s := v[1 : len(v)-1]; plain(s) {
		return string(s), nil
	}
	return string(v.Text(nil)), nil
}

// Bool returns true or false; an error for other values.
func (v Value) Bool() (bool, error) {
	switch v.Kind() {
	case True:
		return true, nil
	case False:
		return false, nil
	}
	return false, fmt.Errorf("expected true or false, found %s", v.Name())
}

// Int returns an integer from 0 to limit; an error for other values.
func (v Value) Int(limit int) (int, error) {
	n := 0
	if v.Kind() != Number {
		return 0, fmt.Errorf("expected a number, found %s", v.Name())
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("expected an integer from 0 to %d, found %.20s", limit, string(v))
		}
		if n = n*10 + int(c-'0'); n > limit {
			return 0, fmt.Errorf("expected an integer from 0 to %d, found %.20s", limit, string(v))
		}
	}
	return n, nil
}

// Float returns a finite number; an error for other values.
func (v Value) Float() (float64, error) {
	if v.Kind() != Number {
		return 0, fmt.Errorf("expected a number, found %s", v.Name())
	}
	x, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(v), len(v)), 64)
	if err != nil || math.IsInf(x, 0) {
		return 0, fmt.Errorf("expected a number of 64 bits, found %.20s", string(v))
	}
	return x, nil
}

func plain(s []byte) bool {
	for _, c := range s {
		if c == '\\' {
			return false
		}
	}
	return true
}

func space(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\n' || b[at] == '\t' || b[at] == '\r') {
		at++
	}
	return at
}

// skip returns the end of the checked value that begins at `at`.
func skip(b []byte, at int) int {
	depth := 0
	for {
		switch b[at] {
		case '"':
			for at++; b[at] != '"'; at++ {
				if b[at] == '\\' {
					at++
				}
			}
			at++
		case '{', '[':
			depth++
			at++
			continue
		case '}', ']':
			depth--
			at++
		case ' ', '\n', '\t', '\r', ',', ':':
			at++
			continue
		default:
			for at < len(b) && b[at] > ' ' && b[at] != ',' && b[at] != ']' && b[at] != '}' {
				at++
			}
		}
		if depth == 0 {
			return at
		}
	}
}

// hex returns the number of four digits; -1 if they are not digits.
func hex(s []byte) rune {
	var r rune
	if len(s) < 4 {
		return -1
	}
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
