package windowed

import (
	"sync"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "Conv", Windowed: record.WindowedKind{Make: windowedConv, Constant: []int{1, 2}, Pads: true}},
		record.Record{Op: "MatMul", Windowed: record.WindowedKind{Make: windowedMatMul, Constant: []int{0}, Input: 1}},
	)
}

// timeFilters are the weights of a convolution along time. They are packed once.
type timeFilters struct {
	s               *lowering.Step
	input           int       // of the step: the weights
	w, bias         []float32 // (outputs, inputs of a group, taps)
	m, cg, k, group int
	onceJoined      sync.Once
	onceRows        sync.Once
	joined          *kernel.Packed // with one group: rows of (tap, input)
	blocks          *kernel.Blocks // with several groups: the same for each
	rows            []float32      // with one input per group: (tap, feature)
}

// pack packs the weights for products with rows of (tap, input), a row per step and group.
func (f *timeFilters) pack() {
	f.onceJoined.Do(func() {
		n := f.k * f.cg
		record.Keep(f.s, []int{f.input}, nil, func() *timeFilters {
			if f.group == 1 {
				f.joined = kernel.NewPacked(f.m, n)
			} else {
				f.blocks = kernel.NewBlocks(f.group, f.m/f.group, n)
			}
			return f
		}, (*timeFilters).fill)
	})
}

func (f *timeFilters) fill() {
	w := make([]float32, len(f.w))
	for i := range f.m {
		for c := range f.cg {
			for j := range f.k {
				w[(i*f.k+j)*f.cg+c] = f.w[(i*f.cg+c)*f.k+j]
			}
		}
	}
	if n := f.k * f.cg; f.group == 1 {
		f.joined.Fill(w, n, 1)
	} else {
		f.blocks.Fill(w)
	}
}

func (f *timeFilters) asRows() []float32 {
	f.onceRows.Do(func() {
		f.rows = record.Keep(f.s, []int{f.input}, nil, func() []float32 { return make([]float32, len(f.w)) },
			func(rows []float32) {
				for c := range f.m {
					for j := range f.k {
						rows[j*f.m+c] = f.w[c*f.k+j]
					}
				}
			})
	})
	return f.rows
}

func windowedConv(s *lowering.Step) record.WindowedMaker {
	ws := s.ConstShape(1)
	if !s.Float32Input(1) || len(ws) != 3 {
		return nil
	}
	f := &timeFilters{s: s, input: 1, w: record.Numbers(s, 1), bias: record.Numbers(s, 2), m: ws[0], cg: ws[1], k: ws[2],
		group: int(ops.Int(s.Node, "group"))}
	if f.group < 1 || f.m%f.group != 0 || f.m*f.cg*f.k == 0 || f.bias != nil && len(f.bias) != f.m {
		return nil
	}
	return func(d *lowering.Binding) *record.WindowedOp {
		if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		c, ok := Planar(s.Node, d.ShapeOf(s, 0), d.Shape(s.Out[0]), 1, f.k)
		if !ok || c.Sw != 1 || c.C != f.cg*f.group {
			return nil
		}
		return f.windowed(-c.Left, c.Dw)
	}
}

// windowed returns the operator whose first tap has the given offset; nil if the taps are too many, or too far apart.
func (f *timeFilters) windowed(first, dilation int) *record.WindowedOp {
	offs, ok := record.Reach(first, f.k, dilation)
	if !ok {
		return nil
	}
	win := &record.WindowedOp{Offs: offs, Weights: len(f.w), Flops: 2 * float64(len(f.w))}
	in, out := f.cg*f.group, f.m
	switch {
	case f.cg == 1 && f.m == f.group:
		rows, at := f.asRows(), win.Places(in)
		win.Run = func(y, x, _ []float32, n, _, _ int) { kernel.Depthwise(y, x, n, in, at, rows, f.bias) }
	case f.group == 1 && (dilation == 1 || f.k == 1): // the inputs of a step are contiguous
		f.pack()
		win.Run = func(y, x, _ []float32, n, _, _ int) { kernel.Gemm(y, out, x, in, n, f.joined, f.bias, false) }
	case f.group == 1:
		f.pack()
		win.Scratch = f.k * in
		win.Run = func(y, x, tmp []float32, n, _, _ int) {
			f.gather(tmp, x, n, dilation)
			kernel.Gemm(y, out, tmp, win.Scratch, n, f.joined, f.bias, false)
		}
	default:
		f.pack()
		if f.k > 1 {
			win.Scratch = f.k * in
		}
		win.Run = func(y, x, tmp []float32, n, _, _ int) {
			if f.k > 1 {
				f.gather(tmp, x, n, dilation)
				x = tmp
			}
			kernel.Heads(y, out, x, f.k*in, n, f.blocks, 0, false)
			if f.bias != nil {
				for r := range n {
					row := y[r*out : (r+1)*out]
					kernel.Add(row, row, f.bias)
				}
			}
		}
	}
	return win
}

// gather copies the inputs of each of n steps to contiguous rows of (group, tap, input).
func (f *timeFilters) gather(dst, x []float32, n, dilation int) {
	in := f.cg * f.group
	for r := range n {
		for g := range f.group {
			for j := range f.k {
				from := (r+j*dilation)*in + g*f.cg
				src := x[from : from+f.cg]
				if len(src) >= 8 {
					dst = dst[copy(dst, src):]
					continue
				}
				//lint:ignore S1001 a call takes longer than so few numbers
				for i, v := range src {
					dst[i] = v
				}
				dst = dst[len(src):]
			}
		}
	}
}

// windowedMatMul makes the product of a fixed matrix with (features, steps): a convolution of one tap.
func windowedMatMul(s *lowering.Step) record.WindowedMaker {
	if !s.Float32Input(0) || len(s.ConstShape(0)) != 2 {
		return nil
	}
	f := &timeFilters{s: s, w: record.Numbers(s, 0), m: s.ConstShape(0)[0], cg: s.ConstShape(0)[1], k: 1, group: 1}
	return func(d *lowering.Binding) *record.WindowedOp {
		if !d.Typed(s, 1, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) || f.m*f.cg == 0 {
			return nil
		}
		return f.windowed(0, 1)
	}
}
