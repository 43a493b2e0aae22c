// Package part reads the small parts of a tokenizer.json: normalizers, pre-tokenizers, post-processors and decoders.
//
// A part is an object with a type. A key that the type does not have is an error, since an option that is ignored makes
// tokens that are nearly right.
package part

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/pattern"
)

// Object is an object of JSON whose keys are read one by one. The first error is kept.
type Object struct {
	Type   string          // its key "type"; "" if it has none
	Limits *pattern.Limits // of its regular expressions; nil: of its own
	where  string
	fields map[string]json.RawMessage // those that have not been read
	read   map[string]bool
	err    error
}

// Read reads an object. Errors begin with `where`.
func Read(raw json.RawMessage, where string) *Object {
	o := &Object{where: where}
	if err := json.Unmarshal(raw, &o.fields); err != nil || o.fields == nil {
		o.err = fmt.Errorf("%s: expected an object, found %s", where, Short(raw))
		return o
	}
	o.Type = o.String("type", "")
	if o.Type != "" {
		o.where += "." + o.Type
	}
	return o
}

// Where returns what errors about the object begin with.
func (o *Object) Where() string { return o.where }

// Err returns the first error so far.
func (o *Object) Err() error { return o.err }

// Fail notes an error about a key, if it is the first.
func (o *Object) Fail(key, format string, values ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%s.%s: %s", o.where, key, fmt.Sprintf(format, values...))
	}
}

// Need notes an error for each of the keys that the object does not have.
func (o *Object) Need(keys ...string) {
	for _, k := range keys {
		if _, ok := o.fields[k]; !ok {
			o.Fail(k, "expected a value, found none")
		}
	}
}

// Raw returns the value of a key; nil if it is absent or null.
func (o *Object) Raw(key string) json.RawMessage {
	raw, ok := o.fields[key]
	if ok {
		delete(o.fields, key)
		if o.read == nil {
			o.read = map[string]bool{}
		}
		o.read[key] = true
	}
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// Has reports whether the object has a key.
func (o *Object) Has(key string) bool {
	_, left := o.fields[key]
	return left || o.read[key]
}

func value[T any](o *Object, key, expected string, or T) T {
	raw := o.Raw(key)
	if raw == nil {
		return or
	}
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		o.Fail(key, "expected %s, found %s", expected, Short(raw))
		return or
	}
	return v
}

// Bool returns the value of a key that is true or false, or else the given one.
func (o *Object) Bool(key string, or bool) bool { return value(o, key, "true or false", or) }

// String returns the value of a key that is a string, or else the given one.
func (o *Object) String(key, or string) string { return value(o, key, "a string", or) }

// Int returns the value of a key that is an integer, or else the given one.
func (o *Object) Int(key string, or int) int { return value(o, key, "an integer", or) }

// Char returns the value of a key that is a string of one character, or else the given one.
func (o *Object) Char(key, or string) string {
	s := o.String(key, or)
	if utf8.RuneCountInString(s) != 1 {
		o.Fail(key, "expected one character, found %s", Short([]byte(fmt.Sprintf("%q", s))))
	}
	return s
}

// Choice returns the value of a key that is one of the given strings, or else `or`.
func (o *Object) Choice(key, or string, choices ...string) string {
	s := o.String(key, or)
	if !slices.Contains(choices, s) {
		o.Fail(key, "expected %s, found %q", strings.Join(choices, ", "), s)
	}
	return s
}

// List returns the values of a key that is a list.
func (o *Object) List(key string) []json.RawMessage {
	return value[[]json.RawMessage](o, key, "a list", nil)
}

// Done returns the first error; one is that the object has keys that were not read.
func (o *Object) Done() error {
	if o.err == nil && len(o.fields) > 0 {
		keys := slices.Sorted(maps.Keys(o.fields))
		o.err = fmt.Errorf("%s: key %q is not supported", o.where, keys[0])
	}
	return o.err
}

// Short returns the beginning of a value, for messages.
func Short(raw []byte) string {
	const most = 40
	s := strings.Join(strings.Fields(string(raw[:min(len(raw), most)])), " ")
	if len(raw) > most {
		s = strings.ToValidUTF8(s, "") + "…"
	}
	if s == "" {
		s = "nothing"
	}
	return s
}
