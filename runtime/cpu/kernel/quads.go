package kernel

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"
	"unsafe"
)

// Quads reports whether this machine multiplies four bytes at once, unsigned with signed ones, which PanelProductBytes
// uses. Without it, PanelProductInt16 is faster. Sums are exact either way.
func Quads() bool { return machine.quads }

// QuadsOf returns the number of quads of k numbers; the last quad may be incomplete.
func QuadsOf(k int) int { return (k + 3) / 4 }

// Unsigned returns by how much the unsigned numbers that PanelBytes makes of x exceed those of x.
func (b Bytes) Unsigned() (more int) {
	_, more = b.flip()
	return more
}

// SignedLess returns by how much the signed numbers that SignedBytes makes of x are below those of x.
func (b Bytes) SignedLess() (less int) { return 128 - b.Unsigned() }

// SignedBytes computes y = x - x.SignedLess(), and writes zeros after the last number.
func SignedBytes(y []int8, x Bytes) {
	to := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(y))), len(y))
	clear(to[copy(to, x.Data):])
	if x.Signed {
		return
	}
	to = to[:len(x.Data)]
	for len(to) >= 8 {
		binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(to)^0x8080808080808080)
		to = to[8:]
	}
	for i := range to {
		to[i] ^= 128
	}
}

// SumBytes computes y[r] = Σ over p of x[r][p], for rows of 4·quads numbers that have stride ldx.
func SumBytes(y []int32, x []int8, ldx, quads int) {
	var sums [sumRows * PanelWidth]int32
	for r := 0; r < len(y); r += sumRows {
		rows := min(sumRows, len(y)-r)
		clear(y[r : r+rows])
		for p := 0; p < quads; p += onesQuads {
			PanelProductBytes(sums[:], PanelWidth, x[r*ldx+4*p:], ldx, rows, min(onesQuads, quads-p), 1, ones().panel)
			for i := range rows {
				y[r+i] += sums[i*PanelWidth]
			}
		}
	}
}

// SumPanel computes the sums of a panel's columns.
func SumPanel(panel []byte, quads int) (sums [PanelWidth]int32) {
	for p := 0; p < quads; p += onesQuads {
		var part [PanelWidth]int32
		PanelProductBytes(part[:], PanelWidth, ones().row, 4*onesQuads, 1, min(onesQuads, quads-p), 1, panel[p*4*PanelWidth:])
		for i, v := range part {
			sums[i] += v
		}
	}
	return sums
}

// ones are numbers 1 for sums, onesQuads quads of them.
var ones = sync.OnceValue(func() (all struct {
	panel []byte
	row   []int8
}) {
	all.panel, all.row = bytes.Repeat([]byte{1}, 4*onesQuads*PanelWidth), make([]int8, 4*onesQuads)
	for i := range all.row {
		all.row[i] = 1
	}
	return all
})

const onesQuads, sumRows = 256, 12

// QuadMatrix is a matrix W (M rows, K columns) of bytes as unsigned numbers, packed for PanelProductBytes: panels of
// PanelWidth rows, with quads of columns adjacent. The last panel and the last quad are padded with zeros.
type QuadMatrix struct {
	M, K int
	// Sum has the sum of the numbers of each row.
	Sum  []int32
	data []byte
}

// PackQuads packs w, where element (i, k) is w[i*rs+k*cs].
func PackQuads(w Bytes, m, k, rs, cs int) *QuadMatrix {
	panels, quads := (m+PanelWidth-1)/PanelWidth, QuadsOf(k)
	p := &QuadMatrix{M: m, K: k, Sum: make([]int32, panels*PanelWidth), data: make([]byte, panels*PanelWidth*4*quads)}
	var whole Offsets // of the columns of whole quads
	if rs == 1 && k*cs <= math.MaxInt32 {
		off := make([]int32, k/4*4)
		for j := range off {
			off[j] = int32(j * cs)
		}
		whole = NewOffsets(off)
	}
	flip, _ := w.flip()
	for i := range panels {
		panel, from, at := p.Panel(i), 0, i*PanelWidth
		if len(whole.off) > 0 && at+PanelWidth <= m {
			PanelBytes(panel, w, whole, at)
			from = len(whole.off)
		}
		for j := from; j < k; j++ {
			to := panel[j/4*4*PanelWidth+j%4:]
			for c := range min(PanelWidth, m-at) {
				to[4*c] = w.Data[(at+c)*rs+j*cs] ^ flip
			}
		}
		sums := SumPanel(panel, quads)
		copy(p.Sum[at:], sums[:])
	}
	return p
}

// Panel returns panel i of W, with the rows from PanelWidth·i on, and those that follow.
func (p *QuadMatrix) Panel(i int) []byte { return p.data[i*PanelWidth*4*QuadsOf(p.K):] }

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

// PanelsBytes gathers panels of x as PanelBytes does, from at on; they follow each other.
func PanelsBytes(panels []byte, count int, x Bytes, o Offsets, at int) {
	size := len(o.off) * PanelWidth
	for ; count >= 4; count -= 4 {
		flip, _ := x.flip()
		if !panelsBytesWide(panels, size, x.Data, flip, o, at) {
			break
		}
		panels, at = panels[4*size:], at+4*PanelWidth
	}
	for i := range count {
		PanelBytes(panels[i*size:], x, o, at+i*PanelWidth)
	}
}

// PanelProductBytes computes y[r][j] = Σ over p of x[r][p]·panel[p][j] for rows of 4·quads numbers and the
// PanelWidth positions of each panel. There must be at least one panel; panels are contiguous. Rows of x have stride
// ldx, a multiple of four, and rows of y ldy. Sums wrap around.
func PanelProductBytes(y []int32, ldy int, x []int8, ldx, rows, quads, panels int, panel []byte) {
	if rows == 0 || panelProductBytesWide(y, ldy, x, ldx, rows, quads, panels, panel) {
		return
	}
	for i := range panels {
		w := panel[i*4*quads*PanelWidth:]
		for r := range rows {
			var s [PanelWidth]int32
			for p, v := range x[r*ldx : r*ldx+4*quads] {
				w := w[p/4*4*PanelWidth+p%4:]
				for j := range s {
					s[j] += int32(v) * int32(w[4*j])
				}
			}
			copy(y[r*ldy+i*PanelWidth:][:PanelWidth], s[:])
		}
	}
}
