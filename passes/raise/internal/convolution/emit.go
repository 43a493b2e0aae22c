package convolution

import (
	"fmt"
	"math"
	"math/cmplx"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// half is one direction of a response in the form in which it will run: exponentials or taps.
type half struct {
	taps   [][]float64
	exps   []exponentials // per channel; if nil, use taps
	fitted bool           // whether poles follow from the taps instead of the computation of a kernel
	window int            // number of lags after which the kernel ends; 0 if it does not end
	why    string         // why there are no exponentials
}

// model is a response in the form in which it will run.
type model struct {
	fwd, bwd *half     // nil for no response in that direction
	both     bool      // bwd is fwd's kernel from lag 1
	direct   []float64 // per channel, an additional response at lag 0; nil for none
}

// silent reports whether a is negligible relative to b: below float32's rounding.
func silent(a, b [][]float64) bool {
	for c := range a {
		na, pa := norms(a[c])
		nb, pb := norms(b[c])
		if na > fitTol*nb || pa > fitTol*pb {
			return false
		}
	}
	return true
}

// model finds a form for the response. poles, if not nil, lists candidate poles of a channel, known from the
// computation of its kernel.
func (res *response) model(run *passes.Context, poles *poles) (*model, *miss) {
	m := &model{}
	tail := make([][]float64, res.n) // lags from 1 on
	lag0 := make([][]float64, res.n)
	for c := range res.n {
		lag0[c], tail[c] = res.fwd[c][:1], res.fwd[c][1:]
	}
	all := make([][]float64, res.n)
	for c := range all {
		all[c] = slices.Concat(res.fwd[c], res.bwd[c])
	}
	hasBwd := !silent(res.bwd, all)
	hasFwd := !silent(tail, all)
	if !hasFwd && !hasBwd {
		return nil, missf(1, "each step depends on itself only")
	}
	if hasBwd && hasFwd && sameKernel(res.fwd, res.bwd) {
		h, miss := res.half(run, res.fwd, poles)
		if miss != nil {
			return nil, miss
		}
		return &model{fwd: h, both: true}, nil
	}
	if hasFwd {
		why := ""
		first := standsOut(lag0, tail)
		if first {
			m.fwd, m.direct, why = res.apart(run, lag0, tail, poles)
		}
		if m.fwd == nil {
			h, miss := res.half(run, res.fwd, poles)
			if miss != nil {
				return nil, miss
			}
			m.fwd = h
			if h.exps == nil && why != "" {
				h.why = why
			}
			if !first && (h.exps == nil || h.fast()) {
				d, direct, _ := res.apart(run, lag0, tail, poles)
				if d != nil && (h.exps == nil || d.states() < h.states()) {
					m.fwd, m.direct = d, direct
				}
			}
		}
	} else if !silent(lag0, all) {
		m.direct = make([]float64, res.n)
		for c := range res.n {
			m.direct[c] = lag0[c][0]
		}
	}
	if hasBwd {
		h, miss := res.half(run, res.bwd, poles)
		if miss != nil {
			return nil, miss
		}
		m.bwd = h
		// a LongConv has no direct term, but a kernel of one tap computes one
		if m.direct != nil && m.fwd == nil && h.exps == nil {
			m.fwd = &half{taps: lag0}
			m.direct = nil
		}
	}
	return m, nil
}

// standsOut reports whether some channel has a response at lag 0 far larger than at later lags, as when D u is added
// to a kernel.
func standsOut(lag0, tail [][]float64) bool {
	for c := range lag0 {
		if _, peak := norms(tail[c]); math.Abs(lag0[c][0]) > 8*peak {
			return true
		}
	}
	return false
}

// apart fits exponentials to the response from lag 1 on, and returns the remainder at lag 0, or why the fit failed.
func (res *response) apart(run *passes.Context, lag0, tail [][]float64, poles *poles) (*half, []float64, string) {
	h, miss := res.half(run, tail, poles)
	switch {
	case miss != nil:
		return nil, nil, ""
	case h.exps == nil:
		return nil, nil, "from lag 1 on, " + h.why
	case !h.shift(run):
		return nil, nil, ""
	}
	if h.window > 0 {
		h.window++
	}
	direct := make([]float64, res.n)
	for c := range direct {
		direct[c] = lag0[c][0] - h.exps[c].at(0, 1)[0]
	}
	return h, direct, ""
}

// states returns the largest number of states of a channel.
func (h *half) states() int {
	n := 1
	for _, e := range h.exps {
		n = max(n, len(e.pole))
	}
	return n
}

// fast reports whether some pole has an effect almost only at lag 0, so that it may be meant as a direct term.
func (h *half) fast() bool {
	return slices.ContainsFunc(h.exps, func(e exponentials) bool {
		return slices.ContainsFunc(e.pole, func(p complex128) bool { return cmplx.Abs(p) < 0.05 })
	})
}

// sameKernel reports whether the backward kernel from lag 1 is the forward one from lag 0, as in a bidirectional
// system.
func sameKernel(fwd, bwd [][]float64) bool {
	for c := range fwd {
		_, peak := norms(fwd[c])
		n := min(len(fwd[c]), len(bwd[c]))
		if n == 0 || maxDiff(fwd[c][:n], bwd[c][:n]) > regions.ResponseTol*peak {
			return false
		}
	}
	return true
}

// leastShift is the minimum absolute value of a pole with which a kernel is moved by a lag.
const leastShift = 1e-2

// shift moves kernels from lag 1 to lag 0. Poles too near 0 for that are moved away if the kernels still fit. It
// returns false if they do not.
func (h *half) shift(run *passes.Context) bool {
	for c, e := range h.exps {
		near := func(p complex128) bool { return cmplx.Abs(p) < leastShift }
		if slices.ContainsFunc(e.pole, near) {
			poles := slices.Clone(e.pole)
			for i, p := range poles {
				if near(p) && imag(p) == 0 {
					poles[i] = complex(math.Copysign(leastShift, real(p)), 0)
				} else if near(p) {
					poles[i] = p * complex(leastShift/cmplx.Abs(p), 0)
				}
			}
			norm, peak := norms(h.taps[c])
			work := tally{ctx: run.Done(), left: fitWork}
			moved, ok := amplitudes(h.taps[c], poles)
			if ok {
				moved, ok = level(h.taps[c], moved, norm, peak, &work)
			}
			if run.Search().Spend(work.spent) != nil || !ok {
				return false
			}
			e, h.exps[c] = moved, moved
		}
		for i, p := range e.pole {
			e.amp[i] /= p
		}
	}
	return true
}

// half fits exponentials to the kernels of one direction, each channel separately.
func (res *response) half(run *passes.Context, taps [][]float64, poles *poles) (*half, *miss) {
	h := &half{}
	// Drop trailing taps that are 0 in all channels.
	last := 0
	for _, k := range taps {
		_, peak := norms(k)
		for j := len(k) - 1; j >= last; j-- {
			if math.Abs(k[j]) > 1e-14*peak {
				last = j + 1
			}
		}
	}
	finite := last < len(taps[0])
	if res.anySize && last > res.length/2 {
		finite = false
	}
	end := len(taps[0])
	if finite {
		end = last
		h.window = last
	}
	h.taps = make([][]float64, len(taps))
	for c := range taps {
		h.taps[c] = taps[c][:end]
	}
	if end < regions.MinTaps {
		h.why = fmt.Sprintf("its %d taps are too few to fit a system, expected at least %d", end, regions.MinTaps)
		return h, nil
	}
	exps, fitted, why := fitAll(run, h.taps, poles, res.anySize && !finite)
	if why != "" {
		h.why = why
		if res.anySize && !finite {
			return nil, missf(4, "the kernel has as many taps as there are steps, and %s", h.why)
		}
		return h, nil
	}
	h.exps, h.fitted = exps, fitted
	if finite && !h.cuts(len(taps[0]), res.anySize) {
		h.window = 0
	}
	return h, nil
}

// cuts reports whether the exponentials continue beyond the last tap, so that the system needs a window.
func (h *half) cuts(length int, anySize bool) bool {
	for c, e := range h.exps {
		norm, peak := norms(h.taps[c])
		rest := 0.0
		for i, p := range e.pole {
			r := cmplx.Abs(p)
			head := cmplx.Abs(e.amp[i] * power(p, h.window))
			n := float64(length - h.window)
			if anySize {
				n = math.Inf(1)
			}
			sum := n // Σ r^j, j < n
			if r < 1 {
				sum = min(n, 1/(1-r))
			}
			rest += head * sum
			if head > fitTol*peak {
				return true
			}
		}
		if rest > fitTol*norm {
			return true
		}
	}
	return false
}

// fitting is the fit of all channels of a kernel.
type fitting struct {
	run     *passes.Context
	taps    [][]float64
	poles   *poles // nil if not known
	endless bool
	left    int64 // operations that the run has left

	out    []exponentials
	ok     []bool
	known  []bool // with poles that are valid beyond the taps
	work   []tally
	read   []uint       // bit set of the tables that a channel has read
	spent  atomic.Int64 // operations of all channels so far
	failed atomic.Int64 // the first channel that cannot be fitted; later ones need not be tried
}

// fitAll fits every channel. If one cannot be fitted, it returns the reason for the first such channel. If endless
// is set, the exponentials must be valid beyond the taps: either their poles are known, or the kernel has decayed.
//
// fitted reports whether the poles of some channel were not known.
//
// The result depends only on the channels in their order, and not on which others were tried at the same time.
func fitAll(run *passes.Context, taps [][]float64, poles *poles, endless bool) (exps []exponentials, fitted bool,
	why string) {
	n := len(taps)
	f := &fitting{run: run, taps: taps, poles: poles, endless: endless, out: make([]exponentials, n),
		ok: make([]bool, n), known: make([]bool, n), work: make([]tally, n), read: make([]uint, n)}
	_, f.left = run.Search().Left()
	f.failed.Store(int64(n))
	if c := f.lost(); c >= 0 {
		return nil, false, fmt.Sprintf("the kernel of channel %d is not a sum of decaying exponentials: it has more "+
			"than %d independent states", c, mostStates)
	}
	var next atomic.Int64
	// A step of a fit, such as a decomposition of a matrix, takes up to a second.
	err := passes.Apart(run.Done(), func() {
		workers := min(n, runtime.GOMAXPROCS(0))
		failed := make(chan any, workers)
		for range workers {
			go func() {
				defer func() { failed <- recover() }()
				for c := int(next.Add(1) - 1); c < n && int64(c) < f.failed.Load() && f.spent.Load() <= f.left; {
					f.channel(c)
					c = int(next.Add(1) - 1)
				}
			}()
		}
		for range workers {
			if v := <-failed; v != nil {
				panic(v)
			}
		}
	})
	if err != nil {
		return nil, false, "its kernels are not fitted: " + err.Error()
	}
	if exps, why = f.result(); why != "" {
		return nil, false, why
	}
	return exps, slices.Contains(f.known, false), ""
}

// lost returns the first of a few channels that obviously cannot be fitted, or -1 if only a fit can show it.
func (f *fitting) lost() int {
	if f.poles != nil {
		return -1
	}
	n, lost := len(f.taps), -1
	work := tally{ctx: f.run.Done(), left: min(f.left, fitWork)}
	_ = passes.Apart(work.ctx, func() { // if the run has ended, fitAll reports it
		for _, c := range slices.Compact([]int{0, n / 2, n - 1}) {
			if leastStates(f.taps[c], &work) > mostStates {
				lost = c
				return
			}
		}
	})
	if work.ctx.Err() != nil || f.run.Search().Spend(work.spent) != nil {
		return -1
	}
	f.left -= work.spent
	return lost
}

// channel fits one channel.
func (f *fitting) channel(c int) {
	work := &f.work[c]
	*work = tally{ctx: f.run.Done(), left: min(f.left, fitWork)}
	f.out[c], f.ok[c] = f.fit(c, work)
	f.spent.Add(work.spent)
	for old := f.failed.Load(); !f.ok[c] && int64(c) < old && !f.failed.CompareAndSwap(old, int64(c)); {
		old = f.failed.Load()
	}
}

func (f *fitting) fit(c int, work *tally) (exponentials, bool) {
	k := f.taps[c]
	norm, peak := norms(k)
	if f.poles != nil {
		for p := range f.poles.of(c, work, &f.read[c]) {
			if !work.take(workOfFit(len(k), 2*len(p))) {
				return exponentials{}, false
			}
			e, ok := amplitudes(k, p)
			if ok && e.off(k) <= fitTol {
				f.known[c] = true
				return e, true
			}
			if ok && !f.poles.sure && residual(k, e) <= 1e2*fitTol*norm {
				if e, ok = refine(k, e, 4, work); ok {
					if e, ok = finish(k, e, norm, peak, work); ok {
						return e, true
					}
				}
			}
		}
	}
	if f.endless && lastEighth(k) > fitTol*peak {
		return exponentials{}, false
	}
	return fitExponentials(k, work)
}

// result iterates over the channels up to the first that cannot be fitted, and spends their operations.
func (f *fitting) result() ([]exponentials, string) {
	var total int64
	var read uint
	c := 0
	for ; c < len(f.taps); c++ {
		if f.work[c].ctx == nil { // others have ended the fit before its turn
			if err := passes.Apart(f.run.Done(), func() { f.channel(c) }); err != nil {
				return nil, "its kernels are not fitted: " + err.Error()
			}
		}
		total += f.work[c].spent
		if f.poles != nil {
			for t, table := range f.poles.tables {
				if f.read[c]&^read>>t&1 != 0 {
					total += table().work
				}
			}
		}
		read |= f.read[c]
		if total > f.left || !f.ok[c] {
			break
		}
	}
	if f.poles != nil && c+1 < len(f.poles.known) {
		clear(f.poles.known[c+1:])
	}
	if err := f.run.Search().Spend(min(total, f.left)); err != nil || total > f.left {
		return nil, fmt.Sprintf("its kernels are not fitted: that takes more than the %d operations that are left",
			f.left)
	}
	if c == len(f.taps) {
		return f.out, ""
	}
	_, peak := norms(f.taps[c])
	if end := lastEighth(f.taps[c]); f.endless && end > fitTol*peak {
		return nil, fmt.Sprintf(
			"the kernel of channel %d has not decayed: its last taps are %.2g of its largest, expected at most %g", c,
			end/peak, fitTol)
	}
	if err := f.work[c].err; err != nil {
		return nil, fmt.Sprintf("the kernel of channel %d is not fitted: %v", c, err)
	}
	if n := len(f.out[c].pole); n > 0 {
		return nil, fmt.Sprintf(
			"the kernel of channel %d is not a sum of at most %d decaying exponentials: the nearest sum, of %d, is "+
				"off by %.2g, expected at most %g",
			c, maxPoles, n, f.out[c].off(f.taps[c]), fitTol)
	}
	work := tally{ctx: f.run.Done(), left: fitWork}
	least := 0
	if err := passes.Apart(work.ctx, func() { least = leastStates(f.taps[c], &work) }); err != nil {
		return nil, "its kernels are not fitted: " + err.Error()
	}
	_ = f.run.Search().Spend(work.spent) // the reason is known, whether or not more can be spent
	return nil, fmt.Sprintf(
		"the kernel of channel %d is not a sum of decaying exponentials: no sum of %d, or of a quarter of its %d "+
			"taps, comes near; it has at least %d independent states", c, maxPoles, len(f.taps[c]), least)
}

// lastEighth returns the largest tap of the last eighth of a kernel.
func lastEighth(k []float64) float64 {
	_, peak := norms(k[len(k)*7/8:])
	return peak
}

// emit builds the replacement of the region: the source arranged as (batch, time, channels), the operators, and the
// result arranged as the sink.
func (res *response) emit(b *ir.Builder, r *regions.Region, m *model) *ir.Value {
	lay := res.layout(r)
	u := lay.in(b, r.Source)
	elem := r.Source.Elem()
	var y *ir.Value
	add := func(v *ir.Value) {
		if y != nil {
			v = b.Op("", "Add", []*ir.Value{y, v})
		}
		y = v
	}
	direct := m.direct
	for _, d := range []struct {
		h         *half
		direction string
	}{{m.fwd, essm.Forward}, {m.bwd, essm.Backward}} {
		if d.h == nil {
			continue
		}
		if m.both {
			d.direction = essm.Bidirectional
		}
		if d.h.exps == nil {
			k := b.Const("kernel", narrow(slices.Concat(d.h.taps...), len(d.h.taps), len(d.h.taps[0])))
			add(b.Op("essm", "LongConv", []*ir.Value{u, k}, ir.A("direction", d.direction)))
			continue
		}
		add(ssm(b, u, elem, d.h, d.direction, direct))
		direct = nil
	}
	if res.bias != nil {
		add(regions.Typed(b, "bias", elem, res.bias, res.n))
	}
	if to := r.Sink.Elem(); to != elem {
		y = b.Op("", "Cast", []*ir.Value{y}, ir.A("to", int(to)))
	}
	return lay.out(b, y)
}

// ssm builds the operator for one direction, with a head of one input and one output per channel.
func ssm(b *ir.Builder, u *ir.Value, elem tensor.DType, h *half, direction string, direct []float64) *ir.Value {
	heads, n := len(h.exps), h.states()
	var p [4][]float64
	for i := range p {
		p[i] = make([]float64, heads*n)
	}
	for s, e := range h.exps {
		for i := range n {
			a, amp := complex(-1, 0), complex(0, 0)
			if i < len(e.pole) {
				a, amp = logPole(e.pole[i]), e.amp[i]
			}
			p[0][s*n+i], p[1][s*n+i], p[2][s*n+i], p[3][s*n+i] = real(a), imag(a), real(amp), imag(amp)
		}
	}
	in := []*ir.Value{u}
	for i, name := range []string{"a_re", "a_im", "b_re", "b_im"} {
		in = append(in, b.Const(name, tensor.FromSlice(p[i], 1, heads, n)))
	}
	ones := make([]float32, heads*n)
	for i := range ones {
		ones[i] = 1
	}
	in = append(in, b.Const("B", tensor.FromSlice(ones, 1, heads, n, 1)),
		b.Const("C", tensor.FromSlice(ones, 1, heads, 1, n)))
	if direct != nil {
		in = append(in, nil, nil, b.Const("D", tensor.FromSlice(slices.Clone(direct), 1, heads, 1)))
	}
	return b.Op("essm", "SSM", in, ir.A("direction", direction), ir.A("window", h.window))
}

// logPole returns the logarithm of a pole. For 0 it returns a number whose powers are 0.
func logPole(z complex128) complex128 {
	if cmplx.Abs(z) < 1e-300 {
		return regions.DeadLog
	}
	l := cmplx.Log(z)
	return complex(min(real(l), 0), imag(l))
}

// narrow stores taps in float32 if they are float32 numbers up to the error of reading them by transform.
func narrow(v []float64, shape ...int) *tensor.Tensor {
	_, peak := norms(v)
	f := make([]float32, len(v))
	for i, x := range v {
		if f[i] = float32(x); math.Abs(float64(f[i])-x) > 1e-13*peak {
			return tensor.FromSlice(v, shape...)
		}
	}
	return tensor.FromSlice(f, shape...)
}

// layout describes how the source becomes (batch, time, channels), and how the result takes the sink's shape.
type layout struct {
	squeeze         []int64 // axes of the source that have size 1
	perm            []int64 // order of the remaining axes
	noBatch, noChan bool
	merge, part     []int64 // shapes; nil: unchanged
	time            int     // position of time among the axes in their new order
	asInput         bool    // several of their dimensions are unknown
	shape           *ir.Value
	back            []int64 // order of the sink's axes without those of size 1
	expand          []int64 // axes of the sink that have size 1
}

func (res *response) layout(r *regions.Region) *layout {
	l := &layout{noBatch: len(res.batch) == 0, noChan: len(res.channel) == 0, time: len(res.batch)}
	shape := r.Source.Shape()
	place := map[int]int64{} // position of each axis among the remaining axes of the source
	for i, j := range res.to {
		if j < 0 {
			l.squeeze = append(l.squeeze, int64(i))
		} else {
			place[i] = int64(len(place))
		}
	}
	order := slices.Concat(res.batch, []int{res.time}, res.channel)
	for _, i := range order {
		l.perm = append(l.perm, place[i])
	}
	if len(res.batch) > 1 || len(res.channel) > 1 {
		batch, free := int64(1), 0
		for _, i := range res.batch {
			k, ok := shape[i].Known()
			if !ok {
				k = -1
				free++
			}
			l.part = append(l.part, k)
			batch *= k
		}
		length, ok := shape[res.time].Known()
		if !ok {
			length = -1
			free++
		}
		if free > 0 {
			batch = -1
		}
		switch {
		case len(res.batch) <= 1: // Reshape copies dimensions that are given as 0
			batch, length = 0, 0
			l.part = []int64{0, 0}
			if l.noBatch {
				batch, l.part = 1, []int64{-1}
				length = -1
				if k, ok := shape[res.time].Known(); ok {
					length, l.part[0] = k, k
				}
			}
		case free > 1: // more than Reshape can infer, so they are read from the input at run time
			l.asInput = true
			l.part = append(l.part, length)
		default:
			l.part = append(l.part, length)
		}
		l.merge = []int64{batch, length, int64(res.n)}
		for _, n := range res.counts {
			l.part = append(l.part, int64(n))
		}
	}
	// The current positions of the sink's axes of sizes other than 1, in their order.
	now := map[int]int64{}
	for k, i := range order {
		now[res.to[i]] = int64(k)
	}
	for j := range r.Sink.Shape() {
		if k, ok := now[j]; ok {
			l.back = append(l.back, k)
		} else {
			l.expand = append(l.expand, int64(j))
		}
	}
	return l
}

func (l *layout) in(b *ir.Builder, v *ir.Value) *ir.Value {
	if len(l.squeeze) > 0 {
		v = b.Op("", "Squeeze", []*ir.Value{v, b.Ints(l.squeeze...)})
	}
	v = regions.Transposed(b, v, l.perm)
	if l.asInput {
		l.shape = b.Op("", "Shape", []*ir.Value{v})
		length := b.Op("", "Gather", []*ir.Value{l.shape, b.Ints(int64(l.time))})
		merged := b.Op("", "Concat", []*ir.Value{b.Ints(-1), length, b.Ints(l.merge[2])}, ir.A("axis", 0))
		return b.Op("", "Reshape", []*ir.Value{v, merged})
	}
	if l.merge != nil {
		return b.Op("", "Reshape", []*ir.Value{v, b.Ints(l.merge...)})
	}
	if axes := l.absent(); axes != nil {
		v = b.Op("", "Unsqueeze", []*ir.Value{v, b.Ints(axes...)})
	}
	return v
}

// absent returns the axes of samples and channels that the value lacks.
func (l *layout) absent() (axes []int64) {
	if l.noBatch {
		axes = append(axes, 0)
	}
	if l.noChan {
		axes = append(axes, 2)
	}
	return axes
}

func (l *layout) out(b *ir.Builder, v *ir.Value) *ir.Value {
	if l.asInput {
		v = b.Op("", "Reshape", []*ir.Value{v, l.shape})
	} else if l.merge != nil {
		v = b.Op("", "Reshape", []*ir.Value{v, b.Ints(l.part...)})
	} else {
		if axes := l.absent(); axes != nil {
			v = b.Op("", "Squeeze", []*ir.Value{v, b.Ints(axes...)})
		}
	}
	v = regions.Transposed(b, v, l.back)
	if len(l.expand) > 0 {
		v = b.Op("", "Unsqueeze", []*ir.Value{v, b.Ints(l.expand...)})
	}
	return v
}
