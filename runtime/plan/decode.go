package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/internal/ends"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/plan/internal/fb"
)

// decoder turns a verified FlatBuffer into a graph. It trusts no number: it checks each id against the column that it
// points into, and each end against the end before it.
type decoder struct {
	p       *fb.Plan
	minor   int // version of the file
	watch   *ends.Watch
	weights []byte
	res     ir.Resolver
	lim     Limits

	strings   []string
	types     []ir.Type
	blobs     [][]byte
	dimText   int             // bytes of dimensions parsed
	boolBlob  map[uint32]bool // blobs that hold a bool tensor
	tensors   []*tensor.Tensor
	ops       []*ir.Op
	known     []bool // per op: the resolver has it
	values    []*ir.Value
	defined   []bool
	constants []*ir.Value
	graphs    []*ir.Graph
	parent    []int // per graph: its parent, or -1 until a node holds it
	depth     []int

	numbers, refs, nodeIn, nodeOut, attrs pool
}

// pool hands out the parts of a shared list, one after the other.
type pool struct {
	what     string
	end, len int
	watch    *ends.Watch
}

// next returns the next part, which ends at end.
func (p *pool) next(end uint64) (from, to int, err error) {
	p.watch.Step(1)
	if end < uint64(p.end) || end > uint64(p.len) {
		return 0, 0, fmt.Errorf("part of %s ends at %d, expected %d to %d", p.what, end, p.end, p.len)
	}
	from, p.end = p.end, int(end)
	return from, p.end, nil
}

func (p *pool) done() error {
	if p.end != p.len {
		return fmt.Errorf("%s has %d entries, only %d are used", p.what, p.len, p.end)
	}
	return nil
}

func at[T any](column string, list []T, id uint64) (T, error) {
	if id >= uint64(len(list)) {
		var zero T
		return zero, fmt.Errorf("%s id %d, there are %d", column, id, len(list))
	}
	return list[id], nil
}

// decode reads the graph from a buffer that verifyBuffer has passed, and verifies it.
func decode(w *ends.Watch, metadata, weights []byte, minor int, res ir.Resolver, lim Limits) (*ir.Graph, error) {
	d := &decoder{p: fb.GetRootAsPlan(metadata, 0), minor: minor, watch: w, weights: weights, res: res, lim: lim,
		boolBlob: map[uint32]bool{}}
	steps := []func() error{d.readStrings, d.readTypes, d.readBlobs, d.readTensors, d.readOps, d.readValues,
		d.readGraphs, d.readParameters}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("section metadata: %w", err)
		}
	}
	if err := d.unknownOps(); err != nil {
		return nil, err
	}
	if err := ir.VerifyContext(w.Context(), d.graphs[0]); err != nil {
		return nil, err
	}
	return d.graphs[0], nil
}

func (d *decoder) text(id uint32) (string, error) {
	d.watch.Step(1)
	return at("string", d.strings, uint64(id))
}

func (d *decoder) readStrings() error {
	d.strings = make([]string, d.p.StringsLength())
	for i := range d.strings {
		d.watch.Step(1)
		d.strings[i] = d.watch.String(d.p.Strings(i))
	}
	return nil
}

func (d *decoder) readTypes() error {
	dims := pool{what: "dims", len: d.p.DimsLength(), watch: d.watch}
	parsed := map[uint32]ir.Dim{}
	d.types = make([]ir.Type, d.p.TypesLength())
	depth := make([]int, len(d.types))
	var r fb.Type
	for i := range d.types {
		d.p.Types(&r, i)
		from, to, err := dims.next(uint64(r.DimsEnd()))
		if err != nil {
			return fmt.Errorf("type %d: %w", i, err)
		}
		if k := r.Kind(); k != typeTensor && to > from {
			return fmt.Errorf("type %d: kind %d has %d dimensions", i, k, to-from)
		}
		switch k := r.Kind(); k {
		case typeTensor, typeNoRank:
			elem := tensor.DType(min(r.Elem(), math.MaxUint8))
			if !elem.Valid() {
				return fmt.Errorf("type %d: unknown element type %d", i, r.Elem())
			}
			shape := make(ir.Shape, 0, to-from)
			for j := from; j < to; j++ {
				dim, err := d.dim(d.p.Dims(j), parsed)
				if err != nil {
					return fmt.Errorf("type %d: %w", i, err)
				}
				shape = append(shape, dim)
			}
			d.types[i] = &ir.TensorType{Elem: elem, Shape: shape, NoRank: k == typeNoRank}
		case typeSequence, typeOptional:
			e := r.Elem()
			inner, err := at("earlier type", d.types[:i], uint64(e))
			if err != nil {
				return fmt.Errorf("type %d: %w", i, err)
			}
			if depth[i] = depth[e] + 1; depth[i] > d.lim.Depth {
				return fmt.Errorf("%w: type %d is nested deeper than %d", ErrLimit, i, d.lim.Depth)
			}
			d.types[i] = &ir.OptionalType{Elem: inner}
			if k == typeSequence {
				d.types[i] = &ir.SequenceType{Elem: inner}
			}
		default:
			return fmt.Errorf("type %d: unknown kind %d", i, k)
		}
	}
	return dims.done()
}

// maxDimText bounds the text of all different dimensions, since normalizing a long one takes milliseconds.
const maxDimText = 1 << 20

func (d *decoder) dim(id uint32, parsed map[uint32]ir.Dim) (ir.Dim, error) {
	if dim, ok := parsed[id]; ok {
		return dim, nil
	}
	s, err := d.text(id)
	if err != nil {
		return ir.Dim{}, err
	}
	if d.dimText += len(s); d.dimText > maxDimText {
		return ir.Dim{}, fmt.Errorf("%w: more than %d bytes of different dimensions", ErrLimit, maxDimText)
	}
	dim, err := ir.ParseDim(s)
	if err != nil {
		return ir.Dim{}, err
	}
	if n, ok := dim.Known(); ok && n < 0 {
		return ir.Dim{}, fmt.Errorf("negative dimension %d", n)
	}
	parsed[id] = dim
	return dim, nil
}

func (d *decoder) readBlobs() error {
	d.blobs = make([][]byte, d.p.BlobsLength())
	end, size := uint64(0), uint64(len(d.weights))
	var r fb.Blob
	for i := range d.blobs {
		d.watch.Step(1)
		d.p.Blobs(&r, i)
		off, n := r.Offset(), r.Length()
		switch {
		case off < end || off-end >= tensor.Align || off%8 != 0:
			return fmt.Errorf("blob %d starts at byte %d of the weights, expected a multiple of 8 at or shortly "+
				"after %d", i, off, end)
		case off > size || n > size-off:
			return fmt.Errorf("blob %d: %d bytes from byte %d are not in the weights of %d", i, n, off, size)
		}
		for _, b := range d.weights[end:off] {
			if b != 0 {
				return fmt.Errorf("blob %d: the gap before it is not zero", i)
			}
		}
		d.blobs[i], end = d.weights[off:off+n:off+n], off+n
	}
	if end != size {
		return fmt.Errorf("blobs end at byte %d of the weights, which have %d", end, size)
	}
	return nil
}

func (d *decoder) readTensors() error {
	extents := pool{what: "extents", len: d.p.ExtentsLength(), watch: d.watch}
	elements := pool{what: "elements", len: d.p.ElementsLength()}
	d.tensors = make([]*tensor.Tensor, d.p.TensorsLength())
	var r fb.Tensor
	for i := range d.tensors {
		d.p.Tensors(&r, i)
		t, err := d.tensor(&r, &extents, &elements)
		if err != nil {
			return fmt.Errorf("tensor %d: %w", i, err)
		}
		d.tensors[i] = t
	}
	return cmp.Or(extents.done(), elements.done())
}

func (d *decoder) tensor(r *fb.Tensor, extents, elements *pool) (*tensor.Tensor, error) {
	from, to, err := extents.next(uint64(r.ExtentsEnd()))
	if err != nil {
		return nil, err
	}
	shape := make([]int, 0, to-from)
	for j := from; j < to; j++ {
		n := d.p.Extents(j)
		if n > math.MaxInt {
			return nil, fmt.Errorf("extent %d is too large for this machine", n)
		}
		shape = append(shape, int(n))
	}
	size, err := tensor.Size(shape)
	if err != nil {
		return nil, err
	}
	dtype := tensor.DType(r.Dtype())
	if !dtype.Valid() {
		return nil, fmt.Errorf("unknown element type %d", r.Dtype())
	}
	if dtype == tensor.String {
		return d.stringTensor(shape, size, uint64(r.Storage()), elements)
	}
	b, err := at("blob", d.blobs, uint64(r.Storage()))
	if err != nil {
		return nil, err
	}
	if bits := uint64(dtype.Bits()); uint64(size) > uint64(len(b))*8/bits { // size*bits could overflow
		return nil, fmt.Errorf("%v%s does not fit into its blob of %d bytes", dtype, tensor.ShapeString(shape), len(b))
	}
	switch used := size * dtype.Bits() % 8; {
	case dtype == tensor.Bool:
		// This reads every byte, but only once for all tensors that share it: otherwise a small file could take long.
		if d.boolBlob[r.Storage()] {
			return nil, fmt.Errorf("blob %d holds two bool tensors", r.Storage())
		}
		d.boolBlob[r.Storage()] = true
	case dtype.Packed() && used != 0 && len(b) > 0 && b[len(b)-1]>>used != 0:
		// FromBytes would copy it, for each tensor
		return nil, fmt.Errorf("%v%s has bits after its last element", dtype, tensor.ShapeString(shape))
	}
	return tensor.FromBytesParts(d.watch.Check, dtype, shape, b)
}

func (d *decoder) stringTensor(shape []int, size int, end uint64, elements *pool) (*tensor.Tensor, error) {
	from, to, err := elements.next(end)
	if err != nil {
		return nil, err
	}
	if size != to-from {
		return nil, fmt.Errorf("string%s has %d elements stored", tensor.ShapeString(shape), to-from)
	}
	list := make([]string, 0, size)
	for j := from; j < to; j++ {
		s, err := d.text(d.p.Elements(j))
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return tensor.FromStrings(list, shape...), nil
}

// readOps resolves operators at the version that defined them. An operator that the resolver lacks gets a placeholder,
// so that all of them can be reported with their nodes.
func (d *decoder) readOps() error {
	d.ops = make([]*ir.Op, d.p.OpsLength())
	d.known = make([]bool, len(d.ops))
	var r fb.Op
	for i := range d.ops {
		d.p.Ops(&r, i)
		domain, err := d.text(r.Domain())
		if err != nil {
			return fmt.Errorf("operator %d: domain: %w", i, err)
		}
		name, err := d.text(r.Name())
		if err != nil {
			return fmt.Errorf("operator %d: name: %w", i, err)
		}
		if r.Since() > math.MaxInt32 {
			return fmt.Errorf("operator %d (%s): version %d", i, name, r.Since())
		}
		since := int(r.Since())
		op := d.res.Resolve(domain, name, since)
		d.known[i] = op != nil && op.Since == since
		if !d.known[i] {
			op = &ir.Op{Domain: domain, Name: name, Since: since}
		}
		d.ops[i] = op
	}
	return nil
}

// readValues makes the values, without their definitions.
func (d *decoder) readValues() error {
	d.values = make([]*ir.Value, d.p.ValuesLength())
	d.defined = make([]bool, len(d.values))
	var v fb.Value
	for i := range d.values {
		d.p.Values(&v, i)
		name, err := d.text(v.Name())
		if err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
		typ, err := at("type", d.types, uint64(v.Type()))
		if err != nil {
			return fmt.Errorf("value %d (%s): %w", i, name, err)
		}
		d.values[i] = &ir.Value{Name: name, Type: typ}
	}
	d.constants = make([]*ir.Value, d.p.ConstantsLength())
	var c fb.Constant
	for i := range d.constants {
		d.p.Constants(&c, i)
		name, err := d.text(c.Name())
		if err != nil {
			return fmt.Errorf("constant %d: %w", i, err)
		}
		t, err := at("tensor", d.tensors, uint64(c.Tensor()))
		if err != nil {
			return fmt.Errorf("constant %d (%s): %w", i, name, err)
		}
		d.constants[i] = ir.NewConst(name, t)
	}
	return nil
}

// operand returns the value or constant with a number; nil for an absent operand.
func (d *decoder) operand(ref uint32) (*ir.Value, error) {
	d.watch.Step(1)
	switch {
	case ref == 0:
		return nil, nil
	case ref%2 == 1:
		return at("value", d.values, uint64(ref/2))
	}
	return at("constant", d.constants, uint64(ref/2-1))
}

// define returns the value with that id. A second definition is an error.
func (d *decoder) define(id uint64) (*ir.Value, error) {
	d.watch.Step(1)
	v, err := at("value", d.values, id)
	if err != nil {
		return nil, err
	}
	if d.defined[id] {
		return nil, fmt.Errorf("value %d (%s) is defined twice", id, v.Name)
	}
	d.defined[id] = true
	return v, nil
}

// unknownOps returns an error for the operators of nodes that the resolver lacks.
func (d *decoder) unknownOps() error {
	unknown := map[*ir.Op][]string{}
	for i, op := range d.ops {
		if d.watch.Step(1); !d.known[i] {
			unknown[op] = nil
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	for _, g := range d.graphs {
		for _, n := range g.Nodes {
			d.watch.Step(1)
			if nodes, ok := unknown[n.Op]; ok {
				unknown[n.Op] = append(nodes, nodeName(n))
			}
		}
	}
	e := &UnknownOpsError{}
	for op, nodes := range unknown {
		if len(nodes) > 0 {
			e.Ops = append(e.Ops, UnknownOp{op.Domain, op.Name, op.Since, nodes})
		}
	}
	if len(e.Ops) == 0 {
		return nil
	}
	slices.SortFunc(e.Ops, func(a, b UnknownOp) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Since, b.Since))
	})
	return e
}

// nodeName returns the name of a node, or else of its first output.
func nodeName(n *ir.Node) string {
	if n.Name != "" {
		return fmt.Sprintf("node %q", n.Name)
	}
	for _, v := range n.Outputs {
		if v != nil {
			return fmt.Sprintf("node -> %s", v.Name)
		}
	}
	return "a node without name or output"
}
