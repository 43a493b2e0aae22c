package command

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
)

func TestExport(t *testing.T) {
	fixtures(t)
	read := func(path string) *ir.Graph {
		g, _, err := onnx.ReadFile(path, onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	count := func(g *ir.Graph, domain string) int {
		n := 0
		for _, m := range g.Nodes {
			if m.Op.Domain == domain {
				n++
			}
		}
		return n
	}
	for _, m := range []string{"waves", "tokens", "voice", "pairs", "waves.essm"} {
		if out := must(t, "export", m, "-o", "m.onnx"); !strings.Contains(out, "opset 17") {
			t.Errorf("%s: %s", m, out)
		}
		if g := read("m.onnx"); count(g, "essm") != 0 {
			t.Errorf("%s: essm operators are left", m)
		}
		first, err := os.ReadFile("m.onnx")
		if err != nil {
			t.Fatal(err)
		}
		must(t, "export", m, "-o", "m.onnx")
		if again, _ := os.ReadFile("m.onnx"); !bytes.Equal(first, again) {
			t.Errorf("%s: two exports give different bytes", m)
		}
		must(t, "export", m, "-o", "f.onnx", "--functions", "--opset", "20")
		if g := read("f.onnx"); count(g, "essm") < 2 || g.Opsets[""] != 20 {
			t.Errorf("%s: layers are not kept as nodes, or of opset %v", m, g.Opsets)
		}
	}
	for _, opset := range []string{"25", "27", "28"} {
		must(t, "export", "waves", "-o", "new.onnx", "--opset", opset)
		if g := read("new.onnx"); fmt.Sprint(g.Opsets[""]) != opset {
			t.Errorf("operator sets %v, expected %s", g.Opsets, opset)
		}
		must(t, "compile", "new.onnx", "-o", "new.essm")
		if g := must(t, "inspect", "new.essm"); !strings.Contains(g, "SSM") && !strings.Contains(g, "Block") {
			t.Errorf("opset %s: the layers are not recognized: %s", opset, g)
		}
	}
	refused(t, 2, []string{"export", "waves", "-o", "new.onnx", "--opset", "29"}, "13 to 28")
	if in := read("m.onnx").Inputs; len(in) != 2 {
		t.Errorf("inputs %v: expected input and state_in", in)
	}
	must(t, "export", "waves", "-o", "bare.onnx", "--without-optional")
	if in := read("bare.onnx").Inputs; len(in) != 1 {
		t.Errorf("inputs %v: expected input alone", in)
	}
}

func TestExportRefuses(t *testing.T) {
	fixtures(t)
	refused(t, 2, []string{"export", "waves"}, "-o FILE.onnx is missing")
	refused(t, 2, []string{"export", "waves", "-o", "x.onnx", "--opset", "12"}, "--opset", "13 to", "12")
	refused(t, 1, []string{"export", "waves", "-o", "x.onnx", "--external", "../w.bin"}, "without folders")
	refused(t, 1, []string{"export", "waves", "-o", "tokens"}, "tokens", "directory")
	if _, err := os.Stat("x.onnx"); err == nil {
		t.Error("a refused export left a file")
	}
}
