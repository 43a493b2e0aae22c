package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/essmc/essmc/cmd/essmc/command/internal/tune"
	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// The corpus holds files that users may have on their disks, made by the commands of the version that its folder is
// named after: model directories, plans with Blocks, ONNX files, snapshots of streams, and a measurement of a machine.
// All of them must keep working, with the same answers bit by bit for each variant of the kernels. Nothing in it is
// ever rewritten: -update adds missing files and answers. If an answer changes for a reason, remove it from answers.txt
// by hand and update.
const corpusDir = "testdata/corpus/v1"

// corpusModels are the models of the corpus: how they are made, and whether they are streamed and exported.
var corpusModels = []struct {
	name             string
	causal, exported bool
	init             []string
}{
	{"waves", true, true, []string{"image", "encoder.d_input=3", "layer.bidirectional=false", "decoder.mode=none",
		"decoder.d_output=2", "n_layers=1"}},
	{"window", true, true, []string{"sc35", "layer.bidirectional=false", "layer.max_kernel_length=5",
		"decoder.d_output=3"}},
	{"tokens", true, false, []string{"listops", "decoder.d_output=3"}},
	{"voice", false, true, []string{"sc10", "decoder.d_output=3", "n_layers=1"}},
	{"pairs", false, false, []string{"retrieval"}},
}

const (
	corpusLength = 150 // steps of the inputs
	corpusCut    = 57  // steps before the snapshot
)

// corpusFile returns the path of a file in the corpus. If it is missing, and -update is given, corpusFile makes it.
func corpusFile(t *testing.T, name string, args ...string) string {
	t.Helper()
	path := filepath.Join(corpusDir, name)
	if _, err := os.Stat(path); err != nil {
		if !*update || len(args) == 0 {
			t.Fatal(err)
		}
		must(t, append(args, "-o", path)...)
	}
	return path
}

// corpusInput returns the input of a model, which is always the same.
func corpusInput(m *runtime.Model) map[string]tensor.Datum {
	in := map[string]tensor.Datum{}
	for _, p := range m.Inputs() {
		tt := p.Type.(*ir.TensorType)
		dims := map[string]int64{"B": 2, "P": 1, "L": corpusLength}
		var shape []int
		for _, d := range tt.Shape {
			n, _ := d.Eval(dims)
			shape = append(shape, int(n))
		}
		x := tensor.New(tt.Elem, shape...)
		switch {
		case p.Name == models.StateIn: // zeros
		case p.Name == models.Lengths:
			copy(tensor.Data[int64](x), []int64{corpusLength, 91})
		case tt.Elem == tensor.Int64:
			for i := range tensor.Data[int64](x) {
				tensor.Data[int64](x)[i] = int64(i * i % 17)
			}
		default:
			copy(tensor.Data[float32](x), ramp(x.Len()))
		}
		in[p.Name] = x
	}
	return in
}

// corpusAnswers holds hashes of answers by name.
type corpusAnswers struct {
	variant string
	want    map[string]string
	archive *txtar.Archive
	seen    map[string]bool
}

func readCorpusAnswers(t *testing.T) *corpusAnswers {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corpusDir, "answers.txt"))
	if err != nil && !*update {
		t.Fatal(err)
	}
	a := &corpusAnswers{variant: cpu.Kernels(), want: map[string]string{}, archive: txtar.Parse(b),
		seen: map[string]bool{}}
	for _, f := range a.archive.Files {
		if f.Name != a.variant {
			continue
		}
		for line := range strings.Lines(string(f.Data)) {
			if sum, what, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
				a.want[what] = sum
			}
		}
	}
	return a
}

func (a *corpusAnswers) hold(t *testing.T, what, sum string) {
	t.Helper()
	a.seen[what] = true
	switch want, ok := a.want[what]; {
	case goruntime.GOARCH != "amd64": // processors that fuse products and sums give other bits
	case !ok && *update:
		a.want[what] = sum
	case sum != want:
		t.Errorf("%s, kernels %s: the answer is not what it was: found %s, expected %s", what, a.variant, sum, want)
	}
}

// close writes the added answers, and reports those that no test has used.
func (a *corpusAnswers) close(t *testing.T) {
	t.Helper()
	var lines []string
	for what, sum := range a.want {
		lines = append(lines, fmt.Sprintf("%s  %s\n", sum, what))
		if !a.seen[what] {
			t.Errorf("answers.txt: nothing gives %q", what)
		}
	}
	if !*update || goruntime.GOARCH != "amd64" {
		return
	}
	slices.SortFunc(lines, func(x, y string) int { return strings.Compare(x[18:], y[18:]) })
	f := txtar.File{Name: a.variant, Data: []byte(strings.Join(lines, ""))}
	if i := slices.IndexFunc(a.archive.Files, func(f txtar.File) bool { return f.Name == a.variant }); i >= 0 {
		a.archive.Files[i] = f
	} else {
		a.archive.Files = append(a.archive.Files, f)
	}
	slices.SortFunc(a.archive.Files, func(x, y txtar.File) int { return strings.Compare(x.Name, y.Name) })
	if err := os.WriteFile(filepath.Join(corpusDir, "answers.txt"), txtar.Format(a.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// bits returns the hash of tensors.
func bits(all ...*tensor.Tensor) string {
	h := fnv.New64a()
	for _, x := range all {
		fmt.Fprintf(h, "%v %v:", x.DType(), x.Shape())
		h.Write(x.Bytes())
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// opened prepares a model of the corpus for the cpu.
func opened(t *testing.T, path string, o runtime.Options) *runtime.Model {
	t.Helper()
	m, err := open.File(path, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Backend, o.Threads = cpu.New(cpu.WithCosts(corpusCosts)), 2
	c, err := m.Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// corpusCosts are the same for all variants of the kernels, so that the same forms are chosen.
var corpusCosts = cpu.Costs{Scan: 0.4, ComplexScan: 4, FFT: 0.16, Pass: 0.25, Call: 250, Direct: 3.7, Output: 9,
	Dense: 6.2, Gemm: 93}

func ran(t *testing.T, m *runtime.Model) *tensor.Tensor {
	t.Helper()
	out, err := m.NewSession().Run(context.Background(), corpusInput(m))
	if err != nil {
		t.Fatal(err)
	}
	return out[models.Output].(*tensor.Tensor)
}

// near compares an answer with that of the plan, for graphs that differ.
func near(t *testing.T, what string, got, want *tensor.Tensor) {
	t.Helper()
	a, b := tensor.Data[float32](got), tensor.Data[float32](want)
	worst, scale := 0.0, 0.0
	for i := range b {
		worst, scale = max(worst, math.Abs(float64(a[i]-b[i]))), max(scale, math.Abs(float64(b[i])))
	}
	if len(a) != len(b) || !(worst <= 1e-5*scale) {
		t.Errorf("%s: %.3g from the plan's answer, whose largest number is %.3g", what, worst, scale)
	}
}

// TestCorpus checks that the files of earlier versions keep working, with the same answers.
func TestCorpus(t *testing.T) {
	t.Setenv(tune.Variable, tune.Off)
	answers := readCorpusAnswers(t)
	defer answers.close(t)
	if *update {
		if err := os.MkdirAll(corpusDir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range corpusModels {
		args := []string{"init", c.init[0], "--seed", "3"}
		for _, set := range slices.Concat([]string{"d_model=4", "n_layers=2", "layer.heads=2", "layer.d_state=4"},
			c.init[1:]) {
			args = append(args, "--set", set)
		}
		dir := corpusFile(t, c.name, args...)
		plan := corpusFile(t, c.name+".essm", "compile", dir)
		written := opened(t, plan, runtime.Options{})
		if !strings.Contains(irtext.String(written.Graph()), "essm.Block") {
			t.Errorf("%s holds no Block", plan)
		}
		want := ran(t, written)
		answers.hold(t, c.name+".essm", bits(want))
		for _, form := range runtime.Kernels()[1:] {
			answers.hold(t, c.name+".essm "+form, bits(ran(t, opened(t, plan, runtime.Options{Kernel: form}))))
		}
		fresh := opened(t, dir, runtime.Options{})
		answers.hold(t, c.name+" compiled now", bits(ran(t, fresh)))
		if c.exported {
			corpusExports(t, answers, c.name, plan, want)
		}
		if c.causal {
			corpusStream(t, answers, c.name, written, fresh)
		}
	}
}

// corpusExports runs the exported file of a plan, and a plan compiled from that, and exports the plan again.
func corpusExports(t *testing.T, answers *corpusAnswers, name, plan string, want *tensor.Tensor) {
	t.Helper()
	// Before files listed their operators in their metadata, other passes recognized them.
	before := filepath.Join(corpusDir, name+".onnx")
	near(t, before, ran(t, opened(t, before, runtime.Options{})), want)
	for _, kind := range [][]string{{"-listed.onnx"}, {"-functions.onnx", "--functions"}} {
		file := corpusFile(t, name+kind[0], append([]string{"export", plan}, kind[1:]...)...)
		got := ran(t, opened(t, file, runtime.Options{}))
		answers.hold(t, name+kind[0], bits(got))
		near(t, file, got, want)
		again := filepath.Join(t.TempDir(), filepath.Base(file)) // the file contains its name
		must(t, append([]string{"export", plan, "-o", again}, kind[1:]...)...)
		if now, then := onnxText(t, again), onnxText(t, file); now != then {
			t.Errorf("%s: the plan is exported in another form than it was", file)
		}
	}
	imported := corpusFile(t, name+"-imported.essm", "compile", filepath.Join(corpusDir, name+".onnx"))
	answers.hold(t, name+"-imported.essm", bits(ran(t, opened(t, imported, runtime.Options{}))))
}

// corpusStream continues from a snapshot with the plan that it was taken from. A newly compiled model has another
// graph, without Blocks, and refuses it (docs/upgrading.md). It accepts its own snapshots.
func corpusStream(t *testing.T, answers *corpusAnswers, name string, written, fresh *runtime.Model) {
	t.Helper()
	path := filepath.Join(corpusDir, name+".state")
	steps := func(s *runtime.Stream, lo, hi int) []*tensor.Tensor {
		var outs []*tensor.Tensor
		x := corpusInput(written)[models.Input].(*tensor.Tensor)
		for _, n := range []int{1, 7, 30, corpusLength} {
			if lo == hi {
				break
			}
			n = min(n, hi-lo)
			out := map[string]tensor.Datum{}
			if err := s.Step(context.Background(), map[string]tensor.Datum{models.Input: timesteps(x, lo, lo+n)},
				out); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			outs = append(outs, out[models.Output].(*tensor.Tensor))
			lo += n
		}
		return outs
	}
	stream := func(m *runtime.Model) *runtime.Stream {
		s, err := m.NewStream(2)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	whole := stream(written)
	answers.hold(t, name+".essm stream", bits(steps(whole, 0, corpusCut)...))
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) && *update {
		if b, err = whole.Snapshot(); err == nil {
			err = os.WriteFile(path, b, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		what  string
		model *runtime.Model
	}{{".essm", written}, {" compiled now", fresh}} {
		s := stream(m.model)
		b := b
		if m.model == fresh {
			if err := s.Restore(b); err == nil || !strings.Contains(err.Error(), "is of the model with hash") {
				t.Errorf("%s%s: a snapshot of another graph: %v", name, m.what, err)
			}
			own := stream(fresh)
			steps(own, 0, corpusCut)
			if b, err = own.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Restore(b); err != nil {
			t.Errorf("%s%s: its snapshot is refused: %v", name, m.what, err)
			continue
		}
		if s.Steps() != corpusCut {
			t.Errorf("%s: %d steps, expected %d", path, s.Steps(), corpusCut)
		}
		answers.hold(t, name+m.what+" from "+name+".state", bits(steps(s, corpusCut, corpusLength)...))
	}
}

// timesteps returns steps lo to hi-1 of samples.
func timesteps(x *tensor.Tensor, lo, hi int) *tensor.Tensor {
	shape := slices.Clone(x.Shape())
	inner := len(x.Bytes()) / (shape[0] * shape[1])
	row := shape[1] * inner
	shape[1] = hi - lo
	y := tensor.New(x.DType(), shape...)
	for b := range shape[0] {
		copy(y.Bytes()[b*(hi-lo)*inner:], x.Bytes()[b*row+lo*inner:b*row+hi*inner])
	}
	return y
}

// TestCorpusTune checks that a measurement of an earlier version is used.
func TestCorpusTune(t *testing.T) {
	path := filepath.Join(corpusDir, "tune.json")
	if _, err := os.Stat(path); err != nil && *update {
		must(t, "tune", "-o", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f tune.File
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		t.Fatal(err)
	}
	// As if it had been made on this machine.
	mine := bytes.Replace(b, fmt.Appendf(nil, "%q", f.Machine), fmt.Appendf(nil, "%q", tune.Machine()), 1)
	mine = bytes.Replace(mine, fmt.Appendf(nil, "%q", f.Kernels), fmt.Appendf(nil, "%q", cpu.Kernels()), 1)
	here := filepath.Join(t.TempDir(), "tune.json")
	if err := os.WriteFile(here, mine, 0o666); err != nil {
		t.Fatal(err)
	}
	got, err := tune.Read(here)
	if err != nil {
		t.Fatal(err)
	}
	if got.Costs != f.Costs {
		t.Errorf("found %+v, expected %+v", got.Costs, f.Costs)
	}
	t.Setenv(tune.Variable, here)
	shown := must(t, "tune", "--show")
	if want := fmt.Sprintf("%.4g", f.Costs.Scan); !strings.Contains(shown, want) {
		t.Errorf("the measurement is not shown: no %s in\n%s", want, shown)
	}
	if out := must(t, "explain", filepath.Join(corpusDir, "waves.essm"), "--shape", "L=1000"); !strings.Contains(out,
		"scan") {
		t.Errorf("explain does not say which form was chosen:\n%s", out)
	}
}

// onnxText returns the graph of an ONNX file, without the version of its producer.
func onnxText(t *testing.T, file string) string {
	t.Helper()
	g, _, err := onnx.ReadFile(file, onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	delete(g.Meta, onnx.MetaProducer)
	return irtext.String(g)
}
