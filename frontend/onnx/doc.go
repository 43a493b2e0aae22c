// Package onnx reads ONNX models into graphs, of every IR version and every operator set since the first. It also reads
// the files of tensors, sequences and optionals of ONNX's tests. It writes graphs as ONNX models (Write), with the
// domain essm under the name ai.essmc.
//
// It imports ir, ir/tensor, internal packages, ops, ops/std and protowire. It has no generated descriptors, which would
// clash with those of other modules in a program. Returned graphs are verified. Values keep their names in the file if
// ir's rule of unique names allows it; inputs and outputs of the graph always do. All reading is within a Budget.
// Lengths in a file are checked against its size before they are used, and other files are opened only inside the
// model's folder. Errors name the file, and the node, value or tensor at fault.
//
// ONNX's parts are translated as follows:
//
//   - Constant nodes and initializers become constants. An initializer that is also an input is its default value.
//   - Initializers that Options.Parameters selects become parameters, also those that are inputs, and those of
//     subgraphs. Of Constant nodes, whose numbers are mostly part of a formula, only the name itself selects one.
//   - Write writes parameters as initializers, and lists them and their updates in metadata_props, from which Read
//     restores them.
//   - Model-local functions are inlined. Their nodes have the call's name as their Scope.
//   - Names longer than 32 KiB are refused, and those of 48 KiB that inlining makes: they would be too long for IR
//     text.
//   - Symbolic dimensions (dim_param) become symbols. Names that ir.ParseDim cannot read are changed; Graph.Meta has
//     the original under MetaDim+symbol.
//   - A dimension of -1 in a type is unknown, with a note. It is not in the standard, but Paddle's exporter writes it.
//     Smaller numbers are refused, and so is -1 in tensors.
//   - Types that are missing in the file are inferred. Others are checked against the inferred ones.
//   - metadata_props become Graph.Meta.
//   - Sparse tensors become dense, within the Budget.
//   - Training information and quantization annotations are ignored. Maps and opaque types are refused.
package onnx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
	"github.com/essmc/essmc/internal/patterns"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Keys of Graph.Meta that the reader sets, besides those of package ir.
const (
	MetaProducer = "onnx.producer" // producer_name and producer_version
	MetaDomain   = "onnx.domain"   // the domain of the model
	MetaDim      = "onnx.dim."     // + symbol: the dim_param in the file, if it differs from the symbol
)

// MaxOpset is the newest known version of ai.onnx. Models that import a newer one are read with a warning, as if of
// this version: later versions mostly add operators, attributes and element types, which are refused where a model uses
// them.
const MaxOpset = 28

// maxIR is the newest known IR version. Files of newer versions are read with a note, since the meaning of operators
// depends on operator sets only.
const maxIR = 13

// Options are the options of Read. The zero value is for models in one file.
type Options struct {
	// Resolver finds operators. If it is nil, ops.Default is used.
	Resolver ir.Resolver
	// Budget bounds the resources for a file.
	Budget Budget
	// Context, if not nil, ends reading with its error when it is done.
	Context context.Context
	// Parameters are patterns of names: the initializers that they select become parameters, before anything looks at
	// their content. In a pattern "*" stands for any text and "?" for one byte. Only a value's own name selects one
	// that is not of floating point or complex numbers, or the result of a Constant node. A pattern that selects
	// nothing is an error.
	Parameters []string
	// Dir is the folder of the model, for tensors with data in other files. If it is nil, such tensors are refused.
	Dir *os.Root
	// Lazy, if not nil, lets ReadFile leave large tensors of numbers in the file until their elements are needed
	// (tensor.Tensor.Lazy). It is called with each file that stays open for such tensors, if there is no error: the
	// model's, and the files of external tensors. The caller closes them, or leaves that to the garbage collector.
	// They must not change until then: reading a tensor after a change fails. Lazy has no effect on systems that
	// prevent the replacement of open files.
	Lazy   func(io.Closer)
	folder *files.Root // Dir, or the file's folder
	file   *openFile   // the model's, for lazy tensors, or nil
}

// Budget limits the resources for reading a model. Fields that are 0 mean the defaults.
type Budget struct {
	Bytes      int64 // size of the model file; default 64 GiB
	Nodes      int   // nodes after inlining; default 262144
	Attributes int   // attributes in the file; default 524288
	Values     int   // inputs, outputs, initializers, value infos and functions in the file; default 262144
	Depth      int   // depth of nested graphs, types and function calls; default 32
	Ports      int   // inputs of a node, and outputs of a node; default 65536
	// Memory bounds the bytes of tensors that the file's size does not bound: sparse and external ones. The default is
	// 64 MiB and four times the size of the model and of the files that it refers to.
	Memory int64
	// Names bounds the bytes of names that inlining makes. The default is 64 MiB and four times the size of the model.
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
	def(&b.Ports, 1<<16)
	if b.Bytes == 0 {
		b.Bytes = 64 << 30
	}
	if b.Names == 0 {
		b.Names = allowance(size)
	}
	return b
}

// allowance returns the default memory for reading a file of the given size.
func allowance(size int64) int64 {
	if size > math.MaxInt64/8 {
		return math.MaxInt64
	}
	return 64<<20 + 4*size
}

// Info is the description of a model in its file.
type Info struct {
	IRVersion       int64
	Producer        string
	ProducerVersion string
	Domain          string
	ModelVersion    int64
	Doc             string
	// Opsets holds the versions that the model imports, by domain. The domain of ai.onnx is "".
	Opsets map[string]int
	// Domains lists the domains of the operators in the graph and its functions, sorted.
	Domains []string
	// Functions lists the model-local functions, as "domain.name" or "domain.name:overload", in the file's order.
	Functions []string
	// Dynamic lists the open dimensions of inputs and outputs.
	Dynamic []DynamicAxis
	// Defaults lists the inputs that have a value in the file. They become constants.
	Defaults []string
	// Metadata is the file's metadata_props.
	Metadata map[string]string
	// Notes lists ignored or changed parts of the file.
	Notes []string
	// Warnings lists reasons for doubt in the answers: the file is newer than this program, or contradicts itself.
	Warnings []string
}

// DynamicAxis is an open dimension of an input or output.
type DynamicAxis struct {
	Value  string // name of the input or output
	Axis   int
	Symbol string // symbol in the graph; empty if the file has no name
}

// Read reads a model of the given size. Errors begin with name, which is usually the file's path. The graph is nil if
// there is an error. The Info may be set even then.
func Read(r io.ReaderAt, size int64, name string, o Options) (*ir.Graph, *Info, error) {
	return guarded(newSource(r, size), name, o)
}

// Parse is Read for a model in memory. The graph does not refer to b.
func Parse(b []byte, name string, o Options) (*ir.Graph, *Info, error) {
	return guarded(memory(b), name, o)
}

// ReadFile reads the model at path. Its external tensors are in files in the same folder or below.
func ReadFile(path string, o Options) (*ir.Graph, *Info, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, nil, err
	}
	keep := false
	defer func() {
		if !keep {
			f.Close()
		}
	}()
	size, err := f.Regular(path)
	if err != nil {
		return nil, nil, err
	}
	if err := lfs.CheckFile(f, size); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if o.Dir == nil {
		if o.folder, err = files.OpenRoot(filepath.Dir(path)); err != nil {
			return nil, nil, err
		}
		defer o.folder.Close()
	}
	if o.Lazy != nil && lazyFiles {
		st, err := f.Stat()
		if err != nil {
			return nil, nil, err
		}
		o.file = &openFile{name: path, File: f, begin: st}
	}
	g, info, err := Read(f, size, path, o)
	if err == nil {
		if keep = o.file != nil && o.file.used; keep {
			o.Lazy(f)
		}
		if _, ok := g.Meta[ir.MetaSource]; !ok {
			g.Meta[ir.MetaSource] = filepath.Base(path)
		}
	}
	return g, info, err
}

// guarded returns a panic of an operator's type inference as an error, since the graph may come from anywhere.
func guarded(s *source, name string, o Options) (g *ir.Graph, info *Info, err error) {
	defer func() {
		if v := recover(); v != nil {
			g, info, err = nil, nil, fmt.Errorf("%s: internal error: %v", name, v)
		}
	}()
	defer ends.Catch(name, &err)
	if err := tensor.CheckByteOrder(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	s.watch = ends.Of(o.Context)
	return read(s, name, o)
}

func read(s *source, name string, o Options) (*ir.Graph, *Info, error) {
	if o.Resolver == nil {
		o.Resolver = ops.Default
	}
	if o.Dir != nil {
		o.folder = files.In(o.Dir)
	}
	r := &reader{
		file: name, resolver: o.Resolver, dir: o.folder, budget: o.Budget.withDefaults(s.size),
		source: s, pace: ir.NewPacer(s.watch.Checker()), lazy: o.file, files: map[string]*externalFile{},
		known: map[*tensorProto]*decoded{},
		next:  map[string]int{}, pick: patterns.New(o.Parameters),
	}
	r.fixedMemory = o.Budget.Memory > 0
	done := false
	defer func() {
		for _, f := range r.files {
			switch {
			case f.open == nil:
			case done:
				o.Lazy(f.open)
			default:
				f.open.Close()
			}
		}
	}()
	g, info, err := r.model()
	if err != nil {
		var u *UnsupportedError
		if errors.As(err, &u) {
			return nil, info, err // err names the file
		}
		return nil, nil, &readError{name, err}
	}
	done = true
	return g, info, nil
}

// readError adds the file's name to an error, and escapes control characters in names, so that the message is one
// line.
type readError struct {
	file string
	err  error
}

func (e *readError) Unwrap() error { return e.err }

func (e *readError) Error() string { return oneLine(e.file + ": " + e.err.Error()) }

// maxLine is the approximate limit of a message's bytes.
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
