package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
)

// boundsFiles makes models for tests of bounds, in a new directory: those of fixtures; mamba and mamba.essm, a language
// model; mamba.pt, its state dict; and forever.txt, which runs for hours.
func boundsFiles(t *testing.T) {
	t.Helper()
	fixtures(t)
	must(t, "init", "mamba-130m", "-o", "mamba", "--set", "hidden_size=16", "--set", "num_hidden_layers=2", "--set", "vocab_size=32")
	must(t, "compile", "mamba", "-o", "mamba.essm")
	w, err := safetensors.ReadDir("mamba")
	if err != nil {
		t.Fatal(err)
	}
	writeTorch(t, "mamba.pt", w)
	writeBytes(t, "forever.txt", []byte(`<ir_version: 10, opset_import: ["" : 20]>
		g (float[N] a) => (float[N] y) <int64 m = {1000000000000}> {
			y = Loop (m, "", a) <body: graph = step (int64 t, bool c, float[N] p) => (bool d, float[N] q) {
				d = Identity (c)
				q = Cos (p)
			}>
		}`))
}

// fileSize returns the size of a file.
func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

// TestMaxMemory gives each command less memory than its model or run needs, and enough.
func TestMaxMemory(t *testing.T) {
	boundsFiles(t)
	waves, weights := fileSize(t, "waves.essm"), fileSize(t, "waves/model.safetensors")
	for _, c := range []struct {
		line  string
		bytes int64 // that are too few
		want  string
	}{
		{"run waves.essm --input waves.npy", waves - 1, "waves.essm: too large: expected at most"},
		{"run waves.essm --input waves.npy", waves, "bytes of memory, the limit is 1"},
		{"run waves --input waves.npy --device ref", weights - 1, "waves/model.safetensors: too large: expected at most"},
		{"stream waves.essm", waves - 1, "waves.essm: too large: expected at most"},
		{"stream waves.essm", waves, "bytes of memory, the limit is 1"},
		{"generate mamba.essm --prompt-ids 1,2", fileSize(t, "mamba.essm") - 1, "mamba.essm: too large: expected at most"},
		{"generate mamba.essm --prompt-ids 1,2", fileSize(t, "mamba.essm"), "bytes of memory, the limit is 1"},
		{"bench waves.essm --shape 1x8 --repeat 1", waves - 1, "waves.essm: too large: expected at most"},
		{"bench waves.essm --shape 1x8 --repeat 1", waves, "bytes of memory, the limit is 1"},
		{"bench waves.essm --shape 1x100000 --repeat 1", 1 << 20, `input "input": too large: expected at most`},
		{"verify waves.essm --input waves.npy --expect y.npy", waves, "bytes of memory, the limit is 1"},
		{"convert mamba.pt --config mamba/config.json -o OUT", fileSize(t, "mamba.pt") - 1, "mamba.pt: too large: expected at most"},
		{"convert mamba --prefix backbone -o OUT", 1000, "mamba/model.safetensors: too large: expected at most"},
		{"compile waves -o OUT", weights - 1, "waves/model.safetensors: too large: expected at most"},
		{"compile forever.txt -o OUT", 20, "forever.txt: too large: expected at most"},
	} {
		if strings.HasPrefix(c.line, "verify") {
			must(t, "run", "waves.essm", "--input", "waves.npy", "--output", "output=y.npy")
		}
		before := contents(t)
		limit := fmt.Sprint(c.bytes)
		var out, errs bytes.Buffer
		args := append(strings.Fields(c.line), "--max-memory", limit)
		code := Main(args, strings.NewReader("1,2,3\n"), &out, &errs)
		if msg := errs.String(); code != 1 || !strings.Contains(msg, c.want) || !strings.HasSuffix(msg, "; raise --max-memory "+limit+"\n") {
			t.Errorf("%s with %s bytes: %d, %s, expected %q", c.line, limit, code, msg, c.want)
		}
		sameFiles(t, before)
		if strings.Contains(c.line, "--prefix") { // nothing is behind it
			continue
		}
		args[len(args)-1] = "64MiB"
		if code := Main(args, strings.NewReader("1,2,3\n"), &out, &errs); code != 0 {
			t.Errorf("%s with 64 MiB: %s", c.line, errs.String())
		}
		os.RemoveAll("OUT")
	}
}

// TestTimeout gives each command less time than it takes, and enough.
func TestTimeout(t *testing.T) {
	boundsFiles(t)
	writeBytes(t, "x.csv", []byte("1\n2\n3\n"))
	endless, never := io.Pipe()
	defer never.Close()
	for _, c := range []struct{ line, timeout string }{
		{"run waves --input waves.npy --output OUT.npy", "1ns"},
		{"run forever.txt --input [1,2,3] --output OUT.npy", "60ms"},
		{"run forever.txt --input [1,2,3] --output OUT.npy --device ref", "60ms"},
		{"stream waves", "1ns"},
		{"stream waves", "60ms"}, // no input comes
		{"stream waves --snapshot OUT.state", "60ms"},
		{"generate mamba --prompt-ids 1", "1ns"},
		{"generate mamba --prompt-ids 1 --max-new-tokens 10000000", "60ms"},
		{"bench waves --shape 1x8 --repeat 1", "1ns"},
		{"bench forever.txt --shape N=3", "60ms"},
		{"convert mamba.pt --config mamba/config.json -o OUT", "1ns"},
		{"convert mamba --prefix backbone -o OUT", "1ns"},
		{"compile waves -o OUT", "1ns"},
		{"verify waves --input waves.npy --expect waves.npy", "1ns"},
	} {
		before := contents(t)
		var errs bytes.Buffer
		args := append(strings.Fields(c.line), "--timeout", c.timeout)
		began := time.Now()
		code := Main(args, endless, io.Discard, &errs)
		want := "essmc: stopped by --timeout after " + c.timeout + "; no file was written; try a longer time\n"
		if msg := errs.String(); code != 1 || msg != want {
			t.Errorf("%s: %d, %s, expected %s", strings.Join(args, " "), code, msg, want)
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("%s: took %v", strings.Join(args, " "), d)
		}
		sameFiles(t, before)
	}
	for _, line := range []string{"run waves --input waves.npy", "stream waves", "generate mamba --prompt-ids 1 --max-new-tokens 2",
		"bench waves --shape 1x8 --repeat 1", "convert mamba.pt --config mamba/config.json -o OUT", "compile waves -o OUT.essm"} {
		must(t, append(strings.Fields(line), "--timeout", "10m")...)
	}
}

// TestBoundFlags reads sizes and times.
func TestBoundFlags(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "1073741824": 1 << 30, "9007199254740993": 1<<53 + 1, "512MiB": 512 << 20,
		"512mib": 512 << 20, "2GB": 2e9, "1.5GiB": 3 << 29, "64 KiB": 64 << 10, "1e3": 1000, "3B": 3, "1TB": 1e12, "2TiB": 2 << 40} {
		var s byteFlag
		if err := s.Set(text); err != nil || s.value != want || s.String() != text {
			t.Errorf("%s: %d, %v, expected %d", text, s.value, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "MiB", "12XB", "12 34", "1e300", "NaN", "Inf", "0.5", "1GiBB", "5M"} {
		var s byteFlag
		if err := s.Set(text); err == nil {
			t.Errorf("%q: %d, expected an error", text, s.value)
		}
	}
	for _, c := range []struct{ line, want string }{
		{"run waves --max-memory lots", "essmc run: --max-memory lots: expected a size above 0, as in 512MiB, 2GB or 1073741824"},
		{"compile waves -o z --timeout 30", "essmc compile: --timeout 30: expected a time above 0, as in 30s, 5m or 1h30m"},
		{"compile waves -o z --timeout -1s", "--timeout -1s: expected a time above 0"},
	} {
		if code, _, errs := essmc(strings.Fields(c.line)...); code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %s", c.line, code, errs)
		}
	}
}
