package idiom

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// asReversal reports whether a node returns its first input with one axis in the opposite order, and that axis. Such
// nodes are a Slice of step -1, a Gather with decreasing indices, and a ReverseSequence of whole sequences.
func asReversal(n *ir.Node) (axis int, ok bool) {
	if n == nil || n.Op.Domain != "" || len(n.Inputs) == 0 || n.In(0) == nil {
		return 0, false
	}
	s := n.In(0).Shape()
	switch n.Op.Name {
	case "Slice":
		p, ok := regions.AsSlice(n)
		if !ok || p.Step != -1 {
			return 0, false
		}
		if d, known := s[p.Axis].Known(); known {
			_, count := p.Count(d)
			return p.Axis, count == d
		}
		return p.Axis, (p.From == -1 || p.From >= math.MaxInt32) && p.To <= math.MinInt32
	case "Gather":
		a, err := ops.Axis(n.Attrs.Int("axis", 0), len(s))
		if err != nil || len(n.In(1).Shape()) != 1 {
			return 0, false
		}
		return a, falling(n.In(1), s[a])
	case "ReverseSequence":
		a := int(n.Attrs.Int("time_axis", 0))
		if a >= len(s) || a < 0 || n.In(1) == nil {
			return 0, false
		}
		return a, allEqual(n.In(1), s[a])
	}
	return 0, false
}

// whyNotReversal returns why asReversal does not accept a node, if the node reverses parts of sequences.
func whyNotReversal(n *ir.Node) string {
	if n == nil || n.Op.Domain != "" {
		return ""
	}
	switch n.Op.Name {
	case "Slice":
		if p, ok := regions.AsSlice(n); ok && p.Step == -1 {
			return fmt.Sprintf("%v reverses the steps from %d on, expected all of them, from -1", n, p.From)
		}
	case "ReverseSequence":
		return fmt.Sprintf("%v reverses parts of sequences, of lengths %s; expected all steps", n, n.In(1).Name)
	}
	return ""
}

// falling reports whether the elements of v are d-1, d-2, …, 0.
func falling(v *ir.Value, d ir.Dim) bool {
	if x, ok := ops.ConstInts(v); ok {
		n, known := d.Known()
		if !known || int64(len(x)) != n {
			return false
		}
		for i, k := range x {
			if k != n-1-int64(i) && k != -1-int64(i) {
				return false
			}
		}
		return true
	}
	if regions.IsOp(v, "Range") {
		return dimIs(v.Def.In(0), d.Sub(ir.Const(1))) && dimIs(v.Def.In(1), ir.Const(-1)) &&
			dimIs(v.Def.In(2), ir.Const(-1))
	}
	if regions.IsOp(v, "Sub") && regions.IsOp(v.Def.In(1), "Range") { // d-1 - (0, 1, …)
		r := v.Def.In(1).Def
		return dimIs(v.Def.In(0), d.Sub(ir.Const(1))) && dimIs(r.In(0), ir.Const(0)) && dimIs(r.In(1), d) &&
			dimIs(r.In(2), ir.Const(1))
	}
	return false
}

// dimIs reports whether v is one number, the dimension d.
func dimIs(v *ir.Value, d ir.Dim) bool {
	s, ok := ops.DimsOf(v)
	return ok && len(s) == 1 && s[0].Equal(d)
}

// allEqual reports whether all elements of v, which has a length per sample, are d: constants, or that dimension
// repeated.
func allEqual(v *ir.Value, d ir.Dim) bool {
	if x, ok := ops.ConstInts(v); ok {
		n, known := d.Known()
		for _, k := range x {
			known = known && k == n
		}
		return known
	}
	for regions.IsOp(v, "Expand") || regions.IsOp(v, "Tile") || regions.IsOp(v, "Identity") {
		v = v.Def.In(0)
	}
	return dimIs(v, d)
}

// asDelay reports whether a node returns its argument one step later along axis 1, with zeros at the first step, and
// that argument. It is a Pad and a Slice in either order.
func asDelay(n *ir.Node) (x *ir.Value, ok bool) {
	if n == nil || n.Op.Domain != "" {
		return nil, false
	}
	v := n.Outputs[0]
	switch n.Op.Name {
	case "Slice":
		if x, ok := asDropLast(v); ok {
			return asPadFirst(x)
		}
	case "Pad":
		if x, ok := asPadFirst(v); ok {
			return asDropLast(x)
		}
	}
	return nil, false
}

// asDropLast recognizes a Slice that removes the last step of axis 1.
func asDropLast(v *ir.Value) (*ir.Value, bool) {
	if !regions.IsOp(v, "Slice") {
		return nil, false
	}
	p, ok := regions.AsSlice(v.Def)
	return v.Def.In(0), ok && p == regions.Slice{Axis: 1, From: 0, To: -1, Step: 1}
}

// asPadFirst recognizes a Pad that inserts one step of zeros at the start of axis 1 of (B, L, H).
func asPadFirst(v *ir.Value) (*ir.Value, bool) {
	if !regions.IsOp(v, "Pad") || v.Def.In(3) != nil || v.Def.Attrs.Str("mode", "constant") != "constant" {
		return nil, false
	}
	n := v.Def
	x, ok := ops.ConstInts(n.In(1))
	if !ok || len(x) != 6 {
		return nil, false
	}
	for i, p := range x {
		if i == 1 && p != 1 || i != 1 && p != 0 {
			return nil, false
		}
	}
	if fill := n.In(2); fill != nil {
		if k, ok := asScalar(fill); !ok || k != 0 {
			return nil, false
		}
	}
	return n.In(0), true
}
