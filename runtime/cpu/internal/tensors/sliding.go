package tensors

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// sliding is how a window moves over the axes behind samples and channels, however many there are.
type sliding struct {
	in, out, taps      []int
	strides, dilations []int
	before, behind     []int // pads
}

// newSliding reads the attributes of a convolution or a pool for tensors of the given shapes.
func newSliding(n *ir.Node, in, out, taps []int) (w sliding, ok bool) {
	rank := len(taps)
	if len(in) != rank+2 || len(out) != rank+2 || in[0] != out[0] {
		return w, false
	}
	list := func(name string, def, count int) []int {
		all, v := make([]int, count), n.Attrs.Ints(name, nil)
		for i := range all {
			if all[i] = def; i < len(v) {
				all[i] = int(v[i])
			}
		}
		return all
	}
	pads := list("pads", 0, 2*rank)
	w = sliding{in[2:], out[2:], taps, list("strides", 1, rank), list("dilations", 1, rank), pads[:rank], pads[rank:]}
	auto := ops.Str(n, "auto_pad")
	for i := range rank {
		switch auto {
		case "VALID":
			w.before[i], w.behind[i] = 0, 0
		case "SAME_UPPER", "SAME_LOWER":
			total := max(0, (w.out[i]-1)*w.strides[i]+(taps[i]-1)*w.dilations[i]+1-w.in[i])
			w.before[i], w.behind[i] = total/2, total-total/2
			if auto == "SAME_LOWER" {
				w.before[i], w.behind[i] = w.behind[i], w.before[i]
			}
		}
		if w.in[i] < 1 || w.out[i] < 1 || w.strides[i] < 1 || w.dilations[i] < 1 || taps[i] < 1 || w.before[i] < 0 || w.behind[i] < 0 {
			return w, false
		}
	}
	return w, true
}

// inside reports whether every window lies in the input with its pads.
func (w *sliding) inside() bool {
	for i := range w.taps {
		if (w.out[i]-1)*w.strides[i]+(w.taps[i]-1)*w.dilations[i] >= w.in[i]+w.before[i]+w.behind[i] {
			return false
		}
	}
	return true
}

// product multiplies sizes.
func product(sizes []int) int {
	n := 1
	for _, k := range sizes {
		n *= k
	}
	return n
}

// next counts an index on, the last axis first, and reports whether it is still within the sizes.
func next(index, sizes []int) bool {
	for a := len(index) - 1; a >= 0; a-- {
		if index[a]++; index[a] < sizes[a] {
			return true
		}
		index[a] = 0
	}
	return false
}
