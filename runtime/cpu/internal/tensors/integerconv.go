package tensors

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/windowed"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Convolutions of bytes over one or two axes: ConvInteger and QLinearConv. Sums are exact, and later operations round
// as the operators' bodies do, so the answers are theirs, bit by bit.
func init() {
	record.Register(
		record.Record{Op: "ConvInteger", Tensor: record.TensorKind{Make: convIntegerKernel}},
		record.Record{Op: "QLinearConv", Tensor: record.TensorKind{Make: qlinearConvKernel}},
	)
}

// integerConv is a convolution for one shape. The input is copied with its pads, separated into the phases of the
// strides, so that the inputs of a weight are contiguous. Rows are contiguous, too; the outputs between rows are
// dropped.
type integerConv struct {
	windowed.PlanarWindow
	kh, kw, cg, m, group int
	weights              []int16 // per filter: its weights, an even number
	requantize           *filterScales
	quads                *quadWeights    // for machines that multiply four bytes at once, or nil
	zeroIn               *lowering.Value // zero point of the input; nil for 0

	// sizes of a row and a plane of one phase, of a channel, and of an output channel with gaps
	pw, plane, channel, span int
	pairs                    int            // of the weights of a filter
	offsets                  kernel.Offsets // of their inputs in a group
	chunk, chunks            int            // positions of a work item, work items per sample and group
	panelWords, tileWords    int            // sizes in scratch, in float32
	together                 int            // panels of quads at a time
	rowPhases, columnPhases  uint64         // those that weights meet, modulo 64

	// While it runs:
	in     kernel.Bytes
	zero   int
	padded []byte
	sums   []int32
	out    kernel.Bytes
}

// filterScales turn sums into bytes, per filter.
type filterScales struct {
	bias, scale []float64
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
	r := &filterScales{bias: make([]float64, m), scale: make([]float64, m), zero: int(zero[0])}
	if len(w) != 1 && len(w) != m {
		return nil
	}
	for i := range m {
		r.scale[i] = float64(float32(x[0]*w[i%len(w)]) / y[0])
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

// integerConvOf makes the kernel for input x and constant filters w. xZero and wZero are the indices of their zero
// points, which may be absent.
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
	key, zero := filterKey{w: s.In[w].Const}, []int{0}
	if !s.Absent(wZero) {
		key.zero = s.In[wZero].Const
		if zero = bytesOf(key.zero).ints(); len(zero) != 1 && len(zero) != c.m || key.zero.Rank() > 1 {
			return nil
		}
	}
	c.weights = record.Of(s).Shared.Get(key, func() any {
		width, b := 2*kernel.PairsOf(k), bytesOf(key.w)
		rows := make([]int16, c.m*width)
		for i := range c.m {
			kernel.WidenBytes(rows[i*width:], kernel.Bytes{Data: b.Data[i*k : (i+1)*k], Signed: b.Signed},
				zero[i%len(zero)])
		}
		return rows
	}).([]int16)
	depth := c.asDepth(s, key)
	if r != nil && depth == nil {
		c.quads = c.quadWeights(s, key)
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
		if depth != nil {
			return c.depthwise(d, s, s.In[x], depth)
		}
		return c.bind(d, s, s.In[x])
	}
}

func (c *integerConv) bind(d *lowering.Binding, s *lowering.Step, x *lowering.Value) *record.TensorKernel {
	ph := (c.Hp + c.Sh - 1) / c.Sh
	c.pw = (c.Wp + c.Sw - 1) / c.Sw
	c.plane = c.pw * ph
	c.channel = c.plane * c.Sh * c.Sw
	var off []int32
	for ch := range c.cg {
		for i := range c.kh {
			for j := range c.kw {
				y, x := i*c.Dh, j*c.Dw
				off = append(off, int32(ch*c.channel+((y%c.Sh)*c.Sw+x%c.Sw)*c.plane+y/c.Sh*c.pw+x/c.Sw))
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
	c.span = (c.Oh-1)*c.pw + c.Ow
	panels := (c.span + kernel.PanelWidth - 1) / kernel.PanelWidth
	per := min(panels, 2*convItemFlops/(2*mg*2*pairs*kernel.PanelWidth), integerTile/(mg*kernel.PanelWidth))
	per = max(1, (per+1)/2) * 2 // bytes are computed by pairs of panels
	c.chunk, c.chunks = per*kernel.PanelWidth, (panels+per-1)/per
	c.panelWords, c.tileWords = kernel.PanelWidth*pairs, mg*c.chunk
	if c.quads != nil {
		c.together = max(1, min(per, quadBlock/(kernel.PanelWidth*2*pairs)))
		c.panelWords = c.together * kernel.PanelWidth * pairs / 2
	}
	size := (c.N*c.C-1)*c.channel + max(c.channel, int(slices.Max(off))-(c.cg-1)*c.channel+panels*kernel.PanelWidth)
	if size > 1<<31-1 {
		return nil
	}
	in, zero, result := byteSlotOf(d, x), byteSlotOf(d, c.zeroIn), newSumSlot(d, s, c.requantize != nil)
	// Without pads and strides, inputs are read where they are, unless panels end behind them.
	whole := c.channel == c.H*c.Wd && c.Sw == 1 && c.Sh == 1 && c.span%kernel.PanelWidth == 0
	temp := (size + 3) / 4
	if whole {
		temp = 0
	}
	for i := range c.kh {
		c.rowPhases |= 1 << (i * c.Dh % c.Sh % 64)
	}
	for j := range c.kw {
		c.columnPhases |= 1 << (j * c.Dw % c.Sw % 64)
	}
	return &record.TensorKernel{Temp: temp, Scratch: c.panelWords + c.tileWords + c.chunk/4,
		Run: func(e record.Execution, call record.Call) error {
			f := e.Frame()
			c.in, c.zero, c.padded = in.in(f).Bytes, zero.first(f), uint8s(call.Temp)
			c.sums, c.out = result.in(f)
			if whole {
				c.padded = c.in.Data
			} else if err := e.Parallel((*bytePhases)(c), c.N*c.C); err != nil {
				return err
			}
			return e.Parallel(c, c.N*c.group*c.chunks)
		}}
}

// bytePhases copies a channel with its pads, separated into phases.
type bytePhases integerConv

func (c *bytePhases) Do(_ *record.Workspace, k int) {
	dst, src := c.padded[k*c.channel:(k+1)*c.channel], c.in.Data[k*c.H*c.Wd:(k+1)*c.H*c.Wd]
	switch {
	case len(dst) != len(src):
		fillBytes(dst, byte(c.zero))
	case c.Sw == 1 && c.Sh == 1:
		copy(dst, src)
		return
	}
	for r := range c.H {
		y, row := r+c.Top, src[r*c.Wd:(r+1)*c.Wd]
		if c.rowPhases>>(y%c.Sh%64)&1 == 0 {
			continue
		}
		to := dst[(y%c.Sh*c.Sw)*c.plane+y/c.Sh*c.pw:]
		if c.Sw == 1 {
			copy(to[c.Left:], row)
			continue
		}
		for q := range min(c.Sw, len(row)) { // numbers of one phase
			x := q + c.Left
			if c.columnPhases>>(x%c.Sw%64)&1 == 0 {
				continue
			}
			phase := to[x%c.Sw*c.plane+x/c.Sw:]
			phase = phase[:(len(row)-q+c.Sw-1)/c.Sw]
			i := q
			for k := range phase {
				phase[k] = row[i]
				i += c.Sw
			}
		}
	}
}

func fillBytes(b []byte, v byte) {
	if len(b) == 0 {
		return
	}
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

func (c *integerConv) Do(w *record.Workspace, k int) {
	part, g, n := k%c.chunks, k/c.chunks%c.group, k/c.chunks/c.group
	mg, pairs := c.m/c.group, c.pairs
	tile := int32s(w.Scratch[c.panelWords : c.panelWords+c.tileWords])
	line := uint8s(w.Scratch[c.panelWords+c.tileWords:])
	src := kernel.Bytes{Data: c.padded[(n*c.C+g*c.cg)*c.channel:], Signed: c.in.Signed}
	from := part * c.chunk
	count := min(c.chunk, c.span-from)
	if c.quads != nil {
		c.quadProducts(tile, w.Scratch[:c.panelWords], src, g, from, count)
	} else {
		panel := int16s(w.Scratch[:c.panelWords])
		for at := 0; at < count; at += kernel.PanelWidth {
			kernel.PanelInt16(panel, src, c.zero, c.offsets, from+at)
			kernel.PanelProductInt16(tile[at:], c.chunk, c.weights[g*mg*2*pairs:], 2*pairs, mg, pairs, panel,
				kernel.PanelWidth)
		}
	}
	for i := range mg {
		f, sums := g*mg+i, tile[i*c.chunk:i*c.chunk+count]
		at := (n*c.m + f) * c.Oh * c.Ow
		r := c.requantize
		if r == nil {
			scatter(c.sums[at:at+c.Oh*c.Ow], sums, from, c.pw, c.Ow)
			continue
		}
		sums = tile[i*c.chunk : (i+1)*c.chunk] // outputs behind the last position are dropped
		bias := r.bias[f]
		if c.quads != nil {
			bias -= float64(c.quads.sum[f] * (c.zero + src.Unsigned()))
		}
		if c.pw == c.Ow && count%kernel.PanelWidth == 0 {
			y := c.out.Data[at+from : at+from+count]
			kernel.ScaleBytes(kernel.Bytes{Data: y, Signed: c.out.Signed}, sums[:count], bias, r.scale[f], r.zero)
			continue
		}
		kernel.ScaleBytes(kernel.Bytes{Data: line[:c.chunk], Signed: c.out.Signed}, sums, bias, r.scale[f], r.zero)
		scatter(c.out.Data[at:at+c.Oh*c.Ow], line[:count], from, c.pw, c.Ow)
	}
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
