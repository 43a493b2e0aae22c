package elements

import (
	"slices"

	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/elementwise"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/lowering"
)

// elementPass computes a result from up to three operands that broadcast to it, some rows per work item. Rows read
// the elements in the types that were found when the kernel was made (operand, result).
type elementPass struct {
	b   *elementwise.Broadcast
	per int
	run elementRow

	// Set during a run:
	x [3][]byte
	y []byte
}

// elementRow computes a part of a row of the result.
type elementRow func(p *elementPass, row rowPart)

// rowPart is the elements from lo to hi-1 of a row.
type rowPart struct{ row, lo, hi int }

// elementPart is the maximum size of a part.
const elementPart = 1 << 14

func (p *elementPass) Do(w *record.Workspace, k int) {
	for row := k * p.per; row < min(p.b.Rows, (k+1)*p.per); row++ {
		for lo, hi := range ops.Blocks(w.Steps, p.b.Inner, elementPart) {
			p.run(p, rowPart{row, lo, hi})
		}
	}
}

// operand returns the elements of operand i from the start of a part of a row.
func operand[T any](p *elementPass, i int, row rowPart) []T {
	at := p.b.At(i, row.row)
	if p.b.Unit[i] {
		at += row.lo
	}
	return tensors.Reinterpret[T](p.x[i])[at:]
}

// result returns a part of a row of the result.
func result[T any](p *elementPass, row rowPart) []T {
	return tensors.Reinterpret[T](p.y)[row.row*p.b.Inner+row.lo : row.row*p.b.Inner+row.hi]
}

// steps returns the strides of the elements of a row in each operand: 0 if one element is used for all.
func (p *elementPass) steps() (step [3]int) {
	for i, u := range p.b.Unit {
		if u {
			step[i] = 1
		}
	}
	return step
}

// elementKernel returns a kernel whose operands are the inputs of the step.
func elementKernel(d *lowering.Binding, s *lowering.Step, run elementRow) *record.TensorKernel {
	out := d.Shape(s.Out[0])
	var shapes [][]int
	var x []lowering.Bytes
	for _, v := range s.In {
		shapes, x = append(shapes, d.Shape(v)), append(x, lowering.BytesOf(d, v))
	}
	if shape, err := ops.Broadcast(shapes...); err != nil || !slices.Equal(shape, out) {
		return nil // the evaluation reports the error
	}
	p, n, y := &elementPass{b: elementwise.NewBroadcast(out, shapes...), run: run}, 0, lowering.BytesOf(d, s.Out[0])
	p.per, n = p.b.Items()
	return &record.TensorKernel{Run: func(e record.Execution, _ record.Call) error {
		f := e.Frame()
		for i := range x {
			p.x[i] = x[i].In(f)
		}
		p.y = y.In(f)
		return e.Parallel(p, n)
	}}
}
