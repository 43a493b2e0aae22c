package graphfuzz

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
)

// control adds branches and loops among other nodes.
func (g *generator) control() {
	g.plain = g.one(2)
	for range attempts * (g.nodes + 1) {
		if g.nodes <= 0 || g.fault != nil {
			return
		}
		if g.one(3) {
			g.apply("", pick(g.Source, "If", "Loop", "Scan", "SequenceMap", "Loop", "Scan"))
			continue
		}
		g.apply("", common[g.IntN(len(common))])
	}
}

// within builds a subgraph with the given inputs. build returns its outputs, or nil if there is none.
func (g *generator) within(name string, inputs []*value, build func() []*value) *ir.Graph {
	if g.depth >= 3 {
		return nil
	}
	sub := &ir.Graph{Name: name}
	outerGraph, outerPool, outerFixed := g.graph, g.pool, g.fixed
	g.frame = &eval.Frame{Values: map[*ir.Value]tensor.Datum{}, Outer: g.frame}
	g.graph, g.pool, g.fixed, g.depth = sub, append([]*value(nil), g.pool...), len(g.pool), g.depth+1
	for _, x := range inputs {
		sub.Inputs = append(sub.Inputs, x.v)
		g.add(x)
	}
	roots := len(g.root.Inputs)
	outs := build()
	added := g.inputs[len(g.inputs)-(len(g.root.Inputs)-roots):]
	g.graph, g.pool, g.fixed, g.depth, g.frame = outerGraph, outerPool, outerFixed, g.depth-1, g.frame.Outer
	for _, x := range added { // inputs of the outermost graph that the subgraph made
		g.pool = append(g.pool, x.x)
	}
	if outs == nil {
		return nil
	}
	for _, x := range outs {
		sub.Outputs = append(sub.Outputs, x.v)
	}
	return sub
}

// some adds a few nodes in a subgraph.
func (g *generator) few() {
	left := g.nodes
	g.nodes = 1 + g.IntN(4)
	for range 4 * g.nodes {
		if g.nodes <= 0 || g.fault != nil {
			break
		}
		if g.one(8) {
			g.apply("", pick(g.Source, "If", "Loop", "Scan"))
		} else {
			g.apply("", common[g.IntN(len(common))])
		}
	}
	g.nodes = left - 1
}

// like returns a value of the type of want's element type and the given type: a recent one, or a copy of fallback.
func (g *generator) like(typ ir.Type, fallback *value) *value {
	for range 4 {
		x := g.existing(func(x *value) bool { return ir.EqualTypes(x.v.Type, typ) && x.v.Const == nil })
		if x != nil {
			if x.v.Def == nil || g.one(4) || !g.mine(x) {
				return g.op("Identity", []*value{x})
			}
			return x
		}
	}
	if fallback == nil {
		return nil
	}
	if y := g.op(pick(g.Source, "Tanh", "Neg", "Abs", "Identity"), []*value{fallback}); y != nil &&
		ir.EqualTypes(y.v.Type, typ) {
		return y
	}
	return g.op("Identity", []*value{fallback})
}

// mine reports whether the graph that is under construction defines x.
func (g *generator) mine(x *value) bool {
	for i, y := range g.pool {
		if y == x {
			return i >= g.fixed
		}
	}
	return false
}

func branch(g *generator, op *ir.Op) bool {
	cond := g.operand(tensor.Bool, nil, normal)
	if x := g.some(-1, tensor.Float32); g.one(2) && x != nil {
		if s := g.op("ReduceSum", []*value{x}, ir.A("keepdims", 0)); s != nil {
			if c := g.op("Less", []*value{s, g.constant(tensor.Scalar(float32(0)))}); c != nil {
				cond = c
			}
		}
	}
	if cond == nil || len(cond.shape()) != 0 {
		return false
	}
	var types []ir.Type
	var samples []*value
	for range 1 + g.IntN(2) {
		x := g.some(-1, tensor.Float32, tensor.Int64, tensor.Float64, tensor.Bool)
		if x.v.Const != nil {
			return false
		}
		types, samples = append(types, x.v.Type), append(samples, x)
	}
	var subs []*ir.Graph
	for _, name := range []string{"then", "else"} {
		subs = append(subs, g.within(name, nil, func() []*value {
			g.few()
			var outs []*value
			for i := range types {
				y := g.like(types[i], samples[i])
				if y == nil {
					return nil
				}
				outs = append(outs, y)
			}
			return outs
		}))
	}
	if subs[0] == nil || subs[1] == nil {
		return false
	}
	return g.try(op, []*value{cond}, len(types), ir.A("then_branch", subs[0]), ir.A("else_branch", subs[1])) != nil
}

// typed returns a new value of a subgraph: its input.
func (g *generator) typed(name string, typ ir.Type, d tensor.Datum) *value {
	return &value{&ir.Value{Name: g.name(name), Type: typ}, d}
}

func loop(g *generator, op *ir.Op) bool {
	if g.depth >= 3 {
		return false
	}
	var starts, inner []*value
	carried := 1 + g.IntN(3)
	for range carried {
		x := g.some(-1, tensor.Float32, tensor.Int64, tensor.Float64, tensor.Bool, tensor.Int32)
		starts = append(starts, x)
		typ := x.v.Type
		inner = append(inner, g.typed("carried", typ, x.d))
	}
	t := g.typed("t", ir.Tensor(tensor.Int64), tensor.Scalar(int64(0)))
	c := g.typed("cond", ir.Tensor(tensor.Bool), tensor.FromSlice([]bool{true}))
	trips := g.IntN(5)
	scans := g.IntN(3)
	stop := g.one(3)
	body := g.within("body", append([]*value{t, c}, inner...), func() []*value {
		g.few()
		var more *value
		if stop {
			more = g.op("Less", []*value{t, g.constant(tensor.Scalar(int64(g.IntN(4))))})
		} else {
			more = g.op("Identity", []*value{c})
		}
		if more == nil {
			return nil
		}
		outs := []*value{more}
		for i := range carried {
			if g.one(5) && i > 0 && ir.EqualTypes(inner[0].v.Type, inner[i].v.Type) { // exchanged
				outs = append(outs, g.op("Identity", []*value{inner[0]}))
			} else {
				outs = append(outs, g.like(inner[i].v.Type, inner[i]))
			}
		}
		for range scans {
			x := g.existing(func(x *value) bool { return x.v.Const == nil && x.tensor().Len() < 500 })
			if x != nil {
				x = g.op("Identity", []*value{x})
			}
			outs = append(outs, x)
		}
		for i, x := range outs {
			if x == nil {
				return nil
			}
			for _, y := range outs[:i] {
				if x == y {
					if outs[i] = g.op("Identity", []*value{x}); outs[i] == nil {
						return nil
					}
				}
			}
		}
		return outs
	})
	if body == nil {
		return false
	}
	var m, cond *value
	switch g.IntN(4) {
	case 0:
		m = g.newInput(tensor.Int64, ir.Shape{}, nil, fill{kind: whole, lo: trips, hi: trips + 1})
	case 1:
		if stop {
			break
		}
		fallthrough
	default:
		m = g.constant(tensor.Scalar(int64(trips)))
	}
	if g.one(4) {
		cond = g.operand(tensor.Bool, nil, normal)
	}
	return g.try(op, append([]*value{m, cond}, starts...), carried+scans, ir.A("body", body)) != nil
}

func scan(g *generator, op *ir.Op) bool {
	if g.depth >= 3 || g.opsets[""] < 9 {
		return false
	}
	x := g.existing(func(x *value) bool { return len(x.shape()) > 0 && x.tensor().Len() > 0 && x.v.Const == nil })
	if x == nil {
		x = g.some(1+g.IntN(3), tensor.Float32)
	}
	if x == nil || x.v.Const != nil || x.tensor().Len() == 0 {
		return false
	}
	axis := g.IntN(len(x.shape()))
	dims := x.v.Shape()
	if len(dims) != len(x.shape()) {
		return false
	}
	var rest ir.Shape
	for i, d := range dims {
		if i != axis {
			rest = append(rest, d)
		}
	}
	if rest == nil {
		rest = ir.Shape{}
	}
	row := g.slice(x, axis)
	if row == nil {
		return false
	}
	var starts, inner []*value
	carried := g.IntN(3)
	for range carried {
		s := g.some(-1, tensor.Float32, tensor.Int64, tensor.Float64)
		if g.one(2) { // of the shape of a row
			if y := g.operand(x.elem(), row.Shape(), normal); y != nil {
				s = y
			}
		}
		starts, inner = append(starts, s), append(inner, g.typed("state", s.v.Type, s.d))
	}
	at := g.typed("row", &ir.TensorType{Elem: x.elem(), Shape: rest}, row)
	outs := g.IntN(3)
	if carried+outs == 0 {
		outs = 1
	}
	body := g.within("step", append(inner, at), func() []*value {
		g.few()
		var ends []*value
		for i := range carried {
			ends = append(ends, g.like(inner[i].v.Type, inner[i]))
		}
		for range outs {
			y := g.existing(func(x *value) bool { return x.v.Const == nil && x.tensor().Len() < 500 })
			if y != nil {
				y = g.op("Identity", []*value{y})
			}
			ends = append(ends, y)
		}
		for i, y := range ends {
			if y == nil {
				return nil
			}
			for _, z := range ends[:i] {
				if y == z {
					if ends[i] = g.op("Identity", []*value{y}); ends[i] == nil {
						return nil
					}
				}
			}
		}
		return ends
	})
	if body == nil {
		return false
	}
	attrs := []ir.Attr{ir.A("body", body), ir.A("num_scan_inputs", 1), ir.A("scan_input_axes", []int64{int64(axis)})}
	if g.one(3) {
		attrs = append(attrs, ir.A("scan_input_directions", []int64{1}))
	}
	if outs > 0 && g.one(3) {
		d := make([]int64, outs)
		d[0] = 1
		attrs = append(attrs, ir.A("scan_output_directions", d))
	}
	return g.try(op, append(starts, x), carried+outs, attrs...) != nil
}

// slice returns the first step of a tensor along an axis, without the axis.
func (g *generator) slice(x *value, axis int) *tensor.Tensor {
	gather := ops.Default.Resolve("", "Gather", g.opsets[""])
	n := &ir.Node{Op: gather, Attrs: ir.NewAttrs(ir.A("axis", axis)), Inputs: []*ir.Value{x.v, nil}}
	n.Inputs[1] = ir.NewConst("zero", tensor.Scalar(int64(0)))
	n.Outputs = []*ir.Value{{Name: "row", Def: n}}
	out, err := g.compute(n, []tensor.Datum{x.d, n.Inputs[1].Const})
	if err != nil {
		return nil
	}
	t, _ := out[0].(*tensor.Tensor)
	return t
}

func sequenceMap(g *generator, op *ir.Op) bool {
	if g.depth >= 3 {
		return false
	}
	first := g.some(-1, tensor.Float32, tensor.Int64)
	items := []*value{first}
	for range g.IntN(3) {
		items = append(items, g.operand(first.elem(), first.shape(), normal))
	}
	seq := g.op("SequenceConstruct", items)
	if seq == nil {
		return false
	}
	typ, ok := seq.v.Type.(*ir.SequenceType)
	if !ok {
		return false
	}
	in := []*value{seq}
	inner := []*value{g.typed("item", typ.Elem, first.d)}
	if g.one(2) {
		x := g.some(-1, tensor.Float32)
		in, inner = append(in, x), append(inner, g.typed("with", x.v.Type, x.d))
	}
	body := g.within("each", inner, func() []*value {
		g.few()
		x := g.existing(func(x *value) bool { return x.v.Const == nil })
		if x == nil {
			return nil
		}
		if x = g.op("Identity", []*value{x}); x == nil {
			return nil
		}
		return []*value{x}
	})
	if body == nil {
		return false
	}
	out := g.try(op, in, 1, ir.A("body", body))
	if out == nil {
		return false
	}
	if g.one(2) {
		g.op(pick(g.Source, "SequenceLength", "ConcatFromSequence"), out, ir.A("axis", 0))
	}
	return true
}

var _ = fmt.Sprint
