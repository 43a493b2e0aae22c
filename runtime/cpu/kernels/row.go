package kernels

import (
	"errors"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/lowering"
)

// RowFunc computes one row of the only output, y. x has the same row of each input; it is nil for inputs in
// Row.Constant and for absent ones. y and scratch have any content before. x must not be written to, and none of the
// slices kept. Several goroutines call it at once.
type RowFunc func(y []float32, x [][]float32, scratch []float32) error

// Row is a row kernel. It applies to nodes whose inputs besides Constant are float32, vary, and have the leading
// dimensions of the output, which is float32, too. Other nodes run by the operator's Body or Eval.
type Row struct {
	// Constant lists the inputs, by index, that must be constants or follow from parameters only, unless they are absent.
	Constant []int
	// Make makes the kernel for a node with shapes. It returns nil if it has none for these shapes or attributes.
	Make func(n *Node) (RowFunc, error)
}

// maker returns what makes the kernel of a step, or nil if it has none.
func (k Row) maker(op *ir.Op, s *lowering.Step) record.RowMaker {
	if ops.Current(s.Node.Op) != ops.Current(op) {
		return nil
	}
	var operands []int
	for i := range s.Args() {
		switch {
		case s.Absent(i) || slices.Contains(k.Constant, i):
		case s.Fixed(i) != nil:
			return nil
		default:
			operands = append(operands, i)
		}
	}
	for i, v := range s.Out {
		if i > 0 && v != nil {
			return nil
		}
	}
	if len(operands) == 0 {
		return nil
	}
	return func(in [][]int, out []int) *record.RowOp { return k.bind(op, s, operands, in, out) }
}

// bind makes the kernel for shapes.
func (k Row) bind(op *ir.Op, s *lowering.Step, operands []int, in [][]int, out []int) *record.RowOp {
	var present []int
	for _, i := range operands {
		if in[i] == nil {
			continue
		}
		if !lowering.SameRows(in[i], out) {
			return nil
		}
		present = append(present, i)
	}
	n := &Node{Attrs: s.Node.Attrs, step: s, in: in[:len(s.Args())], out: [][]int{out}}
	f := k.made(op, n)
	if f == nil || len(present) == 0 {
		return nil
	}
	r := &rowKernel{op: op, step: s, operands: present, run: f, scratch: n.scratch, widths: make([]int, len(n.in)+1)}
	for _, i := range present {
		_, r.widths[i] = lowering.Features(in[i])
	}
	_, r.width = lowering.Features(out)
	row := &record.RowOp{Operands: present, Scratch: n.scratch, Run: r.rows}
	if settled(s, k.Constant) {
		row.Refill = func() {
			again := &Node{Attrs: n.Attrs, step: s, in: n.in, out: n.out}
			if r.run = k.made(op, again); r.run == nil || again.scratch != r.scratch {
				fail(op, kindRow, s, errOther)
			}
		}
	}
	return row
}

var errOther = errors.New(
	"Make decides by the content of a parameter, which may be replaced; expected the same kernel for each content")

// made calls Make.
func (k Row) made(op *ir.Op, n *Node) RowFunc {
	defer recovered(op, kindRow, n.step)
	f, err := k.Make(n)
	if err != nil {
		fail(op, kindRow, n.step, err)
	}
	return f
}

// rowKernel is a row kernel for shapes.
type rowKernel struct {
	op       *ir.Op
	step     *lowering.Step
	operands []int
	widths   []int // per input
	width    int
	scratch  int
	run      RowFunc
}

// rows computes rows one by one, and checks the context of the run in between.
func (r *rowKernel) rows(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
	defer recovered(r.op, kindRow, r.step)
	var scratch []float32
	if r.scratch > 0 {
		scratch = x[len(x)-1]
	}
	row := make([][]float32, len(r.widths)-1)
	for i := range rows {
		work := r.width
		for _, j := range r.operands {
			f := r.widths[j]
			row[j], work = x[j][i*f:(i+1)*f:(i+1)*f], work+f
		}
		c.Step(8 + work)
		if err := r.run(y[i*r.width:(i+1)*r.width:(i+1)*r.width], row, scratch); err != nil {
			fail(r.op, kindRow, r.step, err)
		}
	}
}
