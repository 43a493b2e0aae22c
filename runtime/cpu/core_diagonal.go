package cpu

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// diagonal is a Scan with constant coefficients.
type diagonal struct {
	coreInfo
	a, b []complex128
	sys  kernel.Diagonal
}

func diagonalCore(s *step) core {
	aRe, aIm, bRe, bIm := s.constant64(1), s.constant64(2), s.constant64(3), s.constant64(4)
	if aRe == nil || aIm == nil || bRe == nil || bIm == nil {
		return nil
	}
	c := &diagonal{}
	n := len(aRe)
	dir, window := scanAttrs(s.node)
	c.coreInfo = coreInfo{
		n: n, window: window, direction: dir, size: 2 * n,
		vRe: 0, vIm: index(!s.absent(5), 5), state: index(!s.absent(6), 6),
		xRe: index(s.node.Out(0) != nil, 0), xIm: index(s.node.Out(1) != nil, 1), stateOut: index(s.node.Out(2) != nil, 2),
		forms: []string{essm.FormScan},
	}
	c.sys = kernel.Diagonal{ARe: make([]float64, n), AIm: make([]float64, n), BRe: bRe, BIm: bIm}
	if window > 0 {
		c.sys.CutRe, c.sys.CutIm = make([]float64, n), make([]float64, n)
	}
	for j := range n {
		a, b := complex(aRe[j], aIm[j]), complex(bRe[j], bIm[j])
		c.a, c.b = append(c.a, a), append(c.b, b)
		p := essm.Pow(a, 1)
		c.sys.ARe[j], c.sys.AIm[j] = real(p), imag(p)
		if window > 0 {
			cut := essm.Pow(a, float64(window)) * b
			c.sys.CutRe[j], c.sys.CutIm[j] = real(cut), imag(cut)
		}
	}
	return c
}

func (c *diagonal) info() *coreInfo { return &c.coreInfo }

func (c *diagonal) tiled(form string, rows int) tileKernel {
	return diagonalScan{&c.sys, c.n}
}

func (c *diagonal) sequence(form string, length int) sequenceKernel { return nil }

// diagonalScan is the recurrence.
type diagonalScan struct {
	sys *kernel.Diagonal
	n   int
}

func (k diagonalScan) scratch() int { return 0 }

func (k diagonalScan) forward(x, xi []float32, in *tileInput, rows int, z []float64, _ []float32) {
	v := kernel.Inputs{Re: in.re, Im: in.im, OldRe: in.oldRe, OldIm: in.oldIm}
	k.sys.ScanForward(x, xi, &v, rows, z[:k.n], z[k.n:])
}

func (k diagonalScan) backward(x, xi []float32, in *tileInput, rows int, z []float64, _ []float32, add bool) {
	v := kernel.Inputs{Re: in.re, Im: in.im, OldRe: in.oldRe, OldIm: in.oldIm}
	k.sys.ScanBackward(x, xi, &v, rows, z[:k.n], z[k.n:], add)
}
