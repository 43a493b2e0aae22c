package raise

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// maxEval bounds the elements of one tensor that an evaluator computes. It holds the states × length of a layer's kernel
// before it is summed up.
const maxEval = 1 << 24

// errVaries says that a value depends on more than constants and shapes.
var errVaries = errors.New("it depends on an input")

// evaluator computes what depends on constants and, for given symbols, on shapes alone; in float64, as runtime/ref does on
// request: float32 constants and values are widened.
type evaluator struct {
	bind map[string]int64 // numbers for symbols; nil: shapes must be known as they are
	memo map[*ir.Value]tensor.Datum
	kept map[*ir.Value]tensor.Datum // what callers asked for
	errs map[*ir.Value]error
}

func newEvaluator(bind map[string]int64) *evaluator {
	return &evaluator{bind: bind, memo: map[*ir.Value]tensor.Datum{}, kept: map[*ir.Value]tensor.Datum{}, errs: map[*ir.Value]error{}}
}

// constant computes a value that depends on constants and known shapes alone. It gives float64 for float32.
func constant(v *ir.Value) (*tensor.Tensor, error) { return newEvaluator(nil).tensor(v) }

// constantFloats is constant for real numbers, with the shape; of nil there are none.
func constantFloats(v *ir.Value) ([]float64, []int, error) {
	if v == nil {
		return nil, nil, errors.New("it is not there")
	}
	t, err := constant(v)
	if err != nil {
		return nil, nil, err
	}
	x, err := t.Float64s()
	return x, t.Shape(), err
}

func (e *evaluator) tensor(v *ir.Value) (*tensor.Tensor, error) {
	d, err := e.value(v, 0)
	if err != nil {
		return nil, err
	}
	t, ok := d.(*tensor.Tensor)
	if !ok {
		return nil, fmt.Errorf("%s is no tensor", v.Name)
	}
	return t, nil
}

// maxDepth bounds the chain of nodes between a value and the constants that it comes from.
const maxDepth = 2000

func (e *evaluator) value(v *ir.Value, depth int) (tensor.Datum, error) {
	if d, ok := e.memo[v]; ok {
		return d, nil
	}
	if err, ok := e.errs[v]; ok {
		return nil, err
	}
	d, err := e.compute(v, depth)
	if err != nil {
		e.errs[v] = err
		return nil, err
	}
	e.memo[v] = d
	if depth == 0 { // what led here may be large, and is not asked for again
		e.kept[v] = d
		e.memo = maps.Clone(e.kept)
	}
	return d, nil
}

func (e *evaluator) compute(v *ir.Value, depth int) (tensor.Datum, error) {
	switch {
	case v.Const != nil:
		return widen(v.Const), nil
	case v.Def == nil:
		return nil, errVaries
	case depth > maxDepth:
		return nil, fmt.Errorf("more than %d nodes lie between %s and its constants", maxDepth, v.Name)
	}
	n := v.Def
	if n.Op.Random || len(n.Subgraphs()) > 0 {
		return nil, errVaries
	}
	if n.Op.Domain == "" && (n.Op.Name == "Shape" || n.Op.Name == "Size") {
		if t, ok := e.shape(n); ok {
			return t, nil
		}
	}
	in := make([]tensor.Datum, len(n.Inputs))
	for i, a := range n.Inputs {
		if a == nil {
			continue
		}
		d, err := e.value(a, depth+1)
		if err != nil {
			return nil, err
		}
		in[i] = d
	}
	out, err := e.node(n, in)
	if err != nil {
		return nil, err
	}
	for i, o := range n.Outputs {
		if o == v {
			return out[i], nil
		}
	}
	return nil, fmt.Errorf("%v gave no %s", n, v.Name)
}

// shape computes Shape and Size from types.
func (e *evaluator) shape(n *ir.Node) (*tensor.Tensor, bool) {
	s := n.In(0).Shape()
	if s == nil {
		return nil, false
	}
	dims := make([]int64, len(s))
	size := int64(1)
	for i, d := range s {
		k, err := d.Eval(e.bind)
		if err != nil {
			return nil, false
		}
		dims[i] = k
		size *= k
	}
	if n.Op.Name == "Size" {
		return tensor.Scalar(size), true
	}
	from, to := ops.ShapeRange(n.Attrs, len(s))
	return tensor.FromSlice(dims[from:to], to-from), true
}

// node evaluates one node, within the bound on elements, and turns a panic into an error.
func (e *evaluator) node(n *ir.Node, in []tensor.Datum) (out []tensor.Datum, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v: %v", n, r)
		}
	}()
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		if size, err := v.Shape().Size().Eval(e.bind); err == nil && size > maxEval {
			return nil, fmt.Errorf("%v has %d elements, more than are evaluated (%d)", n, size, maxEval)
		}
	}
	if n.Op.Eval == nil {
		return e.body(n, in)
	}
	out, err = n.Op.Eval(&ir.EvalCtx{Node: n, Ctx: context.Background(), Wide: true}, in)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	for i := range out {
		if t, ok := out[i].(*tensor.Tensor); ok {
			out[i] = widen(t)
		}
	}
	if len(out) < len(n.Outputs) {
		return nil, fmt.Errorf("%v gave %d results for %d outputs", n, len(out), len(n.Outputs))
	}
	return out, nil
}

// body evaluates a node by the body of its operator.
func (e *evaluator) body(n *ir.Node, in []tensor.Datum) ([]tensor.Datum, error) {
	b := ir.NewBuilder(n.Op.Name, ops.Default, ops.Opsets())
	inner := newEvaluator(e.bind)
	args := make([]*ir.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		if v.Const != nil { // a body may look at the constants that it is given
			args[i] = b.Const(v.Name, v.Const)
			continue
		}
		args[i] = b.Input(fmt.Sprintf("in%d", i), v.Type)
		inner.memo[args[i]], inner.kept[args[i]] = in[i], in[i]
	}
	outs := n.Op.Body(b, n, args)
	if err := b.Err(); err != nil {
		return nil, err
	}
	res := make([]tensor.Datum, len(outs))
	for i, v := range outs {
		if v == nil {
			continue
		}
		d, err := inner.value(v, 0)
		if err != nil {
			return nil, err
		}
		res[i] = d
	}
	return res, nil
}

// widen carries float32 as float64.
func widen(t *tensor.Tensor) *tensor.Tensor {
	if t.DType() != tensor.Float32 {
		return t
	}
	w, err := t.Convert(tensor.Float64, false)
	if err != nil {
		return t
	}
	return w
}
