package lower

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// convolution computes a system with a window as a Conv with a group per state or head. A step reads ℓ taps before
// it and, in a bidirectional system, ℓ taps after it. The state is the inputs in the window. Its part for the
// recurrence follows from them.
func (l *lowerer) convolution(n *ir.Node, y *system) []*ir.Value {
	u, elem := n.Inputs[0], n.Inputs[0].Elem()
	state := n.In(len(n.Op.In) - 1)
	keep := state != nil || n.Out(1) != nil
	form := l.formOf(y, keep)
	w := y.window
	cell := y.cellOf(form, w)
	var v *ir.Value // (samples, groups·inputs, steps)
	var past *ir.Value
	turn := func(x *ir.Value) *ir.Value {
		return l.with("Transpose", []*ir.Value{x}, ir.A("perm", []int64{0, 2, 1}))
	}
	if form == headForm {
		v = turn(u)
		if y.c > 1 {
			all := make([]*ir.Value, y.c)
			for i := range all {
				all[i] = v
			}
			v = l.with("Concat", all, ir.A("axis", 1))
		}
	} else {
		v = l.headLinear(u, l.fourDims("B", elem, y, y.in, y.k, y.h, false))
		parts := []*ir.Value{v}
		if y.complexIn {
			parts = append(parts, l.headLinear(u, l.fourDims("B", elem, y, y.in, y.k, y.h, true)))
		}
		features := int64(y.heads() * y.k)
		if keep {
			past = l.pastInputs(state, u, y, len(parts))
			v = parts[0]
			if len(parts) > 1 {
				v = l.with("Concat", parts, ir.A("axis", 2))
			}
			v = l.with("Concat", []*ir.Value{past, v}, ir.A("axis", 1)) // (samples, window + steps, parts·states)
			past = v
			if len(parts) > 1 {
				parts = l.several("Split", 2, []*ir.Value{v, l.Ints(features, features)}, ir.A("axis", 2))
			} else {
				parts = []*ir.Value{v}
			}
		}
		v = turn(parts[0])
		if len(parts) > 1 { // the two parts of a state are neighbors
			re, im := l.op("Unsqueeze", v, l.Ints(2)), l.op("Unsqueeze", turn(parts[1]), l.Ints(2))
			v = l.with("Concat", []*ir.Value{re, im}, ir.A("axis", 2))
			v = l.op("Reshape", v, l.with("Concat", []*ir.Value{l.Ints(0, 2*features), l.stepsOf(parts[0])},
				ir.A("axis", 0)))
		}
	}
	before, after := 0, 0
	if y.forward() {
		before = w - 1
	}
	if y.backward() {
		after = w
	}
	weight := l.fill("taps", elem, func(at []int) float64 {
		g, q, lag := at[0]/cell.q, at[0]%cell.q, before-at[2]
		switch {
		case lag < 0:
			return cell.kernel(g, q, at[1], -lag-1)
		case y.forward():
			return cell.kernel(g, q, at[1], lag)
		}
		return 0 // the step itself, in a backward system
	}, cell.groups*cell.q, cell.p, before+1+after)
	pads := []int64{int64(before), int64(after)}
	if keep {
		pads[0] = 0
	}
	x := l.with("Conv", []*ir.Value{v, weight}, ir.A("group", cell.groups),
		ir.A("kernel_shape", []int64{int64(before + 1 + after)}), ir.A("pads", pads))
	if keep { // the window before the first step is one step longer than its output needs
		x = l.op("Slice", x, l.Ints(1), l.Ints(1<<62), l.Ints(2))
	}
	x = l.afterConv(x, y, cell, form)
	outs := []*ir.Value{x, nil}
	if n.Out(1) != nil {
		outs[1] = l.windowState(past, y, elem)
	}
	return outs
}

func (l *lowerer) stepsOf(v *ir.Value) *ir.Value {
	return l.with("Gather", []*ir.Value{l.op("Shape", v), l.Ints(1)}, ir.A("axis", 0))
}

// fourDims returns a head matrix in the layout of the operators, (C,S,r,q).
func (l *lowerer) fourDims(name string, elem tensor.DType, y *system, z []complex128, r, q int,
	imaginary bool) *ir.Value {
	return l.number(name, elem, component(z, imaginary), y.c, y.s, r, q)
}

// pastInputs returns the inputs of the window before the first step, (samples, window, parts·states).
func (l *lowerer) pastInputs(state, u *ir.Value, y *system, parts int) *ir.Value {
	features := int64(y.heads() * y.k)
	w := int64(y.window)
	if state == nil {
		samples := l.with("Gather", []*ir.Value{l.op("Shape", u), l.Ints(0)}, ir.A("axis", 0))
		zero := l.number("zero", u.Elem(), []float64{0}, 1)
		return l.op("Expand", l.op("Reshape", zero, l.Ints(1, 1, 1)),
			l.with("Concat", []*ir.Value{samples, l.Ints(w, int64(parts)*features)}, ir.A("axis", 0)))
	}
	front := 2 * features
	if y.dense {
		front = features
	}
	past := l.op("Slice", state, l.Ints(front), l.Ints(1<<62), l.Ints(1))
	return l.op("Reshape", past, l.Ints(-1, w, int64(parts)*features))
}

// afterConv multiplies the convolution's outputs (samples, groups·outputs, steps) by C if the taps do not include it.
func (l *lowerer) afterConv(x *ir.Value, y *system, cell *cell, form groupForm) *ir.Value {
	turn := func(x *ir.Value) *ir.Value {
		return l.with("Transpose", []*ir.Value{x}, ir.A("perm", []int64{0, 2, 1}))
	}
	x = turn(x)
	if form != stateForm {
		return x
	}
	elem := x.Elem()
	if !y.complexOut {
		return l.headLinear(x, l.fourDims("C", elem, y, y.out, y.m, y.k, false))
	}
	x = l.op("Reshape", x, l.Ints(0, 0, int64(cell.groups), 2))
	p := l.several("Split", 2, []*ir.Value{x, l.Ints(1, 1)}, ir.A("axis", 3))
	re, im := l.op("Squeeze", p[0], l.Ints(3)), l.op("Squeeze", p[1], l.Ints(3))
	return l.op("Sub", l.headLinear(re, l.fourDims("C", elem, y, y.out, y.m, y.k, false)),
		l.headLinear(im, l.fourDims("C", elem, y, y.out, y.m, y.k, true)))
}

// windowState returns the state after the last step: the recurrence's state, and the inputs in the window.
func (l *lowerer) windowState(past *ir.Value, y *system, elem tensor.DType) *ir.Value {
	w := y.window
	features := y.heads() * y.k
	last := l.op("Slice", past, l.Ints(-int64(w)), l.Ints(1<<62), l.Ints(1)) // (samples, window, parts·states)
	flat := l.op("Reshape", last, l.Ints(0, -1))
	if y.dense {
		cell := y.denseCell(inputForm, w)
		// (samples, window, heads, k) → per head (samples, window·k) times (window·k, k)
		v := l.op("Reshape", last, l.Ints(0, int64(w), int64(y.heads()), int64(y.k)))
		v = l.op("Reshape", l.with("Transpose", []*ir.Value{v}, ir.A("perm", []int64{2, 0, 1, 3})),
			l.Ints(int64(y.heads()), -1, int64(w*y.k)))
		m := l.fill("ends", elem, func(at []int) float64 {
			return cell.enter(at[0], at[2], at[1]%y.k, w-1-at[1]/y.k)
		}, y.heads(), w*y.k, y.k)
		z := l.with("Transpose", []*ir.Value{l.op("MatMul", v, m)}, ir.A("perm", []int64{1, 0, 2}))
		return l.with("Concat", []*ir.Value{l.op("Reshape", z, l.Ints(-1, int64(features))), flat}, ir.A("axis", 1))
	}
	cell := y.cellOf(stateForm, w)
	parts := []*ir.Value{last}
	if y.complexIn {
		parts = l.several("Split", 2, []*ir.Value{last, l.Ints(int64(features), int64(features))}, ir.A("axis", 2))
	}
	var z []*ir.Value
	for i := range 2 {
		var sum *ir.Value
		for p, v := range parts {
			m := l.fill("ends", elem, func(at []int) float64 { return cell.enter(at[1], i, p, w-1-at[0]) }, w, features)
			v = l.op("Mul", v, m)
			if sum == nil {
				sum = v
			} else {
				sum = l.op("Add", sum, v)
			}
		}
		z = append(z, l.with("ReduceSum", []*ir.Value{sum, l.Ints(1)}, ir.A("keepdims", 0)))
	}
	return l.with("Concat", append(z, flat), ir.A("axis", 1))
}
