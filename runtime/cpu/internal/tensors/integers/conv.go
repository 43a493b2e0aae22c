package integers

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/internal/windowed"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Convolutions of bytes over one or two axes: ConvInteger and QLinearConv. Sums are exact, and later operations
// round like the operators' bodies, so the answers are bitwise equal.
// Why kernels for bytes need constants (record.Record.Numbers).
const (
	byScales      = "constant scales and zero points choose the kernel for bytes"
	byDifferences = "the differences of weights and zero points are packed as constants"
	byTable       = "the results for all bytes are a constant table"
)

func init() {
	record.Register(
		record.Record{Op: "ConvInteger", Numbers: byDifferences, Tensor: record.TensorKind{Make: convIntegerKernel}},
		record.Record{Op: "QLinearConv", Numbers: byScales, Tensor: record.TensorKind{Make: qlinearConvKernel}},
	)
}

// integerConv is a convolution for one shape. Its input is padded and copied into planes in which the inputs of a
// weight are contiguous, row by row. There is one plane for each phase of the strides, where the outputs between
// rows are dropped, or one for each column of the weights, without such outputs. An input that already has this form
// is read in place.
type integerConv struct {
	windowed.PlanarWindow
	kh, kw, cg, m, group int
	weights              []int16 // per filter: its weights, padded to an even number; nil if quads are used
	requantize           *filterScales
	quads                *quadWeights    // for machines that multiply four bytes at once, or nil
	zeroIn               *lowering.Value // zero point of the input; nil for 0

	Planes
	whole         bool           // the input is read in place
	span          int            // positions of an output channel, with gaps
	pairs         int            // of a filter's weights
	offsets       kernel.Offsets // of their inputs in a group
	last          lastPanel
	chunk, chunks int // positions per work item, work items per sample and group
	parts         int // parts of a group's filters
	panelWords    int // scratch for panels
	tileWords     int // and for sums

	// Set during a run:
	in     kernel.Bytes
	zero   int
	padded []byte
	sums   []int32
	out    kernel.Bytes
	bias   []float64 // added to the sums of each filter
	add    []int32   // the same, if quads are used
	narrow bool      // the sums of quads become bytes at once
	ready  bool      // add and bias are valid for zero
}

// filterScales turn sums into bytes, per filter.
type filterScales struct {
	bias, scale []float64
	narrow      []float32 // scale
	zero        int
}

// filterKey identifies filters as rows of integers, which the programs of a model share.
type filterKey struct{ w, zero *tensor.Tensor }

func convIntegerKernel(s *lowering.Step) record.TensorMaker { return integerConvOf(s, 0, 1, 2, 3, nil) }

func qlinearConvKernel(s *lowering.Step) record.TensorMaker {
	if len(s.In) < 8 || !record.ByteTyped(s, 7) {
		return nil
	}
	x, w, y, zero := s.Constant(1), s.Constant(4), s.Constant(6), s.Constant64(7)
	if len(x) != 1 || len(w) == 0 || len(y) != 1 || len(zero) != 1 || s.In[3] == nil || s.In[3].Const == nil ||
		s.In[3].Const.Rank() < 3 || len(s.ConstShape(4)) > 1 {
		return nil
	}
	m := s.ConstShape(3)[0]
	r := &filterScales{bias: make([]float64, m), scale: make([]float64, m), narrow: make([]float32, m), zero: int(zero[0])}
	if len(w) != 1 && len(w) != m {
		return nil
	}
	for i := range m {
		r.scale[i] = float64(float32(x[0]*w[i%len(w)]) / y[0])
		r.narrow[i] = float32(r.scale[i])
	}
	if !s.Absent(8) {
		bias := s.Constant64(8)
		if len(bias) != 1 && len(bias) != m {
			return nil
		}
		for i := range m {
			r.bias[i] = bias[i%len(bias)]
		}
	}
	return integerConvOf(s, 0, 3, 2, 5, r)
}

// integerConvOf returns the kernel for input x and constant filters w. xZero and wZero are the inputs with their
// zero points, which may be absent.
func integerConvOf(s *lowering.Step, x, w, xZero, wZero int, r *filterScales) record.TensorMaker {
	if !record.ByteTyped(s, x) || !record.ByteTyped(s, w) || s.In[w].Const == nil ||
		!s.Absent(xZero) && !record.SingleInput(s, xZero) || !s.Absent(wZero) && s.In[wZero].Const == nil {
		return nil
	}
	ws := s.ConstShape(w)
	if len(ws) != 3 && len(ws) != 4 || record.RankOf(s, x) != len(ws) {
		return nil
	}
	c := integerConv{m: ws[0], cg: ws[1], kh: 1, kw: ws[len(ws)-1], group: int(ops.Int(s.Node, "group")), requantize: r}
	if len(ws) == 4 {
		c.kh = ws[2]
	}
	k := c.cg * c.kh * c.kw
	if c.group < 1 || c.m%c.group != 0 || c.m == 0 || k == 0 || k > kernel.MostInt16 {
		return nil
	}
	if !s.Absent(xZero) {
		c.zeroIn = s.In[xZero]
	}
	key, zeros := filterKey{w: s.In[w].Const}, []int{0}
	if !s.Absent(wZero) {
		key.zero = s.In[wZero].Const
		if zeros = bytesOf(key.zero).ints(); len(zeros) != 1 && len(zeros) != c.m || key.zero.Rank() > 1 {
			return nil
		}
	}
	depth, quadDepth := c.asDepth(s, key, zeros), c.asQuadDepth(s, key, zeros)
	if depth == nil {
		c.quads = c.quadWeights(s, key, zeros)
	}
	if depth == nil && c.quads == nil {
		c.weights = record.Of(s).Shared.Get(key, func() any { return c.differences(key, zeros) }).([]int16)
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		in, out := d.ShapeOf(s, x), d.Shape(s.Out[0])
		if len(in) != len(ws) || len(out) != len(ws) {
			return nil
		}
		c := c
		var ok bool
		if c.PlanarWindow, ok = windowed.Planar(s.Node, in, out, c.kh, c.kw); !ok || c.C != c.cg*c.group {
			return nil
		}
		if quadDepth != nil {
			if k := c.quadDepthwise(d, s, s.In[x], quadDepth); k != nil {
				return k
			}
		}
		if depth != nil {
			return c.depthwise(d, s, s.In[x], depth)
		}
		return c.bind(d, s, s.In[x])
	}
}

// differences returns the weights minus their zero points, an even number per filter.
func (c *integerConv) differences(key filterKey, zeros []int) []int16 {
	defer key.w.Release()
	k := c.cg * c.kh * c.kw
	width, b := 2*kernel.PairsOf(k), bytesOf(key.w)
	rows := make([]int16, c.m*width)
	for i := range c.m {
		kernel.WidenBytes(rows[i*width:], kernel.Bytes{Data: b.Data[i*k : (i+1)*k], Signed: b.Signed}, zeros[i%len(zeros)])
	}
	return rows
}

func (c *integerConv) bind(d *lowering.Binding, s *lowering.Step, x *lowering.Value) *record.TensorKernel {
	c.Planes = planesOf(&c.PlanarWindow, c.kh, c.kw, c.m/c.group)
	var off []int32
	for ch := range c.cg {
		for i := range c.kh {
			for j := range c.kw {
				off = append(off, int32(ch*c.Channel+c.At(&c.PlanarWindow, i, j)))
			}
		}
	}
	even := 2
	if c.quads != nil {
		even = 4
	}
	for len(off)%even != 0 {
		off = append(off, off[len(off)-1]) // multiplied by a weight of 0
	}
	c.offsets, c.pairs = kernel.NewOffsets(off), len(off)/2
	pairs, mg := c.pairs, c.m/c.group
	c.span = (c.Oh-1)*c.Pw + c.Ow
	panels := (c.span + kernel.PanelWidth - 1) / kernel.PanelWidth
	per := min(panels, 2*tensors.ConvItemFlops/(2*mg*2*pairs*kernel.PanelWidth), integerTile/(mg*kernel.PanelWidth))
	c.parts = 1
	if c.quads != nil {
		per, c.parts = quadParts(panels, mg, 2*pairs, c.N*c.group)
	}
	per = max(1, (per+1)/2) * 2 // bytes are computed by pairs of panels
	c.chunk, c.chunks = per*kernel.PanelWidth, (panels+per-1)/per
	c.panelWords, c.tileWords = kernel.PanelWidth*pairs, mg*c.chunk
	if c.quads != nil {
		c.panelWords = per * kernel.PanelWidth * pairs / 2
		c.tileWords = min(mg, (len(c.quads.parts)/c.group+c.parts-1)/c.parts*quadFilters) * c.chunk
	}
	most := int(slices.Max(off)) - (c.cg-1)*c.Channel // in the last channel
	size := (c.N*c.C-1)*c.Channel + max(c.Channel, most+panels*kernel.PanelWidth)
	if size > 1<<31-1 {
		return nil
	}
	in, zero, result := ByteSlotOf(d, x), ByteSlotOf(d, c.zeroIn), newSumSlot(d, s, c.requantize != nil)
	temp := (size + 3) / 4
	if c.asInput(&c.PlanarWindow) {
		c.last, c.whole = newLastPanel(off, even, (panels-1)*kernel.PanelWidth, c.cg*c.Channel)
	}
	if c.whole {
		temp = 0
	}
	if c.quads != nil {
		c.add = lowering.Make[int32](d, c.m)
	}
	if c.requantize != nil {
		c.bias = lowering.Make[float64](d, c.m)
		copy(c.bias, c.requantize.bias)
	}
	return &record.TensorKernel{Temp: temp, Scratch: c.panelWords + c.tileWords,
		Run: func(e record.Execution, call record.Call) error {
			f := e.Frame()
			c.padded = tensors.Uint8s(call.Temp)
			c.sums, c.out = result.in(f)
			c.setInput(in.In(f).Bytes, zero.first(f))
			if c.whole {
				c.padded = c.in.Data
			} else if err := e.Parallel((*bytePlanes)(c), c.N*c.C); err != nil {
				return err
			}
			return e.Parallel(c, c.N*c.group*c.chunks*c.parts)
		}}
}

// setInput sets the input and its zero point, and everything that depends on the latter.
func (c *integerConv) setInput(in kernel.Bytes, zero int) {
	if c.quads != nil && (!c.ready || c.zero != zero) {
		c.setQuads(zero + in.Unsigned())
		c.ready = true
	}
	c.in, c.zero = in, zero
}

// lastPanel is the panel of an unpadded input whose numbers may extend past its end. Those are copied first.
type lastPanel struct {
	at         int // its first position
	head, tail kernel.Offsets
	rows       int // of head
	from       int // start of the numbers of tail
	size       int // their number; 0 if the input contains all
}

// mostTail is the maximum number of bytes that are copied.
const mostTail = 1 << 10

// tailOf copies the numbers of tail.
func (p *lastPanel) tailOf(tail *[mostTail]byte, src kernel.Bytes) kernel.Bytes {
	copy(tail[:p.size], src.Data[p.from+p.at:])
	return kernel.Bytes{Data: tail[:], Signed: src.Signed}
}

// newLastPanel separates offsets, a multiple of even, for an input of a given size. ok is false if too many numbers
// are past its end.
func newLastPanel(off []int32, even, at, size int) (p lastPanel, ok bool) {
	n := len(off)
	for n > 0 && int(slices.Max(off[n-even:n]))+at+kernel.PanelWidth > size {
		n -= even
	}
	p = lastPanel{at: at, head: kernel.NewOffsets(off[:n:n]), rows: n}
	if n == len(off) {
		return p, true
	}
	p.from = int(slices.Min(off[n:]))
	tail := slices.Clone(off[n:])
	for i := range tail {
		tail[i] -= int32(p.from)
	}
	p.tail, p.size = kernel.NewOffsets(tail), int(slices.Max(tail))+kernel.PanelWidth
	return p, p.size <= mostTail
}

func (c *integerConv) Do(w *record.Workspace, k int) {
	fresh := w.Fresh(k / c.parts)
	part, chunk, g, n := k%c.parts, k/c.parts%c.chunks, k/c.parts/c.chunks%c.group, k/c.parts/c.chunks/c.group
	mg, size := c.m/c.group, c.Oh*c.Ow
	panels, tile := w.Scratch[:c.panelWords], w.Scratch[c.panelWords:c.panelWords+c.tileWords]
	src := kernel.Bytes{Data: c.padded[(n*c.C+g*c.cg)*c.Channel:], Signed: c.in.Signed}
	from := chunk * c.chunk
	count := min(c.chunk, c.span-from)
	first, rows := g*mg, mg // filters
	var quads []*kernel.QuadFilters
	if c.quads != nil {
		first, quads = c.quads.part(g*c.parts+part, c.group*c.parts)
		rows = 0
		for _, q := range quads {
			rows += q.M
		}
	}
	at := (n*c.m + first) * size // offset of the outputs
	if c.requantize == nil {
		c.sumsOf(tensors.Int32s(tile), panels, fresh, src, quads, first, rows, from, count)
		for i := range rows {
			scatter(c.sums[at+i*size:at+(i+1)*size], tensors.Int32s(tile)[i*c.chunk:i*c.chunk+count], from, c.Pw, c.Ow)
		}
		return
	}
	y, ldy := kernel.Bytes{Data: c.out.Data[at : at+rows*size], Signed: c.out.Signed}, size
	to := y
	if c.Pw == c.Ow {
		to.Data = to.Data[from:]
	} else {
		to.Data, ldy = tensors.Uint8s(tile), c.chunk
	}
	if c.narrow {
		c.quadProducts(nil, to, ldy, panels, fresh, src, quads, first, from, count)
	} else {
		c.sumsOf(tensors.Int32s(tile), panels, fresh, src, quads, first, rows, from, count)
		for i := range rows { // bytes may overwrite sums of earlier rows
			f := first + i
			scale := kernel.RowScale{Bias: c.bias[f : f+1], Scale: c.requantize.scale[f : f+1], Zero: c.requantize.zero}
			scale.Ints(kernel.Bytes{Data: to.Data[i*ldy:], Signed: to.Signed}, ldy, tensors.Int32s(tile)[i*c.chunk:], c.chunk, 1, count)
		}
	}
	if c.Pw == c.Ow {
		return
	}
	for p := 0; p < count; { // one row of the output, all filters
		row, col := (from+p)/c.Pw, (from+p)%c.Pw
		if n := min(c.Ow-col, count-p); n > 0 {
			kernel.CopyByteRows(y.Data[row*c.Ow+col:], size, n, to.Data, p, ldy, 1, rows, 0, n, 0)
		}
		p += c.Pw - col
	}
}

// sumsOf computes the sums of count positions from one on, for rows filters from the first on.
func (c *integerConv) sumsOf(tile []int32, scratch []float32, fresh bool, src kernel.Bytes, quads []*kernel.QuadFilters,
	first, rows, from, count int) {
	if c.quads != nil {
		c.quadProducts(tile, kernel.Bytes{}, 0, scratch, fresh, src, quads, first, from, count)
		if c.requantize == nil {
			for i, more := range c.add[first : first+rows] {
				row := tile[i*c.chunk:][:count]
				for j := range row {
					row[j] += more
				}
			}
		}
		return
	}
	pairs := c.pairs
	panel := tensors.Int16s(scratch)
	for at := 0; at < count; at += kernel.PanelWidth {
		c.gather16(panel, src, from+at)
		kernel.PanelProductInt16(tile[at:], c.chunk, c.weights[first*2*pairs:], 2*pairs, rows, pairs, panel, kernel.PanelWidth)
	}
}

// gather16 gathers a panel of differences from the zero point.
func (c *integerConv) gather16(panel []int16, src kernel.Bytes, at int) {
	p := &c.last
	if !c.whole || p.size == 0 || at != p.at {
		kernel.PanelInt16(panel, src, c.zero, c.offsets, at)
		return
	}
	var tail [mostTail]byte
	kernel.PanelInt16(panel, src, c.zero, p.head, at)
	kernel.PanelInt16(panel[p.rows*kernel.PanelWidth:], p.tailOf(&tail, src), c.zero, p.tail, 0)
}

// scatter copies x, positions from index from on in rows of pw, to rows of ow numbers, and drops the rest of each row.
func scatter[T any](y, x []T, from, pw, ow int) {
	if pw == ow {
		copy(y[from:], x)
		return
	}
	row, col := from/pw, from%pw
	y = y[row*ow:]
	for len(x) > 0 {
		n := min(len(x), pw-col)
		if col < ow {
			copy(y[col:ow], x[:n])
		}
		if x = x[n:]; len(x) > 0 {
			y, col = y[ow:], 0
		}
	}
}
