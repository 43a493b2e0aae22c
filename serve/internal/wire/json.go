package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/essmc/essmc/ir/tensor"
)

// DecodeJSON makes a tensor of a JSON list: flat, or nested as the shape is. The text must be valid JSON. Floats that
// JSON lacks are the strings "NaN", "Infinity" and "-Infinity".
func DecodeJSON(d tensor.DType, dims []int64, text []byte) (*tensor.Tensor, error) {
	shape, n, err := Shape(dims)
	if err != nil {
		return nil, err
	}
	if d == tensor.Float16 || d == tensor.BFloat16 {
		return nil, fmt.Errorf("%s has no form in JSON; send it as binary data", names[d])
	}
	if n > len(text) { // an element has at least one byte
		return nil, fmt.Errorf("expected %d elements for the shape %v, found fewer", n, dims)
	}
	l := list{b: text, shape: shape, want: n}
	switch d {
	case tensor.Bool:
		return read(&l, parseBool)
	case tensor.Int8:
		return read(&l, parseInt[int8](8))
	case tensor.Int16:
		return read(&l, parseInt[int16](16))
	case tensor.Int32:
		return read(&l, parseInt[int32](32))
	case tensor.Int64:
		return read(&l, parseInt[int64](64))
	case tensor.Uint8:
		return read(&l, parseUint[uint8](8))
	case tensor.Uint16:
		return read(&l, parseUint[uint16](16))
	case tensor.Uint32:
		return read(&l, parseUint[uint32](32))
	case tensor.Uint64:
		return read(&l, parseUint[uint64](64))
	case tensor.Float32:
		return readFloats[float32](&l, 32)
	case tensor.Float64:
		return readFloats[float64](&l, 64)
	}
	out := make([]string, 0, n)
	if err := l.all(func(text []byte) error {
		var s string
		if text[0] != '"' {
			return fmt.Errorf("expected a string, found %.20q", text)
		}
		err := json.Unmarshal(text, &s)
		out = append(out, s)
		return err
	}); err != nil {
		return nil, err
	}
	return tensor.FromStrings(out, shape...), nil
}

// list reads the elements of a list.
type list struct {
	b     []byte
	shape []int
	want  int // number of elements
	found int
}

// read reads all elements.
func read[T tensor.Elem](l *list, parse func(string) (T, error)) (*tensor.Tensor, error) {
	out := make([]T, 0, l.want)
	if err := l.all(func(text []byte) error {
		v, err := parse(unsafe.String(&text[0], len(text)))
		out = append(out, v)
		return err
	}); err != nil {
		return nil, err
	}
	return tensor.FromSlice(out, l.shape...), nil
}

// all calls element with the text of each element.
func (l *list) all(element func(text []byte) error) error {
	if !l.take('[') {
		return fmt.Errorf("data: expected a list")
	}
	nested := len(l.b) > 0 && l.next() == '['
	if err := l.items(0, nested, element); err != nil {
		return err
	}
	if l.found != l.want {
		return fmt.Errorf("expected %d elements for the shape %v, found %d", l.want, l.shape, l.found)
	}
	return nil
}

// next returns the next byte that is not space; 0 at the end.
func (l *list) next() byte {
	for len(l.b) > 0 {
		if c := l.b[0]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
		l.b = l.b[1:]
	}
	return 0
}

// take takes a byte, if it is the next.
func (l *list) take(c byte) bool {
	if l.next() != c {
		return false
	}
	l.b = l.b[1:]
	return true
}

// items reads a list up to its end. depth is the axis that its items are of, if lists are nested.
func (l *list) items(depth int, nested bool, element func(text []byte) error) error {
	inner := nested && depth < len(l.shape)-1
	count := 0
	for !l.take(']') {
		if count > 0 && !l.take(',') {
			return fmt.Errorf("data: expected a comma after element %d", l.found)
		}
		count++
		if (l.next() == '[') != inner {
			return fmt.Errorf("data: expected a flat list, or lists nested as the shape %v", l.shape)
		}
		if inner {
			l.b = l.b[1:]
			if err := l.items(depth+1, nested, element); err != nil {
				return err
			}
			continue
		}
		if l.found == l.want {
			return fmt.Errorf("expected %d elements for the shape %v, found more", l.want, l.shape)
		}
		text := l.b[:l.length()]
		if len(text) == 0 {
			return fmt.Errorf("data: element %d is missing", l.found)
		}
		if err := element(text); err != nil {
			return fmt.Errorf("data: element %d: %w", l.found, err)
		}
		l.b = l.b[len(text):]
		l.found++
	}
	if nested && (depth >= len(l.shape) || count != l.shape[depth]) {
		return fmt.Errorf("data: expected lists nested as the shape %v, found %d items at depth %d", l.shape, count, depth)
	}
	return nil
}

// length returns the length of the next element.
func (l *list) length() int {
	if len(l.b) == 0 || l.b[0] != '"' {
		for i, c := range l.b {
			switch c {
			case ',', ']', ' ', '\n', '\t', '\r', '[', '{', '"':
				return i
			}
		}
		return len(l.b)
	}
	for i := 1; i < len(l.b); i++ {
		switch l.b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("expected true or false, found %.20q", s)
}

func parseInt[T int8 | int16 | int32 | int64](bits int) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := strconv.ParseInt(s, 10, bits)
		if err != nil {
			return 0, fmt.Errorf("expected an integer of %d bits, found %.20q", bits, s)
		}
		return T(v), nil
	}
}

func parseUint[T uint8 | uint16 | uint32 | uint64](bits int) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := strconv.ParseUint(s, 10, bits)
		if err != nil {
			return 0, fmt.Errorf("expected a positive integer of %d bits, found %.20q", bits, s)
		}
		return T(v), nil
	}
}

func parseFloat[T float32 | float64](bits int) func(string) (T, error) {
	return func(s string) (T, error) {
		switch s {
		case `"NaN"`:
			return T(math.NaN()), nil
		case `"Infinity"`:
			return T(math.Inf(1)), nil
		case `"-Infinity"`:
			return T(math.Inf(-1)), nil
		}
		if c := s[0]; c != '-' && (c < '0' || c > '9') {
			return 0, fmt.Errorf("expected a number, found %.20q", s)
		}
		v, err := strconv.ParseFloat(s, bits)
		if err != nil {
			return 0, fmt.Errorf("expected a number of %d bits, found %.20q", bits, s)
		}
		return T(v), nil
	}
}

// AppendJSON appends the elements of a tensor as a flat JSON list, in the shortest form that reads back to the same
// bits.
func AppendJSON(b []byte, t *tensor.Tensor) ([]byte, error) {
	switch t.DType() {
	case tensor.Bool:
		return appendList(b, t, strconv.AppendBool), nil
	case tensor.Int8:
		return appendList(b, t, appendInt[int8]), nil
	case tensor.Int16:
		return appendList(b, t, appendInt[int16]), nil
	case tensor.Int32:
		return appendList(b, t, appendInt[int32]), nil
	case tensor.Int64:
		return appendList(b, t, appendInt[int64]), nil
	case tensor.Uint8:
		return appendList(b, t, appendUint[uint8]), nil
	case tensor.Uint16:
		return appendList(b, t, appendUint[uint16]), nil
	case tensor.Uint32:
		return appendList(b, t, appendUint[uint32]), nil
	case tensor.Uint64:
		return appendList(b, t, appendUint[uint64]), nil
	case tensor.Float32:
		return appendList(b, t, func(b []byte, v float32) []byte { return appendFloat(b, float64(v), 32) }), nil
	case tensor.Float64:
		return appendList(b, t, func(b []byte, v float64) []byte { return appendFloat(b, v, 64) }), nil
	case tensor.String:
		list, err := tensor.Elements[string](t)
		if err != nil {
			return b, err
		}
		if list == nil {
			list = []string{}
		}
		for i, text := range list {
			if !utf8.ValidString(text) {
				return b, fmt.Errorf("element %d is not UTF-8; ask for binary data", i)
			}
		}
		text, err := json.Marshal(list)
		return append(b, text...), err
	}
	return b, fmt.Errorf("%s has no form in JSON; ask for binary data", names[t.DType()])
}

func appendList[T tensor.Elem](b []byte, t *tensor.Tensor, one func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, v := range tensor.Data[T](t) {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, v)
	}
	return append(b, ']')
}

func appendInt[T int8 | int16 | int32 | int64](b []byte, v T) []byte {
	return strconv.AppendInt(b, int64(v), 10)
}

func appendUint[T uint8 | uint16 | uint32 | uint64](b []byte, v T) []byte {
	return strconv.AppendUint(b, uint64(v), 10)
}

func appendFloat(b []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(b, `"-Infinity"`...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, bits)
}
