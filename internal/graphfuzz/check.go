package graphfuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

// runTime bounds one run. Cases are small: one that takes longer hangs.
const runTime = 20 * time.Second

// mostMemory bounds a run of the backend: four times the interpreter's bound, so that a run which the interpreter makes
// fits.
const mostMemory = 1 << 30

// Finding is a fault that a case shows.
type Finding struct {
	// Kind tells the comparison that failed: "cpu", "threads", "plan", …
	Kind string
	Msg  string
}

func (f *Finding) String() string { return f.Kind + ": " + f.Msg }

// Way is what a case is run with besides the plain check.
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

// failed judges the error of a run.
func (k *check) failed(kind string, run int, err error) *Finding {
	e := k.want[run]
	switch {
	case errors.Is(err, runtime.ErrInternal):
		return &Finding{kind, fmt.Sprintf("run %d: %v%s", run, err, stack(err))}
	case err == nil && e.err != nil && !e.fits && (kind == "optimize" || kind == "raise"):
		k.Coverage.note("a node that fails is removed") // nothing reads its elements
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
	exact := !has(k.cs.Graph, "ReduceMax", "ReduceMin", "Max", "Min", "MaxPool", "GlobalMaxPool", "Clip", "TopK", "Unique")
	_ = k.cs.Graph.Walk(func(_ *ir.Graph, n *ir.Node) error {
		exact = exact && n.Op.Tol.Ulps == 0
		return nil
	})
	if exact {
		for i, d := range got {
			for _, name := range names(d) {
				if at := zeroBits(d[name], k.want[i].narrow[name]); at >= 0 && k.want[i].err == nil {
					return &Finding{"zero", fmt.Sprintf("run %d: output %s: element %d: the sign of a zero differs", i, name, at)}
				}
			}
		}
	}
	return nil
}

// owner runs the cases again after the first answers were overwritten, in another order, and into given tensors.
func (k *check) owner() *Finding {
	if !k.way.Owner {
		return nil
	}
	m, f := k.model("owner", k.cs.Graph, runtime.Options{})
	if m == nil {
		return f
	}
	defer m.Close()
	s := m.NewSession()
	for round := range 2 {
		for j := range k.cs.Runs {
			i := len(k.cs.Runs) - 1 - j
			if k.got[i] == nil {
				continue
			}
			in := copyData(k.cs.Runs[i])
			into := Data{}
			if round == 1 {
				for name, d := range k.got[i] {
					if t, ok := d.(*tensor.Tensor); ok && t.DType() != tensor.String {
						c := t.Clone()
						opstest.Spoil(c)
						into[name] = c
					}
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), runTime)
			err := s.RunInto(ctx, in, into)
			cancel()
			if err != nil {
				return &Finding{"owner", fmt.Sprintf("run %d, round %d: %v%s", i, round, err, stack(err))}
			}
			if name := sameData(k.got[i], into); name != "" {
				return &Finding{"owner", fmt.Sprintf("run %d, round %d: output %s is another one than in the first run: %s",
					i, round, name, describe(k.got[i][name], into[name]))}
			}
			if name := sameData(k.cs.Runs[i], in); name != "" {
				return &Finding{"owner", fmt.Sprintf("run %d: input %s is written to", i, name)}
			}
			for _, d := range into {
				opstest.Spoil(d)
			}
			if name := sameData(k.cs.Runs[i], in); name != "" {
				return &Finding{"owner", fmt.Sprintf("run %d: an output shares storage with input %s", i, name)}
			}
		}
	}
	return nil
}

func (k *check) threads() *Finding {
	if !k.way.Threads {
		return nil
	}
	got, f := k.answers("threads", k.cs.Graph, runtime.Options{Threads: 2})
	if f != nil {
		return f
	}
	return k.equal("threads", got)
}

func (k *check) kernel() *Finding {
	if k.way.Kernel == "" {
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
		for _, p := range []string{"MatMul", "Gemm", "Linear", "SSM", "StateSpace", "Attention", "Einsum", "LSTM", "GRU", "RNN"} {
			if strings.Contains(n.Op.Name, p) {
				return rel / opstest.Unit(tensor.Float32)
			}
		}
		return n.Op.Tol.Ulps
	})
}

// text prints the graph, parses it, and demands the same text and answers.
func (k *check) text() *Finding {
	if !k.way.Text {
		return nil
	}
	first := irtext.String(k.cs.Graph)
	g, err := irtext.Parse([]byte(first), "text", ops.Default, irtext.Options{})
	if err != nil {
		return &Finding{"text", err.Error()}
	}
	if second := irtext.String(g); second != first {
		return &Finding{"text", "the text of the parsed graph is another one:\n" + second}
	}
	got, f := k.answers("text", g, runtime.Options{})
	if f != nil {
		return f
	}
	return k.equal("text", got)
}

// plan saves the graph, loads it, and demands the same answers.
func (k *check) plan() *Finding {
	if !k.way.Plan {
		return nil
	}
	var b bytes.Buffer
	if err := plan.Write(&b, k.cs.Graph); err != nil {
		return &Finding{"plan", err.Error()}
	}
	g, err := plan.Read(bytes.NewReader(b.Bytes()), int64(b.Len()), "plan", ops.Default, plan.Limits{})
	if err != nil {
		return &Finding{"plan", err.Error()}
	}
	if a, b := irtext.String(k.cs.Graph), irtext.String(g); a != b {
		return &Finding{"plan", "the graph of the plan is another one:\n" + b}
	}
	got, f := k.answers("plan", g, runtime.Options{})
	if f != nil {
		return f
	}
	return k.equal("plan", got)
}

// onnx writes the graph as an ONNX model, reads it, and compares the answers.
func (k *check) onnx() *Finding {
	if !k.way.ONNX {
		return nil
	}
	var b bytes.Buffer
	if err := onnx.Write(&b, k.cs.Graph, onnx.WriteOptions{}); err != nil {
		k.Coverage.note("ONNX has no form: " + generalized(err))
		return nil
	}
	g, _, err := onnx.Parse(b.Bytes(), "model.onnx", onnx.Options{})
	if err != nil {
		return &Finding{"onnx", err.Error()}
	}
	var c bytes.Buffer
	if err := onnx.Write(&c, g, onnx.WriteOptions{}); err != nil {
		return &Finding{"onnx", "again: " + err.Error()}
	}
	got, f := k.answers("onnx", g, runtime.Options{})
	if f != nil {
		return f
	}
	return k.judge("onnx", got, nil)
}

// passes optimizes the graph, and compares the answers.
func (k *check) passes() *Finding {
	if !k.way.Passes {
		return nil
	}
	before := irtext.String(k.cs.Graph)
	for _, name := range []string{"optimize", "raise"} {
		var err error
		var g *ir.Graph
		if name == "optimize" {
			g = k.cs.Graph.Clone()
			err = passes.Optimize(g)
		} else {
			var m *open.Model
			if m, err = open.Graph(k.cs.Graph, "graph", open.Options{}); err == nil {
				g, err = m.Graph()
			}
		}
		if err != nil {
			return &Finding{name, err.Error()}
		}
		if err := ir.Verify(g); err != nil {
			return &Finding{name, err.Error()}
		}
		if irtext.String(k.cs.Graph) != before {
			return &Finding{name, "the passes change the graph that was given"}
		}
		if a, b := ports(k.cs.Graph), ports(g); a != b {
			return &Finding{name, fmt.Sprintf("inputs and outputs are %s, were %s", b, a)}
		}
		got, f := k.answers(name, g, runtime.Options{})
		if f != nil {
			f.Msg += "\nafter the passes:\n" + irtext.ViewString(g)
			return f
		}
		if f := k.judge(name, got, nil); f != nil {
			f.Msg += "\nafter the passes:\n" + irtext.ViewString(g)
			return f
		}
	}
	return nil
}

func ports(g *ir.Graph) string {
	var b strings.Builder
	for _, v := range g.Inputs {
		fmt.Fprintf(&b, "%s ", v.Name)
	}
	b.WriteString("=>")
	for _, v := range g.Outputs {
		fmt.Fprintf(&b, " %s", v.Name)
	}
	return b.String()
}

// memory runs with little memory: the answer, or a MemoryError.
func (k *check) memory() *Finding {
	if !k.way.Memory {
		return nil
	}
	limit := int64(64) << (k.way.Seed % 14)
	m, err := runtime.New(k.cs.Graph, runtime.Options{Backend: cpu.New(), Threads: 1, MaxMemory: limit})
	if errors.Is(err, runtime.ErrMemory) {
		return nil
	}
	if err != nil {
		return &Finding{"memory", fmt.Sprintf("limit %d: compile: %v", limit, err)}
	}
	defer m.Close()
	s := m.NewSession()
	for i, in := range k.cs.Runs {
		if k.got[i] == nil {
			continue
		}
		got, err := s.Run(context.Background(), in)
		if errors.Is(err, runtime.ErrMemory) {
			var over *runtime.MemoryError
			if !errors.As(err, &over) || over.Limit != limit || over.Need <= limit || over.What == "" {
				return &Finding{"memory", fmt.Sprintf("limit %d: run %d: the error tells other numbers: %v", limit, i, err)}
			}
			continue
		}
		if err != nil {
			return &Finding{"memory", fmt.Sprintf("limit %d: run %d: %v%s", limit, i, err, stack(err))}
		}
		if name := sameData(k.got[i], got); name != "" {
			return &Finding{"memory", fmt.Sprintf("limit %d: run %d: output %s is another one", limit, i, name)}
		}
	}
	return nil
}

// cancel ends runs at a random time. The session works afterwards.
func (k *check) cancel() *Finding {
	if !k.way.Cancel {
		return nil
	}
	m, f := k.model("cancel", k.cs.Graph, runtime.Options{Threads: 1 + int(k.way.Seed%2)})
	if m == nil {
		return f
	}
	defer m.Close()
	s := m.NewSession()
	for i, in := range k.cs.Runs {
		if k.got[i] == nil {
			continue
		}
		ctx := &doneAfter{Context: context.Background(), checks: int(k.way.Seed % 23), done: make(chan struct{})}
		got, err := s.Run(ctx, in)
		if err == nil {
			if name := sameData(k.got[i], got); name != "" {
				return &Finding{"cancel", fmt.Sprintf("run %d: output %s is another one", i, name)}
			}
		} else if !errors.Is(err, context.Canceled) {
			return &Finding{"cancel", fmt.Sprintf("run %d: %v%s", i, err, stack(err))}
		}
		if got, err = s.Run(context.Background(), in); err != nil {
			return &Finding{"cancel", fmt.Sprintf("run %d, after one that was cancelled: %v%s", i, err, stack(err))}
		}
		if name := sameData(k.got[i], got); name != "" {
			return &Finding{"cancel", fmt.Sprintf("run %d, after one that was cancelled: output %s is another one", i, name)}
		}
	}
	return nil
}

// doneAfter is a context that is cancelled when it has been asked a number of times.
type doneAfter struct {
	context.Context
	mu     sync.Mutex
	checks int
	done   chan struct{}
	closed bool
}

func (c *doneAfter) Done() <-chan struct{} { return c.done }

func (c *doneAfter) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checks--; c.checks >= 0 {
		return nil
	}
	if !c.closed {
		c.closed = true
		close(c.done)
	}
	return context.Canceled
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

// generalized returns an error without the names of values.
func generalized(err error) string {
	words := strings.Fields(err.Error())
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return strings.ContainsAny(w, "_0123456789\"") }), " ")
}
