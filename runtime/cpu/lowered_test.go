package cpu

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise"
	"github.com/essmc/essmc/runtime"
)

// loweredCosts are fixed costs, so that all variants of the kernels choose the same forms.
var loweredCosts = Costs{Scan: 0.4, ComplexScan: 4, FFT: 0.16, Pass: 0.25, Call: 250, Direct: 3.7, Output: 9,
	Dense: 6.2, Gemm: 93}

// TestLowered compares printed programs with golden files: presets of two layers, and graphs as exporters write them,
// with and without passes. Bindings are of a few steps and of many.
func TestLowered(t *testing.T) {
	for _, p := range essm.Presets() {
		p.Config.NLayers = 2
		w, err := essm.Init(p.Config, p.Init, 1)
		if err != nil {
			t.Fatal(err)
		}
		g, err := models.Build(p.Config, w, models.BuildOptions{Name: p.ID})
		if err != nil {
			t.Fatal(err)
		}
		if err := passes.Optimize(g); err != nil {
			t.Fatal(err)
		}
		t.Run(p.ID, func(t *testing.T) { lowered(t, p.ID, g) })
	}
	for _, c := range []struct {
		name   string
		passes bool
	}{
		{"conv_s4d", true}, {"conv_s4d", false}, {"conv_essm_bidirectional", true}, {"dynamo_s4d_any_length", true},
		{"dynamo_s4d_any_length", false},
		{"dynamo_s4d_kernel", false}, {"loop_block", true}, {"loop_block", false}, {"loop_selective", true},
		{"loop_selective", false},
		{"loop_reversed_concat", false}, {"loop_tanh", true}, {"unrolled_tanh", true}, {"unrolled_s4d", true},
	} {
		g, _, err := onnx.ReadFile(filepath.Join("..", "..", "passes", "raise", "testdata", "exporters",
			c.name+".onnx"), onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		name := c.name + "-as-it-is"
		if c.passes {
			name = c.name
			if err := passes.Run(g, slices.Concat(raise.Pipeline(), passes.Pipeline()), passes.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(name, func(t *testing.T) { lowered(t, name, g) })
	}
	for _, name := range []string{"mamba", "shifts", "wavenet"} { // sequences that become rows
		t.Run(name, func(t *testing.T) { lowered(t, "sequences-"+name, seqGraph(t, name, 5)) })
	}
}

// lowered compares the texts of one graph with its file.
func lowered(t *testing.T, name string, g *ir.Graph) {
	m, err := runtime.New(g, runtime.Options{Backend: New(WithCosts(loweredCosts)), Threads: someThreads})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	text, err := m.Lowered(nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &txtar.Archive{Comment: []byte("Written by go test -run Lowered -update.\n\n"),
		Files: []txtar.File{{Name: "program", Data: []byte(text)}}}
	symbols := symbolsOf(g)
	for _, steps := range []int64{40, 6000} {
		dims := map[string]int64{}
		var title []string
		for _, s := range symbols {
			if dims[s] = steps; s == "B" || s == "P" || s == "batch" {
				dims[s] = 2
			}
			title = append(title, fmt.Sprintf("%s=%d", s, dims[s]))
		}
		if text, err = m.Lowered(dims); err != nil {
			t.Fatal(err)
		}
		if last := a.Files[len(a.Files)-1]; string(last.Data) == text { // no symbol is of time
			break
		}
		a.Files = append(a.Files, txtar.File{Name: strings.TrimSpace("plan " + strings.Join(title, ", ")),
			Data: []byte(text)})
	}
	got, file := txtar.Format(a), filepath.Join("testdata", "lowered", name+".txtar")
	want, err := os.ReadFile(file)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %s; go test -run Lowered -update writes it anew", file,
			firstDifference(string(got), string(want)))
	}
}

// symbolsOf returns the symbols of the inputs' dimensions, in order.
func symbolsOf(g *ir.Graph) (all []string) {
	for _, v := range g.Inputs {
		if tt, ok := ir.AsTensor(v.Type); ok {
			for _, d := range tt.Shape {
				all = append(all, d.Symbols()...)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is\n%s\nexpected\n%s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, expected %d", len(a), len(b))
}
