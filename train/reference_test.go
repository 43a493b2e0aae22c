package train_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	_ "github.com/essmc/essmc/models/families"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
	"github.com/essmc/essmc/train"
	"github.com/essmc/essmc/train/optim"
)

// settings is train.json of a reference case.
type settings struct {
	Steps       int       `json:"steps"`
	LR          float64   `json:"lr"`
	LRSSM       float64   `json:"lr_ssm"`
	WeightDecay float64   `json:"weight_decay"`
	DecaySSM    float64   `json:"weight_decay_ssm"`
	Betas       []float64 `json:"betas"`
	Eps         float64   `json:"eps"`
	SSM         []string  `json:"ssm_params"`
	Losses      []float64 `json:"losses"`
	Momentum    float64   `json:"batch_norm_momentum"`
}

// TestReference does the steps of the training cases: losses and weights are those of the authors' code with PyTorch's AdamW,
// in float64 (docs/math.md, Reference cases). The folders that begin with "train-" have them.
func TestReference(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(shared.Path(t, "reference"), "train-*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no training cases: %v", err)
	}
	for _, dir := range dirs {
		for _, c := range []struct {
			name  string
			o     train.Options
			bound float64
		}{
			{"ref", train.Options{Backend: ref.New(), Precision: tensor.Float64}, 1e-6},
			{"cpu", train.Options{Backend: cpu.New()}, 1e-5},
		} {
			t.Run(filepath.Base(dir)+"/"+c.name, func(t *testing.T) { reference(t, dir, c.o, c.bound) })
		}
	}
}

func reference(t *testing.T, dir string, o train.Options, bound float64) {
	var s settings
	text, err := os.ReadFile(filepath.Join(dir, "train.json"))
	check(t, err)
	check(t, json.Unmarshal(text, &s))
	c, w, err := checkpoint.ReadDir(dir)
	check(t, err)
	g, err := models.Build(c, w, models.BuildOptions{Parameters: func(string) bool { return true }})
	check(t, err)
	var ssm []string
	for _, name := range s.SSM {
		ssm = append(ssm, "*.layer."+name)
	}
	rule := optim.AdamW{Beta1: s.Betas[0], Beta2: s.Betas[1], Eps: s.Eps, WeightDecay: s.WeightDecay}
	slow := rule
	slow.WeightDecay = s.DecaySSM
	o.Loss, o.Momentum = train.CrossEntropy{}, s.Momentum
	o.Groups = []train.Group{{Name: "ssm", Patterns: ssm, Rule: slow, Rate: s.LRSSM}, {Name: "others", Rule: rule, Rate: s.LR}}
	tr, err := train.New(t.Context(), g, o)
	check(t, err)
	defer tr.Close()
	batches := map[string]*tensor.Tensor{}
	for name, file := range map[string]string{g.Inputs[0].Name: "inputs.npy", train.Labels: "labels.npy", models.Lengths: "lengths.npy"} {
		if x := readNpy(t, filepath.Join(dir, file)); x != nil {
			batches[name] = x
		}
	}
	for i := range s.Steps {
		batch := map[string]tensor.Datum{}
		for name, x := range batches {
			batch[name] = part(x, i)
		}
		r, err := tr.Step(t.Context(), batch)
		check(t, err)
		if math.Abs(r.Loss-s.Losses[i]) > bound*max(1, math.Abs(s.Losses[i])) {
			t.Errorf("step %d: expected a loss of %.9g, found %.9g", i+1, s.Losses[i], r.Loss)
		}
	}
	got, err := tr.Weights()
	check(t, err)
	f, err := safetensors.ReadFile(filepath.Join(dir, "after.safetensors"))
	check(t, err)
	grads, err := safetensors.ReadFile(filepath.Join(dir, "grads.safetensors"))
	check(t, err)
	worst, where, steep := 0.0, "", 0.0
	for _, g := range grads.Tensors {
		steep = max(steep, largest(floats(t, g)))
	}
	for name, want := range f.Tensors {
		if got[name] == nil {
			t.Errorf("no parameter %s", name)
			continue
		}
		x, y := floats(t, got[name]), floats(t, want)
		var g []float64
		if grads.Tensors[name] != nil {
			g = floats(t, grads.Tensors[name])
		}
		most := largest(y)
		for i := range y {
			allowed := bound * most
			if g == nil { // running statistics of features, whose scale is 1
				allowed = bound * max(1, most)
			}
			if g != nil && bound > 1e-6 {
				// AdamW divides gradients by their size, and so the errors of those that nearly cancel, as that of a shift does
				// before a batch norm. An error of bound in the scale of all gradients changes a step by its share in this one.
				allowed += s.LR * float64(s.Steps) * min(1, bound*steep/math.Abs(g[i]))
			}
			if e := math.Abs(x[i]-y[i]) / allowed; e > worst {
				worst, where = e, fmt.Sprintf("%s[%d]: expected %.9g, found %.9g", name, i, y[i], x[i])
			}
		}
	}
	t.Logf("%.2g of what is allowed, at %s", worst, where)
	if worst > 1 {
		t.Errorf("weights: %.2g times what is allowed, at %s", worst, where)
	}
}

func floats(t *testing.T, x *tensor.Tensor) []float64 {
	t.Helper()
	v, err := x.Float64s()
	check(t, err)
	return v
}

func largest(x []float64) (most float64) {
	for _, v := range x {
		most = max(most, math.Abs(v))
	}
	return most
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readNpy returns the array of a file; nil: there is no such file.
func readNpy(t *testing.T, path string) *tensor.Tensor {
	t.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	check(t, err)
	defer f.Close()
	info, err := f.Stat()
	check(t, err)
	x, err := arrays.ReadNpy(f, info.Size())
	check(t, err)
	return x
}

// part returns element i along the first axis.
func part(x *tensor.Tensor, i int) *tensor.Tensor {
	n := x.Len() / x.Dim(0)
	switch x.DType() {
	case tensor.Float32:
		return tensor.FromSlice(slices.Clone(tensor.Data[float32](x)[i*n:(i+1)*n]), x.Shape()[1:]...)
	case tensor.Int64:
		return tensor.FromSlice(slices.Clone(tensor.Data[int64](x)[i*n:(i+1)*n]), x.Shape()[1:]...)
	}
	panic(fmt.Sprint(x))
}
