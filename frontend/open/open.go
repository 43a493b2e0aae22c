// Package open turns a stored model into one that runs. It opens a model directory, an ONNX file, a plan, or a graph as
// text, told apart by content, and runs the passes over it.
//
//	model, err := open.Load("model.onnx", open.Options{})
//	...
//	out, err := model.NewSession().Run(ctx, inputs)
//
// Load does all of it in one call. File, Bytes, Reader and Graph return a Model, which gives access to the intermediate
// results: the description in the file, the source graph, and the graph after the passes, which runtime.New accepts and
// a plan stores.
//
// The package imports all operator sets, the readers of all formats, the passes, the runtime and the CPU backend.
// Programs that only run plans are smaller with package runtime alone. The following always holds. Names of files do
// not select the format: content that its reader accepts is opened. Errors name the file. Limits bound the resources
// for a file; those that are not set have the defaults of the format. Passes work on a copy of the source graph.
package open

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	_ "golang.org/x/image/bmp" // formats of ImageDecoder besides those of the standard library
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	_ "github.com/essmc/essmc/ops/essm" // the operators of models
	_ "github.com/essmc/essmc/ops/microsoft"
	_ "github.com/essmc/essmc/ops/ml"
	_ "github.com/essmc/essmc/ops/std"
	_ "github.com/essmc/essmc/ops/training"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/plan"
)

// Options are the options for opening a model. The zero value opens it as it is.
type Options struct {
	// Shapes fix dimensions before the passes, which can optimize more then. An element lists the dimensions of an
	// input, as in "input=1,L,64", or sets a symbol wherever it occurs, as in "L=1024". A dimension is a number, a name
	// that it gets, or _ if it stays as it is. The dimensions of a plan do not change: its Shapes only set Model.Dims.
	Shapes []string
	// Carry is for models that take a sequence in chunks, each with the state after the previous one. It maps inputs to
	// the outputs that are passed to them, as in {"state": "stateN"}. See runtime.Options.Carry. The passes keep it,
	// and plans store it.
	Carry map[string]string
	// Rate multiplies every step size of a model directory. It is 2 if the input has half the sampling rate of the
	// training data. 0 stands for 1. Other kinds of models accept no other rate.
	Rate float64
	// Skip names passes that are left out. The answers stay within the tolerances, and computing them may take longer:
	// without "integers", what lies between DequantizeLinear and QuantizeLinear is computed on float32, as the file
	// states it. The passes of a plan have run; it accepts no names.
	Skip []string
	// Passes are further passes. Each runs at the first place among the others that its After and Before allow; they
	// name any passes of PassNames, and each other. The passes of a plan have run; it gets none of these.
	Passes []*passes.Pass
	// Parameters are patterns of names: the constants of the source that they select become parameters, whose content
	// can be replaced later (ir.Graph.Parameters), before any pass looks at it. In a pattern "*" stands for any text
	// and "?" for one byte: "*" selects all weights. Only a constant's own name selects one that is not of floating
	// point or complex numbers, or an ONNX Constant node. A pattern that selects nothing is an error. A file may also
	// list parameters itself. Of a model directory, the tensors of the checkpoint have their names there, and those of
	// integers stay constants; see Weights. A plan and a graph in memory have the parameters that they were made with,
	// and accept no patterns.
	Parameters []string
	// Limits bound the resources for a file.
	Limits Limits
	// Context, if not nil, ends opening with an error when it is done: reading, passes and, in Load, what the backend
	// computes in advance.
	Context context.Context
	// Observe, if not nil, is called with the graph before the first pass and after each pass, including one that
	// fails. It is not called for plans.
	Observe func(passes.Snapshot)
	// Run holds the options of Load for the runtime: threads, memory, forms of state-space layers, precision, logger.
	// If its Backend is nil, Load uses the CPU backend. File, Bytes, Reader and Graph ignore Run; see Model.Compile.
	Run runtime.Options
}

// Limits bound the resources for a file from an untrusted source. A field that is 0 stands for the default of the
// format.
type Limits struct {
	// Bytes bounds the size of the file, or of the weights in a directory.
	Bytes int64
	// Nodes bounds the operators of the graph with its subgraphs and, in ONNX files, inlined functions.
	Nodes int
	// Depth bounds the nesting of graphs and of types.
	Depth int
	// Ports bounds the inputs of each operator, and its outputs. The default is 65,536.
	Ports int
	// Memory bounds the bytes of tensors that the file's size does not bound: in other files, or sparse.
	Memory int64
}

// onnx returns the limits for an ONNX file.
func (l Limits) onnx() onnx.Budget {
	return onnx.Budget{Bytes: l.Bytes, Nodes: l.Nodes, Depth: l.Depth, Ports: l.Ports, Memory: l.Memory}
}

// text returns the limits for a graph as text.
func (l Limits) text() irtext.Budget {
	return irtext.Budget{Bytes: int(min(l.Bytes, math.MaxInt)), Nodes: l.Nodes, Depth: l.Depth, Ports: l.Ports,
		Data: l.Memory}
}

// plan returns the limits for a plan.
func (l Limits) plan() plan.Limits {
	return plan.Limits{FileBytes: l.Bytes, Nodes: l.Nodes, Depth: l.Depth, Ports: l.Ports}
}

// text returns the options for a graph as text.
func (o Options) text() irtext.Options {
	return irtext.Options{Budget: o.Limits.text(), Context: o.Context, Parameters: o.Parameters}
}

// context returns Context, or one that is never done.
func (o Options) context() context.Context {
	if o.Context == nil {
		return context.Background()
	}
	return o.Context
}

// planFile reads the graph of a plan into memory.
func planFile(path string, res ir.Resolver, o Options) (*ir.Graph, error) {
	f, err := plan.Open(path, res, plan.Options{Limits: o.Limits.plan(), Context: o.Context, Copy: true})
	if err != nil {
		return nil, err
	}
	return f.Graph(), nil
}

// maxReader is the default of Limits.Bytes for Reader.
const maxReader = 4 << 30

// Load opens the model at path and prepares it to run on the CPU, or on the backend in Options.Run.
//
// Where systems let others replace open files, the large weights of an ONNX file stay in it, unless Options.Run.Copy is
// set. They are read when the backend packs them, and again where they are needed after that: by Model.Hash, or by a
// form that other shapes take. The file stays open until the model is closed, or not reachable. Replace it by renaming
// a new file over it: a model whose file was written to says so, as an error, where it needs weights again.
func Load(path string, o Options) (*runtime.Model, error) {
	m, err := file(path, o, !o.Run.Copy)
	if err != nil {
		return nil, err
	}
	if m.weights != nil {
		o.Run.Source = both{m.weights, o.Run.Source}
	}
	if o.Run.Context == nil {
		o.Run.Context = o.Context
	}
	m.once = true
	model, err := m.Compile(o.Run)
	if err != nil && m.weights != nil {
		_ = m.weights.Close() // err is the first error
	}
	return model, err
}

// both closes a file, and another one if it is not nil.
type both struct{ file, other io.Closer }

func (b both) Close() error {
	err := b.file.Close()
	if b.other != nil {
		err = errors.Join(err, b.other.Close())
	}
	return err
}

// Must returns v. It panics if err is not nil. It is for short programs, and for package variables:
//
//	var model = open.Must(open.Load("model.onnx", open.Options{}))
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// File opens the model at path, a directory or a file. Weights of ONNX files and texts may be in other files of the
// same folder. The graph of a plan is read when it is first needed. If there is an error, the model is nil, with one
// exception: for an ONNX file with unsupported operators, its Name, Kind and Info are set.
func File(path string, o Options) (*Model, error) { return file(path, o, false) }

// file is File. lazy leaves the weights of an ONNX file there until they are needed.
func file(path string, o Options, lazy bool) (_ *Model, err error) {
	defer ends.Catch(path, &err)
	if path == "" {
		return nil, fmt.Errorf("no model is named: %s", expected)
	}
	st, err := files.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return newModel(Directory, path, o, func(m *Model) error { return m.readDirectory(path) })
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is neither file nor directory: %s", path, expected)
	}
	kind, err := kindOfFile(path, o.Context)
	if err != nil {
		return nil, err
	}
	return newModel(kind, path, o, func(m *Model) (err error) {
		switch kind {
		case Plan:
			m.fromPlan(
				func(res ir.Resolver) (*ir.Graph, error) { return planFile(path, res, o) },
				func(r runtime.Options) (*runtime.Model, error) { return runtime.Load(path, r) })
		case ONNX:
			r := onnx.Options{Budget: o.Limits.onnx(), Context: o.Context, Parameters: o.Parameters}
			if lazy {
				r.Lazy = func(f io.Closer) { m.weights = both{f, m.weights} }
			}
			m.source, m.Info, err = onnx.ReadFile(path, r)
		case Text:
			m.source, err = irtext.ReadFile(path, resolver, o.text())
		}
		return err
	})
}

// Bytes opens a model in memory: an ONNX file, a plan, or a graph as text, in one piece. Errors begin with name. b must
// not change while the Model is in use.
func Bytes(b []byte, name string, o Options) (_ *Model, err error) {
	defer ends.Catch(name, &err)
	size := int64(len(b))
	kind, err := kindOf(ends.Of(o.Context).ReaderAt(bytes.NewReader(b)), size, name)
	if err != nil {
		return nil, err
	}
	return newModel(kind, name, o, func(m *Model) (err error) {
		switch kind {
		case Plan:
			m.fromPlan(
				func(res ir.Resolver) (*ir.Graph, error) {
					return plan.ReadContext(o.context(), bytes.NewReader(b), size, name, res, o.Limits.plan())
				},
				func(r runtime.Options) (*runtime.Model, error) {
					return runtime.LoadReader(bytes.NewReader(b), size, name, r)
				})
		case ONNX:
			m.source, m.Info, err = onnx.Parse(b, name,
				onnx.Options{Budget: o.Limits.onnx(), Context: o.Context, Parameters: o.Parameters})
		case Text:
			m.source, err = irtext.Parse(b, name, resolver, o.text())
		}
		return err
	})
}

// Reader reads a model from r to its end, and opens it like Bytes. The default of Limits.Bytes is 4 GiB.
func Reader(r io.Reader, name string, o Options) (_ *Model, err error) {
	defer ends.Catch(name, &err)
	r = ends.Of(o.Context).Reader(r)
	most := o.Limits.Bytes
	if most <= 0 {
		most = maxReader
	}
	b, err := io.ReadAll(io.LimitReader(r, most))
	if err == nil && int64(len(b)) == most {
		var more [1]byte
		if _, end := io.ReadFull(r, more[:]); end != io.EOF {
			return nil, fmt.Errorf("%s: more than %d bytes, which is the limit", name, most)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return Bytes(b, name, o)
}

// Graph opens a graph that a program has made, of ONNX's operators, essmc's, or both. Errors begin with name. The graph
// must not change while the Model is in use.
func Graph(g *ir.Graph, name string, o Options) (*Model, error) {
	if g == nil {
		return nil, fmt.Errorf("%s: no graph", name)
	}
	return newModel(Memory, name, o, func(m *Model) error {
		if err := ir.VerifyContext(o.Context, g); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if m.source = g; len(o.Shapes) > 0 || len(o.Carry) > 0 { // options are applied to a copy
			m.source = g.Clone()
		}
		return nil
	})
}

// Pipeline returns the passes for graphs of ONNX's operators: those that raise what an exporter took apart, then the
// portable pipeline.
func Pipeline() []*passes.Pass { return slices.Concat(raise.Pipeline(), passes.Pipeline()) }
