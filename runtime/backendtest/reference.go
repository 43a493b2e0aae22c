package backendtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	_ "github.com/essmc/essmc/models/families" // which ParseConfig knows
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
)

// Reference runs the models for which the authors of eSSM computed answers, after the passes, in every kernel form. The
// answers must be within 1e-5 of the truth, relative to its largest absolute value, or as near as PyTorch's own float32
// (docs/math.md, Reference cases). The ref backend must also be within 1e-9 in float64. The data is not part of the
// repository. Without it, the test is skipped, or fails if CI is set.
func Reference(t *testing.T, make func() runtime.Backend, o Options) {
	root := shared.Path(t, "reference")
	dirs, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{make: make, o: o, refused: map[string]string{}}
	cases := 0
	for _, d := range dirs {
		dir := filepath.Join(root, d.Name())
		if _, err := os.Stat(filepath.Join(dir, "output64.npy")); err != nil {
			continue // a training case
		}
		at := cases
		cases++
		s.sub(t, d.Name(), func(t *testing.T) { s.reference(t, dir, at) })
	}
	if cases == 0 {
		t.Fatalf("no case in %s", root)
	}
}

// readModel returns the graph of a model directory after the passes.
func readModel(dir string) (*ir.Graph, error) {
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	c, err := models.ParseConfig(text, "config.json")
	if err != nil {
		return nil, err
	}
	f, err := safetensors.ReadFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		return nil, err
	}
	w := models.Weights{}
	for name, x := range f.Tensors {
		w[name] = x
	}
	g, err := models.Build(c, w, models.BuildOptions{Name: filepath.Base(dir)})
	if err != nil {
		return nil, err
	}
	return g, passes.Optimize(g)
}

// reference checks the case of a folder, the one with number at.
func (s *suite) reference(t *testing.T, dir string, at int) {
	g, err := readModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	in := Data{}
	var truth, torch *tensor.Tensor
	for file, set := range map[string]func(*tensor.Tensor){
		"input.npy":    func(x *tensor.Tensor) { in[models.Input] = x },
		"lengths.npy":  func(x *tensor.Tensor) { in[models.Lengths] = x },
		"output64.npy": func(x *tensor.Tensor) { truth = x },
		"output.npy":   func(x *tensor.Tensor) { torch = x },
	} {
		a, err := arrays.Read(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) && file == "lengths.npy" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		set(a.Tensor)
	}
	theirs, err := distance(torch, truth)
	if err != nil {
		t.Fatal(err)
	}
	kernels := runtime.Kernels()
	if testing.Short() {
		kernels = kernels[:1]
	} else if s.o.Small { // each case has one form, in turn
		kernels = kernels[at%len(kernels):][:1]
	} else if in[models.Input].(*tensor.Tensor).Dim(1) > 1000 {
		// its time grows with the square of the length
		kernels = slices.DeleteFunc(kernels, func(k string) bool { return k == "direct" })
	}
	for _, kernel := range kernels {
		s.sub(t, kernel, func(t *testing.T) {
			s.held(t, g, in, truth, runtime.Options{Kernel: kernel}, max(1e-5, theirs))
			if s.make().Name() == "ref" {
				s.held(t, g, in, truth, runtime.Options{Kernel: kernel, Precision: tensor.Float64}, 1e-9)
			}
		})
	}
}

// held runs a model and checks that its answer is within bar.
func (s *suite) held(t *testing.T, g *ir.Graph, in Data, truth *tensor.Tensor, o runtime.Options, bar float64) {
	t.Helper()
	o.Backend = s.make()
	m, err := runtime.New(g, o)
	if err != nil {
		t.Fatal(err) // including a refusal: no backend may refuse these models
	}
	defer m.Close()
	out, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := distance(out[models.Output], truth)
	if err != nil {
		t.Fatal(err)
	}
	if !(got <= bar) {
		t.Errorf("precision %v: %.3g from the truth, at most %.3g allowed", o.Precision, got, bar)
	}
}

// distance returns the largest difference, relative to the largest absolute value of the truth.
func distance(got tensor.Datum, truth *tensor.Tensor) (float64, error) {
	x, ok := got.(*tensor.Tensor)
	if !ok || tensor.ShapeString(x.Shape()) != tensor.ShapeString(truth.Shape()) {
		return 0, fmt.Errorf("expected %v, found %v", truth, got)
	}
	a, err := x.Float64s()
	if err != nil {
		return 0, err
	}
	b, err := truth.Float64s()
	if err != nil {
		return 0, err
	}
	diff, scale := 0.0, 0.0
	for i := range b {
		if math.IsNaN(a[i]) {
			return math.Inf(1), nil
		}
		diff, scale = max(diff, math.Abs(a[i]-b[i])), max(scale, math.Abs(b[i]))
	}
	return diff / scale, nil
}
