package ir

// Piece is a box of an input that is part of an output: the element of the output at index o equals the element of
// the input at index i, with i[Axes[a]] = o[a] + From[a] for each axis a, wherever i is in the input. Pieces of an
// output do not overlap, and elements that no piece covers are zero.
//
// A Slice is a piece with From at its starts. A Pad with zeros is one with From at the negative numbers of its pads,
// and so is a shift, whose output is as large as its input. The parts of a Split are a piece each; the inputs of a
// Concat are pieces of one output; a Transpose is a piece with other Axes.
type Piece struct {
	Output, Input int
	// Axes are the axes of the input, in the output's order; nil: the same axes in the same order.
	Axes []int
	// From is, for each axis of the output, the place of the input at the output's place 0. It may be negative.
	From []int
}

// Along returns From along one axis; ok is false if the piece begins elsewhere than at 0 on another axis, or the
// axes are in another order.
func (p Piece) Along(axis int) (from int, ok bool) {
	if axis < 0 || axis >= len(p.From) {
		return 0, false
	}
	for i, k := range p.From {
		if i != axis && k != 0 || p.Axes != nil && p.Axes[i] != i {
			return 0, false
		}
	}
	return p.From[axis], true
}

// RunningSum describes sums along an axis: the element of the output at place t is the sum of the input's elements
// up to t, or from t on.
type RunningSum struct {
	Axis int
	// Exclusive sums leave out the element at t itself.
	Exclusive bool
	// Reverse sums go from the end.
	Reverse bool
}
