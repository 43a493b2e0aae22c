package essm

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

var npyHeader = regexp.MustCompile(`'descr': '<([fi][48])', 'fortran_order': False, 'shape': \(([0-9, ]*)\)`)

// npy reads an array of the reference data; nil when there is none.
func npy(t *testing.T, path string) *tensor.Tensor {
	t.Helper()
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	n := 10 + int(binary.LittleEndian.Uint16(b[8:]))
	m := npyHeader.FindSubmatch(b[:n])
	if m == nil {
		t.Fatalf("%s: header %q", path, b[:n])
	}
	var shape []int
	for _, s := range strings.Split(string(m[2]), ",") {
		if s = strings.TrimSpace(s); s != "" {
			d, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			shape = append(shape, d)
		}
	}
	dtype := map[string]tensor.DType{"f4": tensor.Float32, "f8": tensor.Float64, "i8": tensor.Int64}[string(m[1])]
	x, err := tensor.FromBytes(dtype, shape, b[n:])
	if err != nil {
		t.Fatal(path, err)
	}
	return x
}

// model reads a directory of the reference data.
func model(t testing.TB, dir string) (*Config, models.Weights) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseConfig(data, "config.json")
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.ReadFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	w := models.Weights{}
	for name, x := range f.Tensors {
		w[name] = x
	}
	return c, w
}

// interpret runs a graph in float64.
func interpret(t testing.TB, g *ir.Graph, kernel string, in map[string]tensor.Datum) map[string]tensor.Datum {
	t.Helper()
	m, err := runtime.New(g, runtime.Options{Backend: ref.New(), Precision: tensor.Float64, Kernel: kernel})
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.NewSession().Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apart is the largest difference, relative to the largest absolute value of want.
func apart(t testing.TB, got tensor.Datum, want *tensor.Tensor) float64 {
	t.Helper()
	x := got.(*tensor.Tensor)
	if fmt.Sprint(x.Shape()) != fmt.Sprint(want.Shape()) {
		t.Fatalf("shape %v, expected %v", x.Shape(), want.Shape())
	}
	a, err := x.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	b, err := want.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	diff, scale := 0.0, 0.0
	for i := range b {
		if math.IsNaN(a[i]) {
			return math.Inf(1)
		}
		diff, scale = max(diff, math.Abs(a[i]-b[i])), max(scale, math.Abs(b[i]))
	}
	return diff / scale
}

// TestReferences compares the interpreter, in float64, with the answers of the authors' code (docs/math.md, Reference
// cases), in every form that a layer can be computed in.
func TestReferences(t *testing.T) {
	root := shared.Path(t, "reference")
	dirs, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		dir := filepath.Join(root, d.Name())
		want := npy(t, filepath.Join(dir, "output64.npy"))
		if want == nil {
			continue
		}
		t.Run(d.Name(), func(t *testing.T) {
			t.Parallel()
			c, w := model(t, dir)
			g, err := models.Build(c, w, models.BuildOptions{Name: d.Name()})
			if err != nil {
				t.Fatal(err)
			}
			in := map[string]tensor.Datum{models.Input: npy(t, filepath.Join(dir, "input.npy"))}
			if l := npy(t, filepath.Join(dir, "lengths.npy")); l != nil {
				in[models.Lengths] = l
			}
			forms := []string{"scan", "fft"}
			if want.Dim(0)*in[models.Input].(*tensor.Tensor).Dim(1) < 1000 && !testing.Short() {
				forms = append(forms, "chunked", "direct")
			}
			for _, form := range forms {
				out := interpret(t, g, form, in)
				if e := apart(t, out[models.Output], want); !(e <= 1e-9) {
					t.Errorf("%s: %.3g from the truth, expected at most 1e-9", form, e)
				}
			}
		})
	}
}

// TestStatesJoin checks that a causal model answers a sequence in two pieces as it does in one.
func TestStatesJoin(t *testing.T) {
	dir := filepath.Join(shared.Path(t, "reference"), "layer-causal")
	for _, change := range []func(*Config){
		func(*Config) {},
		func(c *Config) { c.Layer.MaxKernelLength = 7 },
	} {
		c, w := model(t, dir)
		change(c)
		c.NLayers = 2 // the same layer twice
		for name, x := range maps.Clone(w) {
			w[strings.Replace(name, "layers.0", "layers.1", 1)] = x
		}
		g, err := models.Build(c, w, models.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		x := npy(t, filepath.Join(dir, "input.npy"))
		whole := interpret(t, g, "", map[string]tensor.Datum{models.Input: x})
		length, want := x.Dim(1), whole[models.Output].(*tensor.Tensor)
		for _, at := range []int{1, 3, 20} {
			first := interpret(t, g, "", map[string]tensor.Datum{models.Input: cut(x, 0, at)})
			second := interpret(t, g, "", map[string]tensor.Datum{models.Input: cut(x, at, length), models.StateIn: first[models.StateOut]})
			if e := apart(t, first[models.Output], cut(want, 0, at)); !(e <= 1e-12) {
				t.Errorf("first %d steps: %.3g", at, e)
			}
			if e := apart(t, second[models.Output], cut(want, at, length)); !(e <= 1e-12) {
				t.Errorf("steps from %d on: %.3g", at, e)
			}
			if e := apart(t, second[models.StateOut], whole[models.StateOut].(*tensor.Tensor)); !(e <= 1e-12) {
				t.Errorf("state: %.3g", e)
			}
		}
	}
}

// cut takes steps lo to hi of a (batch, time, features) array.
func cut(x *tensor.Tensor, lo, hi int) *tensor.Tensor {
	v, _ := x.Float64s()
	b, l, h := x.Dim(0), x.Dim(1), x.Dim(2)
	var out []float64
	for i := range b {
		out = append(out, v[(i*l+lo)*h:(i*l+hi)*h]...)
	}
	if x.DType() == tensor.Float32 {
		y, _ := tensor.FromFloat64s(tensor.Float32, out, b, hi-lo, h)
		return y
	}
	return tensor.FromSlice(out, b, hi-lo, h)
}

func TestSpecsOfReferences(t *testing.T) {
	root := shared.Path(t, "reference")
	dirs, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		c, w := model(t, filepath.Join(root, d.Name()))
		if err := models.Check(c, w); err != nil {
			t.Errorf("%s: %v", d.Name(), err)
		}
	}
}
