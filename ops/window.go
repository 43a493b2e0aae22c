package ops

import (
	"fmt"

	"github.com/essmc/essmc/ir"
)

// Window is how a convolution or a pool moves along one spatial axis: position o reads the elements
// o·Stride - Begin + i·Dilation for the taps i, and elements that are not there are pads.
type Window struct {
	Stride, Dilation int64
	// Begin and End are the pads before the first and behind the last element.
	Begin, End int64
	// Same: the pads follow from the size of the axis, so that there is a position for each stride. Half of them are
	// at each side, and the odd one at the end (1) or at the start (-1). Bind and Resolve find them.
	Same int
}

// Windows reads the attributes strides, dilations, pads and auto_pad of a node for its spatial axes.
func Windows(n *ir.Node, axes int) ([]Window, error) {
	list := func(name string, want int, def, least int64) ([]int64, error) {
		v := n.Attrs.Ints(name, nil)
		if v == nil {
			v = make([]int64, want)
			for i := range v {
				v[i] = def
			}
		}
		if len(v) != want {
			return nil, fmt.Errorf("%s %v: expected %d numbers", name, v, want)
		}
		for _, x := range v {
			if x < least || x > 1<<31 {
				return nil, fmt.Errorf("%s %v: %d is outside of %d … 2^31", name, v, x, least)
			}
		}
		return v, nil
	}
	strides, err := list("strides", axes, 1, 1)
	if err != nil {
		return nil, err
	}
	dilations, err := list("dilations", axes, 1, 1)
	if err != nil {
		return nil, err
	}
	pads, err := list("pads", 2*axes, 0, 0)
	if err != nil {
		return nil, err
	}
	out := make([]Window, axes)
	auto := Str(n, "auto_pad")
	for i := range out {
		out[i] = Window{Stride: strides[i], Dilation: dilations[i]}
		switch auto {
		case "SAME_UPPER":
			out[i].Same = 1
		case "SAME_LOWER":
			out[i].Same = -1
		case "NOTSET", "": // "": the operator has no auto_pad
			out[i].Begin, out[i].End = pads[i], pads[i+axes]
		}
	}
	return out, nil
}

// Padded reports whether pads may be read.
func (w Window) Padded() bool { return w.Same != 0 || w.Begin != 0 || w.End != 0 }

// Reach is the distance of the first tap from the last one.
func (w Window) Reach(taps int64) int64 { return (taps - 1) * w.Dilation }

// Size returns the number of positions over a dimension. It may be negative.
func (w Window) Size(d, taps ir.Dim) ir.Dim {
	if w.Same != 0 {
		return d.Add(ir.Const(w.Stride - 1)).FloorDiv(ir.Const(w.Stride))
	}
	reach := taps.Sub(ir.Const(1)).Mul(ir.Const(w.Dilation))
	return d.Add(ir.Const(w.Begin + w.End - 1)).Sub(reach).FloorDiv(ir.Const(w.Stride)).Add(ir.Const(1))
}

// Bind returns the window over a dimension of d, with its pads.
func (w Window) Bind(d, taps int64) Window {
	if w.Same != 0 {
		w = w.split(max(0, ((d+w.Stride-1)/w.Stride-1)*w.Stride+w.Reach(taps)+1-d))
	}
	return w
}

// Resolve is Bind over a dimension that may be unknown; ok is false where the pads follow from it.
func (w Window) Resolve(d ir.Dim, taps int64) (_ Window, ok bool) {
	switch size, known := d.Known(); {
	case w.Same == 0:
		return w, true
	case w.Stride == 1:
		return w.split(w.Reach(taps)), true
	case known:
		return w.Bind(size, taps), true
	}
	return w, false
}

func (w Window) split(pads int64) Window {
	if w.Begin = pads / 2; w.Same < 0 {
		w.Begin = pads - pads/2
	}
	w.End = pads - w.Begin
	return w
}
