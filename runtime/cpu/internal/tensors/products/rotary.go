package products

import (
	"math"
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "RotaryEmbedding", Tensor: record.TensorKind{Make: rotaryKernel(1, 2, 3), Float32: true}},
		record.Record{Op: "com.microsoft.RotaryEmbedding",
			Tensor: record.TensorKind{Make: rotaryKernel(2, 3, 1), Float32: true}},
	)
}

// rotaryPass rotates pairs of features: each number times a cosine, plus the other number of its pair times a sine,
// which is negated for the first of a pair.
type rotaryPass struct {
	heads, steps, size int // per sample; features of a head
	turned, most       int // number of rotated features; steps per work item
	parts              int // work items per sample
	together, one      bool
	step, head         int // strides of steps and of heads
	rows               int // rows of the caches; 0 if the caches have one row per sample and step
	x, y, cos, sin     []float32
	positions          []int64
}

// rotaryKernel needs the input indices of the caches and of the positions.
func rotaryKernel(cos, sin, at int) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		for _, i := range []int{0, cos, sin} {
			if s.Absent(i) || !s.Float32Input(i) {
				return nil
			}
		}
		microsoft := at == 1
		if a := s.Node.Attrs; microsoft && (s.Absent(at) || a.Bool("is_packed_batching", false) || a.Float("scale", 1) != 1) {
			return nil
		}
		return func(d *lowering.Binding) *record.TensorKernel {
			p := newRotary(d, s, d.ShapeOf(s, cos), microsoft)
			if p == nil || !slices.Equal(d.ShapeOf(s, cos), d.ShapeOf(s, sin)) || !d.Gives(s, 0, tensor.Float32) ||
				!slices.Equal(d.Shape(s.Out[0]), d.ShapeOf(s, 0)) {
				return nil // the evaluation reports the error
			}
			var places lowering.Slot[int64]
			samples := d.ShapeOf(s, 0)[0]
			if !s.Absent(at) {
				shape := d.ShapeOf(s, at)
				p.one = microsoft && len(shape) == 1 && shape[0] == 1
				if !d.Typed(s, at, tensor.Int64) || !p.one && !slices.Equal(shape, []int{samples, p.steps}) {
					return nil
				}
				places = lowering.Input[int64](d, s, at)
			}
			x, y := lowering.Input[float32](d, s, 0), lowering.Output[float32](d, s, 0)
			c, n := lowering.Input[float32](d, s, cos), lowering.Input[float32](d, s, sin)
			return &record.TensorKernel{Scratch: 3 * p.most * p.turned, Run: func(e record.Execution, _ record.Call) error {
				f := e.Frame()
				p.x, p.y, p.cos, p.sin, p.positions = x.In(f), y.In(f), c.In(f), n.In(f), places.In(f)
				e.Steps().Step(len(p.positions))
				for _, v := range p.positions {
					if p.one { // the last step has the greatest position
						if v < 0 || v > math.MaxInt32 {
							return e.Fallback(s)
						}
						v += int64(p.steps) - 1
					}
					if v < -int64(p.rows) || v >= int64(p.rows) {
						return e.Fallback(s) // returns the error
					}
				}
				return e.Parallel(p, samples*p.parts)
			}}
		}
	}
}

// newRotary reads the sizes of a step. It returns nil if they do not match.
func newRotary(d *lowering.Binding, s *lowering.Step, cache []int, microsoft bool) *rotaryPass {
	shape, heads := d.ShapeOf(s, 0), int(s.Node.Attrs.Int("num_heads", 0))
	p := &rotaryPass{together: s.Node.Attrs.Int("interleaved", 0) != 0}
	turned := int(s.Node.Attrs.Int("rotary_embedding_dim", 0))
	if len(cache) == 0 {
		return nil
	}
	switch len(shape) {
	case 3:
		if heads == 0 && microsoft {
			heads = shape[2] / max(1, 2*cache[len(cache)-1])
		}
		if heads < 1 || shape[2]%heads != 0 {
			return nil
		}
		p.heads, p.steps, p.size = heads, shape[1], shape[2]/heads
		p.step, p.head = shape[2], p.size
	case 4:
		p.heads, p.steps, p.size = shape[1], shape[2], shape[3]
		p.step, p.head = p.size, p.size*p.steps
	default:
		return nil
	}
	if p.turned = turned; turned == 0 {
		p.turned = p.size
		if microsoft {
			p.turned = 2 * cache[len(cache)-1]
		}
	}
	if p.turned < 2 || p.turned > p.size || p.turned%2 != 0 || tensors.Product(shape) == 0 || p.turned > 1<<12 {
		return nil
	}
	switch {
	case len(cache) == 2 && cache[1] == p.turned/2 && len(s.In) > 3 && !s.Absent(3):
		p.rows = cache[0]
	case slices.Equal(cache, []int{shape[0], p.steps, p.turned / 2}) && !microsoft && s.Absent(3):
	default:
		return nil
	}
	p.most = min(p.steps, max(1, 1<<12/p.turned))
	p.parts = (p.steps + p.most - 1) / p.most
	return p
}

func (p *rotaryPass) Do(w *record.Workspace, k int) {
	sample, first := k/p.parts, k%p.parts*p.most
	steps, n := min(p.most, p.steps-first), p.most*p.turned
	cos, sin, other := w.Scratch[:n], w.Scratch[n:2*n], w.Scratch[2*n:3*n]
	for t := range steps {
		p.tables(cos[t*p.turned:][:p.turned], sin[t*p.turned:][:p.turned], sample, first+t)
	}
	base := sample*p.heads*p.steps*p.size + first*p.step
	whole := p.step == p.turned // all steps of a head are contiguous
	for h := range p.heads {
		w.Steps.Step(steps * p.size)
		at := base + h*p.head
		if n := steps * p.turned; whole && p.together { // all pairs are adjacent
			p.exchange(other[:n], p.x[at:])
			rotate(p.y[at:at+n], p.x[at:], other, cos, sin)
			continue
		}
		for t := range steps {
			x := p.x[at+t*p.step:][:p.size]
			p.exchange(other[t*p.turned:][:p.turned], x)
			if whole {
				continue
			}
			y := p.y[at+t*p.step:][:p.size]
			copy(y[p.turned:], x[p.turned:])
			rotate(y[:p.turned], x, other[t*p.turned:], cos[t*p.turned:], sin[t*p.turned:])
		}
		if n := steps * p.turned; whole {
			rotate(p.y[at:at+n], p.x[at:], other, cos, sin)
		}
	}
}

// rotate sets y to x·cos + other·sin. It overwrites other.
func rotate(y, x, other, cos, sin []float32) {
	n := len(y)
	kernel.Mul(other[:n], other[:n], sin[:n])
	kernel.Mul(y, x[:n], cos[:n])
	kernel.Add(y, y, other[:n])
}

// tables sets the factors for the features of a step.
func (p *rotaryPass) tables(cos, sin []float32, sample, step int) {
	at, half := sample*p.steps+step, p.turned/2
	switch {
	case p.one:
		at = int(p.positions[0]) + step
	case p.rows > 0:
		if at = int(p.positions[at]); at < 0 {
			at += p.rows
		}
	}
	c, s := p.cos[at*half:(at+1)*half], p.sin[at*half:(at+1)*half]
	if !p.together {
		copy(cos, c)
		copy(cos[half:], c)
		copy(sin[half:], s)
		for i, v := range s {
			sin[i] = -v
		}
		return
	}
	for i, v := range s {
		cos[2*i], cos[2*i+1] = c[i], c[i]
		sin[2*i], sin[2*i+1] = -v, v
	}
}

// exchange sets y to the features of x, with the two of each pair exchanged.
func (p *rotaryPass) exchange(y, x []float32) {
	half := p.turned / 2
	if !p.together {
		copy(y[:half], x[half:])
		copy(y[half:], x[:half])
		return
	}
	x = x[:len(y)]
	for len(x) >= 8 && len(y) >= 8 {
		a, b := x[:8], y[:8]
		b[0], b[1], b[2], b[3] = a[1], a[0], a[3], a[2]
		b[4], b[5], b[6], b[7] = a[5], a[4], a[7], a[6]
		x, y = x[8:], y[8:]
	}
	for i := 1; i < len(y); i += 2 {
		y[i-1], y[i] = x[i], x[i-1]
	}
}
