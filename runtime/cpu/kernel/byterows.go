package kernel

// CopyByteRows sets n bytes of each of rows of y: byte j to x[at+j*step] for from ≤ j < to, and to fill elsewhere.
// Rows of y have stride ldy, and rows of x ldx; at may be negative. to is at most n.
func CopyByteRows(y []byte, ldy, n int, x []byte, at, ldx, step, rows, from, to int, fill byte) {
	if rows == 0 || n == 0 {
		return
	}
	if from < to && (step > 1 || n <= 128) && copyRowsWide(y, ldy, n, x, at, ldx, step, rows, from, to, fill) {
		return
	}
	to = max(from, to)
	for i := range rows {
		row := y[i*ldy : i*ldy+n]
		FillBytes(row[:from], fill)
		FillBytes(row[to:], fill)
		if from == to {
			continue
		}
		src := x[at+i*ldx+from*step:]
		if step == 1 {
			copy(row[from:to], src)
			continue
		}
		for j := range row[from:to] {
			row[from+j] = src[j*step]
		}
	}
}

// FillBytes sets all of b to v.
func FillBytes(b []byte, v byte) {
	if len(b) == 0 || len(b) <= 4*64 && fillBytesWide(b, v) {
		return
	}
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// TableBytes computes y[i] = table[x[i]].
func TableBytes(y, x []byte, table *[256]byte) {
	y = y[:len(x)]
	for i := byteTableWide(y, x, table); i < len(x); i++ {
		y[i] = table[x[i]]
	}
}

// LargestTaps computes y[i] as the largest of x[off[t]+at+i], for the elements of y.
func LargestTaps(y []byte, x Bytes, o Offsets, at int) {
	if len(y) == 0 || len(o.off) == 0 || largestTapsWide(y, x, o, at) {
		return
	}
	flip, _ := x.flip()
	for i := range y {
		v := byte(0)
		for _, off := range o.off {
			v = max(v, x.Data[at+int(off)+i]^flip)
		}
		y[i] = v ^ flip
	}
}
