package cpu

import (
	"math"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// window is a step that looks a bounded way back and ahead along time: step t of its output is computed from the steps t+off
// of its input, for each off of offs. It works on rows, one for each step, whatever the layout of the operator that it stands
// for; the region it is in keeps the rows of the input that it looks back on (see ring).
type window struct {
	offs    []int   // ascending
	edge    float32 // what stands before the first step of the input, and behind the last
	weights int     // constant numbers that a tile passes through
	flops   float64 // per step
	scratch int     // numbers that run needs beside, for each row
	run     windowFunc
}

// windowFunc computes rows of an output, the steps from .. from+rows of length. x has the input from the first offset before
// (or behind) there on, to the last offset of the last row; tmp is scratch.
type windowFunc func(y, x, tmp []float32, rows, from, length int)

// back and ahead say how far the window reaches.
func (w *window) back() int  { return max(0, -w.offs[0]) }
func (w *window) ahead() int { return max(0, w.offs[len(w.offs)-1]) }

// places says where the numbers of a feature lie that an output meets, in rows of width numbers.
func (w *window) places(width int) kernel.Offsets {
	at := make([]int32, len(w.offs))
	for i, o := range w.offs {
		at[i] = int32((o - w.offs[0]) * width)
	}
	return kernel.NewOffsets(at)
}

// windowMaker makes the window for a binding, with the offsets that the operator's own pads give. It gives nil where attributes
// or shapes do not fit.
type windowMaker func(d *binding) *window

// windows is the table of operators that a window stands for, where they look along the last axis of (samples, features,
// steps).
var windows = map[string]func(s *lowering.Step) windowMaker{
	"Conv":        windowConv,
	"MaxPool":     windowPool,
	"AveragePool": windowPool,
	"MatMul":      windowMatMul,
}

// maxTaps bounds the taps of a window: longer ones are long convolutions, which have forms of their own.
const maxTaps = 64

// reach gives the offsets of so many taps, and false where they are too many or reach further than int32 counts.
func reach(first, taps, dilation int) ([]int, bool) {
	if taps < 1 || taps > maxTaps || dilation < 1 || dilation > math.MaxInt32/maxTaps {
		return nil, false
	}
	offs := make([]int, taps)
	for j := range offs {
		offs[j] = first + j*dilation
	}
	return offs, true
}

// timeFilters are the weights of a convolution over time, packed once.
type timeFilters struct {
	w, bias         []float32 // (outputs, inputs of a group, taps)
	m, cg, k, group int
	onceJoined      sync.Once
	onceRows        sync.Once
	joined          *kernel.Packed // of one group: rows of (tap, input)
	blocks          *kernel.Blocks // of several: the same for each
	rows            []float32      // of a depthwise convolution: (tap, feature)
}

// pack lays out the weights for products with rows of (tap, input), one row for each step and group.
func (f *timeFilters) pack() {
	f.onceJoined.Do(func() {
		w := make([]float32, len(f.w))
		for i := range f.m {
			for c := range f.cg {
				for j := range f.k {
					w[(i*f.k+j)*f.cg+c] = f.w[(i*f.cg+c)*f.k+j]
				}
			}
		}
		if n := f.k * f.cg; f.group == 1 {
			f.joined = kernel.Pack(w, f.m, n, n, 1)
		} else {
			f.blocks = kernel.PackBlocks(w, f.group, f.m/f.group, n)
		}
	})
}

func (f *timeFilters) asRows() []float32 {
	f.onceRows.Do(func() {
		f.rows = make([]float32, len(f.w))
		for c := range f.m {
			for j := range f.k {
				f.rows[j*f.m+c] = f.w[c*f.k+j]
			}
		}
	})
	return f.rows
}

func windowConv(s *lowering.Step) windowMaker {
	w := s.Constant(1)
	if w == nil || !s.Float32Input(1) || s.Constant(2) == nil && !s.Absent(2) || len(s.ConstShape(1)) != 3 {
		return nil
	}
	ws := s.ConstShape(1)
	f := &timeFilters{w: w, bias: s.Constant(2), m: ws[0], cg: ws[1], k: ws[2], group: int(ops.Int(s.Node, "group"))}
	if f.group < 1 || f.m%f.group != 0 || f.m*f.cg*f.k == 0 || f.bias != nil && len(f.bias) != f.m {
		return nil
	}
	return func(d *binding) *window {
		if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		c, ok := planar(s.Node, d.ShapeOf(s, 0), d.Shapes[s.Out[0].ID], 1, f.k)
		if !ok || c.sw != 1 || c.c != f.cg*f.group {
			return nil
		}
		return f.window(-c.left, c.dw)
	}
}

// window makes the window whose first tap has the given offset.
func (f *timeFilters) window(first, dilation int) *window {
	offs, ok := reach(first, f.k, dilation)
	if !ok {
		return nil
	}
	win := &window{offs: offs, weights: len(f.w), flops: 2 * float64(len(f.w))}
	in, out := f.cg*f.group, f.m
	switch {
	case f.cg == 1 && f.m == f.group:
		rows, at := f.asRows(), win.places(in)
		win.run = func(y, x, _ []float32, n, _, _ int) { kernel.Depthwise(y, x, n, in, at, rows, f.bias) }
	case f.group == 1 && (dilation == 1 || f.k == 1): // the inputs of a step lie side by side
		f.pack()
		win.run = func(y, x, _ []float32, n, _, _ int) { kernel.Gemm(y, out, x, in, n, f.joined, f.bias, false) }
	case f.group == 1:
		f.pack()
		win.scratch = f.k * in
		win.run = func(y, x, tmp []float32, n, _, _ int) {
			f.gather(tmp, x, n, dilation)
			kernel.Gemm(y, out, tmp, win.scratch, n, f.joined, f.bias, false)
		}
	default:
		f.pack()
		if f.k > 1 {
			win.scratch = f.k * in
		}
		win.run = func(y, x, tmp []float32, n, _, _ int) {
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

// gather puts what each of n steps meets of x side by side: for each group, for each tap, its inputs.
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

// windowMatMul is a constant matrix times (features, steps): a convolution of one tap.
func windowMatMul(s *lowering.Step) windowMaker {
	w := s.Constant(0)
	if w == nil || !s.Float32Input(0) || len(s.ConstShape(0)) != 2 {
		return nil
	}
	f := &timeFilters{w: w, m: s.ConstShape(0)[0], cg: s.ConstShape(0)[1], k: 1, group: 1}
	return func(d *binding) *window {
		if !d.Typed(s, 1, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) || f.m*f.cg == 0 {
			return nil
		}
		return f.window(0, 1)
	}
}

func windowPool(s *lowering.Step) windowMaker {
	shape := s.Node.Attrs.Ints("kernel_shape", nil)
	if len(shape) != 1 || len(s.Node.Outputs) != 1 {
		return nil
	}
	taps, largest := int(shape[0]), s.Node.Op.Name == "MaxPool"
	all := !largest && ops.Int(s.Node, "count_include_pad") != 0
	return func(d *binding) *window {
		if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		in := d.ShapeOf(s, 0)
		c, ok := planar(s.Node, in, d.Shapes[s.Out[0].ID], 1, taps)
		offs, short := reach(-c.left, taps, max(1, c.dw))
		if !ok || !short || c.sw != 1 {
			return nil
		}
		width, apart := c.c, c.c*c.dw
		win := &window{offs: offs, flops: float64(taps * width)}
		if largest {
			win.edge = float32(math.Inf(-1))
			win.run = func(y, x, _ []float32, rows, _, _ int) { joinTaps(y[:rows*width], x, apart, taps, kernel.Max) }
			return win
		}
		win.run = func(y, x, _ []float32, rows, from, length int) {
			joinTaps(y[:rows*width], x, apart, taps, kernel.Add)
			for r := range rows {
				count := taps
				if !all {
					count = meeting(offs, from+r, length)
				}
				row := y[r*width : (r+1)*width]
				kernel.DivS(row, row, float32(count))
			}
		}
		return win
	}
}

// joinTaps is y = f(f(x, x[apart:]), x[2·apart:]) and so on, for as many numbers of x as y has.
func joinTaps(y, x []float32, apart, taps int, f func(y, a, b []float32)) {
	if taps == 1 {
		copy(y, x)
		return
	}
	f(y, x[:len(y)], x[apart:apart+len(y)])
	for j := 2; j < taps; j++ {
		f(y, y, x[j*apart:j*apart+len(y)])
	}
}

// meeting counts the offsets that meet one of length steps from step t.
func meeting(offs []int, t, length int) int {
	n := 0
	for _, o := range offs {
		if t+o >= 0 && t+o < length {
			n++
		}
	}
	return n
}

// shiftWindow moves a sequence along time.
func shiftWindow(by, width int) *window {
	return &window{offs: []int{by}, flops: float64(width), run: func(y, x, _ []float32, rows, _, _ int) {
		copy(y[:rows*width], x)
	}}
}

// windowLong is a convolution of rows with short kernels, one for each feature.
func windowLong(s *lowering.Step) *window {
	k := s.Constant(1)
	if dir, _ := scanAttrs(s.Node); k == nil || dir != essm.Forward || len(s.ConstShape(1)) != 2 {
		return nil
	}
	shape := s.ConstShape(1)
	n, taps := shape[0], shape[1]
	offs, ok := reach(1-taps, taps, 1)
	if !ok || n == 0 {
		return nil
	}
	rows := make([]float32, n*taps)
	for c := range n {
		for j := range taps {
			rows[(taps-1-j)*n+c] = k[c*taps+j]
		}
	}
	win := &window{offs: offs, weights: len(rows), flops: 2 * float64(len(rows))}
	at := win.places(n)
	win.run = func(y, x, _ []float32, count, _, _ int) { kernel.Depthwise(y, x, count, n, at, rows, nil) }
	return win
}

// turn says how a step brings sequences between (samples, features, steps), which exported graphs have around convolutions, and
// rows of features for each step.
type turn int8

const (
	straight turn = iota
	toRows
	fromRows
)

// flowing says how a step that looks along time, or turns sequences, is part of a region.
func (d *binding) flowing(s *lowering.Step) (op *rowOp, c core, batch, length int) {
	lies := s.Out[0]
	if of(s).turn == fromRows {
		lies = s.In[0]
	}
	batch, length, _, _ = d.Along(lies)
	op = &rowOp{operands: first, window: of(s).window, sums: of(s).sums, turn: of(s).turn}
	if w := of(s).window; w != nil && w.back() == 0 && w.ahead() == 0 {
		op.window, op.run = nil, func(y []float32, x [][]float32, rows int) { w.run(y, x[0], nil, rows, 0, length) }
	}
	return op, nil, batch, length
}

// flowWeights bounds the constant numbers that the steps of a region pass through where it looks back or ahead: 4 MB, which
// every tile reads from the third-level cache. That takes less than to bring sequences there and back.
const flowWeights = 1 << 20

// callFlops bounds the work of one step on one tile there: a run can be cancelled between any two steps.
const callFlops = 4 * tileFlops

// numbers counts the constants of a step.
func constantNumbers(s *lowering.Step) (n int) {
	if of(s).window != nil {
		return of(s).window.weights
	}
	for _, v := range s.In {
		if v != nil && v.Const != nil {
			n += v.Const.Len()
		}
	}
	return n
}

// flows reports whether the step must go tick by tick.
func (op *rowOp) flows() bool {
	return op != nil && (op.window != nil || op.sums != nil || op.turn != straight)
}

// flowsWith reports whether the step and those before it can be computed tick by tick, where one of them asks for that: their
// rows must be the same steps of the same samples, and a recurrence must go forward, tile by tile.
func (r *draft) flowsWith(d *binding, s *lowering.Step, op *rowOp, c core, batch, length int) bool {
	joins := op.flows()
	if !r.flows && !joins {
		return true
	}
	if !joins && c == nil { // rows by themselves: grid of what is there
		batch, length = r.batch, r.length
	}
	if r.flows && (batch != r.batch || length != r.length) || r.weights > 0 && r.weights+constantNumbers(s) > flowWeights || !d.flowsOn(s, batch, length) {
		return false
	}
	if c != nil && !d.flowsCore(s, c, batch, length) {
		return false
	}
	for _, q := range r.steps {
		if of(s).turn == toRows && slices.Contains(q.Out, s.In[0]) { // which rows are made of must be there as a whole
			return false
		}
	}
	if r.flows {
		return r.sameEdges(op, s)
	}
	for i, q := range r.steps { // before the first that looks along time
		if !d.flowsOn(q, batch, length) || i == r.coreAt && r.core != nil && !d.flowsCore(q, r.core, batch, length) {
			return false
		}
	}
	return true
}

// flowsOn reports whether what a step reads and writes are sequences of the grid, as rows.
func (d *binding) flowsOn(s *lowering.Step, batch, length int) bool {
	fits := func(v *lowering.Value) bool {
		if v == nil || d.Constant(v) != nil || d.p.Facts[v.ID].Constant() {
			return true
		}
		b, l, width, ok := d.Along(v)
		rows, f := lowering.Features(d.Shapes[v.ID])
		return ok && b == batch && l == length && rows == batch*length && width == f
	}
	for _, v := range s.In {
		if of(s).turn != toRows && !fits(v) {
			return false
		}
	}
	return of(s).turn == fromRows || fits(s.Out[0])
}

// flowsCore reports whether a recurrence can be computed tick by tick.
func (d *binding) flowsCore(s *lowering.Step, c core, batch, length int) bool {
	info := c.info()
	if info.direction != essm.Forward || info.window > 0 || info.stateless {
		return false
	}
	form := choose(d.p.Config.Kernel, d.p.costs, s, c, batch, length, tileSize(0, length)).Form
	return form == essm.FormScan || form == essm.FormChunked
}

// sameEdges reports whether all windows of the draft that read a value agree on what stands around it.
func (r *draft) sameEdges(op *rowOp, s *lowering.Step) bool {
	if op == nil || op.window == nil {
		return true
	}
	for i, q := range r.steps {
		if r.ops[i] != nil && r.ops[i].window != nil && q.In[0] == s.In[0] && r.ops[i].window.edge != op.window.edge {
			return false
		}
	}
	return true
}
