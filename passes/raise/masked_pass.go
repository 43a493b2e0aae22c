package raise

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
)

// Masked recognizes masks with which package lower selects the steps of each sequence.
var Masked = &passes.Pass{
	Name: "raise-masked",
	Doc: "Where over the steps before lengths, as `essmc export` writes it → essm.StepMask; with a sum or a mean after it, " +
		"or only the last step → essm.Pick. Only in files of `essmc export`: the operators refuse lengths beyond the " +
		"sequence.",
	Before: []passes.Reason{
		beforeUpgrade,
		beforeCanonical,
	},
	Run: raiseMasked,
}

func raiseMasked(c *passes.Context, g *ir.Graph) (int, error) {
	if g.Meta[ir.MetaTime] == "" {
		return 0, nil
	}
	changes := 0
	for _, n := range slices.Clone(g.Nodes) {
		c.Check()
		m := findMask(g, n)
		if m == nil {
			continue
		}
		if c.Search().Spend(workOfWalk(g)) != nil {
			return changes, nil
		}
		b := passes.Edit(g)
		b.Scope(n.Scope)
		old, mode := m.reduction(g)
		made := &ir.Value{}
		switch {
		case mode != "":
			made = b.Op("essm", "Pick", []*ir.Value{m.x, m.lengths}, ir.A("mode", mode))
		case m.last:
			continue
		default:
			made = b.Op("essm", "StepMask", []*ir.Value{m.x, b.Ints(0), m.lengths}, ir.A("axis", 1), ir.A("value", m.value))
		}
		if err := b.Err(); err != nil {
			return changes, err
		}
		name := n.String()
		if !passes.Replace(g, old, made) {
			missed(c, "mask of steps", n, "%s cannot be replaced", old.Name)
			continue
		}
		if err := passes.Finish(g); err != nil {
			return changes, err
		}
		changes++
		c.Note("mask of steps: %s and the operators around it → %s", name, made.Def.Op.FullName())
	}
	return changes, nil
}

// mask is a Where that keeps the steps of x (samples, steps, …) before lengths, or the last of them.
type mask struct {
	x, lengths, y *ir.Value
	value         float64 // value after the length
	last          bool
}

// findMask reads the nodes before a Where. It returns nil if they are not those of package lower.
func findMask(g *ir.Graph, n *ir.Node) *mask {
	if n.Op.FullName() != "Where" || len(n.In(1).Shape()) < 2 {
		return nil
	}
	m := &mask{x: n.In(1), y: n.Out(0)}
	var ok bool
	if m.value, ok = scalarOf(n.In(2)); !ok {
		return nil
	}
	cond := n.In(0)
	if rank := len(m.x.Shape()); rank > 2 {
		axes, ok := ops.ConstInts(inputOf(cond, "Unsqueeze", 1))
		if !ok || len(axes) != rank-2 {
			return nil
		}
		for i, a := range axes {
			if a != int64(i+2) {
				return nil
			}
		}
		cond = back(cond, "Unsqueeze")
	}
	until := inputOf(cond, "Less", 1)
	if m.last = isOp(cond, "Equal"); m.last {
		until = inputOf(cond, "Equal", 1)
		if !isInts(inputOf(until, "Sub", 1), 1) {
			return nil
		}
		until = back(until, "Sub")
	}
	if until == nil || !isInts(inputOf(until, "Unsqueeze", 1), 1) {
		return nil
	}
	m.lengths = back(until, "Unsqueeze")
	numbers := cond.Def.In(0)
	count := inputOf(numbers, "Range", 1)
	if !isInts(inputOf(numbers, "Range", 0), 0) || !isInts(inputOf(numbers, "Range", 2), 1) ||
		!isInts(inputOf(back(count, "Squeeze"), "Gather", 1), 1) || back(count, "Squeeze", "Gather", "Shape") != m.x {
		return nil
	}
	if !slices.Contains(g.Inputs, m.lengths) || m.lengths.Elem() != tensor.Int64 || len(m.lengths.Shape()) != 1 {
		return nil
	}
	return m
}

// reduction returns the mode of the Pick that contains the mask, and its output. Without one, it returns "" and the
// output of the mask.
func (m *mask) reduction(g *ir.Graph) (*ir.Value, string) {
	uses := g.Uses()
	only := func(v *ir.Value, name string) *ir.Node {
		if u := uses[v]; len(u) == 1 && u[0].Node != nil && u[0].Index == 0 && u[0].Node.Op.FullName() == name {
			return u[0].Node
		}
		return nil
	}
	sum := only(m.y, "ReduceSum")
	if sum == nil || m.value != 0 || len(m.x.Shape()) != 3 || !isInts(sum.In(1), 1) || sum.Attrs.Bool("keepdims", true) {
		return m.y, ""
	}
	y := sum.Out(0)
	if m.last {
		return y, "last"
	}
	if div := only(y, "Div"); div != nil && back(div.In(1), "Cast", "Unsqueeze") == m.lengths {
		return div.Out(0), "pool"
	}
	return y, "sum"
}

// isInts reports whether v is a constant with these numbers.
func isInts(v *ir.Value, want ...int64) bool {
	x, ok := ops.ConstInts(v)
	return ok && slices.Equal(x, want)
}
