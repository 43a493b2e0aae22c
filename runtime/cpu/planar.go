package cpu

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// planarWindow is how a window moves over the last one or two axes of a tensor, for one shape; one axis is a picture of one row.
type planarWindow struct {
	n, c, h, wd            int
	sh, sw, dh, dw         int
	top, left, bottom, end int // pads
	oh, ow                 int
	hp, wp                 int // of the padded input
}

// planar reads the attributes of an operator that moves a window of kh by kw over the last one or two axes.
func planar(n *ir.Node, in, out []int, kh, kw int) (c planarWindow, ok bool) {
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
	c = planarWindow{n: in[0], c: in[1], h: 1, sh: 1, dh: 1, oh: 1}
	last := rank - 1
	c.wd, c.ow, c.sw, c.dw, c.left, c.end = in[rank+1], out[rank+1], strides[last], dilations[last], pads[last], pads[rank+last]
	if rank == 2 {
		c.h, c.oh, c.sh, c.dh, c.top, c.bottom = in[2], out[2], strides[0], dilations[0], pads[0], pads[2]
	}
	c.hp, c.wp = c.h+c.top+c.bottom, c.wd+c.left+c.end
	const most = 1 << 30 // offsets are 32 bits wide
	size, err := tensor.Size([]int{c.n, c.c, c.hp, c.wp})
	ok = err == nil && size < most && c.oh > 0 && c.ow > 0 && c.n > 0 && c.sh > 0 && c.sw > 0 &&
		(c.oh-1)*c.sh+(kh-1)*c.dh < c.hp && (c.ow-1)*c.sw+(kw-1)*c.dw < c.wp
	if c.oh == 1 { // a stride that leads nowhere, however long
		c.sh = 1
	}
	if c.ow == 1 {
		c.sw = 1
	}
	return c, ok
}
