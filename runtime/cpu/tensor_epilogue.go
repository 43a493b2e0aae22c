package cpu

import (
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// epilogue is what steps behind a convolution do to each of its numbers: it is done block by block, while the numbers are in
// the cache, and what lies between the steps is never written.
type epilogue struct {
	steps []*lowering.Step
	ops   []epilogueOp
}

// epilogueOp is one of the steps. Exactly one field is set; with exchanged, the numbers are the operator's second operand.
type epilogueOp struct {
	unary     func(y, x []float32)
	number    func(y, x []float32) // the other operand is one number
	channels  []float32            // or one for each channel
	operand   *lowering.Value      // or a tensor of the same shape
	f         arithmetic           // of channels and operand
	exchanged bool
}

// block is the numbers of one sample that a kernel has just computed: of rows channels, from channel on, n numbers each, stride
// apart in y from at on.
type block struct {
	at, channel, rows, n, stride int
}

// apply changes a block of y in place.
func (p *epilogue) apply(e execution, y []float32, b block) {
	if p == nil || b.rows == 0 || b.n == 0 {
		return
	}
	joined := b
	if b.n == b.stride || b.rows == 1 {
		joined.n, joined.rows = b.n*b.rows, 1
	}
	for i := range p.ops {
		op := &p.ops[i]
		f := op.unary
		if f == nil {
			f = op.number
		}
		switch {
		case f != nil:
			for r := range joined.rows {
				row := y[joined.at+r*joined.stride:][:joined.n]
				f(row, row)
			}
		case op.operand != nil:
			other := e.floats(op.operand)
			for r := range joined.rows {
				at := joined.at + r*joined.stride
				op.join(y[at:at+joined.n], other[at:at+joined.n])
			}
		case b.n == 1 && b.stride == 1:
			op.join(y[b.at:b.at+b.rows], op.channels[b.channel:b.channel+b.rows])
		default:
			for r := range b.rows {
				row := y[b.at+r*b.stride:][:b.n]
				if c := op.channels[b.channel+r]; op.exchanged {
					op.f.left(row, row, c)
				} else {
					op.f.right(row, row, c)
				}
			}
		}
	}
}

// join computes y = f(y, other), or f(other, y).
func (op *epilogueOp) join(y, other []float32) {
	if op.exchanged {
		op.f.rows(y, other, y)
	} else {
		op.f.rows(y, y, other)
	}
}

// epilogueBlock is how many numbers of a channel are computed before the epilogue runs over them, so that all channels
// together stay in the first cache: a multiple of a panel's width.
func epilogueBlock(channels int) int {
	const numbers = 1 << 12
	return max(1, numbers/max(1, channels)/kernel.PanelWidth) * kernel.PanelWidth
}
