package kernel

import "math"

// SelectiveChunk is the number of steps that Chunks computes at once, a multiple of all vectors. Those of a row block share
// the length of their sums.
const (
	SelectiveChunk = 48
	chunkBlock     = 24
)

// Chunks computes a selective scan by products of matrices, a chunk of steps at a time: with the sums a of Δ times the rate
// up to a step, y[t] = Σ e^(a[t]-a[s]) (c[t]·b[s]) Δ[s] x[s] over the steps s ≤ t of the chunk, and e^(a[t]) c[t]·z of the
// states before it. Exponents are differences in float64, so that neither long chunks nor fast states lose digits, and are
// at most 0 if all rates are and all steps are at least 0. States of heads have one rate, and heads are whole blocks.
//
// Its memory serves one work item. Begin prepares a chunk for all heads of a group, then Head computes one.
type Chunks struct {
	s            *Selective
	per          int // features of a head
	n, steps     int // states of a feature, and steps of the chunk under way
	b            *Packed
	turned       []float32 // b of each state in turn
	weighted     []float32 // turned, times the decay to the end of the chunk
	inner        []float32 // c·b of the steps of a chunk, SelectiveChunk numbers apart
	left         []float32 // for each step, c times the decay since the chunk's begin, and inner times decays
	right        []*Packed // panels of the states before the chunk, and of its inputs
	sums         []float32 // the chunk's contribution to the states
	at, negative []float64 // a, and -a
	delta, decay []float32
	ones         []float32
	c            []float32
	ldc          int
}

// Chunkable reports whether heads of per features can be computed in chunks.
func (s *Selective) Chunkable(per int) bool {
	return s.one && s.N > 0 && per > 0 && s.group%per == 0 && per%s.lanes == 0
}

// PerHead returns the number of blocks of a head of per features, if heads are whole blocks.
func (s *Selective) PerHead(per int) int { return per / s.lanes }

// NewChunks returns the memory for chunks of heads of per features.
func (s *Selective) NewChunks(per int) *Chunks {
	const q = SelectiveChunk
	k := &Chunks{s: s, per: per, n: s.N, b: &Packed{}}
	k.b.data = make([]float32, layout(q, s.N).size())
	k.turned, k.weighted = make([]float32, s.N*q), make([]float32, s.N*q)
	k.inner, k.left = make([]float32, q*q), make([]float32, q*(s.N+q))
	k.sums = make([]float32, s.N*per)
	k.at, k.negative = make([]float64, q), make([]float64, q)
	k.delta, k.decay, k.ones = make([]float32, q), make([]float32, q), make([]float32, q)
	for i := range k.ones {
		k.ones[i] = 1
	}
	full := layout(per, s.N+q)
	for i := 0; i < per; i += full.panel {
		p := &Packed{M: min(full.panel, per-i), K: s.N + q, panel: full.panel, last: full.panel}
		if i == full.tail() {
			p.last = full.last
		}
		p.data = make([]float32, p.last*p.K)
		k.right = append(k.right, p)
	}
	return k
}

// ChunkBytes returns the size of the memory of Chunks for heads of per features.
func (s *Selective) ChunkBytes(per int) int64 {
	const q = SelectiveChunk
	wide := layout(per, s.N+q)
	return 4*int64(layout(q, s.N).size()+2*s.N*q+q*q+q*(s.N+q)+s.N*per+3*q+wide.size()) + 16*q
}

// chunkMost limits the numbers of a chunk, so that their products stay finite in float32.
const chunkMost = 1e9

// Fits reports whether the numbers x may be part of a chunk.
func (k *Chunks) Fits(x []float32) bool {
	lo, hi := Extremes(x)
	return lo >= -chunkMost && hi <= chunkMost || len(x) == 0
}

// Begin prepares a chunk of 0 < steps ≤ SelectiveChunk steps of a group, whose rows of b and c are ld numbers apart.
func (k *Chunks) Begin(b, c []float32, ld, steps int) {
	const q = SelectiveChunk
	k.steps, k.c, k.ldc = steps, c, ld
	whole := layout(steps, k.n)
	whole.data = k.b.data[:whole.size()]
	whole.Fill(b, ld, 1)
	Transpose(k.turned, q, b, ld, steps, k.n)
	for t := 0; t < steps; t += chunkBlock {
		rows := min(chunkBlock, steps-t)
		part := *whole // of the steps up to the last of these rows
		if m := (t + rows + part.panel - 1) / part.panel * part.panel; m < steps {
			part.M, part.last = m, part.panel
		}
		Gemm(k.inner[t*q:], q, c[t*ld:], ld, rows, &part, nil, false)
	}
}

// Head computes the chunk for a head whose first block is given. x and y begin at its first feature; their rows are stride
// numbers apart. The steps delta are ldd numbers apart. z has the states of the head's blocks, in the order of Scan.
func (k *Chunks) Head(block int, y, x []float32, stride int, delta []float32, ldd int, z []float64) {
	const q = SelectiveChunk
	s, n, steps := k.s, k.n, k.steps
	sum, rate := 0.0, float64(s.rates[block*s.lanes])
	for t := range steps {
		k.delta[t] = delta[t*ldd]
		sum += float64(delta[t*ldd]) * rate
		k.at[t], k.negative[t] = sum, -sum
	}
	rounded := min(q, (steps+15)&^15) // of whole vectors
	clear(k.delta[steps:rounded])
	for t := steps; t < rounded; t++ {
		k.at[t], k.negative[t] = sum, -sum
	}
	from, _ := s.Block(block)
	direct := s.direct[from]
	decays(k.decay[:rounded], k.ones, k.ones, k.negative, 0)
	ld := n + q
	for t := range steps {
		row := k.left[t*ld : (t+1)*ld]
		MulS(row[:n], k.c[t*k.ldc:t*k.ldc+n], k.decay[t])
		decays(row[n:n+min(q, (t+16)&^15)], k.inner[t*q:], k.delta, k.at, k.at[t])
		clear(row[n+t+1 : n+min((t/chunkBlock+1)*chunkBlock, q)])
		row[n+t] += direct
	}
	k.load(x, stride, z)
	for t := 0; t < steps; t += chunkBlock {
		rows, i := min(chunkBlock, steps-t), 0
		for _, p := range k.right {
			part := *p
			part.K = n + t + rows
			Gemm(y[t*stride+i:], stride, k.left[t*ld:], ld, rows, &part, nil, false)
			i += p.M
		}
	}
	decays(k.decay[:rounded], k.delta, k.ones, k.at, sum)
	for j := range n {
		Mul(k.weighted[j*q:j*q+steps], k.turned[j*q:j*q+steps], k.decay[:steps])
	}
	i := 0
	for _, p := range k.right {
		part := *p
		part.K, part.data = steps, p.data[n*p.last:]
		Gemm(k.sums[i:], k.per, k.weighted, q, n, &part, nil, false)
		i += p.M
	}
	e := math.Exp(sum)
	for i := 0; i < k.per; i += s.lanes {
		advanceStates(z[i*n:(i+s.lanes)*n], s.lanes, e, k.sums[i:], k.per)
	}
}

// load lays out the states before the chunk and its inputs in panels.
func (k *Chunks) load(x []float32, stride int, z []float64) {
	n, lanes, i := k.n, k.s.lanes, 0
	for _, p := range k.right {
		width := p.last
		for j := 0; j < p.M; {
			states, lane := z[(i+j)/lanes*lanes*n:], (i+j)%lanes
			count := min(lanes-lane, p.M-j)
			narrowStates(p.data[j:], width, states[lane:(n-1)*lanes+lane+count], lanes, n, count)
			j += count
		}
		for t := range k.steps {
			copy(p.data[(n+t)*width:(n+t)*width+p.M], x[t*stride+i:])
		}
		i += p.M
	}
}

// decays computes y = x m e^(at - a), for whole vectors of sixteen numbers.
func decays(y, x, m []float32, a []float64, at float64) {
	if decaysWide(y, x, m, a, at) {
		return
	}
	for i := range y {
		y[i] = x[i] * m[i] * float32(exp64(at-a[i]))
	}
}

// narrowStates rounds rows of count numbers of z, lanes numbers apart, to rows of y, ldy apart.
func narrowStates(y []float32, ldy int, z []float64, lanes, rows, count int) {
	if count == lanes && narrowStatesWide(y, ldy, z, lanes, rows) {
		return
	}
	for j := range rows {
		for i, v := range z[j*lanes : j*lanes+count] {
			y[j*ldy+i] = float32(v)
		}
	}
}

// advanceStates computes z = e z + x, for rows of lanes numbers. Rows of x have stride ldx.
func advanceStates(z []float64, lanes int, e float64, x []float32, ldx int) {
	if advanceStatesWide(z, lanes, e, x, ldx) {
		return
	}
	for j := 0; j*lanes < len(z); j++ {
		row := z[j*lanes : (j+1)*lanes]
		for i, v := range x[j*ldx : j*ldx+lanes] {
			row[i] = e*row[i] + float64(v)
		}
	}
}
