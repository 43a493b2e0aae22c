package lowering

import (
	"context"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// maxKnown is the maximum number of elements of a value that Bind computes, such as sizes, indices, and states that
// an exporter fills with zeros.
const maxKnown = 1 << 14

// resolve infers the types of all values from the shapes of the inputs, step by step, and computes values that
// depend only on shapes, such as results of Shape, arithmetic on sizes and ConstantOfShape. Steps whose outputs are
// all known become dead.
func (d *Binding) resolve() {
	for _, s := range d.Program.Steps {
		d.Steps().Step(50 + 4*(len(s.In)+len(s.Out)))
		if s.branches != nil {
			d.resolveIf(s)
			continue
		}
		if s.body != nil {
			d.resolveBody(s)
			continue
		}
		if d.resolveSequence(s) {
			continue
		}
		known, constant := true, s.Node.Op.Eval != nil && !s.Node.Op.Random && len(s.Captures) == 0 &&
			len(s.Node.Subgraphs()) == 0
		d.Steps().Step(4 * (len(s.In) + len(s.Out)))
		for _, v := range s.Out {
			known = known && (v == nil || d.Shape(v) != nil)
		}
		for _, v := range s.In {
			constant = constant && (v == nil || d.Constant(v) != nil)
		}
		if d.sizes(s) || known && !constant && d.checks == checkDoubtful && d.Program.trial.certain(s) {
			continue
		}
		n, whole := d.concrete(s.Node, s.Args(), d.scratch())
		fits := whole && d.infer(s, n, known)
		if d.checks == noteDistinct {
			d.Program.trial.note(s, fits)
		}
		if fits && constant {
			d.compute(s, n)
		}
	}
	for _, b := range d.Program.bodies {
		if d.checks == checkDoubtful && b.fits.certain() {
			continue
		}
		n, whole := d.concrete(b.node, b.in, d.scratch())
		if n == nil {
			if d.checks == noteDistinct {
				b.fits.note(false)
			}
			continue
		}
		_, err := inferKnown(n)
		if d.checks == noteDistinct {
			b.fits.note(whole && err == nil)
		}
		if err != nil {
			d.room = nil
			d.refuseNode(b.node, b.source, b.in, err)
		}
	}
}

// tryDistinct binds the program with sizes that differ from each other and from those that models state, and notes the
// nodes that take them. If the context ends, the rest of the nodes are asked in each binding.
func (p *Program) tryDistinct(ctx context.Context) {
	b := runtime.Binding{Dims: map[string]int64{}}
	m := newMemory(nil, &p.Config)
	m.steps.Ctx = ctx
	for _, v := range p.Graph.Inputs {
		for _, d := range v.Shape() {
			for _, s := range d.Symbols() {
				m.steps.Step(200)
				if _, ok := b.Dims[s]; !ok {
					b.Dims[s] = distinctSizes[len(b.Dims)%len(distinctSizes)]
				}
			}
		}
	}
	b.Inputs = make([]ir.Type, len(p.Inputs))
	for i, v := range p.Inputs {
		m.steps.Step(10)
		b.Inputs[i] = v.Type
	}
	p.bind(b, nil, m, ir.NewBudget(1<<20, 1<<22), noteDistinct)
}

// distinctSizes are primes. The product of several of them is still a size of a tensor.
var distinctSizes = []int64{1009, 10007, 3001, 4003, 1511, 2503, 5003, 6007}

// refuseNode records that a node cannot be computed from args. If all are tensors, as the operator requires, runs
// need not try. The first error is kept.
func (d *Binding) refuseNode(n, source *ir.Node, args []*Value, err error) {
	d.refused = true
	for _, v := range args {
		if v == nil {
			continue
		}
		if _, ok := v.Type.(*ir.TensorType); !ok {
			return
		}
	}
	if control := n.Op.Domain == "" && len(n.Subgraphs()) > 0; d.refusal == nil && !control {
		d.refusal = &runtime.NodeError{Node: source, Err: err}
	}
}

// Refusal returns the error with which every run of the binding fails, since an operator does not take the types that are
// bound; nil if there is none.
func (d *Binding) Refusal() error { return d.refusal }

// Constant returns the content of a value that is a constant of the graph or follows from the shapes; nil for other
// values.
func (d *Binding) Constant(v *Value) *tensor.Tensor {
	switch {
	case v == nil:
		return nil
	case v.Const != nil:
		return v.Const
	}
	return d.Known(v)
}

// Fixed returns the tensor of a value that is constant, settled, or follows from the shapes; nil for other values. The
// content of a settled one changes between runs.
func (d *Binding) Fixed(v *Value) *tensor.Tensor {
	if v != nil && v.Settled != nil {
		return v.Settled
	}
	return d.Constant(v)
}

// Concrete returns a copy of the step's node whose inputs have the bound types, or nil if one is not known.
func (d *Binding) Concrete(s *Step) *ir.Node {
	if n, whole := d.concrete(s.Node, s.Args(), &room{}); whole {
		return n
	}
	return nil
}

// room has memory for a copy of a node, and for the types of its inputs.
type room struct {
	node   ir.Node
	inputs []*ir.Value
	values blocks[ir.Value]
	types  blocks[ir.TensorType]
	dims   ir.Shape
}

// blocks has memory for elements, in blocks, since clearing much at once takes milliseconds.
type blocks[T any] struct {
	all  [][]T
	used int
}

const blockSize = 1 << 9

// reset makes all elements free, and prepares for n of them.
func (b *blocks[T]) reset(n int) {
	if b.used = 0; len(b.all) == 0 || len(b.all[0]) < min(n, blockSize) {
		b.all = [][]T{make([]T, min(n, blockSize))}
	}
}

// next returns a zero element.
func (b *blocks[T]) next() *T {
	k := b.used / blockSize
	if k == len(b.all) {
		b.all = append(b.all, make([]T, blockSize))
	}
	x := &b.all[k][b.used%blockSize]
	b.used++
	var zero T
	*x = zero
	return x
}

// scratch returns memory for a node that is used until the next call.
func (d *Binding) scratch() *room {
	if d.room == nil {
		d.room = &room{}
	}
	return d.room
}

// cleared returns n zero elements, in s if it is large enough.
func cleared[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// concrete returns a copy of a node whose inputs have the types of args, and whether all of them are bound. Unbound
// tensors have their declared types; with other unbound inputs there is no copy. The copy is in r.
func (d *Binding) concrete(node *ir.Node, args []*Value, r *room) (c *ir.Node, whole bool) {
	axes, known, open := 0, false, false
	for _, v := range args {
		d.Steps().Step(10)
		switch {
		case v == nil:
		case d.Shape(v) != nil:
			axes += len(d.Shape(v))
			known = true
		default: // also an absent optional, which may be a sequence
			if _, ok := v.Type.(*ir.TensorType); !ok {
				return nil, false
			}
			open = true
		}
	}
	if open && !known {
		return nil, false
	}
	r.node = *node
	r.node.SetPace(d.memory.pace)
	r.inputs = cleared(r.inputs, len(args))
	r.values.reset(len(args))
	r.types.reset(len(args))
	many := axes > 8*blockSize // then each shape has memory of its own
	if many {
		axes = 0
	}
	r.dims = cleared(r.dims, axes)[:0]
	for i, v := range args {
		d.Steps().Step(50)
		if v == nil {
			continue
		}
		x := r.values.next()
		r.inputs[i] = x
		if d.Shape(v) == nil {
			*x = ir.Value{Name: v.Name, Type: v.Type}
			continue
		}
		var dims ir.Shape
		if many {
			dims = make(ir.Shape, 0, len(d.Shape(v)))
		} else {
			dims = r.dims[len(r.dims):len(r.dims)]
		}
		for _, k := range d.Shape(v) {
			dims = append(dims, ir.Const(int64(k)))
		}
		if !many {
			r.dims = r.dims[:len(r.dims)+len(dims)]
		}
		t := r.types.next()
		*t = ir.TensorType{Elem: d.DType(v), Shape: slices.Clip(dims)}
		*x = ir.Value{Name: v.Name, Type: t, Const: d.Constant(v)}
	}
	r.node.Inputs = r.inputs
	return &r.node, !open
}

// shapeOf returns a tensor's shape, never nil.
func shapeOf(t *tensor.Tensor) []int {
	if s := t.Shape(); s != nil {
		return s
	}
	return []int{}
}

// TypeOf returns the type of a tensor with the given shape.
func TypeOf(dtype tensor.DType, shape []int) *ir.TensorType {
	t := &ir.TensorType{Elem: dtype, Shape: make(ir.Shape, len(shape))}
	for i, k := range shape {
		t.Shape[i] = ir.Const(int64(k))
	}
	return t
}

// infer sets the shapes of a step's outputs unless they are known, and reports whether all are. If its operator
// refuses the types, every run fails.
func (d *Binding) infer(s *Step, n *ir.Node, known bool) bool {
	types, err := inferKnown(n)
	if err != nil {
		d.room = nil // the error may refer to the node
		d.refuseNode(s.Node, s.Source, s.Args(), err)
		return false
	}
	if known {
		return true
	}
	done := true
	for i, v := range s.Out {
		d.Steps().Step(50)
		if v == nil || d.Shape(v) != nil {
			continue
		}
		if i >= len(types) || !d.setType(v, types[i]) {
			done = false
		}
	}
	return done
}

func inferKnown(n *ir.Node) (types []ir.Type, err error) {
	defer func() {
		if v := recover(); v != nil {
			ir.PassOn(v)
			err = runtime.Recovered(n, v)
		}
	}()
	return n.Op.Infer(n)
}

// Fits reports whether the bound types of a step's outputs follow from those of its inputs. They may not, since a
// graph may declare any type; one of its steps then fails in the run. A backend that does not check all shapes
// itself must evaluate such a step.
func (d *Binding) Fits(s *Step) bool {
	n := d.Concrete(s)
	if n == nil {
		return false
	}
	types, err := inferKnown(n)
	if err != nil {
		return false
	}
	for i, v := range s.Out {
		if v == nil {
			continue
		}
		if i >= len(types) || d.Shape(v) == nil || !ir.EqualTypes(types[i], TypeOf(d.DType(v), d.Shape(v))) {
			return false
		}
	}
	return true
}

// setType sets the type of v. It returns false if the shape is not known, or the type is not the declared one.
func (d *Binding) setType(v *Value, t ir.Type) bool {
	tt, ok := t.(*ir.TensorType)
	if !ok || tt == nil || tt.NoRank {
		return false
	}
	declared, ok := v.Type.(*ir.TensorType)
	if !ok || declared.Elem != tt.Elem {
		return false
	}
	shape, ok := tt.Shape.Known()
	if !ok {
		return false
	}
	if _, err := tensor.Size(shape); err != nil {
		return false
	}
	d.set(v, tt.Elem, shape)
	return true
}

// sizes computes the operators Shape and Size, which read no content. It returns false for other steps.
func (d *Binding) sizes(s *Step) bool {
	if s.Node.Op.Domain != "" || len(s.In) != 1 || s.In[0] == nil || d.Shape(s.In[0]) == nil || s.Out[0] == nil {
		return false
	}
	shape := d.Shape(s.In[0])
	var t *tensor.Tensor
	switch s.Node.Op.Name {
	case "Shape":
		from, to := ops.ShapeRange(s.Node.Attrs, len(shape))
		t = tensor.New(tensor.Int64, max(0, to-from))
		for i := range tensor.Data[int64](t) {
			tensor.Data[int64](t)[i] = int64(shape[from+i])
		}
	case "Size":
		n, _ := tensor.Size(shape)
		t = tensor.Scalar(int64(n))
	default:
		return false
	}
	d.setConstant(s.Out[0], t)
	d.dead[s] = true
	return true
}

func (d *Binding) setConstant(v *Value, t *tensor.Tensor) {
	d.set(v, t.DType(), shapeOf(t))
	d.values[v.ID].content = t
}

// compute evaluates a step whose inputs are all known, and marks it dead. A step that exceeds the budget for such values
// is left to the run.
func (d *Binding) compute(s *Step, n *ir.Node) {
	total := 0
	for _, v := range s.Out {
		if v != nil {
			k, _ := tensor.Size(d.Shape(v))
			total += k
		}
	}
	if total > maxKnown {
		return
	}
	in := make([]tensor.Datum, len(s.Args()))
	for i, v := range s.Args() {
		if t := d.Constant(v); t != nil {
			in[i] = t
		}
	}
	res, err := d.evaluate(n, in)
	if err != nil || len(res) < len(s.Out) {
		return
	}
	for i, v := range s.Out {
		d.Steps().Step(20)
		if v == nil {
			continue
		}
		t, ok := res[i].(*tensor.Tensor)
		if !ok || t == nil || t.DType() != d.DType(v) || !slices.Equal(t.Shape(), d.Shape(v)) {
			return
		}
	}
	for i, v := range s.Out {
		d.Steps().Step(50)
		if v != nil {
			d.setConstant(v, res[i].(*tensor.Tensor))
		}
	}
	d.dead[s] = true
}

// Ints returns the elements of input i, if it is known and of type int64 or int32.
func (d *Binding) Ints(s *Step, i int) ([]int64, bool) {
	if s.Absent(i) {
		return nil, false
	}
	t := d.Constant(s.In[i])
	if t == nil {
		return nil, false
	}
	switch t.DType() {
	case tensor.Int64:
		return tensor.Data[int64](t), true
	case tensor.Int32:
		v := make([]int64, t.Len())
		for i, x := range tensor.Data[int32](t) {
			v[i] = int64(x)
		}
		return v, true
	}
	return nil, false
}

// ShapeOf returns the shape of input i, or nil if it is absent or not known.
func (d *Binding) ShapeOf(s *Step, i int) []int {
	if s.Absent(i) {
		return nil
	}
	return d.Shape(s.In[i])
}

// Typed reports whether input i is present, of known shape, and of the element type.
func (d *Binding) Typed(s *Step, i int, dtype tensor.DType) bool {
	return !s.Absent(i) && d.Shape(s.In[i]) != nil && d.DType(s.In[i]) == dtype
}

// Gives reports whether output i is present, of known shape, and of the element type.
func (d *Binding) Gives(s *Step, i int, dtype tensor.DType) bool {
	return s.Gives(i) && d.Shape(s.Out[i]) != nil && d.DType(s.Out[i]) == dtype
}
