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
)

// withoutKernel maps reference cases of the families to the operator that has no kernel for their steps. A case that runs must
// leave the list.
var withoutKernel = map[string]string{
	"dss-softmax-causal":    "essm.SoftmaxConv",
	"liquid-s4-polyb":       "essm.DPLRScan",
	"liquid-s4-polyb-shift": "essm.DPLRScan",
	"s4-legs-64":            "essm.DPLRScan",
	"s4-legs-causal":        "essm.DPLRScan",
	"s4-legt-bidirectional": "essm.DPLRScan",
}

// TestFamilies runs the reference cases of the families on emulated cards, without the processor: in the form that the backend
// chooses, and in the long mode (ESSMC_LONG=1) in all.
func TestFamilies(t *testing.T) {
	hurry(t)
	dirs, err := filepath.Glob(filepath.Join(shared.Path(t, "reference-zoo"), "*", "config.json"))
	if err != nil || len(dirs) == 0 {
		t.Fatal("no cases", err)
	}
	var names []string
	for _, file := range dirs {
		dir := filepath.Dir(file)
		names = append(names, filepath.Base(dir))
		t.Run(filepath.Base(dir), func(t *testing.T) { family(t, dir) })
	}
	for name := range withoutKernel {
		if !slices.Contains(names, name) {
			t.Errorf("withoutKernel names %s, which is no case", name)
		}
	}
}

func family(t *testing.T, dir string) {
	m, err := open.File(dir, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	array := func(name string) *tensor.Tensor {
		a, err := arrays.Read(filepath.Join(dir, name+".npy"))
		if err != nil {
			t.Fatal(err)
		}
		return a.Tensor
	}
	in := data{models.Input: array("input")}
	if _, err := os.Stat(filepath.Join(dir, "lengths.npy")); !errors.Is(err, fs.ErrNotExist) {
		in[models.Lengths] = array("lengths")
	}
	truth := array("output64")
	bound := max(1e-5, distance(t, array("output"), truth)) // or as near as the released code
	kernels := []string{""}
	if os.Getenv("ESSMC_LONG") != "" {
		kernels = append(kernels, runtime.Kernels()...)
	}
	lacks := withoutKernel[filepath.Base(dir)]
	for _, kernel := range kernels {
		out, err := whole(t, m, kernel, in)
		var u *runtime.UnsupportedError
		var o *runtime.OptionError
		switch {
		case errors.As(err, &o) && kernel == "chunked": // ill-conditioned systems
		case lacks != "" && err == nil:
			t.Errorf("form %q runs: take the case out of withoutKernel", kernel)
		case lacks != "" && (!errors.As(err, &u) || u.Node.Op.FullName() != lacks):
			t.Errorf("form %q: expected that %s is refused, found %v", kernel, lacks, err)
		case lacks != "":
		case err != nil:
			t.Errorf("form %q: %v", kernel, err)
		default:
			if d := distance(t, out, truth); !(d <= bound) {
				t.Errorf("form %q: %.3g from the truth, at most %.3g allowed", kernel, d, bound)
			}
		}
	}
}

// whole runs a model on an emulated card.
func whole(t *testing.T, m *open.Model, kernel string, in data) (*tensor.Tensor, error) {
	model, err := m.Compile(runtime.Options{Backend: emulated(t, cuda.Options{})(), Kernel: kernel})
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
