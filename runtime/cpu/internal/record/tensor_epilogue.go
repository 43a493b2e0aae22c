package record

import (
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Epilogue is what steps behind a convolution do to each of its numbers: it is done block by block, while the numbers are in
// the cache, and what lies between the steps is never written.
type Epilogue struct {
	Steps []*lowering.Step
	Ops   []EpilogueOp
}

// EpilogueOp is one of the steps. Exactly one field is set; with exchanged, the numbers are the operator's second operand.
type EpilogueOp struct {
	Unary     func(y, x []float32)
	Number    func(y, x []float32) // the other operand is one number
	Channels  []float32            // or one for each channel
	Operand   *lowering.Value      // or a tensor of the same shape
	F         Arithmetic           // of channels and operand
	Exchanged bool
}

// Block is the numbers of one sample that a kernel has just computed: of rows channels, from channel on, n numbers each, stride
// apart in y from at on.
type Block struct {
	At, Channel, Rows, N, Stride int
}

// Apply changes a block of y in place.
func (p *Epilogue) Apply(e Execution, y []float32, b *Block) {
	if p == nil || b.Rows == 0 || b.N == 0 {
		return
	}
	rows, n := b.Rows, b.N
	if n == b.Stride || rows == 1 { // all rows are one
		rows, n = 1, n*rows
	}
	for i := range p.Ops {
		op := &p.Ops[i]
		f := op.Unary
		if f == nil {
			f = op.Number
		}
		switch {
		case f != nil:
			for r := range rows {
				row := y[b.At+r*b.Stride:][:n]
				f(row, row)
			}
		case op.Operand != nil:
			other := e.Floats(op.Operand)
			for r := range rows {
				at := b.At + r*b.Stride
				op.join(y[at:at+n], other[at:at+n])
			}
		case b.N == 1 && b.Stride == 1:
			op.join(y[b.At:b.At+b.Rows], op.Channels[b.Channel:b.Channel+b.Rows])
		default:
			for r := range b.Rows {
				row := y[b.At+r*b.Stride:][:b.N]
				if c := op.Channels[b.Channel+r]; op.Exchanged {
					op.F.Left(row, row, c)
				} else {
					op.F.Right(row, row, c)
				}
			}
		}
	}
}

// join computes y = f(y, other), or f(other, y).
func (op *EpilogueOp) join(y, other []float32) {
	if op.Exchanged {
		op.F.Rows(y, other, y)
	} else {
		op.F.Rows(y, y, other)
	}
}

// EpilogueBlock is how many numbers of a channel are computed before the epilogue runs over them, so that all channels
// together stay in the first cache: a multiple of a panel's width.
func EpilogueBlock(channels int) int {
	const numbers = 1 << 12
	return max(1, numbers/max(1, channels)/kernel.PanelWidth) * kernel.PanelWidth
}
