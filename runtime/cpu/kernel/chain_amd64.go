//go:build amd64 && !purego

package kernel

import "unsafe"

// chainStep is an instruction of the program that the assembly runs, as _asm/chain.go reads it.
type chainStep struct {
	code [2]uintptr // of whole blocks, and of masked vectors
	x, z *float32
	row  int // bytes that are added to x from row to row
}

// chainCodes are the addresses of the operators' functions: in AVX2, and in AVX-512.
var chainCodes = func() (codes [2][chainOps][2]uintptr) {
	chainCodesAVX2(&codes[0][0][0])
	chainCodesAVX512(&codes[1][0][0])
	return codes
}()

// wide runs the chain in registers, and says whether it did.
func (c *Chain) wide(y []float32, x [][]float32, rows int) bool {
	if !wide() {
		return false
	}
	for i, o := range c.operands {
		_ = x[i][o.From+(rows-1)*o.Stride+c.width-1]
	}
	_ = y[rows*c.width-1]
	switch {
	case c.repeat == 0 && c.dense: // all rows are one
		c.run(y, x, 0, 1, rows*c.width, rows*c.width)
	case c.repeat <= 1:
		c.run(y, x, 0, rows, c.width, c.width)
	default:
		whole := rows / c.repeat * c.repeat
		if whole > 0 {
			c.run(y, x, 0, whole/c.repeat, c.repeat*c.width, c.repeat*c.width)
		}
		if whole < rows {
			c.run(y, x, whole*c.width, 1, (rows-whole)*c.width, 0)
		}
	}
	return true
}

// run computes rows of width numbers from the given number of y on; operands are as y, with rows stride apart, where they are
// dense.
func (c *Chain) run(y []float32, x [][]float32, at, rows, width, stride int) {
	var program [MaxLinks + 2]chainStep
	codes := &chainCodes[0]
	if avx512() {
		codes = &chainCodes[1]
	}
	p := &program[0]
	p.code = codes[chainLoad]
	p.x, p.row = c.operand(x, 0, at, stride)
	for i := range c.tiled {
		l, p := &c.tiled[i], &program[i+1]
		p.code = codes[l.Op]
		switch a, _, _ := l.Op.reads(); {
		case a && l.X >= 0:
			p.x, p.row = c.operand(x, l.X, at, stride)
		case a:
			p.x = &l.A[0]
		}
		if len(l.B) > 0 {
			p.z = &l.B[0]
		}
	}
	last := &program[len(c.tiled)+1]
	last.code = codes[chainStore]
	last.x, last.row = &y[at], 4*stride
	if avx512() {
		chainAVX512((*byte)(unsafe.Pointer(p)), (*byte)(unsafe.Pointer(last)), 4*width, rows)
	} else {
		chainAVX2((*byte)(unsafe.Pointer(p)), (*byte)(unsafe.Pointer(last)), 4*width, rows)
	}
}

// operand is where an operand begins, and how many bytes its rows are apart.
func (c *Chain) operand(x [][]float32, i, at, stride int) (*float32, int) {
	if !c.dense {
		return &x[i][c.operands[i].From], 4 * c.operands[i].Stride // at is 0
	}
	return &x[i][at], 4 * stride
}
