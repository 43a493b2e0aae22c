package main

import (
	"context"
	"maps"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
)

// answer reads a file without passes and runs it.
func answer(t *testing.T, file string, in map[string]tensor.Datum) []float64 {
	t.Helper()
	g, _, err := onnx.ReadFile(file, onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return outputOf(t, g, in)
}

func outputOf(t *testing.T, g *ir.Graph, in map[string]tensor.Datum) []float64 {
	t.Helper()
	o, err := newOurs(context.Background(), g, in, runtime.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	return floats(o.out[g.Outputs[0].Name].(*tensor.Tensor))
}

// TestForms checks that all forms for ONNX Runtime compute the same as the model.
func TestForms(t *testing.T) {
	e := &env{work: t.TempDir()}
	for _, set := range [][][2]string{
		{{"n_layers", "2"}},
		{{"n_layers", "2"}, {"layer.bidirectional", "false"}},
	} {
		m, err := newModel(e, "smnist", set...)
		if err != nil {
			t.Fatal(err)
		}
		x, _, err := m.input(1, 150)
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]tensor.Datum{m.inputName(): x}
		want := outputOf(t, m.graph, in)
		for _, f := range onnxForms {
			file, err := f.write(m)
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
			if d := difference(answer(t, file, in), want); !(d <= 1e-5) {
				t.Errorf("%s, %s: off by %g", m.name, f.name, d)
			}
		}
	}
}

func TestOneStep(t *testing.T) {
	e := &env{work: t.TempDir()}
	m, err := newModel(e, "listops", [2]string{"n_layers", "2"})
	if err != nil {
		t.Fatal(err)
	}
	in, err := stepInputs(m)
	if err != nil {
		t.Fatal(err)
	}
	file, err := m.oneStep()
	if err != nil {
		t.Fatal(err)
	}
	given := maps.Clone(in)
	given["lengths"] = tensor.FromSlice([]int64{1}, 1) // required in an exported file
	if d := difference(answer(t, file, given), outputOf(t, m.graph, in)); !(d <= 1e-5) {
		t.Errorf("off by %g", d)
	}
	two, err := newModel(e, "smnist", [2]string{"n_layers", "1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.oneStep(); err == nil {
		t.Error("a bidirectional model has one step")
	}
}

// TestInChunks checks that chunks are written like those of export: with export's length, both have the same products.
// (The matrices within chunks are constants here. Export gathers them from taps, and engines fold that.)
func TestInChunks(t *testing.T) {
	e := &env{work: t.TempDir()}
	products := func(file string) map[string]int {
		g, _, err := onnx.ReadFile(file, onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, n := range g.Nodes {
			if n.Op.Name != "MatMul" {
				continue
			}
			count["all"]++
			if c := n.Inputs[1].Const; c != nil && !(c.Rank() == 3 && c.Dim(1) == 64 && c.Dim(2) == 64 &&
				c.Dim(0) >= 64) {
				count[tensor.ShapeString(c.Shape())]++
			}
		}
		return count
	}
	for _, p := range paperPresets {
		m, err := newModel(e, p.id, [2]string{"n_layers", "1"})
		if err != nil {
			t.Fatal(err)
		}
		whole, err := m.onnx()
		if err != nil {
			t.Fatal(err)
		}
		want := products(whole)
		file, err := m.inChunks(64)
		if err != nil {
			t.Fatal(err)
		}
		if got := products(file); !maps.Equal(got, want) {
			t.Errorf("%s: %v, expected %v", p.id, got, want)
		}
	}
}

// TestFused checks the list of passes from which the forms are made.
func TestFused(t *testing.T) {
	e := &env{work: t.TempDir()}
	m, err := newModel(e, "smnist", [2]string{"n_layers", "1"})
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.fused()
	if err != nil {
		t.Fatal(err)
	}
	systems := 0
	for _, n := range g.Nodes {
		if n.Op.FullName() == "essm.SSM" {
			systems++
		}
	}
	if systems != 1 {
		t.Errorf("%d systems, expected 1 of %d nodes after %s", systems, len(g.Nodes), passes.DCE.Name)
	}
}
