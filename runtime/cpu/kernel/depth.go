package kernel

// Depth convolves one channel at a time with one filter, for one shape: y[r][c] = bias + Σ over i and j of
// w[i][j]·x[Stride·r+i-Top][Stride·c+j-Left], with zeros around x. It finds the largest numbers of windows, too.
type Depth struct {
	H, W, Top, Left, Oh, Ow int
	Size, Stride            int // of the filter, Size by Size, and in both directions

	masks []uint16
	pairs []uint16 // masks of pairs of rows; nil: a row at a time
	whole []uint16 // masks of whole vectors, for maxima; nil: a window may be outside x
}

// NewDepth returns a plan, or nil if there is no kernel for it.
func NewDepth(d Depth) *Depth {
	if !machine.windows || d.Size != 2 && d.Size != 3 && d.Size != 5 && (d.Size != 7 || d.Stride != 1) || d.Stride != 1 && d.Stride != 2 ||
		d.H <= 0 || d.W <= 0 || d.Oh <= 0 || d.Ow <= 0 || d.Top < 0 || d.Left < 0 {
		return nil
	}
	for c := 0; c < d.Ow; c += depthLanes {
		d.masks = append(d.masks, depthMask(func(i int) bool { return c+i < d.Ow }))
		for j := range d.Size {
			for part := range d.Stride {
				d.masks = append(d.masks, depthMask(func(i int) bool {
					at := d.Stride*c + j - d.Left + depthLanes*part + i
					return at >= 0 && at < d.W
				}))
			}
		}
	}
	d.pairRows()
	d.wholeVectors()
	return &d
}

// wholeVectors makes the masks for rows of the input that are compared before columns are.
func (d *Depth) wholeVectors() {
	inside := func(n, pad, size int) bool { // some of each window
		for i := range n {
			if at := d.Stride*i - pad; at >= size || at+d.Size <= 0 {
				return false
			}
		}
		return true
	}
	if !inside(d.Oh, d.Top, d.H) || !inside(d.Ow, d.Left, d.W) {
		return
	}
	vectors := d.Stride
	if d.Size > d.Stride {
		vectors++
	}
	for c := 0; c < d.Ow; c += depthLanes {
		d.whole = append(d.whole, depthMask(func(i int) bool { return c+i < d.Ow }))
		for v := range vectors {
			d.whole = append(d.whole, depthMask(func(i int) bool {
				at := d.Stride*c - d.Left + depthLanes*v + i
				return at >= 0 && at < d.W
			}))
		}
	}
}

// pairRows makes the masks for pairs of rows, if rows are short and inputs have the outputs' layout.
func (d *Depth) pairRows() {
	if d.Size != 3 && d.Size != 5 || d.Stride != 1 || d.W != d.Ow || 2*d.W > depthLanes || d.Oh > depthPairs*2 {
		return
	}
	for o := range depthPairs {
		d.pairs = append(d.pairs, depthMask(func(i int) bool { return i < 2*d.W && 2*o+i/d.W < d.Oh }))
	}
	for t := range 2*depthPairs - 2 + d.Size {
		for j := range d.Size {
			d.pairs = append(d.pairs, depthMask(func(i int) bool {
				row, col := t-d.Top+i/d.W, i%d.W+j-d.Left
				return i < 2*d.W && row >= 0 && row < d.H && col >= 0 && col < d.W
			}))
		}
	}
}

// depthPairs is the number of pairs of rows that are computed at once.
const depthPairs = 4

const depthLanes = 16

// depthMask returns a mask of the lanes for which in is true.
func depthMask(in func(i int) bool) (mask uint16) {
	for i := range depthLanes {
		if in(i) {
			mask |= 1 << i
		}
	}
	return mask
}

// Run computes a channel.
func (d *Depth) Run(y, x, w []float32, bias float32) {
	_, _, _ = y[d.Oh*d.Ow-1], x[d.H*d.W-1], w[d.Size*d.Size-1]
	depthWide(d, y, x, w, bias)
}

// Largest sets y[r][c] to the greatest of x[Stride·r+i-Top][Stride·c+j-Left] over i and j, NaN if one is NaN, or
// -∞ if all are outside x.
func (d *Depth) Largest(y, x []float32) {
	_, _ = y[d.Oh*d.Ow-1], x[d.H*d.W-1]
	largestWindows(d, y, x)
}
