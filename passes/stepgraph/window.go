package stepgraph

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// window is the motion of an operator along time: step o of the output reads steps o*stride-begin + i*dilation, i <
// taps, of the input. Steps before the first one and after the last one are pads.
type window struct{ stride, dilation, begin, end, taps int64 }

func (w window) span() int64 { return (w.taps - 1) * w.dilation }

// windowsOf reads the windows of a Conv or a pool over the axes after the channels, with pads as numbers. sizes are the
// dimensions of the axes, which may be unknown if they are not needed.
func windowsOf(n *ir.Node, taps []int64, sizes ir.Shape) ([]window, error) {
	all, err := ops.Windows(n, len(taps))
	if err != nil {
		return nil, err
	}
	out := make([]window, len(taps))
	for i, w := range all {
		w, ok := w.Resolve(sizes[i], taps[i])
		if !ok {
			return nil, fmt.Errorf("%s with a stride of %d over a dimension of %v", ops.Str(n, "auto_pad"), w.Stride,
				sizes[i])
		}
		out[i] = window{w.Stride, w.Dilation, w.Begin, w.End, taps[i]}
	}
	return out, nil
}

// slide returns the part of v that a window needs: the chunk and enough history that the operator, without pads along
// time, computes one step for every stride steps of the chunk. Pads hold the given number. The flow is that of the
// operator's output.
func (s *stepper) slide(v *ir.Value, w window, pad float64) (*ir.Value, flow) {
	f := s.flowOf(v)
	// With h steps of history, output m of the chunk reads from step m*stride - delay - h on. h is the smallest
	// number for which the operator computes enough steps on its grid.
	h := w.span() + 1 - w.stride
	h += mod(w.begin-f.delay-h, w.stride)
	if early := w.begin - f.delay - h; early > 0 { // the first steps depend on pads only, and are delayed
		s.lag(v, early)
		f = s.flowOf(v)
	}
	x := s.get(v)
	if h > 0 {
		x = s.history(v, x, h)
	}
	left, right := w.begin > 0 && (f.delay > 0 || pad != 0), w.end > 0 && s.end != nil
	if left || right {
		x = s.mask(v, x, max(h, 0), pad, right)
	}
	if h < 0 {
		x = s.slice(x, f.axis, -h, sliceEnd)
	}
	f.delay = (f.delay + h - w.begin) / w.stride
	f.offset += f.rate * (w.begin + w.end - w.span() - 1 + w.stride)
	f.rate *= w.stride
	return x, f
}

func mod(a, n int64) int64 { return ((a % n) + n) % n }

// spatial returns the windows of a Conv or a pool, and the index of the window along time.
func (s *stepper) spatial(n *ir.Node, taps []int64) (all []window, at int, err error) {
	f := s.flowOf(n.In(0))
	shape := s.get(n.In(0)).Shape()
	if at = f.axis - 2; f.kind != Sequence || at < 0 || len(shape) != len(taps)+2 {
		return nil, 0, s.why(n, ir.Fact{})
	}
	for _, v := range n.Inputs[1:] {
		if s.flowOf(v).kind != Fixed {
			return nil, 0, &BlockedError{n, "has weights that depend on time"}
		}
	}
	if all, err = windowsOf(n, taps, shape[2:]); err != nil {
		return nil, 0, &BlockedError{n, err.Error()}
	}
	return all, at, nil
}

// unpadded returns the node's attributes without pads along time, and with the other pads as numbers.
func unpadded(n *ir.Node, all []window, at int) ir.Attrs {
	pads := make([]int64, 2*len(all))
	for i, w := range all {
		if i != at {
			pads[i], pads[i+len(all)] = w.begin, w.end
		}
	}
	return n.Attrs.Without("auto_pad").With("pads", pads)
}

// conv keeps the steps before the chunk in a state.
func (s *stepper) conv(n *ir.Node) error {
	var taps []int64
	for i, d := range n.In(1).Shape() {
		k, ok := d.Known()
		if i < 2 {
			continue
		}
		if !ok || k < 1 {
			return &BlockedError{n, "has a filter of unknown size"}
		}
		taps = append(taps, k)
	}
	all, at, err := s.spatial(n, taps)
	if err != nil {
		return err
	}
	x, f := s.slide(n.In(0), all[at], 0)
	args := []*ir.Value{x}
	for _, v := range n.Inputs[1:] {
		args = append(args, s.get(v))
	}
	n.Attrs = unpadded(n, all, at)
	return s.keep(n, args, []flow{f})
}

// pool does the same for pools, in which pads do not count or are less than any number.
func (s *stepper) pool(n *ir.Node) error {
	all, at, err := s.spatial(n, n.Attrs.Ints("kernel_shape", nil))
	if err != nil {
		return err
	}
	if n.Out(1) != nil {
		return &BlockedError{n, "computes indices in the whole sequence"}
	}
	w := all[at]
	if n.Attrs.Int("ceil_mode", 0) != 0 && w.stride > 1 {
		return &BlockedError{n, "computes a partial window (ceil_mode), which depends on the end of the sequence"}
	}
	pad := 0.0
	if n.Op.Name == "MaxPool" {
		switch pad = math.Inf(-1); n.In(0).Elem() {
		case tensor.Int8:
			pad = math.MinInt8
		case tensor.Uint8:
			pad = 0
		}
	}
	x, f := s.slide(n.In(0), w, pad)
	counts := n.Op.Name == "AveragePool" && n.Attrs.Int("count_include_pad", 0) == 0 && w.begin+w.end > 0
	n.Attrs = unpadded(n, all, at)
	if !counts {
		return s.keep(n, []*ir.Value{x}, []flow{f})
	}
	// The mean without pads is the mean with zeros for pads, divided by the mean of ones with zeros for pads.
	n.Attrs = n.Attrs.With("count_include_pad", 1)
	source, y := n.Outputs[0], &ir.Value{Name: s.Unique(n.Op.Name), Def: n}
	n.Outputs = []*ir.Value{y}
	if err := s.keep(n, []*ir.Value{x}, []flow{f}); err != nil {
		return err
	}
	one, err := tensor.FromFloat64s(x.Elem(), []float64{1}, 1)
	if err != nil {
		return err
	}
	ones := s.Op("", "ConstantOfShape", []*ir.Value{s.Op("", "Shape", []*ir.Value{x})}, ir.A("value", one))
	in := flow{kind: Sequence, axis: f.axis, rate: f.rate / w.stride, delay: f.delay*w.stride + w.begin} // of x
	in.offset = f.offset - in.rate*(w.begin+w.end-w.span()-1+w.stride)
	ones = s.maskFlow(in, s.batchAxis(source), ones, 0, true)
	share := s.Apply(n.Op, 1, []*ir.Value{ones}, n.Attrs)[0]
	s.set(source, s.Op("", "Div", []*ir.Value{y, share}), f)
	return s.Err()
}

// around computes a node on the chunk with back steps before it and ahead steps after it, which delays the result. The
// node's result for the chunk itself does not depend on other steps. Outside of the sequence there are zeros.
func (s *stepper) around(n *ir.Node, back, ahead int64, inputs []int, outputs int) error {
	delay := s.align(n)
	args := make([]*ir.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		args[i] = s.get(v)
	}
	f := s.flowOf(n.In(inputs[0]))
	for _, i := range inputs {
		if i >= len(args) || args[i] == nil {
			continue
		}
		args[i] = s.history(n.In(i), args[i], back+ahead)
		if delay > 0 || s.end != nil && ahead > 0 {
			args[i] = s.mask(n.In(i), args[i], back+ahead, 0, ahead > 0)
		}
	}
	f.delay += ahead
	sources := slices.Clone(n.Outputs)
	flows := make([]flow, len(sources))
	for i, v := range sources {
		if flows[i] = f; v == nil {
			continue
		}
		if i >= outputs {
			return &BlockedError{n, "computes a state and also looks ahead"}
		}
		n.Outputs[i] = &ir.Value{Name: s.Unique(v.Name + ".around"), Def: n}
	}
	if err := s.keep(n, args, flows); err != nil {
		return err
	}
	for i, v := range sources {
		if v == nil {
			continue
		}
		y := n.Outputs[i]
		to := -ahead
		if ahead == 0 {
			to = sliceEnd
		}
		s.set(v, s.slice(y, f.axis, back, to), f)
	}
	return s.Err()
}

// longConv computes a convolution with a kernel of finite length.
func (s *stepper) longConv(n *ir.Node) error {
	taps, ok := int64(0), false
	if k := n.In(1).Shape(); len(k) == 2 {
		taps, ok = k[1].Known()
	}
	if f := s.flowOf(n.In(0)); !ok || f.axis != 1 || s.flowOf(n.In(1)).kind != Fixed {
		return &BlockedError{n, "has a kernel of unknown length"}
	}
	back, ahead := reach(n.Attrs.Str("direction", "forward"), taps)
	return s.around(n, back, ahead, []int{0}, 1)
}

// reach returns how far a kernel with the given number of taps reads: forward from the step itself, backward from the
// next step.
func reach(direction string, taps int64) (back, ahead int64) {
	if direction != "backward" {
		back = max(taps-1, 0)
	}
	if direction != "forward" {
		ahead = taps
	}
	return back, ahead
}

// causalConv passes on the state that the operator itself has.
func (s *stepper) causalConv(n *ir.Node) error {
	f := s.flowOf(n.In(0))
	for _, v := range n.Inputs[1:] {
		if s.flowOf(v).kind == Sequence {
			return &BlockedError{n, "has weights that depend on time"}
		}
	}
	taps, ok := int64(0), false
	if w := n.In(1).Shape(); len(w) == 3 {
		taps, ok = w[2].Known()
	}
	shape := s.get(n.In(0)).Shape()
	if !ok || f.axis != 2 || len(shape) != 3 || taps < 1 {
		return &BlockedError{n, "has a filter of unknown size"}
	}
	x := s.within(n.In(0), s.get(n.In(0)), 0)
	args := []*ir.Value{x, s.get(n.In(1)), s.get(n.In(2)), nil}
	for len(n.Outputs) < 2 {
		n.Outputs = append(n.Outputs, nil)
	}
	if n.Outputs[1] == nil {
		n.Outputs[1] = &ir.Value{Name: s.Unique("present_state"), Def: n}
	}
	past := s.state("past", x.Elem(), shape[0], shape[1], ir.Const(taps-1))
	if args[3] = past; n.In(3) != nil && past != nil {
		args[3] = s.first(s.get(n.In(3)), past, 0)
	}
	if s.Err() != nil {
		return s.Err()
	}
	if err := s.keep(n, args, []flow{f, f.summed(true)}); err != nil {
		return err
	}
	s.pass(past, n.Outputs[1])
	return nil
}
