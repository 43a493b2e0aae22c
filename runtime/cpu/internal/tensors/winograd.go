package tensors

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// winograd is the form of a convolution with filters of 3 by 3 by Winograd's method. Bands of rows of tiles are computed one
// after the other: first the factors of the inputs, some channels at a time, then outputs, some of their channels at a time.
//
// Where an output is not finite, it is computed again as the sum that it is: the transforms would spread infinities and NaNs
// over a tile, and may overflow.
type winograd struct {
	conv2d
	tx, ty  int       // tiles
	band    int       // rows of tiles of a band
	span    int       // tiles of a band, with those that fill the panels
	outputs int       // channels of the output of a work item
	pitch   int       // of a row of inputs, padded
	sample  int       // while it runs
	from    int       // row of tiles where the band begins
	count   int       // rows of tiles of the band
	factors []float32 // of the inputs of the band: for each product, panels of tiles
}

// winogradInputs is the number of input channels of a work item.
const winogradInputs = 8

// winogradOutputs returns the number of output channels of a work item, of m: one or two tiles of filters.
func winogradOutputs(m int) int {
	const tile = 12
	if m <= 10*tile {
		return tile
	}
	return 2 * tile
}

// The factors of a band's inputs are about winogradBand numbers, unless a row of tiles has more. A band has at most
// winogradSpan tiles.
const winogradBand, winogradSpan = 1 << 18, 1 << 11

// newWinograd returns the form; nil if it does not fit or is slower.
func (c conv2d) newWinograd() *winograd {
	if c.kh != 3 || c.kw != 3 || c.Sh != 1 || c.Sw != 1 || c.Dh != 1 || c.Dw != 1 || c.group != 1 ||
		c.Top < 0 || c.Left < 0 || c.H == 0 || c.Wd == 0 {
		return nil
	}
	const side = kernel.WinogradOut
	p := &winograd{conv2d: c, outputs: winogradOutputs(c.m), tx: (c.Ow + side - 1) / side, ty: (c.Oh + side - 1) / side}
	p.band = min(p.ty, max(1, winogradBand/(kernel.WinogradProducts*c.cg*p.tx)))
	p.band = (p.ty + (p.ty+p.band-1)/p.band - 1) / ((p.ty + p.band - 1) / p.band) // bands of equal size
	if p.span = kernel.PanelsSpan(p.band * p.tx); p.span > winogradSpan || p.span*p.cg > 4*winogradBand {
		return nil
	}
	// In products of a vector of 16 numbers: a tile is transformed in about transform of them.
	const transform = 400
	bands := (p.ty + p.band - 1) / p.band
	tiles := bands * p.span / kernel.PanelWidth
	direct := 9 * c.cg * c.m * ((c.Oh*c.Ow + kernel.PanelWidth - 1) / kernel.PanelWidth)
	if tiles*(kernel.WinogradProducts*c.cg*c.m+transform*(c.cg+c.m)) >= direct {
		return nil
	}
	p.pitch = kernel.WinogradWidth(max(side*kernel.WinogradWidth(p.tx)+2, p.Left+kernel.WinogradWidth(p.Wd)))
	return p
}

func (p *winograd) kernel() *record.TensorKernel {
	in := 2*kernel.WinogradIn*p.pitch + kernel.WinogradProducts*p.ldf()
	out := p.outputs*p.ldt() + 2*kernel.WinogradIn*kernel.WinogradOut*p.span
	return &record.TensorKernel{Fuses: true, Temp: kernel.WinogradProducts * p.ldp(), Scratch: max(in, out),
		Tables: 4 * int64(kernel.WinogradProducts*p.m*p.cg), Run: p.run}
}

// ldf is the distance between the factors of a channel for two products.
func (p *winograd) ldf() int { return p.span + kernel.WinogradWidth(1) }

// ldp is the distance between the factors of the inputs for two products. A power of two would put all factors of a
// channel, which are written together, in few sets of the caches; ldt is the distance between the products of two filters.
func (p *winograd) ldp() int { return p.cg*p.span + kernel.PanelWidth }
func (p *winograd) ldt() int { return kernel.WinogradProducts*p.span + kernel.PanelWidth }

func (p *winograd) run(e record.Execution, call record.Call) error {
	f := e.Frame()
	p.e, p.x, p.y, p.after = e, p.in.In(f), call.Result.In(f), call.Epilogue
	p.factors = call.Temp
	p.asFactors()
	for p.sample = range p.N {
		for p.from = 0; p.from < p.ty; p.from += p.band {
			p.count = min(p.band, p.ty-p.from)
			if err := e.Parallel((*winogradIn)(p), (p.cg+winogradInputs-1)/winogradInputs); err != nil {
				return err
			}
			if err := e.Parallel((*winogradOut)(p), (p.m+p.outputs-1)/p.outputs); err != nil {
				return err
			}
		}
	}
	return nil
}

// asFactors makes the factors of the filters: for some of the output's channels at a time, for each product, tiles.
func (f *filters) asFactors() {
	f.onceF.Do(func() {
		const products = kernel.WinogradProducts
		defer f.s.Release(1)
		outputs, w := winogradOutputs(f.m), f.weights()
		f.factors = make([]float32, products*f.m*f.cg)
		rows, all := make([]float32, products*outputs*f.cg), f.factors
		const block = 16 // a line of the cache of each product's row: rows lie multiples of a page apart
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
	})
}

// winogradIn computes the factors of some channels of the input, for a band.
type winogradIn winograd

func (p *winogradIn) Do(w *record.Workspace, k int) {
	const in = kernel.WinogradIn
	ldf, plane, count := (*winograd)(p).ldf(), p.H*p.Wd, p.count*p.tx
	rows, sums, tiles := w.Scratch[:in*p.pitch], w.Scratch[in*p.pitch:2*in*p.pitch], w.Scratch[2*in*p.pitch:]
	width := p.Wd + p.Left
	for ch := k * winogradInputs; ch < min(p.cg, (k+1)*winogradInputs); ch++ {
		x := p.x[(p.sample*p.C+ch)*plane:]
		for r := range in {
			clear(sums[r*p.pitch:][:p.Left])
		}
		for i := range p.count {
			top := kernel.WinogradOut*(p.from+i) - p.Top
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
			kernel.CopyRows(p.factors[c*p.cg+ch*n:], (*winograd)(p).ldp(), tiles[c:], ldf, n, kernel.WinogradProducts)
		}
	}
}

// clearRows clears n numbers at the beginning of rows that lie ld apart.
func clearRows(dst []float32, ld, n, rows int) {
	if n > 0 {
		for r := range rows {
			clear(dst[r*ld:][:n])
		}
	}
}

// winogradOut computes some channels of the output, for a band.
type winogradOut winograd

func (p *winogradOut) Do(w *record.Workspace, k int) {
	const out, products = kernel.WinogradOut, kernel.WinogradProducts
	span, from, ldp, ldt := p.span, k*p.outputs, (*winograd)(p).ldp(), (*winograd)(p).ldt()
	rows := min(p.outputs, p.m-from)
	tiles, sums := w.Scratch[:rows*ldt], w.Scratch[p.outputs*ldt:]
	sums, y := sums[:6*out*span], sums[6*out*span:]
	for i := range products {
		if w.Stopped() {
			return
		}
		kernel.PanelsProduct(tiles[i*span:], ldt, p.filters.factors[(from*products+i*rows)*p.cg:], rows, p.cg,
			p.factors[i*ldp:][:p.cg*span], span)
	}
	size, first := p.Oh*p.Ow, out*p.from
	last := min(p.Oh, out*(p.from+p.count))
	for r := range rows {
		m := from + r
		var bias float32
		if p.bias != nil {
			bias = p.bias[m]
		}
		kernel.WinogradColumnSums(sums, 6*span, tiles[r*ldt:], 6*span, 6*span)
		kernel.WinogradTileSums(y, out*span, sums, span, span, out, bias)
		at := (p.sample*p.m+m)*size + first*p.Ow
		for row := first; row < last; row++ {
			copy(p.y[at+(row-first)*p.Ow:][:p.Ow], y[row%out*out*span+(row-first)/out*out*p.tx:])
		}
		n := (last - first) * p.Ow
		if !kernel.Finite(p.y[at : at+n]) {
			p.again(w, m, first, last)
		}
		p.after.Apply(p.e, p.y, &record.Block{At: at, Channel: m, Rows: 1, N: n, Stride: size})
	}
}

// again computes the outputs of a channel that are not finite, in rows first to last-1, as sums.
func (p *winogradOut) again(w *record.Workspace, m, first, last int) {
	x, weights := p.x[p.sample*p.C*p.H*p.Wd:], []float32(nil)
	for row := first; row < last && !w.Stopped(); row++ {
		y := p.y[((p.sample*p.m+m)*p.Oh+row)*p.Ow:][:p.Ow]
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
