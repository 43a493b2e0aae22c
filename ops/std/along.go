package std

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

type along = func(n *ir.Node, in []ir.Fact) []ir.Fact

// spread returns the fact f for every output of a node.
func spread(n *ir.Node, f ir.Fact) []ir.Fact {
	out := make([]ir.Fact, len(n.Outputs))
	for i := range out {
		n.Step(1)
		out[i] = f
	}
	return out
}

// alongMove is the Along of operators that only move the axis. axis returns its new place; a negative one makes the
// output global. Inputs after the first must not vary, unless the output's shape shows that they hold sizes.
func alongMove(axis func(n *ir.Node, axis int) int) along {
	return func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := in[0]
		f.State = 0
		for i := 1; i < len(in); i++ {
			if n.Step(1); !in[i].Constant() && !onlySizes(n, i) {
				return spread(n, ops.Global(n, in))
			}
		}
		if f.Constant() || f.Global || f.Axis < 0 {
			return spread(n, f)
		}
		if f.Axis = axis(n, f.Axis); f.Axis < 0 {
			return spread(n, ops.Global(n, in))
		}
		return spread(n, f)
	}
}

// onlySizes reports whether input i is a vector of sizes that are known in terms of the graph's dimensions.
func onlySizes(n *ir.Node, i int) bool {
	d, ok := ops.DimsOf(n.In(i))
	return ok && !slices.ContainsFunc(d, ir.Dim.IsUnknown)
}

// alongKeep is the Along of operators that mix some axes of their first input and treat the others separately, without
// moving them.
func alongKeep(mixes func(n *ir.Node, axis, rank int) bool) along {
	return alongMove(func(n *ir.Node, axis int) int {
		if mixes(n, axis, len(n.In(0).Shape())) {
			return -1
		}
		return axis
	})
}

// shift moves a fact's window: step t of the result is step t+by of the value, in the value's steps. One side of a
// window that no longer contains the step itself is negative.
func shift(f ir.Fact, by int64) ir.Fact {
	if f.Back < ir.Unbounded {
		f.Back -= by * f.Stride
	}
	if f.Ahead < ir.Unbounded {
		f.Ahead += by * f.Stride
	}
	return f
}

// summed returns the fact of a value in which node n has summed up all steps. The state is as large as the output per
// sample.
func summed(n *ir.Node, f ir.Fact) ir.Fact {
	f.Axis, f.Back, f.Summary, f.Cause = -1, ir.Unbounded, true, n
	f.State = stateSize(n.Outputs[0].Shape())
	return f
}

// stateSize multiplies the dimensions that are numbers. Batch and time are symbols, so they do not count.
func stateSize(s ir.Shape) int64 {
	n := int64(1)
	for _, d := range s {
		if k, ok := d.Known(); ok {
			n *= k
		}
	}
	return n
}
