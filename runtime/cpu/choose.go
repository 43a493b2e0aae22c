package cpu

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/recurrence"
	"github.com/essmc/essmc/runtime/lowering"
)

// memoryBudget is the working memory, in bytes, that a form may take. A form above it is chosen only if all are.
const memoryBudget = 1 << 30

// powerNanos is the time of a power of an eigenvalue, a complex exponential in float64, in nanoseconds.
const powerNanos = 60

// blockScan is the time of a step of a state of a head in blocks, with B and C, relative to Costs.Scan. Portable
// kernels have no blocks; this is ignored, so that all variants choose alike.
const blockScan = 0.42

// Transforms of several adjacent features take the fraction besideFFT of the time of single sequences, for which
// Costs has rates, and a group of besideGroup features takes one Costs.Call. Portable kernels gain less; this is
// ignored, so that all variants choose alike.
const (
	besideFFT   = 0.25
	besideGroup = 8
)

// problem is a recurrence with its shapes.
type problem struct {
	info                *record.RecurrenceInfo
	costs               Costs
	batch, length, tile int
}

// choose returns the form of a recurrence: want, if the recurrence has it, or else the one with the smallest
// estimated time.
func choose(want string, costs Costs, s *lowering.Step, info *record.RecurrenceInfo, batch, length, tile int) choice {
	p := problem{info, costs, batch, length, tile}
	all := p.forms()
	if k := s.Source.Attrs.Float("condition", 0); k > 0 { // a system that could not be made diagonal
		i := slices.IndexFunc(all, func(a runtime.Alternative) bool { return a.Form == essm.FormChunked })
		all[i].Why += fmt.Sprintf(", and its eigenvectors (condition number %.2g) give no diagonal one", k)
	}
	ch := choice{Node: s.Source.String(), Op: s.Source.Op.FullName()}
	pick(&ch, want, all, fmt.Sprintf("is estimated to be fastest at %d × %d steps of %d features", batch, length, p.info.N))
	if p.info.Unstable && len(ch.Others) > 0 {
		ch.Why = essm.OnlyScan
	}
	return ch
}

// chooseForm returns the form of a streaming kernel that has several, as choose does.
func chooseForm(want string, costs Costs, s *lowering.Step, k record.Formed) choice {
	var all []runtime.Alternative
	for _, f := range k.Forms() {
		nanos := f.Scanned*costs.Scan/2 + f.Products/costs.Gemm + f.Moved*costs.Pass + f.Calls*costs.Call
		all = append(all, runtime.Alternative{Form: f.Form, Why: f.Why, Cost: runtime.Estimate{
			Time: time.Duration(nanos), Bytes: f.Bytes,
			Work: ir.Work{Flops: int64(f.Products + 6*f.Scanned), Bytes: f.Bytes}}})
	}
	ch := choice{Node: s.Source.String(), Op: s.Source.Op.FullName()}
	batch, length := k.Grid()
	pick(&ch, want, all, fmt.Sprintf("is estimated to be fastest at %d × %d steps", batch, length))
	return ch
}

// pick sets the form: want, if it is one of all and nothing rules it out, or else the one with the smallest time.
func pick(ch *choice, want string, all []runtime.Alternative, why string) {
	slices.SortStableFunc(all, func(a, b runtime.Alternative) int { return cmp.Compare(a.Cost.Time, b.Cost.Time) })
	pick := slices.IndexFunc(all, func(a runtime.Alternative) bool {
		return a.Why == "" && a.Cost.Bytes <= memoryBudget
	})
	if pick < 0 {
		pick = slices.IndexFunc(all, func(a runtime.Alternative) bool { return a.Why == "" })
	}
	ch.Why = why
	if asked := slices.IndexFunc(all, func(a runtime.Alternative) bool { return a.Form == want }); asked >= 0 {
		if all[asked].Why == "" {
			pick, ch.Why = asked, "requested"
		} else {
			ch.Why = essm.Refused(want, all[asked].Why)
		}
	}
	ch.Form, ch.Cost = all[pick].Form, all[pick].Cost
	ch.Others = slices.Delete(all, pick, pick+1)
}

// forms returns every form with its estimate. Why is the reason against the form, if there is one.
func (p problem) forms() []runtime.Alternative {
	var all []runtime.Alternative
	kind := essm.Recurrence{Given: p.info.Stateless, LowRank: p.info.Rank > 0, Single: p.info.States > 0,
		Unstable: p.info.Unstable}
	for _, form := range []string{essm.FormScan, essm.FormChunked, essm.FormFFT, essm.FormDirect} {
		all = append(all, runtime.Alternative{Form: form, Cost: p.estimate(form), Why: kind.Against(form)})
	}
	return all
}

// estimate returns the time, work and memory of a form on one core.
func (p problem) estimate(form string) runtime.Estimate {
	i, c := p.info, p.costs
	scan := c.Scan
	switch {
	case i.Window > 0 || (i.VIm >= 0) != (i.XIm >= 0):
		scan = c.ComplexScan
	case i.VIm >= 0: // the same kernel, with twice as many inputs and outputs
		scan *= 1.5
	}
	rows, n, per := float64(p.batch*p.length), float64(i.N), float64(i.PerHead)
	sides, parts := 1.0, 1.0
	if i.Direction == essm.Bidirectional {
		sides = 2
	}
	if i.VIm >= 0 || i.XIm >= 0 {
		parts = 2
	}
	taps := float64(p.length)
	if i.Window > 0 {
		taps = min(taps, float64(i.Window))
	}
	if i.Stateless {
		taps = min(taps, float64(i.Taps))
	}
	calls := float64(p.batch) * n * per * parts // sequences, each of which direct processes separately
	var flops, nanos, bytes float64
	buffer := rows * n * parts * 4
	n *= float64(max(1, i.States))
	passes := 1.0 // of the recurrence
	if i.Direction != essm.Forward {
		passes += sides // boundary states first
	}
	scanning := rows * n * scan * passes
	work := 10 * rows * n * passes
	if per > 1 {
		work = 4 * rows * n * per * passes
		scanning = work / c.Dense
	}
	if i.States > 0 && i.Rank == 0 {
		if i.States%recurrence.SisoLeast == 0 {
			scanning *= blockScan
		}
		n = float64(i.N) // sequences of the other forms
	}
	if i.Rank > 0 {
		work = float64(8+8*i.Rank) * rows * n * passes
		scanning = rows * n * passes * c.ComplexScan * float64(1+i.Rank) / 2
		n = float64(i.N) // sequences of the other forms
	}
	if i.Window > 0 {
		scanning, work, bytes = scanning*1.5, work*1.5, buffer
	}
	powers := 4 * float64(p.batch) * taps * n * per * per / c.Dense // of matrices, for the kernel of a head
	switch form {
	case essm.FormScan:
		flops, nanos = work, scanning
	case essm.FormChunked:
		inside := rows * n * float64(p.tile) * sides * parts * parts
		bytes += 6 * n * float64(p.tile) * 4
		if per > 1 {
			inside = rows * n * per * recurrence.ChunkRows * sides
			bytes += n * per * (recurrence.ChunkRows + 1) * 8
			nanos = inside / c.Dense
		} else {
			nanos = inside/c.Direct + rows*n*sides*parts*parts*c.Output + scanning
		}
		flops = inside + work
	case essm.FormFFT:
		size := math.Exp2(math.Ceil(math.Log2(max(2, float64(p.length)+taps))))
		transforms := 2 * parts * float64(p.batch) * n
		bytes = buffer + n*parts*size*4
		if per > 1 {
			transforms += n * per * float64(p.batch) // spectra of the kernel are not kept
			bytes = 2*buffer + (per+2)*size*4
		}
		flops = transforms * 2.5 * size * math.Log2(size)
		nanos = rows*n*parts*per*c.Pass + calls*c.Call
		if i.Beside {
			groups := math.Ceil(n / besideGroup)
			transforms *= groups * besideGroup / n * besideFFT
			nanos = rows*n*c.Pass + float64(p.batch)*groups*c.Call
		}
		nanos += transforms * size * math.Log2(size) * c.FFT
		if per > 1 { // nor are the kernels
			nanos += powers
		}
	case essm.FormDirect:
		flops = 2 * rows * n * per * taps * parts * parts * sides / 2
		if taps < float64(p.length) {
			flops *= 2
		}
		nanos = flops/c.Direct + rows*n*per*parts*sides*c.Output + rows*n*parts*c.Pass + calls*c.Call
		if per > 1 {
			nanos += powers
		}
		bytes = buffer
	}
	// the contributions of the state, for each sample
	switch whole := form == essm.FormFFT || form == essm.FormDirect; {
	case whole && i.Rank > 0: // the state at the end; that at the begin is zero, most of the time
		if i.StateOut >= 0 {
			last := 4 * rows * n * float64(i.States)
			flops, nanos = flops+last, nanos+last/c.Direct
		}
	case whole && per == 1 && !i.Stateless:
		if i.StateOut >= 0 { // a scan computes it
			flops, nanos = flops+work, nanos+scanning
		}
		// the state of a head at the start is usually zero; or the state at the end is wanted
		if i.State >= 0 && i.States == 0 {
			nanos += float64(p.batch) * n * (2*powerNanos + float64(p.length)*c.ComplexScan)
		}
	}
	return runtime.Estimate{Time: time.Duration(nanos),
		Work: ir.Work{Flops: int64(flops), Bytes: int64(2*buffer + bytes)}, Bytes: int64(bytes)}
}
