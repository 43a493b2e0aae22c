package models

import (
	"unsafe"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// treePass runs samples of float32 through a model of one tree. Each leaf has one class and one row of scores.
type treePass struct {
	nodes      []kernel.TreeNode[uint32]
	leaves     uint32 // offset of the first leaf
	root       uint32
	rows, cols int
	scores     int       // scores per sample
	of         []float32 // scores of each leaf
	class      []int64   // class of each leaf; or labels, if they are integers

	x, y   []float32
	labels []int64
}

const (
	treeRows   = 256     // samples of a block
	treeScores = 1 << 20 // maximum number of scores of all leaves
)

// newTree returns the kernel for a model of one tree with float32 scores, or nil for other models.
func newTree(d *lowering.Binding, s *lowering.Step, t *trees[uint32]) *record.TensorKernel {
	if t == nil || len(t.roots) != 1 || t.Targets > maxTargets {
		return nil
	}
	shape := d.ShapeOf(s, 0)
	cols := shape[len(shape)-1]
	last := len(s.Node.Outputs) - 1 // the scores; a classifier's first output is the labels
	count := len(t.starts) - 1
	if t.Features > cols || cols == 0 || count*t.Scores > treeScores ||
		last < len(s.Out) && s.Out[last] != nil && !d.Gives(s, last, tensor.Float32) {
		return nil
	}
	p := &treePass{leaves: t.leaves, root: t.roots[0], rows: tensors.Product(shape) / cols, cols: cols, scores: t.Scores}
	d.Charge(t.Bytes() + int64(len(t.nodes)*t.nodeSize())) // the first part is shared by all executables
	p.nodes = append(ops.Make[kernel.TreeNode[uint32]](d.Steps(), len(t.nodes))[:0], t.nodes...)
	lanes := kernel.TreeLanes * int(unsafe.Sizeof(uint32(0)))
	for i := range p.nodes[:int(t.leaves)/t.nodeSize()] {
		n := &p.nodes[i]
		if at := int(n.Feature) / lanes; at < len(t.low) {
			n.Feature = 2 * uint32(t.low[at])
		} else {
			n.Feature = 2*uint32(t.high[at-len(t.low)]) + 1
		}
	}
	var labels lowering.Slot[int64]
	var scores lowering.Slot[float32]
	var text *lowering.Value
	if last < len(s.Out) && s.Out[last] != nil {
		scores = lowering.Output[float32](d, s, last)
	}
	number := last > 0 && s.Out[0] != nil && d.Gives(s, 0, tensor.Int64)
	switch {
	case number:
		labels = lowering.Output[int64](d, s, 0)
	case last > 0 && s.Out[0] != nil:
		text = s.Out[0]
	}
	p.of, p.class = lowering.Make[float32](d, count*t.Scores), lowering.Make[int64](d, count)
	t.results(d, p.of, p.class, number)
	var classes []int64
	if text != nil {
		classes = lowering.Make[int64](d, p.rows)
	}
	x := lowering.Input[float32](d, s, 0)
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		p.x, p.y, p.labels = x.In(f), scores.In(f), labels.In(f)
		if text != nil {
			p.labels = classes
		}
		if err := e.Parallel(p, (p.rows+treeRows-1)/treeRows); err != nil || text == nil {
			return err
		}
		if err := f.Take(int64(p.rows)*int64(unsafe.Sizeof("")), text.Name); err != nil {
			return err
		}
		return f.Store(text, t.Labels(e.Steps(), p.labels))
	}}
}

// results sets the scores of each leaf, and its class or label.
func (t *trees[K]) results(d *lowering.Binding, scores []float32, class []int64, label bool) {
	c := d.Steps()
	sums, none := ops.Make[float64](c, t.sums()), ops.Make[bool](c, t.sums())
	for leaf := range ops.Costly(c, len(class), t.Targets) {
		clear(sums)
		for i := range none {
			none[i] = true
		}
		t.vote(sums, none, uint32(leaf))
		k, all := t.decide(c, sums, none)
		if class[leaf] = int64(k); label {
			class[leaf] = t.Label(k)
		}
		for i, v := range all {
			scores[leaf*t.Scores+i] = float32(v)
		}
	}
}

func (p *treePass) Do(w *record.Workspace, block int) {
	var at [kernel.TreeLanes]uint32
	size := uint32(unsafe.Sizeof(kernel.TreeNode[uint32]{}))
	for r := block * treeRows; r < min(p.rows, (block+1)*treeRows); r += kernel.TreeLanes {
		for i := range at {
			at[i] = p.root
		}
		n := min(kernel.TreeLanes, p.rows-r)
		w.Steps.Step(kernel.WalkSamples(p.nodes, p.leaves, p.x[r*p.cols:], p.cols, n, &at))
		for i, a := range at[:n] {
			leaf := int((a - p.leaves) / size)
			if p.y != nil {
				w.Steps.Step(p.scores)
				copy(p.y[(r+i)*p.scores:(r+i+1)*p.scores], p.of[leaf*p.scores:])
			}
			if p.labels != nil {
				p.labels[r+i] = p.class[leaf]
			}
		}
	}
}
