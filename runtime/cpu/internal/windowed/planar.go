package windowed

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// planarWindow is how a window moves over the last one or two axes of a tensor, for one shape; one axis is a picture of one row.
type PlanarWindow struct {
	N, C, H, Wd            int
	Sh, Sw, Dh, Dw         int
	Top, Left, bottom, end int // pads
	Oh, Ow                 int
	Hp, Wp                 int // of the padded input
}

// planar reads the attributes of an operator that moves a window of kh by kw over the last one or two axes.
func Planar(n *ir.Node, in, out []int, kh, kw int) (c PlanarWindow, ok bool) {
	rank := len(in) - 2
	if rank != 1 && rank != 2 || len(out) != len(in) {
		return c, false
	}
	get := func(name string, def int64, count int) []int {
		v := n.Attrs.Ints(name, nil)
		list := make([]int, count)
		for i := range list {
			list[i] = int(def)
			if i < len(v) {
				list[i] = int(v[i])
			}
		}
		return list
	}
	strides, dilations, pads := get("strides", 1, rank), get("dilations", 1, rank), get("pads", 0, 2*rank)
	taps := []int{kh, kw}[2-rank:]
	switch auto := ops.Str(n, "auto_pad"); auto {
	case "VALID":
		clear(pads)
	case "SAME_UPPER", "SAME_LOWER":
		for i := range rank {
			total := max(0, (out[i+2]-1)*strides[i]+(taps[i]-1)*dilations[i]+1-in[i+2])
			pads[i] = total / 2
			if auto == "SAME_LOWER" {
				pads[i] = total - total/2
			}
			pads[rank+i] = total - pads[i]
		}
	}
	c = PlanarWindow{N: in[0], C: in[1], H: 1, Sh: 1, Dh: 1, Oh: 1}
	last := rank - 1
	c.Wd, c.Ow, c.Sw, c.Dw, c.Left, c.end = in[rank+1], out[rank+1], strides[last], dilations[last], pads[last], pads[rank+last]
	if rank == 2 {
		c.H, c.Oh, c.Sh, c.Dh, c.Top, c.bottom = in[2], out[2], strides[0], dilations[0], pads[0], pads[2]
	}
	c.Hp, c.Wp = c.H+c.Top+c.bottom, c.Wd+c.Left+c.end
	const most = 1 << 30 // offsets are 32 bits wide
	size, err := tensor.Size([]int{c.N, c.C, c.Hp, c.Wp})
	ok = err == nil && size < most && c.Oh > 0 && c.Ow > 0 && c.N > 0 && c.Sh > 0 && c.Sw > 0 &&
		(c.Oh-1)*c.Sh+(kh-1)*c.Dh < c.Hp && (c.Ow-1)*c.Sw+(kw-1)*c.Dw < c.Wp
	if c.Oh == 1 { // a stride that leads nowhere, however long
		c.Sh = 1
	}
	if c.Ow == 1 {
		c.Sw = 1
	}
	return c, ok
}
