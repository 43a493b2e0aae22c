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
	record.Register(record.Record{Op: "RoiAlign", Tensor: record.TensorKind{Make: roiKernel}})
}

// roiPass samples the bins of one region per work item. It finds the elements for some samples once for all
// channels.
type roiPass[T float32 | float64] struct {
	bins           *std.RoiBins
	channels, size int
	rows, columns  int // of bins
	greatest       bool
	x, rois, y     []T
	samples        []int64
	at             []int // 4 for each of roiSamples samples, for each region
	weights        []T
}

// roiSamples is the number of samples whose elements are found at once.
const roiSamples = 64

func roiKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) || s.Absent(1) || s.Absent(2) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		if d.Typed(s, 0, tensor.Float64) {
			return newRoi[float64](d, s, tensor.Float64)
		}
		return newRoi[float32](d, s, tensor.Float32)
	}
}

func newRoi[T float32 | float64](d *lowering.Binding, s *lowering.Step, dtype tensor.DType) *record.TensorKernel {
	x, rois := d.ShapeOf(s, 0), d.ShapeOf(s, 1)
	if !d.Typed(s, 0, dtype) || !d.Typed(s, 1, dtype) || !d.Typed(s, 2, tensor.Int64) || !d.Gives(s, 0, dtype) ||
		len(x) != 4 || len(rois) != 2 || rois[1] != 4 || !slices.Equal(d.ShapeOf(s, 2), rois[:1]) || tensors.Product(x) == 0 {
		return nil // the evaluation reports the error
	}
	n := rois[0]
	p := &roiPass[T]{bins: std.NewRoiBins(s.Node, x[2], x[3]), channels: x[1], size: x[2] * x[3],
		rows: int(ops.Int(s.Node, "output_height")), columns: int(ops.Int(s.Node, "output_width")),
		greatest: s.Node.Attrs.Str("mode", "avg") == "max"}
	if !slices.Equal(d.Shape(s.Out[0]), []int{n, p.channels, p.rows, p.columns}) {
		return nil
	}
	p.at, p.weights = lowering.Make[int](d, n*roiSamples*4), lowering.Make[T](d, n*roiSamples*4)
	from, boxes, y := lowering.Input[T](d, s, 0), lowering.Input[T](d, s, 1), lowering.Output[T](d, s, 0)
	samples := lowering.Input[int64](d, s, 2)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.rois, p.samples, p.y = from.In(f), boxes.In(f), samples.In(f), y.In(f)
		for i, b := range ops.All(e.Steps(), p.samples) {
			if _, err := p.region(i); err != nil || b < 0 || b >= int64(x[0]) {
				return e.Fallback(s) // returns the error
			}
		}
		return e.Parallel(p, n)
	}}
}

func (p *roiPass[T]) region(i int) (std.RoiRegion, error) {
	r := p.rois[4*i : 4*i+4]
	return p.bins.Region([4]float64{float64(r[0]), float64(r[1]), float64(r[2]), float64(r[3])})
}

func (p *roiPass[T]) Do(w *record.Workspace, i int) {
	region, _ := p.region(i)
	rows, columns := region.Samples()
	bins := p.rows * p.columns
	y := p.y[i*p.channels*bins : (i+1)*p.channels*bins]
	x := p.x[int(p.samples[i])*p.channels*p.size:][:p.channels*p.size]
	for bin := range bins {
		w.Steps.Step(p.channels)
		for c := range p.channels {
			y[c*bins+bin] = 0
		}
		for from := 0; from < rows*columns; from += roiSamples {
			n := min(roiSamples, rows*columns-from)
			at, weights := p.at[4*i*roiSamples:][:4*n], p.weights[4*i*roiSamples:][:4*n]
			share := 1 / float64(rows*columns)
			if p.greatest {
				share = 1
			}
			w.Steps.Step(16 * n)
			for k := range n {
				o, f := region.Taps(bin/p.columns, bin%p.columns, (from+k)/columns, (from+k)%columns)
				for j, v := range f {
					at[4*k+j], weights[4*k+j] = o[j], T(v*share)
				}
			}
			for c := range p.channels {
				w.Steps.Step(4 * n)
				plane, out := x[c*p.size:(c+1)*p.size], &y[c*bins+bin]
				if p.greatest {
					*out = greatestTerm(plane, at, weights, *out, from > 0)
				} else {
					*out += sampleSum(plane, at, weights)
				}
			}
		}
	}
}

// sampleSum sums elements with their weights.
func sampleSum[T float32 | float64](plane []T, at []int, weights []T) (sum T) {
	for ; len(at) >= 4 && len(weights) >= 4; at, weights = at[4:], weights[4:] {
		sum += weights[0]*plane[at[0]] + weights[1]*plane[at[1]] + weights[2]*plane[at[2]] + weights[3]*plane[at[3]]
	}
	return sum
}

// greatestTerm returns the greatest product of an element and its weight, or best if that is greater. any reports
// whether best is valid.
func greatestTerm[T float32 | float64](plane []T, at []int, weights []T, best T, any bool) T {
	for ; len(at) >= 4; at, weights = at[4:], weights[4:] {
		term := max(weights[0]*plane[at[0]], weights[1]*plane[at[1]], weights[2]*plane[at[2]], weights[3]*plane[at[3]])
		if !any || term > best {
			best, any = term, true
		}
	}
	return best
}
