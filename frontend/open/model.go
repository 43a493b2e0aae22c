package open

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

var resolver = ops.Default

// Model is an opened model. Its methods may be called from several goroutines.
type Model struct {
	// Name is the model's path, or what it was called when it was opened.
	Name string
	Kind Kind
	// Config is a model directory's; nil otherwise.
	Config *models.Config
	// Info is what an ONNX file says of itself; nil otherwise.
	Info *onnx.Info
	// Dims are the numbers that Options.Shapes give to symbols of the inputs' dimensions.
	Dims map[string]int64

	options  Options
	source   *ir.Graph // nil for plans
	compiled func() (*ir.Graph, error)
	// load prepares a plan; nil for other kinds.
	load func(runtime.Options) (*runtime.Model, error)
}

// newModel makes a model of what read gives.
func newModel(kind Kind, name string, o Options, read func(*Model) error) (*Model, error) {
	m := &Model{Name: name, Kind: kind, options: o}
	if o.Rate != 0 && o.Rate != 1 && kind != Directory {
		return nil, m.wrong("Rate", "", kind.rate())
	}
	if !(o.Rate >= 0) || math.IsInf(o.Rate, 1) {
		return nil, m.wrong("Rate", "", fmt.Errorf("expected a number above 0, found %v", o.Rate))
	}
	shapes, err := m.shapes()
	if err != nil {
		return nil, err
	}
	err = m.guarded(func() error {
		if c := o.Context; c != nil && c.Err() != nil {
			return fmt.Errorf("%s: %w", name, context.Cause(c))
		}
		if err := read(m); err != nil {
			return err
		}
		if kind == Plan {
			return m.onPlan(shapes)
		}
		return m.onSource(shapes)
	})
	if err == nil {
		return m, nil
	}
	if m.source = nil; m.Info == nil {
		return nil, err
	}
	m.compiled = func() (*ir.Graph, error) { return nil, err }
	return m, err
}

// guarded turns a panic into an error: the graphs here are anybody's.
func (m *Model) guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s: %w", m.Name, runtime.Recovered(nil, v))
		}
	}()
	return f()
}

func (m *Model) readDirectory(dir string) error {
	read := checkpoint.ReadDir
	if limit := m.options.Limits.Bytes; limit > 0 {
		read = func(dir string) (*models.Config, models.Weights, error) { return checkpoint.ReadDirWithin(dir, limit) }
	}
	c, w, err := read(dir)
	if err != nil {
		return err
	}
	m.Config = c
	m.source, err = models.Build(c, w, models.BuildOptions{Rate: m.options.Rate})
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	return nil
}

// fromPlan says how a plan is read, and how it is prepared without a detour by its graph.
func (m *Model) fromPlan(graph func(ir.Resolver) (*ir.Graph, error), load func(runtime.Options) (*runtime.Model, error)) {
	m.compiled = sync.OnceValues(func() (g *ir.Graph, err error) {
		err = m.guarded(func() error {
			if g, err = graph(resolver); err != nil {
				return err
			}
			return m.carry(g)
		})
		return g, err
	})
	m.load = load
}

// onPlan holds Options.Shapes against the inputs of a plan, whose graph keeps its dimensions.
func (m *Model) onPlan(shapes shapes) error {
	if len(shapes) == 0 {
		return nil
	}
	g, err := m.compiled()
	if err != nil {
		return err
	}
	m.Dims, err = shapes.solve(g)
	return m.about(err)
}

// onSource puts what Options say into the graph as it was written.
func (m *Model) onSource(shapes shapes) (err error) {
	if m.Dims, err = shapes.bind(m.source); err != nil {
		return m.about(err)
	}
	if m.Kind == ONNX && len(shapes) > 0 { // which may have named dimensions
		onnx.MarkDims(m.source)
	}
	if err := m.carry(m.source); err != nil {
		return err
	}
	m.compiled = sync.OnceValues(m.compile)
	return nil
}

// carry writes Options.Carry into a graph.
func (m *Model) carry(g *ir.Graph) error {
	if len(m.options.Carry) == 0 {
		return nil
	}
	if g.Meta == nil {
		g.Meta = map[string]string{}
	}
	g.Meta[ir.MetaCarry] = stepgraph.PairsText(m.options.Carry)
	if _, err := stepgraph.Pairs(g, ir.MetaCarry); err != nil {
		return m.wrong("Carry", "", err)
	}
	return nil
}

// compile runs the passes.
func (m *Model) compile() (*ir.Graph, error) {
	list := Pipeline()
	if m.Kind == Directory { // built of the operators that raising would look for
		list = passes.Pipeline()
	}
	var g *ir.Graph
	err := m.guarded(func() error {
		g = m.source.Clone()
		err := passes.Run(g, list, passes.Options{Observe: m.options.Observe, Context: m.options.Context})
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Source is the graph as it was written, with what Options say of it; of a plan, the graph that it stores. Its free text
// (ir.Graph.Meta) may be changed until one of the other methods is called; nothing else may.
func (m *Model) Source() (*ir.Graph, error) {
	if m.source == nil {
		return m.compiled()
	}
	return m.source, nil
}

// Graph is the graph that the passes make of the source, and of a plan the graph that it stores: what runtime.New takes, and
// plan.WriteFile. The passes run once. The graph must not be changed.
func (m *Model) Graph() (*ir.Graph, error) { return m.compiled() }

// Warnings are what the passes had to warn of; nothing where they failed.
func (m *Model) Warnings() []string {
	g, err := m.compiled()
	if err != nil {
		return nil
	}
	return passes.Warnings(g)
}

// Compile prepares the graph that the passes make for r.Backend, the CPU's where that is nil. It may be called more than
// once, for several backends. Of a plan, the weights stay in the file where the platform allows; see runtime.Load. What
// passes had to warn of goes to r.Logger; a plan told when it was compiled.
func (m *Model) Compile(r runtime.Options) (*runtime.Model, error) {
	if m.load != nil {
		return m.loadPlan(r)
	}
	g, err := m.compiled()
	if err != nil {
		return nil, err
	}
	if r.Logger != nil {
		for _, w := range passes.Warnings(g) {
			r.Logger.Warn(w, "model", m.Name)
		}
	}
	return m.prepare(g, r)
}

// CompileSource prepares the graph as it was written, without any pass: what the reference interpreter takes as the meaning.
// Of a plan, that is the graph that it stores.
func (m *Model) CompileSource(r runtime.Options) (*runtime.Model, error) {
	if m.load != nil {
		return m.loadPlan(r)
	}
	if m.source == nil {
		_, err := m.compiled() // why there is none
		return nil, err
	}
	return m.prepare(m.source, r)
}

func (m *Model) loadPlan(r runtime.Options) (*runtime.Model, error) {
	if len(r.Carry) == 0 {
		r.Carry = m.options.Carry
	}
	if r.Limits == (plan.Limits{}) {
		r.Limits = m.options.Limits.plan()
	}
	return m.load(withBackend(r))
}

func (m *Model) prepare(g *ir.Graph, r runtime.Options) (*runtime.Model, error) {
	model, err := runtime.New(g, withBackend(r))
	if err != nil && !errors.Is(err, runtime.ErrOption) {
		err = fmt.Errorf("%s: %w", m.Name, err)
	}
	return model, err
}

func withBackend(r runtime.Options) runtime.Options {
	if r.Backend == nil {
		r.Backend = cpu.New()
	}
	return r
}
