package models

import (
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "ai.onnx.ml.Normalizer", Tensor: record.TensorKind{Make: normalizerKernel}})
}

// normalizerPass divides samples by their norms, in float64.
type normalizerPass[T numbers] struct {
	featureRows
	norm string
	x    []T
	y    []float32
}

func normalizerKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		switch {
		case !d.Gives(s, 0, tensor.Float32) || len(d.ShapeOf(s, 0)) > 2: // the evaluation reports the error
		case d.Typed(s, 0, tensor.Float32):
			return newNormalizer[float32](d, s)
		case d.Typed(s, 0, tensor.Float64):
			return newNormalizer[float64](d, s)
		case d.Typed(s, 0, tensor.Int32):
			return newNormalizer[int32](d, s)
		case d.Typed(s, 0, tensor.Int64):
			return newNormalizer[int64](d, s)
		}
		return nil
	}
}

func newNormalizer[T numbers](d *lowering.Binding, s *lowering.Step) *record.TensorKernel {
	rows, ok := newFeatureRows(d.ShapeOf(s, 0))
	if !ok {
		return nil
	}
	p := &normalizerPass[T]{featureRows: rows, norm: ops.Str(s.Node, "norm")}
	x, y := lowering.Input[T](d, s, 0), lowering.Output[float32](d, s, 0)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y = x.In(f), y.In(f)
		return e.Parallel(p, p.items())
	}}
}

func (p *normalizerPass[T]) Do(w *record.Workspace, item int) {
	lo, hi := p.of(item)
	for r := lo; r < hi; r++ {
		x := p.x[r*p.cols : (r+1)*p.cols]
		d := normOf(w.Steps, p.norm, x)
		if d == 0 {
			d = 1
		}
		inv := 1 / d
		multiplies := math.Abs(inv) > 0x1p-1000 && math.Abs(inv) < 0x1p1000
		for from, to := range ops.Parts(w.Steps, p.cols) {
			x := x[from:to]
			y := p.y[r*p.cols+from:][:len(x)]
			if multiplies {
				for i, v := range x {
					y[i] = float32(float64(v) * inv)
				}
				continue
			}
			for i, v := range x {
				y[i] = float32(float64(v) / d)
			}
		}
	}
}

// normOf returns the greatest element, the sum of absolute values, or the Euclidean norm. Sums are in four parts.
func normOf[T numbers](c *ir.EvalCtx, kind string, x []T) float64 {
	if kind == "MAX" {
		most := math.Inf(-1)
		for lo, hi := range ops.Parts(c, len(x)) {
			for _, v := range x[lo:hi] {
				if v := float64(v); v > most || v != v {
					most = v
				}
			}
		}
		return most
	}
	var s [4]float64
	for lo, hi := range ops.Parts(c, len(x)) {
		part := x[lo:hi]
		i := 0
		if kind == "L1" {
			for ; i+4 <= len(part); i += 4 {
				p := part[i : i+4 : i+4]
				s[0] += math.Abs(float64(p[0]))
				s[1] += math.Abs(float64(p[1]))
				s[2] += math.Abs(float64(p[2]))
				s[3] += math.Abs(float64(p[3]))
			}
			for _, v := range part[i:] {
				s[0] += math.Abs(float64(v))
			}
			continue
		}
		for ; i+4 <= len(part); i += 4 {
			p := part[i : i+4 : i+4]
			a, b, c, d := float64(p[0]), float64(p[1]), float64(p[2]), float64(p[3])
			s[0] += a * a
			s[1] += b * b
			s[2] += c * c
			s[3] += d * d
		}
		for _, v := range part[i:] {
			s[0] += float64(v) * float64(v)
		}
	}
	sum := (s[0] + s[1]) + (s[2] + s[3])
	if kind == "L1" {
		return sum
	}
	return math.Sqrt(sum)
}
