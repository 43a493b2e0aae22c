package std

import (
	"errors"
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// subgraphs is the NoGradient of operators with subgraphs.
const subgraphs = "has subgraphs, which are not differentiated yet"

var errNoCall = errors.New("this evaluation cannot run subgraphs")

func call(c *ir.EvalCtx, g *ir.Graph, in []tensor.Datum) ([]tensor.Datum, error) {
	if c.Call == nil {
		return nil, errNoCall
	}
	if c.Ctx != nil && c.Ctx.Err() != nil {
		return nil, c.Ctx.Err()
	}
	out, err := c.Call(g, in)
	if err == nil && len(out) != len(g.Outputs) {
		err = fmt.Errorf("graph %s: expected %d outputs, found %d", g.Name, len(g.Outputs), len(out))
	}
	return out, err
}

// unionType returns the type of a value that has type a or b.
func unionType(a, b ir.Type) (ir.Type, error) {
	switch x := a.(type) {
	case *ir.TensorType:
		if y, ok := b.(*ir.TensorType); ok {
			return ops.UnionShape(x, y)
		}
	case *ir.SequenceType:
		if y, ok := b.(*ir.SequenceType); ok {
			e, err := unionType(x.Elem, y.Elem)
			return &ir.SequenceType{Elem: e}, err
		}
	case *ir.OptionalType:
		if y, ok := b.(*ir.OptionalType); ok {
			e, err := unionType(x.Elem, y.Elem)
			return &ir.OptionalType{Elem: e}, err
		}
	}
	return nil, fmt.Errorf("types %v and %v differ", a, b)
}

// flag reads a bool scalar.
func flag(d tensor.Datum, what string) (bool, error) {
	t, ok := d.(*tensor.Tensor)
	if !ok || t == nil || t.DType() != tensor.Bool || t.Len() != 1 {
		return false, fmt.Errorf("%s: expected one bool, found %s", what, tensor.Describe(d))
	}
	return tensor.Data[bool](t)[0], nil
}

// If runs one of two subgraphs.
var If = ops.Register(&ir.Op{
	Name: "If", Since: 24, Doc: "The outputs of then_branch if cond is true, else of else_branch.",
	In: ops.Sig("cond:bool"), Out: []ir.Param{{Name: "outputs", Elem: "V", Variadic: true}}, Elems: elems("V", ops.Any),
	Attrs: []ir.AttrSpec{graphAttr("then_branch", "graph that runs if cond is true"),
		graphAttr("else_branch", "graph that runs otherwise")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		a, b := n.Attrs.Graph("then_branch"), n.Attrs.Graph("else_branch")
		if len(a.Inputs) != 0 || len(b.Inputs) != 0 || len(a.Outputs) != len(b.Outputs) {
			return nil, fmt.Errorf(
				"branches have %d and %d inputs, %d and %d outputs: expected no inputs, and as many outputs",
				len(a.Inputs), len(b.Inputs), len(a.Outputs), len(b.Outputs))
		}
		out := make([]ir.Type, len(a.Outputs))
		for i := range out {
			n.Step(4)
			var err error
			if out[i], err = unionType(a.Outputs[i].Type, b.Outputs[i].Type); err != nil {
				return nil, fmt.Errorf("output %d of the branches: %w", i, err)
			}
		}
		return out, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		cond, err := need(in, 0, "cond")
		if err != nil {
			return nil, err
		}
		branch := "else_branch"
		if yes, err := flag(cond, "cond"); err != nil {
			return nil, err
		} else if yes {
			branch = "then_branch"
		}
		return call(c, c.Node.Attrs.Graph(branch), nil)
	},
	NoGradient: subgraphs,
	Tol:        ir.Exact,
})

// Loop runs a subgraph repeatedly.
var Loop = ops.Register(&ir.Op{
	Name: "Loop", Since: 24,
	Doc: "Runs body(iteration, condition, carried…) → (condition, carried…, scan outputs…) at most M times, while " +
		"the condition is true. The outputs are the last carried values, and the scan outputs of all iterations, " +
		"stacked on a new first axis.",
	In: []ir.Param{{Name: "M", Elem: "int64", Optional: true}, {Name: "cond", Elem: "bool", Optional: true},
		{Name: "v_initial", Elem: "V", Variadic: true, Optional: true}},
	Out: []ir.Param{{Name: "v_final_and_scan_outputs", Elem: "V", Variadic: true}}, Elems: elems("V", ops.Any),
	Attrs: []ir.AttrSpec{graphAttr("body", "graph of an iteration")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		body := n.Attrs.Graph("body")
		carried, scans, err := loopCounts(n, body)
		if err != nil {
			return nil, err
		}
		out := make([]ir.Type, carried+scans)
		for i := range carried {
			n.Step(4)
			v := n.In(i + 2)
			if v == nil {
				return nil, fmt.Errorf("input %d (v_initial) is missing", i+2)
			}
			t := body.Outputs[i+1].Type
			if u, err := unionType(v.Type, t); err == nil {
				t = u
			} else if _, opt := v.Type.(*ir.OptionalType); !opt {
				return nil, fmt.Errorf("carried value %d: %w", i, err)
			}
			out[i] = t
		}
		for i := range scans {
			n.Step(4)
			t, ok := ir.AsTensor(body.Outputs[1+carried+i].Type)
			if !ok {
				return nil, fmt.Errorf("scan output %d is not a tensor", i)
			}
			if out[carried+i] = noRank(t.Elem); !t.NoRank {
				out[carried+i] = typed(t.Elem, append(ir.Shape{ir.Unknown}, t.Shape...))
			}
		}
		return out, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		body := c.Node.Attrs.Graph("body")
		carried, scans, err := loopCounts(c.Node, body)
		if err != nil {
			return nil, err
		}
		limit, more := int64(-1), true
		if ops.Tensor(in, 0) != nil {
			if limit, err = scalarInt(c, in, 0, "M"); err != nil {
				return nil, err
			}
			limit = max(limit, 0)
		}
		if ops.Tensor(in, 1) != nil {
			if more, err = flag(in[1], "cond"); err != nil {
				return nil, err
			}
		}
		var state []tensor.Datum
		if len(in) > 2 {
			state = append(state, in[2:]...)
		}
		if len(state) != carried {
			return nil, fmt.Errorf("expected %d carried values, found %d", carried, len(state))
		}
		stacks := newStacks(scans)
		for i := int64(0); more && i != limit; i++ {
			args := append([]tensor.Datum{tensor.Scalar(i), tensor.Scalar(true)}, state...)
			out, err := call(c, body, args)
			if err != nil {
				return nil, fmt.Errorf("iteration %d: %w", i, err)
			}
			if more, err = flag(out[0], "condition"); err != nil {
				return nil, fmt.Errorf("iteration %d: %w", i, err)
			}
			state = out[1 : 1+carried : 1+carried]
			if err := stacks.push(c, out[1+carried:]); err != nil {
				return nil, fmt.Errorf("iteration %d: %w", i, err)
			}
		}
		for i := range scans {
			t, err := stacks.join(c, i, 0, false, body.Outputs[1+carried+i].Type)
			if err != nil {
				return nil, err
			}
			state = append(state, t)
		}
		return state, nil
	},
	NoGradient: subgraphs,
	Tol:        ir.Exact,
})

func loopCounts(n *ir.Node, body *ir.Graph) (carried, scans int, err error) {
	carried = len(body.Inputs) - 2
	scans = len(body.Outputs) - 1 - carried
	if carried < 0 || scans < 0 || max(0, len(n.Inputs)-2) != carried {
		return 0, 0, fmt.Errorf("the body has %d inputs and %d outputs, the node %d inputs, which do not match",
			len(body.Inputs), len(body.Outputs), len(n.Inputs))
	}
	return carried, scans, nil
}

// stacks collects the scan outputs of a loop, within the limit on elements.
type stacks struct {
	parts [][]*tensor.Tensor
	elems int
}

func newStacks(outputs int) *stacks { return &stacks{parts: make([][]*tensor.Tensor, outputs)} }

func (s *stacks) push(c *ir.EvalCtx, out []tensor.Datum) error {
	for i, d := range out {
		t, ok := d.(*tensor.Tensor)
		if !ok || t == nil {
			return fmt.Errorf("scan output %d is not a tensor", i)
		}
		c.Charge(ops.ItemSize + ops.SizeIn(c, t)) // the subgraph has released it
		s.parts[i] = append(s.parts[i], t)
		if s.elems += t.Len(); s.elems > ops.MaxElems {
			return fmt.Errorf("scan outputs have more than %d elements", ops.MaxElems)
		}
	}
	return nil
}

// join stacks the parts of output i on a new axis. typ is the type of a part, for an output without parts.
func (s *stacks) join(c *ir.EvalCtx, i int, axis int64, reverse bool, typ ir.Type) (*tensor.Tensor, error) {
	parts := s.parts[i]
	if len(parts) > 0 {
		return stack(c, parts, axis, reverse)
	}
	t, ok := ir.AsTensor(typ)
	if !ok {
		return nil, fmt.Errorf("scan output %d is not a tensor", i)
	}
	shape := []int{}
	for _, d := range t.Shape {
		k, _ := d.Known()
		shape = append(shape, tensor.Extent(max(k, 0)))
	}
	a, err := ops.Axis(axis, len(shape)+1)
	if err != nil {
		return nil, err
	}
	return alloc(c, wide(c, t.Elem), append(shape[:a:a], append([]int{0}, shape[a:]...)...))
}

// stack joins tensors of one shape on a new axis.
func stack(c *ir.EvalCtx, parts []*tensor.Tensor, axis int64, reverse bool) (*tensor.Tensor, error) {
	c.Charge(ops.ItemSize * int64(len(parts)))
	rows := ops.Make[*tensor.Tensor](c, len(parts))
	for i, p := range parts {
		c.Step(200)
		a, err := ops.Axis(axis, p.Rank()+1)
		if err != nil {
			return nil, err
		}
		s := p.Shape()
		r, err := p.Reshape(append(s[:a:a], append([]int{1}, s[a:]...)...)...)
		if err != nil {
			return nil, err
		}
		if reverse {
			i = len(parts) - 1 - i
		}
		rows[i] = r
	}
	return concat(c, rows, axis)
}
