package std

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

var anySequence = elems("S", ops.Any)

// sequenceIn returns the type of an input that must be a sequence.
func sequenceIn(n *ir.Node, i int) (*ir.SequenceType, error) {
	t := n.In(i).Type
	if o, ok := t.(*ir.OptionalType); ok {
		t = o.Elem
	}
	s, ok := t.(*ir.SequenceType)
	if !ok {
		return nil, fmt.Errorf("input %d (%s): expected a sequence, found %v", i, n.In(i).Name, t)
	}
	return s, nil
}

// sequence reads an input that must be a sequence.
func sequence(in []tensor.Datum, i int) (*tensor.Sequence, error) {
	if i < len(in) {
		if s, ok := in[i].(*tensor.Sequence); ok && s != nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("input %d is not a sequence", i)
}

// place reads an optional position among n items. It returns last if the position is absent.
func place(c *ir.EvalCtx, in []tensor.Datum, i, n, last int) (int, error) {
	if ops.Tensor(in, i) == nil {
		return last, nil
	}
	p, err := scalarInt(c, in, i, "position")
	if err != nil {
		return 0, err
	}
	if p < 0 {
		p += int64(n)
	}
	if p < 0 || p > int64(last) {
		return 0, fmt.Errorf("position %d in a sequence of %d", p, n)
	}
	return int(p), nil
}

// SequenceEmpty returns an empty sequence.
var SequenceEmpty = ops.Register(&ir.Op{
	Name: "SequenceEmpty", Since: 11, Doc: "An empty sequence of tensors of element type dtype.",
	Out: ops.Sig("output:S"), Elems: anySequence,
	Attrs: []ir.AttrSpec{intAttr("dtype", int(tensor.Float32), "element type, by ONNX's number")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		d := getInt(n, "dtype")
		if d < 1 || d > 255 || !tensor.DType(d).Valid() {
			return nil, fmt.Errorf("attribute dtype: %d is not an element type", d)
		}
		return one(&ir.SequenceType{Elem: noRank(tensor.DType(d))})
	},
	Eval: func(*ir.EvalCtx, []tensor.Datum) ([]tensor.Datum, error) {
		return []tensor.Datum{&tensor.Sequence{}}, nil
	},
	Tol: ir.Exact,
})

// SequenceConstruct returns a sequence of tensors.
var SequenceConstruct = ops.Register(&ir.Op{
	Name: "SequenceConstruct", Since: 11, Doc: "The sequence of all inputs, in order.",
	In: []ir.Param{{Name: "inputs", Elem: "T", Variadic: true}}, Out: ops.Sig("output_sequence:S"),
	Elems: elems("T", ops.Any),
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		elem := tensorIn(n, 0)
		for i := range n.Inputs {
			t := tensorIn(n, i)
			if t == nil {
				return nil, fmt.Errorf("input %d is missing", i)
			}
			var err error
			if elem, err = ops.UnionShape(elem, t); err != nil {
				return nil, err
			}
		}
		return one(&ir.SequenceType{Elem: elem})
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		return []tensor.Datum{&tensor.Sequence{Items: ops.Clone(c, in)}}, nil
	},
	Linear: ops.LinearAll,
	Tol:    ir.Exact,
})

// SequenceInsert adds an item.
var SequenceInsert = ops.Register(&ir.Op{
	Name: "SequenceInsert", Since: 11,
	Doc: "input_sequence with tensor inserted before position (default: at the end).",
	In:  ops.Sig("input_sequence:S", "tensor:T", "position:I?"), Out: ops.Sig("output_sequence:S"),
	Elems: map[string][]tensor.DType{"S": ops.Any, "T": ops.Any, "I": indexTypes},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		s, err := sequenceIn(n, 0)
		if err != nil {
			return nil, err
		}
		elem, err := unionType(s.Elem, n.In(1).Type)
		if err != nil {
			return nil, err
		}
		return one(&ir.SequenceType{Elem: elem})
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		s, err := sequence(in, 0)
		if err != nil {
			return nil, err
		}
		if len(in) < 2 || in[1] == nil {
			return nil, fmt.Errorf("input 1 (tensor) is missing")
		}
		p, err := place(c, in, 2, len(s.Items), len(s.Items))
		if err != nil {
			return nil, err
		}
		items := ops.Make[tensor.Datum](c, len(s.Items)+1)
		ops.Put(c, items, s.Items[:p])
		items[p] = in[1]
		ops.Put(c, items[p+1:], s.Items[p:])
		return []tensor.Datum{&tensor.Sequence{Items: items}}, nil
	},
	Linear: ops.LinearIn([]int{0, 1}),
	Tol:    ir.Exact,
})

// SequenceErase removes an item.
var SequenceErase = ops.Register(&ir.Op{
	Name: "SequenceErase", Since: 11, Doc: "input_sequence without the item at position (default: the last).",
	In: ops.Sig("input_sequence:S", "position:I?"), Out: ops.Sig("output_sequence:S"),
	Elems: map[string][]tensor.DType{"S": ops.Any, "I": indexTypes},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		s, err := sequenceIn(n, 0)
		if err != nil {
			return nil, err
		}
		return one(s)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		s, err := sequence(in, 0)
		if err != nil {
			return nil, err
		}
		p, err := place(c, in, 1, len(s.Items), len(s.Items)-1)
		if err != nil {
			return nil, err
		}
		if p < 0 {
			return nil, fmt.Errorf("the sequence is empty")
		}
		items := ops.Make[tensor.Datum](c, len(s.Items)-1)
		ops.Put(c, items, s.Items[:p])
		ops.Put(c, items[p:], s.Items[p+1:])
		return []tensor.Datum{&tensor.Sequence{Items: items}}, nil
	},
	Linear: ops.LinearFirst,
	Tol:    ir.Exact,
})

// SequenceAt returns an item.
var SequenceAt = ops.Register(&ir.Op{
	Name: "SequenceAt", Since: 11, Doc: "The item of input_sequence at position; negative ones count from the end.",
	In: ops.Sig("input_sequence:S", "position:I"), Out: ops.Sig("tensor:T"),
	Elems: map[string][]tensor.DType{"S": ops.Any, "T": ops.Any, "I": indexTypes},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		s, err := sequenceIn(n, 0)
		if err != nil {
			return nil, err
		}
		return one(s.Elem)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		s, err := sequence(in, 0)
		if err != nil {
			return nil, err
		}
		if ops.Tensor(in, 1) == nil {
			return nil, fmt.Errorf("input 1 (position) is missing")
		}
		p, err := place(c, in, 1, len(s.Items), len(s.Items)-1)
		if err != nil {
			return nil, err
		}
		return []tensor.Datum{s.Items[p]}, nil
	},
	Linear: ops.LinearFirst,
	Tol:    ir.Exact,
})

// SequenceLength counts items.
var SequenceLength = ops.Register(&ir.Op{
	Name: "SequenceLength", Since: 11, Doc: "The number of items, as a scalar.",
	In: ops.Sig("input_sequence:S"), Out: ops.Sig("length:int64[]"), Elems: anySequence,
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := sequenceIn(n, 0); err != nil {
			return nil, err
		}
		return one(ir.Tensor(tensor.Int64))
	},
	Eval: func(_ *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		s, err := sequence(in, 0)
		if err != nil {
			return nil, err
		}
		return ops.One(tensor.Scalar(int64(len(s.Items))), nil)
	},
	Tol: ir.Exact,
})

// SequenceMap runs a subgraph on every item.
var SequenceMap = ops.Register(&ir.Op{
	Name: "SequenceMap", Since: 17,
	Doc: "The results of body on every item of input_sequence, as sequences. Further inputs are passed to each call, " +
		"item by item if they are sequences of the same length.",
	In: []ir.Param{{Name: "input_sequence", Elem: "S"},
		{Name: "additional_inputs", Elem: "V", Variadic: true, Optional: true}},
	Out:   []ir.Param{{Name: "out_sequence", Elem: "S", Variadic: true}},
	Elems: map[string][]tensor.DType{"S": ops.Any, "V": ops.Any},
	Attrs: []ir.AttrSpec{graphAttr("body", "graph for an item")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := sequenceIn(n, 0); err != nil {
			return nil, err
		}
		body := n.Attrs.Graph("body")
		if len(body.Inputs) != len(n.Inputs) {
			return nil, fmt.Errorf("the body has %d inputs, the node %d", len(body.Inputs), len(n.Inputs))
		}
		var out []ir.Type
		for _, v := range body.Outputs {
			n.Step(2)
			out = append(out, &ir.SequenceType{Elem: v.Type})
		}
		return out, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		s, err := sequence(in, 0)
		if err != nil {
			return nil, err
		}
		body := c.Node.Attrs.Graph("body")
		results := make([]*tensor.Sequence, len(body.Outputs))
		for i := range results {
			results[i] = &tensor.Sequence{Items: ops.Make[tensor.Datum](c, len(s.Items))}
		}
		for k := range len(s.Items) {
			c.Step(1)
			var args []tensor.Datum
			for i, d := range in {
				if q, ok := d.(*tensor.Sequence); ok {
					if len(q.Items) != len(s.Items) {
						return nil, fmt.Errorf("input %d has %d items, the first has %d", i, len(q.Items), len(s.Items))
					}
					d = q.Items[k]
				}
				args = append(args, d)
			}
			out, err := call(c, body, args)
			if err != nil {
				return nil, fmt.Errorf("item %d: %w", k, err)
			}
			for i, d := range out {
				c.Charge(ops.ItemSize + ops.SizeIn(c, d)) // the subgraph has released it
				results[i].Items[k] = d
			}
		}
		out := make([]tensor.Datum, len(results))
		for i, r := range results {
			out[i] = r
		}
		return out, nil
	},
	Tol: ir.Exact,
})

// ConcatFromSequence concatenates all items.
var ConcatFromSequence = ops.Register(&ir.Op{
	Name: "ConcatFromSequence", Since: 11,
	Doc: "All items concatenated along axis or, with new_axis, stacked on a new axis.",
	In:  ops.Sig("input_sequence:S"), Out: ops.Sig("concat_result:T"),
	Elems: map[string][]tensor.DType{"S": ops.Any, "T": ops.Any},
	Attrs: []ir.AttrSpec{{Name: "axis", Kind: ir.AttrInt, Required: true, Doc: "the axis"},
		intAttr("new_axis", 0, "whether the axis is a new one")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		s, err := sequenceIn(n, 0)
		if err != nil {
			return nil, err
		}
		t, ok := ir.AsTensor(s.Elem)
		if !ok {
			return nil, fmt.Errorf("items are %v, not tensors", s.Elem)
		}
		if t.NoRank {
			return one(t)
		}
		fresh := 0
		if getInt(n, "new_axis") != 0 {
			fresh = 1
		}
		a, err := ops.Axis(getInt(n, "axis"), len(t.Shape)+fresh)
		if err != nil {
			return nil, err
		}
		out := slices.Clone(t.Shape)
		if fresh == 1 {
			out = slices.Insert(out, a, ir.Unknown)
		}
		out[a] = ir.Unknown
		return one(typed(t.Elem, out))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		s, err := sequence(in, 0)
		if err != nil {
			return nil, err
		}
		parts := ops.Make[*tensor.Tensor](c, len(s.Items))
		for i := range ops.Costly(c, len(parts), 10) {
			if parts[i], err = need(s.Items, i, "item"); err != nil {
				return nil, err
			}
		}
		if getInt(c.Node, "new_axis") != 0 {
			return ops.One(stack(c, parts, getInt(c.Node, "axis"), false))
		}
		return ops.One(concat(c, parts, getInt(c.Node, "axis")))
	},
	Linear: ops.LinearFirst,
	Tol:    ir.Exact,
})

// SplitToSequence splits a tensor into items.
var SplitToSequence = ops.Register(&ir.Op{
	Name: "SplitToSequence", Since: 24,
	Doc: "Parts of input along axis: of size split (a scalar; the last part may be smaller), of the sizes in split, " +
		"or single steps, which have no axis if keepdims is 0.",
	In: ops.Sig("input:T", "split:I?"), Out: ops.Sig("output_sequence:S"),
	Elems: map[string][]tensor.DType{"T": ops.Any, "I": indexTypes},
	Attrs: []ir.AttrSpec{intAttr("axis", 0, "the axis"),
		intAttr("keepdims", 1, "whether single steps keep the axis; without split only")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		t := tensorIn(n, 0)
		if t.NoRank {
			return one(&ir.SequenceType{Elem: t})
		}
		a, err := ops.Axis(getInt(n, "axis"), len(t.Shape))
		if err != nil {
			return nil, err
		}
		s := slices.Clone(t.Shape)
		switch {
		case n.In(1) != nil:
			s[a] = ir.Unknown
		case getInt(n, "keepdims") == 0:
			s = slices.Delete(s, a, a+1)
		default:
			s[a] = ir.Const(1)
		}
		return one(&ir.SequenceType{Elem: typed(t.Elem, s)})
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		a, err := ops.Axis(getInt(c.Node, "axis"), x.Rank())
		if err != nil {
			return nil, err
		}
		sizes, err := ints(c, in, 1)
		if err != nil {
			return nil, err
		}
		single := sizes == nil
		if t := ops.Tensor(in, 1); single || t.Rank() == 0 {
			part := int64(1)
			if !single {
				part = sizes[0]
			}
			if part < 1 {
				return nil, fmt.Errorf("split: parts of %d", part)
			}
			sizes = nil
			for left := int64(x.Dim(a)); left > 0; left -= part {
				c.Step(1)
				sizes = ops.Append(c, sizes, min(part, left))
			}
		}
		parts, err := split(c, x, a, sizes)
		if err != nil {
			return nil, err
		}
		out := &tensor.Sequence{Items: ops.Make[tensor.Datum](c, len(parts))}
		for i, p := range parts {
			c.Step(10)
			if single && getInt(c.Node, "keepdims") == 0 {
				s := p.Shape()
				if p, err = p.Reshape(append(s[:a:a], s[a+1:]...)...); err != nil {
					return nil, err
				}
			}
			out.Items[i] = p
		}
		return []tensor.Datum{out}, nil
	},
	Linear: ops.LinearFirst,
	Tol:    ir.Exact,
})
