package idiom

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// byteTables replaces functions of one 8-bit number by their tables: QuantizeLinear of elementwise operators on one
// dequantized tensor and constants. The table has exactly the graph's results.
func byteTables(c *passes.Context, g *ir.Graph) (changes int, err error) {
	if !slices.ContainsFunc(g.Nodes, isQuantize) {
		return 0, nil
	}
	var b *ir.Builder
	e := regions.Constants(c, nil)
	e.Wide = false
	for _, n := range slices.Clone(g.Nodes) {
		if c.Check(); !isQuantize(n) {
			continue
		}
		x, ok := sourceOf(n)
		if !ok {
			continue
		}
		table, err := tableOf(e, n.Outputs[0], x)
		if err != nil {
			continue // cannot be evaluated, so it stays
		}
		if b == nil {
			b = passes.Edit(g)
		}
		b.Scope(n.Scope)
		y := b.Op("essm", "ByteTable", []*ir.Value{x, b.Const(n.Outputs[0].Name+".table", table)})
		if err := b.Err(); err != nil {
			return changes, err
		}
		if passes.Replace(g, n.Outputs[0], y) {
			changes++
		}
	}
	if changes == 0 {
		return 0, nil
	}
	return changes, passes.Finish(g)
}

func isQuantize(n *ir.Node) bool { return n.Op.Name == "QuantizeLinear" && n.Op.Domain == "" }

// mostSources is the maximum number of steps in the search for a source behind another.
const mostSources = 8

// sourceOf returns the only tensor of 8 bits, apart from constants, of which n's result is an elementwise function.
func sourceOf(n *ir.Node) (*ir.Value, bool) {
	from, ok := sources(n.Outputs[0])
	for range mostSources {
		if !ok || len(from) == 0 {
			return nil, false
		}
		if len(from) == 1 {
			x := from[0]
			return x, integerRank(x) >= 0 && integerRank(x) == integerRank(n.Outputs[0])
		}
		from, ok = expandOne(from)
	}
	return nil, false
}

// expandOne replaces one source by the sources, or the single source, of which it is a function.
func expandOne(from []*ir.Value) ([]*ir.Value, bool) {
	for i, v := range from {
		rest := slices.Delete(slices.Clone(from), i, i+1)
		more, ok := sources(v)
		if !ok || len(more) > 1 && slices.ContainsFunc(more,
			func(v *ir.Value) bool { return !slices.Contains(rest, v) }) {
			continue
		}
		for _, v := range more {
			if !slices.Contains(rest, v) {
				rest = append(rest, v)
			}
		}
		return rest, true
	}
	return nil, false
}

// sources returns the nearest tensors of 8 bits, apart from constants, of which a quantized tensor is an elementwise
// function. ok is false if it is not such a function.
func sources(v *ir.Value) (from []*ir.Value, ok bool) {
	switch {
	case v.Def == nil:
		return nil, false
	case v.Def.Op.Name == "ByteTable" && v.Def.Op.Domain == "essm":
		return v.Def.Inputs[:1], v.Def.In(1).Const != nil
	case !isQuantize(v.Def) || !plainQuantization(v.Def) || !oneQuantum(v, v.Def):
		return nil, false
	}
	walk, left := regions.WalkFrom(v.Def.In(0)), maxTableNodes
	for v := range walk.Values() {
		n := v.Def
		if v.Const != nil && v.Const.Len() == 1 {
			continue
		}
		if left--; n == nil || left < 0 || len(n.Outputs) != 1 || len(n.Subgraphs()) > 0 {
			return nil, false
		}
		if n.Op.Name == "DequantizeLinear" && n.Op.Domain == "" {
			x := n.In(0)
			switch {
			case !plainQuantization(n) || !oneQuantum(x, n) || x.Const != nil && x.Const.Len() != 1:
				return nil, false
			case x.Const == nil && !slices.Contains(from, x):
				from = append(from, x)
			}
			continue
		}
		if _, ok := ops.Element(n); !ok || v.Elem() != tensor.Float32 {
			return nil, false
		}
		walk.Add(n.Inputs...)
	}
	return from, true
}

// oneQuantum reports whether a node that quantizes or dequantizes v has a single scale and a single zero point, both
// constant.
func oneQuantum(v *ir.Value, n *ir.Node) bool {
	q, ok := asQuanta(v, n.In(1), n.In(2))
	return ok && q.one()
}

// maxTableNodes is the maximum number of operators behind a table.
const maxTableNodes = 64

// tableOf evaluates v for all values of x.
func tableOf(e *eval.Constants, v, x *ir.Value) (*tensor.Tensor, error) {
	b := ir.NewBuilder("table", ops.Default, ops.Opsets())
	all := tensor.New(x.Elem(), 256)
	for i := range all.Bytes() {
		all.Bytes()[i] = byte(i)
	}
	made := map[*ir.Value]*ir.Value{x: b.Const("x", all)}
	var build func(v *ir.Value) *ir.Value
	build = func(v *ir.Value) *ir.Value {
		if v == nil || v.Const != nil {
			return v
		}
		if y := made[v]; y != nil {
			return y
		}
		in := make([]*ir.Value, len(v.Def.Inputs))
		for i, w := range v.Def.Inputs {
			in[i] = build(w)
		}
		made[v] = b.Apply(v.Def.Op, 1, in, v.Def.Attrs)[0]
		return made[v]
	}
	y := build(v)
	if err := b.Err(); err != nil {
		return nil, err
	}
	t, err := e.Tensor(y)
	if err != nil {
		return nil, err
	}
	return t.Reshape(all.Len())
}
