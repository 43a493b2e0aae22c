package record

import (
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// epilogue is what steps behind a convolution do to each of its numbers: it is done block by block, while the numbers are in
// the cache, and what lies between the steps is never written.
type Epilogue struct {
	Steps []*lowering.Step
	Ops   []EpilogueOp
}

// epilogueOp is one of the steps. Exactly one field is set; with exchanged, the numbers are the operator's second operand.
type EpilogueOp struct {
	Unary     func(y, x []float32)
	Number    func(y, x []float32) // the other operand is one number
	Channels  []float32            // or one for each channel
	Operand   *lowering.Value      // or a tensor of the same shape
	F         Arithmetic           // of channels and operand
	Exchanged bool
}

// block is the numbers of one sample that a kernel has just computed: of rows channels, from channel on, n numbers each, stride
// apart in y from at on.
type Block struct {
	At, Channel, Rows, N, Stride int
}

// apply changes a block of y in place.
func (p *Epilogue) Apply(e Execution, y []float32, b Block) {
	if p == nil || b.Rows == 0 || b.N == 0 {
		return
	}
	joined := b
	if b.N == b.Stride || b.Rows == 1 {
		joined.N, joined.Rows = b.N*b.Rows, 1
	}
	for i := range p.Ops {
		op := &p.Ops[i]
		f := op.Unary
		if f == nil {
			f = op.Number
		}
		switch {
		case f != nil:
			for r := range joined.Rows {
				row := y[joined.At+r*joined.Stride:][:joined.N]
				f(row, row)
			}
		case op.Operand != nil:
			other := e.Floats(op.Operand)
			for r := range joined.Rows {
				at := joined.At + r*joined.Stride
				op.join(y[at:at+joined.N], other[at:at+joined.N])
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

// epilogueBlock is how many numbers of a channel are computed before the epilogue runs over them, so that all channels
// together stay in the first cache: a multiple of a panel's width.
func EpilogueBlock(channels int) int {
	const numbers = 1 << 12
	return max(1, numbers/max(1, channels)/kernel.PanelWidth) * kernel.PanelWidth
}
