package kernel

// Diagonal is a complex diagonal system of N states: z[t] = a z[t-1] + b v[t]. Cut, where it is not nil, is what the
// input of a window's length ago still counts for.
type Diagonal struct {
	ARe, AIm, BRe, BIm []float64
	CutRe, CutIm       []float64
}

// N is the number of states.
func (d *Diagonal) N() int { return len(d.ARe) }

// Inputs of a scan over rows steps, one row of N numbers per step. Im parts, and the delayed inputs Old, may be nil.
type Inputs struct {
	Re, Im       []float32
	OldRe, OldIm []float32
}

// at gives row t of v, or zeros where it is absent.
func at(v []float32, i int) float64 {
	if v == nil {
		return 0
	}
	return float64(v[i])
}

// ScanForward advances the state (zr, zi) over rows steps, oldest first, and writes the states' real parts to xr and
// imaginary parts to xi; xi may be nil, and xr too, when only the state is wanted.
func (d *Diagonal) ScanForward(xr, xi []float32, in *Inputs, rows int, zr, zi []float64) {
	n := d.N()
	if in.Im == nil && in.OldRe == nil && xi == nil && xr != nil {
		d.forwardReal(scanWide(d, xr, in.Re, rows, zr, zi, false, scanSet), xr, in.Re, rows, zr, zi)
		return
	}
	for j := range n {
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

// forwardReal is the common case: real inputs, real parts wanted, for states from j on. Two states run side by side to hide the latency.
func (d *Diagonal) forwardReal(j int, x, v []float32, rows int, zr, zi []float64) {
	n := d.N()
	for ; j+2 <= n; j += 2 {
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
	for ; j < n; j++ {
		ar, ai, br, bi := d.ARe[j], d.AIm[j], d.BRe[j], d.BIm[j]
		r, i := zr[j], zi[j]
		for p := j; p < rows*n; p += n {
			u := float64(v[p])
			r, i = ar*r-ai*i+br*u, ar*i+ai*r+bi*u
			x[p] = float32(r)
		}
		zr[j], zi[j] = r, i
	}
}

// ScanBackward takes the state y[t+1] = Σ over q > t of a^(q-t-1) b v[q] from the last row to the first, and gives each
// row the state before its own input joins: x[t] = y[t+1], then y[t] = a y[t+1] + b v[t]. Old inputs are those a window's
// length later. With add it adds to xr and xi.
func (d *Diagonal) ScanBackward(xr, xi []float32, in *Inputs, rows int, zr, zi []float64, add bool) {
	n, first := d.N(), 0
	if in.Im == nil && in.OldRe == nil && xi == nil {
		mode := scanSet
		switch {
		case xr == nil:
			mode = scanDrop
		case add:
			mode = scanAdd
		}
		first = scanWide(d, xr, in.Re, rows, zr, zi, true, mode)
	}
	for j := first; j < n; j++ {
		ar, ai, br, bi := d.ARe[j], d.AIm[j], d.BRe[j], d.BIm[j]
		r, i := zr[j], zi[j]
		if in.Im == nil && in.OldRe == nil && xi == nil {
			for p := (rows-1)*n + j; p >= 0; p -= n {
				if xr != nil {
					if add {
						xr[p] += float32(r)
					} else {
						xr[p] = float32(r)
					}
				}
				u := float64(in.Re[p])
				r, i = ar*r-ai*i+br*u, ar*i+ai*r+bi*u
			}
			zr[j], zi[j] = r, i
			continue
		}
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

// How a scan treats what it computes.
const (
	scanDrop = iota
	scanSet
	scanAdd
)
