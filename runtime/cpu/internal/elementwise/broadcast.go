package elementwise

import (
	"slices"

	"github.com/essmc/essmc/ops"
)

// Broadcast is how operands of an elementwise operator are read: the output as rows of inner numbers, and for each row where
// it begins in each operand. Axes along which all operands go on alike are one.
type Broadcast struct {
	dims  []int   // outer axes
	steps [][]int // per operand and outer axis: how far apart
	Inner int
	Unit  []bool // per operand: whether it goes along the row, or is one number for it
	Rows  int
}

func NewBroadcast(out []int, in ...[]int) *Broadcast {
	b := &Broadcast{Rows: 1, Inner: 1}
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
		b.Inner = dims[n]
		for i := range in {
			b.Unit = append(b.Unit, steps[i][n] != 0)
			steps[i] = steps[i][:n]
		}
		dims = dims[:n]
	} else {
		b.Unit = make([]bool, len(in))
	}
	b.dims, b.steps = dims, steps
	for _, d := range dims {
		b.Rows *= d
	}
	if slices.Contains(out, 0) {
		b.Rows = 0
	}
	return b
}

// At gives where a row begins in operand i.
func (b *Broadcast) At(i, row int) int {
	if len(b.dims) == 0 {
		return 0
	}
	steps, off := b.steps[i][:len(b.dims)], 0
	for a := len(b.dims) - 1; a > 0; a-- {
		q := row / b.dims[a]
		off += (row - q*b.dims[a]) * steps[a]
		row = q
	}
	return off + row*steps[0] // the outermost axis needs no division
}

// broadcastItem is how many numbers of the output a work item computes.
const broadcastItem = 1 << 15

// Items says how many rows a work item takes, and how many work items there are.
func (b *Broadcast) Items() (rows, n int) {
	rows = max(1, broadcastItem/max(1, b.Inner))
	return rows, (b.Rows + rows - 1) / rows
}
