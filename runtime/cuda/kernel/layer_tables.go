package kernel

import "math"

// layerPlaces are the offsets of a layer's constants in its table, in units of 4 bytes.
type layerPlaces struct {
	states   int   // layerRows rows of padded() numbers
	inRange  int   // for each part of 16 states: first and end of the blocks of B, and the offset of the first
	outRange int   // for each warp: first and end of the blocks of C, and the offset of the first
	direct   int   // width() numbers of D, then of DOffset
	product  []int // per stage: blocks of all features for each warp in turn, then width() numbers of Bias
	numbers  []int // per stage: rows of width()
}

// layerRows is the number of coefficients of a state: ā, e, b as in Scan, the powers of ā over the steps of one
// thread, two and four, and the offset of B u.
const layerRows = 13

// A block is a part of a matrix for one step of its product, of 8 columns. For each pair of tiles of 8 rows, and
// each thread, it has the thread's numbers of the one tile, then of the other. A last single tile has no partner.

// block appends rows row to row + 8·tiles of columns 8k to 8k + 8 of a matrix, with 0 beyond it.
func block(to []float32, m []float64, rows, columns, row, tiles, k int) []float32 {
	at := func(r, c int) float32 {
		if r >= rows || c >= columns {
			return 0
		}
		return float32(m[r*columns+c])
	}
	for n := 0; n < tiles; n += 2 {
		for lane := range 32 {
			for p := n; p < min(n+2, tiles); p++ {
				r, c := row+8*p+lane/4, 8*k+lane%4
				to = append(to, at(r, c), at(r, c+4))
			}
		}
	}
	return to
}

// reach returns the range of blocks of 8 columns that meet the heads of some rows; at least one block.
func reach(heads, rows, columns, row, count int) (first, end int) {
	if row >= rows {
		return 0, 1
	}
	high, wide := rows/heads, columns/heads // of the part of a head
	last := min(row+count, rows) - 1
	return row / high * wide / 8, ceilDiv((last/high+1)*wide, 8)
}

// layout returns the offsets and the constants. Without weights it returns only the offsets, which are then valid up
// to direct.
func (f *LayerForm) layout(w *LayerWeights) (p layerPlaces, table []float32) {
	width, padded, tiles := f.width(), f.padded(), f.tiles()
	p.states = 0
	p.inRange = p.states + layerRows*padded
	p.outRange = p.inRange + 3*padded/16
	p.direct = p.outRange + 3*layerWarps
	p.direct = (p.direct + 3) / 4 * 4
	at := p.direct + 2*width
	for _, s := range f.Stages {
		p.product = append(p.product, at)
		if s.Product {
			at += layerWarps*width/8*64*tiles + width
		}
		p.numbers = append(p.numbers, at)
		at += s.Numbers * width
	}
	if w == nil {
		return p, nil
	}
	table = make([]float32, at)
	share := f.steps() / 8 // steps per thread
	for j := range f.States {
		a := power(w.A[j], 1)
		e := rest(a)
		row := []float64{real(a), imag(a), real(e), imag(e), real(w.Weights[j]), imag(w.Weights[j])}
		for n := 1; n <= 4; n *= 2 {
			q := power(w.A[j], float64(n*share))
			row = append(row, real(q), imag(q))
		}
		offset := 0.0
		if w.Offset != nil {
			offset = w.Offset[j]
		}
		for r, x := range append(row, offset) {
			table[p.states+r*padded+j] = float32(x)
		}
	}
	// Integers are in the table as the bits of subnormal numbers, which copies preserve.
	ranges := func(at, first, end, place int) {
		table[at], table[at+1] = math.Float32frombits(uint32(first)), math.Float32frombits(uint32(end))
		table[at+2] = math.Float32frombits(uint32(place))
	}
	for g := range padded / 16 {
		first, end := reach(w.Heads, f.States, f.Features, 16*g, 16)
		ranges(p.inRange+3*g, first, end, len(table))
		for k := first; k < end; k++ {
			table = block(table, w.B, f.States, f.Features, 16*g, 2, k)
		}
	}
	for warp := range layerWarps {
		row := warp * 8 * tiles
		first, end := reach(w.Heads, f.Features, f.States, row, 8*tiles)
		ranges(p.outRange+3*warp, first, end, len(table))
		for k := first; k < end; k++ {
			table = block(table, w.C, f.Features, f.States, row, tiles, k)
		}
	}
	put := func(at int, x []float64) {
		for i, v := range x {
			table[at+i] = float32(v)
		}
	}
	put(p.direct, w.D)
	put(p.direct+width, w.DOffset)
	for i, s := range f.Stages {
		if s.Product {
			var all []float32
			for warp := range layerWarps {
				for k := range width / 8 {
					all = block(all, w.Products[i], f.Features, f.Features, warp*8*tiles, tiles, k)
				}
			}
			copy(table[p.product[i]:], all)
			put(p.product[i]+len(all), w.Bias[i])
		}
		for n := range s.Numbers {
			put(p.numbers[i]+n*width, w.Numbers[i][n*f.Features:(n+1)*f.Features])
		}
	}
	return p, append(table, make([]float32, 64*tiles+128)...) // loops read one block ahead
}

// LayerTables returns the constants of a layer as its kernels read them.
func LayerTables(f LayerForm, w LayerWeights) []byte {
	_, table := f.layout(&w)
	return float32Bytes(table)
}

// LayerPowers returns the powers with which the states before tiles are computed, or for a single step ā; then the
// weights of inputs. exponents come from Layer.Exponents.
func LayerPowers(a, weights []complex128, exponents []int) []byte {
	re, im := make([]float64, len(weights)), make([]float64, len(weights))
	for j, b := range weights {
		re[j], im[j] = real(b), imag(b)
	}
	return append(ScanPowers(a, exponents), float64Bytes(append(re, im...))...)
}
