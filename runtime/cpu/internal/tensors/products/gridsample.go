package products

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/std"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "GridSample", Tensor: record.TensorKind{Make: gridSampleKernel}})
}

// gridPass samples, in float64, some positions of all channels of a sample per work item. The interpolated elements
// of a position are found once for all channels.
type gridPass struct {
	channels, size, places int
	axes                   int
	parts                  int // work items per sample
	samplers               []*std.GridSampler
	x, grid, y             []float32
}

// gridPlaces is the number of positions of a work item.
const gridPlaces = 1 << 10

// mostGridAxes is the maximum number of coordinates of a position.
const mostGridAxes = 8

func gridSampleKernel(s *lowering.Step) record.TensorMaker {
	if !s.Float32Input(0) || !s.Float32Input(1) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		x, grid := d.ShapeOf(s, 0), d.ShapeOf(s, 1)
		k := len(x) - 2
		if k < 1 || k > mostGridAxes || len(grid) != k+2 || grid[0] != x[0] || grid[k+1] != k ||
			!d.Gives(s, 0, tensor.Float32) ||
			!slices.Equal(d.Shape(s.Out[0]), append(slices.Clone(x[:2]), grid[1:k+1]...)) {
			return nil // the evaluation reports the error
		}
		p := &gridPass{channels: x[1], size: tensors.Product(x[2:]), places: tensors.Product(grid[1 : k+1]), axes: k}
		if p.size == 0 || p.places == 0 || p.channels == 0 {
			return nil
		}
		p.parts = (p.places + gridPlaces - 1) / gridPlaces
		for range x[0] * p.parts {
			p.samplers = append(p.samplers, std.NewGridSampler(s.Node, x[2:]))
		}
		from, at := lowering.Input[float32](d, s, 0), lowering.Input[float32](d, s, 1)
		y := lowering.Output[float32](d, s, 0)
		return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			p.x, p.grid, p.y = from.In(f), at.In(f), y.In(f)
			return e.Parallel(p, len(p.samplers))
		}}
	}
}

func (p *gridPass) Do(w *record.Workspace, t int) {
	b, from := t/p.parts, t%p.parts*gridPlaces
	var place [mostGridAxes]float64
	for i := from; i < min(p.places, from+gridPlaces); i++ {
		for a, v := range p.grid[(b*p.places+i)*p.axes : (b*p.places+i+1)*p.axes] {
			place[a] = float64(v)
		}
		at, weights := p.samplers[t].Taps(place[:p.axes])
		x, y := p.x[b*p.channels*p.size:(b+1)*p.channels*p.size], p.y[b*p.channels*p.places+i:]
		w.Steps.Step(64)
		for c := range ops.Each(w.Steps, p.channels) {
			sum := 0.0
			for j, o := range at {
				sum += weights[j] * float64(x[o])
			}
			y[c*p.places] = float32(sum)
			x = x[p.size:]
		}
	}
}
