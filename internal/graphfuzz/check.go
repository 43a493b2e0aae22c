package graphfuzz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// runTime bounds one run. Cases are small: one that takes longer hangs.
const runTime = 20 * time.Second

// mostMemory limits a run of the backend: four times the interpreter's limit, so that a run that the interpreter can
// do fits.
const mostMemory = 1 << 30

// Finding is a fault that a case shows.
type Finding struct {
	// Kind is the comparison that failed: "cpu", "threads", "plan", …
	Kind string
	Msg  string
}

func (f *Finding) String() string { return f.Kind + ": " + f.Msg }

// Way is how a case is run in addition to the plain check.
type Way struct {
	Kernel    string
	Precision tensor.DType
	Seed      uint64 // of chunks, and of the limits of memory and time
	// The checks to make.
	Threads, Text, Plan, ONNX, Passes, Memory, Cancel, Stream, Owner bool
}

// Ways chooses a way.
func Ways(s *Source) Way {
	w := Way{Kernel: pick(s, "", "", "", "scan", "chunked", "fft", "direct"), Seed: uint64(s.IntN(1 << 16))}
	w.Precision = pick(s, tensor.Float32, tensor.Float32, tensor.Float32, tensor.Float32, tensor.BFloat16, tensor.Int8)
	k := s.IntN(256)
	w.Threads, w.Text, w.Plan = k&1 != 0, k&6 == 6, k&24 == 24
	w.ONNX, w.Passes = k&96 == 96, k&32 != 0
	w.Memory, w.Cancel = s.one(4), s.one(4)
	w.Stream, w.Owner = s.IntN(2) == 0, s.IntN(2) == 0
	return w
}

// All is the way with every check.
func All() Way {
	return Way{Seed: 1, Threads: true, Text: true, Plan: true, ONNX: true, Passes: true, Memory: true, Cancel: true,
		Stream: true, Owner: true}
}

// Checker checks cases. It may be used concurrently.
type Checker struct {
	Coverage Coverage
	// Other is a third voice; nil: none.
	Other interface {
		// Disagrees returns how another engine's answer differs from the expected one, or "".
		Disagrees(g *ir.Graph, e *expectation) string
	}
}

// Check runs a case, and returns the first fault. A panic outside of the runtime is one, too.
func (c *Checker) Check(cs *Case, w Way) (f *Finding) {
	defer func() {
		if v := recover(); v != nil {
			f = &Finding{"panic", fmt.Sprint(v)}
		}
	}()
	k := &check{Checker: c, cs: cs, way: w}
	for _, step := range []func() *Finding{k.truth, k.plain, k.owner, k.threads, k.kernel, k.precision, k.text, k.plan,
		k.onnx, k.passes, k.memory, k.cancel, k.stream, k.other} {
		if f := step(); f != nil {
			return f
		}
		if k.over {
			return nil
		}
	}
	return nil
}

// check is the check of one case.
type check struct {
	*Checker
	cs   *Case
	way  Way
	want []*expectation // of the runs
	got  []Data         // plain answers
	over bool           // there is nothing to compare with
}

func (k *check) truth() *Finding {
	answers := 0
	for i, in := range k.cs.Runs {
		e, err := expect(k.cs.Graph, in, i == 0 && !k.cs.Loose)
		if err != nil {
			return &Finding{"operator", err.Error()}
		}
		if e != nil && e.err == nil {
			answers++
		}
		k.want = append(k.want, e)
	}
	k.over = answers == 0
	return nil
}

// backend is the backend under test, which notes its implementations.
func (k *check) backend() runtime.Backend { return &recorder{Backend: cpu.New(), c: &k.Coverage} }

// model compiles the graph. It returns nil for a refusal.
func (k *check) model(kind string, g *ir.Graph, o runtime.Options) (*runtime.Model, *Finding) {
	if o.Backend == nil {
		o.Backend = cpu.New()
	}
	if o.Threads == 0 {
		o.Threads = 1
	}
	o.MaxMemory = mostMemory
	m, err := runtime.New(g, o)
	if errors.Is(err, runtime.ErrUnsupported) {
		k.Coverage.refused(err)
		return nil, nil
	}
	if o.Kernel != "" && errors.Is(err, runtime.ErrOption) {
		k.Coverage.note("a form that a system does not have")
		return nil, nil
	}
	if err != nil {
		return nil, &Finding{kind, fmt.Sprintf("compile: %v", err)}
	}
	return m, nil
}

// answers runs all runs in one session. An answer is nil where the run must fail, or where nothing is known of it.
func (k *check) answers(kind string, g *ir.Graph, o runtime.Options) ([]Data, *Finding) {
	m, f := k.model(kind, g, o)
	if m == nil {
		return nil, f
	}
	defer m.Close()
	s := m.NewSession()
	out := make([]Data, len(k.cs.Runs))
	for i, in := range k.cs.Runs {
		e := k.want[i]
		if e == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), runTime)
		got, err := s.Run(ctx, in)
		cancel()
		if f := k.failed(kind, i, err); f != nil || err != nil {
			if f != nil {
				return nil, f
			}
			continue
		}
		out[i] = got
	}
	return out, nil
}

// unranked reports whether an operator with a body reads a tensor of unknown rank, or with an axis of unknown size.
func unranked(g *ir.Graph) bool {
	return g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		for _, v := range n.Inputs {
			if v == nil || n.Op.Body == nil {
				continue
			}
			if t, ok := v.TensorType(); ok && (t.NoRank || slices.ContainsFunc(t.Shape, ir.Dim.IsUnknown)) {
				return errFound
			}
		}
		return nil
	}) != nil
}

// failed judges the error of a run.
func (k *check) failed(kind string, run int, err error) *Finding {
	e := k.want[run]
	switch {
	case errors.Is(err, runtime.ErrInternal):
		return &Finding{kind, fmt.Sprintf("run %d: %v%s", run, err, stack(err))}
	case err == nil && e.err != nil && !e.fits && (kind == "optimize" || kind == "raise"):
		k.Coverage.note("a node that fails is removed") // nothing reads its elements
	case err == nil && errors.Is(e.err, context.DeadlineExceeded):
		k.Coverage.note("the interpreter takes too long")
	case err == nil && e.err != nil && !e.fits && unranked(k.cs.Graph): // a body takes more ranks than its operator
		k.Coverage.note("a rank shows only when the graph runs")
	case err == nil && e.err != nil:
		if len(e.more(4, tolerance)) == 0 && !errors.Is(e.err, runtime.ErrMemory) {
			return &Finding{kind, fmt.Sprintf("run %d: must fail: %v", run, e.err)}
		}
	case err != nil && e.err == nil && !e.fits && loops(k.cs.Graph): // bodies state types that no iteration need have
		k.Coverage.note("an error where sizes contradict each other")
	case err != nil && e.err == nil:
		return &Finding{kind, fmt.Sprintf("run %d: %v", run, err)}
	}
	return nil
}

func stack(err error) string {
	var p *runtime.PanicError
	if !errors.As(err, &p) {
		return ""
	}
	return "\n" + string(p.Stack)
}

// judge compares the answers of all runs.
func (k *check) judge(kind string, got []Data, tol func(*ir.Node) float64) *Finding {
	for i, d := range got {
		if d == nil || k.want[i] == nil || k.want[i].err != nil {
			continue
		}
		if msg := k.want[i].judge(d, tol, kind == "raise"); msg != "" {
			return &Finding{kind, fmt.Sprintf("run %d: %s", i, msg)}
		}
	}
	return nil
}

// equal demands the bits of the plain answers.
func (k *check) equal(kind string, got []Data) *Finding {
	for i, d := range got {
		if d == nil || k.got == nil || k.got[i] == nil {
			continue
		}
		if name := sameData(k.got[i], d); name != "" {
			return &Finding{kind, fmt.Sprintf("run %d: output %s is not the same in every bit: %s", i, name,
				describe(k.got[i][name], d[name]))}
		}
	}
	return nil
}

func describe(a, b tensor.Datum) string {
	x, ok := a.(*tensor.Tensor)
	y, ok2 := b.(*tensor.Tensor)
	if !ok || !ok2 || x.DType() != y.DType() || x.Len() != y.Len() || x.DType() == tensor.String {
		return fmt.Sprintf("%v and %v", a, b)
	}
	p, q := reals(x), reals(y)
	for i := range p {
		if p[i] != q[i] && !(p[i] != p[i] && q[i] != q[i]) {
			return fmt.Sprintf("element %d: %v and %v", i, p[i], q[i])
		}
	}
	return "in the sign of zeros, or NaN"
}

func (k *check) plain() *Finding {
	got, f := k.answers("cpu", k.cs.Graph, runtime.Options{Backend: k.backend()})
	if f != nil {
		return f
	}
	if got == nil {
		k.over = true
		return nil
	}
	for i, e := range k.want {
		if e == nil || e.err != nil {
			got[i] = nil
		}
	}
	k.got = got
	if f := k.judge("cpu", got, nil); f != nil {
		return f
	}
	// Of zeros with different signs, either is the largest.
	exact := !has(k.cs.Graph, "ReduceMax", "ReduceMin", "Max", "Min", "MaxPool", "GlobalMaxPool", "Clip", "TopK",
		"Unique")
	_ = k.cs.Graph.Walk(func(_ *ir.Graph, n *ir.Node) error {
		exact = exact && n.Op.Tol.Ulps == 0
		return nil
	})
	if exact {
		for i, d := range got {
			for _, name := range names(d) {
				if at := zeroBits(d[name], k.want[i].narrow[name]); at >= 0 && k.want[i].err == nil {
					return &Finding{"zero", fmt.Sprintf("run %d: output %s: element %d: the sign of a zero differs", i,
						name, at)}
				}
			}
		}
	}
	return nil
}

// remembers reports whether a graph has a system with a window and a first state. That holds the past twice, as a state
// and as inputs; forms read either, and random ones contradict each other.
func remembers(g *ir.Graph) bool {
	return g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		for i, p := range n.Op.In {
			if n.Op.Domain == "essm" && n.Attrs.Int("window", 0) > 0 && n.In(i) != nil &&
				strings.HasPrefix(p.Name, "state") {
				return errFound
			}
		}
		return nil
	}) != nil
}

func (k *check) kernel() *Finding {
	if k.way.Kernel == "" || remembers(k.cs.Graph) {
		return nil
	}
	got, f := k.answers("kernel", k.cs.Graph, runtime.Options{Kernel: k.way.Kernel})
	if f != nil {
		return f
	}
	return k.judge("kernel "+k.way.Kernel, got, nil)
}

// lossy holds the error of a product in a precision, relative to its largest element.
var lossy = map[tensor.DType]float64{tensor.BFloat16: 0.02, tensor.Int8: 0.08}

func (k *check) precision() *Finding {
	rel := lossy[k.way.Precision]
	if rel == 0 {
		return nil
	}
	kind := "precision " + k.way.Precision.String()
	got, f := k.answers(kind, k.cs.Graph, runtime.Options{Precision: k.way.Precision})
	if f != nil {
		return f
	}
	return k.judge(kind, got, func(n *ir.Node) float64 {
		for _, p := range []string{"MatMul", "Gemm", "Linear", "SSM", "StateSpace", "Attention", "Einsum", "LSTM",
			"GRU", "RNN"} {
			if strings.Contains(n.Op.Name, p) {
				return rel / opstest.Unit(tensor.Float32)
			}
		}
		return n.Op.Tol.Ulps
	})
}

func (k *check) other() *Finding {
	if k.Other == nil {
		return nil
	}
	for i, e := range k.want {
		if e == nil || e.err != nil {
			continue
		}
		if msg := k.Other.Disagrees(k.cs.Graph, e); msg != "" {
			return &Finding{"other", fmt.Sprintf("run %d: %s", i, msg)}
		}
	}
	return nil
}
