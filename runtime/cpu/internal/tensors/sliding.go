package tensors

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// sliding describes a window that moves over any number of axes after samples and channels.
type sliding struct {
	in, out, taps      []int
	strides, dilations []int
	before, behind     []int // pads
}

// newSliding returns the window of a convolution or a pool for tensors of the given shapes, or false if they do not
// fit.
func newSliding(n *ir.Node, in, out, taps []int) (w sliding, ok bool) {
	rank := len(taps)
	if len(in) != rank+2 || len(out) != rank+2 || in[0] != out[0] {
		return w, false
	}
	windows, err := ops.Windows(n, rank)
	if err != nil {
		return w, false
	}
	all := make([]int, 4*rank)
	w = sliding{in[2:], out[2:], taps, all[:rank], all[rank : 2*rank], all[2*rank : 3*rank], all[3*rank:]}
	for i, v := range windows {
		if w.in[i] < 1 || w.out[i] < 1 || taps[i] < 1 {
			return w, false
		}
		v = v.Bind(int64(w.in[i]), int64(taps[i]))
		w.strides[i], w.dilations[i] = int(v.Stride), int(v.Dilation)
		w.before[i], w.behind[i] = int(v.Begin), int(v.End)
	}
	return w, true
}

// inside reports whether every window is inside the padded input.
func (w *sliding) inside() bool {
	for i := range w.taps {
		if (w.out[i]-1)*w.strides[i]+(w.taps[i]-1)*w.dilations[i] >= w.in[i]+w.before[i]+w.behind[i] {
			return false
		}
	}
	return true
}

// product returns the product of sizes.
func product(sizes []int) int {
	n := 1
	for _, k := range sizes {
		n *= k
	}
	return n
}

// next advances an index, the last axis first. It returns false after the last index.
func next(index, sizes []int) bool {
	for a := len(index) - 1; a >= 0; a-- {
		if index[a]++; index[a] < sizes[a] {
			return true
		}
		index[a] = 0
	}
	return false
}
