package lfs

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\n" +
		"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	for text, want := range map[string]error{
		pointer: ErrPointer, pointer[:42]: ErrPointer, pointer[:41]: nil, "": nil, "x" + pointer: nil,
		pointer + strings.Repeat("x", 2000): nil,
	} {
		if err := CheckFile(bytes.NewReader([]byte(text)), int64(len(text))); !errors.Is(err, want) {
			t.Errorf("%.60q: %v, expected %v", text, err, want)
		}
	}
	if err := Check([]byte(pointer)); !errors.Is(err, ErrPointer) {
		t.Error(err)
	}
	if err := CheckFile(bytes.NewReader(nil), 100); err != nil { // the file was truncated meanwhile
		t.Error(err)
	}
}
