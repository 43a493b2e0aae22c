package jsontext

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// tree is a value as encoding/json has it.
func tree(v Value) any {
	switch v.Kind() {
	case Object:
		m := map[string]any{}
		v.Fields(func(key []byte, v Value) error { m[string(key)] = tree(v); return nil })
		return m
	case Array:
		list := []any{}
		v.Items(func(_ int, v Value) error { list = append(list, tree(v)); return nil })
		return list
	case String:
		s, _ := v.Str()
		return s
	case Number:
		x, _ := v.Float()
		return x
	case Null:
		return nil
	}
	b, _ := v.Bool()
	return b
}

// agree checks that a text is read as encoding/json reads it, or that both refuse it.
func agree(t *testing.T, text []byte) {
	t.Helper()
	v, err := Parse(text)
	var want any
	valid := json.Valid(text)
	if !utf8.Valid(text) || strings.Contains(string(text), `\u`) && err != nil {
		return // encoding/json replaces what is not UTF-8, and halves of surrogate pairs
	}
	if err != nil && (strings.Contains(err.Error(), "inside of each other")) {
		return
	}
	if (err == nil) != valid {
		t.Fatalf("%q: %v, valid to encoding/json: %v", text, err, valid)
	}
	if err != nil || json.Unmarshal(text, &want) != nil {
		return // numbers that float64 does not have are refused when they are read
	}
	if got := tree(v); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q is %v, expected %v", text, got, want)
	}
}

var samples = []string{
	`{"a": [1, -2.5e3, 0, "x\n\u00e9\ud83d\ude42\"\\\/"], "b\u0041": {"c": null, "d": [true, false, {}, []]}, "": "é🙂"}`,
	` [ ] `, `{}`, `1`, `"a"`, `nul`, `[1,]`, `{"a":}`, `{"a" 1}`, `{a:1}`, `[1 2]`, `01`, `-`, `1.`, `1e`, `.5`, `"a`, `"\x"`, `"\u12"`, "\"\x01\"",
	`[1] 2`, ``, `{"a":1,}`, `tru`, `"a\`, `[`, `{"`, `-0.0E+1`, `[[[[]]]]`,
}

// TestParse compares with encoding/json.
func TestParse(t *testing.T) {
	for _, s := range samples {
		agree(t, []byte(s))
	}
}

// TestRefused checks what encoding/json accepts, and the messages.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{\n  \"a\": x}":         `line 2, column 8: expected a value, found 'x'`,
		`"\ud800"`:               `line 1, column 2: expected an escape as \n or \u00e9, found '\\'`,
		"\"\xff\"":               "line 1, column 2: expected UTF-8",
		strings.Repeat("[", 200): "line 1, column 129: expected at most 128 arrays and objects inside of each other",
		`[1`:                     "line 1, column 3: expected a comma or ], found the end",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: %v, expected %s", text, err, want)
		}
	}
}

// TestNumbers checks the limits of integers.
func TestNumbers(t *testing.T) {
	for text, ok := range map[string]bool{"0": true, "7": true, "8": false, "-1": false, "1.0": false, "99999999999999999999999": false, `"1"`: false} {
		v, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Int(7); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	if v, _ := Parse([]byte(`{"a":[1,2,{"b":"x,y"}]}`)); v.Count() < 5 || v.Len() != 1 {
		t.Errorf("%d values, %d keys", v.Count(), v.Len())
	}
}

// FuzzParse compares any text with encoding/json.
func FuzzParse(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { agree(t, b) })
}
