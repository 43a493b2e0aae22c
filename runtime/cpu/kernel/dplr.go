package kernel

// DPLR is a system of n complex states with one input and one output, whose matrix is diagonal plus low rank:
// z⁺ = f∘z - Σ_r g_r Re(Σ h_r∘z) + b u - cut o, where o is the input of one window ago, and y = Re(Σ c∘z⁺). G and H hold
// one rank after the other. Without a window, CutRe and CutIm are nil.
type DPLR struct {
	FRe, FIm, GRe, GIm, HRe, HIm, BRe, BIm []float64
	CutRe, CutIm                           []float64
}

// Rank returns the rank of the part that is not diagonal.
func (d *DPLR) Rank() int { return len(d.GRe) / max(1, len(d.FRe)) }

// Project sets low to Re(Σ h_r∘z), for each rank.
func (d *DPLR) Project(low, zr, zi []float64) {
	n := len(zr)
	for k := range low {
		hr, hi := d.HRe[k*n:(k+1)*n], d.HIm[k*n:(k+1)*n]
		s, t := 0.0, 0.0
		for j, r := range zr {
			s += hr[j] * r
			t += hi[j] * zi[j]
		}
		low[k] = s - t
	}
}

// Advance replaces z by its successor for the input u, and low by the projections of the new state. old is the input
// of one window ago, or 0.
func (d *DPLR) Advance(zr, zi, low []float64, u, old float64) {
	n := len(zr)
	fr, fi, br, bi := d.FRe[:n], d.FIm[:n], d.BRe[:n], d.BIm[:n]
	zi = zi[:n]
	if len(low) == 1 && old == 0 {
		gr, gi, hr, hi := d.GRe[:n], d.GIm[:n], d.HRe[:n], d.HIm[:n]
		a, s, t := low[0], 0.0, 0.0
		for j, r := range zr {
			i := zi[j]
			x := fr[j]*r - fi[j]*i + (br[j]*u - gr[j]*a)
			y := fr[j]*i + fi[j]*r + (bi[j]*u - gi[j]*a)
			zr[j], zi[j] = x, y
			s += hr[j] * x
			t += hi[j] * y
		}
		low[0] = s - t
		return
	}
	for j, r := range zr {
		i := zi[j]
		zr[j], zi[j] = fr[j]*r-fi[j]*i+br[j]*u, fr[j]*i+fi[j]*r+bi[j]*u
	}
	if old != 0 {
		for j := range zr {
			zr[j] -= d.CutRe[j] * old
			zi[j] -= d.CutIm[j] * old
		}
	}
	for k, a := range low {
		gr, gi := d.GRe[k*n:(k+1)*n], d.GIm[k*n:(k+1)*n]
		for j := range zr {
			zr[j] -= gr[j] * a
			zi[j] -= gi[j] * a
		}
	}
	d.Project(low, zr, zi)
}

// Output returns Re(Σ c∘z).
func Output(cr, ci, zr, zi []float64) float64 {
	cr, ci, zi = cr[:len(zr)], ci[:len(zr)], zi[:len(zr)]
	s, t := 0.0, 0.0
	for j, r := range zr {
		s += cr[j] * r
		t += ci[j] * zi[j]
	}
	return s - t
}

// Forward advances the states over rows steps, oldest first, and writes the outputs; y may be nil. Inputs and outputs are
// ld numbers apart. old holds the inputs of one window ago; nil without a window. low is scratch of a number for each rank.
func (d *DPLR) Forward(y, u, old []float32, ld, rows int, cr, ci, zr, zi, low []float64) {
	d.Project(low, zr, zi)
	for t := range rows {
		past := 0.0
		if old != nil {
			past = float64(old[t*ld])
		}
		d.Advance(zr, zi, low, float64(u[t*ld]), past)
		if y != nil {
			y[t*ld] = float32(Output(cr, ci, zr, zi))
		}
	}
}

// Backward goes from the last row to the first, with outputs from the states before the row's own input is added. With
// add, it adds the outputs to y.
func (d *DPLR) Backward(y, u, old []float32, ld, rows int, cr, ci, zr, zi, low []float64, add bool) {
	d.Project(low, zr, zi)
	for t := rows - 1; t >= 0; t-- {
		if y != nil {
			v := Output(cr, ci, zr, zi)
			if add {
				v += float64(y[t*ld])
			}
			y[t*ld] = float32(v)
		}
		past := 0.0
		if old != nil {
			past = float64(old[t*ld])
		}
		d.Advance(zr, zi, low, float64(u[t*ld]), past)
	}
}
