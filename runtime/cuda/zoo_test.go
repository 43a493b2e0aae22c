package cuda_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/emu"
)

// TestFamilies runs the reference cases of the families on emulated cards, without the processor: in the form that the backend
// chooses, and in the long mode (ESSMC_LONG=1) in all.
func TestFamilies(t *testing.T) {
	hurry(t)
	dirs, err := filepath.Glob(filepath.Join(shared.Path(t, "reference-zoo"), "*", "config.json"))
	if err != nil || len(dirs) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) { family(t, dir) })
	}
}

// array reads an array of a case.
func array(t *testing.T, dir, name string) *tensor.Tensor {
	t.Helper()
	a, err := arrays.Read(filepath.Join(dir, name+".npy"))
	if err != nil {
		t.Fatal(err)
	}
	return a.Tensor
}

// zooCase reads the model and the inputs of a case.
func zooCase(t *testing.T, dir string) (*open.Model, data) {
	t.Helper()
	m, err := open.File(dir, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in := data{models.Input: array(t, dir, "input")}
	if _, err := os.Stat(filepath.Join(dir, "lengths.npy")); !errors.Is(err, fs.ErrNotExist) {
		in[models.Lengths] = array(t, dir, "lengths")
	}
	return m, in
}

func family(t *testing.T, dir string) {
	m, in := zooCase(t, dir)
	truth := array(t, dir, "output64")
	bound := max(1e-5, distance(t, array(t, dir, "output"), truth)) // or as near as the released code
	kernels := []string{""}
	if os.Getenv("ESSMC_LONG") != "" {
		kernels = append(kernels, runtime.Kernels()...)
	}
	for _, kernel := range kernels {
		out, err := whole(t, m, kernel, in)
		var o *runtime.OptionError
		switch {
		case errors.As(err, &o) && kernel == "chunked": // ill-conditioned systems
		case err != nil:
			t.Errorf("form %q: %v", kernel, err)
		default:
			if d := distance(t, out, truth); !(d <= bound) {
				t.Errorf("form %q: %.3g from the truth, at most %.3g allowed", kernel, d, bound)
			}
		}
	}
}

// Answers do not depend on the number of multiprocessors, on the schedule, or on the capability of the card, but for the last
// bits of products on other tensor cores.
func TestCardsAgree(t *testing.T) {
	hurry(t)
	m, in := zooCase(t, filepath.Join(shared.Path(t, "reference-zoo"), "s4d-lin-causal"))
	var first *tensor.Tensor
	for i, o := range []emu.Options{
		{},
		{Seed: 1, Attributes: map[driver.Attribute]int{driver.Multiprocessors: 3}},
		{Seed: 2, Attributes: map[driver.Attribute]int{driver.Multiprocessors: 200, driver.ComputeMajor: 12}},
		{Seed: 3, MatrixBits: 3, MatrixBlock: 8},
	} {
		d := emu.New(o)
		out, err := answer(m, runtime.Options{Backend: backend(t, d, cuda.Options{})}, in)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case first == nil:
			first = out
		case o.MatrixBits == 0 && !tensor.Equal(out, first):
			t.Errorf("card %d gives other bits", i)
		case o.MatrixBits != 0 && tensor.Equal(out, first):
			t.Error("other tensor cores give the same bits: docs/cuda.md may say so")
		case distance(t, out, first) > 1e-6:
			t.Errorf("card %d is %.3g away", i, distance(t, out, first))
		}
		for _, f := range d.Close() {
			t.Errorf("%v", f)
		}
	}
}

// whole runs a model on an emulated card.
func whole(t *testing.T, m *open.Model, kernel string, in data) (*tensor.Tensor, error) {
	return answer(m, runtime.Options{Backend: emulated(t, cuda.Options{})(), Kernel: kernel}, in)
}

func answer(m *open.Model, o runtime.Options, in data) (*tensor.Tensor, error) {
	model, err := m.Compile(o)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	out, err := model.NewSession().Run(context.Background(), in)
	if err != nil {
		return nil, err
	}
	return out[models.Output].(*tensor.Tensor), nil
}

// distance returns the largest difference, relative to the largest absolute value of the truth.
func distance(t *testing.T, got, truth *tensor.Tensor) float64 {
	t.Helper()
	if !slices.Equal(got.Shape(), truth.Shape()) {
		t.Fatalf("shape %v, expected %v", got.Shape(), truth.Shape())
	}
	a, err := got.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	b, err := truth.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	off, most := 0.0, 0.0
	for i := range b {
		if math.IsNaN(a[i]) {
			return math.Inf(1)
		}
		off, most = max(off, math.Abs(a[i]-b[i])), max(most, math.Abs(b[i]))
	}
	return off / most
}
