package onnx

import (
	"crypto/sha1"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// WriteOptions are the options of Write. The zero value is for one file without functions.
type WriteOptions struct {
	// Functions are written as model-local functions.
	Functions []Function
	// External is the name, without folders, of a second file for large tensors. A hash of the content is inserted
	// before its extension. If it is empty, all tensors are in the model file. Only WriteFile and WriteFiles support
	// it.
	External string
	// ExternalFrom is the minimum size in bytes of a large tensor. 0 means 64 KiB.
	ExternalFrom int
	// Version is written as producer_version.
	Version string

	checksum string // of the second file; empty until its content is known
}

// Function is a model-local function: the definition of an operator in other operators, under the operator's name.
type Function struct {
	// Nodes are the nodes that call it. They apply one operator in the same way.
	Nodes []*ir.Node
	// Overload distinguishes functions of one operator. It is empty for the first.
	Overload string
	// Body has an input for each of the operator's inputs that its nodes have, in order, and an output for each of
	// their outputs.
	Body *ir.Graph
}

// maxMessage is the limit of protobuf's readers.
const maxMessage = 1<<31 - 1

// alignExternal is the alignment of tensors in a second file, so that the file can be mapped.
const alignExternal = 4096

// Write writes g as an ONNX model. Equal graphs give equal bytes. Operators are written as they are in the graph;
// package passes/lower returns graphs of standard operators. An error names the node or value that ONNX cannot
// represent.
func Write(w io.Writer, g *ir.Graph, o WriteOptions) error {
	if o.External != "" {
		return fmt.Errorf("tensors in a file of their own need the folder of the model")
	}
	m, _, err := encode(g, o)
	if err != nil {
		return err
	}
	return m.writeTo(w)
}

// WriteFile writes g to path, completely or not at all. With External, it writes the second file first, and its
// checksum to the model. See WriteFiles for its name.
func WriteFile(path string, g *ir.Graph, o WriteOptions) error {
	_, err := WriteFiles(path, g, o)
	return err
}

// WriteFiles is like WriteFile, and returns the name of the second file, or "" if there is none. The name contains a
// hash of the content, as in weights-0123456789abcdef.bin for External weights.bin. So a model never refers to the
// weights of another one, even if the process ends between the two files. If a model at path is replaced, its second
// file is removed, unless another .onnx file in the folder refers to it.
func WriteFiles(path string, g *ir.Graph, o WriteOptions) (external string, err error) {
	if o.External != "" {
		if filepath.Base(o.External) != o.External || strings.ContainsAny(o.External, `/\`) || o.External == ".." ||
			o.External == "." {
			return "", fmt.Errorf("external data: expected a file name without folders, found %q", o.External)
		}
		if filepath.Base(path) == o.External {
			return "", fmt.Errorf("external data: %s is the model itself", o.External)
		}
	}
	m, tensors, err := encode(g, o)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if o.External == "" || len(tensors) == 0 {
		return "", atomicfile.Write(path, m.writeTo)
	}
	data, err := atomicfile.NewData(o.External, sha1.New(), func(w io.Writer) error {
		at := int64(0)
		for _, t := range tensors {
			if err := zeros(w, t.offset-at); err != nil {
				return err
			}
			if _, err := w.Write(t.data); err != nil {
				return err
			}
			at = t.offset + int64(len(t.data))
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	o.External, o.checksum = data.Name, data.Sum
	if m, _, err = encode(g, o); err != nil { // now with name and checksum; the tensors keep their offsets
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return data.Name, atomicfile.WritePair(path, data, m.writeTo)
}

func zeros(w io.Writer, n int64) error {
	_, err := w.Write(make([]byte, n))
	return err
}

// placed is a tensor in the second file.
type placed struct {
	data   []byte
	offset int64
}

// writer is the state of writing one model.
type writer struct {
	o        WriteOptions
	dims     map[string]string // from symbols to names in the file, if they differ
	overload map[*ir.Node]string
	domains  map[string]int // required version, by domain
	external []placed
	at       int64
	ir       int64
	names    map[string]int // names of nodes in use
}

func encode(g *ir.Graph, o WriteOptions) (_ *message, _ []placed, err error) {
	defer tensor.Caught(&err)
	if err := tensor.CheckByteOrder(); err != nil {
		return nil, nil, err
	}
	if o.ExternalFrom == 0 {
		o.ExternalFrom = 64 << 10
	}
	w := &writer{o: o, dims: map[string]string{}, overload: map[*ir.Node]string{}, domains: map[string]int{}, ir: 3,
		names: map[string]int{}}
	for k, v := range g.Meta {
		if s, ok := strings.CutPrefix(k, MetaDim); ok {
			w.dims[s] = v
		}
	}
	for _, f := range o.Functions {
		if f.Body == nil || len(f.Nodes) == 0 {
			return nil, nil, fmt.Errorf("a function has no body, or no node that calls it")
		}
		for _, n := range f.Nodes {
			w.overload[n] = f.Overload
		}
	}
	body, err := w.graph(g, true)
	if err != nil {
		return nil, nil, err
	}
	var functions []*message
	for _, f := range o.Functions {
		m, err := w.function(f)
		if err != nil {
			return nil, nil, err
		}
		functions = append(functions, m)
	}
	opsets := w.opsets(g)
	for i := range opsets {
		w.ir = max(w.ir, irVersion(opsets[i].domain, int(opsets[i].version)))
	}
	m := &message{}
	m.int(1, w.ir)
	m.text(2, "essmc")
	if o.Version != "" {
		m.text(3, o.Version)
	}
	if d := g.Meta[MetaDomain]; d != "" {
		m.text(4, d)
	}
	m.message(7, body)
	for _, s := range opsets {
		m.message(8, opsetMessage(s))
	}
	props := properties(g)
	for k, v := range g.Meta {
		if k != propParameters && k != propUpdates { // of another graph
			props[k] = v
		}
	}
	for _, k := range slices.Sorted(maps.Keys(props)) {
		if k == MetaProducer || k == MetaDomain || strings.HasPrefix(k, MetaDim) {
			continue // written to other fields
		}
		e := &message{}
		e.text(1, k)
		e.text(2, props[k])
		m.message(14, e)
	}
	for _, f := range functions {
		m.message(25, f)
	}
	if m.size > maxMessage {
		return nil, nil,
			fmt.Errorf("graph %s: the model takes %d bytes, more than ONNX's 2 GiB; put its tensors into a file of "+
				"their own", g.Name, m.size)
	}
	return m, w.external, nil
}

func opsetMessage(s opsetProto) *message {
	m := &message{}
	if s.domain != "" {
		m.text(1, s.domain)
	}
	m.int(2, s.version)
	return m
}

// opsets lists the versions of the domains that were written.
func (w *writer) opsets(g *ir.Graph) []opsetProto {
	versions := maps.Clone(w.domains)
	if _, ok := g.Opsets[""]; ok || len(versions) == 0 { // a model must have an import
		versions[""] = max(versions[""], 1)
	}
	for d := range versions {
		if v, ok := g.Opsets[d]; ok {
			versions[d] = max(v, versions[d])
		}
	}
	var out []opsetProto
	for _, d := range slices.Sorted(maps.Keys(versions)) {
		out = append(out, opsetProto{fileDomain(d), int64(versions[d])})
	}
	return out
}

// fileDomain returns the name of a domain in files. It is the inverse of canonical.
func fileDomain(d string) string {
	if d == "essm" {
		return "ai.essmc"
	}
	return d
}

// irVersion returns the first IR version that allows an operator set.
func irVersion(domain string, version int) int64 {
	if domain != "" {
		return 3
	}
	for _, v := range [...]struct{ opset, ir int }{{26, 13}, {25, 12}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8},
		{12, 7}, {11, 6}, {10, 5}, {9, 4}} {
		if version >= v.opset {
			return int64(v.ir)
		}
	}
	return 3
}

// elemIR returns the first IR version that has an element type.
func elemIR(d tensor.DType) int64 {
	switch {
	case d >= tensor.Uint2:
		return 13
	case d == tensor.Float8E8M0:
		return 12
	case d == tensor.Float4E2M1:
		return 11
	case d == tensor.Uint4 || d == tensor.Int4:
		return 10
	case d >= tensor.Float8E4M3FN:
		return 9
	}
	return 4 // the first version in which initializers need not be inputs
}
