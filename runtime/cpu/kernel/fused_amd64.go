//go:build amd64 && !purego

package kernel

import "unsafe"

// fusedInstruction is an instruction of the program that the assembly runs. _asm/fused.go states the offsets of the
// fields.
type fusedInstruction struct {
	code [2]uintptr // for whole blocks, and for masked vectors
	x, z *float32
	row  int // distance between rows of x, in bytes
}

// fusedCodes holds the addresses of the operators' functions, for AVX2 and for AVX-512.
var fusedCodes = func() (codes [2][fusedOps][2]uintptr) {
	fusedCodesAVX2(&codes[0][0][0])
	fusedCodesAVX512(&codes[1][0][0])
	return codes
}()

// wide runs the kernel in registers. It returns false if vector kernels are not in use.
func (c *Fused) wide(y []float32, x [][]float32, rows int) bool {
	if !wide() {
		return false
	}
	for i, o := range c.operands {
		_ = x[i][o.From+(rows-1)*o.Stride+c.width-1]
	}
	_ = y[rows*c.width-1]
	switch {
	case c.repeat == 0 && c.dense: // the rows are contiguous
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

// run computes rows of width numbers from y[at] on. Rows have the given stride, in y and in dense operands.
func (c *Fused) run(y []float32, x [][]float32, at, rows, width, stride int) {
	var program [MaxFused + 2]fusedInstruction
	codes := &fusedCodes[0]
	if avx512() {
		codes = &fusedCodes[1]
	}
	p := &program[0]
	p.code = codes[fusedLoad]
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
	last.code = codes[fusedStore]
	last.x, last.row = &y[at], 4*stride
	if avx512() {
		fusedAVX512((*byte)(unsafe.Pointer(p)), (*byte)(unsafe.Pointer(last)), 4*width, rows)
	} else {
		fusedAVX2((*byte)(unsafe.Pointer(p)), (*byte)(unsafe.Pointer(last)), 4*width, rows)
	}
}

// operand returns the beginning of an operand and the distance between its rows, in bytes.
func (c *Fused) operand(x [][]float32, i, at, stride int) (*float32, int) {
	if !c.dense {
		return &x[i][c.operands[i].From], 4 * c.operands[i].Stride // at is 0
	}
	return &x[i][at], 4 * stride
}
