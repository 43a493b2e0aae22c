package models

import (
	"unsafe"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/ml"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	for _, op := range []*ir.Op{ml.LinearClassifier, ml.LinearRegressor} {
		record.Register(record.Record{Op: op.FullName(), Tensor: record.TensorKind{Make: linearModelKernel}})
	}
}

// linearModelPass computes blocks of samples: their products with panels of coefficients, then their labels and scores.
type linearModelPass struct {
	*ml.LinearModel
	rows, most int       // most: maximum number of samples of a block
	panels     []float32 // panels of coefficients, one after the other
	intercepts []float32
	x, y       []float32
	labels     []int64
	classes    []int64 // instead of labels, whose text is looked up at the end
}

// linearItem is the approximate number of products of a work item.
const linearItem = 1 << 16

func linearModelKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		shape := d.ShapeOf(s, 0)
		if !d.Typed(s, 0, tensor.Float32) || len(shape) < 1 || len(shape) > 2 {
			return nil
		}
		m := ml.LinearOf(s.Node, shape[len(shape)-1])
		if m == nil || m.Targets > maxTargets {
			return nil // refused by the evaluation, or rare
		}
		return newLinearModel(d, s, m, tensors.Product(shape)/m.Features)
	}
}

func newLinearModel(d *lowering.Binding, s *lowering.Step, m *ml.LinearModel, rows int) *record.TensorKernel {
	p := &linearModelPass{LinearModel: m, rows: rows}
	p.most = min(max(1, linearItem/(m.Features*m.Targets)), 128)
	p.panels = lowering.Make[float32](d, (m.Targets+kernel.PanelWidth-1)/kernel.PanelWidth*kernel.PanelWidth*m.Features)
	for t := range m.Targets {
		panel := p.panels[t/kernel.PanelWidth*kernel.PanelWidth*m.Features:]
		for i, c := range ops.All(d.Steps(), m.Coefficients[t*m.Features:(t+1)*m.Features]) {
			panel[i*kernel.PanelWidth+t%kernel.PanelWidth] = float32(c)
		}
	}
	p.intercepts = lowering.Make[float32](d, len(m.Intercepts))
	for i, c := range ops.All(d.Steps(), m.Intercepts) {
		p.intercepts[i] = float32(c)
	}

	last := len(s.Node.Outputs) - 1 // the scores; a classifier's first output is the labels
	var labels lowering.Slot[int64]
	var scores lowering.Slot[float32]
	var text *lowering.Value
	if last < len(s.Out) && s.Out[last] != nil && (last > 0 || !m.Classifies) {
		if !d.Gives(s, last, tensor.Float32) {
			return nil
		}
		scores = lowering.Output[float32](d, s, last)
	}
	if m.Classifies && s.Out[0] != nil {
		if d.Gives(s, 0, tensor.Int64) {
			labels = lowering.Output[int64](d, s, 0)
		} else {
			text, p.classes = s.Out[0], lowering.Make[int64](d, rows)
		}
	}
	x := lowering.Input[float32](d, s, 0)
	sums := p.most*m.Targets + 2*max(2, m.Targets)
	return &record.TensorKernel{Scratch: sums, Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y, p.labels = x.In(f), scores.In(f), labels.In(f)
		if err := e.Parallel(p, (p.rows+p.most-1)/p.most); err != nil || text == nil {
			return err
		}
		if err := f.Take(int64(p.rows)*int64(unsafe.Sizeof("")), text.Name); err != nil {
			return err
		}
		return f.Store(text, p.Labels(e.Steps(), p.classes))
	}}
}

func (p *linearModelPass) Do(w *record.Workspace, block int) {
	first, k, n := block*p.most, p.Features, p.Targets
	rows := min(p.most, p.rows-first)
	sums := w.Scratch[2*max(2, n):][:rows*n]
	for t := 0; t < n; t += kernel.PanelWidth {
		w.Steps.Step(rows * k)
		kernel.PanelProduct(sums[t:], n, p.x[first*k:], k, rows, k, p.panels[t*k:], min(kernel.PanelWidth, n-t))
	}
	w.Steps.Step(len(sums))
	if len(p.intercepts) == 1 {
		kernel.AddS(sums, sums, p.intercepts[0])
	} else if len(p.intercepts) > 0 {
		for r := range rows {
			for i, c := range p.intercepts {
				sums[r*n+i] += c
			}
		}
	}
	if p.Classifies && (p.labels != nil || p.classes != nil) {
		for r := range rows {
			class := p.class(sums[r*n : (r+1)*n])
			if p.classes != nil {
				p.classes[first+r] = int64(class)
			} else {
				p.labels[first+r] = p.Label(class)
			}
		}
	}
	if p.y == nil {
		return
	}
	w.Steps.Step(4 * rows * p.Scores)
	y := p.y[first*p.Scores : (first+rows)*p.Scores]
	switch {
	case p.Plain():
		copy(y, sums)
	case p.Logistic():
		if p.Scores == n {
			copy(y, sums)
		} else {
			for r, s := range sums {
				y[2*r], y[2*r+1] = -s, s
			}
		}
		kernel.Sigmoid(y, y)
	case p.Softmax():
		for r := range rows {
			s := sums[r*n : (r+1)*n]
			most := s[0]
			for _, v := range s {
				most = max(most, v)
			}
			for i := range s {
				s[i] -= most
			}
		}
		kernel.Exp(y, sums)
		for r := range rows {
			s, sum := y[r*n:(r+1)*n], 0.0
			for _, v := range s {
				sum += float64(v)
			}
			inv := float32(1 / sum)
			for i := range s {
				s[i] *= inv
			}
		}
	default:
		row := tensors.Reinterpret[float64](w.Scratch[:2*max(2, n)])
		for r := range rows {
			for i, v := range ops.All(w.Steps, p.Finish(w.Steps, widened(w.Steps, row, sums[r*n:(r+1)*n]))) {
				y[r*p.Scores+i] = float32(v)
			}
		}
	}
}

// class returns the class of a sample: the index of its greatest function value, or the first of several.
func (p *linearModelPass) class(s []float32) int {
	if len(s) == 1 {
		return p.Binary(s[0] > 0)
	}
	best, at := s[0], 0
	for i, v := range s {
		if v > best {
			best, at = v, i
		}
	}
	return at
}

// widened converts numbers to float64 at the start of dst.
func widened(c *ir.EvalCtx, dst []float64, x []float32) []float64 {
	dst = dst[:len(x)]
	for i, v := range ops.All(c, x) {
		dst[i] = float64(v)
	}
	return dst
}
