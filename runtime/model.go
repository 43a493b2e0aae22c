// Package runtime loads compiled models and runs them. Programs embed it.
//
// A Model is immutable, except for the content of its parameters (Set), and safe for concurrent use. A Session runs
// whole sequences, for one goroutine at a time. It plans once for each set of input shapes and keeps the plan. A Stream
// runs a sequence chunk by chunk, and holds its state.
//
// The package imports ir, ir/tensor, ops, passes/stepgraph, runtime/plan, internal/files and internal/spell. Operators
// and kernels come with the Backend in Options. Inputs are checked here, once, before a backend sees them. There is no
// package-level state. A panic below Run becomes an error.
package runtime

import (
	"cmp"
	"context"
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
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime/plan"
)

// Options are settings for running a model. Only Backend is required.
type Options struct {
	Backend Backend
	// Threads is the number of goroutines that one Run may use; 0: GOMAXPROCS. Answers do not depend on it.
	Threads int
	// Sessions is the number of calls of Model.Run that may run at once; 0: GOMAXPROCS. Further ones wait. NewSession
	// is not bounded.
	Sessions int
	// Kernel selects the form of operators that have several: "scan", "chunked", "fft", "direct". With "auto" or an
	// empty string the backend chooses; it also does for an operator that lacks the form. An exception is "chunked"
	// for a diagonal plus low-rank system whose eigenvectors are too ill-conditioned for a diagonal one: that is an
	// *OptionError.
	Kernel string
	// Precision is the arithmetic of float32 models: Float32 (or 0), Float64, BFloat16 or Int8.
	//
	// Float64 widens constants, inputs and outputs. Only the ref backend has it.
	//
	// BFloat16 and Int8 apply to dense products with constant weights, except for small matrices. The cpu backend has
	// both, the cuda backend BFloat16. Scans, norms and activations stay in float32. BFloat16 rounds weights and
	// activations and sums in float32; it is faster only on cards, and on processors with AVX512_BF16. Int8 rounds them
	// to integers within ±127, weights with a scale per output, activations with a scale per step (and head), and sums
	// exactly. A step with an activation that is not finite gives NaN. Explain lists the products.
	Precision tensor.DType
	// TF32 lets tensor cores of NVIDIA cards round the operands of the dense products that BFloat16 applies to, but to
	// 11 bits: a third of the work of products of float32. Only the cuda backend has it; others return an *OptionError.
	// Precision is Float32 then. Explain lists the products.
	TF32 bool
	// MaxMemory limits the memory of one session, in bytes: its working memory between runs, and everything that a
	// run allocates, including outputs for which the caller passes no tensors, conversions of inputs, and values
	// whose size is known only in the run. The same limit applies to a step of streams, with their states, and to
	// all idle working memory of streams. A run that needs more ends with a *MemoryError before it allocates more.
	// Weights are not counted, nor is the caller's memory. 0 means the memory of the machine, or of the process's
	// container, if the backend knows it.
	MaxMemory int64
	// Carry is for models that take a sequence in chunks, and their state with each chunk. It maps the inputs for the
	// state to the outputs with their next values, as {"state": "stateN"}. A stream carries these from chunk to chunk,
	// from zeros, and derives no step graph. The model defines the lengths of chunks and the meaning of its outputs.
	// Carry is part of Model.Hash.
	Carry map[string]string
	// Outputs names the outputs that runs compute; empty means all. Values that only other outputs need are not
	// computed, and a layer may take a faster form if its last state is not wanted. The names may be in any order;
	// Model.Outputs uses the graph's. An input that only other outputs need is optional. Streams have the same
	// outputs, and all states of the model, with the inputs that these need. So snapshots do not depend on Outputs,
	// and neither does Model.Hash. If only states are requested, the model has no streams.
	Outputs []string
	// Limits are the limits for plans that Load and the like read; New reads none.
	Limits plan.Limits
	// Copy makes Load read the plan into memory in place of mapping it, and open.Load all of an ONNX file. A process
	// that maps a file is ended by the system, without an error, if someone else truncates the file; a copy is its own.
	// It costs the time to copy the weights, and memory that processes with the same plan would share. The checksums
	// are verified either way, once, in Load. LoadFS and LoadReader always copy.
	Copy bool
	// RefuseUpdates makes New and the like refuse graphs that update parameters, whose writes after a run are not
	// interrupted.
	RefuseUpdates bool
	// Source, if not nil, is what the graph's weights are read from. Model.Close closes it. New and the like do not
	// close it if they return an error.
	Source io.Closer
	// Context, if not nil, ends New, Load and the like with its error when it is done. Runs have contexts of their own,
	// and so has NewStreamContext.
	Context context.Context
	// Profile makes sessions measure their steps, for Session.Profile.
	Profile bool
	// Logger takes messages about loading and planning; nil: none.
	Logger *slog.Logger
	// Observe, if not nil, is called with every computed value, if the backend supports it. It is called from the
	// goroutines that run sessions. The datum is only valid during the call. With Outputs, v is a value of a copy of
	// the graph, with the same name.
	Observe func(v *ir.Value, d tensor.Datum)
}

// maxSessions bounds Options.Sessions.
const maxSessions = 1 << 20

// Kernels lists the values of Options.Kernel.
func Kernels() []string { return []string{"auto", "scan", "chunked", "fft", "direct"} }

func (o Options) config() (Config, error) {
	c := Config{Products: tensor.Float32, Threads: o.Threads, Kernel: o.Kernel, MaxMemory: o.MaxMemory,
		Profile: o.Profile, Ctx: o.Context, Logger: o.Logger, Observe: o.Observe}
	if o.Backend == nil {
		return c, &OptionError{"Backend", "is required: runtime.Options{Backend: cpu.New()}, of package runtime/cpu"}
	}
	if o.Threads < 0 {
		return c, &OptionError{"Threads", fmt.Sprintf("expected 0 or more, found %d", o.Threads)}
	}
	if o.Sessions < 0 || o.Sessions > maxSessions {
		return c, &OptionError{"Sessions", fmt.Sprintf("expected 0 to %d, found %d", maxSessions, o.Sessions)}
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
		return c, &OptionError{"Precision",
			fmt.Sprintf("expected float32, float64, bfloat16 or int8, found %v", o.Precision)}
	}
	if c.TF32 = o.TF32; c.TF32 && (c.Wide || c.Products != tensor.Float32) {
		return c, &OptionError{"TF32", fmt.Sprintf("is a precision of products, and so is %v: expected one",
			o.Precision)}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Port is one input or output of a model.
type Port struct {
	Name string
	// Type is the type of the data. For an optional port it is the type of its value.
	Type ir.Type
	// Optional is set if the input may be left out, or the output may be nil.
	Optional bool
	// Keys holds the keys of the columns where the model's file has maps (ir.MetaKeys). FromMaps and Maps convert.
	Keys string
}

// Model is a compiled model. It is immutable, except for the content of its parameters (Set), and safe for concurrent
// use.
type Model struct {
	*signature
	graph     *ir.Graph
	backend   Backend
	config    Config
	wanted    *ir.Graph  // graph with the outputs that runs compute
	constants *Constants // shared by all versions
	params    []Port
	updated   []int  // per update of the graph: the index of its parameter
	updatedBy []int  // per update of the graph: the index of the output
	updating  []bool // per output: it updates a parameter
	set       *Set
	versions  struct {
		sync.Mutex
		all  map[*version]bool
		last uint64
	}
	some      bool // Options.Outputs leaves outputs out
	stepping  once[stepping]
	source    io.Closer // the plan file that is mapped into memory; may be nil
	weights   io.Closer // Options.Source
	gate      gate
	closeOnce sync.Once
	closeErr  error
	sessions  sessionPool // of Run
	hash      func() ([sha256.Size]byte, error)
}

// New compiles a graph for o.Backend. The model keeps g, which must not change afterwards.
func New(g *ir.Graph, o Options) (*Model, error) { return newModel(g, o, nil) }

// newModel owns source, if it succeeds.
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
	if err := ir.VerifyContext(o.Context, g); err != nil {
		return nil, err
	}
	if err := checkForm(g, c.Kernel); err != nil {
		return nil, &OptionError{"Kernel", err.Error()}
	}
	if len(o.Carry) > 0 {
		said := *g // the caller's graph must not change
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
	wanted, err := withOutputs(g, o.Outputs)
	if err != nil {
		return nil, err
	}
	sg, err := newSignature(o.Context, wanted, wanted.Inputs, wanted.Outputs, c.Wide)
	if err != nil {
		return nil, err
	}
	if o.RefuseUpdates && len(g.Updates) > 0 {
		return nil, &OptionError{"RefuseUpdates", fmt.Sprintf("the graph updates parameter %q",
			g.Updates[0].Parameter.Name)}
	}
	m := &Model{signature: sg, graph: g, wanted: wanted, backend: o.Backend, config: c, constants: &Constants{},
		source: source, weights: o.Source, some: wanted != g, stepping: newOnce[stepping]()}
	m.sessions.running = make(chan struct{}, cmp.Or(o.Sessions, goruntime.GOMAXPROCS(0)))
	m.hash = sync.OnceValues(func() ([sha256.Size]byte, error) { return hashOf(m.graph) })
	m.config.Ctx = nil // versions and step graphs are compiled under contexts of their own
	contents := make([]*tensor.Tensor, len(g.Parameters))
	for i, v := range g.Parameters {
		m.params = append(m.params, Port{Name: v.Name, Type: v.Type})
		contents[i] = v.Init
	}
	m.findUpdates()
	first, err := m.newVersion(o.Context, contents, false)
	if err != nil {
		return nil, err
	}
	first.share()
	m.set = &Set{m: m, current: first, replacing: make(chan struct{}, 1)}
	c.Logger.Debug("model compiled", "graph", g.Name, "backend", o.Backend.Name(), "nodes", len(wanted.Nodes),
		"threads", c.Threads)
	return m, nil
}

// checkForm returns an error if a node of g, or of its subgraphs, cannot take a form that was asked for.
func checkForm(g *ir.Graph, form string) error {
	if form == "" {
		return nil
	}
	for _, n := range g.Nodes {
		if err := ops.CheckForm(n, form); err != nil {
			return err
		}
		for _, s := range n.Subgraphs() {
			if err := checkForm(s, form); err != nil {
				return err
			}
		}
	}
	return nil
}

// Inputs returns the inputs of the model, in the graph's order. Those that only outputs without a name in
// Options.Outputs need are optional.
func (m *Model) Inputs() []Port { return slices.Clone(m.inputs) }

// Outputs returns the outputs that runs compute, in the graph's order: those of Options.Outputs, or all.
func (m *Model) Outputs() []Port { return slices.Clone(m.outputs) }

// Meta returns a copy of ir.Graph.Meta: facts about the model as text.
func (m *Model) Meta() map[string]string { return maps.Clone(m.graph.Meta) }

// Graph returns the model's graph, with all outputs. It must not be changed.
func (m *Model) Graph() *ir.Graph { return m.graph }

// Backend returns the name of the backend that runs the model.
func (m *Model) Backend() string { return m.backend.Name() }

// Explain returns the form that each node with several forms takes, and the reason, for given values of the symbols and
// with all optional inputs but those that are named as absent.
func (m *Model) Explain(dims map[string]int64, absent ...string) (_ []Choice, err error) {
	if !m.gate.enter() {
		return nil, ErrClosed
	}
	defer m.gate.leave()
	defer func() {
		if v := recover(); v != nil {
			err = Recovered(nil, v)
		}
	}()
	b, err := m.bindWithout(dims, absent)
	if err != nil {
		return nil, err
	}
	x, err := m.set.enter()
	if err != nil {
		return nil, err
	}
	defer x.leave()
	return x.program.Explain(*b)
}

// Lowered returns the backend's form of the graph, as text for people: the steps, or, if dims is not nil, the plan
// for these values of the symbols, with all optional inputs except the absent ones. The error is an *OptionError if
// the backend cannot show it.
func (m *Model) Lowered(dims map[string]int64, absent ...string) (_ string, err error) {
	if !m.gate.enter() {
		return "", ErrClosed
	}
	defer m.gate.leave()
	defer func() {
		if v := recover(); v != nil {
			err = Recovered(nil, v)
		}
	}()
	x, err := m.set.enter()
	if err != nil {
		return "", err
	}
	defer x.leave()
	p, ok := x.program.(Lowered)
	if !ok {
		return "", &OptionError{Option: "Backend",
			Msg: fmt.Sprintf("the %s backend does not lower graphs", m.backend.Name())}
	}
	if dims == nil {
		return p.Lowered(nil)
	}
	b, err := m.bindWithout(dims, absent)
	if err != nil {
		return "", err
	}
	return p.Lowered(b)
}

// findUpdates finds the parameters that the outputs of runs update.
func (m *Model) findUpdates() {
	at := map[string]int{}
	for i, p := range m.params {
		at[p.Name] = i
	}
	by := map[*ir.Value]int{}
	for i, v := range m.wanted.Outputs {
		by[v] = i
	}
	m.updating = make([]bool, len(m.wanted.Outputs))
	for _, u := range m.wanted.Updates {
		m.updated = append(m.updated, at[u.Parameter.Name])
		m.updatedBy = append(m.updatedBy, by[u.Output])
		m.updating[by[u.Output]] = true
	}
}

// Hash identifies the model: equal graphs with equal weights have equal hashes, whatever their names and sources. It is
// the SHA-256 of a plan of the graph without name, documentation, history and free text. The first call reads all
// weights.
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

// Close waits for running calls and releases the model's memory. Later calls of the model and its sessions return
// ErrClosed. Close may be called repeatedly and concurrently: each call returns when the model is closed, with the same
// result.
func (m *Model) Close() error {
	m.gate.close()
	m.closeOnce.Do(func() {
		m.sessions.drop()
		m.versions.Lock()
		all := m.versions.all
		m.versions.all = nil
		m.versions.Unlock()
		for v := range all {
			v.mu.Lock()
			closed := v.closed
			v.closed = true
			v.mu.Unlock()
			if !closed {
				m.closeErr = errors.Join(m.closeErr, v.close())
			}
		}
		if m.source != nil {
			m.closeErr = errors.Join(m.closeErr, m.source.Close())
		}
		if m.weights != nil {
			m.closeErr = errors.Join(m.closeErr, m.weights.Close())
		}
	})
	return m.closeErr
}

// gate counts running calls, so that Close can wait for them.
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

// close admits no more calls, and waits for running ones.
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
