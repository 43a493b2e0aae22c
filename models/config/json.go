package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxSize bounds the bytes of a configuration file.
const MaxSize = 4 << 20

// maxDepth bounds the nesting of values, maxValues their number.
const (
	maxDepth  = 64
	maxValues = 1 << 18
)

// Kind is the kind of a value in JSON.
type Kind int

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Object
)

// Value is one value of a JSON text.
type Value struct {
	Kind Kind
	// Text is the content of a string, and the text of a boolean or number.
	Text string
	// Items are the values in a list.
	Items []*Value
	// Members are those in an object, in their order.
	Members []Member
}

// Member is a key of an object, and its value.
type Member struct {
	Key   string
	Value *Value
}

// Default adds a key to an object, unless it is there.
func (v *Value) Default(key string, value Value) {
	if v.Get(key) == nil {
		v.Members = append(v.Members, Member{Key: key, Value: &value})
	}
}

// Get returns the value of a key of an object; nil: there is none.
func (v *Value) Get(key string) *Value {
	if v == nil {
		return nil
	}
	for _, m := range v.Members {
		if m.Key == key {
			return m.Value
		}
	}
	return nil
}

// Describe describes the value, for messages.
func (v *Value) Describe() string {
	switch v.Kind {
	case Object:
		return "an object"
	case List:
		return "a list"
	case String:
		return quote(clip(v.Text, maxWord))
	case Null:
		return "null"
	}
	return clip(v.Text, maxWord)
}

// Parse reads a JSON object. Errors name the line.
func Parse(data []byte) (*Value, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("expected at most %d bytes, found %d", MaxSize, len(data))
	}
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8 text")
	}
	p := &parser{data: data, line: 1}
	v, err := p.value("", 0)
	if err != nil {
		return nil, err
	}
	if v.Kind != Object {
		return nil, fmt.Errorf("expected an object, found %s", v.Describe())
	}
	if p.space(); p.at < len(p.data) {
		return nil, p.wrong("expected nothing after the object")
	}
	return v, nil
}

type parser struct {
	data   []byte
	at     int
	line   int
	values int
}

func (p *parser) wrong(format string, args ...any) error {
	return fmt.Errorf("line %d: %w", p.line, fmt.Errorf(format, args...))
}

// unexpected is the error for the character at hand.
func (p *parser) unexpected(want string) error {
	if p.at >= len(p.data) {
		p.line = 1 + bytes.Count(bytes.TrimRight(p.data, " \t\r\n"), []byte("\n"))
		return p.wrong("the file ends too early")
	}
	r, _ := utf8.DecodeRune(p.data[p.at:])
	return p.wrong("expected %s, found %q", want, r)
}

func (p *parser) space() {
	for ; p.at < len(p.data); p.at++ {
		switch p.data[p.at] {
		case '\n':
			p.line++
		case ' ', '\t', '\r':
		default:
			return
		}
	}
}

// take takes a character after white space. It reports false if another one is there.
func (p *parser) take(c byte) bool {
	p.space()
	if p.at < len(p.data) && p.data[p.at] == c {
		p.at++
		return true
	}
	return false
}

// value reads a value. key is its path, for messages.
func (p *parser) value(key string, depth int) (*Value, error) {
	if depth > maxDepth {
		return nil, p.wrong("expected at most %d levels of nesting", maxDepth)
	}
	if p.values++; p.values > maxValues {
		return nil, p.wrong("expected at most %d values", maxValues)
	}
	p.space()
	if p.at >= len(p.data) {
		return nil, p.unexpected("a value")
	}
	switch c := p.data[p.at]; c {
	case '{':
		return p.object(key, depth)
	case '[':
		return p.list(key, depth)
	case '"':
		s, err := p.text()
		return &Value{Kind: String, Text: s}, err
	default:
		return p.word()
	}
}

func (p *parser) object(path string, depth int) (*Value, error) {
	v := &Value{Kind: Object}
	seen := map[string]bool{}
	for p.at++; !p.take('}'); {
		if len(v.Members) > 0 && !p.take(',') {
			return nil, p.unexpected("a comma or the end of the object")
		}
		if p.space(); p.at >= len(p.data) || p.data[p.at] != '"' {
			return nil, p.unexpected("a key")
		}
		key, err := p.text()
		if err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, p.wrong("%s: is there twice", Shorten(join(path, key)))
		}
		seen[key] = true
		if !p.take(':') {
			return nil, p.unexpected("a colon after the key")
		}
		x, err := p.value(join(path, key), depth+1)
		if err != nil {
			return nil, err
		}
		v.Members = append(v.Members, Member{key, x})
	}
	return v.tagged(), nil
}

// tagged returns {"__float__": "Infinity"} and the like, as version 5 of the library transformers writes them, as a
// number, and other objects as they are.
func (v *Value) tagged() *Value {
	if len(v.Members) == 1 && v.Members[0].Key == "__float__" {
		if x := v.Members[0].Value; x.Kind == String && words[x.Text] == Number && x.Text != "" {
			return &Value{Kind: Number, Text: x.Text}
		}
	}
	return v
}

func (p *parser) list(path string, depth int) (*Value, error) {
	v := &Value{Kind: List}
	for p.at++; !p.take(']'); {
		if len(v.Items) > 0 && !p.take(',') {
			return nil, p.unexpected("a comma or the end of the list")
		}
		x, err := p.value(path, depth+1)
		if err != nil {
			return nil, err
		}
		v.Items = append(v.Items, x)
	}
	return v, nil
}

// text reads a string.
func (p *parser) text() (string, error) {
	start := p.at
	for p.at++; p.at < len(p.data); p.at++ {
		switch c := p.data[p.at]; {
		case c == '\\':
			p.at++
		case c == '"':
			p.at++
			var s string
			if err := json.Unmarshal(p.data[start:p.at], &s); err != nil {
				return "", p.wrong("expected a string of JSON, found %s", Shorten(string(p.data[start:p.at])))
			}
			return s, nil
		case c < ' ':
			return "", p.wrong("expected the end of a string, found %q", c)
		}
	}
	p.at = len(p.data)
	return "", p.unexpected("the end of a string")
}

// words are the values that are not numbers of JSON.
var words = map[string]Kind{"null": Null, "true": Bool, "false": Bool, "Infinity": Number, "-Infinity": Number,
	"NaN": Number}

// word reads a number, a boolean or null.
func (p *parser) word() (*Value, error) {
	start := p.at
	for p.at < len(p.data) && (p.data[p.at] == '-' || p.data[p.at] == '+' || p.data[p.at] == '.' ||
		'0' <= p.data[p.at] && p.data[p.at] <= '9' || 'a' <= p.data[p.at]|32 && p.data[p.at]|32 <= 'z') {
		p.at++
	}
	text := string(p.data[start:p.at])
	if kind, ok := words[text]; ok {
		return &Value{Kind: kind, Text: text}, nil
	}
	if text == "" {
		return nil, p.unexpected("a value")
	}
	if c := text[0]; c != '-' && (c < '0' || c > '9') || !json.Valid([]byte(text)) {
		return nil, p.wrong("expected a value, found %s", Shorten(text))
	}
	return &Value{Kind: Number, Text: text}, nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// clip cuts text from a file or caller to at most n characters.
func clip(s string, n int) string {
	if r := []rune(s[:min(len(s), 4*n+4)]); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// Shorten makes text from a file or caller fit for a message of one line.
func Shorten(s string) string {
	s = clip(s, maxWord)
	if s == "" || slices.ContainsFunc([]rune(s), func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f }) {
		return strconv.Quote(s)
	}
	return s
}

// maxWord is the number of characters of a name that messages show.
const maxWord = 80

// quote returns s as in JSON.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return strconv.Quote(s)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
