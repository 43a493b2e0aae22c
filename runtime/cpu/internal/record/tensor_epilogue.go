package record

import (
	"github.com/essmc/essmc/runtime/lowering"
)

// Epilogue is a list of elementwise steps that the kernel of a product or convolution applies to its results, block by
// block, while they are in the cache. The values between the steps are never written.
type Epilogue struct {
	Steps []*lowering.Step
	Ops   []EpilogueOp
}

// EpilogueOp is one thing that a step of an epilogue does (see Link). Exactly one of Unary, Number, Channels and Operand is
// set. If Exchanged, the kernel's results are the operation's second operand.
type EpilogueOp struct {
	Unary     func(y, x []float32)   // a function of one operand
	Number    func(y, x []float32)   // the other operand is one number
	Channels  []float32              // the other operand is a number per channel
	Operand   lowering.Slot[float32] // the other operand is a tensor of the same shape
	F         Arithmetic             // with Channels and Operand
	Exchanged bool
}

// Block is a block of results that a kernel has just computed: N numbers of each of Rows channels of one sample, from
// Channel on. They begin at y[At]; channels are Stride apart.
type Block struct {
	At, Channel, Rows, N, Stride int
}

// Apply applies the steps to a block of y, in place.
func (p *Epilogue) Apply(e Execution, y []float32, b *Block) {
	if p == nil || b.Rows == 0 || b.N == 0 {
		return
	}
	rows, n := b.Rows, b.N
	if n == b.Stride || rows == 1 { // the channels are contiguous
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
		case !op.Operand.Absent():
			other := op.Operand.In(e.Frame())
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

// join computes y = F(y, other), or F(other, y) if op is exchanged.
func (op *EpilogueOp) join(y, other []float32) {
	if op.Exchanged {
		op.F.Rows(y, other, y)
	} else {
		op.F.Rows(y, y, other)
	}
}
