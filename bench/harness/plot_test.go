package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/runtime/cpu"
)

func TestDrawFigure(t *testing.T) {
	dir := t.TempDir()
	if out := os.Getenv("FIGURES"); out != "" { // to look at the figures
		dir = out
	}
	var lines []line
	for i, name := range []string{"essmc, 1 thread", "essmc, 2 threads", "torch, 1 thread", "torch, 2 threads",
		"ONNX Runtime, 1 thread", "ONNX Runtime, 2 threads", "floor, 1 thread"} {
		l := line{name: name, floor: i == 6}
		for x := 256.0; x <= 16384; x *= 4 {
			l.add(x, x*float64(1+i)/500)
		}
		lines = append(lines, l)
	}
	lines[3] = line{name: "torch, 2 threads"} // as for an absent peer
	f, err := drawFigure(dir, "f.svg", "a title", "steps", lines)
	if err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, f.File))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"essmc, 1 thread", "floor, 1 thread", "16k", "a title", "stroke-dasharray"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the figure does not show %q", want)
		}
	}
	if strings.Contains(string(svg), "torch, 2 threads") || f.File != "f-"+cpu.Kernels()+".svg" {
		t.Errorf("%+v: a contender without times is named", f)
	}
	if _, err := drawFigure(dir, "g.svg", "", "", []line{{name: "nobody"}}); err == nil {
		t.Error("a figure of nothing was drawn")
	}
}
