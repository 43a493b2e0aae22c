package command

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/driver/libcuda"
)

// mistake is something that new users type, with the files of mistakenFiles in the current directory. Spaces separate
// arguments; a part in single quotes is one argument.
type mistake struct {
	what  string
	lines []string
	stdin string
}

var mistakes = []mistake{
	{"1 a misspelled command", []string{"rnu model"}, ""},
	{"2 no model", []string{"compile"}, ""},
	{"3 no output", []string{"compile cnn.onnx", "compile waves", "export cnn.onnx", "convert cut.ckpt", "init sc35"}, ""},
	{"4 a model that does not exist", []string{"compile nope.onnx -o z", "run cn.onnx", "inspect nosuchdir/cnn.onnx"}, ""},
	{"5 a folder that does not exist", []string{"compile cnn.onnx -o nosuchdir/z.essm"}, ""},
	{"6 the model as output", []string{"compile cnn.onnx -o cnn.onnx", "export cnn.onnx -o cnn.onnx",
		"explain cnn.onnx --html cnn.onnx"}, ""},
	{"7 a folder as output", []string{"compile cnn.onnx -o ."}, ""},
	{"8 junk as a model", []string{"inspect junk.onnx"}, ""},
	{"9 a truncated model", []string{"inspect cut.onnx"}, ""},
	{"10 an empty model", []string{"inspect empty.onnx"}, ""},
	{"11 a picture as a model", []string{"inspect cat.png"}, ""},
	{"12 a text file as a model", []string{"inspect passwd", "run notes.md --input cat.png"}, ""},
	{"13 no input", []string{"run cnn.onnx"}, ""},
	{"14 float64, numpy's default", []string{"run cnn.onnx --input double.npy --output y.npy", "run cnn.onnx --input huge.npy"}, ""},
	{"15 uint8 for float32", []string{"run cnn.onnx --input bytes.npy --output y.npy", "run cnn.onnx --input flags.npy"}, ""},
	{"16 float32 for float16", []string{"run half.txt --input three.npy --output y.npy"}, ""},
	{"17 channels last", []string{"run cnn.onnx --input nhwc.npy"}, ""},
	{"18 an unknown input", []string{"run cnn.onnx --input foo=image.npy", "run cnn.onnx --input imgae=image.npy"}, ""},
	{"19 a .npy file that is none", []string{"run cnn.onnx --input junk.npy"}, ""},
	{"20 a picture as an input", []string{"run cnn.onnx --input cat.png --output y.npy",
		"run cnn.onnx --input cat.png --resize crop --normalize imagenet --output y.npy", "run cnn.onnx --input cut.png",
		"run cnn.onnx --input junk.png", "run cnn.onnx --input photo.heic", "run vector.txt --input cat.png",
		"run cnn.onnx --input cat.png --normalize imagenett", "run cnn.onnx --input cat.png --resize big",
		"run cnn.onnx --input image.npy --resize 64x64"}, ""},
	{"21 an input as output", []string{"run cnn.onnx --input image.npy --output image.npy"}, ""},
	{"22 --device gpu", []string{"run cnn.onnx --input image.npy --device gpu"}, ""},
	{"23 --device cuda without CUDA", []string{"run cnn.onnx --input image.npy --device cuda"}, ""},
	{"24 --precision fp16", []string{"run cnn.onnx --input image.npy --precision fp16",
		"run cnn.onnx --input image.npy --precision double"}, ""},
	{"25 one dash", []string{"run cnn.onnx -input image.npy", "compile cnn.onnx -output x.essm"}, ""},
	{"26 an input without its flag", []string{"run cnn.onnx image.npy", "verify cnn.onnx image.npy y.npy"}, ""},
	{"27 a negative number of threads", []string{"run cnn.onnx --threads -3"}, ""},
	{"28 a damaged plan", []string{"run flipped.essm --input image.npy"}, ""},
	{"29 truncated weights", []string{"inspect cutweights"}, ""},
	{"30 one of three inputs", []string{"run bert.onnx --input input_ids=[[1,2]]"}, ""},
	{"31 a text without quotes", []string{"run text.txt --input 'buy pills'"}, ""},
	{"32 Python objects", []string{"run cnn.onnx --input objects.npy"}, ""},
	{"33 stream of a model without time", []string{"stream cnn.onnx"}, ""},
	{"34 generate with a model that is no language model", []string{"generate cnn.onnx --prompt Hello", "generate tokens --prompt Hello",
		"generate waves --prompt-ids 1", "generate hubmodel --prompt Hello"}, ""},
	{"35 convert of an ONNX file", []string{"convert cnn.onnx -o z", "convert cnn.essm -o z", "convert half.txt -o z", "convert cat.png -o z"}, ""},
	{"36 convert of a folder without a checkpoint", []string{"convert emptydir -o z", "convert notesdir -o z", "convert waves -o z"}, ""},
	{"37 a hub's weights in torch's format", []string{"inspect hub/pytorch_model.bin", "convert hub/pytorch_model.bin -o z"}, ""},
	{"38 a truncated checkpoint", []string{"convert cut.ckpt -o z"}, ""},
	{"39 a misspelled preset", []string{"init sc36 -o z"}, ""},
	{"40 init over a folder", []string{"init sc35 -o notesdir", "init sc35 -o waves"}, ""},
	{"41 a misspelled key", []string{"init sc35 -o z --set n_layer=3"}, ""},
	{"42 an unknown key", []string{"init sc35 -o z --set foo=1"}, ""},
	{"43 keys of a hub", []string{"inspect hubkeys", "inspect quantized", "inspect unknownkey"}, ""},
	{"44 a BERT of a hub", []string{"inspect hubbert"}, ""},
	{"45 an unknown name in --shape", []string{"bench cnn.onnx --shape img=1,3,64,64"}, ""},
	{"46 a shape that is too large", []string{"bench waves --shape 1x100000000000", "bench waves --shape 1x0"}, ""},
	{"47 bench without --shape", []string{"bench ragged.txt --repeat 1"}, ""},
	{"48 an opset that does not exist", []string{"export cnn.onnx -o z.onnx --opset 5"}, ""},
	{"49 pointers of Git LFS", []string{"inspect pointer.onnx", "inspect pointerdir", "convert pointer.ckpt -o z"}, ""},
	{"50 a missing shard", []string{"inspect sharded"}, ""},
	{"51 tensors that do not fit", []string{"inspect wrongshape", "inspect missing", "inspect extra"}, ""},
	{"52 weights of DataParallel, torch.compile and Lightning", []string{"inspect parallel", "inspect compiled", "inspect lightning",
		"convert lightning -o z", "convert lightning --prefix nets -o z", "convert lightning --prefix . -o z",
		"convert mamba.pt -o z", "convert mamba.pt --config hubmodel/config.json -o z",
		"convert lightning/model.safetensors -o z", "convert bare.safetensors -o z"}, ""},
	{"53 a recording into stream", []string{"stream waves --shape 1x4", "stream waves", "stream waves --format f32"},
		"RIFF\xc4\x09\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\xa0\x09"},
	{"54 a state that is none", []string{"stream waves --restore junk.state", "stream waves --restore waves.npy"}, ""},
	{"55 --json", []string{"explain ragged.txt --json", "run cnn.onnx --input image.npy --json", "devices --json",
		"compare cnn.onnx cnn.essm --shape s77=1 --json", "verify cnn.onnx --json"}, ""},
}

// TestMistakes compares what essmc answers to the mistakes of new users with a file, message by message.
func TestMistakes(t *testing.T) {
	if _, err := libcuda.Open(); err == nil || !strings.Contains(err.Error(), "-tags cuda") {
		t.Skip("row 23 is about a command that is built without CUDA")
	}
	mistakenFiles(t)
	var b strings.Builder
	for _, m := range mistakes {
		fmt.Fprintf(&b, "## %s\n", m.what)
		for _, line := range m.lines {
			before := contents(t)
			var out, errs bytes.Buffer
			code := Main(splitLine(line), strings.NewReader(m.stdin), &out, &errs)
			text := strings.ReplaceAll(errs.String(), syscall.ENOENT.Error(), "no such file or directory")
			fmt.Fprintf(&b, "$ essmc %s\n%s", line, strings.ReplaceAll(text, string(filepath.Separator), "/"))
			switch {
			case code == 0:
				fmt.Fprintf(&b, "(succeeds)\n")
				os.Remove("y.npy")
			case strings.Count(errs.String(), "\n") != 1 || out.Len() > 0:
				t.Errorf("essmc %s: expected one line, found %q, %q", line, errs.String(), out.String())
			default:
				sameFiles(t, before)
			}
		}
		b.WriteString("\n")
	}
	t.Chdir(os.Getenv("ESSMC_TEST_HOME"))
	golden(t, "mistakes.txt", b.String())
}

// splitLine splits a line into arguments.
func splitLine(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// mistakenFiles makes the files of mistakes in a new directory.
func mistakenFiles(t *testing.T) {
	t.Helper()
	fixtures(t)
	put := func(name, text string) { writeBytes(t, name, []byte(text)) }
	cnn := pbModel(pbNode("Conv", "image w", "c"), pbNode("Relu", "c", "r"), pbNode("GlobalAveragePool", "r", "g"),
		pbNode("Flatten", "g", "y"), pbFloats("w", ramp(8*3*3*3), 8, 3, 3, 3),
		pbValue(11, "image", tensor.Float32, "s77", 3, 64, 64), pbValue(12, "y", tensor.Float32, "s77", 8))
	writeBytes(t, "cnn.onnx", cnn)
	must(t, "compile", "cnn.onnx", "-o", "cnn.essm")
	const header = `<ir_version: 10, opset_import: ["" : 20]>` + "\n"
	put("half.txt", header+"g (float16[N,3] x) => (float16[N,3] y) { y = Relu (x) }")
	put("vector.txt", header+"g (float[N,3] x) => (float[N,3] y) { y = Relu (x) }")
	put("text.txt", header+"g (string[N] x) => (string[N] y) { y = Identity (x) }")
	put("ragged.txt", header+"g (float[A,B,C] x, float[A,B,D] z) => (float[A,B,C] y) { y = Relu (x) }")
	put("bert.txt", header+"g (int64[B,L] input_ids, int64[B,L] attention_mask, int64[B,L] token_type_ids) => (int64[B,L] y) "+
		"{ s = Add (input_ids, attention_mask) y = Add (s, token_type_ids) }")
	must(t, "export", "bert.txt", "-o", "bert.onnx")
	image := ramp(3 * 64 * 64)
	wide := make([]float64, len(image))
	for i, v := range image {
		wide[i] = float64(v) + 1e-9
	}
	write(t, "image.npy", tensor.FromSlice(image, 1, 3, 64, 64))
	write(t, "nhwc.npy", tensor.FromSlice(image, 1, 64, 64, 3))
	write(t, "double.npy", tensor.FromSlice(wide, 1, 3, 64, 64))
	wide[7] = 1e300
	write(t, "huge.npy", tensor.FromSlice(wide, 1, 3, 64, 64))
	write(t, "bytes.npy", tensor.FromSlice(make([]uint8, len(image)), 1, 3, 64, 64))
	write(t, "flags.npy", tensor.FromSlice(make([]bool, len(image)), 1, 3, 64, 64))
	write(t, "three.npy", tensor.FromSlice([]float32{0.1, 0.5, 2}, 1, 3))
	put("junk.png", "this is not a picture")
	put("photo.heic", "\x00\x00\x00\x18ftypheic")
	put("junk.npy", "this is not an array")
	put("objects.npy", npyHeader("|O", "(2,)")+"\x80\x04K\x01.")
	put("junk.onnx", "\xff\xfe junk \x00\x01\x02")
	writeBytes(t, "cut.onnx", cnn[:len(cnn)*2/3])
	put("empty.onnx", "")
	cat, err := os.ReadFile(home("internal/feed/testdata/images/rgb.png"))
	if err != nil {
		t.Fatal(err)
	}
	writeBytes(t, "cat.png", cat)
	writeBytes(t, "cut.png", cat[:len(cat)/2])
	put("passwd", "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n")
	put("notes.md", "# Notes\n\nA list (of things):\n- one\n")
	plan, err := os.ReadFile("cnn.essm")
	if err != nil {
		t.Fatal(err)
	}
	writeBytes(t, "flipped.essm", slicesWith(plan, len(plan)/2, plan[len(plan)/2]^1))
	put("junk.state", "this is not a state")
	put("emptydir/nothing.txt", "")
	put("notesdir/notes.txt", "notes")
	modelFiles(t, put)
}

// modelFiles makes the model directories and checkpoints of mistakes.
func modelFiles(t *testing.T, put func(name, text string)) {
	t.Helper()
	copyModel(t, "waves", "cutweights")
	edit(t, "cutweights/model.safetensors", func(b []byte) []byte { return b[:min(len(b), 992)] })
	edit(t, "cutweights/model.safetensors", func(b []byte) []byte {
		binary.LittleEndian.PutUint64(b, 5728)
		return b
	})
	config, err := os.ReadFile("waves/config.json")
	if err != nil {
		t.Fatal(err)
	}
	const lfs = "version https://git-lfs.github.com/spec/v1\n" +
		"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	put("pointer.onnx", lfs)
	put("pointer.ckpt", lfs)
	put("pointerdir/config.json", string(config))
	put("pointerdir/model.safetensors", lfs)
	put("sharded/config.json", string(config))
	put("sharded/model.safetensors.index.json",
		`{"metadata":{},"weight_map":{"encoder.weight":"model-00001-of-00002.safetensors"}}`)
	broken(t, "wrongshape", func(w map[string]*tensor.Tensor) { w["encoder.weight"] = tensor.New(tensor.Float32, 18, 9) })
	broken(t, "missing", func(w map[string]*tensor.Tensor) { delete(w, "model.layers.1.layer.Lambda") })
	broken(t, "extra", func(w map[string]*tensor.Tensor) { w["model.layers.7.norm.weight"] = tensor.New(tensor.Float32, 8) })

	must(t, "init", "mamba-130m", "-o", "hubmodel", "--set", "hidden_size=16", "--set", "num_hidden_layers=2", "--set",
		"vocab_size=32")
	for dir, set := range map[string]map[string]any{
		"hubkeys": {"num_labels": 2, "torchscript": false, "auto_map": map[string]any{}, "torch_dtype": "float32",
			"problem_type": nil},
		"quantized":  {"quantization_config": map[string]any{"quant_method": "gptq", "bits": 4}},
		"unknownkey": {"frobnicate": 1},
		"hubbert":    {"model_type": "bert", "architectures": []string{"BertForSequenceClassification"}},
	} {
		copyModel(t, "hubmodel", dir)
		for key, value := range set {
			setConfig(t, dir, key, value)
		}
	}
	w, err := safetensors.ReadDir("hubmodel")
	if err != nil {
		t.Fatal(err)
	}
	wrapped := map[string]*tensor.Tensor{}
	for dir, prefix := range map[string]string{"parallel": "module.", "compiled": "module._orig_mod.", "lightning": "net."} {
		clear(wrapped)
		for name, x := range w {
			wrapped[prefix+name] = x
		}
		copyModel(t, "hubmodel", dir)
		if err := safetensors.WriteFile(dir+"/model.safetensors", wrapped, nil); err != nil {
			t.Fatal(err)
		}
		if prefix != "net." {
			continue
		}
		writeTorch(t, "mamba.pt", wrapped)
		if err := safetensors.WriteFile("bare.safetensors", wrapped, nil); err != nil {
			t.Fatal(err)
		}
	}
	if config, err = os.ReadFile("hubmodel/config.json"); err != nil {
		t.Fatal(err)
	}
	put("hub/config.json", string(config))
	state, err := os.ReadFile(home("../../../frontend/checkpoint/testdata/options-concat-retrieval.pt"))
	if err != nil {
		t.Fatal(err)
	}
	writeBytes(t, "hub/pytorch_model.bin", state)
	writePickle(t, "whole.ckpt", "\x80\x02}.")
	edit(t, "whole.ckpt", func(b []byte) []byte { return b[:len(b)/2] })
	if err := os.Rename("whole.ckpt", "cut.ckpt"); err != nil {
		t.Fatal(err)
	}
}

// npyHeader returns the beginning of a .npy file.
func npyHeader(dtype, shape string) string {
	h := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, shape)
	h += strings.Repeat(" ", 117-len(h)) + "\n"
	return "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(h)))) + h
}
