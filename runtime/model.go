// Package runtime is what a service embeds: it loads a model, hands it to a backend, and runs it in sessions.
//
// It imports ir, ir/tensor, ops, passes/stepgraph, runtime/plan and internal/spell; operators and kernels come with the Backend that a program passes in Options.
// What always holds: a Model is immutable and safe for concurrent use, a Session belongs to one goroutine at a time; inputs
// are checked here, once, before any backend sees them; nothing is kept in package-level variables; a panic below Run
// becomes an error. For each set of input shapes a session plans once, and keeps the plan.
package runtime

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime/plan"
)

// Options say how a model is run. Only Backend is required.
type Options struct {
	Backend Backend
	// Threads is how many goroutines one Run may use; 0: GOMAXPROCS. Answers do not depend on it.
	Threads int
	// Kernel asks for one form where an operator has several: "auto" (or empty), "scan", "chunked", "fft", "direct".
	Kernel string
	// Precision is the arithmetic of a model in float32: Float32 (or 0); Float64, which widens its constants, inputs and
	// outputs and is offered by the ref backend alone; or BFloat16 or Int8, for dense products with constant weights alone,
	// which the cpu backend offers. BFloat16 rounds weights and activations and sums up in float32, which is faster only where
	// the processor has AVX512_BF16. Int8 rounds them to integers within ±127, weights with a scale per output, activations
	// with one per step (and head), and sums up exactly; a step whose activations are not all finite gives NaN. Scans, norms
	// and activations are computed as ever, and so are small matrices; Explain lists them.
	Precision tensor.DType
	// MaxMemory bounds the working memory of one session, in bytes; 0: no limit but what the backend knows of the machine. The
	// cpu backend refuses a plan that needs more memory than the machine has, or its container may use, so that the process is
	// not killed.
	MaxMemory int64
	// Carry is for models that take a sequence in chunks, and their state with each: outputs by the input that the next chunk
	// takes them for, as {"state": "stateN"}. A stream then carries them from chunk to chunk, zeros at the beginning, and
	// derives nothing: what a chunk may be, and what its answer stands for, is the model's affair. It is part of what Model.Hash
	// identifies.
	Carry map[string]string
	// Profile makes sessions measure their steps, for Session.Profile.
	Profile bool
	// Logger gets what loading and planning have to say; nil: nothing is logged.
	Logger *slog.Logger
	// Observe, if not nil, sees every computed value, where the backend supports it. It is called from the goroutines that
	// run sessions; the datum is valid during the call only.
	Observe func(v *ir.Value, d tensor.Datum)
}

// Kernels lists what Options.Kernel may be.
func Kernels() []string { return []string{"auto", "scan", "chunked", "fft", "direct"} }

func (o Options) config() (Config, error) {
	c := Config{Products: tensor.Float32, Threads: o.Threads, Kernel: o.Kernel, MaxMemory: o.MaxMemory, Profile: o.Profile, Logger: o.Logger, Observe: o.Observe}
	if o.Backend == nil {
		return c, &OptionError{"Backend", "is required"}
	}
	if o.Threads < 0 {
		return c, &OptionError{"Threads", fmt.Sprintf("expected 0 or more, found %d", o.Threads)}
	}
	if c.Threads == 0 {
		c.Threads = goruntime.GOMAXPROCS(0)
	}
	if o.Kernel != "" && !slices.Contains(Kernels(), o.Kernel) {
		return c, &OptionError{"Kernel", fmt.Sprintf("expected one of %q, found %q", Kernels(), o.Kernel)}
	}
	if o.Kernel == "auto" {
		c.Kernel = ""
	}
	if o.MaxMemory < 0 {
		return c, &OptionError{"MaxMemory", fmt.Sprintf("expected 0 or more, found %d", o.MaxMemory)}
	}
	switch o.Precision {
	case tensor.Invalid, tensor.Float32:
	case tensor.Float64:
		c.Wide = true
	case tensor.BFloat16, tensor.Int8:
		c.Products = o.Precision
	default:
		return c, &OptionError{"Precision", fmt.Sprintf("expected float32, float64, bfloat16 or int8, found %v", o.Precision)}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Port is one input or output of a model.
type Port struct {
	Name string
	// Type is what a caller passes or gets; an optional input's type is that of its value.
	Type ir.Type
	// Optional says that the input may be left out, or the output be nil.
	Optional bool
}

// Model is a compiled model. It is immutable and safe for concurrent use.
type Model struct {
	*signature
	graph     *ir.Graph
	backend   Backend
	config    Config
	program   Program
	source    io.Closer // the plan file whose mapping holds the weights; may be nil
	gate      gate
	closeOnce sync.Once
	closeErr  error
	stepper   func() (*stepper, error) // made at the first stream
	stepping  *stepper                 // the same, once it is there
	hash      func() ([sha256.Size]byte, error)
}

// New compiles a graph for o.Backend. The model keeps g, which must not change afterwards.
func New(g *ir.Graph, o Options) (*Model, error) { return newModel(g, o, nil) }

// newModel owns source, when it succeeds.
func newModel(g *ir.Graph, o Options, source io.Closer) (_ *Model, err error) {
	c, err := o.config()
	if err != nil {
		return nil, err
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("compile for backend %s: %w", o.Backend.Name(), Recovered(nil, v))
		}
	}()
	if g == nil {
		return nil, errors.New("no graph")
	}
	if err := ir.Verify(g); err != nil {
		return nil, err
	}
	if len(o.Carry) > 0 {
		said := *g // the caller's graph stays as it is
		said.Meta = maps.Clone(g.Meta)
		if said.Meta == nil {
			said.Meta = map[string]string{}
		}
		said.Meta[ir.MetaCarry] = stepgraph.PairsText(o.Carry)
		g = &said
		if _, err := stepgraph.Pairs(g, ir.MetaCarry); err != nil {
			return nil, &OptionError{"Carry", err.Error()}
		}
	}
	sg, err := newSignature(g, g.Inputs, g.Outputs, c.Wide)
	if err != nil {
		return nil, err
	}
	m := &Model{signature: sg, graph: g, backend: o.Backend, config: c, source: source}
	m.stepper = sync.OnceValues(func() (*stepper, error) {
		p, err := newStepper(m)
		if err == nil {
			m.stepping = p
		}
		return p, err
	})
	m.hash = sync.OnceValues(func() ([sha256.Size]byte, error) { return hashOf(m.graph) })
	m.config.Constants = &Constants{}
	m.program, err = o.Backend.Compile(g, m.config)
	if err != nil {
		return nil, err
	}
	c.Logger.Debug("model compiled", "graph", g.Name, "backend", o.Backend.Name(), "nodes", len(g.Nodes), "threads", c.Threads)
	return m, nil
}

// Inputs lists what Run takes, in the graph's order.
func (m *Model) Inputs() []Port { return slices.Clone(m.inputs) }

// Outputs lists what Run gives, in the graph's order.
func (m *Model) Outputs() []Port { return slices.Clone(m.outputs) }

// Meta is a copy of the graph's free text; see ir.Graph.Meta.
func (m *Model) Meta() map[string]string { return maps.Clone(m.graph.Meta) }

// Graph is what the model computes; it must not be changed.
func (m *Model) Graph() *ir.Graph { return m.graph }

// Backend is the name of the backend that runs the model.
func (m *Model) Backend() string { return m.backend.Name() }

// Explain says which form each node with a choice takes for the given dimensions (by symbol, every optional input given),
// and why.
func (m *Model) Explain(dims map[string]int64) (_ []Choice, err error) {
	if !m.gate.enter() {
		return nil, ErrClosed
	}
	defer m.gate.leave()
	defer func() {
		if v := recover(); v != nil {
			err = Recovered(nil, v)
		}
	}()
	b, err := m.bindDims(dims)
	if err != nil {
		return nil, err
	}
	return m.program.Explain(*b)
}

// Hash identifies what the model computes: equal graphs with equal weights have equal hashes, whatever their names and
// wherever they came from. It is SHA-256 over a plan of the graph without name, documentation, history and free text. The
// first call reads all weights.
func (m *Model) Hash() ([sha256.Size]byte, error) {
	if !m.gate.enter() {
		return [sha256.Size]byte{}, ErrClosed
	}
	defer m.gate.leave()
	return m.hash()
}

func hashOf(g *ir.Graph) (sum [sha256.Size]byte, err error) {
	bare := *g
	bare.Name, bare.Doc, bare.History, bare.Meta = "model", "", nil, map[string]string{}
	for _, key := range []string{ir.MetaTime, ir.MetaBatch, ir.MetaState, ir.MetaCarry} {
		if v, ok := g.Meta[key]; ok {
			bare.Meta[key] = v
		}
	}
	h := sha256.New()
	if err := plan.Write(h, &bare); err != nil {
		return sum, fmt.Errorf("hash of the model: %w", err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// Close waits for running calls and releases what the model holds; later calls on it and its sessions give ErrClosed. It
// may be called more than once, and from several goroutines: each returns when the model is closed, with the same result.
func (m *Model) Close() error {
	m.gate.close()
	m.closeOnce.Do(func() {
		m.closeErr = m.program.Close()
		if p := m.stepping; p != nil {
			p.release(nil)
			m.closeErr = errors.Join(m.closeErr, p.program.Close())
		}
		if m.source != nil {
			m.closeErr = errors.Join(m.closeErr, m.source.Close())
		}
	})
	return m.closeErr
}

// gate counts the calls that are running, so that Close can wait for them.
type gate struct {
	mu      sync.Mutex
	running int
	closed  bool
	idle    chan struct{} // closed when the last call leaves a closed gate
}

// enter admits a call, unless the gate is closed.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.closed && g.running == 0 {
		close(g.idle)
	}
}

// close admits no more calls, and waits for those inside.
func (g *gate) close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		g.idle = make(chan struct{})
		if g.running == 0 {
			close(g.idle)
		}
	}
	g.mu.Unlock()
	<-g.idle
}
