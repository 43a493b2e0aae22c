package golden

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// Models that people use: how their nodes run after all passes, and their answers. They are not part of the
// repository; ESSMC_REALMODELS is the folder that frontend/onnx/testdata/realmodels/fetch.sh has filled. Packages
// that could not be fetched are skipped.
func TestRealModels(t *testing.T) {
	root := os.Getenv("ESSMC_REALMODELS")
	if root == "" {
		t.Skip("ESSMC_REALMODELS names no folder with models")
	}
	root = filepath.Join(root, "models")
	var files []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".onnx") {
			files = append(files, p)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Skipf("no models in %s yet: %v", root, err)
	}
	names := map[string][]string{} // by what the file holds: several packages have the same model
	var ways, hashes sections
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("%x", sha256.Sum256(b))[:12]
		names[id] = append(names[id], filepath.ToSlash(name))
		if len(names[id]) > 1 {
			continue
		}
		g, _, err := onnx.ReadFile(file, onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cases := realInputs(t, id, g)
		if err := onnxPipeline(g); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		r := newRecorder()
		var l lists
		var a answers
		for _, c := range cases {
			outs, err := answer(g, runtime.Options{Backend: r, Threads: 2}, c.in)
			if err != nil {
				t.Errorf("%s, %s: %v", file, c.label, err)
				continue
			}
			l.add(c.label, listing(r.take()[0]))
			a.add(c.label, outs...)
		}
		ways = append(ways, l.sections(id)...)
		hashes.add(cpu.Kernels()+" "+id, a.String())
	}
	var list strings.Builder
	for _, id := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&list, "%s  %s\n", id, strings.Join(names[id], ", "))
	}
	comment := "Models by the beginning of their files' SHA-256:\n\n" + list.String() + "\n"
	hold(t, "ways-realmodels.txt", listComment+comment, ways, part)
	if goruntime.GOARCH == "amd64" {
		hold(t, "answers-realmodels.txt", answersComment+comment, hashes, own)
	}
}

// realCase is an input for a model, selected by the model's inputs.
type realCase struct {
	label string
	in    data
}

// realInputs makes noise in the shapes that a model is for: windows of sound, bytes, spectrograms, pictures.
func realInputs(t *testing.T, id string, g *ir.Graph) (cases []realCase) {
	t.Helper()
	h := fnv.New64a()
	h.Write([]byte(id))
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	noise := func(scale float64, shape ...int) *tensor.Tensor {
		x := tensor.New(tensor.Float32, shape...)
		for i := range tensor.Data[float32](x) {
			tensor.Data[float32](x)[i] = float32(scale * rng.NormFloat64())
		}
		return x
	}
	add := func(label string, in data) { cases = append(cases, realCase{label, in}) }
	takes := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return g.Input(n) == nil })
	}
	first := g.Inputs[0]
	shape := first.Shape()
	switch {
	case takes("bytes"):
		for _, b := range []int{1, 3} {
			x := tensor.New(tensor.Int32, b, 2048)
			for i := range tensor.Data[int32](x) {
				tensor.Data[int32](x)[i] = rng.Int32N(257)
			}
			add(fmt.Sprintf("%dx2048", b), data{"bytes": x})
		}
	case takes("h", "c", "input") && !takes("sr"):
		for _, n := range []int{1, 7} {
			add(fmt.Sprintf("%d windows", n),
				data{"input": noise(0.3, n, 576), "h": noise(0.1, 1, 1, 128), "c": noise(0.1, 1, 1, 128)})
		}
	case takes("input", "state"), takes("input", "h"):
		for _, c := range []struct{ batch, length, rate int }{{1, 512, 16000}, {3, 512, 16000}, {1, 256, 8000}} {
			if !takes("sr") && c.rate != 16000 {
				continue
			}
			batch, length := c.batch, c.length
			if n, ok := shape[0].Known(); ok { // with what came before each window in it
				batch, length = int(n), length+64
			}
			in := data{"input": noise(0.3, batch, length)}
			if takes("sr") {
				in["sr"] = tensor.Scalar(int64(c.rate))
			}
			if takes("state") {
				in["state"] = noise(0.1, 2, batch, 128)
			} else {
				in["h"], in["c"] = noise(0.1, 2, batch, 64), noise(0.1, 2, batch, 64)
			}
			add(fmt.Sprintf("%dx%d@%d", batch, length, c.rate), in)
		}
	case takes("input") && len(shape) == 2:
		add("1x1280", data{"input": noise(3000, 1, 1280)})
		add("2x12345", data{"input": noise(3000, 2, 12345)})
	case len(shape) == 4 && takes("x"):
		if n, ok := shape[2].Known(); ok && n == 48 || len(g.Outputs[0].Shape()) < 4 { // lines of text
			add("1x3x48x192", data{first.Name: noise(1, 1, 3, 48, 192)})
			add("2x3x48x100", data{first.Name: noise(1, 2, 3, 48, 100)})
			break
		}
		add("1x3x96x160", data{first.Name: noise(1, 1, 3, 96, 160)})
	case len(shape) == 4:
		add("1x76x32x1", data{first.Name: noise(1, 1, 76, 32, 1)})
		add("3x76x32x1", data{first.Name: noise(1, 3, 76, 32, 1)})
	default:
		known, ok := shape.Known()
		if !ok {
			t.Fatalf("%s: nothing is known of a model with inputs %v", id, g.Inputs)
		}
		add(tensor.ShapeString(known), data{first.Name: noise(1, known...)})
	}
	return cases
}
