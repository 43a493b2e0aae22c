package std

import (
	"fmt"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// protoName reads an element type by its name in TensorProto.DataType.
func protoName(name string) (tensor.DType, error) {
	switch name {
	case "DOUBLE":
		return tensor.Float64, nil
	case "UNDEFINED":
		return tensor.Invalid, fmt.Errorf("attribute to: UNDEFINED is not an element type")
	}
	d, err := tensor.ParseDType(strings.ToLower(name))
	if err != nil {
		return d, fmt.Errorf("attribute to: %w", err)
	}
	return d, nil
}

// Before version 7, the second operand of a binary operator was broadcast only on request, to the axes from axis on.
func init() {
	for _, v := range []struct {
		op    *ir.Op
		since []int
	}{
		{Add, []int{1, 6}}, {Sub, []int{1, 6}}, {Mul, []int{1, 6}}, {Div, []int{1, 6}}, {Pow, []int{1}},
		{And, []int{1}}, {Or, []int{1}}, {Xor, []int{1}}, {Equal, []int{1}}, {Less, []int{1}}, {Greater, []int{1}},
	} {
		for _, since := range v.since {
			attrs := []ir.AttrSpec{intAttr("axis", nil,
				"the axis of A that corresponds to B's first axis; absent: B's axes are A's last"),
				intAttr("broadcast", 0, "whether B is broadcast")}
			if since == 1 && len(v.since) > 1 {
				attrs = append(attrs, consumed())
			}
			name := v.op.Name
			earlier(&ir.Op{
				Name: name, Since: since, Doc: v.op.Doc + " B is broadcast only with broadcast, from axis on.",
				In: v.op.In, Out: v.op.Out, Elems: v.op.Elems, Attrs: attrs, Tol: v.op.Tol,
				Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
					return []*ir.Value{op(b, name, in[0], onAxis(b, n, in))}
				},
			})
		}
	}
}

// onAxis appends axes to the second operand, so that its first axis aligns with the attribute axis of the first.
func onAxis(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value {
	x, y := tensorIn(n, 0), tensorIn(n, 1)
	a, given := n.Attrs.Get("axis").(int64)
	if !given || getInt(n, "broadcast") == 0 {
		return in[1]
	}
	if x.NoRank || y.NoRank {
		b.Fail(fmt.Errorf("attribute axis needs operands of known rank"))
		return nil
	}
	at, err := ops.Axis(a, len(x.Shape)+1)
	if err != nil {
		b.Fail(err)
		return nil
	}
	if a < 0 {
		at--
	}
	behind := len(x.Shape) - at - len(y.Shape)
	if behind < 0 || at < 0 {
		b.Fail(fmt.Errorf("axis %d: %v does not fit into %v from there", a, y.Shape, x.Shape))
		return nil
	}
	if behind == 0 {
		return in[1]
	}
	axes := make([]int64, behind)
	for i := range axes {
		axes[i] = int64(len(y.Shape) + i)
	}
	return op(b, "Unsqueeze", in[1], b.Ints(axes...))
}

// Before version 13, operators on rows took their input as a matrix: the axes from axis on were one.
func init() {
	for _, newest := range []*ir.Op{Softmax, LogSoftmax, Hardmax} {
		name := newest.Name
		earlier(&ir.Op{
			Name: name, Since: 11, Doc: newest.Doc + " The axes from axis on count as one.",
			In: newest.In, Out: newest.Out, Elems: newest.Elems, Tol: newest.Tol,
			Attrs: []ir.AttrSpec{intAttr("axis", 1, "first axis of a row")},
			Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
				t := tensorIn(n, 0)
				if t.NoRank {
					rows := attr(b, "Flatten", in, ir.A("axis", getInt(n, "axis")))
					return []*ir.Value{shapedLike(b, op(b, name, rows), in[0])}
				}
				a, err := flattenAxis(n, len(t.Shape))
				if err != nil {
					b.Fail(err)
					return make([]*ir.Value, 1)
				}
				if a == len(t.Shape)-1 {
					return []*ir.Value{op(b, name, in[0])}
				}
				width, ok := int64(1), true
				for _, d := range t.Shape[a:] {
					k, known := d.Known()
					width, ok = width*k, ok && known
				}
				var rows *ir.Value
				if ok && width > 0 { // the axes before stay apart, as layouts along time have them
					rows = op(b, "Reshape", in[0], b.Ints(append(make([]int64, a), width)...))
				} else {
					rows = attr(b, "Flatten", in, ir.A("axis", int64(a)))
				}
				return []*ir.Value{shapedLike(b, op(b, name, rows), in[0])}
			},
		}, 1)
	}
}

// shapedLike reshapes v to the shape of like, empty dimensions included.
func shapedLike(b *ir.Builder, v, like *ir.Value) *ir.Value {
	return attr(b, "Reshape", []*ir.Value{v, op(b, "Shape", like)}, ir.A("allowzero", 1))
}
