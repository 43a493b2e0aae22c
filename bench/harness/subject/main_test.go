package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models/essm"
)

// TestJobs loads, identifies, runs and drops all kinds of jobs except those of ONNX files.
func TestJobs(t *testing.T) {
	p, err := essm.NewPreset("smnist")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Config.Settings().Set("layer.bidirectional", "false"); err != nil {
		t.Fatal(err)
	}
	w, err := essm.Init(p.Config, p.Init, 1)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := checkpoint.WriteDir(dir, p.Config, w); err != nil {
		t.Fatal(err)
	}
	x := filepath.Join(dir, "x.npy")
	if err := arrays.Write(x, tensor.FromSlice([]float32{0, 0.5, 1}, 1, 3, 1)); err != nil {
		t.Fatal(err)
	}
	s := &subject{dir: t.TempDir()}
	ask := func(words ...string) string {
		t.Helper()
		out, err := s.handle(context.Background(), words)
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		return out
	}
	hashes := map[string]string{}
	for i, load := range [][]string{{"preset", dir, x, "1"}, {"preset", dir, x, "2"}, {"stream", dir, x, "1", "1"},
		{"stream", dir, x, "1", "3"}, {"plan", dir}} {
		id := strings.TrimPrefix(ask(append([]string{"load"}, load...)...), "ok\t")
		first, again := strings.Split(ask("facts", id), "\t"), strings.Split(ask("facts", id), "\t")
		if len(first) != 3 || first[1] != again[1] {
			t.Errorf("%q: %q, then %q", load, first, again)
		}
		hashes[strings.Join(append([]string{load[0]}, load[min(3, len(load)):]...), " ")] = first[1]
		if out := ask("run", id, "2"); len(strings.Split(out, "\t")) != 3 {
			t.Errorf("run %d: %q", i, out)
		}
		ask("drop", id)
		if _, err := s.handle(context.Background(), []string{"run", id, "1"}); err == nil {
			t.Error("a job that was dropped runs")
		}
	}
	if hashes["preset 1"] != hashes["preset 2"] || hashes["stream 1 1"] != hashes["stream 1 3"] ||
		hashes["preset 1"] == hashes["stream 1 1"] {
		t.Errorf("answers of one and two threads, of one stream and of three, and of a stream after more steps: %q",
			hashes)
	}
	for _, words := range [][]string{{"load", "nothing"}, {"load", "preset", dir, x, "0"},
		{"load", "stream", dir, x, "1", "0"}, {"load", "model", "no file", "1"}, {"run", "0"}, {"x"}, {"facts", "99"}} {
		if _, err := s.handle(context.Background(), words); err == nil {
			t.Errorf("%q is answered", words)
		}
	}
}
