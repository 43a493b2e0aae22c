package elementwise

import (
	"slices"

	"github.com/essmc/essmc/ops"
)

// Broadcast describes the reading of operands under broadcasting: the output as rows of Inner numbers, and the
// beginning of each row in each operand. Axes that are contiguous in all operands are joined.
type Broadcast struct {
	dims  []int   // outer axes
	steps [][]int // strides, per operand and outer axis
	Inner int
	Unit  []bool // per operand: whether it has a number for each of a row, and not one for the row
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

// At returns the offset of a row in operand i.
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

// run returns the offset of a row in operand i, and the stride of the rows that follow it there, before end.
func (b *Broadcast) run(i, row int) (at, step, end int) {
	if len(b.dims) == 0 {
		return 0, 0, b.Rows
	}
	last := len(b.dims) - 1
	return b.At(i, row), b.steps[i][last], (row/b.dims[last] + 1) * b.dims[last]
}

// broadcastItem is the number of outputs of a work item.
const broadcastItem = 1 << 15

// Items returns the number of rows of a work item, and the number of work items.
func (b *Broadcast) Items() (rows, n int) {
	rows = max(1, broadcastItem/max(1, b.Inner))
	return rows, (b.Rows + rows - 1) / rows
}
