package convolution

import (
	"cmp"
	"context"
	"math"
	"math/cmplx"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Limits of the search for exponentials.
const (
	// fitTol is the maximum difference between a kernel and its fit: the root of the sum of squares, relative to the
	// kernel's, and each tap, relative to the largest one. It is a few roundings of float32, in which kernels are
	// stored.
	fitTol = 1e-6
	// maxPoles is the maximum number of states of a fitted kernel. A pair of conjugate states counts as one.
	maxPoles = 64
	// fitWork is the maximum number of operations of one fit.
	fitWork = 1 << 32
)

// tally limits the operations of one fit. Only one goroutine may use it.
type tally struct {
	ctx         context.Context
	left, spent int64
	err         error // why it has ended: a *ir.BudgetError, or the context's error
}

// take takes operations, and reports whether the fit may continue.
func (t *tally) take(operations int) bool {
	if t.err != nil {
		return false
	}
	if t.err = t.ctx.Err(); t.err == nil && int64(operations) > t.left-t.spent {
		t.err = &ir.BudgetError{Asked: int64(operations), Used: t.spent, Limit: t.left, Work: true}
	}
	if t.err == nil {
		t.spent += int64(operations)
	}
	return t.err == nil
}

// The approximate operations of the parts of a fit.
func workOfPencil(size int) int       { return 25 * size * size * size }
func workOfPoles(size, rank int) int  { return 2*size*size*rank + 2*size*rank*rank + 25*rank*rank*rank }
func workOfFit(taps, columns int) int { return taps * columns * (2*columns + 32) }
func workOfRefine(taps, columns int) int {
	return workOfFit(taps, 2*columns) + 3*workOfFit(taps, columns)
}

// exponentials is a kernel k[j] = Σ Re(amp_i · pole_i^j). A pole with a positive imaginary part represents itself
// and its conjugate.
type exponentials struct{ pole, amp []complex128 }

// at returns n taps from the given lag on. Lags count from 0.
func (e exponentials) at(from, n int) []float64 {
	out := make([]float64, n)
	for i, p := range e.pole {
		powers(p, from, n, func(j int, z complex128) { out[j] += real(e.amp[i] * z) })
	}
	return out
}

// powers calls visit with p^(from+j) for each j below n. Each power is a product of a few factors, so that rounding
// errors do not add up.
func powers(p complex128, from, n int, visit func(j int, z complex128)) {
	var z complex128
	for j := range n {
		if j%64 == 0 {
			z = power(p, from+j)
		}
		visit(j, z)
		z *= p
	}
}

// power returns p^k by logarithm and angle, without the rounding errors of repeated products.
func power(p complex128, k int) complex128 {
	if k == 0 {
		return 1
	}
	r, phi := cmplx.Polar(p)
	if r == 0 {
		return 0
	}
	m := math.Exp(float64(k) * math.Log(r))
	s, c := math.Sincos(math.Mod(float64(k)*phi, 2*math.Pi))
	return complex(m*c, m*s)
}

// fitExponentials returns a sum of few exponentials within the unit circle that equals k to fitTol. It solves a matrix
// pencil: with row offsets r and column offsets c, H[i,j] = k[r_i+c_j] and its shift by one are V_r·D·V_cᵀ and
// V_r·D·Λ·V_cᵀ, so the eigenvalues of the pencil are the poles. The amplitudes solve a linear least-squares problem
// over the whole kernel. If its residual is too large, fitExponentials returns the nearest sum and false. work bounds
// its operations.
func fitExponentials(k []float64, work *tally) (best exponentials, ok bool) {
	norm, peak := norms(k)
	if norm == 0 {
		return exponentials{}, true
	}
	// Taps after the last significant one carry no information. A pencil over them would be noise.
	n := len(k)
	for tail := 0.0; n > 1; n-- {
		tail += k[n-1] * k[n-1]
		if math.Sqrt(tail) > 1e-9*norm {
			break
		}
	}
	body := k
	if n < len(k)/2 {
		body = k[:max(n, min(len(k), 2*regions.MinTaps))]
	}
	least := 0 // the states that a fit needs
	sure := sync.OnceValue(func() int { return leastStates(body, work) })
	var pencils []*pencil
	for i, size := range []int{48, 160, 6 * maxPoles} {
		if size = min(size, len(body)/2); !work.take(workOfPencil(size)) {
			break
		}
		p, ok := newPencil(body, size)
		if ok {
			if least = max(least, p.least(norm, peak)); least > mostStates {
				return best, false
			}
			pencils = append(pencils, p)
			var e exponentials
			if e, ok = fitSize(k, body, p, least, quickRanks, nil, norm, peak, work); ok {
				return e, true
			}
			if residual(k, e) < residual(k, best) {
				best = e
			}
		}
		// The largest pencil takes longer than everything before it.
		if most := []int{fewOnGrid, maxPoles, 0}[i]; most > 0 {
			e, ok := onGrid(k, norm, peak, most, work)
			if ok {
				return e, true
			}
			if e.pole != nil && residual(k, e) < residual(k, best) {
				best = e
			}
		}
		if size >= len(body)/2 {
			break
		}
	}
	if e, ok := onPart(k, best, norm, peak, work); ok {
		return e, true
	}
	for _, p := range pencils {
		e, ok := fitSize(k, body, p, least, mostRanks, sure, norm, peak, work)
		if ok {
			return e, true
		}
		if residual(k, e) < residual(k, best) {
			best = e
		}
	}
	return best, false
}

// fitSize tries a pencil at the ranks that its singular values suggest, in ascending order from the given one. After
// the first failure, it tries those that sure allows, at most count of them.
func fitSize(k, body []float64, p *pencil, from, count int, sure func() int, norm, peak float64,
	work *tally) (best exponentials, ok bool) {
	least := norm
	good := func(e exponentials, ok bool) bool { return ok && e.fits(k, norm, peak) }
	steps, far := 4, 1e2*fitTol
	if len(k) <= shortKernel { // the states of a short window are hard to distinguish, but many ranks can be tried
		steps, far = 16, 0.1
	}
	short, tried := len(k) <= shortKernel, false
	for _, r := range p.ranks(short) {
		if r > 2*maxPoles || 4*r > len(k) || 4*r > 3*len(p.s) && len(p.s) < len(body)/2 || short && r > from+moreRanks {
			break
		}
		if r < from || tried && sure != nil && r < sure() {
			continue
		}
		if !work.take(workOfPoles(len(p.s), r) + workOfFit(len(k), r)) {
			break
		}
		if count--; count < 0 {
			break
		}
		tried = true
		poles, ok := p.poles(r)
		if !ok || len(poles) > maxPoles {
			continue
		}
		e, ok := amplitudes(k, poles)
		if good(e, ok) {
			return e, true
		}
		if !ok {
			continue
		}
		miss := residual(k, e)
		if miss <= far*norm {
			if e, ok = refine(k, e, steps, work); good(e, ok) {
				return e, true
			}
			miss = residual(k, e)
		}
		if miss < least {
			if best, least = e, miss; least <= nearly*fitTol*norm {
				count = min(count, fewRanks) // later ones fit the same rounding errors
			}
		}
	}
	if least <= nearly*fitTol*norm {
		return finish(k, best, norm, peak, work)
	}
	return best, false
}

// shortKernel is the maximum length for which a fit tries every rank from the smallest one on, and moreRanks the
// number of these. Higher ranks fit the rounding errors.
const shortKernel, moreRanks = 512, 16

// quickRanks is the number of ranks tried with each pencil before other ways to fit, mostRanks the number tried
// after them, and fewRanks the number tried after one that nearly fits.
const quickRanks, mostRanks, fewRanks = 3, 1 << 10, 2

// ranks returns the ranks that the singular values suggest, in ascending order.
func (p *pencil) ranks(every bool) []int {
	var out []int
	for cut := 1e-4; cut > 5e-14; cut /= 10 {
		r := p.rank(cut)
		if n := len(out); every && n > 0 {
			for q := out[n-1] + 1; q < r; q++ {
				out = append(out, q)
			}
		}
		out = append(out, r)
	}
	return slices.Compact(out)
}

func norms(k []float64) (norm, peak float64) {
	for _, v := range k {
		norm += v * v
		peak = max(peak, math.Abs(v))
	}
	return math.Sqrt(norm), peak
}

func maxDiff(a, b []float64) float64 {
	d := 0.0
	for i := range a {
		d = max(d, math.Abs(a[i]-b[i]))
	}
	return d
}

// residual returns the root of the sum of squared differences. NaN counts as infinity.
func residual(k []float64, e exponentials) float64 {
	sum := 0.0
	for i, v := range e.at(0, len(k)) {
		sum += (v - k[i]) * (v - k[i])
	}
	if math.IsNaN(sum) {
		return math.Inf(1)
	}
	return math.Sqrt(sum)
}

// pencil is the decomposition of a kernel's Hankel matrix, with its shift by one.
type pencil struct {
	u, v  mat.Dense
	s     []float64
	shift *mat.Dense
	often int // the largest number of times that one tap is in the matrix
}

// offsets spreads at most n offsets over [0, span). They are dense at the start, where fast states are visible, and
// increasingly sparse after it, where slow states differ.
func offsets(span, n int) []int {
	if span <= n {
		out := make([]int, span)
		for i := range out {
			out[i] = i
		}
		return out
	}
	dense := n / 2
	out := make([]int, 0, n)
	for i := range dense {
		out = append(out, i)
	}
	for i := range n - dense { // strides that are not multiples of each other
		f := float64(i+1) / float64(n-dense)
		out = append(out, dense+int(math.Round(float64(span-1-dense)*math.Pow(f, 1.7))))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func newPencil(k []float64, size int) (*pencil, bool) {
	at := offsets(len(k)/2, size)
	h, shift := mat.NewDense(len(at), len(at), nil), mat.NewDense(len(at), len(at), nil)
	times := make([]int, len(k))
	for i, r := range at {
		for j, c := range at {
			h.Set(i, j, k[r+c])
			shift.Set(i, j, k[r+c+1])
			times[r+c]++
		}
	}
	var svd mat.SVD
	if !svd.Factorize(h, mat.SVDThin) {
		return nil, false
	}
	p := &pencil{shift: shift, s: svd.Values(nil), often: slices.Max(times)}
	svd.UTo(&p.u)
	svd.VTo(&p.v)
	return p, true
}

// least returns a lower bound for the rank of a fit to fitTol. The Hankel matrix of r columns of exponentials has
// rank r, and singular values differ by no more than the norm of the difference of two matrices, in which each tap
// counts as often as it occurs.
func (p *pencil) least(norm, peak float64) int {
	bound := fitTol * min(norm*math.Sqrt(float64(p.often)), peak*float64(len(p.s)))
	r := 0
	for r < len(p.s) && p.s[r] > bound {
		r++
	}
	return r
}

// mostStates is the maximum number of states of a fit to a kernel: maxPoles pairs.
const mostStates = 2 * maxPoles

// leastStates returns the minimum number of states of a sum of exponentials near a kernel, from the singular values
// of its Hankel matrix. This is far less work than a fit that fails. The matrix is symmetric, so the values follow
// from its eigenvalues. It returns 0 if the work does not suffice.
func leastStates(k []float64, work *tally) int {
	size := min(6*maxPoles, len(k)/2)
	if size < 2 || !work.take(workOfPencil(size)/16) {
		return 0
	}
	at := offsets(len(k)/2, size)
	h := mat.NewSymDense(len(at), nil)
	times := make([]int, len(k))
	for i, r := range at {
		for j, c := range at {
			if times[r+c]++; i <= j {
				h.SetSym(i, j, k[r+c])
			}
		}
	}
	var e mat.EigenSym
	if !e.Factorize(h, false) {
		return 0
	}
	p := &pencil{s: e.Values(nil), often: slices.Max(times)}
	for i, v := range p.s {
		p.s[i] = math.Abs(v)
	}
	slices.SortFunc(p.s, func(a, b float64) int { return cmp.Compare(b, a) })
	return p.least(norms(k))
}

// rank returns the number of singular values above cut times the largest.
func (p *pencil) rank(cut float64) int {
	r := 0
	for r < len(p.s) && p.s[r] > cut*p.s[0] {
		r++
	}
	return r
}

// poles solves the pencil at rank r. Poles outside of the unit circle are moved onto it.
func (p *pencil) poles(r int) ([]complex128, bool) {
	n := len(p.s)
	if r == 0 {
		return nil, false
	}
	u, v := p.u.Slice(0, n, 0, r), p.v.Slice(0, n, 0, r)
	var half, a mat.Dense
	half.Mul(u.T(), p.shift)
	a.Mul(&half, v)
	for i := range r {
		for j := range r {
			a.Set(i, j, a.At(i, j)/math.Sqrt(p.s[i]*p.s[j]))
		}
	}
	var eig mat.Eigen
	if !eig.Factorize(&a, mat.EigenNone) {
		return nil, false
	}
	var out []complex128
	for _, z := range eig.Values(nil) {
		if imag(z) < 0 || cmplx.IsNaN(z) {
			continue
		}
		out = append(out, inside(z))
	}
	slices.SortFunc(out, func(a, b complex128) int {
		if c := cmpFloat(cmplx.Abs(b), cmplx.Abs(a)); c != 0 {
			return c
		}
		return cmpFloat(imag(a), imag(b))
	})
	return out, true
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// inside moves a pole outside of the unit circle onto it.
func inside(z complex128) complex128 {
	if r := cmplx.Abs(z); r > 1 {
		return z / complex(r, 0)
	}
	return z
}

// columns returns two columns of taps for each pole (one if it is real), multiplied by factor and scaled to length 1.
func columns(n int, poles []complex128, factor func(i, j int) complex128) (cols [][]float64, scale []float64) {
	add := func(c []float64) {
		s, _ := norms(c)
		if s == 0 {
			s = 1
		}
		for i := range c {
			c[i] /= s
		}
		cols, scale = append(cols, c), append(scale, s)
	}
	for i, p := range poles {
		re, im := make([]float64, n), make([]float64, n)
		powers(p, 0, n, func(j int, z complex128) {
			if factor != nil {
				z *= factor(i, j)
			}
			re[j], im[j] = real(z), -imag(z)
		})
		add(re)
		if imag(p) != 0 {
			add(im)
		}
	}
	return cols, scale
}

// leastSquares solves min |Σ x_i cols_i - k| by a QR decomposition.
func leastSquares(cols [][]float64, k []float64) ([]float64, bool) {
	if len(cols) == 0 || len(cols) > len(k) {
		return nil, false
	}
	a := mat.NewDense(len(k), len(cols), nil)
	for j, c := range cols {
		a.SetCol(j, c)
	}
	var qr mat.QR
	qr.Factorize(a)
	var x mat.VecDense
	if err := qr.SolveVecTo(&x, false, mat.NewVecDense(len(k), slices.Clone(k))); err != nil {
		if _, ill := err.(mat.Condition); !ill {
			return nil, false
		}
	}
	out := make([]float64, len(cols))
	for i := range out {
		if out[i] = x.AtVec(i); math.IsNaN(out[i]) || math.IsInf(out[i], 0) {
			return nil, false
		}
	}
	return out, true
}

// amplitudes fits the amplitudes of the given poles.
func amplitudes(k []float64, poles []complex128) (exponentials, bool) {
	cols, scale := columns(len(k), poles, nil)
	x, ok := leastSquares(cols, k)
	if !ok {
		return exponentials{}, false
	}
	for i := range x {
		x[i] /= scale[i]
	}
	return sumOf(poles, x), true
}

// refine improves poles and amplitudes by Gauss-Newton steps. The logarithm of each pole moves by the solution of the
// linearized problem, or by a part of it if the whole step increases the residual.
func refine(k []float64, best exponentials, steps int, work *tally) (exponentials, bool) {
	if 4*len(best.pole) > len(k) {
		return best, false
	}
	err := residual(k, best)
	for range steps {
		// d/dlog p of Re(a p^j) is Re(a j p^j · δ). The first columns are for amplitudes, the others for δ.
		cols, _ := columns(len(k), best.pole, nil)
		first := len(cols)
		if !work.take(workOfRefine(len(k), first)) {
			break
		}
		more, scale := columns(len(k), best.pole, func(i, j int) complex128 {
			return best.amp[i] * complex(float64(j), 0)
		})
		x, ok := leastSquares(append(cols, more...), k)
		if !ok {
			break
		}
		better := false
		for part := 1.0; part > 0.05 && !better; part /= 4 {
			e, ok := amplitudes(k, best.moved(x[first:], scale, part))
			if !ok {
				continue
			}
			if r := residual(k, e); r < 0.999*err {
				best, err, better = e, r, true
			}
		}
		if !better {
			break
		}
	}
	return best, true
}

// moved returns the poles after part of a step.
func (e exponentials) moved(step, scale []float64, part float64) []complex128 {
	out := make([]complex128, len(e.pole))
	j := 0
	for i, p := range e.pole {
		re, im := part*step[j]/scale[j], 0.0
		j++
		if imag(p) != 0 {
			im = part * step[j] / scale[j]
			j++
		}
		out[i] = inside(p * cmplx.Exp(complex(re, im)))
		if imag(out[i]) < 0 {
			out[i] = cmplx.Conj(out[i])
		}
	}
	return out
}
