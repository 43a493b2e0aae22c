package kernel

// Diagonal is a complex diagonal system of N states: z[t] = a z[t-1] + b v[t] - cut v[t-window]. Without a window,
// CutRe and CutIm are nil.
type Diagonal struct {
	ARe, AIm, BRe, BIm []float64
	CutRe, CutIm       []float64
	table              *scanTable // made by Pack; nil if all scans go step by step
	kept               *scanTable // the memory of table
}

// N returns the number of states.
func (d *Diagonal) N() int { return len(d.ARe) }

// Inputs are the inputs of a scan, a row of N numbers per step. OldRe and OldIm are the inputs of one window ago.
// Imaginary parts and old inputs may be nil.
type Inputs struct {
	Re, Im       []float32
	OldRe, OldIm []float32
}

// at returns v[i]; 0 if v is nil.
func at(v []float32, i int) float64 {
	if v == nil {
		return 0
	}
	return float64(v[i])
}

// ScanForward advances the state (zr, zi) over rows steps, oldest first. It writes the real parts of states to xr and
// the imaginary parts to xi; both may be nil.
func (d *Diagonal) ScanForward(xr, xi []float32, in *Inputs, rows int, zr, zi []float64) {
	n := d.N()
	if in.Im == nil && in.OldRe == nil && xi == nil {
		d.scanReal(xr, in.Re, rows, zr, zi, false, false)
		return
	}
	for j := d.scanParts(xr, xi, in, rows, zr, zi, false, false); j < n; j++ {
		ar, ai, br, bi := d.ARe[j], d.AIm[j], d.BRe[j], d.BIm[j]
		r, i := zr[j], zi[j]
		for p := j; p < rows*n; p += n {
			vr, vi := float64(in.Re[p]), at(in.Im, p)
			r, i = ar*r-ai*i+br*vr-bi*vi, ar*i+ai*r+br*vi+bi*vr
			if in.OldRe != nil {
				or, oi := float64(in.OldRe[p]), at(in.OldIm, p)
				r, i = r-(d.CutRe[j]*or-d.CutIm[j]*oi), i-(d.CutRe[j]*oi+d.CutIm[j]*or)
			}
			if xr != nil {
				xr[p] = float32(r)
			}
			if xi != nil {
				xi[p] = float32(i)
			}
		}
		zr[j], zi[j] = r, i
	}
}

// scanParts computes states from the first one on, if inputs have real and imaginary parts, and outputs have both or none.
// It returns the first state that is left.
func (d *Diagonal) scanParts(xr, xi []float32, in *Inputs, rows int, zr, zi []float64, backward, add bool) int {
	mode := scanSet
	switch {
	case in.Im == nil || in.OldRe != nil || (xr == nil) != (xi == nil):
		return 0
	case xr == nil:
		mode = scanDrop
	case add:
		mode = scanAdd
	}
	return scanPartsWide(d, xr, xi, in, rows, zr, zi, backward, mode)
}

// scanReal is the usual case: real inputs, and no imaginary parts as outputs.
func (d *Diagonal) scanReal(x, v []float32, rows int, zr, zi []float64, backward, add bool) {
	mode := scanSet
	switch {
	case x == nil:
		mode = scanDrop
	case add:
		mode = scanAdd
	}
	states := 0
	if mode == scanDrop {
		n, done := d.N(), 0
		states, done = scanBlocks(d, v, rows, zr, zi, backward)
		if rest := rows - done; states > 0 && rest > 0 {
			from := done * n
			if backward {
				from = 0
			}
			d.scanSteps(nil, v[from:from+rest*n], rest, 0, states, zr, zi, backward, mode)
		}
	}
	d.scanSteps(x, v, rows, states, d.N(), zr, zi, backward, mode)
}

// scanSteps is scanReal step by step, for states lo…hi-1.
func (d *Diagonal) scanSteps(x, v []float32, rows, lo, hi int, zr, zi []float64, backward bool, mode int) {
	n := d.N()
	if mode != scanDrop || backward {
		lo += scanWide(d, x, v, rows, lo, hi, zr, zi, backward, mode)
	}
	if !backward && mode == scanSet {
		lo = d.forwardPairs(x, v, rows, lo, hi, zr, zi)
	}
	first, stride := 0, n
	if backward {
		first, stride = (rows-1)*n, -n
	}
	for j := lo; j < hi; j++ {
		ar, ai, br, bi := d.ARe[j], d.AIm[j], d.BRe[j], d.BIm[j]
		r, i := zr[j], zi[j]
		p := first + j
		for range rows {
			if backward && x != nil {
				put(x, p, r, mode == scanAdd)
			}
			u := float64(v[p])
			r, i = ar*r-ai*i+br*u, ar*i+ai*r+bi*u
			if !backward && x != nil {
				x[p] = float32(r)
			}
			p += stride
		}
		zr[j], zi[j] = r, i
	}
}

// forwardPairs computes states from lo on, two at a time, to hide the latency. It returns the first state that is left.
func (d *Diagonal) forwardPairs(x, v []float32, rows, lo, hi int, zr, zi []float64) int {
	n, j := d.N(), lo
	for ; j+2 <= hi; j += 2 {
		ar, ai, br, bi := d.ARe[j], d.AIm[j], d.BRe[j], d.BIm[j]
		cr, ci, dr, di := d.ARe[j+1], d.AIm[j+1], d.BRe[j+1], d.BIm[j+1]
		r, i, s, k := zr[j], zi[j], zr[j+1], zi[j+1]
		for p := j; p < rows*n; p += n {
			in := v[p : p+2 : p+2]
			out := x[p : p+2 : p+2]
			u, w := float64(in[0]), float64(in[1])
			r, i = ar*r-ai*i+br*u, ar*i+ai*r+bi*u
			s, k = cr*s-ci*k+dr*w, cr*k+ci*s+di*w
			out[0], out[1] = float32(r), float32(s)
		}
		zr[j], zi[j], zr[j+1], zi[j+1] = r, i, s, k
	}
	return j
}

// ScanBackward advances the state from the last row to the first. It writes to each row the state before the row's
// own input is added: x[t] = z, then z = a z + b v[t]. Old inputs come from one window later. With add, it adds the
// states to xr and xi.
func (d *Diagonal) ScanBackward(xr, xi []float32, in *Inputs, rows int, zr, zi []float64, add bool) {
	if in.Im == nil && in.OldRe == nil && xi == nil {
		d.scanReal(xr, in.Re, rows, zr, zi, true, add)
		return
	}
	n := d.N()
	for j := d.scanParts(xr, xi, in, rows, zr, zi, true, add); j < n; j++ {
		ar, ai, br, bi := d.ARe[j], d.AIm[j], d.BRe[j], d.BIm[j]
		r, i := zr[j], zi[j]
		for p := (rows-1)*n + j; p >= 0; p -= n {
			put(xr, p, r, add)
			put(xi, p, i, add)
			vr, vi := float64(in.Re[p]), at(in.Im, p)
			r, i = ar*r-ai*i+br*vr-bi*vi, ar*i+ai*r+br*vi+bi*vr
			if in.OldRe != nil {
				or, oi := float64(in.OldRe[p]), at(in.OldIm, p)
				r, i = r-(d.CutRe[j]*or-d.CutIm[j]*oi), i-(d.CutRe[j]*oi+d.CutIm[j]*or)
			}
		}
		zr[j], zi[j] = r, i
	}
}

func put(x []float32, p int, v float64, add bool) {
	switch {
	case x == nil:
	case add:
		x[p] += float32(v)
	default:
		x[p] = float32(v)
	}
}

// Whether a scan drops its outputs, writes them or adds them.
const (
	scanDrop = iota
	scanSet
	scanAdd
)
