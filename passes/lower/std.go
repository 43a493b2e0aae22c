package lower

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// later lists inputs and attributes that a version added to operators of the same meaning. The registry has versions of
// the same meaning as one operator, which takes the inputs and attributes of the newest.
var later = map[string][]struct {
	input int // -1: attr
	attr  string
	since int
}{
	"ArgMax":          {{-1, "select_last_index", 12}},
	"ArgMin":          {{-1, "select_last_index", 12}},
	"Cast":            {{-1, "saturate", 19}, {-1, "round_mode", 24}},
	"CastLike":        {{-1, "saturate", 19}, {-1, "round_mode", 24}},
	"Pad":             {{3, "", 18}},
	"Reshape":         {{-1, "allowzero", 14}},
	"ScatterElements": {{-1, "reduction", 16}},
	"ScatterND":       {{-1, "reduction", 16}},
	"Shape":           {{-1, "start", 15}, {-1, "end", 15}},
	"Split":           {{-1, "num_outputs", 18}},
}

// version returns the operator of the requested version that has the meaning, the inputs and the attributes of n's.
func (l *lowerer) version(n *ir.Node) (*ir.Op, bool) {
	if n.Op.Domain != "" {
		return n.Op, true
	}
	op := ops.Default.Resolve("", n.Op.Name, l.opset)
	if op == nil || ops.Current(op) != ops.Current(n.Op) {
		return nil, false
	}
	for _, x := range later[n.Op.Name] {
		has := x.input >= 0 && n.In(x.input) != nil || x.attr != "" && n.Attrs.Has(x.attr)
		if has && l.opset < x.since {
			return nil, false
		}
	}
	m := *n
	m.Op = op
	_, err := ir.Infer(&m)
	return op, err == nil
}

// needs returns an error with the version in which n could be written.
func (l *lowerer) needs(n *ir.Node) error {
	m := *l
	for m.opset++; m.opset <= MaxOpset; m.opset++ {
		if _, ok := m.version(n); ok {
			return fmt.Errorf("node %v: operator %s needs version %d of ai.onnx, requested %d", n, n.Op.FullName(),
				m.opset, l.opset)
		}
	}
	return fmt.Errorf("node %v: operator %s has no form in version %d of ai.onnx", n, n.Op.FullName(), l.opset)
}

// standard adds a node of a standard operator in the requested version, or in smaller operators.
func (l *lowerer) standard(n *ir.Node) error {
	if l.doubleConv(n) {
		return l.Err()
	}
	if op, ok := l.version(n); ok {
		n.Op = op
		g := l.Graph()
		g.Nodes = append(g.Nodes, n)
		return nil
	}
	if l.axesToAttribute(n) || l.equalSplit(n) {
		return nil
	}
	if n.Op.Name == "Shape" && n.Op.Domain == "" {
		return l.partOfShape(n)
	}
	if n.Op.Body == nil {
		return l.needs(n)
	}
	l.list(n)
	return l.expand(n)
}

// axesToAttribute writes a reduction in the form of versions below 18, with axes as an attribute.
func (l *lowerer) axesToAttribute(n *ir.Node) bool {
	if !strings.HasPrefix(n.Op.Name, "Reduce") || l.opset >= 18 || !ops.Newest(n.Op) ||
		n.Attrs.Bool("noop_with_empty_axes", false) {
		return false
	}
	op := ops.Default.Resolve("", n.Op.Name, l.opset)
	if op == nil {
		return false
	}
	attrs := n.Attrs.Without("noop_with_empty_axes")
	if a := n.In(1); a != nil {
		if a.Const == nil {
			return false
		}
		axes, err := a.Const.Int64s()
		if err != nil {
			return false
		}
		attrs = attrs.With("axes", axes)
	}
	m := *n
	m.Op, m.Attrs, m.Inputs = op, attrs, n.Inputs[:1]
	if _, err := ir.Infer(&m); err != nil {
		return false
	}
	n.Op, n.Attrs, n.Inputs = m.Op, m.Attrs, m.Inputs
	g := l.Graph()
	g.Nodes = append(g.Nodes, n)
	return true
}

// equalSplit writes a Split into a number of parts in the form of versions below 18: with the sizes of the parts, or
// without where they are equal.
func (l *lowerer) equalSplit(n *ir.Node) bool {
	if n.Op.FullName() != "Split" || !n.Attrs.Has("num_outputs") || n.In(1) != nil {
		return false
	}
	axis, err := ops.Axis(n.Attrs.Int("axis", 0), len(n.In(0).Shape()))
	if err != nil {
		return false
	}
	size, known := n.In(0).Shape()[axis].Known()
	if !known {
		return false
	}
	m := *n
	m.Inputs, m.Attrs = n.Inputs[:1], n.Attrs.Without("num_outputs")
	if parts := int64(len(n.Outputs)); size%parts != 0 {
		sizes, each := make([]int64, parts), (size+parts-1)/parts
		for i := range sizes { // the last ones are smaller
			sizes[i] = min(each, size)
			size -= sizes[i]
		}
		m.Inputs = []*ir.Value{n.In(0), l.Ints(sizes...)}
	}
	op, ok := l.version(&m)
	if !ok {
		return false
	}
	n.Op, n.Inputs, n.Attrs = op, m.Inputs, m.Attrs
	g := l.Graph()
	g.Nodes = append(g.Nodes, n)
	return true
}

// doubleConv writes a Conv along one axis in float64, which ONNX Runtime does not have, as a product with its inputs at
// every tap. It reports whether n is one; strides, dilations and groups stay as they are.
func (l *lowerer) doubleConv(n *ir.Node) bool {
	if n.Op.FullName() != "Conv" || n.In(0).Elem() != tensor.Float64 || n.Attrs.Int("group", 1) != 1 ||
		n.Attrs.Str("auto_pad", "NOTSET") != "NOTSET" {
		return false
	}
	for _, name := range []string{"strides", "dilations"} {
		if v := n.Attrs.Ints(name, nil); len(v) > 0 && (len(v) != 1 || v[0] != 1) {
			return false
		}
	}
	w := n.In(1).Shape()
	if len(w) != 3 {
		return false
	}
	outputs, okO := w[0].Known()
	inputs, okI := w[1].Known()
	taps, okT := w[2].Known()
	if !okO || !okI || !okT || taps < 1 {
		return false
	}
	x := n.In(0)
	if p := n.Attrs.Ints("pads", nil); len(p) == 2 && (p[0] != 0 || p[1] != 0) {
		x = l.op("Pad", x, l.Ints(0, 0, p[0], 0, 0, p[1]))
	}
	var parts []*ir.Value // (samples, inputs, steps) for each tap
	for i := range taps {
		to := i - taps + 1
		if to == 0 {
			to = math.MaxInt64
		}
		parts = append(parts, l.op("Slice", x, l.Ints(i), l.Ints(to), l.Ints(2)))
	}
	if len(parts) > 1 {
		x = l.with("Concat", parts, ir.A("axis", 1))
	}
	weight := l.op("Reshape", l.with("Transpose", []*ir.Value{n.In(1)}, ir.A("perm", []int64{0, 2, 1})),
		l.Ints(outputs, taps*inputs))
	y := l.op("MatMul", weight, x)
	if b := n.In(2); b != nil {
		y = l.op("Add", y, l.op("Unsqueeze", b, l.Ints(1)))
	}
	y.Name, n.Outputs[0].Name = n.Outputs[0].Name, y.Name
	y.Type = n.Outputs[0].Type
	l.of[n.Outputs[0]] = y
	return true
}

// partOfShape writes a Shape of some axes in the form of versions below 15, as a Slice of all of them.
func (l *lowerer) partOfShape(n *ir.Node) error {
	end := int64(math.MaxInt64)
	if n.Attrs.Has("end") {
		end = n.Attrs.Int("end", 0)
	}
	v := l.op("Slice", l.op("Shape", n.Inputs[0]), l.Ints(n.Attrs.Int("start", 0)), l.Ints(end), l.Ints(0))
	if err := l.Err(); err != nil {
		return fmt.Errorf("node %v: %w", n, err)
	}
	v.Name, n.Outputs[0].Name = n.Outputs[0].Name, v.Name
	v.Type = n.Outputs[0].Type
	l.of[n.Outputs[0]] = v
	return nil
}

// expand replaces n by the body of its operator, and lowers that.
func (l *lowerer) expand(n *ir.Node) error {
	b := ir.NewBuilder(n.Op.Name, ops.Default, ops.Opsets())
	b.Scope(n.Scope)
	outs := n.Op.Body(b, n, n.Inputs)
	if err := b.Err(); err != nil {
		return fmt.Errorf("node %v: %w", n, err)
	}
	body := b.Graph()
	renamed := map[*ir.Value]bool{}
	for _, v := range n.Inputs {
		renamed[v] = true
	}
	for _, m := range body.Nodes {
		for _, vs := range [][]*ir.Value{m.Inputs, m.Outputs} {
			for _, v := range vs {
				if v != nil && !renamed[v] && (v.Const != nil || v.Def == m) {
					renamed[v] = true
					v.Name = l.Unique(v.Name)
				}
			}
		}
	}
	for _, m := range body.Nodes {
		if m.Op == n.Op {
			return l.needs(n)
		}
		if err := l.node(m); err != nil {
			return err
		}
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if i >= len(outs) || outs[i] == nil {
			return fmt.Errorf("node %v: body has no output %d", n, i)
		}
		w := l.now(outs[i])
		if w.Def == nil || slices.Contains(n.Inputs, w) || slices.Contains(outs[:i], outs[i]) {
			w = l.op("Identity", w)
		}
		if err := l.Err(); err != nil {
			return err
		}
		w.Name, v.Name = v.Name, w.Name
		l.of[v] = w
	}
	return nil
}
