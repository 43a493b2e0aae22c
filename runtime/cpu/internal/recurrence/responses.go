package recurrence

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// responder is a recurrence of one input and one output for each feature, whose kernels are computed for one length.
type responder interface {
	Info() *record.RecurrenceInfo
	// kernels computes the kernels of both halves of feature i: by the lag of inputs, and by how far they are ahead, from
	// one step on. The second is nil in systems that go forward; in those that go backward, the first is a single number,
	// the factor of the input of the step itself. It ends early when the run is stopped.
	kernels(i int, taps [2][]float32, w *record.Workspace)
	// free sets y to the response of feature i to the states before the first step. It returns false, and leaves y as it
	// is, if these are zero. state is scratch of RecurrenceInfo.Size numbers.
	free(i int, s *record.Sequence, y []float32, state []float64) bool
}

// ending computes the state of a feature after the last step of a sequence.
type ending interface {
	bytes() int64
	prepare()
	fill(w *record.Workspace)
	scratch() int // size of tmp in run
	// run sets the state of feature i in s.Next, from that in s.Z and the inputs. state is scratch of RecurrenceInfo.Size
	// numbers.
	run(i int, s *record.Sequence, inputs []float32, state []float64, tmp []float32)
}

// responses convolves whole sequences with the kernels of both halves of a responder, a few features at a time.
type responses struct {
	convolver
	from  responder
	table [2][]float32 // kernels, by feature
	spec  []float32    // by group of features, of both halves together
	end   ending       // nil if the state after the last step is not wanted, or a scan computes it
}

func (k *responses) Finishes() bool { return k.end != nil }

func (k *responses) Pieces() int { return (k.info.N + k.group() - 1) / k.group() }

// group returns the number of features of a piece.
func (k *responses) group() int {
	if k.beside != nil {
		return k.beside.Group()
	}
	return featuresPerPiece
}

func (k *responses) halves() int {
	if k.info.Direction == essm.Forward {
		return 1
	}
	return 2
}

// size returns the number of taps of a half.
func (k *responses) size(half int) int {
	if half == 0 && k.info.Direction == essm.Backward {
		return 1
	}
	return k.taps
}

func (k *responses) Bytes() int64 {
	bytes := int64(0)
	if k.end != nil {
		bytes = k.end.bytes()
	}
	if k.beside == nil {
		for half := range k.halves() {
			bytes += int64(k.info.N*k.size(half)) * 4
		}
		return bytes
	}
	return bytes + k.beside.Bytes() + int64(k.beside.Len()*k.Pieces())*4
}

func (k *responses) Prepare() {
	if k.end != nil {
		k.end.prepare()
	}
	if k.beside != nil {
		k.spec = make([]float32, k.beside.Len()*k.Pieces())
		return
	}
	for half := range k.halves() {
		k.table[half] = make([]float32, k.info.N*k.size(half))
	}
}

// part returns the kernel of a half of feature i.
func (k *responses) part(half, i int) []float32 {
	n := k.size(half)
	return k.table[half][i*n : (i+1)*n]
}

func (k *responses) Fill(w *record.Workspace) {
	if k.end != nil {
		k.end.fill(w)
	}
	if k.beside != nil {
		k.fillSpectra(w)
		return
	}
	var taps [2][]float32
	for i := 0; i < k.info.N && !w.Stopped(); i++ {
		for half := range k.halves() {
			taps[half] = k.part(half, i)
		}
		k.from.kernels(i, taps, w)
	}
}

// fillSpectra computes the tables of the form fft.
func (k *responses) fillSpectra(w *record.Workspace) {
	if k.made = k.made || k.beside.Prepare(w.Halted); !k.made {
		return
	}
	var taps [2][]float32
	points, rest := w.Scratch[:k.beside.Scratch()], w.Scratch[k.beside.Scratch():]
	for half := range k.halves() {
		taps[half] = rest[half*k.taps:][:k.size(half)]
	}
	for piece := range k.Pieces() {
		clear(points)
		from := piece * k.group()
		for i := from; i < min(from+k.group(), k.info.N) && !w.Stopped(); i++ {
			k.from.kernels(i, taps, w)
			k.beside.Place(points, i-from, taps[0], taps[1])
		}
		if w.Stopped() {
			return
		}
		n := k.beside.Len()
		k.beside.Transform(k.spec[piece*n:(piece+1)*n], points, w.Halted)
	}
}

func (k *responses) Scratch() int {
	rest := 0
	if k.end != nil {
		rest = k.end.scratch()
	}
	if k.beside == nil {
		return featuresPerPiece*(k.past+2*k.length) + max(rest, k.taps)
	}
	more := k.group() * k.freed()
	if k.end != nil {
		more += k.length + rest
	}
	return k.beside.Scratch() + max(2*k.taps, more)
}

// freed returns the size of the response of a feature to the states before the first step.
func (k *responses) freed() int {
	if k.info.State >= 0 && k.info.Window == 0 {
		return k.length
	}
	return 0
}

func (k *responses) Run(piece int, s *record.Sequence, tmp []float32, state []float64) {
	if k.beside != nil {
		k.runBeside(piece, s, tmp, state)
		return
	}
	all, from, cols := k.info.N, piece*featuresPerPiece, k.past+k.length
	count := min(featuresPerPiece, all-from)
	take := func(n int) (p []float32) {
		p, tmp = tmp[:n], tmp[n:]
		return p
	}
	in, out := take(count*cols), take(count*k.length)
	if k.past > 0 {
		for i := range count {
			if s.Stopped() {
				return
			}
			col := in[i*cols : (i+1)*cols]
			clear(col)
			if s.Past == nil {
				col = col[k.past:]
			}
			s.Column(col, all, from+i, false)
		}
	} else {
		kernel.Transpose(in, k.length, s.V[from:], all, k.length, count)
	}
	for i := 0; i < count && !s.Stopped(); i++ {
		col, y, j := in[i*cols:(i+1)*cols], out[i*k.length:(i+1)*k.length], from+i
		clear(y)
		if s.Z != nil && k.info.Window == 0 {
			k.from.free(j, s, y, state)
		}
		if k.end != nil && s.Next != nil {
			k.end.run(j, s, col, state, tmp)
		}
		taps := k.part(0, j)
		rev := tmp[:len(taps)]
		for t, x := range taps {
			rev[len(taps)-1-t] = x
		}
		correlate(s, y, col, rev, k.past-(len(taps)-1))
		if k.halves() == 2 {
			correlate(s, y, col, k.part(1, j), 1)
		}
	}
	kernel.Transpose(s.X[from:], all, out, k.length, count, k.length)
}

// runBeside computes a piece by FFT.
func (k *responses) runBeside(piece int, s *record.Sequence, tmp []float32, state []float64) {
	all, from, n := k.info.N, piece*k.group(), k.beside.Scratch()
	count := min(k.group(), all-from)
	points, tmp := tmp[:n], tmp[n:]
	f := kernel.Features{X: s.X[from:], V: s.V[from:], Stride: all, Count: count, Steps: k.length}
	if s.Past != nil {
		f.Past, f.PastStride, f.Old = s.Past[from:], all, len(s.Past)/all
	}
	var freed [16]bool // of a group
	length := k.freed()
	for i := 0; i < count && !s.Stopped(); i++ {
		if s.Z != nil && length > 0 {
			freed[i] = k.from.free(from+i, s, tmp[i*length:(i+1)*length], state)
		}
		if k.end != nil && s.Next != nil {
			col, rest := tmp[count*length:][:k.length], tmp[count*length+k.length:]
			s.Column(col, all, from+i, false)
			k.end.run(from+i, s, col, state, rest)
		}
	}
	size := k.beside.Len()
	k.beside.Run(&f, k.spec[piece*size:(piece+1)*size], points, s.W.Halted)
	for i, more := range freed[:count] {
		if !more || s.Stopped() {
			continue
		}
		for t, y := range tmp[i*length : (i+1)*length] {
			s.X[t*all+from+i] += y
		}
	}
}
