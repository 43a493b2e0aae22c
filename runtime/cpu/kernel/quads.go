package kernel

// Quads reports whether this machine multiplies four bytes at once, unsigned with signed ones, which PanelProductBytes
// uses. Without it, PanelProductInt16 is faster. Sums are exact either way.
func Quads() bool { return quadsWide() }

// QuadsOf returns the number of quads of k numbers; the last quad may be incomplete.
func QuadsOf(k int) int { return (k + 3) / 4 }

// Unsigned returns what PanelBytes makes of the bytes: unsigned numbers, which are greater than those of x by more.
func (b Bytes) Unsigned() (more int) {
	_, more = b.flip()
	return more
}

// PanelBytes gathers a panel of x as unsigned numbers: PanelWidth consecutive ones from each offset + at on, with quads
// of offsets adjacent. The number of offsets is a multiple of four.
func PanelBytes(panel []byte, x Bytes, o Offsets, at int) {
	flip, _ := x.flip()
	if len(o.off) == 0 || panelBytesWide(panel, x.Data, flip, o, at) {
		return
	}
	for i, o := range o.off {
		row := panel[i/4*4*PanelWidth+i%4:]
		for j, v := range x.Data[at+int(o):][:PanelWidth] {
			row[4*j] = v ^ flip
		}
	}
}

// PanelProductBytes computes y[r][j] = Σ over p of x[r][p]·panel[p][j] for rows of 4·quads numbers and the PanelWidth
// positions of the panel. Rows of x lie ldx apart, a multiple of four, and rows of y ldy. Sums wrap around.
func PanelProductBytes(y []int32, ldy int, x []int8, ldx, rows, quads int, panel []byte) {
	if rows == 0 || panelProductBytesWide(y, ldy, x, ldx, rows, quads, panel) {
		return
	}
	for r := range rows {
		var s [PanelWidth]int32
		for p, v := range x[r*ldx : r*ldx+4*quads] {
			w := panel[p/4*4*PanelWidth+p%4:]
			for j := range s {
				s[j] += int32(v) * int32(w[4*j])
			}
		}
		copy(y[r*ldy:r*ldy+PanelWidth], s[:])
	}
}
