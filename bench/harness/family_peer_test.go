package main

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// TestFamilyPeers compares the torch modules of all families with the project's models: whole sequences, and a first step.
// Families that need a newer torch are skipped.
func TestFamilyPeers(t *testing.T) {
	python := shared.Python(t, "numpy", "torch")
	dir := filepath.Join("..", "peers")
	p, err := startPeer(t.Context(), "torch", torchEnviron(dir, torchSettings(1)[0]), python,
		filepath.Join(dir, "torch_families.py"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	all, err := registered()
	if err != nil {
		t.Fatal(err)
	}
	e := &env{work: t.TempDir()}
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) { familyPeer(t, e, p, f) })
	}
}

func familyPeer(t *testing.T, e *env, p *peer, f family) {
	m, err := e.newFamilyModel(f.name, f.config(familySize{32, 48}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode         string
		batch, steps int
	}{{"whole", 2, 48}, {"whole", 1, 37}, {"step", 1, 1}} {
		if c.mode == "step" && !m.config.Common().Streams || c.mode == "whole" && f.name == "liquid-s4" && c.steps != 48 {
			continue
		}
		in, file, err := m.input(c.batch, c.steps)
		if err != nil {
			t.Fatal(err)
		}
		j, err := p.load(1, c.mode, m.dir, "float", file)
		if err != nil {
			if c.mode == "step" && f.name == "essm" {
				continue // torch_essm.py has no steps
			}
			skipOlder(t, err.Error())
			t.Fatalf("%s: %v", c.mode, err)
		}
		answer := filepath.Join(e.work, "answer.npy")
		if err := j.save(answer); err != nil {
			skipOlder(t, err.Error())
			t.Fatalf("%s: %v", c.mode, err)
		}
		j.drop()
		theirs, err := arrays.Read(answer)
		if err != nil {
			t.Fatal(err)
		}
		model, err := m.opened.Compile(runtime.Options{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := model.NewSession().Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		got, want := theirs.Tensor, out["output"].(*tensor.Tensor)
		x, _ := got.Float64s()
		y, _ := want.Float64s()
		if len(x) != len(y) {
			t.Errorf("%s gives %v, expected %v", c.mode, got, want)
			continue
		}
		off, most := 0.0, 0.0
		for i := range y {
			off, most = max(off, math.Abs(x[i]-y[i])), max(most, math.Abs(y[i]))
		}
		if !(off <= 1e-4*most) {
			t.Errorf("%s, %d × %d: torch's answer differs by %.2g", c.mode, c.batch, c.steps, off/most)
		}
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	}
}

// skipOlder skips a test if torch_families.py says that this torch lacks a function (SINCE there).
func skipOlder(t *testing.T, message string) {
	t.Helper()
	if _, why, is := strings.Cut(message, "Lacks: "); is {
		t.Skip(why)
	}
}

// TestFamilyReferences holds the torch modules to the reference cases.
func TestFamilyReferences(t *testing.T) {
	python := shared.Python(t, "numpy", "torch")
	root := shared.Path(t, "reference-zoo")
	dir := filepath.Join("..", "peers")
	cmd := exec.Command(python, filepath.Join(dir, "torch_families.py"), "check", root)
	cmd.Env = append(os.Environ(), torchEnviron(dir, torchSettings(1)[0])...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines {
		name, answer, _ := strings.Cut(line, ": ")
		t.Run(name, func(t *testing.T) {
			if why, is := strings.CutPrefix(answer, "skipped: "); is {
				t.Skip(why)
			} else if strings.Contains(answer, "is above") || strings.Contains(answer, "has no form") {
				t.Error(answer)
			}
		})
	}
	if err != nil && !t.Failed() {
		t.Errorf("%v\n%s%s", err, out, stderr.String())
	}
	if cases, _ := filepath.Glob(filepath.Join(root, "*", "config.json")); len(lines) != len(cases) {
		t.Errorf("%d lines for %d cases", len(lines), len(cases))
	}
}
