package opstest

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// AlongIsStated checks that operators without Along need none: where each step of an output depends on the same step of
// an input, along some axis of each sample, Along must say so, or models with the operator cannot stream. without has
// the operators that need none in spite of that, with reasons: whether samples show it may depend on their numbers.
func (u Suite) AlongIsStated(t *testing.T, without map[string]string) {
	by := map[*ir.Op]int{} // samples with such an axis; less than 0: a sample has none
	u.Each(t, func(t *testing.T, op *ir.Op, s Sample) {
		if op.Along != nil || op.Random || by[op] < 0 {
			return
		}
		if by[op]++; !stepwise(t, op, s) {
			by[op] = -1
		}
	})
	var found []string
	for op, samples := range by {
		if samples > 0 && ops.Newest(op) {
			found = append(found, op.FullName())
		}
	}
	slices.Sort(found)
	for _, name := range found {
		if without[name] == "" {
			t.Errorf("%s: each step of the output depends on one step of an input, expected Along (as ops.AlongRows)",
				name)
		}
	}
	for name := range without {
		op := ops.Default.Resolve(u.Domain, strings.TrimPrefix(name, u.Domain+"."), math.MaxInt32)
		if op != nil && op.FullName() == name && op.Along != nil {
			t.Errorf("%s is listed, and states Along", name)
		}
	}
}

// stepwise reports whether an input has an axis of which each step changes the same step of the first output only.
func stepwise(t *testing.T, op *ir.Op, s Sample) bool {
	n := Node(t, op, s, func(_, _, size int) ir.Dim { return ir.Const(int64(size)) })
	out, err := Eval(n, s.In, false)
	if err != nil {
		return false
	}
	before := ops.Tensor(out, 0)
	for i, d := range s.In {
		x, ok := d.(*tensor.Tensor)
		if !ok || x.DType() != tensor.Float32 || slices.Contains(s.Consts, i) || x.Len() == 0 || before == nil ||
			before.DType() == tensor.String {
			continue
		}
		for axis := range min(x.Rank(), before.Rank()) {
			if x.Dim(axis) < 2 || x.Dim(axis) != before.Dim(axis) {
				continue
			}
			if along(n, s, i, axis, x, before) {
				return true
			}
		}
	}
	return false
}

// along reports whether each step of input i changes the same step of the output, and no other.
func along(n *ir.Node, s Sample, i, axis int, x, before *tensor.Tensor) bool {
	for step := range x.Dim(axis) {
		in := slices.Clone(s.In)
		in[i] = disturb(x, axis, step)
		out, err := Eval(n, in, false)
		if err != nil {
			return false
		}
		after := ops.Tensor(out, 0)
		fact := ir.Fact{Symbol: "L", Axis: axis, Stride: 1}
		if after == nil || tensor.Equal(before, after) || within(fact, before, after, step) != nil {
			return false
		}
	}
	return true
}
