package graphfuzz

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// broad adds a structure of hundreds of nodes, inputs, outputs or carried values, and some nodes that read it.
func (g *generator) broad() {
	g.plain = true
	shape := []int{pick(g.Source, g.sizes["B"], 1, 2), 1 + g.IntN(2)}
	x := g.newInput(tensor.Float32, g.dims(shape), shape, g.fillOf(unit))
	structures := []func(*generator, *value, int) []*value{(*generator).manyInputs, (*generator).manyOutputs,
		(*generator).chain,
		(*generator).fan, (*generator).alive, (*generator).forks, (*generator).carriesMany, (*generator).branchesMany}
	n := 200<<g.IntN(5) + g.IntN(200)
	made := structures[g.IntN(len(structures))](g, x, n)
	if len(made) == 0 || g.fault != nil {
		return
	}
	switch g.IntN(3) {
	case 0:
		g.most = 5 + g.IntN(len(made)+1) // outputs
	case 1:
		g.joined(made)
	}
	for g.nodes = g.IntN(4); g.nodes > 0 && g.fault == nil; g.nodes-- {
		g.link(made[g.IntN(len(made))], made)
	}
}

// link applies an operator that keeps a shape, and numbers small, to x and perhaps to another one of all.
func (g *generator) link(x *value, all []*value) *value {
	var y *value
	if g.IntN(2) == 0 {
		other := all[g.IntN(len(all))]
		if slices.Equal(other.shape(), x.shape()) && other.elem() == x.elem() {
			y = g.op(pick(g.Source, "Max", "Min", "Mul", "Sub", "Add"), []*value{x, other})
		}
	}
	if y == nil {
		y = g.op(pick(g.Source, "Tanh", "Neg", "Sigmoid", "Abs", "Relu", "Sin", "Identity", "Floor", "Softsign"),
			[]*value{x})
	}
	return y
}

// joined adds a node that reads many values, in any order.
func (g *generator) joined(all []*value) *value {
	in := slices.Clone(all)
	if g.IntN(2) == 0 {
		g.Rand().Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
	}
	if name := pick(g.Source, "Concat", "Sum", "Max", "Min", "Mean"); name != "Concat" {
		if y := g.op(name, in); y != nil {
			return y
		}
	}
	return g.op("Concat", in, ir.A("axis", g.IntN(2)))
}

func (g *generator) manyInputs(x *value, n int) []*value {
	few := []*value{x}
	for range 1 + g.IntN(8) {
		if y := g.link(few[len(few)-1], few); y != nil {
			few = append(few, y)
		}
	}
	in := make([]*value, n)
	for i := range in {
		in[i] = few[g.IntN(len(few))]
	}
	if y := g.joined(in); y != nil {
		return []*value{y}
	}
	return nil
}

func (g *generator) manyOutputs(_ *value, n int) []*value {
	sizes, total := make([]int64, n), 0
	for i := range sizes {
		sizes[i] = int64(pick(g.Source, 1, 1, 1, 1, 1, 2, 0))
		total += int(sizes[i])
	}
	equal := g.IntN(2) == 0
	if equal {
		total = n
	}
	shape := []int{total}
	axis := 0
	if g.IntN(2) == 0 {
		shape, axis = []int{2, total}, 1
	}
	x := g.newInput(tensor.Float32, ir.Of(tensor.New(tensor.Float32, shape...)).Shape, shape, g.fillOf(unit))
	var parts []*value
	if equal {
		parts = g.ops("", "Split", n, []*value{x}, ir.A("axis", axis), ir.A("num_outputs", n))
	} else {
		parts = g.ops("", "Split", n, []*value{x, g.ints(sizes...)}, ir.A("axis", axis))
	}
	parts = slices.DeleteFunc(parts, func(x *value) bool { return x == nil })
	if len(parts) > 0 && g.IntN(2) == 0 {
		for i := range parts {
			if y := g.link(parts[i], parts); g.one(3) && y != nil {
				parts[i] = y
			}
		}
	}
	return parts
}

func (g *generator) chain(x *value, n int) []*value {
	start := x
	for range n {
		if y := g.link(x, []*value{start, x}); y != nil {
			x = y
		}
	}
	return []*value{x}
}

func (g *generator) fan(x *value, n int) []*value {
	var all []*value
	for range n {
		if y := g.link(x, []*value{x}); y != nil {
			all = append(all, y)
		}
	}
	return all
}

// alive returns a chain whose values are read again after its end, the last one first.
func (g *generator) alive(x *value, n int) []*value {
	all := []*value{x}
	for range n / 2 {
		if y := g.link(all[len(all)-1], all[max(0, len(all)-3):]); y != nil {
			all = append(all, y)
		}
	}
	acc := x
	for i := len(all) - 1; i >= 0; i-- {
		if y := g.op(pick(g.Source, "Max", "Min", "Sub"), []*value{acc, all[i]}); y != nil {
			acc = y
		}
	}
	if g.IntN(2) == 0 {
		return all
	}
	return []*value{acc}
}

func (g *generator) forks(x *value, n int) []*value {
	all := []*value{x}
	for range n {
		if y := g.link(all[g.IntN(len(all))], all); y != nil {
			all = append(all, y)
		}
	}
	return all
}

// distinct replaces values that are there twice, or that another graph defines, by copies.
func (g *generator) distinct(out []*value) []*value {
	seen := map[*value]bool{}
	own := map[*value]bool{}
	for _, x := range g.pool[g.fixed:] {
		own[x] = true
	}
	for i, x := range out {
		if seen[x] || !own[x] {
			if x = g.op("Identity", []*value{x}); x == nil {
				return nil
			}
			out[i] = x
		}
		seen[x] = true
	}
	return out
}

func (g *generator) carriesMany(x *value, n int) []*value {
	n = 5 + n/5
	starts := []*value{x}
	for range 3 {
		if y := g.link(x, starts); y != nil {
			starts = append(starts, y)
		}
	}
	in := []*value{g.typed("t", ir.Tensor(tensor.Int64), tensor.Scalar(int64(0))),
		g.typed("cond", ir.Tensor(tensor.Bool), tensor.FromSlice([]bool{true}))}
	var carried, first []*value
	for range n {
		s := starts[g.IntN(len(starts))]
		first = append(first, s)
		carried = append(carried, g.typed("carried", s.v.Type, s.d))
	}
	scans, turns := g.IntN(n), g.IntN(n)
	body := g.within("body", append(in, carried...), func() []*value {
		more := g.op("Identity", in[1:2])
		if more == nil {
			return nil
		}
		out := []*value{more}
		for i := range n {
			y := carried[(i+turns)%n] // they change places
			if g.IntN(3) > 0 {
				if z := g.link(y, carried); z != nil {
					y = z
				}
			}
			out = append(out, y)
		}
		for range scans {
			out = append(out, out[1+g.IntN(n)])
		}
		return g.distinct(out)
	})
	if body == nil {
		return nil
	}
	trips := g.newInput(tensor.Int64, ir.Shape{}, nil, fill{kind: whole, lo: 1, hi: 4, seed: uint64(g.IntN(99))})
	if g.IntN(2) == 0 {
		trips = g.constant(tensor.Scalar(int64(g.IntN(4))))
	}
	return g.ops("", "Loop", n+scans, append([]*value{trips, nil}, first...), ir.A("body", body))
}

func (g *generator) branchesMany(x *value, n int) []*value {
	n = 5 + n/4
	all := []*value{x}
	for range 3 {
		if y := g.link(x, all); y != nil {
			all = append(all, y)
		}
	}
	cond := g.newInput(tensor.Bool, ir.Shape{}, nil, g.fillOf(normal))
	var subs []*ir.Graph
	for _, name := range []string{"then", "else"} {
		subs = append(subs, g.within(name, nil, func() []*value {
			var out []*value
			for range n {
				from := all
				if len(out) > 0 && g.IntN(2) == 0 {
					from = out
				}
				y := g.link(from[g.IntN(len(from))], all)
				if y == nil {
					return nil
				}
				out = append(out, y)
			}
			return g.distinct(out)
		}))
	}
	if subs[0] == nil || subs[1] == nil {
		return nil
	}
	return g.ops("", "If", n, []*value{cond}, ir.A("then_branch", subs[0]), ir.A("else_branch", subs[1]))
}

// doubles adds a loop whose body doubles a string, a tensor or a sequence, and nodes that read the result.
func (g *generator) doubles() {
	g.plain = true
	var start *value
	var typ ir.Type
	var step func(v *value) *value
	last := 1 + g.IntN(3)
	shape := []int{1 + g.IntN(2), last}
	numbers := g.IntN(2) == 0
	elem := tensor.String
	if numbers {
		elem = pick(g.Source, tensor.Float32, tensor.Float32, tensor.Int64, tensor.Uint8, tensor.Bool)
	}
	x := g.fresh(elem, shape, g.fillOf(normal))
	open := &ir.TensorType{Elem: elem, Shape: ir.Shape{ir.Unknown, ir.Const(int64(last))}}
	joined := func(v *value) *value { return g.op("ConcatFromSequence", []*value{v}, ir.A("axis", 0)) }
	trips := g.IntN(9)
	switch g.IntN(4) {
	case 0:
		start, typ = x, open
		step = func(v *value) *value { return g.op("Concat", []*value{v, v}, ir.A("axis", 0)) }
	case 1:
		if elem != tensor.String {
			start, typ = x, open
			step = func(v *value) *value { return g.op("Tile", []*value{v, g.ints(2, 1)}) }
			break
		}
		trips += g.IntN(10)
		start, typ = x, x.v.Type
		step = func(v *value) *value { return g.op("StringConcat", []*value{v, pick(g.Source, v, v, x)}) }
	default:
		in := []*value{x}
		for range g.IntN(3) {
			in = append(in, g.operand(elem, shape, normal))
		}
		start, typ = g.op("SequenceConstruct", in), &ir.SequenceType{Elem: open}
		if start == nil {
			return
		}
		if g.IntN(2) == 0 {
			step = func(v *value) *value {
				if t := joined(v); t != nil {
					return g.op("SequenceInsert", []*value{v, t})
				}
				return nil
			}
			break
		}
		trips = min(trips, 7)
		step = func(v *value) *value {
			t := joined(v)
			if t == nil {
				return nil
			}
			if t = g.op("Concat", []*value{t, t}, ir.A("axis", 0)); t == nil {
				return nil
			}
			return g.op("SplitToSequence", []*value{t}, ir.A("axis", 0))
		}
	}
	in := []*value{g.typed("t", ir.Tensor(tensor.Int64), tensor.Scalar(int64(0))),
		g.typed("cond", ir.Tensor(tensor.Bool), tensor.FromSlice([]bool{true})), g.typed("carried", typ, start.d)}
	body := g.within("body", in, func() []*value {
		more, next := g.op("Identity", in[1:2]), step(in[2])
		if more == nil || next == nil {
			return nil
		}
		return []*value{more, next}
	})
	if body == nil {
		return
	}
	count := g.constant(tensor.Scalar(int64(trips)))
	if g.IntN(2) == 0 {
		count = g.newInput(tensor.Int64, ir.Shape{}, nil, fill{kind: whole, lo: trips, hi: trips + 1})
	}
	long := g.ops("", "Loop", 1, []*value{count, nil, start}, ir.A("body", body))
	if len(long) == 0 {
		return
	}
	for range 1 + g.IntN(5) {
		if y := g.tail(long[g.IntN(len(long))]); y != nil {
			long = append(long, y)
		}
	}
}

// tail applies an operator that copies, joins or splits strings, tensors or sequences.
func (g *generator) tail(x *value) *value {
	all := []*value{x}
	if _, ok := x.v.Type.(*ir.SequenceType); ok {
		switch g.IntN(7) {
		case 0:
			return g.op("SequenceLength", all)
		case 1:
			return g.op("SequenceAt", []*value{x, g.constant(tensor.Scalar(int64(-1 + g.IntN(3))))})
		case 2:
			return g.op("SequenceErase", all)
		case 3:
			if item := g.op("SequenceAt", []*value{x, g.constant(tensor.Scalar(int64(0)))}); item != nil {
				return g.op("SequenceInsert", []*value{x, item, g.constant(tensor.Scalar(int64(g.IntN(2))))})
			}
		case 4:
			return g.op("ConcatFromSequence", all, ir.A("axis", g.IntN(2)))
		case 5:
			return g.op("ConcatFromSequence", all, ir.A("axis", 0), ir.A("new_axis", 1))
		}
		return g.op("Identity", all)
	}
	rank := len(x.shape())
	vector := func(v int64) *value {
		list := make([]int64, rank)
		for i := range list {
			list[i] = 1
		}
		if rank > 0 {
			list[0] = v
		}
		return g.ints(list...)
	}
	if x.elem() == tensor.String && g.IntN(2) == 0 {
		switch g.IntN(6) {
		case 0:
			return first(g.ops("", "StringSplit", 2, all, ir.A("delimiter", pick(g.Source, "", "a", "1.5"))))
		case 1:
			return g.op("RegexFullMatch", all, ir.A("pattern", pick(g.Source, "a*", "(1.5|-7)+", ".*z.*")))
		case 2:
			if flat := g.op("Reshape", []*value{x, g.ints(-1)}); flat != nil {
				return g.op("StringNormalizer", []*value{flat},
					ir.A("case_change_action", pick(g.Source, "UPPER", "LOWER")))
			}
		case 3:
			return g.op("Equal", []*value{x, g.operand(tensor.String, x.shape(), normal)})
		case 4:
			return g.op("StringConcat", []*value{x, x})
		case 5:
			return first(g.ops("", "Unique", 4, all))
		}
		return nil
	}
	switch g.IntN(8) {
	case 0:
		return g.op("Tile", []*value{x, vector(2)})
	case 1:
		if wide := g.op("Unsqueeze", []*value{x, g.ints(0)}); wide != nil {
			return g.op("Expand", []*value{wide, g.ints(append([]int64{3}, slices.Repeat([]int64{1}, rank)...)...)})
		}
	case 2:
		return g.op("Gather", []*value{x, g.ints(0, -1, 0)})
	case 3:
		if rank > 0 {
			pads := make([]int64, 2*rank)
			pads[0], pads[rank] = 1, 2
			return g.op("Pad", []*value{x, g.ints(pads...)})
		}
	case 4:
		return g.op("Concat", []*value{x, x}, ir.A("axis", 0))
	case 5:
		return g.op("Slice", []*value{x, g.ints(-1), g.ints(-1 << 40), g.ints(0), g.ints(-1)})
	case 6:
		return g.op("Transpose", all)
	case 7:
		return g.op("SplitToSequence", all, ir.A("axis", 0))
	}
	return nil
}
