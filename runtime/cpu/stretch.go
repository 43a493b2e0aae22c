package cpu

import (
	"slices"

	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// stretchRows is the approximate number of rows, over all samples, that a stretch computes at once. It is large enough
// that weights are read from the third-level cache once for much work and that threads share many tiles. It is small
// enough that the values between units stay in that cache.
const stretchRows = 4096

// soleRows takes the place of stretchRows on one thread, if the weights of the stretch are few: values between units then
// stay in the second-level cache, and so do most weights. With more weights, reading them would cost more than that gains.
const (
	soleRows    = 960
	soleWeights = 1 << 20 // numbers
)

// stretch is a sequence of units that only look back and run in time chunks: all of them compute one chunk before
// the next. Values that only they read have buffers of one chunk. The tiles are those of the whole sequence, so
// answers do not depend on the length of chunks.
type stretch struct {
	from, to int // units from…to-1
	length   int // of the sequence, in steps
	chunk    int // length of the longest chunk, in steps: a whole number of tiles
}

// extent is the range of steps of each sample in a buffer: rows steps, starting at step base. The first halo of them
// are before the current chunk. The zero value means all steps.
type extent struct {
	rows, halo, base int
	width            int // numbers per step
	stretch          int // the first unit of the stretch
}

// row returns the row of a step in the buffer of a value that has length steps per sample.
func (e *executable) row(val, sample, step, length int) int {
	if h := &e.extents[val]; h.rows > 0 {
		return sample*h.rows + step - h.base
	}
	return sample*length + step
}

// looksBack reports whether s reads no later steps of time, and can continue from one chunk to the next.
func looksBack(s *lowering.Step) bool {
	return !s.Alone.Global && s.Alone.Ahead == 0 &&
		(s.Alone.Back == 0 || record.Of(s).Recurrence != nil && s.Alone.Summary || record.Of(s).Streaming != nil ||
			record.Of(s).WindowedOp != nil || s.Rows.Does(lowering.RowsSum))
}

// stage returns the unit as a record.Stage, which can run in time chunks; nil for other units.
func (u *unit) stage() record.Stage {
	switch {
	case u.region != nil:
		return u.region
	case u.streaming != nil:
		return u.streaming
	}
	return nil
}

// sequences reports whether the unit computes sequences from sequences, constants and states, all sequences of batch
// samples of length steps.
func (d *binding) sequences(u *unit) (batch, length int, ok bool) {
	g := u.stage()
	if g == nil {
		return 0, 0, false
	}
	batch, length = g.Grid()
	fits := func(v *lowering.Value) bool {
		if v == nil || d.Fixed(v) != nil || d.p.Fact(v).Constant() {
			return true
		}
		b, l, _, ok := d.Along(v)
		return ok && b == batch && l == length
	}
	for _, s := range u.steps {
		if !looksBack(s) {
			return 0, 0, false
		}
		for _, v := range s.In {
			if !s.Rows.Does(lowering.ToRows) && !fits(v) {
				return 0, 0, false
			}
		}
		for i, v := range s.Out {
			// a state or a sum, complete at the end
			summed := i > 0 || v != nil && d.p.Fact(v).Axis < 0 && u.streaming != nil
			if !summed && !s.Rows.Does(lowering.FromRows) && !fits(v) {
				return 0, 0, false
			}
		}
	}
	if r := u.region; r != nil && r.recurrence != nil && r.recurrence.kernel == nil {
		return 0, 0, false
	}
	return batch, length, true
}

// stretches returns the stretches of the program, in order.
func (d *binding) stretches(units []*unit) []stretch {
	if !d.p.Timed() {
		return nil
	}
	var all []stretch
	for i := 0; i < len(units); {
		st, next := d.stretchFrom(units, i)
		if next-i > 1 && st.chunk < st.length {
			all = append(all, st)
		}
		i = max(next, i+1)
	}
	return all
}

// inStretch reports whether unit i is part of a stretch.
func inStretch(stretches []stretch, i int) bool {
	return slices.ContainsFunc(stretches, func(st stretch) bool { return i >= st.from && i < st.to })
}

// stretchFrom returns the longest stretch that starts with unit i; next is the first unit after it.
func (d *binding) stretchFrom(units []*unit, i int) (st stretch, next int) {
	batch, length, ok := d.sequences(units[i])
	if !ok {
		return st, i
	}
	late := map[*lowering.Value]bool{} // complete only at the end of the stretch
	for next = i; next < len(units); next++ {
		u := units[next]
		b, l, ok := d.sequences(u)
		if !ok || b != batch || l != length || u.reads(late) {
			break
		}
		for _, s := range u.steps {
			for _, v := range s.Out {
				if _, _, _, ok := d.Along(v); v != nil && !ok {
					late[v] = true
				}
			}
		}
	}
	rows := d.p.stretchRows
	switch {
	case rows > 0:
	case d.p.Config.Threads <= 1 && weights(units[i:next]) <= soleWeights:
		rows = soleRows
	default:
		rows = stretchRows
	}
	return stretch{from: i, to: next, length: length, chunk: chunkSteps(rows, batch, length)}, next
}

// weights returns the numbers in the constants of units.
func weights(units []*unit) (n int) {
	for _, u := range units {
		for _, s := range u.steps {
			for _, v := range s.In {
				if v != nil && v.Fixed() != nil {
					n += v.Fixed().Len()
				}
			}
		}
	}
	return n
}

// reads reports whether the unit reads one of the values.
func (u *unit) reads(vals map[*lowering.Value]bool) bool {
	for _, s := range u.steps {
		for _, v := range s.In {
			if v != nil && vals[v] {
				return true
			}
		}
	}
	return false
}

// chunkSteps returns the number of steps of a chunk, so that all samples together have about rows of them. It is a
// whole number of the largest tiles, which the other tile sizes divide. The end of a sequence, if it is longer than one
// chunk and shorter than two, is divided into two chunks of one size. The longest chunk, and with it the memory of a
// stretch, is the same for all sequences of at least two chunks.
func chunkSteps(rows, batch, length int) int {
	most := max(1, rows/(max(batch, 1)*record.LargestTile)) * record.LargestTile
	if rest := length; rest > most && rest < 2*most {
		tiles := (rest + record.LargestTile - 1) / record.LargestTile
		return (tiles + 1) / 2 * record.LargestTile
	}
	return most
}

// next returns the first step after the chunk that starts at a step.
func (st stretch) next(from int) int {
	rest := st.length - from
	if rest <= st.chunk {
		return st.length
	}
	return from + chunkSteps(st.chunk, 1, rest)
}

// run computes all chunks.
func (st stretch) run(e *executable) error {
	for i := st.from; i < st.to; i++ {
		if err := e.timed(i, startUnit, 0, 0); err != nil {
			return err
		}
	}
	for from, to := 0, 0; from < st.length; from = to {
		to = st.next(from)
		e.advance(st, from)
		for i := st.from; i < st.to; i++ {
			if err := e.ctx.Err(); err != nil {
				return err
			}
			if err := e.timed(i, stepUnit, from, to); err != nil {
				return err
			}
		}
	}
	for i := st.from; i < st.to; i++ {
		if err := e.timed(i, finishUnit, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

func startUnit(_ *executable, u *unit, _, _ int) error    { return u.stage().Start() }
func stepUnit(_ *executable, u *unit, from, to int) error { return u.stage().Steps(from, to) }

func finishUnit(_ *executable, u *unit, _, _ int) error {
	u.stage().Finish()
	return nil
}

// advance moves the buffers of a stretch on to the chunk that starts at step from. It keeps the rows before it that the
// chunk reads.
func (e *executable) advance(st stretch, from int) {
	for val := range e.extents {
		h := &e.extents[val]
		if h.rows == 0 || h.stretch != st.from {
			continue
		}
		kept := from - h.halo - h.base // the row of the first step that is kept
		h.base = from - h.halo
		if from == 0 || h.halo == 0 {
			continue
		}
		buf := lowering.SlotOf[float32](e.d.Binding, e.p.Values[val]).In(&e.frame)
		batch := len(buf) / (h.rows * h.width)
		for b := range batch {
			sample := buf[b*h.rows*h.width : (b+1)*h.rows*h.width]
			copy(sample[:h.halo*h.width], sample[kept*h.width:])
		}
	}
}

// extents returns the extent of each value's buffer. The values that a stretch computes and only it reads have buffers
// of one chunk.
func (d *binding) extents(units []*unit, stretches []stretch) []extent {
	all := make([]extent, len(d.p.Values))
	for _, st := range stretches {
		inside := map[*lowering.Step]bool{}
		for _, u := range units[st.from:st.to] {
			for _, s := range u.steps {
				inside[s] = true
			}
		}
		for _, u := range units[st.from:st.to] {
			for _, s := range u.steps {
				for _, v := range s.Out {
					if v == nil || !d.IsFloat32(v) || d.Leaves(v) || d.Given(v) {
						continue
					}
					_, _, width, ok := d.Along(v)
					ok = ok && !s.Rows.Does(lowering.FromRows) // only rows can be in chunks
					for _, r := range d.Readers(v) {
						ok = ok && inside[r] && !r.Rows.Does(lowering.ToRows)
					}
					if ok && width > 0 {
						all[v.ID] = extent{rows: st.chunk, width: width, stretch: st.from}
					}
				}
			}
		}
		for _, u := range units[st.from:st.to] {
			if g := u.region; g != nil && g.recurrence != nil && g.recurrence.Window > 0 {
				for _, p := range []place{g.recurrence.v, g.recurrence.vi} {
					if p.val >= 0 && all[p.val].rows > 0 {
						h := &all[p.val]
						h.halo = max(h.halo, g.recurrence.Window)
						h.rows = st.chunk + h.halo
					}
				}
			}
		}
	}
	return all
}
