//go:build amd64 && !purego

package kernel

import "slices"

// depthShape is the arguments of depthBytesAVX512. The generator uses its field offsets.
type depthShape struct {
	rows, n, taps, step, ldy, ldx, planeY, planeX int
	off                                           *int32
	zero, flipIn, flipOut                         int
	index                                         [64]byte
}

func (d *DepthBytes) wide(y, x Bytes, w []int32, s *ByteScale, channels int) bool {
	last := (channels-1)*d.PlaneX + (d.Rows-1)*d.Ldx + (d.N-1)/16*16*d.Stride + int(slices.Max(d.Off)) + 63
	_, _, _ = x.Data[last], y.Data[channels*d.Rows*d.N-1], w[channels*len(d.Off)-1]
	r := y.rangeOf(s.Zero)
	flip, _ := x.flip()
	p := depthShape{rows: d.Rows, n: d.N, taps: len(d.Off), step: 16 * d.Stride, ldy: d.N, ldx: d.Ldx, planeY: d.Rows * d.N,
		planeX: d.PlaneX, off: &d.Off[0], zero: r.zero, flipIn: int(flip), flipOut: int(r.flip)}
	for j := range 16 {
		for h := range 4 {
			p.index[4*j+h] = byte(j*d.Stride + h*d.Dilation)
		}
	}
	depthBytesAVX512(&p.rows, &y.Data[0], &x.Data[0], &w[0], &s.Add[:channels][0], &s.Scale[:channels][0], channels)
	return true
}

func copyPlanesWide(y []byte, planeY, ldy int, x []byte, planeX, ldx, planes, rows, n int) bool {
	if !avx512() {
		return false
	}
	_, _ = y[(planes-1)*planeY+(rows-1)*ldy+n-1], x[(planes-1)*planeX+(rows-1)*ldx+n-1]
	copyPlanesAVX512(planes, rows, n, &y[0], planeY, ldy, &x[0], planeX, ldx)
	return true
}
