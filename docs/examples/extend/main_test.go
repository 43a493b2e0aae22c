package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.com/extend/acme"

	"github.com/essmc/essmc/cmd/essmc/command"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
)

var own = []*passes.Pass{acme.Centers}

// acmeCommand runs the command with what package acme adds, and returns what it prints.
func acmeCommand(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := (command.Options{Passes: own}).Main(args, nil, &out, &errs); code != 0 {
		t.Fatalf("acme %s: exit code %d: %s", strings.Join(args, " "), code, &errs)
	}
	return out.String()
}

// contains checks what a command prints.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("expected %q in\n%s", p, text)
		}
	}
}

// answer runs a model on one sample of two steps.
func answer(t *testing.T, m *runtime.Model, err error) []float32 {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	x := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 12}, 1, 2, 6)
	out, err := m.NewSession().Run(context.Background(), map[string]tensor.Datum{m.Inputs()[0].Name: x})
	if err != nil {
		t.Fatal(err)
	}
	return tensor.Data[float32](out[models.Output].(*tensor.Tensor))
}

// TestFamily makes a model of the family, compiles it, and runs it and its plan, by the command and by package open.
func TestFamily(t *testing.T) {
	dir := t.TempDir()
	model, plan := filepath.Join(dir, "model"), filepath.Join(dir, "model.essm")
	acmeCommand(t, "init", "acme-small", "-o", model)
	acmeCommand(t, "compile", model, "-o", plan)
	contains(t, acmeCommand(t, "inspect", plan), "acme.Center")
	const x = "[[[1,2,3,4,5,6]]]"
	ours := acmeCommand(t, "run", plan, "--input", x)
	if defined := acmeCommand(t, "run", model, "--input", x, "--device", "ref"); ours != defined {
		t.Errorf("the kernel gives %s, Eval %s", ours, defined)
	}

	a, err := open.Load(model, open.Options{})
	fromModel := answer(t, a, err)
	b, err := open.Load(plan, open.Options{})
	if fromPlan := answer(t, b, err); len(fromPlan) != 4 || !equal(fromModel, fromPlan) {
		t.Errorf("the plan computes %v, the model %v", fromPlan, fromModel)
	}
}

func equal(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// A graph as an exporter writes it, in operators of ONNX.
const graph = `<ir_version: 10, opset_import: ["" : 22]>
g (float[1,2,6] input) => (float[1,2,6] output)
<int64[1] axes = {-1}>
{
  mean = ReduceMean (input, axes)
  output = Sub (input, mean)
}
`

// TestPass checks that the pass finds the operator in a graph, by the command and by package open.
func TestPass(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.txt")
	if err := os.WriteFile(path, []byte(graph), 0o666); err != nil {
		t.Fatal(err)
	}
	contains(t, acmeCommand(t, "explain", path), "acme-centers", "acme.Center")
	m, err := open.Load(path, open.Options{Passes: own})
	with := answer(t, m, err)
	m, err = open.Load(path, open.Options{})
	if without := answer(t, m, err); !equal(with, without) {
		t.Errorf("with the pass %v, without %v", with, without)
	}
}

// TestPlainCommand checks what the command says without package acme.
func TestPlainCommand(t *testing.T) {
	dir := t.TempDir()
	plain, model, plan := filepath.Join(dir, "essmc"), filepath.Join(dir, "model"), filepath.Join(dir, "model.essm")
	if out, err := exec.Command("go", "build", "-o", plain, "github.com/essmc/essmc/cmd/essmc").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	acmeCommand(t, "init", "acme-small", "-o", model)
	acmeCommand(t, "compile", model, "-o", plan)
	for path, want := range map[string]string{
		plan:  "this program lacks operators that the plan needs: acme.Center version 1 (",
		model: "model_type: expected one of ",
	} {
		out, err := exec.Command(plain, "inspect", path).CombinedOutput()
		if err == nil {
			t.Errorf("essmc inspects %s", path)
		}
		contains(t, string(out), want)
		if path == plan {
			contains(t, string(out), "domain acme is not part of essmc: use a program that registers its operators")
		}
	}
}
