package recurrence

import (
	"math/bits"
	"sync"

	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.DPLRScan",
		Recurrence: record.RecurrenceKind{Make: dplrRecurrence, Constant: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}})
}

// dplr is a DPLRScan with fixed coefficients: a system of n states for each feature. Whole sequences are convolved with
// its kernel, which is computed in float64 by the recurrence: O(n·rank) operations for a lag.
type dplr struct {
	record.RecurrenceInfo
	heads    []kernel.DPLR
	out      [2][2][]float64 // factors of the outputs of both halves, in two parts; nil without a backward half
	n, rank  int
	lookback int // of the window, in steps

	step *lowering.Step
	once sync.Once
	cuts [][2][]float64 // Āˡ b of each feature, in two parts, for inputs that leave the window
}

func dplrRecurrence(s *lowering.Step) record.Recurrence {
	dir, window := record.ScanAttrs(s.Node)
	shape := s.ConstShape(3)
	c := &dplr{n: shape[2], rank: shape[1], lookback: window, step: s}
	all := shape[0] * c.n
	c.RecurrenceInfo = record.RecurrenceInfo{
		N: shape[0], States: c.n, Rank: max(1, c.rank), Window: window, Direction: dir, Size: max(2*all, 4*c.n) + c.rank,
		Saved: 2 * all, PerHead: 1, VRe: 0, VIm: -1, State: record.Index(!s.Absent(13), 13), XRe: record.Index(s.Node.Out(0) != nil, 0),
		XIm: -1, StateOut: record.Index(s.Node.Out(1) != nil, 1), Beside: true,
	}
	var in [8][]float64
	for i := range in {
		in[i] = record.Numbers64(s, 1+i)
	}
	c.out[0] = [2][]float64{record.Numbers64(s, 9), record.Numbers64(s, 10)}
	if !s.Absent(11) {
		c.out[1] = [2][]float64{record.Numbers64(s, 11), record.Numbers64(s, 12)}
	}
	for i := range shape[0] {
		of := func(v []float64, rows int) []float64 { return v[i*rows*c.n : (i+1)*rows*c.n] }
		d := kernel.DPLR{FRe: of(in[0], 1), FIm: of(in[1], 1), GRe: of(in[2], c.rank), GIm: of(in[3], c.rank),
			HRe: of(in[4], c.rank), HIm: of(in[5], c.rank), BRe: of(in[6], 1), BIm: of(in[7], 1)}
		c.heads = append(c.heads, d)
	}
	return record.Keep(s, []int{1, 2}, nil, func() *dplr { return c }, func(c *dplr) {
		unstable := false
		for _, d := range c.heads {
			for j, re := range d.FRe {
				unstable = unstable || essm.UnstableFactor(complex(re, d.FIm[j]))
			}
		}
		c.Judge(s, unstable)
	})
}

func (c *dplr) Info() *record.RecurrenceInfo { return &c.RecurrenceInfo }

func (c *dplr) Tiled(_ string, _ int) record.TileKernel { return dplrScan{c} }

func (c *dplr) Sequence(form string, length int, history bool) record.SequenceKernel {
	k := &responses{from: c}
	k.setupBeside(&c.RecurrenceInfo, length, history, form == essm.FormFFT)
	if c.StateOut >= 0 && c.Window == 0 {
		k.end = &dplrEnd{c: c, length: length}
	}
	return k
}

// kernels computes the kernels of both halves of feature i.
func (c *dplr) kernels(i int, taps [2][]float32, w *record.Workspace) {
	z, low := make([]float64, 2*c.n), make([]float64, c.rank)
	cr, ci := c.output(0, i)
	lr, li := c.output(1, i)
	c.response(i, len(taps[0]), z, low, func(t int, zr, zi []float64) bool {
		taps[0][t] = float32(kernel.Output(cr, ci, zr, zi))
		if lr != nil {
			taps[1][t] = float32(kernel.Output(lr, li, zr, zi))
		}
		return t%stepsUnchecked != 0 || !w.Stopped()
	})
}

func (c *dplr) free(j int, s *record.Sequence, y []float32, state []float64) bool {
	n, all := c.n, c.N*c.n
	zr, zi, low := state[:n], state[n:2*n], state[2*n:2*n+c.rank]
	copy(zr, s.Z[j*n:(j+1)*n])
	copy(zi, s.Z[all+j*n:all+(j+1)*n])
	if zero(zr) && zero(zi) {
		return false
	}
	d := &c.heads[j]
	d.Project(low, zr, zi)
	cr, ci := c.output(0, j)
	for t := range y {
		if t%stepsUnchecked == 0 && s.Stopped() {
			return true
		}
		d.Advance(zr, zi, low, 0, 0)
		y[t] = float32(kernel.Output(cr, ci, zr, zi))
	}
	return true
}

// output returns the factors of the outputs of feature i, of the forward half, or of the backward half.
func (c *dplr) output(half, i int) (re, im []float64) {
	if c.out[half][0] == nil {
		return nil, nil
	}
	return c.out[half][0][i*c.n : (i+1)*c.n], c.out[half][1][i*c.n : (i+1)*c.n]
}

// response replaces z, two parts of n numbers, by Āᵏ b for feature i, k steps after an input. each is called for each k
// below steps with the states.
func (c *dplr) response(i, steps int, z, low []float64, each func(k int, zr, zi []float64) bool) {
	d := &c.heads[i]
	zr, zi := z[:c.n], z[c.n:2*c.n]
	copy(zr, d.BRe)
	copy(zi, d.BIm)
	d.Project(low, zr, zi)
	for k := range steps {
		if k > 0 {
			d.Advance(zr, zi, low, 0, 0)
		}
		if each != nil && !each(k, zr, zi) {
			return
		}
	}
}

// cut returns Āˡ b of each feature, computed when an input first leaves the window: by the recurrence, or by squaring where
// the window is long.
func (c *dplr) cut() [][2][]float64 {
	c.once.Do(func() {
		record.Keep(c.step, []int{1, 2, 3, 4, 5, 6, 7, 8}, nil, func() *dplr {
			for range c.heads {
				z := make([]float64, 2*c.n)
				c.cuts = append(c.cuts, [2][]float64{z[:c.n:c.n], z[c.n:]})
			}
			return c
		}, (*dplr).fillCuts)
	})
	return c.cuts
}

func (c *dplr) fillCuts() {
	low, size := make([]float64, c.rank), 2*c.n
	z := make([]float64, size)
	for i := range c.heads {
		clear(z)
		if c.lookback <= size*size*bits.Len(uint(c.lookback)) {
			c.response(i, c.lookback+1, z, low, nil)
		} else {
			d, m := &c.heads[i], make([]float64, size*size)
			for j := range size {
				column := make([]float64, size)
				column[j] = 1
				d.Project(low, column[:c.n], column[c.n:])
				d.Advance(column[:c.n], column[c.n:], low, 0, 0)
				for r, x := range column {
					m[r*size+j] = x
				}
			}
			kernel.MatVec(z, power(m, size, c.lookback), append(append([]float64(nil), d.BRe...), d.BIm...))
		}
		copy(c.cuts[i][0], z[:c.n])
		copy(c.cuts[i][1], z[c.n:])
	}
}

// dplrScan computes the recurrence step by step, in float64: one feature after the other.
type dplrScan struct{ c *dplr }

func (k dplrScan) Bytes() int64 { return 0 }

func (k dplrScan) Prepare() {}

func (k dplrScan) Scratch() int { return 0 }

// head returns the system of feature i, and its states and scratch in z.
func (k dplrScan) head(i int, z []float64, in *record.TileInput) (d kernel.DPLR, zr, zi, low []float64) {
	n, all := k.c.n, len(k.c.heads)*k.c.n
	d = k.c.heads[i]
	if in.OldRe != nil {
		cut := k.c.cut()[i]
		d.CutRe, d.CutIm = cut[0], cut[1]
	}
	return d, z[i*n : (i+1)*n], z[all+i*n : all+(i+1)*n], z[2*all : 2*all+k.c.rank]
}

// column returns rows from feature i on; nil for nil.
func column(x []float32, i int) []float32 {
	if x == nil {
		return nil
	}
	return x[i:]
}

func (k dplrScan) Forward(y, _ []float32, in *record.TileInput, rows int, z []float64, _ []float32) {
	for i := range k.c.heads {
		d, zr, zi, low := k.head(i, z, in)
		cr, ci := k.c.output(0, i)
		d.Forward(column(y, i), in.Re[i:], column(in.OldRe, i), k.c.N, rows, cr, ci, zr, zi, low)
	}
}

func (k dplrScan) Backward(y, _ []float32, in *record.TileInput, rows int, z []float64, _ []float32, add bool) {
	for i := range k.c.heads {
		d, zr, zi, low := k.head(i, z, in)
		cr, ci := k.c.output(1, i)
		d.Backward(column(y, i), in.Re[i:], column(in.OldRe, i), k.c.N, rows, cr, ci, zr, zi, low, add)
	}
}
