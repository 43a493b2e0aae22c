package kernel

// Convolution convolves sequences of several features with a real kernel each, by transforms of twice their length.
// The features of a group are adjacent: a vector has one number of each, so the rows of a sequence are read and
// written in place. Pairs of steps are the complex numbers of a transform of half the length: points.
//
// Passes run in place, forward by decimation in frequency and back by decimation in time, so that no numbers are
// reordered: spectra stay in the order of their reversed digits. The first pass runs over the whole sequence. The
// parts that it leaves are transformed one after the other, multiplied and transformed back while they are in the
// cache; a part is processed together with the part of the negative frequencies, which products need. A Convolution
// can be used after Prepare has made its tables, and is immutable from then on.
type Convolution struct {
	n      int // points
	lanes  int // features of a group
	levels []besideLevel
	// For each pair of points of opposite frequencies, in the order in which they are multiplied: positions in points, and
	// the factor (1-w)/2 with w = exp(-2πi k/n).
	at   []int32
	u    []float32
	ends []int // of the pairs of each part
}

// besideLevel is the passes over parts of one size.
type besideLevel struct {
	radix  int
	m      int   // butterflies of a part
	stride int   // distance between the points of a butterfly, in float32
	run    int   // butterflies whose points follow each other
	at     []int // positions of these runs in a part, in float32
	w      []float32
	leaf   bool // parts are multiplied after the passes from here on
}

// Parts up to leafPoints points are transformed as a whole, so that a part and the part of the negative frequencies
// fit in the first-level cache. Strides of besidePage float32 or more are made longer by a point, since the points
// of a butterfly would otherwise evict each other from the cache.
const (
	leafPoints = 64
	besidePage = 1024
)

// NewConvolution returns a plan for sequences of at least length numbers, including zeros for as many as the kernel
// has, in groups of at most features features.
func NewConvolution(length, features int) *Convolution {
	c := &Convolution{lanes: 8}
	if features > 8 {
		c.lanes = machine.beside
	}
	c.n = 4
	for 2*c.n < length {
		c.n *= 2
	}
	first := 1
	if five, six := c.n/8*5, c.n/8*6; c.n >= 64 && 2*five >= length {
		c.n, first = five, 5
	} else if c.n >= 64 && 2*six >= length {
		c.n, first = six, 3
	}
	c.levels = besideLevels(c.n, first)
	span := 2 * c.lanes // of a part
	for i := len(c.levels) - 1; i >= 0; i-- {
		l := &c.levels[i]
		l.stride = span
		if span >= besidePage {
			l.stride += 2 * c.lanes
		}
		span = l.radix * l.stride
		l.run, l.at = 1, []int{0}
		if i+1 < len(c.levels) {
			next := &c.levels[i+1]
			if l.run = next.run * next.radix; next.stride != next.run*2*c.lanes {
				l.run = next.run
				l.at = nil
				for k := range next.radix {
					for _, at := range next.at {
						l.at = append(l.at, k*next.stride+at)
					}
				}
			}
		}
		l.leaf = l.radix*l.m <= leafPoints || i+1 == len(c.levels)
	}
	return c
}

// besideLevels returns levels for n points, n = first·2ᵏ with k ≥ 2.
func besideLevels(n, first int) (all []besideLevel) {
	add := func(r int) {
		n /= r
		all = append(all, besideLevel{radix: r, m: n})
	}
	if first > 1 {
		add(first)
	}
	for n > 1 {
		if n == 4 || n == 16 {
			add(4)
		} else {
			add(8)
		}
	}
	return all
}

// Group returns the number of features of a group.
func (c *Convolution) Group() int { return c.lanes }

// span returns the size of the points, in float32.
func (c *Convolution) span() int { return c.levels[0].radix * c.levels[0].stride }

// Size returns the length of the sequences, with padding.
func (c *Convolution) Size() int { return 2 * c.n }

// Len returns the size of the spectra of a group's kernels, in float32.
func (c *Convolution) Len() int { return (c.n/2 + 1) * 4 * c.lanes }

// Scratch returns the size of tmp in Run and Transform, in float32.
func (c *Convolution) Scratch() int { return c.span() }

// Bytes returns the size of the tables.
func (c *Convolution) Bytes() int64 {
	n := int64(c.n/2+1) * 16
	for _, l := range c.levels {
		n += int64((l.radix-1)*l.m*2)*4 + int64(len(l.at))*8
	}
	return n
}

// Prepare computes the tables. It returns false if it was stopped.
func (c *Convolution) Prepare(stop Stop) bool {
	for i := range c.levels {
		l := &c.levels[i]
		if l.m == 1 {
			continue
		}
		l.w = make([]float32, 0, 2*(l.radix-1)*l.m)
		for j := range l.m {
			if stop.every(j) {
				return false
			}
			for k := 1; k < l.radix; k++ {
				w := unit(j*k, l.m*l.radix)
				l.w = append(l.w, real(w), imag(w))
			}
		}
	}
	c.at, c.u, c.ends = make([]int32, 0, c.n+2), make([]float32, 0, c.n+2), nil
	return c.pair(0, 0, 1, stop)
}

// pair lists the pairs of the part whose frequencies are residue modulo step, at the given level, with the part of the
// negative ones. It returns false if it was stopped.
func (c *Convolution) pair(level, residue, step int, stop Stop) bool {
	if l := &c.levels[level]; !l.leaf {
		for q := range l.radix {
			if q <= l.opposite(q, residue) || c.apart(residue, step) {
				if !c.pair(level+1, residue+step*q, step*l.radix, stop) {
					return false
				}
			}
		}
		return true
	}
	for k := residue; k < c.n; k += step {
		other := (c.n - k) % c.n
		if !c.apart(residue, step) && k > other && other > 0 {
			continue
		}
		if stop.every(k / step) {
			return false
		}
		w := unit64(k, c.n)
		c.at = append(c.at, int32(c.position(k)/(2*c.lanes)), int32(c.position(other)/(2*c.lanes)))
		c.u = append(c.u, float32((1-real(w))/2), float32(-imag(w)/2))
	}
	c.ends = append(c.ends, len(c.u)/2)
	return true
}

// apart reports whether the negatives of frequencies that are residue modulo step are others.
func (c *Convolution) apart(residue, step int) bool { return 2*residue%step != 0 }

// opposite returns the digit of -k, where q is the digit of k, and residue is the value of the previous digits.
func (l *besideLevel) opposite(q, residue int) int {
	if residue == 0 {
		return (l.radix - q) % l.radix
	}
	return l.radix - 1 - q
}

// position returns the offset of the point of frequency k, in float32.
func (c *Convolution) position(k int) (at int) {
	for i := range c.levels {
		l := &c.levels[i]
		at += k % l.radix * l.stride
		k /= l.radix
	}
	return at
}

// besideRun is a computation of one group.
type besideRun struct {
	c    *Convolution
	x    []float32
	spec []float32
	done int // parts that are multiplied
	stop Stop
}

// down runs the passes of a level over the part at position at, up those back.
func (r *besideRun) down(level, at int) { r.pass(level, at, false) }

func (r *besideRun) up(level, at int) { r.pass(level, at, true) }

func (r *besideRun) pass(level, at int, up bool) {
	l := &r.c.levels[level]
	for i, run := range l.at {
		if stopped(i, r.stop) {
			return
		}
		besidePass(r.x[at+run:], r.c.lanes, l, i*l.run, up)
	}
}

// leaf runs all passes from a level on over the part at position at; upward, those back.
func (r *besideRun) leaf(level, at int, up bool) {
	c := r.c
	last := len(c.levels) - 1
	if up && level < last {
		r.leaves(level, at, up)
	}
	if level == last {
		besideFlat(r.x[at:], c.lanes, c.levels[level].radix, 1, up)
		return
	}
	r.pass(level, at, up)
	if !up {
		r.leaves(level, at, up)
	}
}

// leaves runs leaf over the parts of a part.
func (r *besideRun) leaves(level, at int, up bool) {
	l, next := &r.c.levels[level], level+1
	if next == len(r.c.levels)-1 && l.stride == r.c.levels[next].radix*2*r.c.lanes {
		besideFlat(r.x[at:], r.c.lanes, r.c.levels[next].radix, l.radix, up)
		return
	}
	for q := range l.radix {
		r.leaf(next, at+q*l.stride, up)
	}
}

// convolve transforms the part at position a, whose frequencies are residue modulo step, and the part of the
// negative frequencies at position b, from a level on; multiplies them by the kernels' spectra, and transforms them
// back. The first and the last pass over the whole are done elsewhere.
func (r *besideRun) convolve(level, a, b, residue, step int) {
	c := r.c
	l := &c.levels[level]
	both := a != b
	if l.leaf {
		if level > 0 {
			r.leaf(level, a, false)
			if both {
				r.leaf(level, b, false)
			}
		} else if level+1 < len(c.levels) {
			r.leaves(level, a, false)
		}
		from := 0
		if r.done > 0 {
			from = c.ends[r.done-1]
		}
		to := c.ends[r.done]
		r.done++
		besideProduct(r.x, c.lanes, c.at[2*from:2*to], c.u[2*from:2*to], r.spec[from*4*c.lanes:to*4*c.lanes])
		if level > 0 {
			r.leaf(level, a, true)
			if both {
				r.leaf(level, b, true)
			}
		} else if level+1 < len(c.levels) {
			r.leaves(level, a, true)
		}
		return
	}
	if level > 0 {
		r.down(level, a)
		if both {
			r.down(level, b)
		}
	}
	for q := range l.radix {
		if r.stop.after(l.radix * l.m * c.lanes) {
			return
		}
		if o := l.opposite(q, residue); both || q <= o {
			r.convolve(level+1, a+q*l.stride, b+o*l.stride, residue+q*step, step*l.radix)
		}
	}
	if level > 0 {
		r.up(level, a)
		if both {
			r.up(level, b)
		}
	}
}

// Place adds the kernel of a feature of a group to the points in tmp, which must be zero before the first: after[j] is the
// factor of the input j steps ago, and before[j] that of the input j+1 steps ahead.
func (c *Convolution) Place(tmp []float32, feature int, after, before []float32) {
	c.runs(tmp, nil, func(t int, rows []float32) {
		for at := feature; at < len(rows); at += c.lanes {
			if t < len(after) {
				rows[at] += after[t]
			}
			if j := 2*c.n - 1 - t; j < len(before) {
				rows[at] += before[j]
			}
			t++
		}
	})
}

// Transform sets spec to the spectra of the kernels that were placed in tmp.
func (c *Convolution) Transform(spec, tmp []float32, stop Stop) {
	x := tmp[:c.span()]
	r := besideRun{c: c, x: x, stop: stop}
	r.leafWhole(0, 0)
	scale := 0.5 / float32(c.n)
	for i := range len(c.u) / 2 {
		if stop.every(i) {
			return
		}
		a, b := x[2*c.lanes*int(c.at[2*i]):], x[2*c.lanes*int(c.at[2*i+1]):]
		s := spec[i*4*c.lanes:]
		for lane := range c.lanes {
			ar, ai, br, bi := a[lane], a[c.lanes+lane], b[lane], b[c.lanes+lane]
			s[lane], s[c.lanes+lane] = (ar+br)*scale, (ai-bi)*scale
			s[2*c.lanes+lane], s[3*c.lanes+lane] = (ar-br)*scale, (ai+bi)*scale
		}
	}
}

// leafWhole runs all passes from a level on, of parts of any size.
func (r *besideRun) leafWhole(level, at int) {
	l := &r.c.levels[level]
	if level+1 == len(r.c.levels) {
		besideFlat(r.x[at:], r.c.lanes, l.radix, 1, false)
		return
	}
	r.down(level, at)
	for q := range l.radix {
		if r.stop.after(l.radix * l.m * r.c.lanes) {
			return
		}
		r.leafWhole(level+1, at+q*l.stride)
	}
}

// runs calls f for each run of steps of a sequence whose numbers follow each other in x, with the first step and the
// numbers.
func (c *Convolution) runs(x []float32, stop Stop, f func(t int, rows []float32)) {
	l := &c.levels[0]
	for k := range l.radix {
		for i, run := range l.at {
			if stopped(i, stop) {
				return
			}
			f(2*(k*l.m+i*l.run), x[k*l.stride+run:][:l.run*2*c.lanes])
		}
	}
}

// stopped reports whether the result is no longer wanted. It is called for each run i of a pass.
func stopped(i int, stop Stop) bool { return i%16 == 15 && stop != nil && stop() }

// Features are sequences of count features, at most Group: V has inputs and X receives outputs, as Steps rows with
// stride Stride. Past has inputs before the first step, as rows with stride PastStride.
type Features struct {
	X, V, Past         []float32
	Stride, PastStride int
	Count, Steps, Old  int // Old is the number of rows of Past
}

// Run convolves the sequences with the kernels whose spectra are in spec. X may be V.
func (c *Convolution) Run(f *Features, spec, tmp []float32, stop Stop) {
	r := besideRun{c: c, x: tmp[:c.span()], spec: spec, stop: stop}
	l := &c.levels[0]
	whole := l.radix == 8 && l.m > 1 && f.Old == 0 && f.Steps == c.n && f.Count == c.lanes
	if !whole || !r.first(f) {
		whole = false
		r.load(f)
		if l.m > 1 {
			r.down(0, 0)
		} else {
			besideFlat(r.x, c.lanes, l.radix, 1, false)
		}
	}
	r.convolve(0, 0, 0, 0, 1)
	if stop.after(c.n * c.lanes) {
		return
	}
	if whole {
		r.last(f)
		return
	}
	if l.m > 1 {
		r.up(0, 0)
	} else {
		besideFlat(r.x, c.lanes, l.radix, 1, true)
	}
	r.store(f)
}

// within returns which of count steps, from step t on, are among the steps of f: from lo to hi-1.
func (f *Features) within(t, count int) (lo, hi int) {
	lo = min(max(f.Old-t, 0), count)
	return lo, min(max(f.Old+f.Steps-t, lo), count)
}

// load copies the inputs to points.
func (r *besideRun) load(f *Features) {
	lanes := r.c.lanes
	r.c.runs(r.x, r.stop, func(t int, rows []float32) {
		lo, hi := f.within(t, len(rows)/lanes)
		for i := range lo {
			row := rows[i*lanes : (i+1)*lanes]
			clear(row[copy(row[:f.Count], f.Past[(t+i)*f.PastStride:]):])
		}
		if lo < hi {
			if f.Count < lanes {
				clear(rows[lo*lanes : hi*lanes])
			}
			besideRows(rows[lo*lanes:], lanes, f.V[(t+lo-f.Old)*f.Stride:], f.Stride, f.Count, hi-lo)
		}
		clear(rows[hi*lanes:])
	})
}

// store copies the outputs from points.
func (r *besideRun) store(f *Features) {
	lanes := r.c.lanes
	r.c.runs(r.x, r.stop, func(t int, rows []float32) {
		if lo, hi := f.within(t, len(rows)/lanes); lo < hi {
			besideRows(f.X[(t+lo-f.Old)*f.Stride:], f.Stride, rows[lo*lanes:], lanes, f.Count, hi-lo)
		}
	})
}

// besideRows copies count rows of n numbers; rows have strides to and from.
func besideRows(dst []float32, to int, src []float32, from, n, count int) {
	if besideRowsWide(dst, to, src, from, n, count) {
		return
	}
	for i := range count {
		copy(dst[i*to:i*to+n], src[i*from:])
	}
}

// first runs the first pass from rows, as many as there are points. It reports whether it has.
func (r *besideRun) first(f *Features) bool {
	l := &r.c.levels[0]
	for i, at := range l.at {
		if stopped(i, r.stop) {
			return true
		}
		if !besideFirstWide(r.x[at:], r.c.lanes, l, i*l.run, f) {
			return false
		}
	}
	return true
}

// last runs the last pass to rows.
func (r *besideRun) last(f *Features) {
	l := &r.c.levels[0]
	for i, at := range l.at {
		if stopped(i, r.stop) {
			return
		}
		besideLastWide(r.x[at:], r.c.lanes, l, i*l.run, f)
	}
}

// besidePass computes a run of butterflies, from butterfly from on, at the start of x. Upward, the factors apply to
// the inputs, and real and imaginary parts are exchanged.
func besidePass(x []float32, lanes int, l *besideLevel, from int, up bool) {
	w := l.w[2*(l.radix-1)*from:]
	if besidePassWide(x, lanes, l, w, up) {
		return
	}
	r := l.radix
	for j := range l.run {
		besideButterfly(x[j*2*lanes:], lanes, l.stride, r, w[2*(r-1)*j:2*(r-1)*(j+1)], up)
	}
}

// besideFlat computes count butterflies whose points follow each other, without factors.
func besideFlat(x []float32, lanes, radix, count int, up bool) {
	if besideFlatWide(x, lanes, radix, count, up) {
		return
	}
	var ones [2 * largestRadix]float32
	for k := 0; k < len(ones); k += 2 {
		ones[k] = 1
	}
	for j := range count {
		besideButterfly(x[j*radix*2*lanes:], lanes, 2*lanes, radix, ones[:2*(radix-1)], up)
	}
}

// besideButterfly computes a butterfly of each lane.
func besideButterfly(x []float32, lanes, stride, r int, w []float32, up bool) {
	var v [largestRadix + 3]complex64
	re, im := x, x[lanes:]
	if up {
		re, im = im, re
	}
	for lane := range lanes {
		at := lane
		v[0] = complex(re[at], im[at])
		for k := 1; k < r; k++ {
			at += stride
			a, b := re[at], im[at]
			if up {
				wr, wi := w[2*k-2], w[2*k-1]
				a, b = a*wr-b*wi, a*wi+b*wr
			}
			v[k] = complex(a, b)
		}
		switch r {
		case 4:
			v[0], v[1], v[2], v[3] = four(v[0], v[1], v[2], v[3])
		case 8:
			eight(&v)
		default:
			odd(&v, r)
		}
		at = lane
		re[at], im[at] = real(v[0]), imag(v[0])
		for k := 1; k < r; k++ {
			at += stride
			a, b := real(v[k]), imag(v[k])
			if !up {
				wr, wi := w[2*k-2], w[2*k-1]
				a, b = a*wr-b*wi, a*wi+b*wr
			}
			re[at], im[at] = a, b
		}
	}
}

// besideProduct multiplies pairs of points of opposite frequencies p and q by the spectra of kernels. For sequences
// of pairs of steps, with kernels whose even and odd lags have the transforms E and O, the spectrum of p is E·p +
// i/2·O·((1-w)·p + (1+w)·conj q). spec has E and i·O of the first frequency of each pair; those of q are the
// conjugates of E and O.
func besideProduct(x []float32, lanes int, at []int32, u, spec []float32) {
	if len(at) == 0 || besideProductWide(x, lanes, at, u, spec) {
		return
	}
	for i := range len(at) / 2 {
		p, q, s := x[2*lanes*int(at[2*i]):], x[2*lanes*int(at[2*i+1]):], spec[i*4*lanes:]
		factor := complex(u[2*i], u[2*i+1])
		for lane := range lanes {
			e, o := complex(s[lane], s[lanes+lane]), complex(s[2*lanes+lane], s[3*lanes+lane])
			c := factor * o
			d := o - c
			a, b := complex(p[lane], p[lanes+lane]), complex(q[lane], -q[lanes+lane])
			y, z := (e+c)*a+d*b, (e-c)*b-d*a
			p[lane], p[lanes+lane] = real(y), imag(y)
			q[lane], q[lanes+lane] = real(z), -imag(z)
		}
	}
}
