package convolution

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// winograd is the form of a convolution with 3 × 3 filters by Winograd's method. Bands of rows of tiles are
// computed one after the other: first the factors of the inputs, then outputs, some of their channels at a time. If
// there are several bands, a worker computes the factors of its band alone; otherwise workers share them, and each
// computes those of some channels.
//
// If an output is not finite, it is recomputed as a plain sum, because the transforms would spread infinities and
// NaNs over a tile, and may overflow.
type winograd struct {
	conv2d
	tx, ty  int       // in tiles
	bands   int       // per sample
	rows    int       // rows of tiles per band
	span    int       // tiles of a band, rounded up to whole panels
	outputs int       // output channels that are computed at once
	blocks  int       // number of such blocks
	across  int       // work items for the same band, if there are several bands
	pitch   int       // size of a padded row of inputs
	factors []float32 // shared by workers, set during a run
}

// winogradBand is a part of a sample that shares factors of inputs: for each product, panels of tiles.
type winogradBand struct {
	sample      int
	from, count int // rows of tiles
	factors     []float32
}

// winogradInputs is the number of input channels of a work item.
const winogradInputs = 8

// winogradOutputs returns the number of output channels of a work item, given m: one or two tiles of filters.
func winogradOutputs(m int) int {
	const tile = 12
	if m <= 10*tile {
		return tile
	}
	return 2 * tile
}

// A band's inputs have about winogradNumbers factors, unless a row of tiles has more. A band has at most
// winogradSpan tiles.
const winogradNumbers, winogradSpan = 1 << 18, 1 << 11

// newWinograd returns the form, or nil if it does not fit or is slower.
func (c conv2d) newWinograd() *winograd {
	if c.kh != 3 || c.kw != 3 || c.Sh != 1 || c.Sw != 1 || c.Dh != 1 || c.Dw != 1 || c.group != 1 ||
		c.Top < 0 || c.Left < 0 || c.H == 0 || c.Wd == 0 {
		return nil
	}
	const side = kernel.WinogradOut
	p := &winograd{conv2d: c, outputs: winogradOutputs(c.m), tx: (c.Ow + side - 1) / side, ty: (c.Oh + side - 1) / side}
	p.rows = p.bandRows()
	p.bands = (p.ty + p.rows - 1) / p.rows
	if p.span = kernel.PanelsSpan(p.rows * p.tx); p.span > winogradSpan || p.span*p.cg > 4*winogradNumbers {
		return nil
	}
	// In products of a vector of 16 numbers: transforming a tile costs about this many.
	const transform = 400
	tiles := p.bands * p.span / kernel.PanelWidth
	direct := 9 * c.cg * c.m * ((c.Oh*c.Ow + kernel.PanelWidth - 1) / kernel.PanelWidth)
	if tiles*(kernel.WinogradProducts*c.cg*c.m+transform*(c.cg+c.m)) >= direct {
		return nil
	}
	p.pitch = kernel.WinogradWidth(max(side*kernel.WinogradWidth(p.tx)+2, p.Left+kernel.WinogradWidth(p.Wd)))
	p.blocks = (p.m + p.outputs - 1) / p.outputs
	const items = 8
	p.across = min(p.blocks, max(1, items/max(1, p.N*p.bands)))
	return p
}

// bandRows returns the number of rows of tiles of a band. Bands have equal size, and fill panels as well as
// possible.
func (p *winograd) bandRows() int {
	bandsOf := func(rows int) int { return (p.ty + rows - 1) / rows }
	few := min(p.ty, max(1, winogradNumbers/(kernel.WinogradProducts*p.cg*p.tx)))
	best, least := 0, 0
	for rows := few; rows <= min(p.ty, 2*few); rows++ {
		even := (p.ty + bandsOf(rows) - 1) / bandsOf(rows)
		if tiles := bandsOf(even) * kernel.PanelsSpan(even*p.tx); best == 0 || tiles < least {
			best, least = even, tiles
		}
	}
	return best
}

// alone reports whether a worker computes the factors of its bands for itself.
func (p *winograd) alone() bool { return p.N*p.bands > 1 }

func (p *winograd) kernel() *record.TensorKernel {
	in := 2*kernel.WinogradIn*p.pitch + kernel.WinogradProducts*p.ldf()
	out := p.outputs*p.ldt() + 2*kernel.WinogradIn*kernel.WinogradOut*p.span
	k := &record.TensorKernel{Fuses: true, Temp: p.band(), Scratch: max(in, out),
		Tables: 4 * int64(kernel.WinogradProducts*p.m*p.cg), Run: p.run}
	if p.alone() {
		k.Temp, k.Scratch = 0, k.Temp+k.Scratch
	}
	return k
}

// band returns the number of factors of a band.
func (p *winograd) band() int { return kernel.WinogradProducts * p.ldp() }

// ldf returns the stride between the factors of a channel for two products.
func (p *winograd) ldf() int { return p.span + kernel.WinogradWidth(1) }

// ldp returns the stride between the factors of the inputs for two products. With a power of two, all factors of a
// channel, which are written together, would fall into a few cache sets. ldt is the stride between the products of
// two filters.
func (p *winograd) ldp() int { return p.cg*p.span + kernel.PanelWidth }
func (p *winograd) ldt() int { return kernel.WinogradProducts*p.span + kernel.PanelWidth }

func (p *winograd) run(e record.Execution, call record.Call) error {
	f := e.Frame()
	p.e, p.x, p.y, p.after = e, p.in.In(f), call.Result.In(f), call.Epilogue
	p.asFactors()
	if p.alone() {
		return e.Parallel((*winogradBands)(p), p.N*p.bands*p.across)
	}
	p.factors = call.Temp
	if err := e.Parallel((*winogradIn)(p), (p.cg+winogradInputs-1)/winogradInputs); err != nil {
		return err
	}
	return e.Parallel((*winogradOut)(p), p.blocks)
}

// winogradBands computes some channels of the output for a band.
type winogradBands winograd

func (p *winogradBands) Do(w *record.Workspace, k int) {
	all := (*winograd)(p)
	part, k := k%p.across, k/p.across
	from := k % p.bands * p.rows
	b := winogradBand{k / p.bands, from, min(p.rows, p.ty-from), w.Scratch[:all.band()]}
	scratch := w.Scratch[all.band():]
	if w.Fresh(k) {
		for ch := 0; ch < p.cg && !w.Stopped(); ch += winogradInputs {
			all.input(scratch, b, ch, min(p.cg, ch+winogradInputs))
		}
	}
	for i := part * p.blocks / p.across; i < (part+1)*p.blocks/p.across && !w.Stopped(); i++ {
		all.output(w, scratch, b, i*p.outputs)
	}
}

// winogradIn computes the factors of some input channels, winogradOut some output channels, both for the only band.
type (
	winogradIn  winograd
	winogradOut winograd
)

func (p *winogradIn) Do(w *record.Workspace, k int) {
	(*winograd)(p).input(w.Scratch, winogradBand{0, 0, p.ty, p.factors}, k*winogradInputs, min(p.cg, (k+1)*winogradInputs))
}

func (p *winogradOut) Do(w *record.Workspace, k int) {
	(*winograd)(p).output(w, w.Scratch, winogradBand{0, 0, p.ty, p.factors}, k*p.outputs)
}

// asFactors computes the factors of the filters: tiles for each product, for some output channels at a time.
func (f *filters) asFactors() {
	f.onceF.Do(func() {
		f.factors = keep(f, func() []float32 { return make([]float32, kernel.WinogradProducts*f.m*f.cg) }, f.fillFactors)
	})
}

func (f *filters) fillFactors(all []float32) {
	const products = kernel.WinogradProducts
	defer f.s.Release(1)
	outputs, w := winogradOutputs(f.m), f.weights()
	rows := make([]float32, products*outputs*f.cg)
	const block = 16 // a cache line in each product's row, because rows are multiples of a page apart
	var t [products]float32
	var lines [products][block]float32
	for from := 0; from < f.m; from += outputs {
		n := min(outputs, f.m-from)
		for at := 0; at < n*f.cg; at += block {
			count := min(block, n*f.cg-at)
			for i := range count {
				kernel.WinogradFilter(&t, w[(from*f.cg+at+i)*9:][:9])
				for k, v := range t {
					lines[k][i] = v
				}
			}
			for k := range lines {
				copy(rows[k*n*f.cg+at:], lines[k][:count])
			}
		}
		for k := range products {
			kernel.Tiles(all, rows[k*n*f.cg:], f.cg, n, f.cg)
			all = all[n*f.cg:]
		}
	}
}

// input computes the factors of input channels first to last-1, for a band.
func (p *winograd) input(scratch []float32, b winogradBand, first, last int) {
	const in = kernel.WinogradIn
	ldf, plane, count := p.ldf(), p.H*p.Wd, b.count*p.tx
	rows, sums, tiles := scratch[:in*p.pitch], scratch[in*p.pitch:2*in*p.pitch], scratch[2*in*p.pitch:]
	width := p.Wd + p.Left
	for ch := first; ch < last; ch++ {
		x := p.x[(b.sample*p.C+ch)*plane:]
		for r := range in {
			clear(sums[r*p.pitch:][:p.Left])
		}
		for i := range b.count {
			top := kernel.WinogradOut*(b.from+i) - p.Top
			if top >= 0 && (top+in-1)*p.Wd+kernel.WinogradWidth(p.Wd) <= len(x) && top+in <= p.H {
				kernel.WinogradColumns(sums[p.Left:], p.pitch, x[top*p.Wd:], p.Wd, p.Wd)
			} else {
				for r := range in {
					row := rows[r*p.pitch:][:p.Wd]
					if y := top + r; y >= 0 && y < p.H {
						copy(row, x[y*p.Wd:])
					} else {
						clear(row)
					}
				}
				kernel.WinogradColumns(sums[p.Left:], p.pitch, rows, p.pitch, p.Wd)
			}
			for r := range in {
				clear(sums[r*p.pitch+width : (r+1)*p.pitch])
			}
			kernel.WinogradTiles(tiles[i*p.tx:], ldf, sums, p.pitch, p.tx, in)
		}
		clearRows(tiles[count:], ldf, p.span-count, kernel.WinogradProducts)
		step := kernel.PanelsWidth()
		for c := 0; c < p.span; c += step {
			n := min(step, p.span-c)
			kernel.CopyRows(b.factors[c*p.cg+ch*n:], p.ldp(), tiles[c:], ldf, n, kernel.WinogradProducts)
		}
	}
}

// clearRows clears the first n numbers of rows with stride ld.
func clearRows(dst []float32, ld, n, rows int) {
	if n > 0 {
		for r := range rows {
			clear(dst[r*ld:][:n])
		}
	}
}

// output computes output channels, starting at from, for a band.
func (p *winograd) output(w *record.Workspace, scratch []float32, b winogradBand, from int) {
	const out, products = kernel.WinogradOut, kernel.WinogradProducts
	span, ldp, ldt := p.span, p.ldp(), p.ldt()
	rows := min(p.outputs, p.m-from)
	tiles, sums := scratch[:rows*ldt], scratch[p.outputs*ldt:]
	sums, y := sums[:6*out*span], sums[6*out*span:]
	for i := range products {
		if w.Stopped() {
			return
		}
		kernel.PanelsProduct(tiles[i*span:], ldt, p.filters.factors[(from*products+i*rows)*p.cg:], rows, p.cg,
			b.factors[i*ldp:][:p.cg*span], span)
	}
	size, first := p.Oh*p.Ow, out*b.from
	last := min(p.Oh, out*(b.from+b.count))
	for r := range rows {
		m := from + r
		var bias float32
		if p.bias != nil {
			bias = p.bias[m]
		}
		kernel.WinogradColumnSums(sums, 6*span, tiles[r*ldt:], 6*span, 6*span)
		kernel.WinogradTileSums(y, out*span, sums, span, span, out, bias)
		at := (b.sample*p.m+m)*size + first*p.Ow
		for row := first; row < last; row++ {
			copy(p.y[at+(row-first)*p.Ow:][:p.Ow], y[row%out*out*span+(row-first)/out*out*p.tx:])
		}
		n := (last - first) * p.Ow
		if !kernel.Finite(p.y[at : at+n]) {
			p.again(w, b.sample, m, first, last)
		}
		p.after.Apply(p.e, p.y, &record.Block{At: at, Channel: m, Rows: 1, N: n, Stride: size})
	}
}

// again recomputes the outputs of a channel that are not finite, in rows first to last-1, as plain sums.
func (p *winograd) again(w *record.Workspace, sample, m, first, last int) {
	x, weights := p.x[sample*p.C*p.H*p.Wd:], []float32(nil)
	for row := first; row < last && !w.Stopped(); row++ {
		y := p.y[((sample*p.m+m)*p.Oh+row)*p.Ow:][:p.Ow]
		for col, v := range y {
			if v-v == 0 {
				continue
			}
			if weights == nil {
				weights = p.weights()
			}
			var s float32
			if p.bias != nil {
				s = p.bias[m]
			}
			for ch := range p.cg {
				for i := max(0, p.Top-row); i < min(3, p.H+p.Top-row); i++ {
					for j := max(0, p.Left-col); j < min(3, p.Wd+p.Left-col); j++ {
						s += weights[(m*p.cg+ch)*9+3*i+j] * x[(ch*p.H+row+i-p.Top)*p.Wd+col+j-p.Left]
					}
				}
			}
			y[col] = s
		}
	}
}
