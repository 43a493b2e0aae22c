package onnx

import (
	"bytes"
	"testing"
)

func TestBegins(t *testing.T) {
	for head, want := range map[string]bool{
		"\x08\x0d\x12\x07pytorch":       true,
		"\x08\x08:\x80\x01":             true,
		"\x08\x08B\x04\x0a\x00\x10\x11": true,
		"":                              false,
		"text":                          false,
		"\x08":                          false,
		"\x08\x00\x12\x00":              false,
		"\x08\x08\x0a\x01a":             false,
		"\x89ESSM\r\n":                  false,
	} {
		if got := Begins([]byte(head)); got != want {
			t.Errorf("%q: %v", head, got)
		}
	}
}

// TestIsModel checks that the order of fields and unknown fields do not matter, and that a truncated model is none.
func TestIsModel(t *testing.T) {
	isModel := func(b []byte) bool { return IsModel(bytes.NewReader(b), int64(len(b))) }
	for i, b := range seeds() {
		if !isModel(b) {
			t.Errorf("seed %d is not taken for a model", i)
		}
		if isModel(b[:len(b)-1]) {
			t.Errorf("seed %d without its last byte is taken for a model", i)
		}
		if turned := append(str(1000, "extension"), b...); !isModel(turned) {
			t.Errorf("seed %d behind an unknown field is not taken for a model", i)
		}
	}
	for _, s := range []string{"", "text (float x) => (y) {}", ":", "\x08\x08", "\x08\x08B\x00", "8\x01:\x00",
		"{\"a\": 1}"} {
		if isModel([]byte(s)) {
			t.Errorf("%q is taken for a model", s)
		}
	}
	graphFirst := append(msg(7, str(2, "g")), num(1, 8)...)
	if !isModel(graphFirst) {
		t.Error("a model whose graph stands first is not taken for one")
	}
	if long := bytes.Repeat([]byte{8, 8}, 3*maxSniffed); isModel(long) {
		t.Error("versions without a graph are taken for a model")
	}
}
