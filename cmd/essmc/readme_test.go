package main

import (
	"context"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
)

// TestReadmeProgram checks that the first Go program in README.md has at most 15 lines, is formatted, and runs the
// model that the commands before it make.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	_, part, ok := strings.Cut(string(readme), "\n## In a program\n")
	shown := regexp.MustCompile(
		"(?s)```sh\ngo get github.com/essmc/essmc\n(.*?)\n```\n```go\n(.*?)```").FindStringSubmatch(part)
	if !ok || shown == nil {
		t.Fatal("README.md shows no program")
	}
	commands, program := shown[1], shown[2]
	if n := strings.Count(program, "\n"); n > 15 {
		t.Errorf("the program has %d lines", n)
	}
	if formatted, err := format.Source([]byte(program)); err != nil || string(formatted) != program {
		t.Errorf("the program is not formatted: %v", err)
	}
	if first := strings.Index(string(readme), "```go\n"); strings.Index(string(readme),
		program) != first+len("```go\n") {
		t.Error("other Go code stands before it")
	}

	t.Chdir(t.TempDir())
	for _, c := range strings.Split(strings.ReplaceAll(commands, "\n", " && "), " && ") {
		words := strings.Fields(c)
		if words[0] != "essmc" {
			t.Fatalf("what is %q?", c)
		}
		must(t, words[1:]...)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program.exe")
	if err := os.WriteFile(source, []byte(program), 0o666); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", binary, source)
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(binary).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	model, err := open.Load("model.onnx", open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	in := map[string]tensor.Datum{"input": tensor.FromSlice([]float32{0, 0.5, 1}, 1, 3, 1)}
	want, err := model.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	if y := fmt.Sprintln(tensor.Data[float32](want["output"].(*tensor.Tensor))); string(out) != y || len(y) < 20 {
		t.Errorf("the program prints %s, expected %s", out, y)
	}
}
