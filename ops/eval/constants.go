package eval

import (
	"context"
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// ErrVaries means that a value depends on more than constants and shapes.
var ErrVaries = errors.New("it depends on an input")

// MaxDepth bounds the chain of nodes between a value and the constants that it comes from.
const MaxDepth = 2000

// perNode is the work of evaluating a node besides its operator's, in operations.
const perNode = 1 << 10

// Constants computes values of a graph that follow from constants and, for given symbols, from shapes only. Its
// fields are set before the first use.
type Constants struct {
	Wide  bool             // float32 is carried as float64
	Bind  map[string]int64 // numbers for symbols; nil: shapes must be known as they are
	Limit int64            // of the elements of one computed tensor; 0: none
	// Budget bounds all evaluations, in bytes and in operations; nil: no bound. Values that are kept are charged to it
	// for good.
	Budget *ir.Budget
	// Ctx ends evaluations when it is done; nil: never.
	Ctx context.Context

	kept map[*ir.Value]tensor.Datum // values that callers asked for
	memo map[*ir.Value]tensor.Datum // others
	errs map[*ir.Value]error
	held int64 // bytes of memo that are charged
}

// Tensor computes a value that is a tensor.
func (c *Constants) Tensor(v *ir.Value) (*tensor.Tensor, error) {
	d, err := c.Value(v)
	if err != nil {
		return nil, err
	}
	t, ok := d.(*tensor.Tensor)
	if !ok {
		return nil, fmt.Errorf("%s is not a tensor", v.Name)
	}
	return t, nil
}

// Value computes a value. The error is ErrVaries if it depends on an input.
func (c *Constants) Value(v *ir.Value) (tensor.Datum, error) {
	if d, ok := c.kept[v]; ok {
		return d, nil
	}
	d, err := c.value(v, 0)
	if err == nil { // values that led here may be large, and are not asked for again
		c.kept = put(c.kept, v, d)
		clear(c.memo)
		c.Budget.Release(c.held)
		c.held = 0
		if v.Const == nil {
			c.Budget.Hold(ops.SizeOf(d))
		}
	}
	return d, err
}

// Known returns a value that has been computed or set.
func (c *Constants) Known(v *ir.Value) (tensor.Datum, bool) {
	d, ok := c.kept[v]
	if !ok {
		d, ok = c.memo[v]
	}
	return d, ok
}

// Set states a value. It lasts until Value computes another one.
func (c *Constants) Set(v *ir.Value, d tensor.Datum) { c.memo = put(c.memo, v, d) }

func put[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[k] = v
	return m
}

func (c *Constants) value(v *ir.Value, depth int) (tensor.Datum, error) {
	if d, ok := c.Known(v); ok {
		return d, nil
	}
	if err, ok := c.errs[v]; ok {
		return nil, err
	}
	d, err := c.compute(v, depth)
	if err != nil {
		c.errs = put(c.errs, v, err)
		return nil, err
	}
	c.Set(v, d)
	return d, nil
}

func (c *Constants) compute(v *ir.Value, depth int) (tensor.Datum, error) {
	switch {
	case v.Const != nil:
		return c.carried(v.Const), nil
	case v.Def == nil:
		return nil, ErrVaries
	case depth > MaxDepth:
		return nil, fmt.Errorf("more than %d nodes are between %s and its constants", MaxDepth, v.Name)
	}
	n := v.Def
	if n.Op.Random || len(n.Subgraphs()) > 0 {
		return nil, ErrVaries
	}
	if t, ok := c.Shape(n); ok {
		return t, nil
	}
	in := make([]tensor.Datum, len(n.Inputs))
	for i, a := range n.Inputs {
		if a == nil {
			continue
		}
		d, err := c.value(a, depth+1)
		if err != nil {
			return nil, err
		}
		in[i] = d
	}
	out, err := c.Node(n, in)
	if err != nil {
		return nil, err
	}
	for i, o := range n.Outputs {
		if o == v {
			if c.Budget != nil {
				size := ops.SizeOf(out[i])
				if err := c.Budget.Take(size); err != nil {
					return nil, fmt.Errorf("%v: %w", n, err)
				}
				c.held += size
			}
			return out[i], nil
		}
	}
	return nil, fmt.Errorf("%v computed no %s", n, v.Name)
}

func (c *Constants) carried(t *tensor.Tensor) tensor.Datum {
	if c.Wide {
		return Widen(t)
	}
	return t
}

// Shape computes a Shape or Size from the type of its input; ok is false for other nodes, and where a dimension is
// unknown.
func (c *Constants) Shape(n *ir.Node) (t *tensor.Tensor, ok bool) {
	if n.Op.Domain != "" || n.Op.Name != "Shape" && n.Op.Name != "Size" {
		return nil, false
	}
	s := n.In(0).Shape()
	if s == nil {
		return nil, false
	}
	dims := make([]int64, len(s))
	size := int64(1)
	for i, d := range s {
		k, err := d.Eval(c.Bind)
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

// Node evaluates a node without subgraphs, within the limit.
func (c *Constants) Node(n *ir.Node, in []tensor.Datum) ([]tensor.Datum, error) {
	for _, v := range n.Outputs {
		if v == nil || c.Limit == 0 {
			continue
		}
		if v.Elem() == tensor.String {
			return nil, fmt.Errorf("%v returns strings, whose size is not limited", n)
		}
		if size, err := v.Shape().Size().Eval(c.Bind); err == nil && size > c.Limit {
			return nil, fmt.Errorf("%v has %d elements, more than are evaluated (%d)", n, size, c.Limit)
		}
	}
	if err := c.Budget.Spend(perNode); err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	ctx := c.Ctx
	if ctx == nil {
		ctx = context.Background()
	} else if err := ctx.Err(); err != nil {
		return nil, err
	}
	out, err := Options{Wide: c.Wide, Bounded: c.Budget != nil}.Node(ctx, n, in, c.Budget)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	return out, nil
}
