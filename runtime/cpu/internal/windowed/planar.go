package windowed

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// PlanarWindow is how a window moves over the last one or two axes of a tensor, for one shape; one axis is a picture of
// one row.
type PlanarWindow struct {
	N, C, H, Wd    int
	Sh, Sw, Dh, Dw int
	Top, Left      int // pads before the first row and column
	Oh, Ow         int
	Hp, Wp         int // of the padded input
}

// Planar reads the attributes of an operator that moves a window of kh by kw over the last one or two axes of a tensor of
// shape in. ok is false where they do not fit; c is of use then only if Oh and Ow are positive.
func Planar(n *ir.Node, in, out []int, kh, kw int) (c PlanarWindow, ok bool) {
	rank := len(in) - 2
	if rank != 1 && rank != 2 || len(out) != len(in) {
		return c, false
	}
	windows, err := ops.Windows(n, rank)
	if err != nil {
		return c, false
	}
	col := windows[rank-1].Bind(int64(in[rank+1]), int64(kw))
	c = PlanarWindow{N: in[0], C: in[1], H: 1, Sh: 1, Dh: 1, Oh: 1, Hp: 1, Wd: in[rank+1], Ow: out[rank+1],
		Sw: int(col.Stride), Dw: int(col.Dilation), Left: int(col.Begin), Wp: in[rank+1] + int(col.Begin+col.End)}
	if rank == 2 {
		row := windows[0].Bind(int64(in[2]), int64(kh))
		c.H, c.Oh, c.Hp = in[2], out[2], in[2]+int(row.Begin+row.End)
		c.Sh, c.Dh, c.Top = int(row.Stride), int(row.Dilation), int(row.Begin)
	}
	const most = 1 << 30 // offsets are 32 bits wide
	size, err := tensor.Size([]int{c.N, c.C, c.Hp, c.Wp})
	ok = err == nil && size < most && c.Oh > 0 && c.Ow > 0 && c.N > 0 &&
		(c.Oh-1)*c.Sh+(kh-1)*c.Dh < c.Hp && (c.Ow-1)*c.Sw+(kw-1)*c.Dw < c.Wp
	if c.Oh == 1 { // a stride that leads nowhere, however long
		c.Sh = 1
	}
	if c.Ow == 1 {
		c.Sw = 1
	}
	return c, ok
}
