package main

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

const dir = "../testdata/embeddings"

// answers are those of transformers (../testdata/make.py).
func answers(t *testing.T) (a struct {
	Texts      []string
	Embeddings [][]float64
}) {
	text, err := os.ReadFile(dir + "/answers.json")
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil || len(a.Texts) < 6 || len(a.Embeddings) != len(a.Texts) {
		t.Fatal(len(a.Texts), len(a.Embeddings), err)
	}
	return a
}

func TestEmbed(t *testing.T) {
	want := answers(t)
	e, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer e.model.Close()
	// More texts than are computed at a time, so that texts meet other ones and other padding.
	texts := want.Texts
	for len(texts) < 40 {
		texts = append(texts[:len(texts):len(texts)], want.Texts...)
	}
	got, err := e.embed(t.Context(), texts)
	if err != nil || len(got) != len(texts) {
		t.Fatal(len(got), err)
	}
	for i, text := range texts {
		for f, x := range want.Embeddings[i%len(want.Texts)] {
			if d := math.Abs(float64(got[i][f]) - x); !(d <= 1e-5) {
				t.Fatalf("text %d %q, feature %d: %v, transformers has %v", i, text, f, got[i][f], x)
			}
		}
	}
}

func TestRun(t *testing.T) {
	want := answers(t)
	var out strings.Builder
	query := want.Texts[1]
	if err := run([]string{"-dir", dir, "-top", "3", query}, strings.NewReader(strings.Join(want.Texts, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || lines[0] != "1.0000  "+query || lines[1][:6] < lines[2][:6] {
		t.Errorf("%q", lines)
	}
	for _, args := range [][]string{{"-dir", dir}, {"-dir", t.TempDir(), "a"}} {
		if err := run(args, strings.NewReader("a\n"), &out); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
