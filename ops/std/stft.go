package std

import (
	"fmt"
	"math/bits"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/fft"
)

// STFT transforms frames of a signal.
var STFT = ops.Register(&ir.Op{
	Name: "STFT", Since: 17,
	Doc: "Fourier transforms (B,F,K,2) of frames, frame_step apart, of signal (B,L,1), or (B,L,2) with imaginary " +
		"parts, each multiplied by window. If onesided is set, K is frame_length/2+1.",
	In: ops.Sig("signal:T1[B,L,_]", "frame_step:T2", "window:T1[_]?", "frame_length:T2?"), Out: ops.Sig("output:T1"),
	Elems: map[string][]tensor.DType{"T2": indexTypes},
	Attrs: []ir.AttrSpec{intAttr("onesided", 1, "whether only the first half of each spectrum is written")},
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		step, length := stftSizes(n, in)
		frames := ir.Unknown
		if s, ok := step.Known(); ok {
			if s < 1 {
				return nil, fmt.Errorf("frame_step is %d, expected a positive number", s)
			}
			if frames = in[1].Sub(length).FloorDiv(step).Add(ir.Const(1)); in[1].Equal(length) {
				frames = ir.Const(1)
			}
			if f, ok := frames.Known(); ok && f < 0 {
				frames = ir.Const(0)
			}
		}
		bins := length
		if getInt(n, "onesided") != 0 {
			bins = length.FloorDiv(ir.Const(2)).Add(ir.Const(1))
		}
		return ir.Shape{in[0], frames, bins, ir.Const(2)}, nil
	}),
	Eval: evalSTFT,
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := in[0]
		f.State = 0
		for i, o := range in[1:] {
			if !o.Constant() && !(i != 1 && onlySizes(n, i+1)) {
				return spread(n, ops.Global(n, in))
			}
		}
		if f.Constant() || f.Global || f.Axis == 0 {
			return spread(n, f)
		}
		step, length := stftSizes(n, n.In(0).Shape())
		s, ok := step.Known()
		l, okL := length.Known()
		if !ok || !okL || f.Axis != 1 {
			return spread(n, ops.Global(n, in))
		}
		return spread(n, alongWindow(n, in, f, ops.Window{Stride: s, Dilation: 1}, l))
	},
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		out := n.Outputs[0]
		return workOf(n, bind, 5*ops.Count(out, bind)*int64(bits.Len64(uint64(max(ops.DimAt(out, 2, bind), 1)))))
	},
	NoGradient: ops.NotYet,
	Linear:     ops.LinearIn([]int{0}, []int{2}),
	Tol:        ir.Long,
})

// stftSizes returns the step and length of frames, as far as they are known.
func stftSizes(n *ir.Node, in ir.Shape) (step, length ir.Dim) {
	scalar := func(i int) ir.Dim {
		if d, ok := ops.DimsOf(n.In(i)); ok && len(d) == 1 {
			return d[0]
		}
		return ir.Unknown
	}
	length = in[1]
	if n.In(3) != nil {
		length = scalar(3)
	} else if w := n.In(2); w != nil {
		if length = ir.Unknown; len(w.Shape()) == 1 {
			length = w.Shape()[0]
		}
	}
	return scalar(1), length
}

func evalSTFT(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "signal")
	if err != nil {
		return nil, err
	}
	if x.Rank() != 3 || x.Dim(2) != 1 && x.Dim(2) != 2 {
		return nil, fmt.Errorf("signal: expected (B,L,1) or (B,L,2), found %s", x)
	}
	step, err := scalarInt(c, in, 1, "frame_step")
	if err != nil {
		return nil, err
	}
	win, length := ops.F64(c, in, 2), int64(x.Dim(1))
	if win != nil {
		length = int64(len(win))
	}
	if ops.Tensor(in, 3) != nil {
		if length, err = scalarInt(c, in, 3, "frame_length"); err != nil {
			return nil, err
		}
	}
	if step < 1 || length < 1 || length > ops.MaxElems || win != nil && int64(len(win)) != length {
		return nil, fmt.Errorf(
			"frame_step %d, frame_length %d, window of %d: expected positive numbers, and a window as long as a frame",
			step, length, len(win))
	}
	frames := max(0, (int64(x.Dim(1))-length+step)/step)
	if int64(x.Dim(1)) < length {
		frames = 0
	}
	onesided, bins, parts := getInt(c.Node, "onesided") != 0, int(length), x.Dim(2)
	if onesided {
		bins = bins/2 + 1
	}
	shape := []int{x.Dim(0), int(frames), bins, 2}
	if _, err := ops.Elems(shape); err != nil || product(shape) == 0 {
		if err != nil {
			return nil, err
		}
		return ops.One(ops.Real(c, x.DType(), nil, shape...))
	}
	v, y := ops.F64(c, in, 0), ops.Make[float64](c, product(shape))
	c.Charge(fft.Bytes(int(length)))
	t := transform{plan: fft.Of(int(length), c.Step), onesided: onesided, parts: parts}
	frame := ops.Make[float64](c, int(length)*parts)
	for b := range shape[0] {
		c.Step(1)
		for f := range shape[1] {
			c.Step(1)
			ops.Put(c, frame, v[(b*x.Dim(1)+f*int(step))*parts:])
			for i, w := range win {
				c.Step(1)
				for p := range parts {
					frame[i*parts+p] *= w
				}
			}
			t.line(c, y[(b*shape[1]+f)*bins*2:], frame, bins, int(length), 1)
		}
	}
	return ops.One(ops.Real(c, x.DType(), y, shape...))
}
