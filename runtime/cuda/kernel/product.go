package kernel

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// Matrix products on tensor cores. A block computes a tile of C. It copies tiles of A and B, 32 numbers long along
// K, to shared memory some stages ahead of their use. Its warps multiply them in pieces of 16 × 8 × 8.
//
// A float32 number is, up to its last bits, the sum of two TF32 numbers: x = high + low. Precision Float32 adds
// low·high, high·low and high·high, in this order, of 8 numbers along K, and sums these up with rounded
// additions, because tensor cores truncate their sums. The order of the sum along K does not depend on the tile,
// except for products that are split along K. A result that is not finite is recomputed by plain sums, because parts
// of an infinity are not numbers.

// Precision is how products of float32 numbers are computed.
type Precision uint8

const (
	Float32 Precision = iota // as accurate as sums in float32
	TF32                     // factors rounded to 11 bits
	BF16                     // factors rounded to 8 bits

	// Factors of other types in 32-bit words: A and B are matrices of words, and K counts words (see Packing).
	PairsF16  // two float16 each; sums are float32
	PairsBF16 // two bfloat16 each; sums are float32
	BytesUU   // four unsigned integers each; sums are 32 bits and wrap around
	BytesUS   // unsigned in A, signed in B
	BytesSU
	BytesSS
)

func (p Precision) words() bool    { return p >= PairsF16 }
func (p Precision) integers() bool { return p >= BytesUU }

// Matrix is a matrix of numbers, or a stack of matrices. Strides are in numbers, which are float32 unless a product
// has a Result.
type Matrix struct {
	Buffer Buffer // aligned to at least 16 bytes
	At     int    // offset of the first number
	Row    int    // stride of rows; for B of a product, of its columns
	Inner  int    // stride within a row: along K; for C, along N
	Batch  []int  // strides along the dimensions of the batch; nil if all share the matrix
	Window *Window
}

// Hook changes a number of the result before it is stored, or combines a pair of neighbours in a row to one number, such
// as a value and its gate. row counts the rows of all matrices of the batch, and col numbers or pairs.
type Hook func(k *ptx.Kernel, row, col ptx.U32, x ...ptx.F32) ptx.F32

// Epilogue changes the results of a product. Begin adds parameters to the kernel, whose values are Args, and returns the
// function that changes each number, or each pair. With Pairs, C has N/2 columns.
type Epilogue struct {
	Begin func(k *ptx.Kernel) Hook
	Pairs bool
	Args  []Arg
}

// Product is C = Epilogue(Alpha·A·Bᵀ + Beta·Bias), where A is M × K, B is N × K and C is M × N, for each
// index of a batch. A matrix stored as K × N is a B with Row 1 and Inner N.
type Product struct {
	M, N, K   int
	Batch     []int
	A, B, C   Matrix
	Alpha     float32 // 0 means 1
	Bias      *Matrix
	Beta      float32 // 0 means 1
	Precision Precision
	Epilogue  *Epilogue
	// Result is the type of the numbers of C and Bias: SumF32, SumF16 or SumBF16. For products of bytes it is
	// SumI32, without Alpha, Bias and Epilogue.
	Result SumType
	// Zeros are the tables of the zero points of the rows of A and B (see ZeroPoints), for products of bytes; nil
	// for none.
	Zeros *[2]Matrix
	// Requantized turns 32-bit sums into 8-bit numbers: Result is SumI8.
	Requantized *Requantization
}

// Calls returns the launches. scratch provides memory that only they use.
func (p Product) Calls(scratch func(bytes int) Buffer) []Call {
	if p.M == 0 || p.N == 0 || slices.Contains(p.Batch, 0) {
		return nil
	}
	p = p.normal()
	if p.Small() {
		return p.smallCalls()
	}
	t, split := p.choose()
	if p.Precision.integers() {
		split = 1 // parts are summed in float32
	}
	return p.cut(t, split, scratch)
}

// cut returns the launches with a given tile and K split into split parts.
func (p *Product) cut(t blockTile, split int, scratch func(bytes int) Buffer) []Call {
	f := p.form(t)
	if split == 1 {
		return []Call{p.call(f, 1)}
	}
	part := *p
	part.Bias, part.Alpha, part.Epilogue, part.Result = nil, 1, nil, SumF32
	size := p.M * p.N
	part.C = Matrix{Buffer: scratch(4 * size * split * volume(p.Batch)), Row: p.N, Inner: 1, Batch: make([]int, len(p.Batch))}
	for i, d := 0, size; i < len(p.Batch); i++ {
		at := len(p.Batch) - 1 - i
		part.C.Batch[at] = d
		d *= p.Batch[at]
	}
	f = part.form(t)
	f.split = true
	return []Call{part.call(f, split), p.reduceCall(part.C.Buffer, split)}
}

func volume(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// normal fills in defaults, and joins dimensions of the batch that form one dimension of even stride in all
// matrices.
func (p Product) normal() Product {
	if p.Alpha == 0 {
		p.Alpha = 1
	}
	if p.Beta == 0 {
		p.Beta = 1
	}
	all := []*Matrix{&p.A, &p.B, &p.C}
	if p.Bias != nil {
		bias := *p.Bias
		p.Bias = &bias
		all = append(all, &bias)
	}
	if p.Zeros != nil {
		zeros := *p.Zeros
		p.Zeros = &zeros
		all = append(all, &zeros[0], &zeros[1])
	}
	for _, m := range all {
		if m.Batch == nil {
			m.Batch = make([]int, len(p.Batch))
		}
		m.Batch = slices.Clone(m.Batch)
	}
	p.Batch = slices.Clone(p.Batch)
	drop := func(i int) {
		p.Batch = slices.Delete(p.Batch, i, i+1)
		for _, m := range all {
			m.Batch = slices.Delete(m.Batch, i, i+1)
		}
	}
	for i := len(p.Batch) - 1; i >= 0; i-- {
		if p.Batch[i] == 1 {
			drop(i)
		}
	}
	for i := len(p.Batch) - 2; i >= 0; i-- {
		even := true
		for _, m := range all {
			even = even && m.Batch[i] == m.Batch[i+1]*p.Batch[i+1]
		}
		if even {
			p.Batch[i+1] *= p.Batch[i]
			drop(i)
		}
	}
	// If a whole stack of rows shares one matrix, it is one product.
	if len(p.Batch) == 1 && p.B.Batch[0] == 0 && p.A.Window == nil && p.A.Batch[0] == p.M*p.A.Row &&
		p.C.Batch[0] == p.M*p.C.Row && (p.Bias == nil || p.Bias.Batch[0] == p.M*p.Bias.Row) {
		p.M *= p.Batch[0]
		drop(0)
	}
	return p
}

// blockTile is how a product is divided: a block computes m × n numbers of the result with warpsM × warpsN warps.
type blockTile struct{ m, n, warpsM, warpsN, stages int }

func (t blockTile) threads() int { return 32 * t.warpsM * t.warpsN }

const tileK = 32

// tiles are tried in this order.
var tiles = []blockTile{{128, 64, 2, 2, 3}, {64, 128, 2, 2, 3}, {64, 64, 2, 2, 3}, {32, 64, 1, 2, 4},
	{64, 32, 2, 1, 4}, {32, 32, 2, 1, 4}, {16, 64, 1, 2, 4}}

// choose returns the tile, and the number of parts of K. It depends only on shapes.
func (p *Product) choose() (blockTile, int) {
	const enough = 128 // blocks
	best, least := blockTile{}, 0
	for _, t := range tiles {
		blocks := ceil(p.M, t.m) * ceil(p.N, t.n) * volume(p.Batch)
		// Computed numbers. With few blocks, multiprocessors are idle.
		cost := blocks * t.m * t.n
		if blocks < enough {
			cost = cost * enough / blocks
		}
		if best.m == 0 || cost < least {
			best, least = t, cost
		}
	}
	blocks, split := ceil(p.M, best.m)*ceil(p.N, best.n)*volume(p.Batch), 1
	for blocks*split < enough/2 && p.K/(2*split) >= 256 {
		split *= 2
	}
	return best, split
}

func ceil(a, b int) int { return (a + b - 1) / b }

// productForm is everything that the text of a kernel depends on.
type productForm struct {
	blockTile
	a, b        operandForm
	precision   Precision
	batch       int
	alpha, bias bool
	result      SumType
	zeros       bool
	requantized *Requantization // its buffers are arguments
	wide        bool            // C is stored in pieces of 16 bytes; 8 if two columns become one
	split       bool
	pairs       bool
	epilogue    *Epilogue
}

func (p *Product) form(t blockTile) productForm {
	f := productForm{blockTile: t, a: p.A.form(), b: p.B.form(), precision: p.Precision, batch: len(p.Batch),
		alpha: p.Alpha != 1, bias: p.Bias != nil, pairs: p.pairs(), epilogue: p.Epilogue, result: p.Result,
		zeros: p.Zeros != nil, requantized: p.Requantized}
	f.wide = p.C.Inner == 1 && p.N%4 == 0 && p.C.even(pick(p.pairs(), 2, 4))
	return f
}

func (p *Product) pairs() bool { return p.Epilogue != nil && p.Epilogue.Pairs }

func pick[T any](c bool, a, b T) T {
	if c {
		return a
	}
	return b
}

// even reports whether rows start at multiples of n numbers.
func (m *Matrix) even(n int) bool {
	ok := m.At%n == 0 && m.Row%n == 0
	for _, d := range m.Batch {
		ok = ok && d%n == 0
	}
	return ok
}

// call returns the launch of the kernel of a form.
func (p *Product) call(f productForm, split int) Call {
	across := ceil(p.N, f.n)
	part := p.K
	if split > 1 {
		part = ceil(ceil(p.K, split), tileK) * tileK
	}
	args := []Arg{U32(p.M), U32(p.N), U32(p.K), U32(across), U32(ceil(p.M, f.m) * across), U32(part), U32(volume(p.Batch))}
	for _, d := range p.Batch {
		args = append(args, U32(d))
	}
	args = append(args, p.matrices()...)
	if f.split {
		args = append(args, U64(4*p.M*p.N*volume(p.Batch)))
	}
	args = append(args, p.tail()...)
	y := min(volume(p.Batch), 65535)
	grid := driver.Dim{X: uint32(ceil(p.M, f.m) * across * split), Y: uint32(y), Z: uint32(ceil(volume(p.Batch), y))}
	return NewCall(f.code(), grid, args...)
}

// matrices returns the arguments of A, B and C.
func (p *Product) matrices() []Arg {
	return slices.Concat(p.A.args(4), p.B.args(4), p.C.args(p.Result.Size()))
}

// tail returns the arguments of the end of the kernel.
func (p *Product) tail() []Arg {
	var args []Arg
	if p.Alpha != 1 {
		args = append(args, F32(p.Alpha))
	}
	if p.Bias != nil {
		args = append(append(args, p.Bias.args(p.Result.Size())...), F32(p.Beta))
	}
	if p.Epilogue != nil {
		args = append(args, p.Epilogue.Args...)
	}
	if p.Zeros != nil {
		args = append(append(args, p.Zeros[0].args(4)...), p.Zeros[1].args(4)...)
	}
	if p.Requantized != nil {
		args = append(args, p.Requantized.args()...)
	}
	return args
}

// args returns the arguments of matrixParams, for numbers of size bytes.
func (m *Matrix) args(size int) []Arg {
	args := []Arg{PtrAt(m.Buffer, size*m.At), U64(size * m.Row), U64(size * m.Inner)}
	for _, d := range m.Batch {
		args = append(args, U64(size*d))
	}
	if m.Window != nil {
		args = append(args, m.Window.args(size)...)
	}
	return args
}

// place is a matrix in a kernel.
type place struct {
	base       ptx.Addr // of the block's matrix
	row, inner ptx.U64  // bytes
}

func (m place) at(row, inner ptx.U32) ptx.Addr {
	return m.base.Add(row.Wide().Mul(m.row)).Add(inner.Wide().Mul(m.inner))
}

// batchIndex is the block's index in the batch.
type batchIndex struct {
	flat  ptx.U32
	index []ptx.U32 // in each dimension
}

// batchParams computes the block's index. Blocks beyond the batch end.
func batchParams(k *ptx.Kernel, dims int) batchIndex {
	total := k.U32Param("batch")
	b := batchIndex{flat: k.BlockZ().MAD(ptx.U(65535), k.BlockY())}
	k.If(b.flat.Ge(total), k.Return)
	rest := b.flat
	b.index = make([]ptx.U32, dims)
	sizes := make([]ptx.U32, dims)
	for i := range sizes {
		sizes[i] = k.U32Param(fmt.Sprintf("batch%d", i))
	}
	for i := dims - 1; i >= 0; i-- {
		if i == 0 {
			b.index[0] = rest
			break
		}
		next := rest.Div(sizes[i])
		b.index[i] = rest.Sub(next.Mul(sizes[i]))
		rest = next
	}
	return b
}

func matrixParams(k *ptx.Kernel, name string, b batchIndex) place {
	m := place{base: k.PtrParam(name), row: k.U64Param(name + "_row"), inner: k.U64Param(name + "_inner")}
	for i, at := range b.index {
		m.base = m.base.Add(at.Wide().Mul(k.U64Param(fmt.Sprintf("%s_batch%d", name, i))))
	}
	return m
}

// tailParams adds the parameters of the end of the kernel, and returns the function that changes each number.
func (f *productForm) tailParams(k *ptx.Kernel, b batchIndex, m ptx.U32) func(row, col ptx.U32, x []ptx.F32) []ptx.F32 {
	var alpha, beta ptx.F32
	var bias place
	var hook Hook
	if f.alpha {
		alpha = k.F32Param("alpha")
	}
	if f.bias {
		bias = matrixParams(k, "bias", b)
		beta = k.F32Param("beta")
	}
	if f.epilogue != nil {
		hook = f.epilogue.Begin(k)
	}
	first := b.flat.Mul(m)
	return func(row, col ptx.U32, x []ptx.F32) []ptx.F32 {
		y := make([]ptx.F32, len(x))
		for i := range x {
			at := col
			if i > 0 {
				at = col.Add(ptx.U(i))
			}
			y[i] = x[i]
			if f.alpha {
				y[i] = y[i].Mul(alpha)
			}
			if f.bias {
				y[i] = f.loadResult(bias.at(row, at)).FMA(beta, y[i])
			}
		}
		if f.epilogue == nil {
			return y
		}
		row = row.Add(first)
		each := 1
		if f.pairs {
			each, col = 2, col.Shr(ptx.U(1))
		}
		var z []ptx.F32
		for i := range len(y) / each {
			at := col
			if i > 0 {
				at = col.Add(ptx.U(i))
			}
			z = append(z, hook(k, row, at, y[each*i:each*(i+1)]...))
		}
		return z
	}
}

// loadResult reads a number in the type of the result.
func (f *productForm) loadResult(at ptx.Addr) ptx.F32 {
	switch f.result {
	case SumF16:
		return at.LoadB16(0).F16ToF32()
	case SumBF16:
		return at.LoadB16(0).BF16ToF32()
	}
	return at.LoadF32(0)
}

// store writes neighbours of the result. Their address is a multiple of their total size.
func (f *productForm) store(at ptx.Addr, x []ptx.F32) {
	if f.result == SumF16 || f.result == SumBF16 {
		for i, v := range x {
			at.StoreB16(2*i, pick(f.result == SumF16, ptx.F32.F16, ptx.F32.BF16)(v))
		}
		return
	}
	if len(x) == 1 {
		at.StoreF32(0, x[0])
		return
	}
	at.StoreF32s(0, x...)
}
