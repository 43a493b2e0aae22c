package kernel

import "slices"

// Packed is a matrix W (M rows, K columns) packed for Gemm: panels of rows, each stored column by column. The variant
// determines the rows of a panel. The last panel may have fewer, and is padded with zeros.
type Packed struct {
	M, K        int
	panel, last int // rows of all panels, and of the last one
	data        []float32
}

// panel is the number of rows of W in one panel of the portable kernels.
const panel = 4

// Pack packs W, whose element (i, k) is w[i*rs+k*cs]. Exchanged strides pack the transpose.
func Pack(w []float32, m, k, rs, cs int) *Packed {
	p := NewPacked(m, k)
	p.Fill(w, rs, cs)
	return p
}

// NewPacked returns a matrix of m rows and k columns, for Fill.
func NewPacked(m, k int) *Packed {
	p := layout(m, k)
	p.data = make([]float32, p.size())
	return p
}

// FillParts is Fill with a matrix whose numbers are read in parts: read writes those from number from on to dst. One of rs
// and cs is 1, and the other is the number of columns or rows.
func (p *Packed) FillParts(rs, cs int, read func(dst []float32, from int) error) error {
	m, k := p.M, p.K
	if m == 0 || k == 0 {
		return nil
	}
	const most = 1 << 17
	if cs == 1 {
		step := max(1, most/k/p.panel) * p.panel
		part := make([]float32, min(step, m)*k)
		for i := 0; i < m; i += step {
			rows := min(step, m-i)
			if err := read(part[:rows*k], i*rs); err != nil {
				return err
			}
			for r := 0; r < rows; r += p.panel {
				p.fillPanel(i+r, part[r*k:], rs, 1, 0, k)
			}
		}
		return nil
	}
	step := max(1, most/m)
	part := make([]float32, min(step, k)*m)
	for j := 0; j < k; j += step {
		columns := min(step, k-j)
		if err := read(part[:columns*m], j*cs); err != nil {
			return err
		}
		for i := 0; i < m; i += p.panel {
			p.fillPanel(i, part[i:], 1, cs, j, columns)
		}
	}
	return nil
}

// layout returns a matrix of m rows and k columns, without data, with the panels of the variant.
func layout(m, k int) *Packed {
	n := machine.panel
	p := &Packed{M: m, K: k, panel: n, last: n}
	if tail := m % n; tail > 0 {
		i, _ := slices.BinarySearch(machine.tails, tail)
		p.last = machine.tails[i]
	}
	return p
}

// tail returns the first row of the last panel.
func (p *Packed) tail() int { return max(0, (p.M-1)/p.panel*p.panel) }

// size returns the size of the panels, in float32.
func (p *Packed) size() int { return (p.tail() + p.last) * p.K }

// Fill packs another matrix of the same size, as Pack does, in place.
func (p *Packed) Fill(w []float32, rs, cs int) {
	if p.K == 0 {
		return
	}
	for i := 0; i < p.M; i += p.panel {
		p.fillPanel(i, w[i*rs:], rs, cs, 0, p.K)
	}
}

// fillPanel fills columns of the panel of row i, from column first on. from begins with the first of these numbers.
func (p *Packed) fillPanel(i int, from []float32, rs, cs, first, columns int) {
	rows, width := min(p.panel, p.M-i), p.panel
	if i == p.tail() {
		width = p.last
	}
	to := p.data[i*p.K+first*width:]
	switch {
	case cs == 1:
		Transpose(to, width, from, rs, rows, columns)
	case rs == 1:
		for j := range columns {
			copy(to[j*width:], from[j*cs:j*cs+rows])
		}
	default:
		for j := range columns {
			for r := range rows {
				to[j*width+r] = from[r*rs+j*cs]
			}
		}
	}
}

// Cut divides W into matrices of whole panels, of about the given number of rows. They share the numbers of W.
func (p *Packed) Cut(rows int) []*Packed {
	var all []*Packed
	step := max(1, rows/p.panel) * p.panel
	for lo := 0; lo < p.M; lo += step {
		q := &Packed{M: min(step, p.M-lo), K: p.K, panel: p.panel, last: p.panel}
		if lo+q.M == p.M {
			q.last = p.last
		}
		q.data = p.data[lo*p.K : lo*p.K+q.size()]
		all = append(all, q)
	}
	return all
}

// Bytes returns the size of the packed matrix.
func (p *Packed) Bytes() int64 { return int64(len(p.data)) * 4 }

// Gemm computes y = x Wᵀ + bias. Rows of x have stride ldx, and rows of y ldy. With add, it adds the result to y. bias
// has M numbers, or is nil.
func Gemm(y []float32, ldy int, x []float32, ldx int, rows int, w *Packed, bias []float32, add bool) {
	if w.panel != panel && w.K > 0 && w.M > 0 && rows > 0 {
		gemmWide(y, ldy, x, ldx, rows, w, bias, add, 0)
		return
	}
	gemmGeneric(y, ldy, x, ldx, rows, w, bias, add)
}

func gemmGeneric(y []float32, ldy int, x []float32, ldx int, rows int, w *Packed, bias []float32, add bool) {
	m, k := w.M, w.K
	for i := 0; i < m; i += panel {
		wp := w.data[i*k : (i+panel)*k]
		n := min(panel, m-i)
		var bs [panel]float32
		if bias != nil {
			copy(bs[:], bias[i:i+n])
		}
		r := 0
		for ; r+2 <= rows; r += 2 {
			x0, x1 := x[r*ldx:r*ldx+k], x[(r+1)*ldx:(r+1)*ldx+k]
			s := tile2x4(x0, x1, wp)
			y0, y1 := y[r*ldy+i:r*ldy+i+n], y[(r+1)*ldy+i:(r+1)*ldy+i+n]
			store(y0, s[:4], bs[:], add)
			store(y1, s[4:], bs[:], add)
		}
		for ; r < rows; r++ {
			x0 := x[r*ldx : r*ldx+k]
			s := tile1x4(x0, wp)
			store(y[r*ldy+i:r*ldy+i+n], s[:], bs[:], add)
		}
	}
}

func store(y, s, bias []float32, add bool) {
	for j := range y {
		v := s[j]
		if bias != nil {
			v += bias[j]
		}
		if add {
			v += y[j]
		}
		y[j] = v
	}
}

// tile2x4 multiplies two rows of x with one panel. The loop is unrolled four times, since the Go compiler neither
// vectorises nor unrolls it.
func tile2x4(x0, x1, w []float32) (s [8]float32) {
	x1 = x1[:len(x0)]
	var s00, s01, s02, s03, s10, s11, s12, s13 float32
	for len(x0) >= 4 && len(x1) >= 4 && len(w) >= 16 {
		a, c := x0[0], x1[0]
		b := w[0]
		s00 += a * b
		s10 += c * b
		b = w[1]
		s01 += a * b
		s11 += c * b
		b = w[2]
		s02 += a * b
		s12 += c * b
		b = w[3]
		s03 += a * b
		s13 += c * b
		a, c = x0[1], x1[1]
		b = w[4]
		s00 += a * b
		s10 += c * b
		b = w[5]
		s01 += a * b
		s11 += c * b
		b = w[6]
		s02 += a * b
		s12 += c * b
		b = w[7]
		s03 += a * b
		s13 += c * b
		a, c = x0[2], x1[2]
		b = w[8]
		s00 += a * b
		s10 += c * b
		b = w[9]
		s01 += a * b
		s11 += c * b
		b = w[10]
		s02 += a * b
		s12 += c * b
		b = w[11]
		s03 += a * b
		s13 += c * b
		a, c = x0[3], x1[3]
		b = w[12]
		s00 += a * b
		s10 += c * b
		b = w[13]
		s01 += a * b
		s11 += c * b
		b = w[14]
		s02 += a * b
		s12 += c * b
		b = w[15]
		s03 += a * b
		s13 += c * b
		x0, x1, w = x0[4:], x1[4:], w[16:]
	}
	for p, a := range x0 {
		b, c := w[p*4:p*4+4:p*4+4], x1[p]
		s00 += a * b[0]
		s01 += a * b[1]
		s02 += a * b[2]
		s03 += a * b[3]
		s10 += c * b[0]
		s11 += c * b[1]
		s12 += c * b[2]
		s13 += c * b[3]
	}
	return [8]float32{s00, s01, s02, s03, s10, s11, s12, s13}
}

func tile1x4(x0, w []float32) [4]float32 {
	var s0, s1, s2, s3 float32
	for p, a := range x0 {
		b := w[p*4 : p*4+4 : p*4+4]
		s0 += a * b[0]
		s1 += a * b[1]
		s2 += a * b[2]
		s3 += a * b[3]
	}
	return [4]float32{s0, s1, s2, s3}
}
