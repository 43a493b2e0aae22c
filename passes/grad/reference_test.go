package grad_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	_ "github.com/essmc/essmc/models/families"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/grad"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// TestReference compares the loss and the gradients of the first training step with those of the authors' code, in
// float64 (docs/math.md, Reference cases). The folders that begin with "train-" have them.
func TestReference(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(shared.Path(t, "reference"), "train-*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no training cases: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			s := stepOf(t, dir)
			s.compare(t, "ref", runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, 1e-6, 1e-6)
			s.compare(t, "cpu", runtime.Options{Backend: cpu.New()}, 1e-3, 1e-5)
			if err := passes.Run(s.graph, passes.Pipeline(), passes.Options{}); err != nil {
				t.Fatal(err)
			}
			s.compare(t, "ref, optimised", runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, 1e-6, 1e-6)
			s.compare(t, "cpu, optimised", runtime.Options{Backend: cpu.New()}, 1e-3, 1e-5)
		})
	}
}

// trainingStep is the first step of a training case.
type trainingStep struct {
	graph *ir.Graph
	in    map[string]tensor.Datum
	loss  float64
	grads map[string]*tensor.Tensor
}

func stepOf(t *testing.T, dir string) *trainingStep {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c, w, err := checkpoint.ReadDir(dir)
	check(err)
	g, err := models.Build(c, w, models.BuildOptions{Parameters: func(string) bool { return true }})
	check(err)
	var about struct {
		Losses   []float64
		Momentum float64 `json:"batch_norm_momentum"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "train.json"))
	check(err)
	check(json.Unmarshal(text, &about))
	s := &trainingStep{graph: g, in: map[string]tensor.Datum{}, loss: about.Losses[0]}
	f, err := safetensors.ReadFile(filepath.Join(dir, "grads.safetensors"))
	check(err)
	s.grads = f.Tensors
	_, err = grad.Train(g, about.Momentum)
	check(err)
	b := ir.Edit(g, ops.Default, g.Opsets)
	labels := b.Input("labels", ir.Tensor(tensor.Int64, "B"))
	loss := b.Op("", "SoftmaxCrossEntropyLoss", []*ir.Value{g.Outputs[0], labels})
	b.Output("loss", loss)
	check(b.Err())
	var wrt []*ir.Value
	for _, p := range g.Parameters {
		if !strings.Contains(p.Name, "running_") {
			wrt = append(wrt, p)
		}
	}
	grads, err := grad.Of(context.Background(), g, loss, wrt)
	check(err)
	g.Outputs = append(g.Outputs, grads...)
	check(ir.Verify(g))
	inputs := g.Inputs[0].Name
	for name, file := range map[string]string{inputs: "inputs.npy", "labels": "labels.npy", "lengths": "lengths.npy"} {
		f, err := os.Open(filepath.Join(dir, file))
		if name == "lengths" && os.IsNotExist(err) {
			continue
		}
		check(err)
		info, err := f.Stat()
		check(err)
		all, err := arrays.ReadNpy(f, info.Size())
		check(err)
		check(f.Close())
		s.in[name] = first(t, all)
	}
	return s
}

// first returns the first element along the first axis.
func first(t *testing.T, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	n := x.Len() / x.Dim(0)
	switch x.DType() {
	case tensor.Float32:
		return tensor.FromSlice(slices.Clone(tensor.Data[float32](x)[:n]), x.Shape()[1:]...)
	case tensor.Int64:
		return tensor.FromSlice(slices.Clone(tensor.Data[int64](x)[:n]), x.Shape()[1:]...)
	}
	t.Fatalf("%s: expected float32 or int64", x)
	return nil
}

// compare runs the step. Gradients may differ by own, relative to the largest number of each tensor, and by all,
// relative to the largest of all tensors: before a norm, gradients of biases are sums that nearly cancel, of which
// float32 keeps few digits.
func (s *trainingStep) compare(t *testing.T, what string, o runtime.Options, own, all float64) {
	t.Helper()
	m, err := runtime.New(s.graph, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	out, err := m.Run(context.Background(), s.in)
	if err != nil {
		t.Fatal(err)
	}
	largest, off, worst, where := 0.0, 0.0, 0.0, ""
	for name, want := range s.grads {
		got, ok := out[name+".grad"].(*tensor.Tensor)
		if !ok {
			t.Errorf("%s: no gradient of %s", what, name)
			continue
		}
		x, err := got.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		y, err := want.Float64s()
		if err != nil || len(x) != len(y) {
			t.Fatalf("%s: %s: expected %d numbers, found %d, %v", what, name, len(y), len(x), err)
		}
		most, by := 0.0, 0.0
		for i := range y {
			most, by = max(most, math.Abs(y[i])), max(by, math.Abs(x[i]-y[i]))
		}
		largest, off = max(largest, most), max(off, by)
		if by /= most; !(by <= worst) {
			worst, where = by, name
		}
	}
	loss, err := out["loss"].(*tensor.Tensor).Float64s()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: loss %v, expected %v; gradients differ by %.2g (%s), and %.2g of the largest", what, loss[0], s.loss,
		worst, where, off/largest)
	if !(worst <= own) || !(off <= all*largest) || !(math.Abs(loss[0]-s.loss) <= all*s.loss) {
		t.Errorf("%s: expected differences up to %g, and %g of the largest", what, own, all)
	}
}
