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
	// free sets y to the response of feature i to the states before the first step.
	free(i int, s *record.Sequence, y []float32, state []float64)
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
	spec  []float32    // by feature, of both halves together
	end   ending       // nil if the state after the last step is not wanted, or a scan computes it
}

func (k *responses) Finishes() bool { return k.end != nil }

func (k *responses) Pieces() int { return (k.info.N + featuresPerPiece - 1) / featuresPerPiece }

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
	if k.fft == nil {
		for half := range k.halves() {
			bytes += int64(k.info.N*k.size(half)) * 4
		}
		return bytes
	}
	return bytes + k.tables() + int64(k.fft.Len()*k.info.N)*4
}

func (k *responses) Prepare() {
	if k.end != nil {
		k.end.prepare()
	}
	if k.fft != nil {
		k.spec = make([]float32, k.fft.Len()*k.info.N)
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
	if k.fft != nil && !k.fillTables(w) {
		return
	}
	if k.end != nil {
		k.end.fill(w)
	}
	var taps [2][]float32
	var sum, tmp []float32
	if k.fft != nil {
		size, rest := k.fft.Len(), w.Scratch
		tmp, sum, rest = rest[:size], rest[size:2*size], rest[2*size:]
		for half := range k.halves() {
			taps[half] = rest[half*k.taps:][:k.size(half)]
		}
	}
	for i := 0; i < k.info.N && !w.Stopped(); i++ {
		if k.fft == nil {
			for half := range k.halves() {
				taps[half] = k.part(half, i)
			}
		}
		k.from.kernels(i, taps, w)
		if k.fft == nil {
			continue
		}
		spec := k.spec[i*k.fft.Len() : (i+1)*k.fft.Len()]
		k.fft.ForwardRing(spec, taps[0], true, false, tmp, w.Halted)
		if taps[1] != nil {
			k.fft.ForwardRing(sum, taps[1], false, true, tmp, w.Halted)
			for j, x := range sum {
				spec[j] += x
			}
		}
	}
}

func (k *responses) Scratch() int {
	n := featuresPerPiece * (k.past + 2*k.length)
	rest := 0
	if k.end != nil {
		rest = k.end.scratch()
	}
	if k.fft != nil {
		return max(n, 2*k.taps) + max(rest, 2*k.fft.Len())
	}
	return n + max(rest, k.taps)
}

func (k *responses) Run(piece int, s *record.Sequence, tmp []float32, state []float64) {
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
		if k.fft != nil {
			size := k.fft.Len()
			spec, work := tmp[:size], tmp[size:2*size]
			k.fft.Forward(spec, col, work, s.W.Halted)
			k.fft.Mul(spec, spec, k.spec[j*size:(j+1)*size])
			k.inverse(y, spec, work, s.W)
			continue
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
