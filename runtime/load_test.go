package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/plan"
	"github.com/essmc/essmc/runtime/ref"
)

// weighted is a graph with a constant large enough to be mapped from a plan.
func weighted(t testing.TB) *ir.Graph {
	t.Helper()
	o := makeOps()
	b := ir.NewBuilder("weighted", o, opset)
	x := b.Input("x", ir.Tensor(tensor.Float32, "L"))
	c := b.Op("test", "Double", []*ir.Value{b.Const("c", floats(1000))})
	b.Output("y", b.Op("test", "Double", []*ir.Value{x}))
	b.Output("z", c)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.essm")
	if err := plan.WriteFile(path, weighted(t)); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := runtime.Options{Backend: backend()}
	for name, load := range map[string]func() (*runtime.Model, error){
		"file": func() (*runtime.Model, error) { return runtime.Load(path, o) },
		"reader": func() (*runtime.Model, error) {
			return runtime.LoadReader(bytes.NewReader(content), int64(len(content)), "model", o)
		},
		"fs": func() (*runtime.Model, error) { return runtime.LoadFS(os.DirFS(filepath.Dir(path)), "model.essm", o) },
		"fs without ReadAt": func() (*runtime.Model, error) {
			return runtime.LoadFS(plainFS{os.DirFS(filepath.Dir(path))}, "model.essm", o)
		},
	} {
		m, err := load()
		if err != nil {
			t.Fatal(name, err)
		}
		out, err := m.NewSession().Run(context.Background(), data{"x": floats(3)})
		if err != nil {
			t.Fatal(name, err)
		}
		for range 2 {
			if err := m.Close(); err != nil {
				t.Error(name, err)
			}
		}
		// Results outlive the model, and the file that its weights were in.
		if y, z := out["y"].(*tensor.Tensor), out["z"].(*tensor.Tensor); tensor.Data[float32](y)[2] != 5 ||
			tensor.Data[float32](z)[999] != 1999 {
			t.Errorf("%s: wrong answers", name)
		}
	}
}

// A copy does not depend on the file, which may be truncated; its checksum is verified as that of a mapped one.
func TestLoadCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.essm")
	if err := plan.WriteFile(path, weighted(t)); err != nil {
		t.Fatal(err)
	}
	o := runtime.Options{Backend: backend(), Copy: true}
	m, err := runtime.Load(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	out, err := m.NewSession().Run(context.Background(), data{"x": floats(3)})
	if err != nil {
		t.Fatal(err)
	}
	if z := out["z"].(*tensor.Tensor); tensor.Data[float32](z)[999] != 1999 {
		t.Error("wrong answers")
	}
	if err := plan.WriteFile(path, weighted(t)); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.Load(path, o); !errors.Is(err, plan.ErrCorrupt) {
		t.Errorf("a weight was changed: %v", err)
	}
}

// plainFS gives files that can only be read from the beginning to the end.
type plainFS struct{ fs.FS }

func (p plainFS) Open(name string) (fs.File, error) {
	f, err := p.FS.Open(name)
	return struct{ fs.File }{f}, err
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.essm"), filepath.Join(dir, "bad.essm")
	if err := plan.WriteFile(good, weighted(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad, []byte("not a plan at all, but long enough to be looked at for one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.Load(good, runtime.Options{}); !errors.Is(err, runtime.ErrOption) {
		t.Errorf("without backend: %v", err)
	}
	if _, err := runtime.LoadReader(nil, 0, "x", runtime.Options{}); !errors.Is(err, runtime.ErrOption) {
		t.Errorf("without backend: %v", err)
	}
	if _, err := runtime.LoadFS(nil, "x", runtime.Options{}); !errors.Is(err, runtime.ErrOption) {
		t.Errorf("without backend: %v", err)
	}
	for name, want := range map[string]string{"none.essm": "no such file", ".": "expected a regular file",
		"bad.essm": "bad.essm: "} {
		for _, fsys := range []fs.FS{os.DirFS(dir), plainFS{os.DirFS(dir)}} {
			if _, err := runtime.LoadFS(fsys, name, runtime.Options{Backend: backend()}); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: expected %q, found %v", name, want, err)
			}
		}
	}
	if _, err := runtime.Load(filepath.Join(dir, "none.essm"), runtime.Options{Backend: backend()}); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := runtime.Load(bad, runtime.Options{Backend: backend()}); !errors.Is(err, plan.ErrNotPlan) ||
		!strings.HasPrefix(err.Error(), bad+": ") {
		t.Errorf("no plan: %v", err)
	}
	small := runtime.Options{Backend: backend(), Limits: plan.Limits{FileBytes: 100}}
	if _, err := runtime.Load(good, small); !errors.Is(err, plan.ErrLimit) || !strings.HasPrefix(err.Error(), good+": ") {
		t.Errorf("a limit of 100 bytes: %v", err)
	}
	if _, err := runtime.LoadFS(os.DirFS(dir), "good.essm", small); !errors.Is(err, plan.ErrLimit) {
		t.Errorf("a limit of 100 bytes: %v", err)
	}
	var unknown *plan.UnknownOpsError
	if _, err := runtime.Load(good, runtime.Options{Backend: ref.With(testOps{})}); !errors.As(err, &unknown) {
		t.Errorf("operators that the backend does not know: %v", err)
	}
	refusing := testOps{"Double": {Domain: "test", Name: "Double", Since: 1, In: makeOps()["Double"].In,
		Out: makeOps()["Double"].Out, Infer: signature}}
	if _, err := runtime.Load(good, runtime.Options{Backend: ref.With(refusing)}); !errors.Is(err,
		runtime.ErrUnsupported) || !strings.HasPrefix(err.Error(), good+": backend ref: node ") {
		t.Errorf("an operator without meaning: %v", err)
	}
}
