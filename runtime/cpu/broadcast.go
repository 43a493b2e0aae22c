package cpu

import (
	"slices"

	"github.com/essmc/essmc/ops"
)

// broadcast is how operands of an elementwise operator are read: the output as rows of inner numbers, and for each row where
// it begins in each operand. Axes along which all operands go on alike are one.
type broadcast struct {
	dims  []int   // outer axes
	steps [][]int // per operand and outer axis: how far apart
	inner int
	unit  []bool // per operand: whether it goes along the row, or is one number for it
	rows  int
}

func newBroadcast(out []int, in ...[]int) *broadcast {
	b := &broadcast{rows: 1, inner: 1}
	strides := make([][]int, len(in))
	for i, s := range in {
		strides[i] = ops.BroadcastStrides(s, out)
	}
	var dims []int
	steps := make([][]int, len(in))
	for a, d := range out {
		if d == 1 {
			continue
		}
		last := len(dims) - 1
		joins := last >= 0
		for i := range in {
			joins = joins && steps[i][last] == strides[i][a]*d
		}
		if joins {
			dims[last] *= d
			for i := range in {
				steps[i][last] = strides[i][a]
			}
			continue
		}
		dims = append(dims, d)
		for i := range in {
			steps[i] = append(steps[i], strides[i][a])
		}
	}
	if n := len(dims) - 1; n >= 0 {
		b.inner = dims[n]
		for i := range in {
			b.unit = append(b.unit, steps[i][n] != 0)
			steps[i] = steps[i][:n]
		}
		dims = dims[:n]
	} else {
		b.unit = make([]bool, len(in))
	}
	b.dims, b.steps = dims, steps
	for _, d := range dims {
		b.rows *= d
	}
	if slices.Contains(out, 0) {
		b.rows = 0
	}
	return b
}

// at gives where a row begins in operand i.
func (b *broadcast) at(i, row int) int {
	off := 0
	for a := len(b.dims) - 1; a >= 0; a-- {
		off += row % b.dims[a] * b.steps[i][a]
		row /= b.dims[a]
	}
	return off
}

// broadcastTicket is how many numbers of the output a ticket computes.
const broadcastTicket = 1 << 15

// tickets says how many rows a ticket takes, and how many tickets there are.
func (b *broadcast) tickets() (rows, n int) {
	rows = max(1, broadcastTicket/max(1, b.inner))
	return rows, (b.rows + rows - 1) / rows
}
