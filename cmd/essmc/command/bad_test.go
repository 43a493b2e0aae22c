package command

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/ir/tensor"
)

// refused runs the command. It expects the exit code, one line on standard error with all of want, and unchanged files.
func refused(t *testing.T, code int, args []string, want ...string) {
	t.Helper()
	before := contents(t)
	got, stdout, stderr := essmc(args...)
	name := "essmc " + strings.Join(args, " ")
	if got != code {
		t.Errorf("%s: exit code %d, expected %d: %s%s", name, got, code, stdout, stderr)
		return
	}
	if !strings.HasPrefix(stderr, "essmc") || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
		t.Errorf("%s: expected one line that starts with essmc, found %q", name, stderr)
	}
	if strings.Contains(stderr, "internal error") {
		t.Errorf("%s: %s", name, stderr)
	}
	if stdout != "" {
		t.Errorf("%s: printed %q", name, stdout)
	}
	for _, w := range want {
		if !strings.Contains(stderr, w) {
			t.Errorf("%s: expected %q in %q", name, w, stderr)
		}
	}
	sameFiles(t, before)
}

// broken copies the model directory tokens to a new one and changes its tensors.
func broken(t *testing.T, dir string, change func(w map[string]*tensor.Tensor)) {
	t.Helper()
	w, err := safetensors.ReadDir("tokens")
	if err != nil {
		t.Fatal(err)
	}
	change(w)
	copyModel(t, "tokens", dir)
	if err := safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), w, nil); err != nil {
		t.Fatal(err)
	}
}

func copyModel(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// edit changes the bytes of a file.
func edit(t *testing.T, path string, change func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestBadModels(t *testing.T) {
	fixtures(t)
	const lambda = "model.layers.1.layer.Lambda"
	broken(t, "missing", func(w map[string]*tensor.Tensor) {
		delete(w, lambda)
		delete(w, "decoder.output_transform.bias")
	})
	broken(t, "extra", func(w map[string]*tensor.Tensor) {
		w["model.layers.2.norm.norm.weight"] = tensor.New(tensor.Float32, 8)
	})
	broken(t, "shape", func(w map[string]*tensor.Tensor) { w["encoder.weight"] = tensor.New(tensor.Float32, 18, 9) })
	broken(t, "nan", func(w map[string]*tensor.Tensor) {
		tensor.Data[float32](w[lambda])[3] = float32(math.NaN())
	})
	broken(t, "dtype", func(w map[string]*tensor.Tensor) { w["encoder.weight"] = tensor.New(tensor.Int32, 18, 8) })
	copyModel(t, "tokens", "truncated")
	edit(t, "truncated/model.safetensors", func(b []byte) []byte { return b[:len(b)-5] })
	copyModel(t, "tokens", "trailing")
	edit(t, "trailing/model.safetensors", func(b []byte) []byte { return append(b, 0) })
	copyModel(t, "tokens", "overlapping")
	edit(t, "overlapping/model.safetensors", overlap)
	copyModel(t, "tokens", "config")
	setConfig(t, "config", "n_layer", 3)
	copyModel(t, "tokens", "json")
	edit(t, "json/config.json", func(b []byte) []byte { return b[:len(b)/2] })
	copyModel(t, "tokens", "weightless")
	if err := os.Remove("weightless/model.safetensors"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("empty", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"nothing.essm", nil}, {"noise.bin", []byte("\x00\x01\x02\xff\xfe")}, {"words.txt", []byte("what is this\n")},
		{"picture.png", []byte("\x89PNG\r\n\x1a\n\x00\x00")}, {"archive.zip", []byte("PK\x03\x04 and more")},
		{"stub.essm", []byte("\x89ESSM\r\n\x1a")},
	} {
		if err := os.WriteFile(f.name, f.data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct {
		model string
		want  []string
	}{
		{"missing", []string{"missing: tensor " + lambda, "is missing", "more"}},
		{"extra", []string{"extra: tensor model.layers.2.norm.norm.weight", "not part of the model"}},
		{"shape", []string{"shape: tensor encoder.weight", "expected float32[18,8], found float32[18,9]"}},
		{"nan", []string{"nan: tensor " + lambda, "finite", "NaN"}},
		{"dtype", []string{"dtype: tensor encoder.weight", "float32", "int32"}},
		{"truncated", []string{filepath.Join("truncated", "model.safetensors")}},
		{"trailing", []string{filepath.Join("trailing", "model.safetensors")}},
		{"overlapping", []string{filepath.Join("overlapping", "model.safetensors")}},
		{"config", []string{filepath.Join("config", "config.json"), "n_layer", "n_layers"}},
		{"json", []string{filepath.Join("json", "config.json")}},
		{"weightless", []string{"weightless", "model.safetensors"}},
		{"empty", []string{filepath.Join("empty", "config.json")}},
		{"nowhere", []string{"essmc: nowhere: "}},
		{"", []string{"no model is named"}},
		{"nothing.essm", []string{"nothing.essm", "empty"}},
		{"noise.bin", []string{"noise.bin", "expected a model directory"}},
		{"words.txt", []string{"words.txt: is a text"}},
		{"picture.png", []string{"picture.png", "expected a model directory"}},
		{"archive.zip", []string{"archive.zip", "essmc convert"}},
		{"stub.essm", []string{"stub.essm"}},
		{"tokens.npy", []string{"tokens.npy", "is an array"}},
		{"tokens/config.json", []string{"give the directory"}},
		{"tokens/model.safetensors", []string{"give the directory"}},
	}
	for _, c := range cases {
		t.Run(c.model, func(t *testing.T) {
			refused(t, 1, []string{"run", c.model, "--input", "tokens.npy", "--output", "y.npy"}, c.want...)
			refused(t, 1, []string{"run", c.model, "--input", "tokens.npy", "--dump", "values"}, c.want...)
			refused(t, 1, []string{"compile", c.model, "-o", "new.essm"}, c.want...)
			refused(t, 1, []string{"inspect", c.model}, c.want...)
			refused(t, 1, []string{"explain", c.model, "--html", "page.html"}, c.want...)
			refused(t, 1, []string{"bench", c.model, "--shape", "1x8"}, c.want...)
			refused(t, 1, []string{"verify", c.model, "--input", "tokens.npy", "--expect", "tokens.npy"}, c.want...)
		})
	}
}

// overlap makes the second tensor of a safetensors file start inside the first.
func overlap(b []byte) []byte {
	n := binary.LittleEndian.Uint64(b)
	header := map[string]struct {
		DType string `json:"dtype"`
		Shape []int  `json:"shape"`
		Data  [2]int `json:"data_offsets"`
	}{}
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		delete(header, "__metadata__")
	}
	delete(header, "__metadata__")
	for name, h := range header {
		if h.Data[0] > 0 {
			h.Data[0] -= 4
			h.Data[1] -= 4
			header[name] = h
			break
		}
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(out, text...), b[8+n:]...)
}

// TestBadPlans checks that no byte of a plan can change unnoticed.
func TestBadPlans(t *testing.T) {
	fixtures(t)
	whole, err := os.ReadFile("tokens.essm")
	if err != nil {
		t.Fatal(err)
	}
	plan := func(b []byte) {
		t.Helper()
		if err := os.WriteFile("bad.essm", b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := []string{"run", "bad.essm", "--input", "tokens.npy", "--output", "y.npy"}
	step := max(1, len(whole)/150)
	for i := 0; i < len(whole); i += step {
		plan(slicesWith(whole, i, whole[i]^0x10))
		refused(t, 1, run, "bad.essm")
		if t.Failed() {
			t.Fatalf("byte %d of %d", i, len(whole))
		}
	}
	for _, n := range []int{9, 100, len(whole) / 2, len(whole) - 1} {
		plan(whole[:n])
		refused(t, 1, run, "bad.essm")
	}
	newer := bytes.Clone(whole)
	binary.LittleEndian.PutUint16(newer[8:], 99)
	plan(newer)
	refused(t, 1, run, "bad.essm", "version 99")
	refused(t, 1, []string{"inspect", "bad.essm"}, "bad.essm", "version 99")
	refused(t, 1, []string{"compile", "tokens.essm", "-o", "again.essm"}, "tokens.essm", "is already a plan")
	refused(t, 2, []string{"run", "tokens.essm", "--input", "tokens.npy", "--resample", "2"},
		"the sampling rate of a plan")
}

func slicesWith(b []byte, at int, v byte) []byte {
	b = bytes.Clone(b)
	b[at] = v
	return b
}

func TestBadInputs(t *testing.T) {
	fixtures(t)
	ints := func(name string, shape []int, v ...int64) { write(t, name, tensor.FromSlice(v, shape...)) }
	ints("beyond.npy", []int{1, 4}, 1, 2, 18, 3)
	ints("negative.npy", []int{1, 4}, 1, -1, 2, 3)
	ints("zero.npy", []int{2}, 4, 0)
	ints("long.npy", []int{2}, 5, 4)
	ints("many.npy", []int{3}, 1, 1, 1)
	ints("nosteps.npy", []int{2, 0})
	ints("odd.npy", []int{3, 4}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	write(t, "floats.npy", tensor.FromSlice(ramp(8), 2, 4))
	write(t, "doubles.npy", tensor.FromSlice(append(make([]float64, 29), 1e300), 2, 5, 3))
	write(t, "four.npy", tensor.FromSlice(ramp(40), 2, 5, 4))
	write(t, "matrix.npy", tensor.FromSlice(ramp(40), 10, 4))
	write(t, "column.npy", tensor.FromSlice(ramp(10), 10, 1))
	for name, text := range map[string]string{
		"fraction.csv": "1,2.5\n", "ragged.csv": "1,2\n3\n", "letters.csv": "a,b\nc,d\n", "notes.txt": "hello",
		"cut.npy": "\x93NUMPY\x01\x00v\x00{",
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tokens := func(more ...string) []string { return append([]string{"tokens"}, more...) }
	cases := []struct {
		name string
		args []string // after run, before --output
		want []string
	}{
		{"token beyond", tokens("-i", "beyond.npy"), []string{"beyond.npy", "token 18", "vocabulary"}},
		{"token negative", tokens("-i", "negative.npy"), []string{"negative.npy", "token -1", "vocabulary"}},
		{"length 0", tokens("-i", "input=tokens.npy", "-i", "lengths=zero.npy"),
			[]string{"zero.npy", "lengths[1]", "length 0"}},
		{"length beyond", tokens("-i", "input=tokens.npy", "-i", "lengths=long.npy"),
			[]string{"long.npy", "lengths[0]", "length 5"}},
		{"lengths of another batch", tokens("-i", "input=tokens.npy", "-i", "lengths=many.npy"),
			[]string{"many.npy", "lengths", "2", "3"}},
		{"no steps", tokens("-i", "nosteps.npy"), []string{"nosteps.npy", "step"}},
		{"fractions as tokens", tokens("-i", "floats.npy"), []string{"floats.npy",
			"cannot convert float32 to int64: -0.5, at [0,0], is not an integer"}},
		{"wrong rank", tokens("-i", "waves.npy"), []string{"waves.npy", "expected 2 dimensions", "found 3"}},
		{"unknown name", tokens("-i", "input=tokens.npy", "-i", "lenghts=lengths.npy"),
			[]string{`"lenghts"`, "lengths"}},
		{"only unknown name", tokens("-i", "inptu=tokens.npy"), []string{`"inptu"`, "input, lengths"}},
		{"no input", tokens(), []string{`"input"`, "missing"}},
		{"only optional input", tokens("-i", "lengths=lengths.npy"), []string{`"input"`, "missing"}},
		{"given twice", tokens("-i", "tokens.npy", "-i", "input=tokens.npy"), []string{"input", "already"}},
		{"no file named", tokens("-i", "input="), []string{`"input"`, "file name"}},
		{"no such file", tokens("-i", "none.npy"), []string{"essmc: none.npy: "}},
		{"empty name", tokens("-i", ""), []string{"input: the file name is missing"}},
		{"unknown kind", tokens("-i", "notes.txt"), []string{"notes.txt", ".npy"}},
		{"cut off", tokens("-i", "cut.npy"), []string{"cut.npy"}},
		{"fraction", tokens("-i", "fraction.csv"), []string{"fraction.csv", "2.5", "row 1, column 2"}},
		{"ragged", tokens("-i", "ragged.csv"), []string{"ragged.csv"}},
		{"letters", tokens("-i", "letters.csv"), []string{"letters.csv"}},
		{"wrong features", []string{"waves", "-i", "four.npy"}, []string{"four.npy", "expected 3, found 4"}},
		{"ambiguous", []string{"waves", "-i", "matrix.npy"},
			[]string{"matrix.npy", "expected 3 dimensions", "found 2"}},
		{"steps or samples", []string{"voice", "-i", "column.npy"},
			[]string{"column.npy", "expected 3 dimensions", "found 2"}},
		{"too large", []string{"waves", "-i", "doubles.npy"},
			[]string{"doubles.npy", "cannot convert float64 to float32: 1e+300, at [1,4,2], does not fit"}},
		{"odd documents", []string{"pairs", "-i", "odd.npy"}, []string{"odd.npy", "even"}},
		{"wave for tokens", tokens("-i", "sound.wav"), []string{"sound.wav", "one feature"}},
		{"wave for features", []string{"waves", "-i", "sound.wav"}, []string{"sound.wav", "one feature"}},
		{"stereo", []string{"voice", "-i", "stereo.wav"}, []string{"stereo.wav", "one channel, found 2"}},
	}
	writeWav(t, "sound.wav", 1, 100)
	writeWav(t, "stereo.wav", 2, 100)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, device := range []string{"cpu", "ref"} {
				args := append(append([]string{"run"}, c.args...), "--device", device)
				refused(t, 1, append(args, "--output", "y.npy"), c.want...)
				if device == "ref" {
					refused(t, 1, append(args, "--dump", "values"), c.want...)
				}
			}
			args := append([]string{"run", c.args[0] + ".essm"}, c.args[1:]...)
			refused(t, 1, append(args, "--output", "y.npy"), c.want...)
		})
	}
}

// writeWav writes 16-bit samples.
func writeWav(t *testing.T, path string, channels, samples int) {
	t.Helper()
	writeWavAt(t, path, channels, samples, 16000)
}

func writeWavAt(t *testing.T, path string, channels, samples, rate int) {
	t.Helper()
	le := binary.LittleEndian
	size := 2 * channels * samples
	b := le.AppendUint32([]byte("RIFF"), uint32(36+size))
	b = le.AppendUint32(append(b, "WAVEfmt "...), 16)
	b = le.AppendUint16(le.AppendUint16(b, 1), uint16(channels))
	b = le.AppendUint32(le.AppendUint32(b, uint32(rate)), uint32(rate*2*channels))
	b = le.AppendUint16(le.AppendUint16(b, uint16(2*channels)), 16)
	b = le.AppendUint32(append(b, "data"...), uint32(size))
	for i := range channels * samples {
		b = le.AppendUint16(b, uint16(i*100))
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestBadOutputs(t *testing.T) {
	fixtures(t)
	run := func(more ...string) []string { return append([]string{"run", "waves", "-i", "waves.npy"}, more...) }
	refused(t, 1, run("-o", "y.wav"), "y.wav", ".npy")
	refused(t, 1, run("-o", "ouptut=y.npy"), `"ouptut"`, "output, state_out")
	refused(t, 1, run("-o", "output=y.npy", "-o", "state_out=y.npy"), "y.npy", "same file")
	refused(t, 1, run("-o", "nowhere/y.npy"), "nowhere")
	refused(t, 1, run("--dump", "waves"), "waves", "not empty")
	refused(t, 1, run("--dump", "waves.npy"), "waves.npy")
	refused(t, 1, []string{"compile", "waves", "-o", "tokens"}, "tokens", "directory")
	refused(t, 1, []string{"compile", "waves", "-o", "nowhere/x.essm"}, "nowhere")
	refused(t, 1, []string{"init", "image", "-o", "waves"}, "waves", "not empty", "--force")
	refused(t, 1, []string{"init", "image", "-o", "nowhere/model"}, "nowhere")
	refused(t, 1, []string{"verify", "waves", "-i", "waves.npy", "--expect", "tokens.npy"}, "tokens.npy",
		"expected shape [2,4], found [2,5,2]")
	refused(t, 1, []string{"explain", "waves.essm", "--html", "nowhere/x.html"}, "nowhere")
	refused(t, 1, []string{"inspect", "pairs", "--shape", "3x8"}, "groups of 2")
	refused(t, 1, []string{"bench", "pairs", "--shape", "3x8"}, "groups of 2")
}

func TestBadCheckpoints(t *testing.T) {
	fixtures(t)
	key := "model.layers.0.layer.B"
	call := fmt.Sprintf("\x80\x02}X%s%scposix\nsystem\nX%s%s\x85Rs.", count(len(key)), key, count(13), "touch hacked2")
	writePickle(t, "call.pt", call)
	writePickle(t, "callall.pt", fmt.Sprintf("\x80\x02cposix\nsystem\nX%s%s\x85R.", count(12), "touch hacked"))
	writePickle(t, "cut.pt", "\x80\x02}X")
	for file, want := range map[string]string{
		"call.pt": "found a call of posix.system where a tensor should be", "callall.pt": "posix.system",
		"cut.pt":                  "data.pkl",
		"waves/model.safetensors": "is part of the model directory waves", "none.ckpt": "none.ckpt",
	} {
		refused(t, 1, []string{"convert", file, "-o", "new"}, file, want)
	}
	refused(t, 1, []string{"convert", "call.pt", "-o", "waves"}, "waves", "not empty")
	refused(t, 1, []string{"convert", home("../../../frontend/checkpoint/testdata/options-concat-retrieval.pt"), "-o",
		"new"}, "--config")
	refused(t, 1, []string{"convert", home("../../../frontend/checkpoint/testdata/image.ckpt"), "--config", "none.yaml",
		"-o", "new"}, "none.yaml")
}

func count(n int) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(n))) }

// writePickle writes a file as torch.save does, with the given pickle.
func writePickle(t *testing.T, path, pickle string) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{"archive/data.pkl": pickle, "archive/version": "3\n"} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestBadCommandLines(t *testing.T) {
	fixtures(t)
	for _, c := range []struct{ line, want string }{
		{"rum", "did you mean run?"},
		{"frobnicate", `unknown command "frobnicate"; essmc -h`},
		{"--colour", "unknown flag --colour"},
		{"run", "expected MODEL, found none"},
		{"run waves tokens", "expected MODEL, found waves tokens"},
		{"run waves --inptu x.npy", "did you mean --input?"},
		{"run waves -q", "-q"},
		{"run waves -i", "-i"},
		{"run waves --kernel fast", "expected one of auto, scan, chunked, fft, direct"},
		{"run waves --kernel fff", "did you mean fft?"},
		{"run waves --device gpu", "expected one of cpu, ref, cuda, cuda:N"},
		{"run waves --device cud", "did you mean cuda?"},
		{"run waves --device cuda:", "expected cuda:N"},
		{"run waves --device cuda:-1", "expected cuda:N"},
		{"run waves --device cpu:1", "expected one of cpu, ref, cuda, cuda:N"},
		{"run waves --fallback gpu", "expected one of none, cpu"},
		{"run waves -i waves.npy --fallback cpu", "needs --device cuda"},
		{"test nowhere --fallback cpu", "needs --device cuda"},
		{"explain waves --fallback cpu", "needs --device cuda"},
		{"explain waves --device ref", "expected cpu or cuda"},
		{"bench waves --shape 1x8 --precision int8 --device cuda", "needs --device cpu"},
		{"run waves -i waves.npy --precision float64 --device cuda", "needs --device ref"},
		{"compare waves --shape 1x8 --precision-b int8 --device-b cuda", "needs --device cpu"},
		{"tune --device cuda", "--device cuda is not measured: it chooses between scan, direct and fft, and between tiles"},
		{"tune --device cuda:1 --show", "--device cuda:1 is not measured"},
		{"tune --device ref", "--device ref is not measured: it evaluates"},
		{"devices cuda", "expected no arguments"},
		{"run waves --threads -1", "at least 0"},
		{"run waves --threads two", "an integer"},
		{"run waves --top 0", "at least 1"},
		{"run waves --resample 0", "above 0"},
		{"run waves --resample inf", "above 0"},
		{"run waves -i waves.npy --precision float64", "needs --device ref"},
		{"run nowhere --precision float64", "needs --device ref"},
		{"bench waves --shape 1x8 --precision int8 --device ref", "needs --device cpu"},
		{"compare waves --shape 1x8 --precision-a bf16 --device-a ref", "needs --device cpu"},
		{"stream waves --precision float64", "expected one of float32, bf16, int8, tf32"},
		{"run waves -i waves.npy --precision tf32", "--precision tf32 needs --device cuda"},
		{"compare waves --shape 1x8 --precision-a tf32", "--precision tf32 needs --device cuda"},
		{"run waves -i waves.npy --dump values --device cpu", "needs --device ref"},
		{"verify waves -i waves.npy", "--expect FILE is missing"},
		{"verify waves -i waves.npy --expect waves.npy --tol -1", "above 0"},
		{"bench waves --shape 3", "as in 8x1024"},
		{"bench waves --shape 2000000000x2000000000", "at most"},
		{"bench waves --shape 0x8", "as in 8x1024"},
		{"bench waves --shape 1x8 --repeat 0", "at least 1"},
		{"compile waves", "-o PLAN is missing"},
		{"init image", "-o DIR is missing"},
		{"init imag -o x", "did you mean image?"},
		{"init mamba -o x", "presets of this family: mamba-130m, mamba-370m"},
		{"init -o x", "PRESET is missing"},
		{"init image -o x --set layer.heads", "expected KEY=VALUE"},
		{"init image -o x --set layer.head=2", "did you mean heads?"},
		{"init image -o x --set layer.heads=many", "layer.heads: expected an integer"},
		{"init image -o x --set layer.heads=7", "divisor"},
		{"init image -o x --seed -1", "seed"},
		{"convert", "expected FILE, found none"},
		{"convert x.pt", "-o DIR is missing"},
		{"inspect waves --shape 8", "as in 8x1024"},
		{"ops Sofmax", "did you mean Softmax?"},
		{"help rum", "did you mean run?"},
		{"completion bsh", "did you mean bash?"},
		{"version now", "expected no arguments"},
	} {
		t.Run(c.line, func(t *testing.T) { refused(t, 2, strings.Fields(c.line), c.want) })
	}
}
