package open

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/runtime/plan"
)

// Kind is the form in which a model is stored.
type Kind int

// The kinds of models.
const (
	Directory Kind = iota // config.json and model.safetensors
	Plan                  // written by essmc compile
	Text                  // a graph in ONNX's textual syntax
	ONNX
	Memory // a graph that the program has made
)

// String returns the name of the kind for messages.
func (k Kind) String() string {
	return [...]string{"a model directory", "a plan", "IR text", "an ONNX model", "a graph in memory"}[k]
}

const expected = "expected a model directory, an ONNX model, a plan, or IR text"

// others are kinds of files that are no models, by the bytes at an offset near their beginning, with advice for each.
var others = []struct {
	at    int
	magic string
	say   string // FILE stands for the file's name without folders
}{
	{0, "PK\x03\x04", "is a zip archive or a file of torch; make a model directory of it: essmc convert FILE -o DIR"},
	{0, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20",
		"is a zip archive or a file of torch; make a model directory of it: essmc convert FILE -o DIR"},
	{0, "\x93NUMPY", "is an array: " + expected},
	{0, "\x1f\x8b", "is compressed; unpack it first, as with gunzip"},
	{0, "\x89HDF\r\n\x1a\n", "is an HDF5 file, as Keras writes them; export the model as ONNX"},
	{0, "GGUF", "is a GGUF file; export the model as ONNX from where it was trained"},
	{4, "TFL3", "is a TensorFlow Lite model; export the model as ONNX"},
	{4, "ORTM", "is in ONNX Runtime's own format; give the .onnx file that it was made of"},
	{0, "<!", "is a web page and not the file that it is about; fetch that one"},
	{0, "<html", "is a web page and not the file that it is about; fetch that one"},
	{0, "version https://git-lfs.github.com/",
		"is a pointer of Git LFS and not the file itself; fetch that: git lfs pull"},
}

// headSize is the number of bytes that determine a file's kind, besides the top-level fields of an ONNX model.
const headSize = 4096

// kindOfFile returns the kind of a regular file.
func kindOfFile(path string, ctx context.Context) (Kind, error) {
	f, err := files.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return kindOf(ends.Of(ctx).ReaderAt(f), st.Size(), path)
}

// kindOf returns the kind of a file of the given size by its content. It looks for complete models first, then for
// truncated ones, then for files that might be mistaken for models. The name matters only if the content says nothing:
// it selects the advice, and the reader of ONNX reports the errors of a file named .onnx.
func kindOf(r io.ReaderAt, size int64, name string) (Kind, error) {
	head := make([]byte, min(max(size, 0), headSize))
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	base := filepath.Base(name)
	part := fmt.Errorf("%s: is part of a model directory; give the directory", name)
	switch {
	case len(head) == 0:
		return 0, fmt.Errorf("%s: the file is empty: %s", name, expected)
	case plan.IsPlan(head) || len(head) < 8 && head[0] == 0x89: // a shorter file is a truncated plan
		return Plan, nil
	case onnx.IsModel(r, size):
		return ONNX, nil
	case irtext.Begins(head):
		return Text, nil
	case isSafetensors(head, size):
		return 0, part
	case onnx.Begins(head):
		return ONNX, nil
	}
	if base == "pytorch_model.bin" && bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return 0, fmt.Errorf("%s: is part of a model directory; give the directory: essmc inspect %s", name,
			filepath.Dir(name))
	}
	for _, o := range others {
		if len(head) > o.at && bytes.HasPrefix(head[o.at:], []byte(o.magic)) {
			return 0, fmt.Errorf("%s: %s", name, strings.ReplaceAll(o.say, "FILE", base))
		}
	}
	switch {
	case base == checkpoint.ConfigName || filepath.Ext(name) == ".safetensors":
		return 0, part
	case bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{")):
		return 0, fmt.Errorf("%s: is JSON; where it is the configuration of a model, give the directory that it is in",
			name)
	case strings.EqualFold(filepath.Ext(name), ".onnx"):
		return ONNX, nil
	case isText(head) && bytes.Contains(head, []byte("=>")): // a graph with an error near its beginning
		return Text, nil
	case isText(head):
		return 0, fmt.Errorf("%s: is a text file, but not a graph (NAME (INPUTS) => (OUTPUTS) { … }): %s",
			name, expected)
	}
	return 0, fmt.Errorf("%s: is not a model that essmc knows: %s", name, expected)
}

// isSafetensors reports whether head begins a safetensors file: with the length of a header that fits into the file,
// and an object.
func isSafetensors(head []byte, size int64) bool {
	if len(head) < 9 {
		return false
	}
	length := binary.LittleEndian.Uint64(head)
	return length >= 2 && length <= uint64(size-8) && head[8] == '{'
}

// isText reports whether head may begin a text: UTF-8 without control characters. The last character may be truncated.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		if r == utf8.RuneError && size == 1 && len(head) >= utf8.UTFMax {
			return false
		}
		if r < ' ' && (r < '\t' || r > '\r') {
			return false
		}
		head = head[size:]
	}
	return true
}
