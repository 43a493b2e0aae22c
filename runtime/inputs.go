package runtime

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"unsafe"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// signature holds the inputs and outputs of a graph, by name.
type signature struct {
	inputs, outputs         []Port
	inputIndex, outputIndex map[string]int
	outputDType             []tensor.DType // per output; Invalid if it is not a tensor
	time, batch             string         // symbols of steps, which must not be 0, and of samples; may be empty
	wide                    bool           // float64 in place of float32
}

// newSignature makes the signature of inputs and outputs, with the time and batch symbols of g.
func newSignature(ctx context.Context, g *ir.Graph, inputs, outputs []*ir.Value, wide bool) (*signature, error) {
	sg := &signature{time: g.Meta[ir.MetaTime], batch: g.Meta[ir.MetaBatch], wide: wide, inputIndex: map[string]int{},
		outputIndex: map[string]int{}, inputs: make([]Port, 0, len(inputs)), outputs: make([]Port, 0, len(outputs)),
		outputDType: make([]tensor.DType, 0, len(outputs))}
	steps := ir.EvalCtx{Ctx: ctx}
	for i, v := range inputs {
		steps.Step(200)
		p := port(g, v)
		sg.inputs = append(sg.inputs, p)
		sg.inputIndex[p.Name] = i
	}
	for i, v := range outputs {
		steps.Step(200)
		p := port(g, v)
		if j, twice := sg.outputIndex[p.Name]; twice {
			return nil, fmt.Errorf("graph %s: outputs %d and %d are both value %s", g.Name, j, i, p.Name)
		}
		sg.outputs = append(sg.outputs, p)
		sg.outputIndex[p.Name] = i
		sg.outputDType = append(sg.outputDType, sg.elem(p.Type))
	}
	return sg, nil
}

func port(g *ir.Graph, v *ir.Value) Port {
	p := Port{Name: v.Name, Type: v.Type, Keys: g.Meta[ir.MetaKeys+v.Name]}
	if o, ok := v.Type.(*ir.OptionalType); ok {
		p.Type, p.Optional = o.Elem, true
	}
	return p
}

// elem returns the element type that the backend takes or returns for a port of type t.
func (sg *signature) elem(t ir.Type) tensor.DType {
	tt, ok := t.(*ir.TensorType)
	switch {
	case !ok:
		return tensor.Invalid
	case sg.wide && tt.Elem == tensor.Float32:
		return tensor.Float64
	}
	return tt.Elem
}

// inputData puts the named inputs into the graph's order, checks kinds, element types and ranks, and converts element
// types if no number changes, which it charges to c. bindData checks dimensions, once for each set of shapes.
func (sg *signature) inputData(ctx context.Context, in map[string]tensor.Datum, data []tensor.Datum,
	c *charges) (err error) {
	c.moves.Ctx = ctx
	defer Ended(&err)
	found := 0
	for i := range sg.inputs {
		c.moves.Step(100)
		p := &sg.inputs[i]
		d, ok := in[p.Name]
		if ok {
			found++
		}
		d = unwrap(d)
		if d == nil {
			if !p.Optional {
				if err := unknownName(in, sg.inputIndex, false); err != nil { // perhaps this one, misspelled
					return err
				}
				return &InputError{Name: p.Name, Msg: fmt.Sprintf("is missing; expected %v", p.Type)}
			}
			data[i] = nil
			continue
		}
		d, err = sg.accept(d, p.Type, c)
		if errors.Is(err, ErrMemory) {
			return fmt.Errorf("input %q: %w", p.Name, err)
		}
		if err != nil {
			return &InputError{Name: p.Name, Msg: err.Error()}
		}
		data[i] = d
	}
	if found < len(in) {
		return unknownName(in, sg.inputIndex, false)
	}
	return nil
}

// unwrap returns the value of an optional, and an untyped nil for nil pointers of any type.
func unwrap(d tensor.Datum) tensor.Datum {
	switch v := d.(type) {
	case *tensor.Optional:
		if v == nil {
			return nil
		}
		return unwrap(v.Value)
	case *tensor.Tensor:
		if v == nil {
			return nil
		}
	case *tensor.Sequence:
		if v == nil {
			return nil
		}
	}
	return d
}

// accept checks d against t, except for symbolic dimensions, and returns it in the element types that the backend
// expects. It charges what it allocates to c.
func (sg *signature) accept(d tensor.Datum, t ir.Type, c *charges) (tensor.Datum, error) {
	switch t := t.(type) {
	case *ir.TensorType:
		x, ok := d.(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("expected a tensor, found a sequence")
		}
		if !t.NoRank && x.Rank() != len(t.Shape) {
			return nil, fmt.Errorf("expected %d dimensions %v, found %d: %s", len(t.Shape), t.Shape, x.Rank(), x)
		}
		if x.DType() == t.Elem && !sg.wide { // the common case
			return x, nil
		}
		return sg.convert(x, t.Elem, c)
	case *ir.SequenceType:
		s, ok := d.(*tensor.Sequence)
		if !ok {
			return nil, fmt.Errorf("expected a sequence, found a tensor")
		}
		if err := c.take(bytesOf(len(s.Items), itemSize)); err != nil {
			return nil, err
		}
		out := &tensor.Sequence{Items: make([]tensor.Datum, len(s.Items))}
		for i, item := range ops.All(&c.moves, s.Items) {
			c.moves.Step(100)
			item = unwrap(item)
			if item == nil {
				return nil, fmt.Errorf("item %d is missing", i)
			}
			x, err := sg.accept(item, t.Elem, c)
			if err == nil {
				err = knownDims(x, t.Elem)
			}
			if err != nil {
				return nil, fmt.Errorf("item %d: %w", i, err)
			}
			out.Items[i] = x
		}
		return out, nil
	case *ir.OptionalType:
		return sg.accept(d, t.Elem, c)
	}
	return nil, fmt.Errorf("type %v cannot be passed", t)
}

// knownDims checks the tensors in a sequence against the dimensions that are numbers. Symbols may differ between items.
func knownDims(d tensor.Datum, t ir.Type) error {
	x, ok := d.(*tensor.Tensor)
	tt, isTensor := t.(*ir.TensorType)
	if !ok || !isTensor {
		return nil
	}
	for i, dim := range tt.Shape {
		if want, ok := dim.Known(); ok && want != int64(x.Dim(i)) {
			return fmt.Errorf("dimension %d: expected %d, found %d: %s", i, want, x.Dim(i), x)
		}
	}
	return nil
}

// floatBits holds the exponent and mantissa bits of floats that widen into each other.
var floatBits = map[tensor.DType][2]int{
	tensor.Float8E4M3FN: {4, 3}, tensor.Float8E5M2: {5, 2}, tensor.Float16: {5, 10}, tensor.BFloat16: {8, 7},
	tensor.Float32: {8, 23}, tensor.Float64: {11, 52},
}

// itemSize is the size of an item's place in a sequence.
const itemSize = int(unsafe.Sizeof(tensor.Datum(nil)))

// convert returns x with element type want (float64 in place of float32 if sg is wide), if no number changes. It
// charges c.
func (sg *signature) convert(x *tensor.Tensor, want tensor.DType, c *charges) (*tensor.Tensor, error) {
	if sg.wide && want == tensor.Float32 {
		want = tensor.Float64
	}
	have := x.DType()
	if have == want {
		return x, nil
	}
	from, okFrom := floatBits[have]
	to, okTo := floatBits[want]
	widens := okFrom && okTo && from[0] <= to[0] && from[1] <= to[1]
	if widens || have.IsInt() && want.IsInt() { // in between they are float64, or int64 twice
		if err := c.take(bytesOf(x.Len(), 16) + int64(tensor.ByteSize(want, x.Len()))); err != nil {
			return nil, err
		}
	}
	if widens {
		return ops.Convert(&c.moves, x, want, false)
	}
	if have.IsInt() && want.IsInt() {
		if err := fits(&c.moves, x, want); err != nil {
			return nil, err
		}
		return ops.Convert(&c.moves, x, want, false)
	}
	return nil, fmt.Errorf("expected element type %v, found %v; convert it: Tensor.Convert(%s, false)", want, have,
		want.GoName())
}

// fits reports an error unless every integer in x is in want's range.
func fits(c *ir.EvalCtx, x *tensor.Tensor, want tensor.DType) error {
	if x.DType() == tensor.Uint64 { // the numbers that int64 lacks
		for i, v := range ops.All(c, tensor.Data[uint64](x)) {
			if v > math.MaxInt64 {
				return fmt.Errorf("expected element type %v, found uint64 with %d at element %d", want, v, i)
			}
		}
	}
	v, err := ops.Int64s(c, x)
	if err != nil {
		return err
	}
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
	switch bits := want.Bits(); {
	case want == tensor.Uint64:
		lo = 0
	case want == tensor.Uint32 || want == tensor.Uint16 || want == tensor.Uint8 || want == tensor.Uint4 ||
		want == tensor.Uint2:
		lo, hi = 0, int64(1)<<bits-1
	default:
		lo, hi = -(int64(1) << (bits - 1)), int64(1)<<(bits-1)-1
	}
	for i, n := range ops.All(c, v) {
		if n < lo || n > hi {
			return fmt.Errorf("expected element type %v, found %v with %d at element %d, beyond its range", want,
				x.DType(), n, i)
		}
	}
	return nil
}

// unknownName returns an error for the first name, in alphabetical order, that the model does not have.
func unknownName(given map[string]tensor.Datum, known map[string]int, output bool) error {
	names := slices.SortedFunc(maps.Keys(known), func(a, b string) int { return cmp.Compare(known[a], known[b]) })
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := known[name]; ok {
			continue
		}
		what := "input"
		if output {
			what = "output"
		}
		return &InputError{Name: name, Msg: lacking(what, name, names), output: output}
	}
	return nil
}

// appendKey appends the properties of inputs that a plan depends on: their presence and their shapes. Element types are
// the model's.
func appendKey(key []byte, in []tensor.Datum) []byte {
	for _, d := range in {
		switch d := d.(type) {
		case nil:
			key = append(key, 0)
		case *tensor.Tensor:
			key = append(key, 1)
			key = binary.AppendUvarint(key, uint64(d.Rank()))
			for _, n := range d.Shape() {
				key = binary.AppendUvarint(key, uint64(n))
			}
		default:
			key = append(key, 2)
		}
	}
	return key
}

// appendTypes appends the key, as appendKey does, of inputs with the types of a binding.
func appendTypes(key []byte, types []ir.Type) []byte {
	for _, t := range types {
		switch t := t.(type) {
		case nil:
			key = append(key, 0)
		case *ir.TensorType:
			key = append(key, 1)
			key = binary.AppendUvarint(key, uint64(len(t.Shape)))
			for _, d := range t.Shape {
				n, _ := d.Known() // the dimensions of a binding are known
				key = binary.AppendUvarint(key, uint64(n))
			}
		default:
			key = append(key, 2)
		}
	}
	return key
}

// zeros makes an input of zeros with the type in a binding. It charges c.
func zeros(t ir.Type, sg *signature, c *charges) (tensor.Datum, error) {
	switch t := t.(type) {
	case *ir.TensorType:
		shape, ok := t.Shape.Known()
		if !ok || t.NoRank {
			return nil, fmt.Errorf("its shape %v is not fixed", t)
		}
		n, err := tensor.Size(shape)
		if err != nil {
			return nil, err
		}
		if err := c.take(bytesOf(n, max(1, (sg.elem(t).Bits()+7)/8))); err != nil {
			return nil, err
		}
		return tensor.New(sg.elem(t), shape...), nil
	case *ir.SequenceType:
		return &tensor.Sequence{}, nil
	}
	return nil, nil
}

// outputShapes returns the outputs' shapes, as far as the symbols determine them.
func (sg *signature) outputShapes(steps *ir.EvalCtx, dims map[string]int64) [][]int {
	out := make([][]int, len(sg.outputs))
	for i, p := range sg.outputs {
		steps.Step(200)
		t, ok := p.Type.(*ir.TensorType)
		if !ok || t.NoRank {
			continue
		}
		shape := make([]int, len(t.Shape))
		for axis, d := range t.Shape {
			n, err := d.Eval(dims)
			if err != nil || n < 0 {
				shape = nil
				break
			}
			shape[axis] = tensor.Extent(n)
		}
		out[i] = shape
	}
	return out
}

// outputData puts the caller's tensors for results into the graph's order, and checks them.
func (sg *signature) outputData(given map[string]tensor.Datum, shapes [][]int, in, data []tensor.Datum,
	c *charges) (err error) {
	defer Ended(&err)
	found := 0
	for i := range sg.outputs {
		c.moves.Step(100)
		name := sg.outputs[i].Name
		d, ok := given[name]
		if ok {
			found++
		}
		d = unwrap(d)
		data[i] = nil
		if d == nil {
			continue
		}
		fail := func(format string, args ...any) error {
			return &InputError{Name: name, Msg: fmt.Sprintf(format, args...), output: true}
		}
		t, ok := d.(*tensor.Tensor)
		if !ok || sg.outputDType[i] == tensor.Invalid {
			return fail("only tensors can be given to write to")
		}
		if t.DType() != sg.outputDType[i] {
			return fail("expected a tensor of %v to write to, found %s", sg.outputDType[i], t)
		}
		if shapes[i] != nil && !slices.Equal(shapes[i], t.Shape()) {
			return fail("expected shape %s to write to, found %s", tensor.ShapeString(shapes[i]), t)
		}
		data[i] = t
	}
	if found < len(given) {
		return unknownName(given, sg.outputIndex, true)
	}
	return sg.apart(in, data, c)
}

// start is where the data of a tensor begins. The tensors of a call are numbered: the inputs, then the outputs.
type start struct {
	at     uintptr
	number int
}

// apart returns an error if a tensor to write to starts at the same byte as an input or another output. Callers must
// avoid other overlaps.
func (sg *signature) apart(in, out []tensor.Datum, c *charges) error {
	c.starts = c.starts[:0]
	add := func(d tensor.Datum, number int) {
		c.moves.Step(20)
		if t, ok := d.(*tensor.Tensor); ok && len(t.Bytes()) > 0 {
			c.starts = append(c.starts, start{uintptr(unsafe.Pointer(&t.Bytes()[0])), number})
		}
	}
	for i, d := range out {
		add(d, len(in)+i)
	}
	if len(c.starts) == 0 {
		return nil
	}
	for i, d := range in {
		add(d, i)
	}
	slices.SortFunc(c.starts, func(a, b start) int {
		c.moves.Step(10)
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.number, b.number))
	})
	var first start // the first tensor at a place
	bad, with := len(in)+len(out), 0
	for i, s := range c.starts {
		switch {
		case i == 0 || s.at != first.at:
			first = s
		case s.number >= len(in) && s.number < bad:
			bad, with = s.number, first.number
		}
	}
	if bad == len(in)+len(out) {
		return nil
	}
	e := &InputError{Name: sg.outputs[bad-len(in)].Name, output: true}
	if with < len(in) {
		e.Msg = fmt.Sprintf("is also input %q; the memory to write to must be its own", sg.inputs[with].Name)
	} else {
		e.Msg = fmt.Sprintf("is also output %q; each needs memory of its own", sg.outputs[with-len(in)].Name)
	}
	return e
}
