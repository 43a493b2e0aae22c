package models

import (
	"math"
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
	for _, op := range []*ir.Op{ml.SVMClassifier, ml.SVMRegressor} {
		record.Register(record.Record{Op: op.FullName(), Tensor: record.TensorKind{Make: svmKernel}})
	}
}

// svmPass computes blocks of samples: their kernels with parts of the support vectors, the products of these with
// the coefficients, then labels and scores. Models that are linear in the features are products with panels of
// weights.
type svmPass struct {
	*ml.SVM
	rows, most, features int // most: maximum number of samples of a block
	parts                []svmPart
	vectors              []float32 // per part: transposed if distances are computed, or panels
	coefficients         []float32 // per part: panels of rows of coefficients
	weights              []float32 // for a linear model: panels of targets
	near                 int       // number of vectors in the longest part
	power                int       // the degree, if it is a small integer
	x, y                 []float32
	labels               []int64
	classes              []int64 // instead of labels, whose text is looked up at the end
}

// svmPart is some of the support vectors of a class. The sums of a part are float32, those of parts float64.
type svmPart struct{ class, from, count, vectors, coefficients int }

const (
	svmVectors = 512 // maximum of support vectors per part
	svmRows    = 32  // maximum of samples per block
	svmPower   = 16  // maximum degree that is computed by products
)

func svmKernel(s *lowering.Step) record.TensorMaker {
	if s.Absent(0) {
		return nil
	}
	return func(d *lowering.Binding) *record.TensorKernel {
		shape := d.ShapeOf(s, 0)
		if !d.Typed(s, 0, tensor.Float32) || len(shape) < 1 || len(shape) > 2 || shape[len(shape)-1] == 0 {
			return nil
		}
		m := ml.SVMOf(d.Steps(), s.Node, shape[len(shape)-1])
		if m == nil || m.Targets > maxTargets {
			return nil // refused by the evaluation, or rare
		}
		return newSVM(d, s, m, shape[len(shape)-1], tensors.Product(shape)/shape[len(shape)-1])
	}
}

func newSVM(d *lowering.Binding, s *lowering.Step, m *ml.SVM, features, rows int) *record.TensorKernel {
	p := &svmPass{SVM: m, rows: rows, features: features}
	p.most = min(max(1, linearItem/(features*max(m.Total(), m.Targets))), svmRows)
	if m.Linear || m.Kernel == "LINEAR" {
		p.weigh(d)
	} else {
		p.pack(d)
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
	return &record.TensorKernel{Scratch: p.scratch(), Run: func(e record.Execution, _ record.Call) error {
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

// weigh makes the panels of a linear model: each target's weight of each feature, summed over the support vectors.
func (p *svmPass) weigh(d *lowering.Binding) {
	k := p.features
	sums := lowering.Make[float64](d, p.Targets*k)
	if p.Linear {
		copy(sums, p.Coefficients)
	} else {
		at := 0
		for class, count := range p.Counts {
			for v := range ops.Costly(d.Steps(), count, k*p.Pairs()) {
				vector := p.Vectors[(at+v)*k : (at+v+1)*k]
				for row := range p.Pairs() {
					to := sums[p.Pair(class, row)*k:][:k]
					c := p.Coefficients[row*p.Total()+at+v]
					for i, x := range vector {
						to[i] += c * x
					}
				}
			}
			at += count
		}
	}
	p.weights = lowering.Make[float32](d, kernel.PanelsSpan(p.Targets)*k)
	for t := range ops.Costly(d.Steps(), p.Targets, k) {
		inPanel(p.weights, k, t, sums[t*k:(t+1)*k])
	}
}

// inPanel sets column t of panels of rows of k numbers.
func inPanel(panels []float32, k, t int, column []float64) {
	panel := panels[t/kernel.PanelWidth*kernel.PanelWidth*k:]
	for i, v := range column {
		panel[i*kernel.PanelWidth+t%kernel.PanelWidth] = float32(v)
	}
}

// pack lays out the support vectors and the coefficients.
func (p *svmPass) pack(d *lowering.Binding) {
	k, total, pairs, steps := p.features, p.Total(), p.Pairs(), d.Steps()
	if n := int(p.Degree); n > 0 && n <= svmPower && float64(n) == p.Degree {
		p.power = n
	}
	at, vectors, coefficients := 0, 0, 0
	for class, count := range p.Counts {
		for from := 0; from < count; from += svmVectors {
			part := svmPart{class, at + from, min(svmVectors, count-from), vectors, coefficients}
			p.near = max(p.near, part.count)
			p.parts = append(p.parts, part)
			vectors += kernel.PanelsSpan(part.count) * k
			if coefficients += part.count; pairs > 1 {
				coefficients += (kernel.PanelsSpan(pairs) - 1) * part.count
			}
		}
		at += count
	}
	d.Charge(int64(cap(p.parts)) * int64(unsafe.Sizeof(svmPart{})))
	p.vectors, p.coefficients = lowering.Make[float32](d, vectors), lowering.Make[float32](d, coefficients)
	for _, part := range p.parts {
		to := p.vectors[part.vectors:]
		for v := range ops.Costly(steps, part.count, k) {
			vector := p.Vectors[(part.from+v)*k:][:k]
			if p.Kernel != "RBF" {
				inPanel(to, k, v, vector)
				continue
			}
			for i, x := range vector {
				to[i*part.count+v] = float32(x)
			}
		}
		for row := range ops.Costly(steps, pairs, part.count) {
			from, to := p.Coefficients[row*total+part.from:][:part.count], p.coefficients[part.coefficients:]
			if pairs > 1 {
				inPanel(to, part.count, row, from)
				continue
			}
			for i, c := range from {
				to[i] = float32(c)
			}
		}
	}
}

// scratch returns the size of a worker's memory: sums and memory of Finish, in float64, then a row of kernels,
// kernels, and sums of a part.
func (p *svmPass) scratch() int {
	return 2*(p.most*p.stride()+p.Work()) + (p.most+1)*p.near + p.most*max(p.Pairs(), p.Targets)
}

// stride returns the stride of the sums of samples. It is at least two, because one sum may become two scores.
func (p *svmPass) stride() int { return max(2, p.Targets) }

func (p *svmPass) Do(w *record.Workspace, block int) {
	first, k := block*p.most, p.features
	rows := min(p.most, p.rows-first)
	n := p.most * p.stride()
	sums, rest := tensors.Reinterpret[float64](w.Scratch[:2*n]), w.Scratch[2*n:]
	work, rest := tensors.Reinterpret[float64](rest[:2*p.Work()]), rest[2*p.Work():]
	part := rest[(p.most+1)*p.near:]
	for r := range rows {
		for t := range ops.Each(w.Steps, p.Targets) {
			sums[r*p.stride()+t] = p.Rho(t)
		}
	}
	x := p.x[first*k : (first+rows)*k]
	if p.weights != nil {
		n := p.Targets
		panelProducts(w, part, n, x, k, rows, k, p.weights, n)
		for r := range rows {
			for t, v := range part[r*n : (r+1)*n] {
				sums[r*p.stride()+t] += float64(v)
			}
		}
	}
	for i := range p.parts {
		if w.Stopped() {
			return
		}
		c, n := &p.parts[i], p.Pairs()
		near := rest[p.near:][:rows*c.count]
		p.kernels(w, near, rest[:c.count], x, c)
		if coefficients := p.coefficients[c.coefficients:]; n == 1 {
			kernel.Dots(part[:rows], near, coefficients[:c.count])
		} else {
			panelProducts(w, part, n, near, c.count, rows, c.count, coefficients, n)
		}
		for row := range n {
			t := p.Pair(c.class, row)
			for r := range rows {
				sums[r*p.stride()+t] += float64(part[r*n+row])
			}
		}
	}
	for r := range rows {
		p.finish(w, first+r, sums[r*p.stride():(r+1)*p.stride()], work)
	}
}

// panelProducts multiplies rows of k numbers by n columns of panels.
func panelProducts(w *record.Workspace, y []float32, ldy int, x []float32, ldx, rows, k int, panels []float32, n int) {
	for t := 0; t < n; t += kernel.PanelWidth {
		w.Steps.Step(rows * k)
		kernel.PanelProduct(y[t:], ldy, x, ldx, rows, k, panels[t*k:], min(kernel.PanelWidth, n-t))
	}
}

// kernels computes the kernels of samples with the support vectors of a part. row is the size of a row of kernels.
func (p *svmPass) kernels(w *record.Workspace, near, row, x []float32, c *svmPart) {
	k, n := p.features, c.count
	vectors := p.vectors[c.vectors:]
	if p.Kernel == "RBF" {
		clear(near)
		for r := range len(near) / n {
			y := near[r*n : (r+1)*n]
			for i, v := range x[r*k : (r+1)*k] {
				w.Steps.Step(n)
				kernel.SubS(row, vectors[i*n:(i+1)*n], v)
				kernel.Mul(row, row, row)
				kernel.Add(y, y, row)
			}
		}
		kernel.MulS(near, near, float32(-p.Gamma))
		kernel.Exp(near, near)
		return
	}
	panelProducts(w, near, n, x, k, len(near)/n, k, vectors, n)
	kernel.ScaleShift(near, near, float32(p.Gamma), float32(p.Coef))
	w.Steps.Step(4 * len(near))
	switch {
	case p.Kernel == "SIGMOID":
		kernel.Tanh(near, near)
	case p.power > 0:
		for r := range len(near) / n {
			y := near[r*n : (r+1)*n]
			copy(row, y)
			for range p.power - 1 {
				kernel.Mul(y, y, row)
			}
		}
	default:
		for i, v := range ops.All(w.Steps, near) {
			near[i] = float32(math.Pow(float64(v), p.Degree))
		}
	}
}

// finish turns the sums of a sample into results.
func (p *svmPass) finish(w *record.Workspace, row int, sums, work []float64) {
	class, scores := p.Finish(w.Steps, sums[:p.Targets], work)
	if p.classes != nil {
		p.classes[row] = int64(class)
	}
	if p.labels != nil {
		p.labels[row] = p.Label(class)
	}
	if p.y == nil {
		return
	}
	y := p.y[row*p.Scores:][:p.Scores]
	for i, v := range scores {
		y[i] = float32(v)
	}
}
