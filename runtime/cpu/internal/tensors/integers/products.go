package integers

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Products of matrices of bytes: MatMulInteger, MatMulIntegerToFloat, QLinearMatMul and QGemm. Sums are exact, and
// the operations after them round like the operators' bodies, so the answers are bitwise equal.
func init() {
	record.Register(
		record.Record{Op: "MatMulInteger", Numbers: byDifferences, Tensor: record.TensorKind{Make: matMulIntegerKernel}},
		record.Record{Op: "QLinearMatMul", Numbers: byScales, Tensor: record.TensorKind{Make: qlinearMatMulKernel}},
		record.Record{Op: "com.microsoft.QGemm", Numbers: byScales, Tensor: record.TensorKind{Make: qgemmKernel}},
		record.Record{Op: "com.microsoft.MatMulIntegerToFloat", Numbers: byScales, Tensor: record.TensorKind{Make: matMulIntegerToFloatKernel}},
	)
}

// integerProduct multiplies rows of a, minus their zero point, by columns of b. Panels of columns are packed once if
// b is constant, and otherwise as they are needed.
type integerProduct struct {
	m, k, n        int
	at             [2][]int // per product: offsets of the matrices
	rows, columns  int      // per work item
	down, across   int      // work items per product
	w              *kernel.Int16
	quads          bool               // four bytes are multiplied at once
	wQuads         *kernel.QuadMatrix // if so, used instead of w
	bZeros         int                // if so, the zero point of wQuads
	offsets        kernel.Offsets     // of the rows of b: an even number of them, or with quads a multiple of four
	requantize     *requantization
	add            []int32            // if so, per column: its bias
	scale          kernel.ColumnScale // and the scale that turns them into bytes
	aIn, bIn       *lowering.Value
	aZero, bZero   *lowering.Value // nil means 0
	a, b           kernel.Bytes
	zeroA, zeroB   int
	scaled         bool         // sums become float32 numbers times the scales of a and b
	factor         []float32    // if so, the products of the scales: one, or one per column
	sums           []int32      // the result, or nil
	y              kernel.Bytes // the result, if it is quantized
	blockA, blockB int          // words of scratch
	signed         []int8       // with quads: a as signed numbers, rows of quads
	ofRows         []int32      // with quads: the sums of its rows
}

// requantization turns sums into bytes: sum with bias, as float32, times one scale or one per column, divided by the
// unit, rounded.
type requantization struct {
	bias  []int32 // per column, or nil
	scale []float32
	unit  float32
	zero  int
}

func matMulIntegerKernel(s *lowering.Step) record.TensorMaker {
	return integerProductOf(s, 0, 1, 2, 3, false, nil)
}

// matMulIntegerToFloatKernel supports products without a bias, and with one scale of a.
func matMulIntegerToFloatKernel(s *lowering.Step) record.TensorMaker {
	if !s.Absent(6) || !s.Float32Input(2) || !s.Float32Input(3) || !record.SingleInput(s, 2) || record.RankOf(s, 2) > 2 ||
		record.RankOf(s, 3) > 1 {
		return nil
	}
	return integerProductOf(s, 0, 1, 4, 5, true, nil)
}

func qlinearMatMulKernel(s *lowering.Step) record.TensorMaker {
	if len(s.In) != 8 || s.Absent(7) {
		return nil
	}
	a, b, y, zero := s.Constant(1), s.Constant(4), s.Constant(6), s.Constant64(7)
	if len(a) != 1 || len(b) == 0 || len(y) != 1 || len(zero) != 1 || len(s.ConstShape(4)) > 1 || !s.Float32Input(1) ||
		!s.Float32Input(4) || !s.Float32Input(6) || !record.ByteTyped(s, 7) {
		return nil
	}
	r := &requantization{unit: 1, zero: int(zero[0])}
	for _, v := range b {
		r.scale = append(r.scale, float32(a[0]*v)/y[0])
	}
	return integerProductOf(s, 0, 3, 2, 5, false, r)
}

// qgemmKernel supports the form that passes make: no transposes, no factor, and a quantized result.
func qgemmKernel(s *lowering.Step) record.TensorMaker {
	if len(s.In) != 9 || s.Absent(8) || ops.Int(s.Node, "transA") != 0 || ops.Int(s.Node, "transB") != 0 ||
		ops.Float(s.Node, "alpha") != 1 {
		return nil
	}
	a, b, y, zero := s.Constant(1), s.Constant(4), s.Constant(7), s.Constant64(8)
	if len(a) != 1 || len(b) == 0 || len(y) != 1 || len(zero) != 1 || len(s.ConstShape(1)) > 1 ||
		len(s.ConstShape(4)) > 1 || len(s.ConstShape(7)) > 1 || len(s.ConstShape(8)) > 1 || !record.ByteTyped(s, 8) ||
		record.RankOf(s, 0) != 2 || record.RankOf(s, 3) != 2 {
		return nil
	}
	r := &requantization{unit: y[0], zero: int(zero[0])}
	for _, v := range b {
		r.scale = append(r.scale, a[0]*v)
	}
	if !s.Absent(6) {
		c := s.In[6].Const
		if c == nil || c.Rank() != 1 || c.DType() != tensor.Int32 || s.In[3].Const == nil || c.Dim(0) != s.In[3].Const.Dim(1) {
			return nil
		}
		r.bias = tensor.Data[int32](c)
	}
	return integerProductOf(s, 0, 3, 2, 5, false, r)
}

// int16Key identifies packed matrices of bytes, which the programs of one model share.
type int16Key struct{ t, zero *tensor.Tensor }

// integerProductOf returns the kernel for the product of inputs a and b. aZero and bZero are the inputs with their
// zero points, which may be absent.
func integerProductOf(s *lowering.Step, a, b, aZero, bZero int, scaled bool, r *requantization) record.TensorMaker {
	if !record.ByteTyped(s, a) || !record.ByteTyped(s, b) || record.RankOf(s, a) < 2 || record.RankOf(s, b) < 2 ||
		!s.Absent(aZero) && !record.SingleInput(s, aZero) {
		return nil
	}
	p := integerProduct{requantize: r, scaled: scaled, aIn: s.In[a], bIn: s.In[b]}
	if !s.Absent(aZero) {
		p.aZero = s.In[aZero]
	}
	if !s.Absent(bZero) {
		p.bZero = s.In[bZero]
	}
	if w := p.bIn.Const; w != nil && w.Rank() == 2 && (p.bZero == nil || p.bZero.Const != nil && p.bZero.Const.Rank() < 2) {
		zero := []int{0}
		key := int16Key{t: w}
		if p.bZero != nil {
			key.zero = p.bZero.Const
			zero = bytesOf(key.zero).ints()
		}
		k, n := w.Dim(0), w.Dim(1)
		if k > kernel.MostInt16 || len(zero) != 1 && len(zero) != n {
			return nil
		}
		if p.quads = kernel.Quads() && !slices.ContainsFunc(zero, func(z int) bool { return z != zero[0] }) && n > 0; p.quads {
			p.bZeros = zero[0]
			pack := func() any {
				defer w.Release()
				return kernel.PackQuads(bytesOf(w).Bytes, n, k, 1, n)
			}
			p.wQuads = record.Of(s).Shared.Get(quadMatrixKey{w}, pack).(*kernel.QuadMatrix)
		} else {
			pack := func() any {
				defer w.Release()
				return kernel.PackInt16(bytesOf(w).Bytes, zero, n, k, 1, n)
			}
			p.w = record.Of(s).Shared.Get(key, pack).(*kernel.Int16)
		}
	} else if p.quads = kernel.Quads(); p.bZero != nil && !record.SingleInput(s, bZero) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		p := p
		return p.bind(d, s, d.Shape(p.aIn), d.Shape(p.bIn))
	}
}

// Maximum sizes for a work item of an integer product: bytes of a block of a, numbers of the result, and, with
// quads, bytes of a and b.
const (
	integerBlock = 1 << 16
	integerTile  = 1 << 15
	quadRowBytes = 1 << 19
	quadBytes    = 1 << 18
)

// Rows of quads that are multiplied at once. With a constant matrix, threads share blocks of such rows: at most
// rowItems blocks, each with at least rowItem operations, which take microseconds. Blocks of columns would make the
// result's rows short.
const (
	quadRows = 12
	rowItem  = 1 << 21
	rowItems = 8
)

func (p *integerProduct) bind(d *lowering.Binding, s *lowering.Step, a, b []int) *record.TensorKernel {
	if a == nil || b == nil || s.Out[0] == nil || d.Shape(s.Out[0]) == nil {
		return nil
	}
	p.m, p.k, p.n = a[len(a)-2], a[len(a)-1], b[len(b)-1]
	batch, err := ops.Broadcast(a[:len(a)-2], b[:len(b)-2])
	if err != nil || b[len(b)-2] != p.k || p.m == 0 || p.n == 0 || p.k == 0 || p.k > kernel.MostInt16 || p.k*p.n > 1<<30 ||
		p.requantize != nil && len(p.requantize.scale) != 1 && len(p.requantize.scale) != p.n ||
		!slices.Equal(d.Shape(s.Out[0]), append(slices.Clone(batch), p.m, p.n)) {
		return nil // the evaluation reports the error
	}
	constant := p.w != nil || p.wQuads != nil
	if constant { // the rows of all products are consecutive
		for _, k := range batch {
			p.m *= k
		}
		if p.m == 0 {
			return nil
		}
		p.at = [2][]int{{0}, {0}}
	} else {
		for i, v := range [][]int{a[:len(a)-2], b[:len(b)-2]} {
			size := []int{p.m * p.k, p.k * p.n}[i]
			p.at[i] = lowering.Offsets[int](d, batch, ops.BroadcastStrides(v, batch), 0)
			for k := range ops.Each(d.Steps(), len(p.at[i])) {
				p.at[i][k] *= size
			}
		}
		even := 2 * kernel.PairsOf(p.k)
		if p.quads {
			even = 4 * kernel.QuadsOf(p.k)
		}
		off := lowering.Make[int32](d, even)
		for i := range off {
			off[i] = int32(min(i, p.k-1) * p.n)
		}
		p.offsets = kernel.NewOffsets(off)
	}
	panels := (p.n + kernel.PanelWidth - 1) / kernel.PanelWidth
	per, temp := 0, 0
	if p.quads {
		quads := kernel.QuadsOf(p.k)
		p.rows = max(quadRows, quadRowBytes/(4*quads))
		p.down = (p.m + p.rows - 1) / p.rows
		p.rows = (p.m + p.down - 1) / p.down
		if wanted := min(rowItems, 2*p.m*p.k*p.n/rowItem); constant && p.down < wanted && p.m >= wanted*quadRows {
			p.rows = (p.m/wanted + quadRows - 1) / quadRows * quadRows
			p.down = (p.m + p.rows - 1) / p.rows
		}
		per = min(16*tensors.ConvItemFlops/(2*p.rows*p.k*kernel.PanelWidth), quadBytes/(4*quads*kernel.PanelWidth))
		per = max(quadPanels, min(per, integerTile/(p.rows*kernel.PanelWidth))/quadPanels*quadPanels)
		blocks := max(1, len(p.at[0])*p.down)
		if wanted := min(quadItems, 2*p.m*p.k*p.n/quadItem) / blocks; wanted > 1 { // per block of rows
			per = min(per, (panels/wanted+quadPanels-1)/quadPanels*quadPanels)
			per = max(per, quadPanels)
		}
		per = min(per, panels)
		p.blockA, p.blockB = per*kernel.PanelWidth, quadPanels*kernel.PanelWidth*quads
		all := tensors.Product(a) / p.k // rows
		temp = all*quads + all
	} else {
		pairs := kernel.PairsOf(p.k)
		p.rows = min(p.m, max(12, integerBlock/(4*pairs)))
		p.down = (p.m + p.rows - 1) / p.rows
		per = min(2*tensors.ConvItemFlops/(2*p.rows*p.k*kernel.PanelWidth), integerTile/(p.rows*kernel.PanelWidth))
		per = max(1, min(per, panels))
		p.blockA, p.blockB = p.rows*pairs, kernel.PanelWidth*pairs
	}
	p.columns, p.across = per*kernel.PanelWidth, (panels+per-1)/per
	if r := p.requantize; r != nil {
		if p.add = r.bias; r.bias == nil {
			p.add = lowering.Make[int32](d, p.n)
		}
		factor := r.scale
		if len(r.scale) == 1 {
			factor = lowering.Make[float32](d, p.n)
			for i := range ops.Each(d.Steps(), p.n) {
				factor[i] = r.scale[0]
			}
		}
		p.scale = kernel.NewColumnScale(factor, r.unit, r.zero)
	}
	aIn, aZero, bZero := ByteSlotOf(d, p.aIn), ByteSlotOf(d, p.aZero), byteSlot{}
	bIn := byteSlot{Signed: d.DType(p.bIn) == tensor.Int8}
	if !constant {
		bIn, bZero = ByteSlotOf(d, p.bIn), ByteSlotOf(d, p.bZero)
	}
	var result sumSlot
	var scales [2]lowering.Slot[float32]
	factors := 0
	if !p.scaled {
		result = newSumSlot(d, s, p.requantize != nil)
	} else {
		size, err := tensor.Size(d.ShapeOf(s, 3))
		if err != nil || size != 1 && size != p.n || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		result = sumSlot{floats: lowering.Output[float32](d, s, 0), scaled: true}
		scales, factors = [2]lowering.Slot[float32]{lowering.Input[float32](d, s, 2), lowering.Input[float32](d, s, 3)}, size
	}
	return &record.TensorKernel{Temp: temp + factors, Scratch: p.blockA + p.blockB + p.rows*p.columns,
		Run: func(e record.Execution, c record.Call) error {
			f := e.Frame()
			p.a, p.b, p.zeroA, p.zeroB = aIn.In(f).Bytes, bIn.In(f).Bytes, aZero.first(f), bZero.first(f)
			if p.wQuads != nil {
				p.zeroB = p.bZeros
			}
			p.sums, p.y = result.in(f)
			if p.scaled {
				p.factor = c.Temp[temp : temp+factors]
				kernel.MulS(p.factor, scales[1].In(f), scales[0].In(f)[0])
			}
			if p.quads {
				n := temp / (kernel.QuadsOf(p.k) + 1)
				p.signed, p.ofRows = tensors.Int8s(c.Temp[n:temp]), tensors.Int32s(c.Temp[:n])
				if err := e.Parallel((*signedRows)(p), (n+signedItem-1)/signedItem); err != nil {
					return err
				}
			}
			return e.Parallel(p, len(p.at[0])*p.down*p.across)
		}}
}

func (p *integerProduct) Do(w *record.Workspace, t int) {
	product, down, across := t/(p.down*p.across), t/p.across%p.down, t%p.across
	from, left := down*p.rows, across*p.columns
	rows, columns := min(p.rows, p.m-from), min(p.columns, p.n-left)
	if p.quads {
		p.quadProduct(w, product, from, left, rows, columns)
		return
	}
	pairs := kernel.PairsOf(p.k)
	block, panel, tile := tensors.Int16s(w.Scratch[:p.blockA]), tensors.Int16s(w.Scratch[p.blockA:p.blockA+p.blockB]),
		tensors.Int32s(w.Scratch[p.blockA+p.blockB:])
	a := p.a.Data[p.at[0][product]+from*p.k:]
	for i := range rows {
		row := block[i*2*pairs : (i+1)*2*pairs]
		row[2*pairs-1] = 0
		kernel.WidenBytes(row, kernel.Bytes{Data: a[i*p.k : (i+1)*p.k], Signed: p.a.Signed}, p.zeroA)
	}
	y, ldy := tile, p.columns
	if p.requantize == nil {
		y, ldy = p.sums[product*p.m*p.n+from*p.n+left:], p.n
	}
	for j := 0; j < columns; j += kernel.PanelWidth {
		n := min(kernel.PanelWidth, columns-j)
		if p.w != nil {
			panel = p.w.Panel((left + j) / kernel.PanelWidth)
		} else {
			p.gather(panel, p.b.Data[p.at[1][product]:], left+j, n)
		}
		kernel.PanelProductInt16(y[j:], ldy, block, 2*pairs, rows, pairs, panel, n)
	}
	for i := range rows {
		switch {
		case p.requantize != nil:
			p.quantize(tile[i*ldy:i*ldy+columns], product, from+i, left, p.add[left:], 0)
		case p.scaled:
			p.scale32(y[i*ldy:i*ldy+columns], left)
		}
	}
}

// quantize turns sums of a row from column left on, plus add per column and more, into bytes. It overwrites the
// sums.
func (p *integerProduct) quantize(sums []int32, product, row, left int, add []int32, more int32) {
	at := (product*p.m+row)*p.n + left
	p.scale.Bytes(kernel.Bytes{Data: p.y.Data[at : at+len(sums)], Signed: p.y.Signed}, sums, add, more, left)
}

// scale32 turns sums of a row from column left on into float32 numbers in place.
func (p *integerProduct) scale32(sums []int32, left int) {
	y := tensors.Reinterpret[float32](sums)
	kernel.FloatsOfInts(y, sums)
	if len(p.factor) == 1 {
		kernel.MulS(y, y, p.factor[0])
		return
	}
	kernel.Mul(y, y, p.factor[left:left+len(y)])
}

// gather packs n columns of b.
func (p *integerProduct) gather(panel []int16, b []byte, from, n int) {
	last := (p.k-1)*p.n + from
	if n == kernel.PanelWidth || last+kernel.PanelWidth <= len(b) { // data next to the columns is read and ignored
		kernel.PanelInt16(panel, kernel.Bytes{Data: b, Signed: p.b.Signed}, p.zeroB, p.offsets, from)
		return
	}
	clear(panel)
	w := byteTensor{kernel.Bytes{Data: b, Signed: p.b.Signed}}
	for i := range p.k {
		for j := range n {
			panel[i/2*2*kernel.PanelWidth+2*j+i%2] = int16(w.at(i*p.n+from+j) - p.zeroB)
		}
	}
}

// byteSlot is the slot of a tensor of type int8 or uint8. The zero byteSlot means that it is absent.
type byteSlot struct {
	slot          lowering.Bytes
	given, Signed bool
}

func ByteSlotOf(d *lowering.Binding, v *lowering.Value) byteSlot {
	if v == nil || d.Missing(v) {
		return byteSlot{}
	}
	return byteSlot{lowering.BytesOf(d, v), true, d.DType(v) == tensor.Int8}
}

// In returns the bytes in the form that kernels take.
func (b byteSlot) In(f *lowering.Frame) byteTensor {
	return byteTensor{kernel.Bytes{Data: b.slot.In(f), Signed: b.Signed}}
}

// first returns the zero point in the slot, or 0 if it is absent.
func (b byteSlot) first(f *lowering.Frame) int {
	if !b.given {
		return 0
	}
	return b.In(f).at(0)
}

// sumSlot is the slot for the sums of a product of bytes, or for the bytes or numbers made of them.
type sumSlot struct {
	sums   lowering.Slot[int32]
	floats lowering.Slot[float32]
	scaled bool
	bytes  byteSlot
}

func newSumSlot(d *lowering.Binding, s *lowering.Step, quantized bool) (y sumSlot) {
	if quantized {
		y.bytes = ByteSlotOf(d, s.Out[0])
	} else {
		y.sums = lowering.Output[int32](d, s, 0)
	}
	return y
}

func (y *sumSlot) in(f *lowering.Frame) (sums []int32, bytes kernel.Bytes) {
	if y.bytes.given {
		bytes = y.bytes.In(f).Bytes
	}
	if y.scaled {
		return tensors.Int32s(y.floats.In(f)), bytes
	}
	return y.sums.In(f), bytes
}

// byteTensor is the elements of a tensor of type int8 or uint8.
type byteTensor struct{ kernel.Bytes }

// bytesOf returns a constant of type int8 or uint8 in the form that kernels take.
func bytesOf(t *tensor.Tensor) byteTensor {
	return byteTensor{kernel.Bytes{Data: t.Bytes(), Signed: t.DType() == tensor.Int8}}
}

func (b byteTensor) at(i int) int {
	if b.Signed {
		return int(int8(b.Data[i]))
	}
	return int(b.Data[i])
}

func (b byteTensor) ints() []int {
	all := make([]int, len(b.Data))
	for i := range all {
		all[i] = b.at(i)
	}
	return all
}
