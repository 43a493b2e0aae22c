package products

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "Attention", Tensor: record.TensorKind{Make: attentionKernel}})
}

// headed is the layout of a tensor (B,H,S,E) or (B,S,H·E).
type headed struct {
	b, h, s, e          int
	sample, head, place int // strides
}

func newHeaded(shape []int, heads int) (t headed, ok bool) {
	switch {
	case len(shape) == 4:
		b, h, s, e := shape[0], shape[1], shape[2], shape[3]
		return headed{b, h, s, e, h * s * e, s * e, e}, true
	case len(shape) == 3 && heads > 0 && shape[2]%heads == 0:
		b, s, e := shape[0], shape[1], shape[2]/heads
		return headed{b, heads, s, e, s * heads * e, e, heads * e}, true
	}
	return t, false
}

func (t *headed) at(b, h, s int) int { return b*t.sample + h*t.head + s*t.place }

// attentionPass is Attention for one shape. Once per run, keys are transposed, and values laid out in panels. Then
// blocks of queries are multiplied with the keys that causality and windows allow.
type attentionPass struct {
	q, k, v, y           headed
	past, keys           int // steps before k, and all steps
	scale, softcap       float32
	causal               bool
	left, right          int
	mask                 [4]int // strides
	maskKeys             int
	rows, blocks         int // queries per work item, work items per head
	padded, keyed, width int // keys in whole panels; numbers in the panels of a head's keys, and of both

	in attentionSlots
	// Set during a run:
	qs, ks, vs, pastK, pastV, ys []float32
	presentK, presentV           []float32
	floats                       []float32 // of the mask
	bools                        []bool
	lens                         []int64
	panels                       []float32
	odd                          atomic.Bool // a value is not finite
}

// attentionSlots has the slots of the operands and results; absent ones are zero.
type attentionSlots struct {
	q, k, v, pastK, pastV, y, presentK, presentV, floats lowering.Slot[float32]
	bools                                                lowering.Slot[bool]
	lens                                                 lowering.Slot[int64]
}

func newAttentionSlots(d *lowering.Binding, s *lowering.Step) attentionSlots {
	a := attentionSlots{
		q:        lowering.Input[float32](d, s, 0),
		k:        lowering.Input[float32](d, s, 1),
		v:        lowering.Input[float32](d, s, 2),
		pastK:    lowering.Input[float32](d, s, 4),
		pastV:    lowering.Input[float32](d, s, 5),
		lens:     lowering.Input[int64](d, s, 6),
		y:        lowering.Output[float32](d, s, 0),
		presentK: lowering.Output[float32](d, s, 1),
		presentV: lowering.Output[float32](d, s, 2),
	}
	if d.Typed(s, 3, tensor.Bool) {
		a.bools = lowering.Input[bool](d, s, 3)
	} else {
		a.floats = lowering.Input[float32](d, s, 3)
	}
	return a
}

func attentionKernel(s *lowering.Step) record.TensorMaker {
	a := s.Node.Attrs
	if len(s.Node.Outputs) > 3 && s.Node.Outputs[3] != nil {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		for i := range s.In {
			want := tensor.Float32
			switch {
			case s.Absent(i):
				continue
			case i == 3 && d.Typed(s, 3, tensor.Bool):
				want = tensor.Bool
			case i == 6:
				want = tensor.Int64
			}
			if !d.Typed(s, i, want) {
				return nil
			}
		}
		for i, v := range s.Out {
			if v != nil && !d.Gives(s, i, tensor.Float32) {
				return nil
			}
		}
		if s.Absent(0) || s.Absent(1) || s.Absent(2) || s.Out[0] == nil || s.Absent(4) != s.Absent(5) {
			return nil
		}
		heads, kvHeads := int(a.Int("q_num_heads", 0)), int(a.Int("kv_num_heads", 0))
		p := &attentionPass{causal: a.Int("is_causal", 0) != 0, left: int(a.Int("left_window_size", -1)),
			right: int(a.Int("right_window_size", -1)), softcap: float32(a.Float("softcap", 0))}
		var ok [4]bool
		p.q, ok[0] = newHeaded(d.ShapeOf(s, 0), heads)
		p.k, ok[1] = newHeaded(d.ShapeOf(s, 1), kvHeads)
		p.v, ok[2] = newHeaded(d.ShapeOf(s, 2), kvHeads)
		p.y, ok[3] = newHeaded(d.Shape(s.Out[0]), heads)
		if slices.Contains(ok[:], false) || p.left < -1 || p.right < -1 {
			return nil
		}
		p.keys = p.k.s
		if past := d.ShapeOf(s, 4); past != nil {
			if len(past) != 4 || !slices.Equal(past, []int{p.k.b, p.k.h, past[2], p.k.e}) ||
				!slices.Equal(d.ShapeOf(s, 5), []int{p.v.b, p.v.h, past[2], p.v.e}) {
				return nil
			}
			p.past = past[2]
			p.keys += p.past
		}
		p.maskKeys = p.keys
		q, k, v, y := &p.q, &p.k, &p.v, &p.y
		if q.b != k.b || q.b != v.b || k.h != v.h || k.s != v.s || q.e != k.e || q.b*q.h*q.s*p.keys*q.e*v.e == 0 ||
			q.h%k.h != 0 ||
			y.b != q.b || y.h != q.h || y.s != q.s || y.e != v.e {
			return nil
		}
		if !s.Absent(6) && !slices.Equal(d.ShapeOf(s, 6), []int{q.b}) || !s.Absent(3) && !p.masked(d.ShapeOf(s, 3)) {
			return nil
		}
		p.scale = float32(a.Float("scale", 1/math.Sqrt(float64(q.e))))
		const panel, tile = kernel.PanelWidth, 1 << 15
		p.padded = (p.keys + panel - 1) / panel * panel
		p.keyed = p.padded * q.e
		p.width = p.keyed + (v.e+panel-1)/panel*panel*p.keys
		p.rows = min(q.s, max(12, min(96, tile/p.padded/6*6)))
		p.blocks = (q.s + p.rows - 1) / p.rows
		p.in = newAttentionSlots(d, s)
		return &record.TensorKernel{Temp: k.b * k.h * p.width, Scratch: p.rows * p.padded,
			Run: func(e record.Execution, call record.Call) error {
				p.start(e.Frame(), call)
				if err := e.Parallel((*attentionPack)(p), k.b*k.h); err != nil {
					return err
				}
				if p.odd.Load() { // what has no weight must not affect the answer
					return e.Fallback(s)
				}
				return e.Parallel(p, q.b*q.h*p.blocks)
			}}
	}
}

// masked finds how a mask of a shape broadcasts; the last axis may be short.
func (p *attentionPass) masked(shape []int) bool {
	rank := len(shape)
	if rank < 1 || rank > 4 || shape[rank-1] > p.keys {
		return false
	}
	p.maskKeys = shape[rank-1]
	full, stride := [4]int{p.q.b, p.q.h, p.q.s, p.keys}, 1
	for i := rank - 1; i >= 0; i-- {
		switch at := 4 - rank + i; {
		case at == 3 || shape[i] == full[at]:
			p.mask[at] = stride
		case shape[i] != 1:
			return false
		}
		stride *= shape[i]
	}
	return true
}

// start finds the buffers of a run.
func (p *attentionPass) start(f *lowering.Frame, call record.Call) {
	in := &p.in
	p.qs, p.ks, p.vs, p.ys = in.q.In(f), in.k.In(f), in.v.In(f), in.y.In(f)
	p.pastK, p.pastV, p.presentK, p.presentV = in.pastK.In(f), in.pastV.In(f), in.presentK.In(f), in.presentV.In(f)
	p.panels, p.floats, p.bools, p.lens = call.Temp, in.floats.In(f), in.bools.In(f), in.lens.In(f)
	p.odd.Store(false)
}

// attentionPack lays out the keys and values of one head.
type attentionPack attentionPass

func (p *attentionPack) Do(_ *record.Workspace, t int) {
	b, h := t/p.k.h, t%p.k.h
	keys, values := p.panels[t*p.width:t*p.width+p.keyed], p.panels[t*p.width+p.keyed:(t+1)*p.width]
	for from := 0; from < p.padded; from += kernel.PanelWidth {
		panel := keys[from*p.k.e : (from+kernel.PanelWidth)*p.k.e]
		if from+kernel.PanelWidth > p.keys {
			clear(panel)
		}
		for j := from; j < min(from+kernel.PanelWidth, p.keys); { // steps from one source
			src, n, ld := p.source(&p.k, p.pastK, p.ks, b, h, j)
			n = min(n, from+kernel.PanelWidth-j)
			kernel.Transpose(panel[j-from:], kernel.PanelWidth, src, ld, n, p.k.e)
			j += n
		}
	}
	for col := 0; col < p.v.e; col += kernel.PanelWidth {
		panel, n := values[col*p.keys:(col+kernel.PanelWidth)*p.keys], min(kernel.PanelWidth, p.v.e-col)
		if n < kernel.PanelWidth {
			clear(panel)
		}
		for j := 0; j < p.keys; {
			src, count, ld := p.source(&p.v, p.pastV, p.vs, b, h, j)
			for r := range count {
				copy(panel[(j+r)*kernel.PanelWidth:], src[r*ld+col:r*ld+col+n])
			}
			j += count
		}
	}
	if lo, hi := kernel.Extremes(values); !(lo >= -math.MaxFloat32 && hi <= math.MaxFloat32) {
		p.odd.Store(true)
	}
	p.join(p.presentK, &p.k, p.pastK, p.ks, b, h)
	p.join(p.presentV, &p.v, p.pastV, p.vs, b, h)
}

// source returns step j of the past and current steps, the number of steps in its source from it on, and their
// stride.
func (p *attentionPack) source(t *headed, past, now []float32, b, h, j int) (src []float32, n, ld int) {
	if j < p.past {
		return past[((b*t.h+h)*p.past+j)*t.e:], p.past - j, t.e
	}
	return now[t.at(b, h, j-p.past):], p.keys - j, t.place
}

// join writes a head of the present output, if that is wanted.
func (p *attentionPack) join(present []float32, t *headed, past, now []float32, b, h int) {
	if present == nil {
		return
	}
	dst := present[(b*t.h+h)*p.keys*t.e:]
	for j := range p.keys {
		src, _, _ := p.source(t, past, now, b, h, j)
		copy(dst[j*t.e:(j+1)*t.e], src)
	}
}

// span returns the range of keys that query i of a sample may see.
func (p *attentionPass) span(b, i int) (from, to int) {
	at, to := p.past+i, p.keys
	if p.lens != nil {
		n := p.lens[b]
		to = int(min(max(n, 0), int64(p.keys)))
		if p.pastK == nil { // all existing keys, valid or not
			at = int(min(max(n, -1<<30), 1<<30)) - p.q.s + i
		}
	}
	to = min(to, p.maskKeys)
	if p.causal {
		to = min(to, at+1)
	}
	if p.right >= 0 {
		to = min(to, at+p.right+1)
	}
	if p.left >= 0 {
		from = max(0, at-p.left)
	}
	return min(from, p.keys), max(to, min(from, p.keys))
}

func (p *attentionPass) Do(w *record.Workspace, t int) {
	block, h, b := t%p.blocks, t/p.blocks%p.q.h, t/p.blocks/p.q.h
	first := block * p.rows
	rows := min(p.rows, p.q.s-first)
	from, to := p.keys, 0
	for i := range rows {
		if lo, hi := p.span(b, first+i); lo < hi {
			from, to = min(from, lo), max(to, hi)
		}
	}
	y := p.ys[p.y.at(b, h, first):]
	if from >= to {
		for i := range rows {
			clear(y[i*p.y.place : i*p.y.place+p.y.e])
		}
		return
	}
	const panel = kernel.PanelWidth
	head := b*p.k.h + h/(p.q.h/p.k.h)
	keys, values := p.panels[head*p.width:head*p.width+p.keyed], p.panels[head*p.width+p.keyed:(head+1)*p.width]
	scores := w.Scratch[:rows*p.padded]
	queries := p.qs[p.q.at(b, h, first):]
	for j := from / panel * panel; j < to; j += panel {
		kernel.PanelProduct(scores[j:], p.padded, queries, p.q.place, rows, p.q.e, keys[j*p.q.e:(j+panel)*p.q.e], panel)
	}
	for i := range rows {
		p.weights(scores[i*p.padded:i*p.padded+p.keys], b, h, first+i, from, to)
	}
	for col := 0; col < p.v.e; col += panel {
		kernel.PanelProduct(y[col:], p.y.place, scores[from:], p.padded, rows, to-from, values[col*p.keys+from*panel:],
			min(panel, p.v.e-col))
	}
}

// weights turns a query's products between from and to into weights. Hidden keys get weight 0.
func (p *attentionPass) weights(row []float32, b, h, i, from, to int) {
	lo, hi := p.span(b, i)
	s := row[lo:hi]
	kernel.MulS(s, s, p.scale)
	if p.softcap > 0 {
		kernel.DivS(s, s, p.softcap)
		kernel.Tanh(s, s)
		kernel.MulS(s, s, p.softcap)
	}
	at := b*p.mask[0] + h*p.mask[1] + i*p.mask[2] + lo
	some := lo < hi
	out := float32(math.Inf(-1))
	switch {
	case !some:
	case p.bools != nil:
		some = false
		for j, keep := range p.bools[at : at+hi-lo] {
			if some = some || keep; !keep {
				s[j] = out
			}
		}
	case p.floats != nil:
		mask := p.floats[at : at+hi-lo]
		if some = kernel.Greatest(mask) != out; !some {
			break
		}
		if top := kernel.Greatest(s); top <= math.MaxFloat32 {
			kernel.Add(s, s, mask)
			break
		}
		for j, x := range mask { // -Inf excludes a key, whatever the product
			if s[j] += x; x == out {
				s[j] = x
			}
		}
	}
	clear(row[from:min(max(lo, from), to)])
	clear(row[max(min(hi, to), from):to])
	if some {
		kernel.Softmax(s, s)
	} else {
		clear(s)
	}
}
