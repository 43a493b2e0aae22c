// Package open is the way from a model as it is stored to one that runs: it opens a model directory, an ONNX file, a plan,
// or a graph as text, told apart by content, and runs the passes over it.
//
//	model, err := open.Load("model.onnx", open.Options{})
//	...
//	out, err := model.NewSession().Run(ctx, inputs)
//
// Load is all of it in one call. File, Bytes, Reader and Graph give a Model between the file and the session: what the file
// says of itself, the graph as it was written, and the graph that the passes make, which runtime.New takes and a plan stores.
//
// The package imports all operator sets, the readers of all formats, the passes, the runtime and the CPU backend; programs
// that run plans and nothing else are smaller with package runtime alone. What always holds: what a format's reader accepts
// is opened under any file name; an error names the file; no more is read than Limits allow, and what they leave out has the
// format's own budget; passes work on a copy, so that the graph as it was written stays what it is.
package open

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	_ "golang.org/x/image/bmp" // pictures that ImageDecoder reads, besides those of the standard library
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"

	"github.com/essmc/essmc/frontend/onnx"
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

// Options say how a model is opened. The zero Options take it as it is.
type Options struct {
	// Shapes fix dimensions before the passes, which find more where less is open: those of an input, as in "input=1,L,64"
	// (numbers, names that the dimensions get, or _ for those that stay as they are), or one that bears a name wherever it
	// occurs, as in "L=1024". A plan stays as it was compiled; its Shapes only say what Model.Dims are.
	Shapes []string
	// Carry is for models that take a sequence in chunks, and their state with each: outputs by the input that the next chunk
	// takes them for, as {"state": "stateN"}. See runtime.Options.Carry; given here, the passes keep it and plans store it.
	Carry map[string]string
	// Rate multiplies every step size of a model directory: 2 where the input has half the sampling rate that the model was
	// trained for. 0 stands for 1, which is all that other kinds of models take.
	Rate float64
	// Limits bound what is read.
	Limits Limits
	// Context, if not nil, ends opening and the passes when it is done: before the file is read, and before each pass.
	Context context.Context
	// Observe, if not nil, sees the graph before the first pass and after each one, also after one that failed. A plan has
	// its passes behind it.
	Observe func(passes.Snapshot)
	// Run is how Load runs the model: threads, memory, the form of state-space layers, precision, logger. Its Backend may be
	// nil, for the CPU's. File and the like leave it to Model.Compile.
	Run runtime.Options
}

// Limits bound what a file may ask for, where it may come from anybody. What is 0 has the default of the file's format.
type Limits struct {
	// Bytes are those of the file, or of the files of a directory that hold its weights.
	Bytes int64
	// Nodes are the operators of the graph and its subgraphs; of an ONNX file those that its functions become, too.
	Nodes int
	// Depth is how deep graphs may stand in graphs, and types in types.
	Depth int
	// Memory is what tensors take that are not in the file itself: beside it, or written as a few numbers among zeros.
	Memory int64
}

// onnx are the limits of an ONNX file.
func (l Limits) onnx() onnx.Budget {
	return onnx.Budget{Bytes: l.Bytes, Nodes: l.Nodes, Depth: l.Depth, Memory: l.Memory}
}

// text are the limits of a graph as text.
func (l Limits) text() irtext.Budget {
	return irtext.Budget{Bytes: int(min(l.Bytes, math.MaxInt)), Nodes: l.Nodes, Depth: l.Depth, Data: l.Memory}
}

// plan are the limits of a plan.
func (l Limits) plan() plan.Limits {
	return plan.Limits{FileBytes: l.Bytes, Nodes: l.Nodes, Depth: l.Depth}
}

// maxReader is how many bytes Reader takes where Limits do not say.
const maxReader = 4 << 30

// Load opens the model at path and prepares it to run, on the CPU unless Options.Run names another backend.
func Load(path string, o Options) (*runtime.Model, error) {
	m, err := File(path, o)
	if err != nil {
		return nil, err
	}
	return m.Compile(o.Run)
}

// Must gives v, and panics where there is an error. It is for short programs, and for variables of packages:
//
//	var model = open.Must(open.Load("model.onnx", open.Options{}))
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// File opens the model at path, a directory or a file. Weights of ONNX files and texts may be in files beside them; a plan's
// graph is not read before it is asked for. The model is nil where there is an error, except that an ONNX file that uses
// operators which are not supported gives a Model whose Name, Kind and Info are set.
func File(path string, o Options) (*Model, error) {
	if path == "" {
		return nil, fmt.Errorf("no model is named: %s", expected)
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return newModel(Directory, path, o, func(m *Model) error { return m.readDirectory(path) })
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is neither file nor directory: %s", path, expected)
	}
	kind, err := kindOfFile(path)
	if err != nil {
		return nil, err
	}
	return newModel(kind, path, o, func(m *Model) (err error) {
		switch kind {
		case Plan:
			m.fromPlan(
				func(res ir.Resolver) (*ir.Graph, error) { return plan.ReadFile(path, res, o.Limits.plan()) },
				func(r runtime.Options) (*runtime.Model, error) { return runtime.Load(path, r) })
		case ONNX:
			m.source, m.Info, err = onnx.ReadFile(path, onnx.Options{Budget: o.Limits.onnx()})
		case Text:
			m.source, err = irtext.ReadFile(path, resolver, irtext.Options{Budget: o.Limits.text()})
		}
		return err
	})
}

// Bytes opens a model that is in memory: an ONNX file, a plan, or a graph as text, in one piece. name stands for it in
// messages. b must not change while the Model is used.
func Bytes(b []byte, name string, o Options) (*Model, error) {
	size := int64(len(b))
	kind, err := kindOf(bytes.NewReader(b), size, name)
	if err != nil {
		return nil, err
	}
	return newModel(kind, name, o, func(m *Model) (err error) {
		switch kind {
		case Plan:
			m.fromPlan(
				func(res ir.Resolver) (*ir.Graph, error) {
					return plan.Read(bytes.NewReader(b), size, name, res, o.Limits.plan())
				},
				func(r runtime.Options) (*runtime.Model, error) {
					return runtime.LoadReader(bytes.NewReader(b), size, name, r)
				})
		case ONNX:
			m.source, m.Info, err = onnx.Parse(b, name, onnx.Options{Budget: o.Limits.onnx()})
		case Text:
			m.source, err = irtext.Parse(b, name, resolver, irtext.Options{Budget: o.Limits.text()})
		}
		return err
	})
}

// Reader opens the model that r gives up to its end, into memory, as Bytes does. Without Limits.Bytes it may be 4 GiB.
func Reader(r io.Reader, name string, o Options) (*Model, error) {
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

// Graph opens a graph that a program has made, of ONNX's operators, essmc's, or both. name stands for it in messages. The
// graph must not change while the Model is used.
func Graph(g *ir.Graph, name string, o Options) (*Model, error) {
	if g == nil {
		return nil, fmt.Errorf("%s: no graph", name)
	}
	return newModel(Memory, name, o, func(m *Model) error {
		if err := ir.Verify(g); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if m.source = g; len(o.Shapes) > 0 || len(o.Carry) > 0 { // which are written into it
			m.source = g.Clone()
		}
		return nil
	})
}

// Pipeline is what runs on graphs of ONNX's operators: what an exporter took apart is put together again, and then the
// portable pipeline runs.
func Pipeline() []*passes.Pass { return slices.Concat(raise.Pipeline(), passes.Pipeline()) }
