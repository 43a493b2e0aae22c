package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

// largest returns the largest difference of two arrays, relative to the largest absolute value of want.
func largest(t *testing.T, got, want *tensor.Tensor) float64 {
	t.Helper()
	d, err := compare(got, want)
	if err != nil {
		t.Fatal(err)
	}
	return d.relative
}

// TestSameAnswer checks that directory, plan and IR text give the same answer, on both devices, in every form.
func TestSameAnswer(t *testing.T) {
	fixtures(t)
	g, err := plan.ReadFile("tokens.essm", ops.Default, plan.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := irtext.WriteFile("tokens.onnxtxt", g); err != nil {
		t.Fatal(err)
	}
	in := []string{"--input", "input=tokens.npy", "--input", "lengths=lengths.npy", "--output", "output=y.npy"}
	must(t, append([]string{"run", "tokens", "--device", "ref", "--precision", "float64"}, in...)...)
	want := read(t, "y.npy")
	if want.DType() != tensor.Float64 {
		t.Errorf("float64 writes %s", want)
	}
	for _, model := range []string{"tokens", "tokens.essm", "tokens.onnxtxt"} {
		for _, more := range []string{"--device=ref", "--device=ref --precision=float64", "--kernel=auto",
			"--kernel=scan", "--kernel=chunked",
			"--kernel=fft", "--kernel=direct", "--threads=1", "--threads=3"} {
			args := append([]string{"run", model}, in...)
			must(t, append(args, strings.Fields(more)...)...)
			got := read(t, "y.npy")
			limit, dtype := 1e-5, tensor.Float32
			if strings.Contains(more, "float64") {
				limit, dtype = 1e-12, tensor.Float64
			}
			if e := largest(t, got, want); !(e <= limit) || got.DType() != dtype {
				t.Errorf("%s %s: error %.3g, %s", model, more, e, got)
			}
		}
	}
	must(t, "verify", "tokens.essm", "-i", "tokens.npy", "-i", "lengths=lengths.npy", "-e", "y.npy")
	// without lengths the answer differs
	code, _, stderr := essmc("verify", "tokens.essm", "-i", "tokens.npy", "-e", "y.npy")
	if code != 1 || !strings.Contains(stderr, "y.npy") || !strings.Contains(stderr, "tolerance is 1e-05") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestState checks that two halves of a sequence give the same answers if the state is passed on.
func TestState(t *testing.T) {
	fixtures(t)
	x := ramp(8 * 3)
	write(t, "all.npy", tensor.FromSlice(x, 1, 8, 3))
	write(t, "first.npy", tensor.FromSlice(x[:15], 1, 5, 3))
	write(t, "second.npy", tensor.FromSlice(x[15:], 1, 3, 3))
	must(t, "run", "waves.essm", "-i", "all.npy", "-o", "all-y.npy")
	must(t, "run", "waves.essm", "-i", "first.npy", "-o", "first-y.npy", "-o", "state_out=state.npy")
	must(t, "run", "waves.essm", "-i", "input=second.npy", "-i", "state_in=state.npy", "-o", "second-y.npy")
	joined := append(slices.Clone(tensor.Data[float32](read(t, "first-y.npy"))),
		tensor.Data[float32](read(t, "second-y.npy"))...)
	if e := largest(t, tensor.FromSlice(joined, 1, 8, 2), read(t, "all-y.npy")); !(e <= 1e-5) {
		t.Errorf("differs by %.3g", e)
	}
}

// TestResample checks that --resample has the same effect on a directory as when its plan was made, and has one.
func TestResample(t *testing.T) {
	fixtures(t)
	must(t, "run", "voice", "-i", "voice.npy", "-o", "plain.npy")
	must(t, "run", "voice", "-i", "voice.npy", "-o", "a.npy", "--resample", "2")
	must(t, "compile", "voice", "-o", "half.essm", "--resample", "2")
	must(t, "run", "half.essm", "-i", "voice.npy", "-o", "b.npy")
	if e := largest(t, read(t, "a.npy"), read(t, "b.npy")); e != 0 {
		t.Errorf("plan and directory differ by %.3g", e)
	}
	if e := largest(t, read(t, "a.npy"), read(t, "plain.npy")); e < 1e-4 {
		t.Errorf("resampling changes the answer by %.3g only", e)
	}
	if out := must(t, "inspect", "half.essm"); !strings.Contains(out, "resampled by 2") {
		t.Errorf("inspect does not tell of resampling: %s", out)
	}
}

// TestInputFiles checks inputs in every kind of file, and in shapes that fit in one way only.
func TestInputFiles(t *testing.T) {
	fixtures(t)
	for name, text := range map[string]string{"tokens.csv": "1,2,3,4\n17,0,5,6\n", "lengths.csv": "4,2\n",
		"one.csv": "a,b,c\n1,2,3\n4,5,6\n"} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(t, "tokens.npz", tensor.FromSlice([]int64{1, 2, 3, 4, 17, 0, 5, 6}, 2, 4))
	write(t, "row.npy", tensor.FromSlice([]int64{1, 2, 3, 4}, 4))
	write(t, "short.npy", tensor.FromSlice([]int32{1, 2, 3, 4}, 1, 4))
	write(t, "row2.npy", tensor.FromSlice([]int64{1, 2, 3, 4}, 1, 4))
	write(t, "one.npy", tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 1, 2, 3))
	write(t, "flat.npy", tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
	write(t, "commas, and = signs.npy", tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 1, 2, 3))
	write(t, "sound.npy", tensor.FromSlice(wavValues(100), 1, 100, 1))
	write(t, "vector.npy", tensor.FromSlice(wavValues(100), 100))
	write(t, "batch.npy", tensor.FromSlice(ramp(14), 2, 7))
	writeWav(t, "sound.wav", 1, 100)
	for _, c := range []struct{ model, a, b string }{
		{"tokens", "-i tokens.npy", "-i tokens.csv"},
		{"tokens", "-i tokens.npy", "-i tokens.npz"},
		{"tokens", "-i tokens.npy", "-i input=tokens.npz:array"},
		{"tokens", "-i row2.npy", "-i row.npy"},
		{"tokens", "-i row2.npy", "-i short.npy"},
		{"tokens", "-i input=tokens.npy -i lengths=lengths.npy", "-i input=tokens.csv -i lengths=lengths.csv"},
		{"waves", "-i one.npy", "-i one.csv"},
		{"waves", "-i one.npy", "-i flat.npy"},
		{"waves", "-i one.npy", "-i commas,_and_=_signs.npy"},
		{"waves", "-i one.npy", "-i input=commas,_and_=_signs.npy"},
		{"voice", "-i sound.npy", "-i sound.wav"},
		{"voice", "-i sound.npy", "-i vector.npy"},
		{"voice", "-i voice.npy", "-i batch.npy"},
	} {
		run := func(in, out string) *tensor.Tensor {
			var args []string
			for _, f := range strings.Fields(in) {
				args = append(args, strings.ReplaceAll(f, "_", " "))
			}
			must(t, append(append([]string{"run", c.model}, args...), "-o", out)...)
			return read(t, out)
		}
		if e := largest(t, run(c.a, "a.npy"), run(c.b, "b.npy")); !(e <= 1e-6) {
			t.Errorf("%s: %s and %s differ by %.3g", c.model, c.a, c.b, e)
		}
	}
}

func wavValues(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i*100) / 32768
	}
	return v
}

func TestOutputFiles(t *testing.T) {
	fixtures(t)
	for _, f := range []string{"y.npy", "y.npz", "y.csv"} {
		must(t, "run", "tokens", "-i", "tokens.npy", "--output", "output="+f)
	}
	want := read(t, "y.npy")
	if e := largest(t, read(t, "y.npz"), want); e != 0 {
		t.Errorf(".npz differs by %v", e)
	}
	if e := largest(t, read(t, "y.csv"), want); !(e <= 1e-7) {
		t.Errorf(".csv differs by %v", e)
	}
}

// TestDump checks that a dump holds every computed value, including the answer.
func TestDump(t *testing.T) {
	fixtures(t)
	must(t, "run", "tokens", "-i", "tokens.npy", "--dump", "values", "-o", "y.npy")
	if !tensor.Equal(read(t, "y.npy"), read(t, filepath.Join("values", "output.npy"))) {
		t.Error("the dump's output is not the answer")
	}
	index, err := os.ReadFile(filepath.Join("values", "values.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("values")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(index)), "\n")
	if len(lines) != len(entries) { // the header, and values.tsv itself
		t.Errorf("%d lines for %d files", len(lines), len(entries))
	}
	for _, name := range []string{"input", "encoder.Embedding", "layers.0.StateSpace", "layers.1.LeakyRelu",
		"decoder.Pick", "output"} {
		if x := read(t, filepath.Join("values", name+".npy")); !strings.Contains(string(index),
			fmt.Sprintf("%s.npy\t%q\t%s\t", name, name, x)) {
			t.Errorf("%s is not listed: %s", name, index)
		}
	}
	must(t, "run", "tokens", "-i", "tokens.npy", "--dump", "values64", "--precision", "float64", "--device", "ref")
	if x := read(t, filepath.Join("values64", "layers.0.StateSpace.npy")); x.DType() != tensor.Float64 {
		t.Errorf("float64 dumps %s", x)
	}
}

func TestDumpNames(t *testing.T) {
	d := &dumper{taken: map[string]bool{"values.tsv": true}}
	for _, c := range []struct{ name, want string }{
		{"x", "x.npy"}, {"x", "x~2.npy"}, {"X", "X~3.npy"}, {"../../etc/passwd", "_.._.._etc_passwd.npy"},
		{"a/b", "a_b.npy"}, {"a b", "a_b~2.npy"},
		{"", "_.npy"}, {".", "_..npy"}, {"ü\x00", "__.npy"},
		{strings.Repeat("n", 300), strings.Repeat("n", 150) + ".npy"}, {"values.tsv", "values.tsv.npy"},
	} {
		if got := d.file(c.name); got != c.want {
			t.Errorf("%q is written to %s, expected %s", c.name, got, c.want)
		}
	}
}

// TestPlanFile checks that equal models give equal plans, which are hardly larger than their parameters, and quick to
// load.
func TestPlanFile(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "init", "sc35", "-o", "model")
	must(t, "init", "sc35", "-o", "again")
	must(t, "compile", "model", "-o", "a.essm")
	must(t, "compile", "again", "-o", "b.essm")
	a, err := os.ReadFile("a.essm")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("b.essm")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("two compiles give different bytes")
	}
	if ratio := float64(len(a)) / (4 * 213667); ratio > 1.1 {
		t.Errorf("the plan has %d bytes, %.3f times its parameters", len(a), ratio)
	}
	best := time.Hour
	for range 10 {
		start := worktime.Now()
		m, err := runtime.Load("a.essm", runtime.Options{Backend: cpu.New()})
		if err != nil {
			t.Fatal(err)
		}
		best = min(best, worktime.Now()-start)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("loads in %v", best)
	if best > 20*time.Millisecond && !race.Enabled {
		t.Errorf("loading takes %v", best)
	}
}

func TestInit(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "init", "smnist", "-o", "model", "--seed", "3", "--set", "layer.bidirectional=false")
	must(t, "init", "smnist", "-o", "same", "--seed", "3", "--set", "layer.bidirectional=false")
	must(t, "init", "smnist", "-o", "other", "--seed", "4", "--set", "layer.bidirectional=false")
	all := contents(t)
	weights := func(dir string) string { return all[filepath.Join(dir, "model.safetensors")] }
	if weights("model") != weights("same") || weights("model") == weights("other") {
		t.Error("weights do not follow the seed")
	}
	if code, _, stderr := essmc("init", "smnist", "-o", "other", "--seed", "3", "--force", "--set",
		"layer.bidirectional=false"); code != 0 {
		t.Errorf("--force: exit code %d: %s", code, stderr)
	}
	if all = contents(t); weights("other") != weights("same") {
		t.Error("--force did not replace the model")
	}
	if !strings.Contains(all[filepath.Join("model", "config.json")], `"bidirectional": false`) {
		t.Error("--set has no effect")
	}
	for f := range all {
		if strings.Contains(f, ".tmp") {
			t.Errorf("%s was left behind", f)
		}
	}
}

// TestConvert checks that a converted checkpoint gives the answers of the directory with the same model.
func TestConvert(t *testing.T) {
	fixtures(t)
	data := home("../../../frontend/checkpoint/testdata")
	must(t, "convert", filepath.Join(data, "image.ckpt"), "-o", "image")
	must(t, "convert", filepath.Join(data, "options-concat-retrieval.pt"), "--config",
		filepath.Join(data, "options-concat-retrieval.yaml"), "-o", "pt")
	if out := must(t, "inspect", "pt"); !strings.Contains(out, "can run as a stream") {
		t.Errorf("found %s", out)
	}
	if _, err := os.Stat(filepath.Join(data, "image", "input.npy")); err != nil {
		return // the answers are not in the repository
	}
	must(t, "verify", "image", "-i", filepath.Join(data, "image", "input.npy"), "-e",
		filepath.Join(data, "image", "output64.npy"))
}

func TestJSON(t *testing.T) {
	fixtures(t)
	var b benchmark
	if err := json.Unmarshal([]byte(must(t, "bench", "tokens.essm", "--shape", "2x16", "--repeat", "5", "--json")),
		&b); err != nil {
		t.Fatal(err)
	}
	if b.Runs != 5 || !(b.MedianMS > 0) || b.MinMS > b.MedianMS || b.P10MS > b.P90MS || b.P90MS > b.P99MS ||
		b.Flops <= 0 || !(b.Gflops > 0) || len(b.Ops) == 0 {
		t.Errorf("found %+v", b)
	}
	share := 0.0
	for _, o := range b.Ops {
		share += o.Share
	}
	if !(math.Abs(share-1) <= 1e-6) {
		t.Errorf("shares add up to %v", share)
	}
	for model, streamable := range map[string]bool{"tokens": false, "waves": true, "waves.essm": true} {
		var r inspection
		if err := json.Unmarshal([]byte(must(t, "inspect", model, "--json", "--shape", "2x64")), &r); err != nil {
			t.Fatal(err)
		}
		if r.Time.Streamable != streamable || (r.Time.Blocker == "") != streamable || r.Memory.Weights <= 0 ||
			r.Memory.Working <= 0 {
			t.Errorf("%s: found %+v %+v", model, r.Time, r.Memory)
		}
	}
	for _, model := range []string{"voice", "pairs"} {
		must(t, "bench", model, "--shape", "4x16", "--repeat", "2", "--kernel", "fft", "--threads", "1")
	}
	must(t, "bench", "voice", "--shape", "1x4", "--repeat", "2", "--device", "ref")
}

func TestExplain(t *testing.T) {
	fixtures(t)
	out := must(t, "explain", "waves", "--html", "page.html", "--shape", "2x100")
	for _, want := range []string{"discretize", "fold-norm", "Forms on the cpu for 2x100", "layers.0–1"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	page, err := os.ReadFile("page.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"as written", "discretize", "essm.SSM"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("no %q in the page", want)
		}
	}
	if out = must(t, "explain", "waves.essm", "--html", "plan.html"); !strings.Contains(out,
		"from the plan's history") || !strings.Contains(out, "fold-norm") {
		t.Errorf("found %s", out)
	}
	if out = must(t, "explain", "pairs.essm"); !strings.Contains(out, "for 2x1024") {
		t.Errorf("found %s", out)
	}
}

func TestReport(t *testing.T) {
	fault := &runtime.PanicError{Value: "index out of range", Stack: []byte("goroutine 1")}
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{errors.New("a\nb\n\n c"), 1, "essmc: a; b; c\n"},
		{errors.New("\x1b[31mred\u0084"), 1, "essmc: \uFFFD[31mred\uFFFD\n"},
		{usagef("no"), 2, "essmc: no\n"},
		{fmt.Errorf("x: %w", &runtime.OptionError{Option: "Kernel", Msg: "is impossible"}), 2,
			"essmc: --kernel: is impossible\n"},
		{fault, 1, "essmc: internal error: index out of range (a bug in essmc, please report it; ESSMC_DEBUG=1 shows " +
			"the stack)\n"},
	} {
		t.Setenv(debugVariable, "")
		var b bytes.Buffer
		if code := report(&b, c.err); code != c.code || b.String() != c.want {
			t.Errorf("exit code %d, %q; expected %d, %q", code, b.String(), c.code, c.want)
		}
	}
	t.Setenv(debugVariable, "1")
	var b bytes.Buffer
	if report(&b, fault); !strings.Contains(b.String(), "goroutine 1") {
		t.Errorf("no stack in %q", b.String())
	}
}

func TestWords(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is written %s", n, got)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 10 << 20: "10.0 MiB",
		1 << 40: "1.00 TiB"} {
		if got := byteCount(n); got != want {
			t.Errorf("%d bytes are written %s", n, got)
		}
	}
	for _, c := range []struct{ word, want string }{{"--inptu", ", did you mean --input?"}, {"zzzzzz", ""}, {"", ""}} {
		if got := didYouMean(c.word, []string{"--input", "--output"}); got != c.want {
			t.Errorf("%q: %q", c.word, got)
		}
	}
	if got := gather([]string{"a: left out", "b: kept", "c: left out", "plain"}); !slices.Equal(got,
		[]string{"left out: a, c", "b: kept", "plain"}) {
		t.Errorf("found %q", got)
	}
	if q := quantile([]float64{1, 2, 3, 4}, 0.5); q != 2.5 {
		t.Errorf("median %v", q)
	}
}

func TestCompare(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		got, want []float64
		relative  float64
	}{
		{[]float64{1, 2}, []float64{1, 2}, 0},
		{[]float64{1, 2}, []float64{1, 4}, 0.5},
		{[]float64{nan, 2}, []float64{nan, 2}, 0},
		{[]float64{nan, 2}, []float64{1, 2}, inf},
		{[]float64{1, 2}, []float64{1, nan}, inf},
		{[]float64{inf, 2}, []float64{inf, 2}, 0},
		{[]float64{inf, 2}, []float64{-inf, 2}, inf},
		{[]float64{0, 1e-3}, []float64{0, 0}, 1e-3},
		{nil, nil, 0},
	} {
		d, err := compare(tensor.FromSlice(c.got, len(c.got)), tensor.FromSlice(c.want, len(c.want)))
		if err != nil || d.relative != c.relative {
			t.Errorf("%v and %v: %+v, %v", c.got, c.want, d, err)
		}
	}
}

// TestPresetList checks that init lists the presets that it makes.
func TestPresetList(t *testing.T) {
	list := must(t, "init")
	for _, p := range models.Presets() {
		if !strings.Contains(list, "\n  "+p.ID+" ") {
			t.Errorf("%s is not listed", p.ID)
		}
	}
	if n := strings.Count(list, "\n"); n != len(models.Presets())+1 {
		t.Errorf("%d lines for %d presets", n, len(models.Presets()))
	}
}

// TestInspectSums holds that the parameters and states of the parts add up to those of the model, which init lists.
func TestInspectSums(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, id := range []string{"s5-smnist", "lru-smnist", "lstm-smnist", "tcn-image", "s4d-cifar", "mingru-512", "listops"} {
		must(t, "init", id, "-o", id)
		var r inspection
		if err := json.Unmarshal([]byte(must(t, "inspect", id, "--json")), &r); err != nil {
			t.Fatal(err)
		}
		p, err := preset(id)
		if err != nil {
			t.Fatal(err)
		}
		want, err := models.Parameters(p.Config, nil)
		if err != nil || r.Parameters != int64(want) {
			t.Errorf("%s: %d parameters, expected %d (%v)", id, r.Parameters, want, err)
		}
		state := int64(0)
		for _, p := range r.Time.Parts {
			state += p.State
		}
		if state == 0 || state != r.Time.State {
			t.Errorf("%s: the states of the parts have %d numbers, expected %d", id, state, r.Time.State)
		}
	}
}
