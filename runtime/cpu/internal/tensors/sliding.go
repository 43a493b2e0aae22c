package tensors

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
)

// Sliding describes a window that moves over any number of axes after samples and channels.
type Sliding struct {
	In, Out, Taps      []int
	Strides, Dilations []int
	Before, Behind     []int // pads
}

// NewSliding returns the window of a convolution or a pool for tensors of the given shapes, or false if they do not
// fit.
func NewSliding(n *ir.Node, in, out, taps []int) (w Sliding, ok bool) {
	rank := len(taps)
	if len(in) != rank+2 || len(out) != rank+2 || in[0] != out[0] {
		return w, false
	}
	windows, err := ops.Windows(n, rank)
	if err != nil {
		return w, false
	}
	all := make([]int, 4*rank)
	w = Sliding{in[2:], out[2:], taps, all[:rank], all[rank : 2*rank], all[2*rank : 3*rank], all[3*rank:]}
	for i, v := range windows {
		if w.In[i] < 1 || w.Out[i] < 1 || taps[i] < 1 {
			return w, false
		}
		v = v.Bind(int64(w.In[i]), int64(taps[i]))
		w.Strides[i], w.Dilations[i] = int(v.Stride), int(v.Dilation)
		w.Before[i], w.Behind[i] = int(v.Begin), int(v.End)
	}
	return w, true
}

// Inside reports whether every window is inside the padded input.
func (w *Sliding) Inside() bool {
	for i := range w.Taps {
		if (w.Out[i]-1)*w.Strides[i]+(w.Taps[i]-1)*w.Dilations[i] >= w.In[i]+w.Before[i]+w.Behind[i] {
			return false
		}
	}
	return true
}
