// Package load opens what the command line calls MODEL: a model directory, an ONNX model, a plan, or IR text, told apart by
// content.
//
// It imports the frontends, models, passes and runtime. What always holds: an error names the file; the graph as it was
// written is never changed by the passes that make the compiled one, except that the dimensions which the command line
// states are put into it before anything else sees it.
package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm" // operators that models are made of
	_ "github.com/essmc/essmc/ops/microsoft"
	_ "github.com/essmc/essmc/ops/ml"
	_ "github.com/essmc/essmc/ops/std"
	_ "github.com/essmc/essmc/ops/training"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/plan"
)

// Kind says what a model is stored as.
type Kind int

// Kinds of models.
const (
	Directory Kind = iota
	Plan
	Text
	ONNX
)

// String names the kind in messages.
func (k Kind) String() string {
	return [...]string{"a model directory", "a plan", "IR text", "an ONNX model"}[k]
}

// Options say how a model is opened.
type Options struct {
	// Rate multiplies every step size of a model directory; 0 stands for 1.
	Rate float64
	// Shapes are dimensions that the command line states; a plan only takes those that it has left open.
	Shapes Shapes
	// Carry says which outputs are the state that inputs take with the next chunk, by input; a plan keeps what it was made with.
	Carry map[string]string
	// Observe sees the graph before the first pass and after each one.
	Observe func(passes.Snapshot)
}

// Model is an opened model.
type Model struct {
	Path string
	Kind Kind
	// Config is a model directory's; nil otherwise.
	Config *models.Config
	// Info is what an ONNX model says of itself; nil otherwise.
	Info *onnx.Info
	// Dims are the symbols that Options.Shapes gives numbers to.
	Dims map[string]int64

	options  Options
	source   *ir.Graph
	compiled func() (*ir.Graph, error)
}

// Open reads the model at path. Of a plan it only looks at the first bytes; Source, Graph and Compiled read it. The model is
// nil where there is an error, except that of an ONNX model whose graph cannot be built Path, Kind and Info are given.
func Open(path string, o Options) (*Model, error) {
	m := &Model{Path: path, options: o}
	var err error
	if m.Kind, err = kindOf(path); err != nil {
		return nil, err
	}
	if m.Kind == Plan {
		m.compiled = sync.OnceValues(func() (*ir.Graph, error) {
			return plan.ReadFile(path, ops.Default, plan.Limits{})
		})
		return m, m.bindPlan()
	}
	list := passes.Pipeline()
	switch m.Kind {
	case Directory:
		err = m.readDirectory()
	case Text:
		m.source, err = irtext.ReadFile(path, ops.Default, irtext.Options{})
		list = Pipeline()
	case ONNX:
		m.source, m.Info, err = onnx.ReadFile(path, onnx.Options{})
		list = Pipeline()
	}
	if err != nil {
		if m.Info != nil {
			return m, err // what the file says of itself is known
		}
		return nil, err
	}
	if m.Dims, err = o.Shapes.Bind(m.source); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if m.Kind == ONNX && len(o.Shapes) > 0 { // which may have named dimensions
		onnx.MarkDims(m.source)
	}
	if len(o.Carry) > 0 {
		m.source.Meta[ir.MetaCarry] = stepgraph.PairsText(o.Carry)
		if _, err := stepgraph.Pairs(m.source, ir.MetaCarry); err != nil {
			return nil, fmt.Errorf("%s: --state: %w", path, err)
		}
	}
	m.compiled = sync.OnceValues(func() (*ir.Graph, error) {
		g := m.source.Clone()
		if err := passes.Run(g, list, passes.Options{Observe: o.Observe}); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return g, nil
	})
	return m, nil
}

// Pipeline is what runs on graphs of ONNX's operators: what an exporter took apart is put together again, and then the
// portable pipeline runs.
func Pipeline() []*passes.Pass { return slices.Concat(raise.Pipeline(), passes.Pipeline()) }

// bindPlan reads the numbers that Options.Shapes gives to the symbols of a plan, whose graph stays as it is.
func (m *Model) bindPlan() error {
	if len(m.options.Shapes) == 0 {
		return nil
	}
	g, err := m.compiled()
	if err != nil {
		return err
	}
	if m.Dims, err = m.options.Shapes.solve(g); err != nil {
		return fmt.Errorf("%s: %w", m.Path, err)
	}
	return nil
}

func (m *Model) readDirectory() error {
	c, w, err := checkpoint.ReadDir(m.Path)
	if err != nil {
		return err
	}
	m.Config = c
	m.source, err = models.Build(c, w, models.BuildOptions{Rate: m.options.Rate})
	if err != nil {
		return fmt.Errorf("%s: %w", m.Path, err)
	}
	return nil
}

// Source is the graph as its source wrote it; of a plan, the graph that it stores.
func (m *Model) Source() (*ir.Graph, error) {
	if m.source == nil {
		return m.compiled()
	}
	return m.source, nil
}

// Graph is the graph that the passes made, which a plan stores. They run once.
func (m *Model) Graph() (*ir.Graph, error) { return m.compiled() }

// Warnings are what the passes, if they have run, had to warn of.
func (m *Model) Warnings() []string {
	g, err := m.compiled()
	if err != nil {
		return nil
	}
	return passes.Warnings(g)
}

// AsWritten prepares the graph as its source wrote it.
func (m *Model) AsWritten(o runtime.Options) (*runtime.Model, error) {
	if m.Kind == Plan {
		return runtime.Load(m.Path, o)
	}
	return named(m.Path)(runtime.New(m.source, o))
}

// Compiled prepares the graph that the passes made.
func (m *Model) Compiled(o runtime.Options) (*runtime.Model, error) {
	if m.Kind == Plan {
		return runtime.Load(m.Path, o)
	}
	g, err := m.compiled()
	if err != nil {
		return nil, err
	}
	return named(m.Path)(runtime.New(g, o))
}

// named puts the model's name before an error, unless that is about an option.
func named(path string) func(*runtime.Model, error) (*runtime.Model, error) {
	return func(m *runtime.Model, err error) (*runtime.Model, error) {
		if err != nil && !errors.Is(err, runtime.ErrOption) {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return m, err
	}
}

// Leading bytes of files that are, or might be taken for, models.
var (
	zipMagic = []byte("PK\x03\x04")
	oldTorch = []byte("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20")
	npyMagic = []byte("\x93NUMPY")
)

const expected = "expected a model directory, an ONNX model, a plan, or IR text"

// kindOf tells what is at path by what is in it; names matter only for the advice in errors.
func kindOf(path string) (Kind, error) {
	if path == "" {
		return 0, fmt.Errorf("no model is named: %s", expected)
	}
	st, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if st.IsDir() {
		return Directory, nil
	}
	if !st.Mode().IsRegular() {
		return 0, fmt.Errorf("%s: is neither file nor directory: %s", path, expected)
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	head = head[:n]
	base := filepath.Base(path)
	switch {
	case n == 0:
		return 0, fmt.Errorf("%s: the file is empty: %s", path, expected)
	case plan.IsPlan(head) || n < 8 && head[0] == 0x89: // a shorter one is a plan that was cut off
		return Plan, nil
	case bytes.HasPrefix(head, zipMagic) || bytes.HasPrefix(head, oldTorch):
		return 0, fmt.Errorf("%s: is a zip archive or a file of torch; make a model directory of it: essmc convert %s -o DIR", path, base)
	case bytes.HasPrefix(head, npyMagic):
		return 0, fmt.Errorf("%s: is an array: %s", path, expected)
	case filepath.Ext(path) == ".safetensors" || base == "config.json":
		return 0, fmt.Errorf("%s: is part of a model directory; give the directory", path)
	case isONNX(head, path):
		return ONNX, nil
	case isText(head):
		return Text, nil
	}
	return 0, fmt.Errorf("%s: is not a model that essmc knows: %s", path, expected)
}

// isONNX reports whether a file is to be read as ONNX: because of its name, or because it begins as exporters write it, with
// the version of the format (field 1, a small number) and then another of the model's fields.
func isONNX(head []byte, path string) bool {
	if strings.EqualFold(filepath.Ext(path), ".onnx") {
		return true
	}
	if len(head) < 3 || head[0] != 1<<3 || head[1] == 0 || head[1] > 0x7f {
		return false
	}
	field, wire := head[2]>>3, head[2]&7
	return wire == 2 && slices.Contains([]byte{2, 3, 4, 6, 7, 8, 14}, field) || wire == 0 && field == 5
}

// isText reports whether head may begin a text: UTF-8, the last character perhaps cut off, without control characters.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, size := utf8.DecodeRune(head)
		if r == utf8.RuneError && size == 1 && len(head) >= utf8.UTFMax {
			return false
		}
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
		head = head[size:]
	}
	return true
}
