package kernel

// Blocks is a block-diagonal matrix of N blocks (M rows, K columns each), packed for Heads.
type Blocks struct {
	N, M, K int
	flat    []float32 // blocks of one row or one column, as given; nil for other sizes
	packed  []*Packed // blocks of all other sizes; they share data
	data    []float32
	lanes   []float32 // beside packed, small blocks as packed by fillSmall; nil for other sizes
	per     int       // outputs of a block in lanes
	terms   int       // of the sums in lanes
}

// PackBlocks packs n contiguous blocks, each of m rows of k numbers. It may keep w.
func PackBlocks(w []float32, n, m, k int) *Blocks {
	b := NewBlocks(n, m, k)
	b.Fill(w)
	return b
}

// NewBlocks returns n blocks of m rows and k columns, for Fill.
func NewBlocks(n, m, k int) *Blocks {
	b := &Blocks{N: n, M: m, K: k}
	if b.thin() {
		return b
	}
	size := layout(m, k).size()
	b.data = make([]float32, n*size)
	for i := range n {
		p := layout(m, k)
		p.data = b.data[i*size : (i+1)*size]
		b.packed = append(b.packed, p)
	}
	if !machine.vectors {
		return b
	}
	switch {
	case m == 2 && k == 2 && n%4 == 0:
		b.per, b.terms = m, k
	case m == 4 && (k == 4 || k == 8) && n%2 == 0:
		b.per, b.terms = m, 4
	case m > 4 && m <= 8 && (k == 4 || k == 6 || k == 8) && n > 1:
		b.per, b.terms = 8, k
	default:
		return b
	}
	b.lanes = make([]float32, n*b.per*k)
	return b
}

// thin reports whether blocks have one row or one column.
func (b *Blocks) thin() bool { return b.N > 0 && (b.M == 1 && b.K > 0 || b.K == 1 && b.M > 0) }

// Fill packs other blocks of the same size, as PackBlocks does, in place. It may keep w.
func (b *Blocks) Fill(w []float32) {
	size := b.M * b.K
	if b.thin() {
		b.flat = w[:b.N*size]
		return
	}
	for i, p := range b.packed {
		p.Fill(w[i*size:(i+1)*size], b.K, 1)
	}
	if b.lanes != nil {
		b.fillSmall(w)
	}
}

// input returns the input that a lane multiplies in a term.
func (b *Blocks) input(lane, term int) int {
	switch singles := b.K - 2*((b.K+3)/4); {
	case b.M == 2:
		return term
	case b.M == 4:
		in := lane&2 ^ term&2 | term&1
		if b.K == 8 {
			in += lane &^ 3 // halves have half of the inputs each
		}
		return in
	case term < singles:
		return term
	}
	return term ^ lane&1
}

// fillSmall packs small blocks for kernels that compute eight outputs at once: those of several blocks, if eight is a
// multiple of their outputs, or of one block, padded with zeros. For each term of the sums, lanes has eight numbers.
func (b *Blocks) fillSmall(w []float32) {
	m, k, per, terms := b.M, b.K, b.per, b.terms
	for v := range len(b.lanes) / (8 * terms) {
		for lane := range 8 {
			row := v*8 + lane // output, with padding
			if m == 4 && k == 8 {
				row = v*4 + lane%4
			}
			block, out := row/per, row%per
			if out >= m {
				continue
			}
			for term := range terms {
				b.lanes[(v*terms+term)*8+lane] = w[(block*m+out)*k+b.input(lane, term)]
			}
		}
	}
}

// Packed returns the blocks as separate matrices; nil if they are packed otherwise.
func (w *Blocks) Packed() []*Packed { return w.packed }

// Heads computes a block-diagonal product, row by row: block i of y is block i of w times block i of x; if channels
// share an input of shared blocks, times block i%shared of x. shared is 0 otherwise. The blocks of a row are
// contiguous. With add, the product is added to y.
func Heads(y []float32, ldy int, x []float32, ldx int, rows int, w *Blocks, shared int, add bool) {
	if rows == 0 || w.N == 0 {
		return
	}
	if shared == 0 {
		shared = w.N
	}
	if w.flat != nil {
		for lo := 0; lo < w.N; lo += shared {
			part := w.flat[lo*w.M*w.K : (lo+shared)*w.M*w.K]
			if w.M == 1 {
				headsDot(y[lo:], ldy, x, ldx, rows, part, w.K, add)
			} else {
				headsSpread(y[lo*w.M:], ldy, x, ldx, rows, part, w.M, add)
			}
		}
		return
	}
	if shared == w.N && smallHeads(y, ldy, x, ldx, rows, w, add) {
		return
	}
	if !add && headsAcross(y, ldy, x, ldx, rows, w, shared) {
		return
	}
	for i, p := range w.packed {
		yi, xi := y[i*p.M:], x[i%shared*p.K:]
		if p.panel == panel || p.K == 0 || p.M == 0 {
			Gemm(yi, ldy, xi, ldx, rows, p, nil, add)
			continue
		}
		// spill lands in the blocks to the right, which come later
		gemmWide(yi, ldy, xi, ldx, rows, p, nil, add, (w.N-1-i)*p.M)
	}
}

// Dots sets y to the scalar products of the rows of m with x.
func Dots(y, m, x []float32) { headsDot(y, 1, m, len(x), len(y), x, len(x), false) }

// headsDot is Heads for blocks of one row of k numbers: scalar products.
func headsDot(y []float32, ldy int, x []float32, ldx int, rows int, w []float32, k int, add bool) {
	n := len(w) / k
	if !add && headsDotWide(y, ldy, x, ldx, rows, w, k, n) {
		return
	}
	for r := range rows {
		src, dst := x[r*ldx:r*ldx+n*k], y[r*ldy:r*ldy+n]
		for h := range dst {
			s := float32(0)
			part := w[h*k : (h+1)*k]
			for i, v := range src[h*k : (h+1)*k] {
				s += part[i] * v
			}
			if add {
				s += dst[h]
			}
			dst[h] = s
		}
	}
}

// headsSpread is Heads for blocks of one column of m numbers: multiples of the columns.
func headsSpread(y []float32, ldy int, x []float32, ldx int, rows int, w []float32, m int, add bool) {
	n := len(w) / m
	if !add && headsSpreadWide(y, ldy, x, ldx, rows, w, m, n) {
		return
	}
	for r := range rows {
		src, dst := x[r*ldx:r*ldx+n], y[r*ldy:r*ldy+n*m]
		for h, v := range src {
			part := w[h*m : (h+1)*m]
			for i, d := range dst[h*m : (h+1)*m] {
				p := part[i] * v
				if add {
					p += d
				}
				dst[h*m+i] = p
			}
		}
	}
}
