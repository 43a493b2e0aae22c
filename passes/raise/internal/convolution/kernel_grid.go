package convolution

import (
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/dsp/fourier"
)

const (
	// maxCancel is the maximum sum of a fit's amplitudes, relative to the largest tap. Runs in float32 lose as many
	// digits as amplitudes cancel.
	maxCancel = 1 << 8
	// gridSlack is the factor by which the amplitudes on a grid of poles are kept small, relative to the kernel's
	// norm.
	gridSlack = 1e-8
	// fewOnGrid is the number of poles on a grid that are tried before larger pencils, which may find fewer.
	fewOnGrid = 20
	// tapsPerPole is the minimum number of taps per pole of a grid. With fewer, a fit has no more information than
	// the taps.
	tapsPerPole = 6
	// nearly is the maximum residual, in units of fitTol, at which more poles may still fit the rounding errors of a
	// kernel.
	nearly = 2.5
)

// gridSpacings are the distances between the frequencies of a grid, in units of one over the length. With 2π, a
// grid would contain sequences of that period; smaller distances also allow sequences whose ends differ.
var gridSpacings = []float64{5, 4.2, 3.2, 2.4}

// cancels reports whether amplitudes are too large relative to the taps that they add up to.
func (e exponentials) cancels(peak float64) bool {
	sum := 0.0
	for _, a := range e.amp {
		sum += cmplx.Abs(a)
	}
	return !(sum <= maxCancel*peak)
}

// fits reports whether e equals k to fitTol, with amplitudes that hardly cancel.
func (e exponentials) fits(k []float64, norm, peak float64) bool {
	return len(e.pole) <= maxPoles && !e.cancels(peak) && residual(k, e) <= fitTol*norm &&
		maxDiff(k, e.at(0, len(k))) <= fitTol*peak
}

// off returns the larger of two differences between a kernel and e: of all taps, relative to the kernel's norm, and
// of one tap, relative to the largest tap.
func (e exponentials) off(k []float64) float64 {
	norm, peak := norms(k)
	if norm == 0 {
		norm, peak = 1, 1
	}
	return max(residual(k, e)/norm, maxDiff(k, e.at(0, len(k)))/peak)
}

// onGrid returns a sum of exponentials with equidistant frequencies and one slow decay that equals k to fitTol.
//
// It is for kernels whose states change little within the window. Such states cannot be distinguished, so no pencil
// finds them, but for the same reason any set of states that spans the same frequencies works. If no sum equals k,
// onGrid returns a near one, if there is one, and false.
func onGrid(k []float64, norm, peak float64, most int, work *tally) (best exponentials, ok bool) {
	most = min(most, len(k)/tapsPerPole)
	if !below(k, gridSpacings[0]*float64(most)/float64(len(k)), work) {
		return exponentials{}, false
	}
	nearest, least := exponentials{}, 1e-3
	for _, spacing := range gridSpacings {
		s := newSpan(k, norm, peak, work)
		near := 0 // number of poles with which the residual consists of rounding errors
		for len(s.poles) < most && s.add(gridPole(len(k), len(s.poles), spacing)) {
			if s.fits() {
				best, ok, most = s.sum(), true, len(s.poles)-1
				break
			}
			if off := s.off(); near == 0 && off <= nearly*fitTol {
				near = len(s.poles)
			}
		}
		if ok {
			continue
		}
		if near > 0 {
			return s.finish(near, spacing)
		}
		if off := s.off(); off < least {
			nearest, least = s.sum(), off
		}
		if s.off() > 1e-2 {
			break // smaller spacings span fewer frequencies
		}
	}
	if !ok {
		return nearest, false
	}
	return best, true
}

// below reports whether a kernel has hardly any frequencies above edge, except those of the window's ends.
func below(k []float64, edge float64, work *tally) bool {
	n := len(k)
	if !work.take(100 * n) {
		return false
	}
	row := make([]float64, n)
	for j, v := range k {
		at := 2 * math.Pi * (float64(j) + 0.5) / float64(n)
		row[j] = v * (0.42 - 0.5*math.Cos(at) + 0.08*math.Cos(2*at)) // Blackman's window
	}
	all, above := 0.0, 0.0
	for i, z := range fourier.NewFFT(n).Coefficients(nil, row) {
		e := real(z)*real(z) + imag(z)*imag(z)
		if all += e; 2*math.Pi*float64(i)/float64(n) > edge {
			above += e
		}
	}
	return above <= 1e-6*all
}

// gridPole returns pole i of a grid for a window.
func gridPole(length, i int, spacing float64) complex128 {
	return cmplx.Rect(math.Exp(-1/float64(length)), float64(i)*spacing/float64(length))
}

// onPart returns a sum of exponentials whose slow ones are on a grid, while the others are near those of e, the
// nearest sum that a pencil has found.
func onPart(k []float64, e exponentials, norm, peak float64, work *tally) (best exponentials, ok bool) {
	least := 1e-2
	for _, spacing := range gridSpacings[1:3] {
		for _, slow := range []int{4, 6, 9, 13, 18, 24, 32, 40} {
			s := newSpan(k, norm, peak, work)
			for i := range slow {
				if !s.add(gridPole(len(k), i, spacing)) {
					return best, false
				}
			}
			edge := (float64(slow) - 0.5) * spacing / float64(len(k))
			for _, p := range e.pole {
				if cmplx.Phase(p) > edge && !s.add(p) {
					return best, false
				}
			}
			if len(s.poles) > maxPoles || len(s.poles) > len(k)/tapsPerPole {
				continue
			}
			if s.fits() {
				return s.sum(), true
			}
			if off := s.off(); off < least {
				best, least = s.sum(), off
			}
		}
	}
	if best.pole == nil || !work.take(4*workOfRefine(len(k), 2*len(best.pole))) {
		return best, false
	}
	if best, ok = refine(k, best, 4, work); !ok {
		return best, false
	}
	return finish(k, best, norm, peak, work)
}

// span is the space of the columns of poles that are added one after the other. The columns, stacked on gridSlack
// times the identity, are made orthogonal as they are added.
type span struct {
	k          []float64
	norm, peak float64
	work       *tally
	poles      []complex128
	scales, y  []float64
	q, r       [][]float64
	rest       []float64 // the residual of k over its norm, and of the zeros below
}

func newSpan(k []float64, norm, peak float64, work *tally) *span {
	s := &span{k: k, norm: norm, peak: peak, work: work, rest: make([]float64, len(k), len(k)+2*maxPoles)}
	for j, v := range k {
		s.rest[j] = v / norm
	}
	return s
}

// add adds a pole. It returns false if that is not possible.
func (s *span) add(pole complex128) bool {
	length := len(s.k)
	if cmplx.Phase(pole) >= math.Pi && imag(pole) != 0 || !s.work.take(length*(16+16*len(s.q))) {
		return false
	}
	cols, scale := columns(length, []complex128{pole}, nil)
	for i, c := range cols {
		n := len(s.q)
		c = append(c, make([]float64, n+1)...)
		c[length+n] = gridSlack
		s.rest = append(s.rest, 0)
		above := make([]float64, n+1)
		for range 2 { // a second time to remove the rounding errors of the first
			for p, v := range s.q {
				d := dot(v, c)
				above[p] += d
				axpy(-d, v, c)
			}
		}
		size := math.Sqrt(dot(c, c))
		if above[n] = size; size == 0 {
			return false
		}
		for j := range c {
			c[j] /= size
		}
		d := dot(c, s.rest)
		axpy(-d, c, s.rest)
		s.q, s.r, s.y, s.scales = append(s.q, c), append(s.r, above), append(s.y, d), append(s.scales, scale[i])
	}
	s.poles = append(s.poles, pole)
	return true
}

// off returns the relative residual.
func (s *span) off() float64 {
	n, _ := norms(s.rest[:len(s.k)])
	return n
}

// sum returns the sum of the poles' exponentials that is nearest to the kernel.
func (s *span) sum() exponentials {
	x := slices.Clone(s.y)
	for i := len(x) - 1; i >= 0; i-- {
		x[i] /= s.r[i][i]
		for p := range i {
			x[p] -= s.r[i][p] * x[i]
		}
		x[i] *= s.norm / s.scales[i]
	}
	return sumOf(s.poles, x)
}

// fits reports whether the nearest sum equals the kernel to fitTol.
func (s *span) fits() bool {
	n, p := norms(s.rest[:len(s.k)])
	return n <= fitTol && p <= fitTol*s.peak/s.norm && s.sum().fits(s.k, s.norm, s.peak)
}

// finish returns to the first count poles of a grid, and adds others like the function finish.
func (s *span) finish(count int, spacing float64) (best exponentials, ok bool) {
	f := newSpan(s.k, s.norm, s.peak, s.work)
	for i := range min(count+2, len(s.poles)) {
		if !f.add(gridPole(len(s.k), i, spacing)) {
			break
		}
	}
	for len(f.poles) > 0 {
		best = f.sum()
		if best, ok = level(s.k, best, s.norm, s.peak, s.work); ok ||
			len(f.poles) == min(maxPoles, len(s.k)/tapsPerPole) {
			break
		}
		more := strongest(s.k, best, 1, s.work)
		if len(more) == 0 || !f.add(more[0]) {
			break
		}
	}
	return best, ok
}

// sumOf returns the sum whose columns have the given factors: one per real pole, two per complex one.
func sumOf(poles []complex128, x []float64) exponentials {
	e := exponentials{pole: slices.Clone(poles), amp: make([]complex128, len(poles))}
	j := 0
	for i, p := range poles {
		re, im := x[j], 0.0
		j++
		if imag(p) != 0 {
			im = x[j]
			j++
		}
		e.amp[i] = complex(re, im)
	}
	return e
}

// dot returns the inner product of a and the start of b.
func dot(a, b []float64) (s float64) {
	for i, v := range a {
		s += v * b[i]
	}
	return s
}

// axpy adds f times x to the start of y.
func axpy(f float64, x, y []float64) {
	for i, v := range x {
		y[i] += f * v
	}
}

// finish tries to make a sum fit that nearly does. Kernels that were computed in float32 have errors of a few
// roundings, which a few more poles absorb; and weights move the error from the worst taps to others.
func finish(k []float64, e exponentials, norm, peak float64, work *tally) (exponentials, bool) {
	for range 5 {
		if !(residual(k, e) <= nearly*fitTol*norm) || maxDiff(k, e.at(0, len(k))) > 2*nearly*fitTol*peak {
			break
		}
		if better, ok := level(k, e, norm, peak, work); ok {
			return better, true
		}
		more := slices.Concat(e.pole, strongest(k, e, 6, work))
		if len(more) > maxPoles || 8*len(more) > len(k) || !work.take(workOfFit(len(k), 2*len(more))) {
			break
		}
		wider, ok := amplitudes(k, more)
		if !ok {
			break
		}
		if wider, ok = refine(k, wider, 2, work); !ok || wider.cancels(peak) {
			break
		}
		e = wider
	}
	return e, e.fits(k, norm, peak)
}

// level solves for the amplitudes again, with more weight on the taps whose error is too large.
func level(k []float64, e exponentials, norm, peak float64, work *tally) (exponentials, bool) {
	weight := make([]float64, len(k))
	for j := range weight {
		weight[j] = 1
	}
	for range 5 {
		if e.fits(k, norm, peak) {
			return e, true
		}
		if residual(k, e) > fitTol*norm {
			return e, false
		}
		for j, v := range e.at(0, len(k)) {
			if math.Abs(v-k[j]) > 0.9*fitTol*peak {
				weight[j] *= 2
			}
		}
		cols, scale := columns(len(k), e.pole, nil)
		if !work.take(workOfFit(len(k), len(cols))) {
			return e, false
		}
		weighted := make([]float64, len(k))
		for j, v := range k {
			weighted[j] = v * weight[j]
			for _, c := range cols {
				c[j] *= weight[j]
			}
		}
		x, ok := leastSquares(cols, weighted)
		if !ok {
			return e, false
		}
		for i := range x {
			x[i] /= scale[i]
		}
		e = sumOf(e.pole, x)
	}
	return e, false
}

// strongest returns the poles of the exponentials that, one after the other, remove most of the difference between a
// kernel and its fit.
func strongest(k []float64, e exponentials, count int, work *tally) []complex128 {
	length := len(k)
	size := 4
	for size < 4*length {
		size *= 2
	}
	rest := e.at(0, length)
	for j := range rest {
		rest[j] = k[j] - rest[j]
	}
	transform := fourier.NewFFT(size)
	row := make([]float64, size)
	var poles []complex128
	for range count {
		if !work.take(4 * 100 * size) {
			break
		}
		var pole complex128
		best := 0.0
		for _, decay := range []float64{0.5, 4, 16, 64} {
			clear(row)
			energy := 0.0
			for j, v := range rest {
				f := math.Exp(-decay * float64(j) / float64(length))
				row[j] = v * f
				energy += f * f
			}
			for i, z := range transform.Coefficients(nil, row) {
				if i == 0 || i == size/2 {
					continue
				}
				if s := (real(z)*real(z) + imag(z)*imag(z)) / energy; s > best {
					best = s
					pole = cmplx.Rect(math.Exp(-decay/float64(length)), 2*math.Pi*float64(i)/float64(size))
				}
			}
		}
		one, ok := amplitudes(rest, []complex128{pole})
		if !ok || best == 0 {
			break
		}
		poles = append(poles, pole)
		axpy(-1, one.at(0, length), rest)
	}
	return poles
}
