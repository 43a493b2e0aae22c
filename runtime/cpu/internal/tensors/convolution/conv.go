package convolution

import (
	"sync"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/internal/windowed"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Conv", Tensor: record.TensorKind{Make: convKernel, Constant: []int{1, 2}}})
}

// filters are the fixed weights of a convolution. They are packed once for each form.
type filters struct {
	s               *lowering.Step // weights are its input 1
	bias            []float32
	m, cg, kh, kw   int // kh: taps of all axes but the last
	group           int
	onceRows, onceP sync.Once
	onceF, onceT    sync.Once
	onceW           sync.Once
	w               []float32        // the unpacked weights, see asGiven
	rows            []float32        // (M, K) or, with a bias, (M, K+1)
	tiles           []float32        // the same, packed per group
	packed          []*kernel.Packed // per group
	factors         []float32        // see asFactors
}

// k returns the number of weights of a filter.
func (f *filters) k() int { return f.cg * f.kh * f.kw }

// width returns the width of rows: k, plus one with a bias, which is multiplied by 1.
func (f *filters) width() int {
	if f.bias != nil {
		return f.k() + 1
	}
	return f.k()
}

// weights returns the weights for packing; packed forms release them.
func (f *filters) weights() []float32 { return record.Numbers(f.s, 1) }

// keep returns a packed form of the weights, and of the bias.
func keep[T any](f *filters, make func() T, fill func(T)) T {
	return record.Keep(f.s, []int{1, 2}, nil, make, fill)
}

// asGiven keeps the weights unpacked.
func (f *filters) asGiven() { f.onceW.Do(func() { f.w = f.weights() }) }

func (f *filters) asRows() {
	f.onceRows.Do(func() {
		if f.bias == nil {
			f.rows = f.weights()
			return
		}
		k := f.k()
		f.rows = keep(f, func() []float32 { return make([]float32, f.m*(k+1)) }, func(rows []float32) {
			defer f.s.Release(1)
			w := f.weights()
			for i := range f.m {
				copy(rows[i*(k+1):], w[i*k:(i+1)*k])
				rows[i*(k+1)+k] = f.bias[i]
			}
		})
	})
}

// asTiles packs the rows of each group one tile at a time, so that there is never a second copy of all.
func (f *filters) asTiles() {
	f.onceT.Do(func() {
		f.tiles = keep(f, func() []float32 { return make([]float32, f.m*f.width()) }, f.fillTiles)
	})
}

func (f *filters) fillTiles(tiles []float32) {
	k, width, mg := f.k(), f.width(), f.m/f.group
	defer f.s.Release(1)
	w := f.weights()
	rows := make([]float32, tileRows*width)
	for from := 0; from < f.m; {
		n := min(tileRows, mg-from%mg)
		for i := range n {
			copy(rows[i*width:], w[(from+i)*k:(from+i+1)*k])
			if f.bias != nil {
				rows[i*width+k] = f.bias[from+i]
			}
		}
		kernel.Tiles(tiles[from*width:], rows, width, n, width)
		from += n
	}
}

func (f *filters) asPacked() []*kernel.Packed {
	f.onceP.Do(func() {
		k, mg := f.k(), f.m/f.group
		f.packed = keep(f, func() (all []*kernel.Packed) {
			for range f.group {
				all = append(all, kernel.NewPacked(mg, k))
			}
			return all
		}, func(all []*kernel.Packed) {
			defer f.s.Release(1)
			w := f.weights()
			for g, p := range all {
				p.Fill(w[g*mg*k:], k, 1)
			}
		})
	})
	return f.packed
}

// conv2d is a convolution over one or two axes for one shape. With one axis, the other has size 1.
type conv2d struct {
	*filters
	windowed.PlanarWindow
	in     lowering.Slot[float32]
	places int // positions of the output per work item
	parts  int // work items per sample and group

	// Set during a run:
	e            record.Execution
	x, y, padded []float32
	after        *record.Epilogue
}

func convKernel(s *lowering.Step) record.TensorMaker {
	ws := s.ConstShape(1)
	if !s.Float32Input(1) || len(ws) < 3 {
		return nil
	}
	f := &filters{s: s, bias: record.Numbers(s, 2), m: ws[0], cg: ws[1], kh: tensors.Product(ws[2 : len(ws)-1]),
		kw: ws[len(ws)-1], group: int(ops.Int(s.Node, "group"))}
	if f.group < 1 || f.m%f.group != 0 || f.m == 0 || f.k() == 0 || f.bias != nil && len(f.bias) != f.m {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		if !d.Typed(s, 0, tensor.Float32) || !d.Gives(s, 0, tensor.Float32) {
			return nil
		}
		if len(ws) > 4 {
			return newConvND(d, s, f, ws[2:])
		}
		in, out := d.ShapeOf(s, 0), d.Shape(s.Out[0])
		if len(in) != len(ws) {
			return nil
		}
		p, ok := windowed.Planar(s.Node, in, out, f.kh, f.kw)
		if !ok || p.C != f.cg*f.group {
			return nil
		}
		c := conv2d{filters: f, PlanarWindow: p, in: lowering.Input[float32](d, s, 0)}
		if f.cg == 1 && f.group > 1 {
			return c.depthwise()
		}
		if p := c.newWinograd(); p != nil {
			return p.kernel()
		}
		if c.framed() {
			return c.frames()
		}
		return c.panels()
	}
}

// pads reports whether the input must be copied to a padded one.
func (c *conv2d) pads() bool { return c.Hp != c.H || c.Wp != c.Wd }

// start sets the buffers of a run, and pads the input if necessary.
func (c *conv2d) start(e record.Execution, call record.Call) error {
	f := e.Frame()
	c.e, c.x, c.y, c.after = e, c.in.In(f), call.Result.In(f), call.Epilogue
	c.padded = c.x
	if !c.pads() {
		return nil
	}
	c.padded = call.Temp
	return e.Parallel((*padPass)(c), c.N*c.C)
}

// padPass copies channels into the padded input.
type padPass conv2d

func (p *padPass) Do(_ *record.Workspace, k int) {
	pad(p.padded[k*p.Hp*p.Wp:(k+1)*p.Hp*p.Wp], p.x[k*p.H*p.Wd:(k+1)*p.H*p.Wd], p.H, p.Wd, p.Wp, p.Top, p.Left)
}

// pad copies rows of w numbers into rows of wp numbers, and clears the numbers around them.
func pad(dst, src []float32, h, w, wp, top, left int) {
	if h == 0 {
		clear(dst)
		return
	}
	// The gap between two rows is small, so a loop is faster than a call.
	at := top*wp + left
	clear(dst[:at])
	for r := range h {
		copy(dst[at:at+w], src[r*w:(r+1)*w])
		end := at + wp
		if r == h-1 {
			end = len(dst)
		}
		for i := at + w; i < end; i++ {
			dst[i] = 0
		}
		at = end
	}
}

func (c *conv2d) padBytes() int {
	if !c.pads() {
		return 0
	}
	return c.N * c.C * c.Hp * c.Wp
}

// framed reports whether the form frames is faster. It is if there are few positions, or if the inputs of a position
// are contiguous.
func (c *conv2d) framed() bool {
	places, mg := c.Oh*c.Ow, c.m/c.group
	if c.cg == 1 && c.kh == 1 && c.Dw == 1 && c.kw >= 32 {
		return true
	}
	// Estimates in units of the kernel's time for one row and panel, including gathering: a panel in quarters or by
	// numbers, a frame by numbers.
	const row, latency, quarters, gather, frame = 6, 4, 3, 16, 4
	panel := (mg+row-1)/row*row + gather
	if c.Sw == 1 && c.Ow%4 == 0 {
		panel += quarters - gather
	}
	byPanels := (places + kernel.PanelWidth - 1) / kernel.PanelWidth * panel
	full, rest := places/row*row, places%row
	if rest > 0 {
		full += max(rest, latency)
	}
	byFrames := (mg+kernel.PanelWidth-1)/kernel.PanelWidth*full + frame*places
	return places <= fewPlaces && byFrames < byPanels
}

// fewPlaces is the maximum number of positions that count as few.
const fewPlaces = 96

// contiguousFrames reports whether the inputs of a position are contiguous.
func (c *conv2d) contiguousFrames() bool { return c.cg == 1 && c.kh == 1 && c.Dw == 1 && c.Oh == 1 }

// maxFrames is the maximum number of positions of a work item.
const maxFrames = 48

// frames returns the form for few positions: each is a row of K numbers, multiplied by the packed filters.
func (c conv2d) frames() *record.TensorKernel {
	size := c.Oh * c.Ow
	if size <= fewPlaces && !c.contiguousFrames() {
		return c.fewFrames()
	}
	c.places = min(size, maxFrames)
	c.parts = (size + c.places - 1) / c.places
	run := (*framePass)(&c)
	return &record.TensorKernel{Fuses: true, Temp: c.padBytes(), Scratch: c.places * (c.k() + c.m/c.group),
		Run: func(e record.Execution, call record.Call) error {
			if err := c.start(e, call); err != nil {
				return err
			}
			c.asPacked()
			return e.Parallel(run, c.N*c.group*c.parts)
		}}
}

// framePass computes some positions of one sample and group.
type framePass conv2d

func (p *framePass) Do(w *record.Workspace, k int) {
	part, g, n := k%p.parts, k/p.parts%p.group, k/p.parts/p.group
	mg, size, width := p.m/p.group, p.Oh*p.Ow, p.cg*p.kh*p.kw
	src := p.padded[(n*p.C+g*p.cg)*p.Hp*p.Wp : (n*p.C+(g+1)*p.cg)*p.Hp*p.Wp]
	from := part * p.places
	count := min(p.places, size-from)
	var bias []float32
	if p.bias != nil {
		bias = p.bias[g*mg : (g+1)*mg]
	}
	x, ldx := w.Scratch[:count*width], width
	if (*conv2d)(p).contiguousFrames() {
		x, ldx = src[from*p.Sw:], p.Sw
	} else {
		for i := range count {
			r, col := (from+i)/p.Ow, (from+i)%p.Ow
			(*conv2d)(p).frame(x[i*width:(i+1)*width], src[r*p.Sh*p.Wp+col*p.Sw:], p.cg)
		}
	}
	y := p.y[(n*p.m+g*mg)*size : (n*p.m+(g+1)*mg)*size]
	if size == 1 {
		kernel.Gemm(y, mg, x, ldx, 1, p.packed[g], bias, false)
		p.after.Apply(p.e, p.y, &record.Block{At: (n*p.m + g*mg) * size, Channel: g * mg, Rows: mg, N: 1, Stride: 1})
		return
	}
	t := w.Scratch[p.places*width : p.places*width+count*mg]
	kernel.Gemm(t, mg, x, ldx, count, p.packed[g], bias, false)
	for i := range mg {
		row := y[i*size+from : i*size+from+count]
		for j := range row {
			row[j] = t[j*mg+i]
		}
	}
	p.after.Apply(p.e, p.y, &record.Block{At: (n*p.m+g*mg)*size + from, Channel: g * mg, Rows: mg, N: count, Stride: size})
}

// frame copies the inputs of one position, for some channels.
func (p *conv2d) frame(dst, src []float32, channels int) {
	kw, dw, plane, line := p.kw, p.Dw, p.Hp*p.Wp, p.Dh*p.Wp
	for ch := range channels {
		for i := range p.kh {
			row := src[ch*plane+i*line:]
			to := dst[:kw]
			dst = dst[kw:]
			switch {
			case dw > 1:
				for j := range to {
					to[j] = row[j*dw]
				}
			case kw == 3:
				*(*[3]float32)(to) = [3]float32(row)
			case len(to) < 8: // faster than a call
				for j, v := range row[:len(to)] {
					to[j] = v
				}
			default:
				copy(to, row)
			}
		}
	}
}
