// Package onnx reads ONNX models into graphs, of every IR version and every operator set since the first. It also reads the
// files of tensors, sequences and optionals of ONNX's tests. It writes graphs as ONNX models (Write), with the domain essm
// under the name ai.essmc.
//
// It imports ir, ir/tensor, ops, ops/std and protowire. It has no generated descriptors, which would clash with those
// of other modules in a program. Returned graphs are verified. Values keep their names in the file if ir's rule of
// unique names allows it; inputs and outputs of the graph always do. All reading is within a Budget. Lengths in a file
// are checked against its size before they are used, and other files are opened only inside the model's folder. Errors
// name the file, and the node, value or tensor at fault.
//
// ONNX's parts are translated as follows:
//
//   - Constant nodes and initializers become constants; an initializer that is also an input gives its default.
//   - Model-local functions are inlined. Their nodes have the call's name as their Scope.
//   - Symbolic dimensions (dim_param) become symbols. Names that ir.ParseDim cannot read are changed; Graph.Meta has the
//     original under MetaDim+symbol.
//   - A dimension of -1 in a type is unknown, with a note. The standard has no such dimension, but Paddle's exporter, and so
//     models in wide use such as those of rapidocr, have it. Smaller numbers are refused, and so is -1 in tensors.
//   - Types that are missing in the file are inferred. Others are checked against the inferred ones.
//   - metadata_props become Graph.Meta.
//   - Sparse tensors become dense, within the Budget.
//   - Training information and quantization annotations are ignored. Maps and opaque types are refused.
package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Keys of Graph.Meta that the reader sets, besides those of package ir.
const (
	MetaProducer = "onnx.producer" // producer_name and producer_version
	MetaDomain   = "onnx.domain"   // the model's domain
	MetaDim      = "onnx.dim."     // + symbol: the dim_param as the file has it, where it differs from the symbol
)

// MaxOpset is the newest version of ai.onnx that the reader knows; a model that asks for a newer one is refused, since its
// operators may have changed their meaning.
const MaxOpset = 27

// maxIR is the newest IR version that the reader was written for. Newer ones are read all the same, with a note: what
// operators mean is decided by opsets.
const maxIR = 13

// Options say how a model is read. The zero Options are for models in one file.
type Options struct {
	// Resolver finds operators; nil: ops.Default.
	Resolver ir.Resolver
	// Budget bounds what a file may ask for.
	Budget Budget
	// Dir is the folder of the model, for tensors whose data is in files beside it; nil: such tensors are refused.
	Dir *os.Root
}

// Budget bounds what reading a model may take; zero fields mean the defaults.
type Budget struct {
	Bytes      int64 // of the model file; default 64 GiB
	Nodes      int   // after inlining; default 262144
	Attributes int   // in the file; default 524288
	Values     int   // inputs, outputs, initializers, value infos and functions in the file; default 262144
	Depth      int   // of nested graphs, types and function calls; default 32
	// Memory bounds what tensors take that the file's own size does not bound: sparse and external ones, in bytes; default
	// 64 MiB and four times the size of the model and of the files that it refers to.
	Memory int64
	// Names bounds the text of the names that inlining makes; default 64 MiB and four times the size of the model.
	Names int64
}

func (b Budget) withDefaults(size int64) Budget {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&b.Nodes, 1<<18)
	def(&b.Attributes, 1<<19)
	def(&b.Values, 1<<18)
	def(&b.Depth, 32)
	if b.Bytes == 0 {
		b.Bytes = 64 << 30
	}
	if b.Names == 0 {
		b.Names = allowance(size)
	}
	return b
}

// allowance is what memory reading a file of the given size may take.
func allowance(size int64) int64 {
	if size > math.MaxInt64/8 {
		return math.MaxInt64
	}
	return 64<<20 + 4*size
}

// Info is what a model file says of itself beside its graph.
type Info struct {
	IRVersion       int64
	Producer        string
	ProducerVersion string
	Domain          string
	ModelVersion    int64
	Doc             string
	// Opsets are the versions that the model imports, by domain ("" is ai.onnx).
	Opsets map[string]int
	// Domains are those of the operators that the graph uses, functions included, sorted.
	Domains []string
	// Functions are the model-local functions, as "domain.name" or "domain.name:overload", in the file's order.
	Functions []string
	// Dynamic are the dimensions of inputs and outputs that are not fixed.
	Dynamic []DynamicAxis
	// Defaults are the inputs that the file gives values for, and that have therefore become constants.
	Defaults []string
	// Metadata is the file's metadata_props.
	Metadata map[string]string
	// Notes are what was ignored or changed in reading.
	Notes []string
}

// DynamicAxis is a dimension that the model leaves open.
type DynamicAxis struct {
	Value  string // input or output
	Axis   int
	Symbol string // as in the graph; empty when the file gives no name
}

// Read reads a model of the given size. name stands for it in messages, usually its path.
func Read(r io.ReaderAt, size int64, name string, o Options) (*ir.Graph, *Info, error) {
	return guarded(newSource(r, size), name, o)
}

// Parse is Read for a model in memory. The graph does not keep b.
func Parse(b []byte, name string, o Options) (*ir.Graph, *Info, error) {
	return guarded(memory(b), name, o)
}

// ReadFile reads the model at path, whose external tensors are in files beside it or in folders below.
func ReadFile(path string, o Options) (*ir.Graph, *Info, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	s, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !s.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: expected a regular file", path)
	}
	if o.Dir == nil {
		if o.Dir, err = os.OpenRoot(filepath.Dir(path)); err != nil {
			return nil, nil, err
		}
		defer o.Dir.Close()
	}
	g, info, err := Read(f, s.Size(), path, o)
	if err == nil {
		if _, ok := g.Meta[ir.MetaSource]; !ok {
			g.Meta[ir.MetaSource] = filepath.Base(path)
		}
	}
	return g, info, err
}

// guarded turns a panic of an operator's type inference into an error: the graphs that it sees here are anybody's.
func guarded(s *source, name string, o Options) (g *ir.Graph, info *Info, err error) {
	defer func() {
		if v := recover(); v != nil {
			g, info, err = nil, nil, fmt.Errorf("%s: internal error: %v", name, v)
		}
	}()
	return read(s, name, o)
}

func read(s *source, name string, o Options) (*ir.Graph, *Info, error) {
	if o.Resolver == nil {
		o.Resolver = ops.Default
	}
	r := &reader{
		file: name, resolver: o.Resolver, dir: o.Dir, budget: o.Budget.withDefaults(s.size),
		source: s, files: map[string]*externalFile{}, known: map[*tensorProto]*decoded{},
		next: map[string]int{},
	}
	r.fixedMemory = o.Budget.Memory > 0
	g, info, err := r.model()
	if err != nil {
		var u *UnsupportedError
		if errors.As(err, &u) {
			return nil, info, err // it names the file
		}
		return nil, nil, &readError{name, err}
	}
	return g, info, nil
}

// readError names the file, and writes names that hold control characters on one line.
type readError struct {
	file string
	err  error
}

func (e *readError) Unwrap() error { return e.err }

func (e *readError) Error() string { return oneLine(e.file + ": " + e.err.Error()) }

// maxLine is about how many bytes a message may have.
const maxLine = 4096

func oneLine(s string) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len() > maxLine {
			b.WriteString("…")
			break
		}
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

func memory(b []byte) *source {
	return &source{r: bytes.NewReader(b), size: int64(len(b)), window: b}
}
