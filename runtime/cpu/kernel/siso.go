package kernel

import "math"

// SISO is a list of diagonal systems with n states, one input and one output each: y[t] = Re Σ c z[t] +
// direct·u[t], where b·u[t] is the input of the states; b and c may be complex. The systems run over all rows one
// after the other, so that the inputs and outputs of a system's n states stay in the first-level cache; in blocks of
// eight steps they are not computed at all.
type SISO struct {
	n      int
	b, c   []float32
	minus  []float32  // -Im c; nil if c is real
	direct []float32  // nil for none
	parts  []Diagonal // the states of each system
	tables []sisoTable
	kept   []sisoTable // the memory of tables
	gained *Diagonal   // the system with b in it, if b is complex; nil otherwise
}

// sisoTable holds the coefficients of a system in blocks; _asm/siso.go describes them.
type sisoTable struct {
	direct, out [2][]float32 // forward and backward
	give        []float32
	re, im      []float64
}

// The number of steps of a block, and of states in a vector.
const (
	sisoSteps = 8
	sisoLanes = 8
)

// Gains are complex numbers; Im is nil if they are real.
type Gains struct{ Re, Im []float32 }

// At returns number i.
func (g Gains) At(i int) complex128 {
	if g.Im == nil {
		return complex(float64(g.Re[i]), 0)
	}
	return complex(float64(g.Re[i]), float64(g.Im[i]))
}

// NewSISO returns the systems of the states of d, n each. b and c have a number per state. direct has one per system,
// or is nil. NewSISO may keep its arguments.
func NewSISO(d *Diagonal, n int, b, c Gains, direct []float32) *SISO {
	s := &SISO{n: n, b: b.Re}
	if b.Im != nil {
		s.gained = sameSize(d)
		s.b = make([]float32, len(b.Re))
		for i := range s.b {
			s.b[i] = 1
		}
	}
	if c.Im != nil {
		s.minus = make([]float32, len(c.Im))
	}
	s.parts = make([]Diagonal, d.N()/max(n, 1))
	s.Fill(d, b, c, direct)
	return s
}

// Fill sets the numbers to others, of the same sizes, in place. It may keep its arguments.
func (s *SISO) Fill(d *Diagonal, b, c Gains, direct []float32) {
	n := s.n
	s.c, s.direct = c.Re, direct
	if s.gained != nil { // a part of the system
		s.gained.gain(d, b.At)
		d = s.gained
	} else {
		s.b = b.Re
	}
	for i, v := range c.Im {
		s.minus[i] = -v
	}
	blocks := machine.vectors && n%sisoLanes == 0
	for i := range s.parts {
		lo, p := i*n, &s.parts[i]
		p.ARe, p.AIm, p.BRe, p.BIm = d.ARe[lo:lo+n], d.AIm[lo:lo+n], d.BRe[lo:lo+n], d.BIm[lo:lo+n]
		p.Pack()
		for j := range n {
			blocks = blocks && math.Hypot(p.ARe[j], p.AIm[j]) <= blockMost
		}
	}
	s.tables = nil
	if !blocks {
		return
	}
	if s.kept == nil {
		s.kept = make([]sisoTable, len(s.parts))
		for i := range s.kept {
			s.kept[i] = newSISOTable(n)
		}
	}
	s.tables = s.kept
	for i := range s.parts {
		s.fillTable(i)
	}
}

func newSISOTable(n int) sisoTable {
	t := sisoTable{give: make([]float32, 2*sisoSteps*n), re: make([]float64, n), im: make([]float64, n)}
	for dir := range t.out {
		t.out[dir] = make([]float32, 2*sisoSteps*n)
		t.direct[dir] = make([]float32, 2*sisoSteps*sisoSteps)
	}
	return t
}

// fillTable computes the table of system i, in float64.
func (s *SISO) fillTable(i int) {
	n, d, t := s.n, &s.parts[i], &s.tables[i]
	var response [sisoSteps]float64 // of the output to an input k steps ago
	for j := range n {
		a, p := complex(d.ARe[j], d.AIm[j]), complex(1, 0)
		c, b := complex(float64(s.c[i*n+j]), 0), complex(float64(s.b[i*n+j]), 0)*complex(d.BRe[j], d.BIm[j])
		if s.minus != nil {
			c = complex(real(c), -float64(s.minus[i*n+j]))
		}
		at := j/sisoLanes*sisoLanes*2*sisoSteps + j%sisoLanes
		put := func(to []float32, k int, v complex128, sign float64) {
			to[at+k*sisoLanes] = float32(real(v))
			to[at+(k+sisoSteps)*sisoLanes] = float32(sign * imag(v))
		}
		for k := range sisoSteps {
			q := p * b
			last := sisoSteps - 1 - k // the input k steps before the end of the block
			t.give[at+2*last*sisoLanes], t.give[at+(2*last+1)*sisoLanes] = float32(real(q)), float32(imag(q))
			response[k] += real(c * q)
			put(t.out[1], k, c*p, -1)
			p *= a
			put(t.out[0], k, c*p, -1)
		}
		t.re[j], t.im[j] = real(p), imag(p)
	}
	direct := 0.0
	if s.direct != nil {
		direct = float64(s.direct[i])
	}
	seen := math.Float32frombits(math.MaxUint32)
	for dir, table := range t.direct {
		for in := range sisoSteps {
			for out := in; out < sisoSteps; out++ {
				at, v := in*2*sisoLanes+out, 0.0
				switch {
				case dir == 0:
					v = response[out-in]
				case out > in: // backward, an output does not depend on its own input
					v = response[out-in-1]
				}
				if out == in && dir == 0 {
					v += direct
				}
				table[at] = float32(v)
				if out > in || dir == 0 {
					table[at+sisoLanes] = seen
				}
			}
		}
	}
}

// Scratch returns the size of tmp in Forward and Backward, in float32.
func (s *SISO) Scratch(rows int) int {
	if s.minus != nil {
		return (3*s.n+1)*rows + 2*s.n
	}
	return (2*s.n+1)*rows + 2*s.n
}

// Forward advances the states over rows steps. zr and zi hold the states of one system after the other; rows of u and y
// have a number per system. If y is nil, only the states advance.
func (s *SISO) Forward(y, u []float32, rows int, zr, zi []float64, tmp []float32) {
	for i := range s.parts {
		s.run(i, y, u, rows, zr, zi, tmp, false, false)
	}
}

// Backward goes from the last row to the first, with outputs from the states before the row's own input is added, as in
// ScanBackward. With add, it adds the outputs to y, without the direct term.
func (s *SISO) Backward(y, u []float32, rows int, zr, zi []float64, tmp []float32, add bool) {
	for i := range s.parts {
		s.run(i, y, u, rows, zr, zi, tmp, true, add)
	}
}

func (s *SISO) run(i int, y, u []float32, rows int, zr, zi []float64, tmp []float32, backward, add bool) {
	n := s.n
	zr, zi = zr[i*n:(i+1)*n], zi[i*n:(i+1)*n]
	done := 0
	if s.tables != nil && y != nil && rows >= sisoSteps {
		done = rows / sisoSteps * sisoSteps
		s.blocks(i, y, u, rows, done, zr, zi, tmp[:2*n], backward, add)
	}
	if done < rows {
		from := done
		if backward {
			from = 0
		}
		s.steps(i, y, u, from, rows-done, zr, zi, tmp, backward, add)
	}
}

// blocks runs system i over the first done rows; backward, over the last ones.
func (s *SISO) blocks(i int, y, u []float32, rows, done int, zr, zi []float64, z []float32, backward, add bool) {
	t, heads := &s.tables[i], len(s.parts)
	for j := range s.n {
		at := j/sisoLanes*2*sisoLanes + j%sisoLanes
		z[at], z[at+sisoLanes] = float32(zr[j]), float32(zi[j])
	}
	_, _ = u[(rows-1)*heads+i], y[(rows-1)*heads+i]
	stride, first, dir := heads, i, 0
	if backward {
		stride, first, dir = -heads, (rows-1)*heads+i, 1
	}
	siso(done/sisoSteps, s.n/sisoLanes, &y[first], &u[first], stride, &t.direct[dir][0], &t.out[dir][0], &t.give[0],
		&t.re[0], &t.im[0], &zr[0], &zi[0], &z[0], add)
	if !backward || add || s.direct == nil {
		return
	}
	for r := rows - done; r < rows; r++ {
		y[r*heads+i] += s.direct[i] * u[r*heads+i]
	}
}

// steps runs system i step by step over rows rows, from row from on.
func (s *SISO) steps(i int, y, u []float32, from, rows int, zr, zi []float64, tmp []float32, backward, add bool) {
	n, d, heads := s.n, &s.parts[i], len(s.parts)
	v, x, out := tmp[:rows*n], tmp[rows*n:2*rows*n], tmp[2*rows*n:(2*n+1)*rows]
	var xi []float32
	if s.minus != nil && y != nil {
		xi = tmp[(2*n+1)*rows : (3*n+1)*rows]
	}
	in := &Inputs{Re: v}
	headsSpread(v, n, u[from*heads+i:], heads, rows, s.b[i*n:(i+1)*n], n, false)
	if y == nil {
		x = nil
	}
	if backward {
		d.ScanBackward(x, xi, in, rows, zr, zi, false)
	} else {
		d.ScanForward(x, xi, in, rows, zr, zi)
	}
	if y == nil {
		return
	}
	headsDot(out, 1, x, n, rows, s.c[i*n:(i+1)*n], n, false)
	if xi != nil {
		headsDot(out, 1, xi, n, rows, s.minus[i*n:(i+1)*n], n, true)
	}
	for r, v := range out {
		at := (from+r)*heads + i
		if s.direct != nil && !add {
			v += s.direct[i] * u[at]
		}
		if add {
			v += y[at]
		}
		y[at] = v
	}
}

// ScaleAdd adds d·x to y, for rows of len(d) numbers.
func ScaleAdd(y, x []float32, rows int, d []float32) {
	n := len(d)
	for r := range rows {
		yr, xr := y[r*n:(r+1)*n], x[r*n:(r+1)*n]
		for i := scaleAddWide(yr, xr, d); i < n; i++ {
			yr[i] += d[i] * xr[i]
		}
	}
}

// ScaledDiagonal returns d with inputs multiplied by b and states by c. b and c have a number per state. The real
// parts of its states are the real parts of d's states times c.
func ScaledDiagonal(d *Diagonal, b, c Gains) *Diagonal {
	s := sameSize(d)
	s.Scale(d, b, c)
	return s
}

// Scale sets s to ScaledDiagonal of a system of the same size, in place. It keeps the coefficients a of d.
func (s *Diagonal) Scale(d *Diagonal, b, c Gains) {
	s.gain(d, func(i int) complex128 { return b.At(i) * c.At(i) })
	s.Pack()
}

// sameSize returns memory for gain.
func sameSize(d *Diagonal) *Diagonal {
	return &Diagonal{BRe: make([]float64, d.N()), BIm: make([]float64, d.N())}
}

// gain sets s to d with inputs multiplied by factors, one per state. It keeps the coefficients a of d.
func (s *Diagonal) gain(d *Diagonal, f func(i int) complex128) {
	s.ARe, s.AIm = d.ARe, d.AIm
	for j := range s.BRe {
		b := complex(d.BRe[j], d.BIm[j])
		if k := f(j); imag(k) == 0 { // real numbers are not rounded
			s.BRe[j], s.BIm[j] = d.BRe[j]*real(k), d.BIm[j]*real(k)
		} else {
			b *= k
			s.BRe[j], s.BIm[j] = real(b), imag(b)
		}
	}
}
