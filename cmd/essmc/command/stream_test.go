package command

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/ir/tensor"
)

// essmcWith runs the command with a standard input.
func essmcWith(stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Main(args, stdin, &out, &errs)
	return code, out.String(), errs.String()
}

// streamed runs the command, which must succeed.
func streamed(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	code, stdout, stderr := essmcWith(strings.NewReader(stdin), args...)
	if code != 0 {
		t.Fatalf("essmc %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// lines returns steps of width numbers as text.
func lines(v []float32, width int) string {
	var b strings.Builder
	for i, x := range v {
		b.WriteString(strconv.FormatFloat(float64(x), 'g', -1, 32))
		b.WriteByte(map[bool]byte{true: '\n', false: ','}[(i+1)%width == 0])
	}
	return b.String()
}

// parse reads the text of lines.
func parse(t *testing.T, text string) []float32 {
	t.Helper()
	var v []float32
	for _, s := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		x, err := strconv.ParseFloat(s, 32)
		if err != nil {
			t.Fatal(err)
		}
		v = append(v, float32(x))
	}
	return v
}

// causal adds models to those of fixtures: "sums" (classifies the sequence, with lengths) with a plan, "twos" (takes
// pairs), and "ahead" (looks ahead by some steps).
func causal(t *testing.T) {
	t.Helper()
	fixtures(t)
	must(t, "init", "listops", "-o", "sums", "--set", "d_model=8", "--set", "n_layers=2", "--set", "layer.heads=2",
		"--set", "layer.d_state=8", "--seed", "2")
	must(t, "compile", "sums", "-o", "sums.essm")
	must(t, "init", "retrieval", "-o", "twos", "--set", "layer.bidirectional=false", "--set", "d_model=8", "--set",
		"n_layers=1", "--set", "layer.heads=2", "--set", "layer.d_state=8")
	must(t, "init", "image", "-o", "ahead", "--set", "encoder.d_input=3", "--set", "decoder.mode=none", "--set",
		"decoder.d_output=2", "--set", "layer.max_kernel_length=3",
		"--set", "d_model=8", "--set", "n_layers=2", "--set", "layer.heads=2", "--set", "layer.d_state=8", "--seed",
		"1")
}

// TestRunStream checks that run --stream gives the outputs of run, for all sizes of chunks and kinds of models.
func TestRunStream(t *testing.T) {
	causal(t)
	must(t, "export", "waves", "-o", "waves.onnx", "--functions")
	must(t, "run", "waves", "-i", "waves.npy", "-o", "state_out=state.npy")
	for _, c := range [][]string{
		{"waves", "-i", "waves.npy"}, {"waves.essm", "-i", "waves.npy"},
		{"waves.onnx", "-i", "input=waves.npy", "-i", "state_in=state.npy"},
		{"ahead", "-i", "waves.npy"},
		{"sums", "-i", "tokens.npy"}, {"sums.essm", "-i", "tokens.npy", "-i", "lengths=lengths.npy"},
		{"waves", "-i", "waves.npy", "--device", "ref", "--precision", "float64"},
	} {
		must(t, append([]string{"run", "-o", "output=whole.npy"}, c...)...)
		for _, chunk := range []string{"1", "2", "3", "100"} {
			must(t, append([]string{"run", "-o", "output=chunks.npy", "--stream", chunk}, c...)...)
			if e := largest(t, read(t, "chunks.npy"), read(t, "whole.npy")); !(e <= 1e-5) {
				t.Errorf("%v in chunks of %s: error %.3g", c, chunk, e)
			}
		}
	}
	if out := must(t, "run", "waves.essm", "-i", "waves.npy", "--stream", "2"); !strings.HasPrefix(out,
		"output  float32[2,5,2]") || strings.Contains(out, "state") {
		t.Errorf("summary: %s", out)
	}
	for want, args := range map[string][]string{
		"bidirectional, looks ahead without bound": {"run", "voice.essm", "-i", "voice.npy", "--stream", "4"},
		"layers.0":            {"run", "voice.essm", "-i", "voice.npy", "--stream", "4"},
		"expected an integer": {"run", "waves.essm", "-i", "waves.npy", "--stream", "0"},
		`output "state_out": is a state`: {"run", "waves.essm", "-i", "waves.npy", "--stream", "2", "-o",
			"state_out=s.npy"},
		"--dump": {"run", "waves", "-i", "waves.npy", "--stream", "2", "--dump", "d"},
	} {
		if code, _, stderr := essmc(args...); code == 0 || !strings.Contains(stderr, want) ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}

// TestStream checks that stream answers each step, and continues from snapshots.
func TestStream(t *testing.T) {
	causal(t)
	x := ramp(8 * 3)
	write(t, "x.npy", tensor.FromSlice(x, 1, 8, 3))
	must(t, "run", "waves.essm", "-i", "x.npy", "-o", "output=y.npy")
	want := tensor.Data[float32](read(t, "y.npy"))
	same := func(what string, got []float32) {
		t.Helper()
		if len(got) != len(want) || !(largest(t, tensor.FromSlice(got, len(got)),
			tensor.FromSlice(want, len(want))) <= 1e-5) {
			t.Errorf("%s: expected %v, found %v", what, want, got)
		}
	}
	for _, model := range []string{"waves", "waves.essm", "ahead"} {
		must(t, "run", model, "-i", "x.npy", "-o", "output=y.npy")
		want = tensor.Data[float32](read(t, "y.npy"))
		for _, chunk := range []string{"1", "3", "100"} {
			same(model+" by "+chunk, parse(t, streamed(t, lines(x, 3), "stream", model, "--chunk", chunk)))
		}
	}
	// A plan's snapshot continues with the model that the plan was compiled from.
	must(t, "run", "waves", "-i", "x.npy", "-o", "output=y.npy")
	want = tensor.Data[float32](read(t, "y.npy"))
	planned := streamed(t, lines(x[:12], 3), "stream", "waves.essm", "--snapshot", "state")
	same("from plan to directory", parse(t, planned+streamed(t, lines(x[12:], 3), "stream", "waves", "--restore",
		"state")))
	if code, _, stderr := essmc("stream", "waves", "--restore", "state", "--device", "ref"); code != 1 ||
		!strings.Contains(stderr, "models differ if") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	must(t, "run", "ahead", "-i", "x.npy", "-o", "output=y.npy")
	want = tensor.Data[float32](read(t, "y.npy"))
	first := streamed(t, lines(x[:15], 3), "stream", "ahead", "--snapshot", "state", "--chunk", "2")
	second := streamed(t, "\n"+lines(x[15:], 3), "stream", "ahead", "--restore", "state")
	same("in two runs", parse(t, first+second))
	must(t, "run", "waves", "-i", "x.npy", "-o", "output=y.npy")
	want = tensor.Data[float32](read(t, "y.npy"))

	var raw []byte
	for _, v := range x {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	out := streamed(t, string(raw), "stream", "waves.essm", "--format", "f32", "--chunk", "3")
	var got []float32
	for i := 0; i+4 <= len(out); i += 4 {
		got = append(got, math.Float32frombits(binary.LittleEndian.Uint32([]byte(out[i:]))))
	}
	same("raw", got)

	must(t, "run", "sums.essm", "-i", "tokens.npy", "-o", "output=y.npy")
	want = tensor.Data[float32](read(t, "y.npy"))[:10]
	answers := strings.SplitAfter(streamed(t, "1\n2\n3\n4\n", "stream", "sums.essm"), "\n")
	if len(answers) != 5 {
		t.Fatalf("expected an answer after each of 4 steps, found %q", answers)
	}
	same("the answer so far", parse(t, answers[3]))
	if out := streamed(t, "", "stream", "waves.essm"); out != "" {
		t.Errorf("no steps give %q", out)
	}
}

// TestStreamInteractive checks that outputs are written before the input ends.
func TestStreamInteractive(t *testing.T) {
	causal(t)
	in, steps := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan int)
	go func() {
		done <- Main([]string{"stream", "sums.essm"}, in, out, io.Discard)
		out.Close()
	}()
	for _, step := range []string{"1\n", "2\n"} {
		if _, err := io.WriteString(steps, step); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4096)
		if n, err := answers.Read(b); err != nil || !bytes.HasSuffix(b[:n], []byte("\n")) {
			t.Fatalf("found %q, %v", b[:n], err)
		}
	}
	steps.Close()
	select {
	case code := <-done:
		if code != 0 {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(10 * time.Second):
		t.Error("does not end with its input")
	}
}

// TestStreamExported checks that an exported model streams from its ONNX file, and from a plan of that, also from a
// given state.
func TestStreamExported(t *testing.T) {
	causal(t)
	x := ramp(8 * 3)
	write(t, "x.npy", tensor.FromSlice(x, 1, 8, 3))
	for _, model := range []string{"waves", "sums"} {
		steps, file := lines(x, 3), "x.npy"
		if model == "sums" {
			steps, file = "1\n2\n3\n4\n1\n", "[[1,2,3,4,1]]"
		}
		want := parse(t, streamed(t, steps, "stream", model))
		if model == "sums" {
			// with lengths, the exported graph has no step graph
			must(t, "export", model, "-o", "exported.onnx", "--without-optional")
		} else {
			must(t, "export", model, "-o", "exported.onnx")
		}
		must(t, "compile", "exported.onnx", "-o", "exported.essm")
		for _, exported := range []string{"exported.onnx", "exported.essm"} {
			got := parse(t, streamed(t, steps, "stream", exported))
			if len(got) != len(want) || !(largest(t, tensor.FromSlice(got, len(got)),
				tensor.FromSlice(want, len(want))) <= 1e-5) {
				t.Errorf("%s of %s: expected %v, found %v", exported, model, want, got)
			}
			must(t, "run", exported, "-i", "input="+file, "--stream", "2", "-o", "output=z.npy")
			z := read(t, "z.npy")
			if last := tensor.Data[float32](z); !(largest(t, z,
				tensor.FromSlice(want[len(want)-len(last):], z.Shape()...)) <= 1e-5) {
				t.Errorf("run --stream, %s of %s: expected %v, found %v", exported, model, want, last)
			}
		}
	}
}

// detector takes chunks with its state, like recurrent models in ONNX. Because of the reflection it has no step graph.
const detector = `<ir_version: 10, opset_import: ["" : 24], metadata_props: ["essmc.batch": "B", "essmc.time": "L"]>
g (float[B,L] x, float[1,B,1] s, int64 rate) => (float[B,1] y, float[1,B,1] next) <int64[4] pads = {0, 1, 0, 1}, int64[1] one = {1}, int64[1] zero = {0}, float half = {0.5}> {
	p = Pad <mode: string = "reflect"> (x, pads)
	m = ReduceMean (p, one)
	u = Unsqueeze (m, zero)
	h = Mul (s, half)
	next = Add (h, u)
	w = Squeeze (next, zero)
	r = Cast <to: int = 1> (rate)
	y = Mul (w, r)
}
`

// TestStreamCarried checks that a model which takes its state with each chunk gives the same as when the state is
// passed by hand.
func TestStreamCarried(t *testing.T) {
	fixtures(t)
	if err := os.WriteFile("vad.txt", []byte(detector), 0o666); err != nil {
		t.Fatal(err)
	}
	x := ramp(4 * 3)
	var want []float32
	write(t, "s.npy", tensor.New(tensor.Float32, 1, 1, 1))
	for i := range 3 {
		write(t, "c.npy", tensor.FromSlice(x[4*i:4*i+4], 1, 4))
		must(t, "run", "vad.txt", "-i", "x=c.npy", "-i", "s=s.npy", "-i", "rate=2", "-o", "y=y.npy", "-o", "next=s.npy", "--force")
		want = append(want, tensor.Data[float32](read(t, "y.npy"))...)
	}
	same := func(what string, got []float32) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: expected %v, found %v", what, want, got)
		}
	}
	args := []string{"stream", "vad.txt", "--state", "s=next", "-i", "rate=2", "--chunk", "4"}
	same("stream", parse(t, streamed(t, lines(x, 1), args...)))
	same("ref", parse(t, streamed(t, lines(x, 1), append(args, "--device", "ref")...)))
	same("fixed size", parse(t, streamed(t, lines(x, 4), "stream", "vad.txt", "--state", "s=next", "-i", "rate=2",
		"--shape", "x=1,4")))
	must(t, "compile", "vad.txt", "-o", "vad.essm", "--state", "s=next")
	first := streamed(t, lines(x[:4], 1), "stream", "vad.essm", "-i", "rate=2", "--chunk", "4", "--snapshot",
		"vad.state")
	second := streamed(t, lines(x[4:], 1), "stream", "vad.essm", "-i", "rate=2", "--chunk", "4", "--restore",
		"vad.state")
	same("in two runs", parse(t, first+second))
	write(t, "x.npy", tensor.FromSlice(x, 1, 12))
	must(t, "run", "vad.txt", "-i", "x=x.npy", "-i", "rate=2", "--state", "s=next", "--stream", "4", "-o", "y=y.npy")
	if y := read(t, "y.npy"); !slices.Equal(y.Shape(), []int{3, 1, 1}) {
		t.Errorf("run --stream: expected an answer for each of 3 chunks, found %s", y)
	} else {
		same("run --stream", tensor.Data[float32](y))
	}
	// The last chunk is padded with zeros.
	if got := parse(t, streamed(t, lines(x[:11], 1), args...)); len(got) != 3 || got[1] != want[1] ||
		got[2] == want[2] {
		t.Errorf("11 steps: found %v, for 12 %v", got, want)
	}
	for _, c := range []struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		{"1\n", []string{"stream", "vad.txt", "-i", "rate=2"}, 1,
			`vad.txt: cannot run step by step: graph g has no step graph: Pad`},
		{"1\n", []string{"stream", "vad.txt", "--state", "s=next"}, 1,
			`needs input "rate" besides the steps: --input rate=VALUE`},
		{"1\n", []string{"stream", "vad.txt", "--state", "s=y", "-i", "rate=1"}, 1,
			`input s is float[1,B,1], but output y, which should be passed to it, is float[B,1]`},
		{"1\n", []string{"stream", "vad.txt", "--state", "s=z"}, 1,
			`vad.txt: --state: the model has no output "z" that could be passed to input "s"`},
		{"1\n", []string{"stream", "vad.txt", "--state", "s"}, 2, `expected INPUT=OUTPUT, as in state=stateN`},
		{"1\n", []string{"stream", "vad.essm", "--state", "s=next"}, 2, `the states of a plan are fixed`},
		{"1\n", []string{"stream", "vad.essm", "-i", "rate=2", "-i", "x=[[1]]"}, 1,
			`input "x" comes from standard input`},
		{"1\n", []string{"stream", "vad.txt", "--state", "s=next", "-i", "rate=2", "--shape", "x=1,4", "--chunk", "4"},
			1, `input "x": has no time dimension, so a chunk is one step, found --chunk 4`},
		{lines(x[:6], 1), append(args, "--snapshot", "bad.state"), 1,
			`ends 2 steps into a chunk, but this model takes multiples of 4`},
		{"", []string{"run", "vad.txt", "-i", "x=x.npy", "-i", "rate=2", "--state", "s=next"}, 2,
			`--state needs --stream CHUNK`},
	} {
		code, _, stderr := essmcWith(strings.NewReader(c.stdin), c.args...)
		if code != c.code || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, expected %d and %q: %s", c.args, code, c.code, c.want, stderr)
		}
	}
}

// TestStreamBad checks that errors are one line, and that no state is written then.
func TestStreamBad(t *testing.T) {
	causal(t)
	if err := os.WriteFile("junk", []byte("junk"), 0o666); err != nil {
		t.Fatal(err)
	}
	streamed(t, "1\n2\n", "stream", "sums.essm", "--snapshot", "sums.state")
	for _, c := range []struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		{"1,2\n", []string{"waves.essm"}, 1, "waves.essm: standard input: line 1: expected 3 numbers, found 2"},
		{"1,2,3\n\n1,x,3\n", []string{"waves.essm"}, 1, `standard input: line 3: expected a number, found "x"`},
		{"1\n", []string{"twos"}, 1,
			`twos: input "input": takes several sequences at once, int64[2*P,L]; stream supports one`},
		{"1.5\n", []string{"sums.essm"}, 1, "expected integers, found 1.5"},
		{"99\n", []string{"sums.essm"}, 1, "99"},
		{"12345", []string{"waves.essm", "--format", "f32"}, 1, "ends within a step: expected 12 bytes, found 5"},
		{"1\n", []string{"voice.essm"}, 1, "layers.0 (essm.SSM): bidirectional, looks ahead without bound"},
		{"1,2,3\n", []string{"waves.essm", "-o", "nothing"}, 1, `a stream has no output "nothing"; it has output`},
		{"", []string{"waves.essm", "--restore", "none"}, 1, "none: no such file or directory"},
		{"", []string{"waves.essm", "--restore", "junk"}, 1, "junk: not a snapshot"},
		{"", []string{"waves.essm", "--restore", "sums.state"}, 1, "sums.state: snapshot: is of the model with hash"},
		{"", []string{"waves.essm", "--chunk", "0"}, 2, "expected an integer of at least 1"},
		{"", []string{"waves.essm", "--format", "xml"}, 2, "expected one of csv, f32"},
		{"1,2\n", []string{"waves.essm", "--snapshot", "bad.state"}, 1, "line 1"},
	} {
		code, _, stderr := essmcWith(strings.NewReader(c.stdin), append([]string{"stream"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, expected %d and %q: %s", c.args, code, c.code, c.want, stderr)
		}
	}
	if _, err := os.Stat("bad.state"); !os.IsNotExist(err) {
		t.Errorf("a failed run left a state: %v", err)
	}
}
