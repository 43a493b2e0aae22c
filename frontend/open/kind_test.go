package open

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/runtime"
)

const (
	negText = "neg (float[B,3] x) => (float[B,3] y) {\n  y = Neg (x)\n}\n"
	ir10    = "\x08\x0a"                 // ir_version
	opset24 = "\x42\x02\x10\x18"         // opset_import
	message = "essmc knows: expected a " // about unknown content
)

// negONNX returns an ONNX file that consists of the graph only.
func negONNX(t testing.TB) string {
	t.Helper()
	g, err := irtext.Parse([]byte(negText), "text", resolver, irtext.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := onnx.Write(&b, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for rest := b.Bytes(); len(rest) > 0; {
		num, typ, n := protowire.ConsumeTag(rest)
		size := n + protowire.ConsumeFieldValue(num, typ, rest[n:])
		if num == 7 {
			return string(rest[:size])
		}
		rest = rest[size:]
	}
	t.Fatal("no graph")
	return ""
}

// TestKinds checks that content determines the kind, and names the advice only.
func TestKinds(t *testing.T) {
	graph := negONNX(t)
	long := "# " + strings.Repeat("é", headSize) + "\n" + negText
	for _, c := range []struct {
		name, content string
		want          any // a Kind, or a part of the error
	}{
		{"model", ir10 + graph + opset24, ONNX},
		{"model.txt", graph + opset24 + ir10, ONNX},        // in another order
		{"model.essm", opset24 + graph, ONNX},              // without a version
		{"model", "\x9a\x06\x01x" + graph + opset24, ONNX}, // after an unknown field
		{"model", (ir10 + opset24 + graph)[:20], ONNX},     // truncated
		{"model.onnx", (opset24 + graph)[:20], ONNX},       // truncated, without a version
		{"model", ir10 + "\x12\x09ORTModule" + graph, ONNX},
		{"model", ir10 + "\x12\x09ORTModule" + graph[:9], ONNX},
		{"config.json", negText, Text},
		{"a.safetensors", long, Text},
		{"model.onnx", negText, Text},                   // a misleading name
		{"model.onnx", "this is no model\n", ONNX},      // refused by its reader
		{"model.ONNX", "\x00\x01", ONNX},                //
		{"model", negText, Text},                        //
		{"model", "<ir_version: 10>\n" + negText, Text}, //
		{"model", "\ufeff" + negText, Text},             // refused by its reader, which names the place
		// a comment longer than the head, truncated within a character
		{"model", long, Text},
		{"words", "this is no model => x\n", Text},            // refused by its reader
		{"model.onnx", "\x89ESSM\r\n\x1a and more", Plan},     //
		{"model", "\x89ESS", Plan},                            // truncated
		{"model", "", "model: the file is empty: expected a"}, //
		{"dir/old.ckpt", "PK\x03\x04 and more",
			"dir/old.ckpt: is a zip archive or a file of torch; make a model directory of it: essmc convert old.ckpt " +
				"-o DIR"},
		{"hub/pytorch_model.bin", "PK\x03\x04 and more", "give the directory: essmc inspect hub"},
		{"x.npy", "\x93NUMPY\x01\x00", "x.npy: is an array"},
		{"model.onnx.gz", "\x1f\x8b\x08\x00", "is compressed"},
		{"model.h5", "\x89HDF\r\n\x1a\n", "HDF5"},
		{"model.tflite", "\x1c\x00\x00\x00TFL3", "TensorFlow Lite"},
		{"model.ort", "\x1c\x00\x00\x00ORTM", "ONNX Runtime's own format"},
		{"model.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"},
		{"model.onnx", "<!DOCTYPE html><html>", "is a web page"},
		{"config.json", "[]", "config.json: is part of a model directory; give the directory"},
		{"model", "{\"model_type\": \"essm\"}",
			"model: is JSON; where it is the configuration of a model, give the directory"},
		{"weights", "\x08\x00\x00\x00\x00\x00\x00\x00{\"a\": 1}\x00", "weights: is part of a model directory"},
		{"a.safetensors", "\x08\x00", "a.safetensors: is part of a model directory"},
		{"words", "this is no model\n", "words: is a text file, but not a graph"},
		{"noise", "\x00\x01\x02\xff\xfe", message},
		{"picture.png", "\x89PNG\r\n\x1a\n\x00\x00", message},
	} {
		kind, err := kindOf(strings.NewReader(c.content), int64(len(c.content)), c.name)
		switch want := c.want.(type) {
		case Kind:
			if err != nil || kind != want {
				t.Errorf("%s, %.40q: %v, %v, expected %v", c.name, c.content, kind, err, want)
			}
		case string:
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), c.name+": ") {
				t.Errorf("%s, %.40q: %v, %v, expected %s", c.name, c.content, kind, err, want)
			}
		}
	}
}

// TestNoFile checks that anything but a file or a directory is refused before it is opened.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	nowhere := filepath.Join(dir, "nowhere")
	if _, err := File(nowhere, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := File("", Options{}); err == nil || !strings.HasPrefix(err.Error(), "no model is named: expected a") {
		t.Errorf("%v", err)
	}
	if _, err := File(dir, Options{}); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := File(os.DevNull, Options{}); err == nil ||
		!strings.Contains(err.Error(), "is neither file nor directory") {
		t.Errorf("%v", err)
	}
}

// FuzzBytes opens any bytes. Content that the reader of a format accepts must be opened as that format, errors must
// name the model, and nothing may panic, neither readers nor passes.
func FuzzBytes(f *testing.F) {
	graph := negONNX(f)
	for _, s := range []string{
		negText, "<ir_version: 10, opset_import: [\"\" : 24]> # two\n\"a name\" () => (float[1] y) <float[1] y = " +
			"{1}> {}",
		ir10 + graph + opset24, graph + opset24, opset24 + "\x9a\x06\x01x" + graph,
		"B (" + strings.Repeat("x", 31) + ":", "\x89ESSM\r\n\x1a\x01\x00\x00\x00\x02\x00\x00\x00", "\x89", "PK\x03\x04",
		"{",
	} {
		f.Add([]byte(s))
	}
	limits := Limits{Bytes: 1 << 16, Nodes: 64, Depth: 4, Memory: 1 << 16}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<12 {
			t.Skip("longer inputs find nothing new")
		}
		_, _, badONNX := onnx.Parse(b, "name", onnx.Options{Budget: limits.onnx()})
		_, badText := irtext.Parse(b, "name", resolver, irtext.Options{Budget: limits.text()})
		m, err := Bytes(b, "name", Options{Limits: limits})
		switch {
		case err != nil && (badONNX == nil || badText == nil):
			t.Fatalf("refused, though a reader takes it (ONNX: %v, text: %v): %v", badONNX, badText, err)
		case err == nil && badONNX == nil && badText != nil && m.Kind != ONNX:
			t.Fatalf("an ONNX model is opened as %v", m.Kind)
		case err == nil && badText == nil && badONNX != nil && m.Kind != Text:
			t.Fatalf("a text is opened as %v", m.Kind)
		}
		if err == nil {
			_, err = m.Graph()
		}
		if err == nil {
			_, err = m.Compile(runtime.Options{Threads: 1, MaxMemory: 1 << 24})
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "name") || errors.Is(err, runtime.ErrInternal)) {
			t.Fatalf("found %v", err)
		}
	})
}
