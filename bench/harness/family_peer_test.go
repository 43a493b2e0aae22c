package main

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// pythonWithTorch returns a Python with torch. ESSMC_PYTHON may name one.
func pythonWithTorch(t *testing.T) string {
	t.Helper()
	e := &env{work: t.TempDir()}
	if p := os.Getenv("ESSMC_PYTHON"); p != "" {
		e.pythons = []string{p}
	}
	python, err := findPython(t.Context(), e, "torch; torch.nn.functional.scaled_dot_product_attention") // torch 2
	if err != nil {
		t.Skip("no torch 2 (ESSMC_PYTHON names a Python that has it): ", err)
	}
	return python
}

// TestFamilyPeers compares the torch modules of all families with the project's models: whole sequences, and a first step.
func TestFamilyPeers(t *testing.T) {
	dir := filepath.Join("..", "peers")
	p, err := startPeer(t.Context(), "torch", torchEnviron(dir, torchSettings(1)[0]), pythonWithTorch(t),
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
		m, err := e.newFamilyModel(f.name, f.config(familySize{32, 48}))
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
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
				t.Errorf("%s: %s: %v", f.name, c.mode, err)
				continue
			}
			answer := filepath.Join(e.work, "answer.npy")
			if err := j.save(answer); err != nil {
				t.Errorf("%s: %s: %v", f.name, c.mode, err)
				continue
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
				t.Errorf("%s: %s gives %v, expected %v", f.name, c.mode, got, want)
				continue
			}
			off, most := 0.0, 0.0
			for i := range y {
				off, most = max(off, math.Abs(x[i]-y[i])), max(most, math.Abs(y[i]))
			}
			if !(off <= 1e-4*most) {
				t.Errorf("%s: %s, %d × %d: torch's answer differs by %.2g", f.name, c.mode, c.batch, c.steps, off/most)
			}
			if err := model.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestFamilyReferences holds the torch modules to the reference cases.
func TestFamilyReferences(t *testing.T) {
	python := pythonWithTorch(t)
	root := os.Getenv("ESSMC_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	root = filepath.Join(root, "reference-zoo")
	if _, err := os.Stat(root); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no reference cases: ", err)
		}
		t.Skip("no reference cases: ", err)
	}
	dir := filepath.Join("..", "peers")
	cmd := exec.Command(python, filepath.Join(dir, "torch_families.py"), "check", root)
	cmd.Env = append(os.Environ(), torchEnviron(dir, torchSettings(1)[0])...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
