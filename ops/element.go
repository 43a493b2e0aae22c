package ops

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
)

// Element gives the expression of an element of a node's first output; operand i is input i. The inputs that it reads
// broadcast to the output's shape. The result is false if the operator has no Element, or it does not apply: if the
// output, or an input that is read, is neither of a floating type nor bool (but a constant of one integer may be
// read), if an input is optional at run time, or if an input has more axes than the output.
func Element(n *ir.Node) (scalar.Expr, bool) {
	out := n.Out(0)
	if n.Op.Element == nil || out == nil || !elementary(out) {
		return scalar.Expr{}, false
	}
	for _, v := range n.Inputs {
		if n.Step(1); v == nil {
			continue
		}
		t, ok := v.Type.(*ir.TensorType)
		if o := out.Type.(*ir.TensorType); !ok || !t.NoRank && !o.NoRank && len(t.Shape) > len(o.Shape) {
			return scalar.Expr{}, false
		}
	}
	e := elementOf(n, len(n.Inputs), func(i int) bool { return n.In(i) != nil })
	if !e.Valid() {
		return e, false
	}
	for _, i := range e.Reads() {
		if v := n.In(i); !elementary(v) && !(v.Const != nil && v.Const.Len() == 1 && v.Elem().IsInt()) {
			return scalar.Expr{}, false
		}
	}
	return e, true
}

// elementary reports whether v's elements are floats or truth values.
func elementary(v *ir.Value) bool {
	t, ok := v.Type.(*ir.TensorType)
	return ok && (t.Elem.IsFloat() || t.Elem == tensor.Bool)
}

func elementOf(n *ir.Node, inputs int, there func(i int) bool) scalar.Expr {
	if inputs > MostFolded {
		return scalar.Expr{}
	}
	x := make([]scalar.Expr, max(inputs, len(n.Op.In)))
	for i := range inputs {
		if there(i) {
			x[i] = scalar.Input(i)
		}
	}
	return n.Op.Element(n, x)
}

// EvalElement evaluates an operator by its Element, in float64. The inputs may have any real element type, and
// broadcast to each other. The result is rounded once, to the output's element type in the signature. EvalElement is
// the Eval of operators that have no other. An Eval for several types may call it for floats.
func EvalElement(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	var few [4]elements // no allocation for most nodes
	args, shape, d, err := operands(c, in, few[:0])
	if err != nil {
		return nil, err
	}
	op := c.Node.Op
	key := keyOf(c.Node, args)
	if key.op == nil {
		if key.e = elementOf(c.Node, len(args), func(i int) bool { return args[i].t != nil }); !key.e.Valid() {
			return nil, fmt.Errorf("%s has no expression for these attributes and inputs", op.FullName())
		}
	}
	out := New(c, d, shape...)
	if err := evaluate(c, key, c.Node, args, out); err != nil {
		return nil, err
	}
	return []tensor.Datum{out}, nil
}

// operands checks the inputs of a node, and appends them to args. It returns the shape to which they broadcast, and the
// element type of the result.
func operands(c *ir.EvalCtx, in []tensor.Datum, args []elements) ([]elements, []int, tensor.DType, error) {
	op := c.Node.Op
	fail := func(err error) ([]elements, []int, tensor.DType, error) { return nil, nil, tensor.Invalid, err }
	args = slices.Grow(args, len(in))
	var types [mostDeclared]*tensor.Tensor // per declared input: the first one given
	for i := range max(len(in), required(op)) {
		p := param(op, i)
		t := Tensor(in, i)
		c.Step(1)
		if t == nil {
			if !p.Optional {
				return fail(fmt.Errorf("input %d (%s) is missing", i, p.Name))
			}
			args = append(args, elements{})
			continue
		}
		if isVar(p.Elem) {
			for j, o := range types {
				if o != nil && o.DType() != t.DType() && op.In[j].Elem == p.Elem {
					return fail(fmt.Errorf("element types %v and %v differ", o.DType(), t.DType()))
				}
			}
			if k := min(i, len(op.In)-1); types[k] == nil {
				types[k] = t
			}
		}
		args = append(args, elements{t: t, shape: t.Shape()})
	}
	shape, err := broadcastElements(args)
	if err != nil {
		return fail(err)
	}
	d, err := elementType(op, args)
	if err != nil {
		return fail(err)
	}
	if c.Wide && d == tensor.Float32 {
		d = tensor.Float64
	}
	return args, shape, d, nil
}

// broadcastElements gives the shape to which operands broadcast.
func broadcastElements(in []elements) ([]int, error) {
	var shape []int
	same, found := true, false
	for i := range in {
		if s := in[i].shape; in[i].there() {
			same = same && (!found || slices.Equal(s, shape))
			shape, found = s, true
		}
	}
	if same { // the common case, without an allocation
		_, err := Elems(shape)
		return shape, err
	}
	var shapes [][]int
	for i := range in {
		if in[i].there() {
			shapes = append(shapes, in[i].shape)
		}
	}
	return Broadcast(shapes...)
}

// param is the declaration of input i.
func param(op *ir.Op, i int) *ir.Param { return &op.In[min(i, len(op.In)-1)] }

// mostDeclared bounds the declared inputs of operators with Element. The last one may stand for any number.
const mostDeclared = 8

// byElement completes the record of an operator with Element.
func byElement(op *ir.Op) {
	if len(op.In) > mostDeclared {
		panic("ops.Register: " + op.FullName() + " has an Element and too many inputs")
	}
	if len(op.Out) != 1 {
		panic("ops.Register: " + op.FullName() + " has an Element and several outputs")
	}
	if op.Eval == nil {
		op.Eval = EvalElement
	}
	if op.Along == nil {
		op.Along = AlongElementwise
	}
	if op.Linear == nil {
		op.Linear = linearElement
	}
	shaped := func(p ir.Param) bool { return p.Dims != nil }
	if op.Infer == nil && !slices.ContainsFunc(op.In, shaped) && !shaped(op.Out[0]) {
		op.Infer = InferElement
	}
}

// InferElement infers the output of an operator with Element: the broadcast shape of all inputs, with the element type
// of the signature.
func InferElement(n *ir.Node) ([]ir.Type, error) {
	b, err := Bind(n)
	if err != nil {
		return nil, err
	}
	t := &ir.TensorType{Elem: b.Elem[n.Op.Out[0].Elem]}
	if elem := n.Op.Out[0].Elem; !isVar(elem) {
		if t.Elem, err = tensor.ParseDType(elem); err != nil {
			return nil, err
		}
	}
	shapes := make([]ir.Shape, 0, len(n.Inputs))
	for _, v := range n.Inputs {
		if n.Step(1); v == nil {
			continue
		}
		in, _ := ir.AsTensor(v.Type)
		if t.NoRank = in.NoRank; t.NoRank {
			return []ir.Type{t}, nil
		}
		shapes = append(shapes, in.Shape)
	}
	if t.Shape, err = broadcastShape(n, shapes); err != nil {
		return nil, err
	}
	return []ir.Type{t}, nil
}

// required is the number of the last input that is not optional, plus one.
func required(op *ir.Op) int {
	n := 0
	for i, p := range op.In {
		if !p.Optional {
			n = i + 1
		}
	}
	return n
}

// elementType is the element type of the output: fixed by the signature, or the type of the input with the same type
// variable.
func elementType(op *ir.Op, in []elements) (tensor.DType, error) {
	elem := op.Out[0].Elem
	if !isVar(elem) {
		return tensor.ParseDType(elem)
	}
	for i := range in {
		if in[i].t != nil && op.In[min(i, len(op.In)-1)].Elem == elem {
			return in[i].t.DType(), nil
		}
	}
	return tensor.Invalid, fmt.Errorf("no input determines type %s", elem)
}

// elements is an operand of an expression; the zero value is an absent one.
type elements struct {
	t     *tensor.Tensor
	shape []int
}

func (x *elements) there() bool { return x.t != nil }

// numbers gives the elements as float64.
func (x *elements) numbers(c *ir.EvalCtx) ([]float64, error) {
	if x.t.DType() == tensor.Float64 {
		return tensor.Data[float64](x.t), nil
	}
	return Float64s(c, x.t)
}

// evaluate computes out, to whose shape all operands broadcast. n is needed if the key has no expression.
func evaluate(c *ir.EvalCtx, key elementKey, n *ir.Node, in []elements, out *tensor.Tensor) error {
	size := out.Len()
	if size == 0 {
		return nil
	}
	small, single := 0, true
	for i := range min(len(in), maxKeyed) {
		if in[i].there() && in[i].t.Len() < size {
			key.small |= 1 << i
			small++
			single = single && in[i].t.Len() == 1
		}
	}
	if small > 1 && !single {
		fewer := make([]elements, 0, small)
		for i := range min(len(in), maxKeyed) {
			if key.small>>i&1 == 1 {
				fewer = append(fewer, in[i])
			}
		}
		s, err := broadcastElements(fewer)
		if err != nil {
			return err
		}
		if k, _ := tensor.Size(s); k == size { // an outer product: nothing is computed less often
			key.small = 0
		}
	}
	p := programFor(key, n, len(in))
	if p == nil {
		return fmt.Errorf("%s has no expression for these inputs", n.Op.FullName())
	}
	if len(p.hoisted) > 0 {
		var err error
		if in, err = hoist(c, p, in); err != nil {
			return err
		}
	}
	m := p.machines.Get().(*elementMachine)
	defer m.release(p)
	return m.compute(c, in, out, size)
}

// hoist computes the hoisted subexpressions, and appends them to the operands.
func hoist(c *ir.EvalCtx, p *elementProgram, in []elements) ([]elements, error) {
	given := slices.Clone(in[:p.inputs])
	for _, h := range p.hoisted {
		reads := make([]elements, len(in))
		for _, i := range h.Reads() {
			reads[i] = in[i]
		}
		shape, err := broadcastElements(reads)
		if err != nil {
			return nil, err
		}
		t := New(c, tensor.Float64, shape...)
		if err := evaluate(c, elementKey{e: h}, nil, reads, t); err != nil {
			return nil, err
		}
		given = append(given, elements{t, t.Shape()})
	}
	return given, nil
}

// compute evaluates n elements block by block, so that operands of that size are not converted to float64 as a whole.
func (m *elementMachine) compute(c *ir.EvalCtx, in []elements, out *tensor.Tensor, n int) error {
	for i := range m.p.Code {
		op := &m.p.Code[i]
		if op.Op != scalar.OpInput {
			continue
		}
		x := &in[op.Index]
		size := x.t.Len()
		f := feed{operand: op.Index, t: x.t}
		if size == 1 {
			if err := f.fill(m, 0, 1); err != nil {
				return err
			}
			continue
		}
		if size != n || x.t.DType() == tensor.Float64 {
			v, err := x.numbers(c)
			if err != nil {
				return err
			}
			f.v = v
			if size != n {
				f.repeat = newRepeater(v, x.shape, out.Shape())
			}
		}
		m.feeds = append(m.feeds, f)
	}
	work := len(m.p.Code) + 1
	for lo := 0; lo < n; lo += scalar.BlockSize {
		hi := min(lo+scalar.BlockSize, n)
		c.Step((hi - lo) * work)
		for i := range m.feeds {
			if err := m.feeds[i].fill(m, lo, hi); err != nil {
				return err
			}
		}
		if out.DType() == tensor.Float64 {
			m.out[0] = tensor.Data[float64](out)[lo:hi]
			m.Run(hi-lo, m.out[:], m.in)
			continue
		}
		m.out[0] = m.result[:hi-lo]
		m.Run(hi-lo, m.out[:], m.in)
		if err := out.WriteFloat64s(lo, m.out[0]); err != nil {
			return err
		}
	}
	return nil
}

// feed gives a machine the block of an operand: a part of v, the next elements of repeat, or a part of t, converted.
type feed struct {
	operand int
	t       *tensor.Tensor
	v       []float64
	repeat  *repeater
}

func (f *feed) fill(m *elementMachine, lo, hi int) error {
	if f.v != nil && f.repeat == nil {
		m.in[f.operand] = f.v[lo:hi]
		return nil
	}
	if m.room[f.operand] == nil {
		m.room[f.operand] = make([]float64, scalar.BlockSize)
	}
	b := m.room[f.operand][:hi-lo]
	m.in[f.operand] = b
	if f.repeat != nil {
		f.repeat.next(b)
		return nil
	}
	return f.t.ReadFloat64s(b, lo)
}

// repeater goes through an operand in the order of a result to whose shape it broadcasts.
type repeater struct {
	v              []float64
	shape, strides []int // of the result, with axes joined where possible
	index          []int
	at             int
}

func newRepeater(v []float64, shape, out []int) *repeater {
	strides := BroadcastStrides(shape, out)
	r := &repeater{v: v}
	for i, d := range out {
		if k := len(r.shape) - 1; d == 1 {
			continue
		} else if k >= 0 && r.strides[k] == d*strides[i] {
			r.shape[k], r.strides[k] = r.shape[k]*d, strides[i]
		} else {
			r.shape, r.strides = append(r.shape, d), append(r.strides, strides[i])
		}
	}
	r.index = make([]int, len(r.shape))
	return r
}

// next fills dst with the next elements.
func (r *repeater) next(dst []float64) {
	last := len(r.shape) - 1
	for len(dst) > 0 {
		n := min(len(dst), r.shape[last]-r.index[last])
		if step := r.strides[last]; step == 1 {
			copy(dst[:n], r.v[r.at:r.at+n])
		} else {
			v := r.v[r.at] // the step is 0: axes of one element are left out
			for i := range dst[:n] {
				dst[i] = v
			}
		}
		dst = dst[n:]
		r.index[last] += n
		r.at += n * r.strides[last]
		for i := last; i >= 0 && r.index[i] == r.shape[i]; i-- {
			r.at -= r.shape[i] * r.strides[i]
			r.index[i] = 0
			if i > 0 {
				r.index[i-1]++
				r.at += r.strides[i-1]
			}
		}
	}
}

// elementKey identifies a program: an expression, or the operator, attributes and set of present inputs that
// determine it, and the set of inputs that are smaller than the result.
type elementKey struct {
	e            scalar.Expr
	op           *ir.Op
	attrs        [3]uint64
	there, small uint64
}

// maxKeyed is the number of inputs that the sets of a key can hold.
const maxKeyed = 64

// keyOf is the key of a node. It is empty unless the operator's attributes are a few numbers with defaults.
func keyOf(n *ir.Node, in []elements) (k elementKey) {
	if len(n.Op.Attrs) > len(k.attrs) || len(in) > maxKeyed {
		return elementKey{}
	}
	for i := range n.Op.Attrs {
		switch a := &n.Op.Attrs[i]; def := a.Default.(type) {
		case float64:
			k.attrs[i] = math.Float64bits(n.Attrs.Float(a.Name, def))
		case int64:
			k.attrs[i] = uint64(n.Attrs.Int(a.Name, def))
		default:
			return elementKey{}
		}
	}
	k.op = n.Op
	for i := range in {
		if in[i].there() {
			k.there |= 1 << i
		}
	}
	return k
}

// elementProgram is a compiled expression. Its operands are the inputs that the expression reads, and the hoisted
// ones.
type elementProgram struct {
	inputs   int
	hoisted  []scalar.Expr
	machines sync.Pool
}

// elementMachine is a machine with a block of each operand.
type elementMachine struct {
	*scalar.Machine
	p        *scalar.Program
	feeds    []feed
	in, room [][]float64
	out      [1][]float64
	result   []float64
}

func (m *elementMachine) release(p *elementProgram) {
	clear(m.in)
	clear(m.feeds)
	m.out[0], m.feeds = nil, m.feeds[:0]
	p.machines.Put(m)
}

// maxPrograms is the maximum size of the cache, needed because attributes, which can have any values, are part of
// keys.
const maxPrograms = 512

var programs = struct {
	sync.RWMutex
	of map[elementKey]*elementProgram
}{of: map[elementKey]*elementProgram{}}

// programFor finds or makes the program of a key, or returns nil if the node has no expression. n has the given
// number of inputs.
func programFor(key elementKey, n *ir.Node, inputs int) *elementProgram {
	programs.RLock()
	p := programs.of[key]
	programs.RUnlock()
	if p != nil {
		return p
	}
	e := key.e
	if key.op != nil {
		if e = elementOf(n, inputs, func(i int) bool { return key.there>>i&1 == 1 }); !e.Valid() {
			return nil
		}
	}
	e = scalar.Simplify(scalar.Expand(e, nil))
	p = &elementProgram{}
	for _, i := range e.Reads() {
		p.inputs = i + 1
	}
	if key.small != 0 {
		e, p.hoisted = scalar.Hoist(e, p.inputs, func(reads []int) bool {
			return len(reads) > 0 && !slices.ContainsFunc(reads,
				func(i int) bool { return i >= maxKeyed || key.small>>i&1 == 0 })
		})
	}
	code := scalar.Linearize(nil, e)
	p.machines.New = func() any {
		return &elementMachine{Machine: scalar.NewMachine(code, scalar.BlockSize), p: code,
			in: make([][]float64, code.Inputs), room: make([][]float64, code.Inputs),
			result: make([]float64, scalar.BlockSize)}
	}
	programs.Lock()
	defer programs.Unlock()
	if len(programs.of) >= maxPrograms {
		clear(programs.of)
	}
	programs.of[key] = p
	return p
}
