package kernel

// FFT transforms real sequences of an even length, for convolutions by the convolution theorem. A spectrum has the
// real parts, then the imaginary parts. Instead of the imaginary part of frequency 0, which is 0, it has the last
// frequency, which is real. An FFT can be used after Prepare has made its tables, and is immutable from then on.
type FFT struct {
	t                *transform // of n numbers: pairs of the sequence
	forward, inverse parts
}

// NewFFT returns a transform of at least length numbers, and at least 2.
func NewFFT(length int) *FFT {
	n := 1
	for 2*n < length {
		n *= 2
	}
	if n > 64 {
		n = smooth((length + 1) / 2)
	}
	return &FFT{t: newTransform(n)}
}

// Bytes returns the size of the tables.
func (f *FFT) Bytes() int64 { return f.t.bytes() + splitBytes(f.t.n) }

// Prepare computes the tables. It returns false if it was stopped.
func (f *FFT) Prepare(stop Stop) bool {
	if !f.t.prepare(stop) {
		return false
	}
	var ok bool
	f.forward, f.inverse, ok = splitFactors(f.t.n, stop)
	return ok
}

// Size returns the length of the sequences, with padding.
func (f *FFT) Size() int { return 2 * f.t.n }

// Len returns the size of a spectrum, and of the scratch that transforms need, in float32.
func (f *FFT) Len() int { return 2 * planeLen(f.t.n) }

func (f *FFT) parts(spec []float32) parts {
	n, at := f.t.n, planeLen(f.t.n)
	return parts{spec[:n], spec[at : at+n]}
}

// Forward sets spec to the spectrum of x, padded with zeros. tmp is scratch of Len numbers.
func (f *FFT) Forward(spec, x, tmp []float32, stop Stop) {
	n, z, y := f.t.n, f.parts(spec), f.parts(tmp)
	if len(f.t.passes)%2 != 0 {
		z, y = y, z
	}
	pairs := min(len(x)/2, n)
	for i := partWide(z, x, pairs); i < pairs; i++ {
		z.re[i], z.im[i] = x[2*i], x[2*i+1]
	}
	clear(z.re[pairs:])
	clear(z.im[pairs:])
	if pairs < n && len(x)%2 != 0 {
		z.re[pairs] = x[2*pairs]
	}
	f.spectrum(z, y, stop)
}

// ForwardRing sets spec to the spectrum of a convolution kernel k. With after, k[j] is at position j, for sums over
// earlier steps; with before, at position -1-j, for sums over later steps; with both, at both.
func (f *FFT) ForwardRing(spec, k []float32, after, before bool, tmp []float32, stop Stop) {
	z, y := f.parts(spec), f.parts(tmp)
	if len(f.t.passes)%2 != 0 {
		z, y = y, z
	}
	clear(z.re)
	clear(z.im)
	put := func(i int, v float32) {
		if i&1 == 0 {
			z.re[i/2] += v
		} else {
			z.im[i/2] += v
		}
	}
	for j, v := range k {
		if after {
			put(j, v)
		}
		if before {
			put(f.Size()-1-j, v)
		}
	}
	f.spectrum(z, y, stop)
}

// spectrum transforms pairs of real numbers in z.
func (f *FFT) spectrum(z, y parts, stop Stop) {
	z, _ = f.t.run(z, y, 1, stop)
	a, b := z.re[0], z.im[0]
	z.re[0], z.im[0] = a+b, a-b
	combine(z, f.forward, f.t.n, 1)
}

// Inverse sets x to len(x) numbers, from number skip on, of the sequence that has the spectrum spec. With add, it adds
// them to x. It overwrites spec.
func (f *FFT) Inverse(x, spec []float32, skip int, add bool, tmp []float32, stop Stop) {
	z, y := f.parts(spec), f.parts(tmp)
	a, b := z.re[0], z.im[0]
	z.re[0], z.im[0] = (a+b)*0.5, (a-b)*0.5
	combine(z, f.inverse, f.t.n, 1)
	z, _ = f.t.run(parts{z.im, z.re}, parts{y.im, y.re}, 1, stop)
	scale := 1 / float32(f.t.n)
	done := 0
	if !add && skip%2 == 0 {
		done = 2 * joinWide(x, parts{z.im[skip/2:], z.re[skip/2:]}, len(x)/2, scale)
	}
	for i := done; i < len(x); i++ {
		v := z.im[(i+skip)/2] * scale
		if (i+skip)&1 == 1 {
			v = z.re[(i+skip)/2] * scale
		}
		if add {
			v += x[i]
		}
		x[i] = v
	}
}

// Mul sets the spectrum y to a·b. y may be a or b.
func (f *FFT) Mul(y, a, b []float32) {
	z, p, q := f.parts(y), f.parts(a), f.parts(b)
	re, im := p.re[0]*q.re[0], p.im[0]*q.im[0]
	multiply(z, p, q, f.t.n, 1)
	z.re[0], z.im[0] = re, im
}

// MulAdd adds sign·a·b to the spectrum acc.
func (f *FFT) MulAdd(acc, a, b []float32, sign float32) {
	y, p, q := f.parts(acc), f.parts(a), f.parts(b)
	re, im := y.re[0]+sign*p.re[0]*q.re[0], y.im[0]+sign*p.im[0]*q.im[0]
	for i := mulAddWideParts(y, p, q, f.t.n, sign); i < f.t.n; i++ {
		y.re[i] += sign * (p.re[i]*q.re[i] - p.im[i]*q.im[i])
		y.im[i] += sign * (p.re[i]*q.im[i] + p.im[i]*q.re[i])
	}
	y.re[0], y.im[0] = re, im
}
