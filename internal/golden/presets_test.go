package golden

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	processor "golang.org/x/sys/cpu"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// kinds are the models made of each preset: unchanged, and causal.
var kinds = []string{"", "causal"}

// preset is a preset with untrained weights, and with two layers, which are as good as six here.
func preset(t *testing.T, p essm.Preset, kind string, layers int) *ir.Graph {
	t.Helper()
	if p.Config.NLayers = layers; kind == "causal" {
		p.Config.Layer.Bidirectional = false
	}
	w, err := essm.Init(p.Config, p.Init, 1)
	if err != nil {
		t.Fatal(err)
	}
	g, err := models.Build(p.Config, w, models.BuildOptions{Name: p.ID})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func optimised(t *testing.T, g *ir.Graph) *ir.Graph {
	t.Helper()
	c := g.Clone()
	if err := passes.Optimize(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// pairs reports whether a preset's samples are pairs of sequences.
func pairs(p essm.Preset) bool { return p.Config.Decoder.Type == "retrieval" }

// presetInput makes an input for batch samples, or pairs of sequences.
func presetInput(p essm.Preset, batch, length int) data {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %d", p.ID, batch, length)
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	if pairs(p) {
		batch *= 2
	}
	in := data{}
	if c := p.Config; c.Encoder.Type == "embedding" {
		x := tensor.New(tensor.Int64, batch, length)
		for i := range tensor.Data[int64](x) {
			tensor.Data[int64](x)[i] = rng.Int64N(int64(c.Encoder.VocabSize))
		}
		in[models.Input] = x
	} else {
		x := tensor.New(tensor.Float32, batch, length, c.Encoder.DInput)
		for i := range tensor.Data[float32](x) {
			tensor.Data[float32](x)[i] = float32(rng.NormFloat64())
		}
		in[models.Input] = x
	}
	if p.Config.Decoder.UseLengths {
		n := tensor.New(tensor.Int64, batch)
		for i := range tensor.Data[int64](n) {
			tensor.Data[int64](n)[i] = 1 + rng.Int64N(int64(length))
		}
		in[models.Lengths] = n
	}
	return in
}

// binding fixes the dimensions of a graph's inputs; inputs that may be absent are so, unless all are given.
func binding(t *testing.T, g *ir.Graph, dims map[string]int64, all bool) runtime.Binding {
	t.Helper()
	b := runtime.Binding{Dims: dims}
	for _, v := range g.Inputs {
		typ := v.Type
		if o, ok := typ.(*ir.OptionalType); ok {
			if typ = o.Elem; !all {
				b.Inputs = append(b.Inputs, nil)
				continue
			}
		}
		tt := typ.(*ir.TensorType)
		known := &ir.TensorType{Elem: tt.Elem}
		for _, d := range tt.Shape {
			n, err := d.Eval(dims)
			if err != nil {
				t.Fatalf("input %s: %v", v.Name, err)
			}
			known.Shape = append(known.Shape, ir.Const(n))
		}
		b.Inputs = append(b.Inputs, known)
	}
	return b
}

const listComment = `How each node runs: the region that it is in (and the chunk of time, where regions run chunk by chunk), the operator, types
other than float32, and the way; equal neighbours once. The words are those of cpu.Implementation. First comes what is
not run, in the graph's order, then the rest in the order of execution. Cases whose lists are equal share one. Written by
go test ./internal/golden -update.

`

// lists collects listings; equal ones of one group are one section.
type lists struct {
	names []string
	texts []string
}

func (l *lists) add(name, text string) {
	l.names, l.texts = append(l.names, name), append(l.texts, text)
}

func (l *lists) sections(group string) (s sections) {
	done := make([]bool, len(l.texts))
	for i, text := range l.texts {
		if done[i] {
			continue
		}
		var names []string
		for j := i; j < len(l.texts); j++ {
			if l.texts[j] == text {
				names, done[j] = append(names, l.names[j]), true
			}
		}
		s.add(group+": "+strings.Join(names, ", "), text)
	}
	return s
}

// How the nodes of the presets run: as built, optimised and as step graphs.
func TestPresetWays(t *testing.T) {
	var all sections
	for _, p := range essm.Presets() {
		var l lists
		for _, kind := range kinds {
			g := preset(t, p, kind, 2)
			name := strings.TrimSpace(kind + " ")
			add := func(what string, g *ir.Graph, o runtime.Config, shapes [][2]int64, given bool) {
				r := newRecorder()
				o.Threads = 1
				if o.Products == tensor.Invalid {
					o.Products = tensor.Float32
				}
				program, err := r.Compile(g, o)
				if err != nil {
					t.Fatal(err)
				}
				defer program.Close()
				for _, s := range shapes {
					e, err := program.Bind(binding(t, g, map[string]int64{"B": s[0], "P": s[0], "L": s[1]}, given))
					if err != nil {
						t.Fatal(err)
					}
					e.Close()
					l.add(strings.TrimSpace(fmt.Sprintf("%s %s %dx%d", name, what, s[0], s[1])), listing(r.take()[0]))
				}
			}
			long := int64(p.Length)
			fast := optimised(t, g)
			add("plain", g, runtime.Config{}, [][2]int64{{1, 200}}, false)
			add("optimised", fast, runtime.Config{}, [][2]int64{{1, 1}, {1, 37}, {3, 200}, {1, long}}, false)
			add("all inputs", fast, runtime.Config{}, [][2]int64{{1, 200}}, true)
			add("int8", fast, runtime.Config{Products: tensor.Int8}, [][2]int64{{1, 200}}, false)
			for _, form := range runtime.Kernels()[1:] {
				if p.ID != "text" && p.ID != "smnist" { // elsewhere the lists differ in that word, too
					break
				}
				add(form, fast, runtime.Config{Kernel: form}, [][2]int64{{1, 200}}, false)
			}
			if kind == "causal" {
				s, err := stepgraph.Of(fast)
				if err != nil {
					t.Fatal(err)
				}
				add("step", s.Graph, runtime.Config{}, [][2]int64{{1, 1}, {4, 1}, {1, 64}, {1, 5000}}, false)
			}
		}
		all = append(all, l.sections(p.ID)...)
	}
	hold(t, "ways-presets.txt", listComment, all, whole)
}

// The presets' answers, bit by bit: at once, in every form and precision, and as streams.
func TestPresetAnswers(t *testing.T) {
	if goruntime.GOARCH != "amd64" {
		t.Skip("operators without kernels are evaluated by Go, which rounds products and sums together on some architectures")
	}
	presetAnswers(t, "answers-presets.txt", 2)
	if os.Getenv("ESSMC_LONG") != "" {
		presetAnswers(t, "answers-presets-whole.txt", 0)
	}
}

// presetAnswers holds the answers of presets with so many layers; 0: all of them.
func presetAnswers(t *testing.T, file string, layers int) {
	t.Helper()
	var a, low answers
	for _, p := range essm.Presets() {
		for _, kind := range kinds {
			n := layers
			if n == 0 {
				n = p.Config.NLayers
			}
			g := preset(t, p, kind, n)
			fast := optimised(t, g)
			name := strings.TrimSpace(p.ID + " " + kind)
			run := func(a *answers, what string, g *ir.Graph, o runtime.Options, in ...data) {
				o.Backend, o.Threads = newRecorder().Backend, 2
				outs, err := answer(g, o, in...)
				if err != nil {
					t.Fatalf("%s %s: %v", name, what, err)
				}
				a.add(name+" "+what, outs...)
			}
			one, some := presetInput(p, 1, 333), presetInput(p, 3, 64)
			run(&a, "plain", g, runtime.Options{}, some)
			for _, form := range runtime.Kernels() {
				run(&a, form, fast, runtime.Options{Kernel: form}, one, some)
			}
			run(&a, "int8", fast, runtime.Options{Precision: tensor.Int8}, one, some)
			run(&low, "bfloat16", fast, runtime.Options{Precision: tensor.BFloat16}, one, some)
			if kind == "causal" {
				a.add(name+" stream", streamed(t, fast, presetInput(p, 2, 101)))
			}
		}
	}
	s := sections{{Name: cpu.Kernels(), Data: []byte(a.String())}}
	// elsewhere the other kernels stand in, and round otherwise
	if cpu.Kernels() != "avx512" || processor.X86.HasAVX512BF16 {
		s.add(cpu.Kernels()+" bfloat16", low.String())
	}
	hold(t, file, answersComment, s, own)
}

// streamed feeds a sequence in chunks of odd lengths, and gives the last outputs and the state behind them, and all outputs
// before.
func streamed(t *testing.T, g *ir.Graph, in data) data {
	t.Helper()
	m, err := runtime.New(g, runtime.Options{Backend: newRecorder().Backend, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	x := in[models.Input].(*tensor.Tensor)
	batch, length := x.Dim(0), x.Dim(1)
	s, err := m.NewStream(samplesOf(m, batch))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := &tensor.Sequence{}
	for lo, chunks := 0, []int{1, 7, 3, 33, 1}; lo < length; {
		hi := min(length, lo+chunks[len(all.Items)%len(chunks)])
		part, out := data{models.Input: cut(x, lo, hi)}, data{}
		if n, ok := in[models.Lengths]; ok && lo == 0 {
			part[models.Lengths] = n
		}
		if err := s.Step(context.Background(), part, out); err != nil {
			t.Fatal(err)
		}
		all.Items = append(all.Items, out[models.Output])
		lo = hi
	}
	state, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	d := data{"": all}
	for name, v := range state {
		d[name] = v
	}
	return d
}

// samplesOf is the batch of a stream for an input with so many sequences.
func samplesOf(m *runtime.Model, sequences int) int {
	if m.Meta()[ir.MetaBatch] == "P" {
		return sequences / 2
	}
	return sequences
}

// cut gives steps lo to hi of a tensor (samples, steps, …).
func cut(x *tensor.Tensor, lo, hi int) *tensor.Tensor {
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

// Model.Hash of the presets, as built and optimised: snapshots of streams are refused where it changes.
func TestHashes(t *testing.T) {
	if goruntime.GOARCH != "amd64" {
		t.Skip("what passes fold is computed by Go, which rounds products and sums together on some architectures")
	}
	var b strings.Builder
	for _, p := range essm.Presets() {
		for _, kind := range kinds {
			g := preset(t, p, kind, 2)
			for _, form := range []struct {
				name string
				g    *ir.Graph
			}{{"plain", g}, {"optimised", optimised(t, g)}} {
				m, err := runtime.New(form.g, runtime.Options{Backend: hashing{newRecorder().Backend}})
				if err != nil {
					t.Fatal(err)
				}
				sum, err := m.Hash()
				if err != nil {
					t.Fatal(err)
				}
				m.Close()
				fmt.Fprintf(&b, "%x  %s\n", sum, strings.Join(strings.Fields(p.ID+" "+kind+" "+form.name), " "))
			}
		}
	}
	var s sections
	s.add("hashes", b.String())
	hold(t, "hashes.txt", "Model.Hash of the presets, untrained, with two layers. Written by go test ./internal/golden -update.\n\n", s, whole)
}

// hashing is a backend for models that are not run.
type hashing struct{ runtime.Backend }

func (hashing) Resolver() ir.Resolver { return ops.Default }

func (hashing) Compile(*ir.Graph, runtime.Config) (runtime.Program, error) { return nothing{}, nil }

type nothing struct{ runtime.Program }

func (nothing) Close() error { return nil }
