package lower

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// lowerSubsetProducts lowers products of last steps to gathers. Subset t of k elements has the largest element d with
// C(d,k) ≤ t, and below it subset t - C(d,k) of k-1 elements.
func lowerSubsetProducts(l *lowerer, n *ir.Node) []*ir.Value {
	u, size := n.Inputs[0], n.Attrs.Int("size", 2)
	steps := l.op("Squeeze", l.op("Slice", l.op("Shape", u), l.Ints(1), l.Ints(2)))
	zero, next := l.integer("zero", 0), l.integer("one", 1)
	// No element is above size + (size!·L)^{1/size}, since C(d,k) ≥ (d-k+1)ᵏ/k!.
	subsets := 1.0
	for i := range size {
		subsets *= float64(i + 1)
	}
	number := func(name string, x float64) *ir.Value { return l.number(name, tensor.Float64, []float64{x}) }
	bound := l.op("Pow", l.op("Mul", l.with("Cast", []*ir.Value{steps}, ir.A("to", int(tensor.Float64))),
		number("orders", subsets)),
		number("root", 1/float64(size)))
	bound = l.op("Squeeze", l.with("Cast", []*ir.Value{l.op("Ceil", bound)}, ir.A("to", int(tensor.Int64))))
	elements := l.op("Range", zero, l.op("Add", bound, l.integer("more", size+2)), next)
	// count returns the numbers of subsets of k of so many elements, for each k up to size: exact divisions.
	count := func(of *ir.Value) []*ir.Value {
		var all []*ir.Value
		for i := range size {
			factor := l.op("Max", l.op("Sub", of, l.integer("below", i)), zero)
			if i > 0 {
				factor = l.op("Div", l.op("Mul", all[i-1], factor), l.integer("factor", i+1))
			}
			all = append(all, factor)
		}
		return all
	}
	counts := count(elements)
	rest := l.op("Range", zero, steps, next)
	back := l.op("Sub", steps, next)
	steppers := make([]*ir.Value, size) // the elements of each subset, in ascending order
	for k := size - 1; k >= 0; k-- {
		below := l.op("LessOrEqual", l.op("Unsqueeze", counts[k], l.Ints(0)), l.op("Unsqueeze", rest, l.Ints(1)))
		d := l.with("ReduceSum", []*ir.Value{l.with("Cast", []*ir.Value{below}, ir.A("to", int(tensor.Int64))),
			l.Ints(1)},
			ir.A("keepdims", 0))
		d = l.op("Sub", d, next)
		if k > 0 {
			rest = l.op("Sub", rest, l.op("Gather", counts[k], d))
		}
		steppers[k] = d
	}
	var y *ir.Value
	for _, d := range steppers {
		v := l.with("Gather", []*ir.Value{u, l.op("Max", l.op("Sub", back, d), zero)}, ir.A("axis", 1))
		if y == nil {
			y = v
		} else {
			y = l.op("Mul", y, v)
		}
	}
	// The last L-1 steps must have L subsets. Their number may exceed int64, and is computed in float64.
	enough := number("all", 1)
	wide := l.with("Cast", []*ir.Value{back}, ir.A("to", int(tensor.Float64)))
	for i := range size {
		factor := l.op("Max", l.op("Sub", wide, number("below", float64(i))), number("none", 0))
		enough = l.op("Div", l.op("Mul", enough, factor), number("factor", float64(i+1)))
	}
	reach := l.op("GreaterOrEqual", enough, l.with("Cast", []*ir.Value{steps}, ir.A("to", int(tensor.Float64))))
	return one(l.op("Where", reach, y, l.number("nothing", u.Elem(), []float64{0})))
}
