package elementwise

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Kinds of operands, by the way in which they broadcast to rows.
const (
	unfit   = iota
	full    // one number per element
	perRow  // one number per row
	repeats // constant or settled, the same for every row
)

// readKind returns the kind of input i, of the given shape, for a result. Fixed operands of other types than float32,
// such as truth values, may repeat but are not read as rows.
func readKind(s *lowering.Step, i int, shape, result []int) int {
	spread, single := lowering.SpreadOf(shape, result), s.Float32Input(i)
	rows, _ := lowering.Features(result)
	switch {
	case spread == lowering.Same && single:
		return full
	case s.Fixed(i) != nil && (spread == lowering.Single || spread == lowering.PerFeature):
		return repeats
	case single && (spread == lowering.PerRow || spread == lowering.Single && rows == 1):
		return perRow
	}
	return unfit
}

// widened returns v, or a single number repeated width times.
func widened(v []float32, width int) []float32 {
	if len(v) == width {
		return v
	}
	w := make([]float32, width)
	fill(w, v[0])
	return w
}

// follow lets op copy the numbers k of input i to v again, as often as they fit, if the input is settled and v is not k.
func follow(op *record.RowOp, s *lowering.Step, i int, v, k []float32) {
	if s.In[i].Settled == nil || len(k) == 0 || &v[0] == &k[0] {
		return
	}
	before := op.Refill
	op.Refill = func() {
		if before != nil {
			before()
		}
		for to := v; len(to) > 0; {
			to = to[copy(to, k):]
		}
	}
}

// row makes the row kernel of a step. A program of one instruction is called directly.
func (p *program) row(s *lowering.Step) record.RowMaker {
	if len(p.reads) == 1 {
		return rowUnary(s, p.reads[0], p.unary())
	}
	if len(p.code) == 1 && p.code[0].arithmetic != nil {
		in := &p.code[0]
		return rowBinary(s, *in.arithmetic, p.reads[in.args[0]-p.registers], p.reads[in.args[1]-p.registers])
	}
	return func(in [][]int, out []int) *record.RowOp {
		_, width := lowering.Features(out)
		if width == 0 {
			return nil
		}
		r, op := p.bind(s, in, out)
		if r == nil || len(op.Over) == 0 {
			return nil
		}
		op.Run = r.run
		return op
	}
}

// rowUnary applies a function to input i.
func rowUnary(s *lowering.Step, i int, f func(y, x []float32)) record.RowMaker {
	return func(in [][]int, out []int) *record.RowOp {
		_, width := lowering.Features(out)
		if readKind(s, i, in[i], out) != full {
			return nil
		}
		operands := []int{i}
		run := func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
			record.ByElement(c, f, y[:rows*width], x[i])
		}
		return &record.RowOp{Operands: operands, Over: operands, Run: run}
	}
}

// rowBinary computes f of inputs ia and ib. Each has the output's shape, or one number per row, or is a constant of one
// number, or of one per feature.
func rowBinary(s *lowering.Step, f record.Arithmetic, ia, ib int) record.RowMaker {
	a, b := record.Numbers(s, ia), record.Numbers(s, ib)
	return func(in [][]int, out []int) *record.RowOp {
		_, width := lowering.Features(out)
		op := &record.RowOp{}
		ka, kb := readKind(s, ia, in[ia], out), readKind(s, ib, in[ib], out)
		if ka == unfit || kb == unfit || ka != full && kb != full || width == 0 {
			return nil
		}
		if ka == full || ka == perRow {
			op.Operands = append(op.Operands, ia)
		}
		if kb == full || kb == perRow {
			op.Operands = append(op.Operands, ib)
		}
		slices.Sort(op.Operands)
		switch {
		case ka == full && kb == full:
			op.Over = op.Operands
			op.Run = func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
				for lo, hi := range ops.Blocks(c, rows*width, record.RowBlock) {
					f.Rows(y[lo:hi], x[ia][lo:], x[ib][lo:])
				}
			}
		case ka == perRow:
			op.Run = func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
				eachPart(c, rows, width, func(row, lo, rows, width int) {
					y := y[lo : lo+rows*width]
					kernel.RepeatR(y, x[ia][row:], rows, width)
					f.Rows(y, y, x[ib][lo:])
				})
			}
		case kb == perRow:
			op.Run = func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
				eachPart(c, rows, width, func(row, lo, rows, width int) {
					y := y[lo : lo+rows*width]
					kernel.RepeatR(y, x[ib][row:], rows, width)
					f.Rows(y, x[ia][lo:], y)
				})
			}
		case ka == repeats:
			v := widened(a, width)
			follow(op, s, ia, v, a)
			op.Run = func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
				if width > record.RowBlock {
					eachPart(c, rows, width, func(row, lo, _, n int) { f.Rows(y[lo:lo+n], v[lo-row*width:], x[ib][lo:]) })
					return
				}
				for lo := 0; lo < rows*width; lo += width {
					f.Rows(y[lo:lo+width], v, x[ib][lo:])
				}
			}
		default:
			v := widened(b, width)
			follow(op, s, ib, v, b)
			op.Run = func(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
				if width > record.RowBlock {
					eachPart(c, rows, width, func(row, lo, _, n int) { f.Rows(y[lo:lo+n], x[ia][lo:], v[lo-row*width:]) })
					return
				}
				for lo := 0; lo < rows*width; lo += width {
					f.Rows(y[lo:lo+width], x[ia][lo:], v)
				}
			}
		}
		return op
	}
}

// eachPart calls do for parts of rows: all rows at once, or parts of a long row. A part starts in row row, at number
// lo, and has rows of width numbers.
func eachPart(c *ir.EvalCtx, rows, width int, do func(row, lo, rows, width int)) {
	if rows*width <= record.RowBlock {
		do(0, 0, rows, width)
		return
	}
	for row := range rows {
		for from, to := range ops.Blocks(c, width, record.RowBlock) {
			do(row, row*width+from, 1, to-from)
		}
	}
}

// rowProgram runs a program on rows of width numbers.
type rowProgram struct {
	*program
	operands []rowOperand
	width    int
	// chunk is the number of elements of a block: whole rows if an operand repeats and rows are no longer than a block.
	chunk   int
	repeats bool
}

// rowOperand is an operand of a rowProgram.
type rowOperand struct {
	kind, input int
	table       []float32 // of one that repeats: its numbers, as often as they fit a block
	register    int       // of one with a number per row: the register for the repeated numbers
}

// bind returns a program for shapes; nil if operands do not broadcast as rows.
func (p *program) bind(s *lowering.Step, in [][]int, out []int) (*rowProgram, *record.RowOp) {
	_, width := lowering.Features(out)
	r, op := &rowProgram{program: p, width: width, chunk: blockSize}, &record.RowOp{}
	spread := p.registers
	for _, i := range p.reads {
		k := record.Numbers(s, i)
		o := rowOperand{kind: readKind(s, i, in[i], out), input: i}
		switch o.kind {
		case full:
			op.Operands, op.Over = append(op.Operands, i), append(op.Over, i)
		case perRow:
			op.Operands = append(op.Operands, i)
			o.register = spread
			spread++
		case repeats:
			for o.table = widened(k, width); len(o.table)+width <= blockSize; {
				o.table = append(slices.Clip(o.table), widened(k, width)...)
			}
			follow(op, s, i, o.table, k)
		default:
			return nil, nil
		}
		r.repeats = r.repeats || o.kind != full
		r.operands = append(r.operands, o)
	}
	if spread > maxRegisters {
		return nil, nil
	}
	if r.repeats && width <= blockSize {
		r.chunk = blockSize / width * width
	}
	return r, op
}

// run computes rows, block by block.
func (r *rowProgram) run(c *ir.EvalCtx, y []float32, x [][]float32, rows int) {
	b := takeBlocks()
	defer b.release()
	for lo, total := 0, rows*r.width; lo < total; {
		n := min(r.chunk, total-lo)
		c.Step(n * len(r.code))
		if r.repeats && r.width > blockSize {
			n = min(n, r.width-lo%r.width)
		}
		for i := range r.registers {
			b.v[i] = b.registers[i][:n]
		}
		for i := range r.operands {
			o, at := &r.operands[i], r.registers+i
			switch o.kind {
			case full:
				b.v[at] = x[o.input][lo : lo+n]
			case repeats:
				b.v[at] = o.table[lo%r.width:][:n]
			case perRow:
				b.v[at] = b.registers[o.register][:n]
				width := min(n, r.width)
				kernel.RepeatR(b.v[at], x[o.input][lo/r.width:], n/width, width)
			}
		}
		r.compute(y[lo:lo+n], &b.v, n)
		lo += n
	}
}
