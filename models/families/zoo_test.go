package families_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
	"github.com/essmc/essmc/ops/essm/spectral"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// slack is how far the answers of the released code are from the truth in float32, where that is more than 1e-5: those of
// slow modes and long sums. Ours may be as far.
var slack = map[string]float64{"s4d-slow-modes": 1.5e-4, "s5-last-noconj": 1.1e-5}

// TestReferences runs the models of the reference cases whose family is known: by the interpreter in float64 against the
// answers in float64, on the CPU in every form, as a plan, as a stream, and as a stream that moves to another process.
func TestReferences(t *testing.T) { references(t, reference) }

// references runs a test for each reference case whose family is known.
func references(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(shared.Path(t, "reference-zoo"), "*", "config.json"))
	if err != nil || len(dirs) == 0 {
		t.Fatal("no cases", err)
	}
	known := map[string]bool{}
	for _, f := range models.Families() {
		known[f.Type] = true
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v, err := config.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if !known[v.Get("model_type").Text] {
			continue
		}
		t.Run(filepath.Base(dir), func(t *testing.T) { test(t, dir) })
	}
}

func reference(t *testing.T, dir string) {
	m, err := open.File(dir, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in := inputs(t, dir)
	truth, bound := truth(t, dir)
	if got := run(t, m.CompileSource, runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, in); far(got, truth) > 1e-9 {
		t.Errorf("in float64 it is %.2g off", far(got, truth))
	}
	for _, kernel := range []string{"", "scan", "chunked", "fft", "direct"} {
		if kernel == "chunked" && noChunks(t, m) {
			continue
		}
		if got := run(t, m.Compile, runtime.Options{Backend: cpu.New(), Kernel: kernel}, in); far(got, truth) > bound {
			t.Errorf("on the CPU, form %q, it is %.2g off", kernel, far(got, truth))
		}
	}
	file := planned(t, m, in)
	if !m.Config.Common().Streams {
		return
	}
	for _, chunk := range []int{1, 7, 64} {
		if err := stream(t, m, in, truth, chunk, bound); err != nil {
			t.Errorf("in chunks of %d: %v", chunk, err)
		}
	}
	elsewhere(t, file, in)
}

// noChunks reports whether a model has a system that is too ill-conditioned for the form chunked, and holds that it is
// refused with its condition number then.
func noChunks(t *testing.T, m *open.Model) bool {
	t.Helper()
	g, err := m.Graph()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return n.Attrs.Float("condition", 0) > spectral.MaxCondition }) {
		return false
	}
	_, err = m.Compile(runtime.Options{Backend: cpu.New(), Kernel: "chunked"})
	var wrong *runtime.OptionError
	if !errors.As(err, &wrong) || wrong.Option != "Kernel" || !strings.Contains(wrong.Msg, "have condition number ") ||
		!strings.HasSuffix(wrong.Msg, "; expected scan, fft, direct or auto") {
		t.Errorf("an ill-conditioned system in chunks: error %v", err)
	}
	return true
}

// inputs reads the inputs of a case.
func inputs(t *testing.T, dir string) map[string]tensor.Datum {
	t.Helper()
	in := map[string]tensor.Datum{models.Input: array(t, dir, "input")}
	if _, err := os.Stat(filepath.Join(dir, "lengths.npy")); err == nil {
		in[models.Lengths] = array(t, dir, "lengths")
	}
	return in
}

// truth reads the answer of a case, and returns how far an answer in float32 may be.
func truth(t *testing.T, dir string) (*tensor.Tensor, float64) {
	t.Helper()
	return array(t, dir, "output64"), max(1e-5, slack[filepath.Base(dir)])
}

func array(t *testing.T, dir, name string) *tensor.Tensor {
	t.Helper()
	a, err := arrays.Read(filepath.Join(dir, name+".npy"))
	if err != nil {
		t.Fatal(err)
	}
	return a.Tensor
}

func run(t *testing.T, compile func(runtime.Options) (*runtime.Model, error), o runtime.Options,
	in map[string]tensor.Datum) *tensor.Tensor {
	t.Helper()
	m, err := compile(o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	out, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out[models.Output].(*tensor.Tensor)
}

// far returns the largest difference over the largest value.
func far(got, want *tensor.Tensor) float64 {
	a, err := got.Float64s()
	if err != nil || len(a) != want.Len() {
		return math.Inf(1)
	}
	b, err := want.Float64s()
	if err != nil {
		return math.Inf(1)
	}
	most, off := 0.0, 0.0
	for i := range b {
		most = math.Max(most, math.Abs(b[i]))
		if d := math.Abs(a[i] - b[i]); !(d <= off) {
			off = d
		}
	}
	return off / most
}

// stream takes the sequence in chunks. The answer after the last one is that of the sequence.
func stream(t *testing.T, m *open.Model, in map[string]tensor.Datum, truth *tensor.Tensor, chunk int, bound float64) error {
	t.Helper()
	model, err := m.Compile(runtime.Options{Backend: cpu.New()})
	if err != nil {
		return err
	}
	defer model.Close()
	s, err := model.NewStream(sequences(model, in))
	if err != nil {
		return err
	}
	if out := s.Outputs(); len(out) != 1 || out[0].Name != models.Output { // the stream keeps the states
		t.Errorf("the stream's outputs are %v, expected %s", out, models.Output)
	}
	length := in[models.Input].(*tensor.Tensor).Dim(1)
	all, err := steps(s, in, 0, length, chunk)
	if err != nil {
		return err
	}
	if truth.Rank() == 2 || truth.Dim(1) != length {
		if d := far(all[len(all)-1], truth); d > bound {
			return fmt.Errorf("%.2g off", d)
		}
		return nil
	}
	if d := far(joined(t, all), truth); d > bound { // every step
		return fmt.Errorf("%.2g off", d)
	}
	return nil
}

// sequences is the batch of a stream that takes in.
func sequences(m *runtime.Model, in map[string]tensor.Datum) int {
	batch := in[models.Input].(*tensor.Tensor).Dim(0)
	if m.Meta()[ir.MetaBatch] == "P" {
		batch /= 2 // pairs of documents
	}
	return batch
}

// steps takes the steps from to to in chunks, and returns the answer after each.
func steps(s *runtime.Stream, in map[string]tensor.Datum, from, to, chunk int) ([]*tensor.Tensor, error) {
	var all []*tensor.Tensor
	for at := from; at < to; at += chunk {
		out := map[string]tensor.Datum{}
		given := map[string]tensor.Datum{models.Input: part(in[models.Input].(*tensor.Tensor), at, min(at+chunk, to))}
		if lengths := in[models.Lengths]; lengths != nil {
			given[models.Lengths] = lengths
		}
		if err := s.Step(context.Background(), given, out); err != nil {
			return nil, err
		}
		all = append(all, out[models.Output].(*tensor.Tensor))
	}
	return all, nil
}

// joined puts chunks together along time.
func joined(t *testing.T, chunks []*tensor.Tensor) *tensor.Tensor {
	t.Helper()
	var all []float32
	for b := range chunks[0].Dim(0) {
		for _, c := range chunks {
			n := c.Len() / c.Dim(0)
			all = append(all, tensor.Data[float32](c)[b*n:(b+1)*n]...)
		}
	}
	return tensor.FromSlice(all, len(all))
}

// part returns the steps from to to.
func part(x *tensor.Tensor, from, to int) *tensor.Tensor {
	shape := append([]int{x.Dim(0), to - from}, x.Shape()[2:]...)
	p := tensor.New(x.DType(), shape...)
	step := len(x.Bytes()) / (x.Dim(0) * x.Dim(1))
	for b := range x.Dim(0) {
		copy(p.Bytes()[b*(to-from)*step:(b+1)*(to-from)*step], x.Bytes()[(b*x.Dim(1)+from)*step:])
	}
	return p
}
