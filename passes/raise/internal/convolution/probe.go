package convolution

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// longest is the largest length at which a region without a fixed length is tried.
const longest = 1 << 15

// response describes a region as a convolution along one axis, by the impulse response of each channel.
type response struct {
	run     *passes.Context
	time    int   // axis of the source
	to      []int // per axis of the source, its axis in the sink; -1 for axes of size 1
	batch   []int // axes of the source along which the response is the same
	channel []int // axes of the source along which the response differs
	counts  []int // dimensions of the channel axes
	n       int   // number of channels, the product of counts
	length  int   // number of steps for which fwd and bwd were read
	anySize bool  // the number of steps is not fixed
	fwd     [][]float64
	bwd     [][]float64 // lags 1, 2, …: the effect of steps t+1, t+2, … on step t
	bias    []float64   // per channel; nil: zeros
	bind    map[string]int64
}

// miss is the reason why a region is not a convolution. A larger stage is a nearer miss.
type miss struct {
	stage int
	why   string
	off   float64 // distance of its answers from the expected ones; 0 if not known
}

func missf(stage int, format string, args ...any) *miss {
	return &miss{stage: stage, why: fmt.Sprintf(format, args...)}
}

// nearer reports whether m is a nearer miss than o.
func (m *miss) nearer(o *miss) bool {
	return m.stage > o.stage || m.stage == o.stage && m.off > 0 && m.off < o.off
}

// probe finds a region's response.
func probe(ix *regions.Index, r *regions.Region) (*response, *miss) {
	ix.Memory = regions.Memory(ix.Run)
	if res := directResponse(ix, r); res != nil {
		return res, nil
	}
	return probeByRuns(ix, r)
}

// probeByRuns finds a region's response by running it three times. An impulse in the middle and at its neighbors shows
// the axes. Impulses at either end of all channels give every tap. Random numbers verify the result: the region is
// linear, as all its operators are, so it equals the convolution if both give the same answer to them.
func probeByRuns(ix *regions.Index, r *regions.Region) (*response, *miss) {
	xs, ys := r.Source.Shape(), r.Sink.Shape()
	if len(xs) == 0 || len(ys) == 0 || !regions.IsReal(r.Source.Elem()) || !regions.IsReal(r.Sink.Elem()) {
		return nil, missf(0, "its input or output is not a tensor of real numbers")
	}
	if !xs.Size().Equal(ys.Size()) {
		return nil, missf(0, "it computes %[2]v elements from %[1]v, expected as many", xs.Size(), ys.Size())
	}
	bind := numbersOf(ix, xs)
	res := &response{run: ix.Run, bind: bind}
	e := regions.ConstantsWithin(ix.Run, ix.Memory, bind)
	if m := res.axes(r, e); m != nil {
		return nil, m
	}
	if m := res.kinds(r, e); m != nil {
		return nil, m
	}
	if res.n == 0 {
		return nil, missf(1, "it has no elements")
	}
	if _, known := xs[res.time].Known(); known {
		return res, res.taps(r, e)
	}
	symbol, ok := xs[res.time].Symbol()
	if !ok {
		return nil, missf(2, "its number of steps is %v, neither fixed nor an input's", xs[res.time])
	}
	res.anySize = true
	long := max(1024, 2*ix.LargestNumber(r)) + 7
	if long > longest {
		return nil, missf(2, "its length may be compared with numbers up to %d, more steps than are tried",
			ix.LargestNumber(r))
	}
	small := *res
	wide := map[string]int64{}
	for k, v := range bind {
		wide[k] = min(v, 1)
	}
	for _, d := range xs { // symbols other than those of time and batch keep their numbers
		if name, ok := d.Symbol(); !ok || name != symbol {
			for _, q := range d.Symbols() {
				wide[q] = 1
			}
		}
	}
	wide[symbol] = long
	res.bind = wide
	if m := res.taps(r, regions.ConstantsWithin(ix.Run, ix.Memory, wide)); m != nil {
		return nil, m
	}
	n := int(bind[symbol])
	small.length, small.bias = n, res.bias
	for c := range res.n {
		small.fwd = append(small.fwd, res.fwd[c][:min(n, len(res.fwd[c]))])
		small.bwd = append(small.bwd, res.bwd[c][:min(max(n-1, 0), len(res.bwd[c]))])
	}
	if m := small.check(r, e); m != nil {
		return nil, missf(m.stage,
			"its response depends on the number of steps: read at %[2]d steps, it fails at %[1]d: %[3]s", n, long,
			m.why)
	}
	return res, nil
}

// numbersOf assigns a small prime to each symbol of the graph's inputs.
func numbersOf(ix *regions.Index, shape ir.Shape) map[string]int64 {
	primes := []int64{7, 11, 13, 17, 19, 23, 29, 31}
	known := int64(1)
	for _, d := range shape {
		if k, ok := d.Known(); ok {
			known *= max(k, 1)
		}
	}
	if known > 1<<12 {
		primes = []int64{2, 3, 5, 7, 11, 13}
	}
	var names []string
	for _, v := range ix.G.Inputs {
		for _, d := range v.Shape() {
			names = append(names, d.Symbols()...)
		}
	}
	for _, d := range shape {
		names = append(names, d.Symbols()...)
	}
	slices.Sort(names)
	bind := map[string]int64{}
	for i, n := range slices.Compact(names) {
		bind[n] = primes[i%len(primes)]
	}
	return bind
}

// ask runs the region on the input that fill writes, and returns its output and the output's shape.
func (res *response) ask(r *regions.Region, e *eval.Constants,
	fill func(x []float64, shape []int)) (y []float64, shape []int, m *miss) {
	xs, ok := regions.Dims(r.Source.Shape(), res.bind)
	if !ok {
		return nil, nil, missf(0, "its shape %v is not known", r.Source.Shape())
	}
	size, err := tensor.Size(xs)
	if err != nil || size > regions.MaxElements {
		return nil, nil, missf(1, "it has %d elements, more than are tried", size)
	}
	if err := e.Budget.Spend(regions.WorkPerElement * int64(size)); err != nil {
		return nil, nil, missf(1, "it cannot be evaluated: %v", err)
	}
	x := make([]float64, size)
	fill(x, xs)
	t, err := r.Run(e, tensor.FromSlice(x, xs...))
	if err != nil {
		return nil, nil, missf(1, "it cannot be evaluated: %v", err)
	}
	if y, err = t.Float64s(); err != nil {
		return nil, nil, missf(1, "it cannot be evaluated: %v", err)
	}
	// The inferred shape, and the axes found at one size, may be wrong at another.
	ys := t.Shape()
	fits := len(ys) == len(r.Sink.Shape()) && len(y) == size
	for i, j := range res.to { // empty until the axes are known
		fits = fits && (j < 0 || ys[j] == xs[i])
	}
	if !fits {
		return nil, nil, missf(1, "for an input of shape %v its output has shape %v", xs, ys)
	}
	return y, ys, nil
}

// each calls visit with the indices below n, and checks the run's context in between.
func (res *response) each(n int, visit func(i int)) {
	for i := range n {
		if i%(1<<14) == 0 {
			res.run.Check()
		}
		visit(i)
	}
}

// axes finds the sink's axis of each axis of the source, and the axis of time.
func (res *response) axes(r *regions.Region, e *eval.Constants) *miss {
	zero, ys, m := res.ask(r, e, func([]float64, []int) {})
	if m != nil {
		return m
	}
	var xs []int
	// the first and the last index of the answer to an impulse, per axis
	impulse := func(moved int) ([]int, []int, *miss) {
		y, shape, m := res.ask(r, e, func(x []float64, shape []int) {
			xs = shape
			if len(x) == 0 {
				return
			}
			at := 0
			for i, st := range ops.Strides(shape) {
				p := (shape[i] - 1) / 2
				if i == moved {
					p++
				}
				at += p * st
			}
			x[at] = 1
		})
		if m != nil {
			return nil, nil, m
		}
		if len(y) != len(zero) || !slices.Equal(shape, ys) {
			return nil, nil, missf(1, "the shape of its output depends on its input")
		}
		peak := 0.0
		res.each(len(y), func(i int) { peak = max(peak, math.Abs(y[i]-zero[i])) })
		lo, hi := slices.Clone(shape), make([]int, len(shape))
		strides := ops.Strides(shape)
		res.each(len(y), func(i int) {
			if !(math.Abs(y[i]-zero[i]) > 1e-9*peak) {
				return
			}
			for a, st := range strides {
				k := i / st % shape[a]
				lo[a], hi[a] = min(lo[a], k), max(hi[a], k)
			}
		})
		if peak == 0 || math.IsNaN(peak) || math.IsInf(peak, 0) {
			return nil, nil, missf(1, "its output does not depend on the middle of its input")
		}
		return lo, hi, nil
	}
	lo, hi, m := impulse(-1)
	if m != nil {
		return m
	}
	time := -1
	for a := range lo {
		if hi[a] > lo[a] {
			if time >= 0 {
				return missf(1, "one element of its input affects several indices of two axes")
			}
			time = a
		}
	}
	if time < 0 {
		return missf(1, "one step of its input affects one step of its output; expected several")
	}
	res.time = -1
	taken := map[int]bool{}
	to := make([]int, len(xs))
	for i, d := range xs {
		to[i] = -1
		if d == 1 {
			continue
		}
		l, h, m := impulse(i)
		if m != nil {
			return m
		}
		j := -1
		for a := range l {
			if a != time && (l[a] != lo[a] || h[a] != hi[a]) {
				if j >= 0 || l[a] != lo[a]+1 || h[a] != l[a] {
					return missf(1, "it mixes axes")
				}
				j = a
			}
		}
		if j < 0 {
			j = time
			if res.time >= 0 {
				return missf(1, "it mixes axes")
			}
			res.time = i
		}
		if taken[j] || d != ys[j] {
			return missf(1, "axis %[2]d has size %[1]d in its input and %[3]d in its output", d, i, ys[j])
		}
		taken[j] = true
		to[i] = j
	}
	res.to = to
	if res.time < 0 {
		return missf(1, "no axis of its input is the time axis of its output")
	}
	return nil
}

// impulses runs the region on an impulse at one step of every row.
func (res *response) impulses(r *regions.Region, e *eval.Constants,
	step func(length int) int) (y []float64, ys []int, xs []int, m *miss) {
	y, ys, m = res.ask(r, e, func(x []float64, shape []int) {
		xs = shape
		st, length := ops.Strides(shape)[res.time], shape[res.time]
		for i := st * step(length); i < len(x); i += st * length {
			res.run.Check()
			for j := i; j < i+st; j++ {
				x[j] = 1
			}
		}
	})
	return y, ys, xs, m
}

// kinds distinguishes batch axes, along which the response is the same, from channel axes.
func (res *response) kinds(r *regions.Region, e *eval.Constants) *miss {
	y, ys, xs, m := res.impulses(r, e, func(l int) int { return l / 2 })
	if m != nil {
		return m
	}
	_, peak := norms(y)
	shape := r.Source.Shape()
	res.n = 1
	spare := -1
	for i, j := range res.to {
		if j < 0 || i == res.time {
			continue
		}
		st := ops.Strides(ys)[j]
		differs := false
		res.each(len(y), func(k int) {
			if at := k / st % ys[j]; !differs && at > 0 && math.Abs(y[k]-y[k-at*st]) > 1e-12*peak {
				differs = true
			}
		})
		_, known := shape[i].Known()
		switch {
		case differs && !known:
			return missf(1, "its response differs along axis %d, whose size %v is not fixed", i, shape[i])
		case differs:
			res.addChannel(i, xs[i])
		default:
			res.batch = append(res.batch, i)
			if known {
				spare = i
			}
		}
	}
	if len(res.channel) == 0 && len(res.batch) > 1 && spare >= 0 { // all channels have the same kernel
		res.batch = slices.DeleteFunc(res.batch, func(i int) bool { return i == spare })
		res.addChannel(spare, xs[spare])
	}
	return nil
}

func (res *response) addChannel(axis, count int) {
	res.channel = append(res.channel, axis)
	res.counts = append(res.counts, count)
	res.n *= count
}

// rows calls visit for each row along time, with its offsets in source and sink and its channel.
func (res *response) rows(xs, ys []int, visit func(x, y, channel int)) {
	xst, yst := ops.Strides(xs), ops.Strides(ys)
	var walk func(axes []int, x, y, c int)
	walk = func(axes []int, x, y, c int) {
		if len(axes) == 0 {
			visit(x, y, c)
			return
		}
		i := axes[0]
		k := slices.Index(res.channel, i)
		for p := range xs[i] {
			q := c
			if k >= 0 {
				q = c*res.counts[k] + p
			}
			to := 0
			if res.to[i] >= 0 {
				to = p * yst[res.to[i]]
			}
			walk(axes[1:], x+p*xst[i], y+to, q)
		}
	}
	walk(slices.Concat(res.batch, res.channel), 0, 0, 0)
}

// taps reads the response from impulses at the first and the last step, and checks it.
func (res *response) taps(r *regions.Region, e *eval.Constants) *miss {
	zero, ys, m := res.ask(r, e, func([]float64, []int) {})
	if m != nil {
		return m
	}
	first, _, xs, m := res.impulses(r, e, func(int) int { return 0 })
	if m != nil {
		return m
	}
	last, _, _, m := res.impulses(r, e, func(l int) int { return l - 1 })
	if m != nil {
		return m
	}
	res.length = xs[res.time]
	if res.length < 2 {
		return missf(1, "it has %d steps, expected 2 or more", res.length)
	}
	st := ops.Strides(ys)[res.to[res.time]]
	res.fwd, res.bwd, res.bias = make([][]float64, res.n), make([][]float64, res.n), make([]float64, res.n)
	biased := false
	res.rows(xs, ys, func(_, y, c int) {
		if res.fwd[c] != nil {
			return
		}
		f, b := make([]float64, res.length), make([]float64, res.length-1)
		for t := range f {
			f[t] = first[y+t*st] - zero[y+t*st]
		}
		for t := range b {
			at := y + (res.length-2-t)*st
			b[t] = last[at] - zero[at]
		}
		res.fwd[c], res.bwd[c], res.bias[c] = f, b, zero[y]
		biased = biased || zero[y] != 0
	})
	if !biased {
		res.bias = nil
	}
	return res.check(r, e)
}

// check compares the region with the convolution on random numbers.
func (res *response) check(r *regions.Region, e *eval.Constants) *miss {
	rnd := rand.New(rand.NewPCG(1, 2))
	var x []float64
	var xs []int
	y, ys, m := res.ask(r, e, func(v []float64, shape []int) {
		res.each(len(v), func(i int) { v[i] = rnd.NormFloat64() })
		x, xs = slices.Clone(v), shape
	})
	if m != nil {
		return m
	}
	length := xs[res.time]
	if err := e.Budget.Spend(regions.WorkOfConvolution(2*length, len(x)/max(length, 1)+2*res.n)); err != nil {
		return missf(3, "it is not compared with a convolution: %v", err)
	}
	xst, yst := ops.Strides(xs)[res.time], ops.Strides(ys)[res.to[res.time]]
	_, scale := norms(y)
	worst, at := 0.0, 0
	err := passes.Apart(res.run.Done(), func() {
		conv := regions.NewConvolver(length)
		spectra := map[int][]complex128{}
		row := make([]float64, length)
		res.rows(xs, ys, func(xo, yo, c int) {
			if res.run.Done().Err() != nil {
				return
			}
			if spectra[c] == nil {
				spectra[c] = conv.Spectrum(res.fwd[c], res.bwd[c])
			}
			for t := range row {
				row[t] = x[xo+t*xst]
			}
			for t, v := range conv.Apply(row, spectra[c]) {
				if res.bias != nil {
					v += res.bias[c]
				}
				if d := math.Abs(v - y[yo+t*yst]); !(d <= worst) {
					worst, at = d, t
				}
			}
		})
	})
	if err != nil {
		return missf(3, "it is not compared with a convolution: %v", err)
	}
	if !(worst <= regions.ResponseTol*scale) {
		m := missf(3,
			"step %d is not the same function of the steps around it as the first and the last are (off by %.2g of "+
				"the largest answer, expected at most %g)", at, worst/scale, regions.ResponseTol)
		m.off = worst / scale
		return m
	}
	return nil
}
