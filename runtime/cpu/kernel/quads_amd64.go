//go:build amd64 && !purego

package kernel

import (
	"math"

	"golang.org/x/sys/cpu"
)

func panelBytesWide(panel []byte, x []byte, flip byte, o Offsets, at int) bool {
	if !machine.quads {
		return false
	}
	_, _, _ = x[at+o.lo], x[at+o.hi+PanelWidth-1], panel[len(o.off)*PanelWidth-1] // checks bounds
	quadPanelAVX512(len(o.off)/4, &panel[0], &x[at], &o.off[0], int32(flip))
	return true
}

func panelProductBytesWide(y []int32, ldy int, x []int8, ldx, rows, quads, panels int, panel []byte) bool {
	if !machine.quads || quads == 0 {
		return false
	}
	size := 4 * quads * PanelWidth
	_, _, _ = x[(rows-1)*ldx+4*quads-1], panel[panels*size-1], y[(rows-1)*ldy+panels*PanelWidth-1]
	for ; panels > 1; panels -= 2 {
		quadsTwoAVX512(rows, quads, &x[0], ldx/4, &panel[0], &y[0], ldy)
		if panels == 2 {
			return true
		}
		y, panel = y[2*PanelWidth:], panel[2*size:]
	}
	quadsAVX512(rows, quads, &x[0], ldx/4, &panel[0], &y[0], ldy)
	return true
}

func panelsBytesWide(panels []byte, size int, x []byte, flip byte, o Offsets, at int) bool {
	if !machine.quads || size == 0 {
		return false
	}
	_, _, _ = x[at+o.lo], x[at+o.hi+4*PanelWidth-1], panels[4*size-1] // checks bounds
	quadPanelsAVX512(len(o.off)/4, &panels[0], size, &x[at], &o.off[0], int32(flip))
	return true
}

func quadSumsWide(y []int32, ldy int, x []int8, rows, quads int, panels []byte, n int) bool {
	if !machine.quads || quads == 0 || n == 0 {
		return false
	}
	_, _ = y[(rows-1)*ldy+n-1], panels[(n+PanelWidth-1)/PanelWidth*4*quads*PanelWidth-1]
	quadSumsAVX512(rows, quads, n, &x[:4*rows*quads][0], &panels[0], &y[0], ldy)
	return true
}

func quadBytesWide(y []byte, ldy int, x []int8, rows, quads int, panels []byte, n int, add []int32, scale []float32, r byteRange) bool {
	if !machine.quads || quads == 0 {
		return false
	}
	_, _ = y[(rows-1)*ldy+n-1], panels[(n+PanelWidth-1)/PanelWidth*4*quads*PanelWidth-1]
	quadBytesAVX512(rows, quads, n, &x[:4*rows*quads][0], &panels[0], &y[0], ldy, &add[:rows][0], &scale[:rows][0], int32(r.zero),
		int32(r.flip))
	return true
}

func scaleRowsWide(s *RowScale, y Bytes, ldy int, x []int32, ldx, rows, n int) bool {
	if !avx512() {
		return false
	}
	step, r := s.rows(y, ldy, len(x), ldx, rows, n)
	scaleRowsAVX512(rows, n, &y.Data[0], ldy, &x[0], ldx, &s.Bias[0], &s.Scale[0], step, r.least, r.most, int32(r.zero),
		int32(r.flip))
	return true
}

func scaleFloatRowsWide(s *RowScale, y Bytes, ldy int, x []float32, ldx, rows, n int) bool {
	if !avx512() {
		return false
	}
	step, r := s.rows(y, ldy, len(x), ldx, rows, n)
	scaleFloatRowsAVX512(rows, n, &y.Data[0], ldy, &x[0], ldx, &s.Bias[0], &s.Scale[0], step, r.least, r.most,
		int32(r.zero), int32(r.flip))
	return true
}

// rows checks bounds, and returns the stride in bytes of the numbers of rows.
func (s *RowScale) rows(y Bytes, ldy, size, ldx, rows, n int) (step int, r byteRange) {
	_ = y.Data[(rows-1)*ldy+n-1]
	if last := (rows-1)*ldx + n; last > size || len(s.Bias) != len(s.Scale) || len(s.Bias) != 1 && len(s.Bias) < rows {
		panic("kernel: rows, biases or scales are missing")
	}
	if len(s.Bias) > 1 {
		step = 8
	}
	return step, y.rangeOf(s.Zero)
}

func copyRowsWide(y []byte, ldy, n int, x []byte, at, ldx, step, rows, from, to int, fill byte) bool {
	if !avx512() || step > 2 {
		return false
	}
	last := at + (rows-1)*ldx
	_, _, _ = y[(rows-1)*ldy+n-1], x[at+from*step], x[last+(to-1)*step]
	f, width := copyRowsAVX512, 64
	if step == 2 {
		f, width = copyEvenRowsAVX512, 32
	}
	for j := 0; j < n; j += width {
		in := lowBits(to-j) &^ lowBits(from-j)
		if step == 2 {
			in = evenBits(in)
		}
		f(rows, &y[j], ldy, &x[0], at+j*step, ldx, in, lowBits(min(n-j, width)), fill)
	}
	return true
}

func largestTapsWide(y []byte, x Bytes, o Offsets, at int) bool {
	if !avx512() {
		return false
	}
	_, _ = x.Data[at+o.lo], x.Data[at+o.hi+len(y)-1]
	f := largestUnsignedAVX512
	if x.Signed {
		f = largestSignedAVX512
	}
	f(len(y), &y[0], &x.Data[at], &o.off[0], len(o.off))
	return true
}

func fillBytesWide(b []byte, v byte) bool {
	if !avx512() {
		return false
	}
	for i := 0; i < len(b); i += 64 {
		copyRowsAVX512(1, &b[i], 0, &b[0], 0, 0, 0, lowBits(len(b)-i), v)
	}
	return true
}

// lowBits has the lowest n bits set: none below 0, all from 64 on.
func lowBits(n int) uint64 {
	if n >= 64 {
		return math.MaxUint64
	}
	return 1<<max(n, 0) - 1
}

// evenBits spreads the lowest 32 bits.
func evenBits(x uint64) uint64 {
	x &= 1<<32 - 1
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	x = (x | x<<2) & 0x3333333333333333
	return (x | x<<1) & 0x5555555555555555
}

func byteTableWide(y, x []byte, table *[256]byte) int {
	n := len(x) &^ 63
	if n == 0 || !avx512() || !cpu.X86.HasAVX512VBMI {
		return 0
	}
	byteTableAVX512(n, &y[:n][0], &x[0], &table[0])
	return n
}

func requantizeWide(y []byte, x, add []int32, more int32, factor []float32, unit, least, most float32, zero int, flip byte) int {
	n := len(x) &^ 15
	if !avx512() || n == 0 {
		return 0
	}
	requantizeAVX512(n, &y[:n][0], &x[0], &add[:n][0], more, &factor[:n][0], unit, least, most, int32(zero), int32(flip))
	return n
}

func pairBytesWide(multiply bool, y, a, b []byte, p *BytePair, r byteRange, more int) int {
	n := len(a) &^ 15
	if !avx512() || n == 0 {
		return 0
	}
	zeros := [2]int32{int32(p.Zero[0] + more), int32(p.Zero[1] + more)}
	f := addBytesAVX512
	if multiply {
		f = mulBytesAVX512
	}
	f(n, &y[:n][0], &a[0], &b[:n][0], &p.Scale[0], &zeros[0], r.least, r.most, int32(r.zero), int32(r.flip))
	return n
}

// pairsWide computes sums of products of pairs, for whole panels.
func pairsWide(rows, pairs int, x *int16, ldx int, panel *int16, y *int32, ldy int) {
	if machine.quads && ldx%2 == 0 {
		pairsAVX512(rows, pairs, x, ldx/2, panel, y, ldy)
		return
	}
	pairsAVX2(rows, pairs, x, ldx, panel, y, ldy)
}
