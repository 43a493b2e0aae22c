package kernel

import (
	"math"
	"slices"
)

// SISO is diagonal systems with one input and one output each, of n states all: y[t] = Re Σ c z[t] + direct·u[t], where the states see
// b·u[t]. One system after the other runs over all rows, so that its states' inputs and outputs, n times as much as its
// own, stay in the first cache; by blocks of eight steps they are not even computed.
type SISO struct {
	n      int
	b, c   []float32
	direct []float32  // nil: none
	parts  []Diagonal // a system each
	tables []sisoTable
}

// sisoTable is what a system needs to go by blocks; see the generator of the kernels.
type sisoTable struct {
	direct, out [2][]float32 // forward and backward
	give        []float32
	re, im      []float64
}

// The steps of a block, and the states that go together.
const (
	sisoSteps = 8
	sisoLanes = 8
)

// NewSISO makes systems of the states that d has, n each. b and c have a number for each state, direct has one for each system, or is
// nil. It may keep what it is given.
func NewSISO(d *Diagonal, n int, b, c, direct []float32) *SISO {
	s := &SISO{n: n, b: b, c: c, direct: direct}
	blocks := wide() && n%sisoLanes == 0
	for lo := 0; lo < d.N(); lo += n {
		p := Diagonal{ARe: d.ARe[lo : lo+n], AIm: d.AIm[lo : lo+n], BRe: d.BRe[lo : lo+n], BIm: d.BIm[lo : lo+n]}
		p.Pack()
		s.parts = append(s.parts, p)
		for j := range n {
			blocks = blocks && math.Hypot(p.ARe[j], p.AIm[j]) <= blockMost
		}
	}
	for i := range s.parts {
		if blocks {
			s.tables = append(s.tables, s.table(i))
		}
	}
	return s
}

// table computes what system i needs to go by blocks, in float64.
func (s *SISO) table(i int) (t sisoTable) {
	n, d := s.n, &s.parts[i]
	var response [sisoSteps]float64 // of the output, to an input so many steps ago
	t.give = make([]float32, 2*sisoSteps*n)
	for dir := range t.out {
		t.out[dir] = make([]float32, 2*sisoSteps*n)
		t.direct[dir] = make([]float32, 2*sisoSteps*sisoSteps)
	}
	for j := range n {
		a, p := complex(d.ARe[j], d.AIm[j]), complex(1, 0)
		c, b := complex(float64(s.c[i*n+j]), 0), complex(float64(s.b[i*n+j]), 0)*complex(d.BRe[j], d.BIm[j])
		at := j/sisoLanes*sisoLanes*2*sisoSteps + j%sisoLanes
		put := func(to []float32, k int, v complex128, sign float64) {
			to[at+k*sisoLanes] = float32(real(v))
			to[at+(k+sisoSteps)*sisoLanes] = float32(sign * imag(v))
		}
		for k := range sisoSteps {
			q := p * b
			last := sisoSteps - 1 - k // the input that the end of the block is k steps behind
			t.give[at+2*last*sisoLanes], t.give[at+(2*last+1)*sisoLanes] = float32(real(q)), float32(imag(q))
			response[k] += real(c * q)
			put(t.out[1], k, c*p, -1)
			p *= a
			put(t.out[0], k, c*p, -1)
		}
		t.re, t.im = append(t.re, real(p)), append(t.im, imag(p))
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
				case out > in: // backward, an output does not see its own input
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
	return t
}

// Scratch is how many numbers Forward and Backward need for so many rows.
func (s *SISO) Scratch(rows int) int { return (2*s.n+1)*rows + 2*s.n }

// Forward advances the states, those of one system after the other, over rows steps; rows of u and y have one number for each
// system. Without y only the states advance.
func (s *SISO) Forward(y, u []float32, rows int, zr, zi []float64, tmp []float32) {
	for i := range s.parts {
		s.run(i, y, u, rows, zr, zi, tmp, false, false)
	}
}

// Backward goes from the last row to the first, and gives each row what the states are before its own input joins, as
// ScanBackward does. With add it adds to y, else the direct term is there, too.
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

// blocks runs system i over done rows of the first or, backward, of the last.
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
	siso(done/sisoSteps, s.n/sisoLanes, &y[first], &u[first], stride, &t.direct[dir][0], &t.out[dir][0], &t.give[0], &t.re[0], &t.im[0], &zr[0], &zi[0], &z[0], add)
	if !backward || add || s.direct == nil {
		return
	}
	for r := rows - done; r < rows; r++ {
		y[r*heads+i] += s.direct[i] * u[r*heads+i]
	}
}

// steps runs system i over rows rows from one on, step by step.
func (s *SISO) steps(i int, y, u []float32, from, rows int, zr, zi []float64, tmp []float32, backward, add bool) {
	n, d, heads := s.n, &s.parts[i], len(s.parts)
	v, x, out := tmp[:rows*n], tmp[rows*n:2*rows*n], tmp[2*rows*n:(2*n+1)*rows]
	in := &Inputs{Re: v}
	headsSpread(v, n, u[from*heads+i:], heads, rows, s.b[i*n:(i+1)*n], n, false)
	if y == nil {
		x = nil
	}
	if backward {
		d.ScanBackward(x, nil, in, rows, zr, zi, false)
	} else {
		d.ScanForward(x, nil, in, rows, zr, zi)
	}
	if y == nil {
		return
	}
	headsDot(out, 1, x, n, rows, s.c[i*n:(i+1)*n], n, false)
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

// ScaleAdd adds to rows of y those of x, of as many numbers as d has, multiplied by d.
func ScaleAdd(y, x []float32, rows int, d []float32) {
	n := len(d)
	for r := range rows {
		yr, xr := y[r*n:(r+1)*n], x[r*n:(r+1)*n]
		for i := scaleAddWide(yr, xr, d); i < n; i++ {
			yr[i] += d[i] * xr[i]
		}
	}
}

// ScaledDiagonal is d with its inputs multiplied by b and its states by c, a number for each state.
func ScaledDiagonal(d *Diagonal, b, c []float32) *Diagonal {
	s := &Diagonal{ARe: d.ARe, AIm: d.AIm, BRe: slices.Clone(d.BRe), BIm: slices.Clone(d.BIm)}
	for j := range b {
		f := float64(b[j]) * float64(c[j])
		s.BRe[j] *= f
		s.BIm[j] *= f
	}
	s.Pack()
	return s
}
