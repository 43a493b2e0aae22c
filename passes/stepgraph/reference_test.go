package stepgraph_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// TestReference feeds the models of the reference cases of the authors of eSSM chunk by chunk, and compares the
// answers. Models that look ahead must be refused with the name of a layer.
func TestReference(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared.Path(t, "reference"), "*", "output64.npy"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no reference cases: %v", err)
	}
	causal := 0
	for _, file := range files {
		dir := filepath.Dir(file)
		read, w, err := checkpoint.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		c := read.(*essm.Config)
		if c.Causal() {
			causal++
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			reference(t, dir, c, w)
		})
	}
	if causal == 0 {
		t.Error("no causal case")
	}
}

func reference(t *testing.T, dir string, c *essm.Config, w models.Weights) {
	g, err := models.Build(c, w, models.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := passes.Run(g, passes.Pipeline(), passes.Options{}); err != nil {
		t.Fatal(err)
	}
	sg, err := stepgraph.Of(g)
	if c.Layer.Bidirectional && c.Layer.MaxKernelLength == 0 || c.Norm == "instance" {
		var blocked *stepgraph.BlockedError
		if !errors.As(err, &blocked) || !strings.Contains(err.Error(), "layers.0 (essm.") {
			t.Errorf("expected a refusal that names layers.0, found %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]tensor.Datum{}
	want := map[string]tensor.Datum{}
	for name, to := range map[string]map[string]tensor.Datum{"input": in, "lengths": in, "output64": want} {
		f, err := os.Open(filepath.Join(dir, name+".npy"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		x, err := arrays.ReadNpy(f, info.Size())
		if err != nil {
			t.Fatal(err)
		}
		to[strings.TrimSuffix(name, "64")] = x
	}
	x := in["input"].(*tensor.Tensor)
	length := x.Dim(1)
	wide := map[string]tensor.Datum{"input": x, "lengths": in["lengths"]}
	if x.DType() == tensor.Float32 {
		if wide["input"], err = x.Convert(tensor.Float64, false); err != nil {
			t.Fatal(err)
		}
	}
	chunks := chunkings(rand.New(rand.NewPCG(1, 1)))
	for i, b := range []struct {
		o   runtime.Options
		in  map[string]tensor.Datum
		tol float64
	}{{runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, wide, 1e-9},
		{runtime.Options{Backend: cpu.New()}, in, 1e-5}} {
		for _, cut := range chunks {
			f := newStream(t, sg, b.o, x.Dim(0))
			same(t, fmt.Sprintf("backend %d, chunks %v", i, cut[:1]), f.feed(b.in, length, cut, 0), want, b.tol)
		}
	}
}
