// Package essm has the operators of state-space models, domain "essm", and their mathematics, as docs/math.md
// defines it: a layer as checkpoints state it (StateSpace), the steps of its computation (Constrain, Discretize,
// HeadLinear, Scan, Kernel, LongConv, …), and the forms that the compiler makes of it (SSM, DenseSSM, Block). It
// also has the layers of a deep model for which ONNX has no exact operator.
//
// It imports ir, ir/scalar, ops and ops/std only. Services link it, so the eigenvalue solver is in the package
// spectral below. Every evaluation computes in float64 and rounds once. Complex numbers are separate real and
// imaginary arrays. Sequences are laid out (batch, time, features), and features (channel, head, index). The
// constants of a discrete system are float64, whatever the type of the data.
//
// Symbols, here and in the signatures: B is the batch, L the length, H the number of inputs, C channels, S heads;
// one head has n states, h inputs and m outputs; N = C·S·n.
package essm

import (
	"fmt"
	"math"
	"math/cmplx"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/std" // operators that bodies are made of
)

// Directions of a Scan or an SSM.
const (
	Forward       = "forward"       // causal: step t reads steps up to t
	Backward      = "backward"      // anti-causal: step t reads steps after t
	Bidirectional = "bidirectional" // the sum of both
)

// Forms of computing a long linear recurrence (docs/math.md, Forms).
const (
	FormAuto    = "auto"
	FormScan    = "scan"
	FormChunked = "chunked"
	FormFFT     = "fft"
	FormDirect  = "direct"
)

// Forms lists the forms that a caller can select.
var Forms = []string{FormAuto, FormScan, FormChunked, FormFFT, FormDirect}

var floatElems = map[string][]tensor.DType{"T": ops.Floats, "W": ops.Floats}

// Pow returns exp(k·a), the k-th power of the discrete eigenvalue with the logarithm a. It is exact for k = 0.
func Pow(a complex128, k float64) complex128 {
	if k == 0 {
		return 1
	}
	r := math.Exp(k * real(a))
	s, c := math.Sincos(k * imag(a))
	return complex(r*c, r*s)
}

// Unstable reports whether |exp(a)| is above 1 by more than rounding.
func Unstable(a complex128) bool { return real(a) > 1e-12 }

// logEigen returns the logarithm of a discrete eigenvalue. For 0 it returns -1000: all powers but the zeroth are 0.
func logEigen(z complex128) complex128 {
	if z == 0 {
		return complex(-1000, 0)
	}
	return cmplx.Log(z)
}

// pair makes complex numbers of two arrays. im may be nil.
func pair(c *ir.EvalCtx, re, im []float64) []complex128 {
	out := ops.Make[complex128](c, len(re))
	for i := range ops.Each(c, len(re)) {
		if im != nil {
			out[i] = complex(re[i], im[i])
		} else {
			out[i] = complex(re[i], 0)
		}
	}
	return out
}

func split(ec *ir.EvalCtx, z []complex128) (re, im []float64) {
	re, im = ops.Make[float64](ec, len(z)), ops.Make[float64](ec, len(z))
	for i, c := range ops.All(ec, z) {
		re[i], im[i] = real(c), imag(c)
	}
	return re, im
}

// rank4 reads the four dimensions of a system matrix (C, S, rows, columns).
func rank4(t *tensor.Tensor, name string) (c, s, r, q int, err error) {
	if t == nil || t.Rank() != 4 {
		return 0, 0, 0, 0, fmt.Errorf("%s: expected 4 dimensions (channels, heads, rows, columns), found %s", name, t)
	}
	d := t.Shape()
	return d[0], d[1], d[2], d[3], nil
}

// alongScan returns the facts of a node that scans axis 1 of its first input and treats its other axes step by step.
func alongScan(n *ir.Node, in []ir.Fact, direction string, window, state int64, outputs int) []ir.Fact {
	out := make([]ir.Fact, outputs)
	f := in[0]
	f.State = 0
	if f.Constant() {
		return out
	}
	if f.Global || f.Axis == 2 {
		f = ops.Global(n, in)
	}
	if f.Axis == 1 && !f.Global {
		reach := ir.Unbounded
		if window > 0 {
			reach = window
		}
		if direction != Backward {
			f.Back = min(f.Back+reach, ir.Unbounded)
			f.Summary = true
			f.State = state
			f.Cause = n
		}
		if direction != Forward {
			f.Ahead = min(f.Ahead+reach, ir.Unbounded)
			f.Cause = n
		}
	}
	for i := range out {
		out[i] = f
	}
	if outputs > 1 && f.Axis == 1 { // the last output is the state after the last step
		out[outputs-1].Axis = -1
	}
	return out
}
