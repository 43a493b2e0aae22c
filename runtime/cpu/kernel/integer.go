package kernel

// Products of integers, as quantized graphs state them: signed or unsigned bytes minus a zero point. They are exact:
// the differences fit 9 bits and a sign, factors have 16 bits, and sums 32. All variants share one layout.

// Int16 is a matrix W (M rows, K columns) of integers within ±255, packed for PanelProductInt16: panels of PanelWidth
// rows, with pairs of columns adjacent. The last panel and the last pair are padded with zeros.
type Int16 struct {
	M, K int
	data []int16
}

// MostInt16 is the largest K whose sums fit 32 bits.
const MostInt16 = 1 << 15

// PairsOf returns the number of pairs of k numbers; the last pair may be incomplete.
func PairsOf(k int) int { return (k + 1) / 2 }

// Bytes are integers of 8 bits, signed or unsigned.
type Bytes struct {
	Data   []byte
	Signed bool
}

// flip returns the mask that turns bytes into unsigned ones by xor, and the number that this adds to their values.
func (b Bytes) flip() (mask byte, more int) {
	if b.Signed {
		return 128, 128
	}
	return 0, 0
}

// PackInt16 packs w - zero, where element (i, k) is w[i*rs+k*cs]. zero has one number, or one per row.
func PackInt16(w Bytes, zero []int, m, k, rs, cs int) *Int16 {
	panels, pairs := (m+PanelWidth-1)/PanelWidth, PairsOf(k)
	p := &Int16{M: m, K: k, data: make([]int16, panels*PanelWidth*2*pairs)}
	flip, more := w.flip()
	for i := range m {
		z := zero[i%len(zero)] + more
		row := p.data[i/PanelWidth*PanelWidth*2*pairs+i%PanelWidth*2:]
		for j := range k {
			row[j/2*2*PanelWidth+j%2] = int16(int(w.Data[i*rs+j*cs]^flip) - z)
		}
	}
	return p
}

// Panel returns panel i of W, with the rows from PanelWidth·i on.
func (p *Int16) Panel(i int) []int16 {
	n := PanelWidth * 2 * PairsOf(p.K)
	return p.data[i*n : (i+1)*n]
}

// WidenBytes computes y = x - zero.
func WidenBytes(y []int16, x Bytes, zero int) {
	y = y[:len(x.Data)]
	flip, more := x.flip()
	for i := widenBytesWide(y, x.Data, flip, zero+more); i < len(y); i++ {
		y[i] = int16(int(x.Data[i]^flip) - zero - more)
	}
}

// PanelInt16 gathers a panel of x - zero: PanelWidth consecutive numbers from each offset + at on, with pairs of
// offsets adjacent. The number of offsets is even.
func PanelInt16(panel []int16, x Bytes, zero int, o Offsets, at int) {
	flip, more := x.flip()
	if len(o.off) == 0 || panelInt16Wide(panel, x.Data, flip, zero+more, o, at) {
		return
	}
	for i, o := range o.off {
		row := panel[i/2*2*PanelWidth+i%2:]
		for j, v := range x.Data[at+int(o):][:PanelWidth] {
			row[2*j] = int16(int(v^flip) - zero - more)
		}
	}
}

// PanelProductInt16 computes y[r][j] = Σ over p of x[r][p]·panel[p][j] for rows of 2·pairs numbers and the first n
// positions of the panel. Rows of x have stride ldx, and rows of y ldy. Sums wrap around.
func PanelProductInt16(y []int32, ldy int, x []int16, ldx, rows, pairs int, panel []int16, n int) {
	if rows == 0 || n == 0 || panelProductInt16Wide(y, ldy, x, ldx, rows, pairs, panel, n) {
		return
	}
	for r := range rows {
		var s [PanelWidth]int32
		row := x[r*ldx : r*ldx+2*pairs]
		for p := 0; p+1 < len(row); p += 2 {
			a, b := int32(row[p]), int32(row[p+1])
			w := panel[p*PanelWidth : (p+2)*PanelWidth]
			for j := range s {
				s[j] += a*int32(w[2*j]) + b*int32(w[2*j+1])
			}
		}
		copy(y[r*ldy:r*ldy+n], s[:])
	}
}
