package main

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

const dir = "../testdata/classify"

// answers are those of transformers (../testdata/make.py).
func answers(t *testing.T) (a struct {
	Texts         []string
	Probabilities [][]float64
}) {
	text, err := os.ReadFile(dir + "/answers.json")
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil || len(a.Texts) < 6 || len(a.Probabilities) != len(a.Texts) {
		t.Fatal(len(a.Texts), len(a.Probabilities), err)
	}
	return a
}

func TestClassify(t *testing.T) {
	want := answers(t)
	c, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.model.Close()
	got, err := c.classify(t.Context(), want.Texts)
	if err != nil || len(got) != len(want.Texts) {
		t.Fatal(len(got), err)
	}
	for i, text := range want.Texts {
		for class, p := range want.Probabilities[i] {
			if d := math.Abs(got[i][class] - p); !(d <= 1e-5) {
				t.Errorf("%q, class %d: %v, transformers has %v", text, class, got[i][class], p)
			}
		}
	}
}

func TestRun(t *testing.T) {
	want := answers(t)
	var fromArgs, fromLines strings.Builder
	if err := run(append([]string{"-dir", dir}, want.Texts...), nil, &fromArgs); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-dir", dir}, strings.NewReader(strings.Join(want.Texts, "\n")), &fromLines); err != nil {
		t.Fatal(err)
	}
	if fromArgs.String() != fromLines.String() {
		t.Errorf("from arguments:\n%s\nfrom standard input:\n%s", &fromArgs, &fromLines)
	}
	// The highest of the probabilities comes first, with its name.
	names, best := []string{"negative", "neutral", "positive"}, 0
	for class, p := range want.Probabilities[0] {
		if p > want.Probabilities[0][best] {
			best = class
		}
	}
	lines := strings.Split(fromArgs.String(), "\n")
	if len(lines) != 4*len(want.Texts)+1 || lines[0] != want.Texts[0] || !strings.HasSuffix(lines[1], "  "+names[best]) {
		t.Errorf("%q", lines)
	}
	if err := run([]string{"-dir", t.TempDir(), "a"}, nil, &fromArgs); err == nil {
		t.Error("an empty directory: no error")
	}
}
