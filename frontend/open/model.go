package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/internal/patterns"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

var resolver = ops.Default

// Model is an opened model. Its methods may be called from several goroutines.
type Model struct {
	// Name is the model's path, or the name that it was opened with.
	Name string
	Kind Kind
	// Config is the configuration in a model directory. It is nil for other kinds.
	Config models.Config
	// Info is the description in an ONNX file. It is nil for other kinds.
	Info *onnx.Info
	// Dims holds the numbers that Options.Shapes give to symbols of the inputs' dimensions.
	Dims map[string]int64

	options  Options
	source   *ir.Graph // nil for plans
	weights  io.Closer // the file that lazy weights are in, or nil
	once     bool      // the passes may change source, which nobody reads after them
	compiled func() (*ir.Graph, error)
	// load prepares a plan. It is nil for other kinds.
	load func(runtime.Options) (*runtime.Model, error)
}

// newModel returns a model that read fills in.
func newModel(kind Kind, name string, o Options, read func(*Model) error) (*Model, error) {
	m := &Model{Name: name, Kind: kind, options: o}
	if o.Rate != 0 && o.Rate != 1 && kind != Directory {
		return nil, m.wrong("Rate", "", kind.rate())
	}
	if !(o.Rate >= 0) || math.IsInf(o.Rate, 1) {
		return nil, m.wrong("Rate", "", fmt.Errorf("expected a number above 0, found %v", o.Rate))
	}
	if len(o.Parameters) > 0 && kind.parameters() != nil {
		return nil, m.wrong("Parameters", "", kind.parameters())
	}
	shapes, err := m.shapes()
	if err != nil {
		return nil, err
	}
	err = m.guarded(func() error {
		if c := o.Context; c != nil && c.Err() != nil {
			return fmt.Errorf("%s: %w", name, context.Cause(c))
		}
		if err := m.selected(read(m)); err != nil {
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
	if m.weights != nil {
		_ = m.weights.Close() // err is the first error
	}
	if m.source = nil; m.Info == nil {
		return nil, err
	}
	m.compiled = func() (*ir.Graph, error) { return nil, err }
	return m, err
}

// guarded returns a panic as an error, since the graph may come from anywhere.
func (m *Model) guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s: %w", m.Name, runtime.Recovered(nil, v))
		}
	}()
	return f()
}

func (m *Model) readDirectory(dir string) error {
	c, w, _, err := checkpoint.ReadDirWith(dir, checkpoint.Options{Bytes: m.options.Limits.Bytes,
		Context: m.options.Context})
	if err != nil {
		return err
	}
	m.Config = c
	build := models.BuildOptions{Rate: m.options.Rate, Context: m.options.Context}
	set := patterns.New(m.options.Parameters)
	if set != nil { // settings, which are integers, stay constants
		build.Parameters = func(name string) bool { return set.Select(name, tensor.Float32) }
	}
	m.source, err = models.Build(c, w, build)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	return set.Err("tensors of the checkpoint")
}

// fromPlan sets how a plan is read, and how it is prepared directly, without its graph.
func (m *Model) fromPlan(graph func(ir.Resolver) (*ir.Graph, error),
	load func(runtime.Options) (*runtime.Model, error)) {
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

// onPlan checks Options.Shapes against the inputs of a plan, whose graph keeps its dimensions.
func (m *Model) onPlan(shapes shapes) error {
	if err := m.checkPasses(); err != nil {
		return err
	}
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

// onSource applies Options to the source graph.
func (m *Model) onSource(shapes shapes) (err error) {
	if err := m.checkPasses(); err != nil {
		return err
	}
	if m.Dims, err = shapes.bind(m.source); err != nil {
		return m.about(err)
	}
	if m.Kind == ONNX && len(shapes) > 0 { // the shapes may have named dimensions
		onnx.MarkDims(m.source)
	}
	if err := m.carry(m.source); err != nil {
		return err
	}
	m.compiled = sync.OnceValues(m.compile)
	return nil
}

// PassNames returns the names of the passes in order, for Options.Skip: with others, Options.Passes, if these have a
// place. Some passes run twice.
func PassNames(others ...*passes.Pass) []string {
	all, err := passes.Insert(Pipeline(), others...)
	if err != nil {
		all = Pipeline()
	}
	return passNames(all)
}

func passNames(list []*passes.Pass) (names []string) {
	for _, p := range list {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// pipeline returns the passes for the model, with Options.Passes and those in Options.Skip.
func (m *Model) pipeline() ([]*passes.Pass, error) {
	all, err := passes.Insert(Pipeline(), m.options.Passes...)
	if err != nil {
		return nil, m.wrong("Passes", "", err)
	}
	if m.Kind != Directory {
		return all, nil
	}
	raising := raise.Pipeline() // the graph is made of the operators that raising recognizes
	return slices.DeleteFunc(all, func(p *passes.Pass) bool {
		is := len(raising) > 0 && p == raising[0]
		if is {
			raising = raising[1:]
		}
		return is
	}), nil
}

// checkPasses checks Options.Passes, and the names in Options.Skip.
func (m *Model) checkPasses() error {
	all, err := passes.Insert(Pipeline(), m.options.Passes...)
	if err != nil {
		return m.wrong("Passes", "", err)
	}
	for _, name := range m.options.Skip {
		if m.Kind == Plan {
			return m.wrong("Skip", name, errors.New("the passes of a plan have run"))
		}
		names := passNames(all)
		if !slices.Contains(names, name) {
			return m.wrong("Skip", name, fmt.Errorf("no such pass; there are %s", strings.Join(names, ", ")))
		}
	}
	return nil
}

// carry writes Options.Carry to a graph.
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
	list, err := m.pipeline()
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(p *passes.Pass) bool { return slices.Contains(m.options.Skip, p.Name) })
	var g *ir.Graph
	err = m.guarded(func() error {
		if g = m.source; m.once { // weights that passes replace are freed then
			m.source = nil
		} else {
			g = g.Clone()
		}
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

// Source returns the graph before the passes, with Options applied. For a plan, it returns the stored graph. Callers
// must not change the graph, except for ir.Graph.Meta before they call another method.
func (m *Model) Source() (*ir.Graph, error) {
	if m.source == nil {
		return m.compiled()
	}
	return m.source, nil
}

// Graph returns the graph after the passes, for runtime.New and plan.WriteFile. For a plan, it returns the stored
// graph. The passes run once. Callers must not change the graph.
func (m *Model) Graph() (*ir.Graph, error) { return m.compiled() }

// Warnings returns the warnings of the ONNX file's reader and of the passes, or nothing if the passes failed.
func (m *Model) Warnings() []string {
	g, err := m.compiled()
	if err != nil {
		return nil
	}
	var read []string
	if m.Info != nil {
		read = m.Info.Warnings
	}
	return slices.Concat(read, passes.Warnings(g))
}

// Compile prepares the graph after the passes for r.Backend, which is the CPU backend if it is nil. It may be called
// several times, for several backends. The weights of a plan stay in the file if the platform allows that; see
// runtime.Load. Warnings go to r.Logger, except for a plan, whose passes ran earlier.
func (m *Model) Compile(r runtime.Options) (*runtime.Model, error) {
	if m.load != nil {
		return m.loadPlan(r)
	}
	g, err := m.compiled()
	if err != nil {
		return nil, err
	}
	if r.Logger != nil {
		for _, w := range m.Warnings() {
			r.Logger.Warn(w, "model", m.Name)
		}
	}
	return m.prepare(g, r)
}

// CompileSource prepares the source graph, without any pass. The reference interpreter runs it as the definition of the
// model. For a plan, CompileSource prepares the stored graph.
func (m *Model) CompileSource(r runtime.Options) (*runtime.Model, error) {
	if m.load != nil {
		return m.loadPlan(r)
	}
	if m.source == nil {
		_, err := m.compiled() // returns the reason
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
