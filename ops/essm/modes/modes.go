// Package modes reads the linear systems of a graph: eigenvalues, step sizes, memory lengths and gains by layer and
// head.
//
// It imports ir, ops, ops/eval, ops/essm, ops/essm/spectral and gonum. It reads operators, not families, so any graph
// with state-space operators will do: as a model directory states it, or after the passes. Systems with full or
// low-rank matrices are diagonalized for this, whatever their condition.
package modes

import (
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops/eval"
)

// Mode is one state of a diagonal system: z[t] = λ̄ z[t-1] + b B u[t], and y[t] = Re Σ C z[t].
type Mode struct {
	// Step is the step size Δ; 0 if the graph has only the discrete system.
	Step float64
	// Lambda is the continuous eigenvalue λ. Without a step size it is λΔ, the eigenvalue per step.
	Lambda complex128
	// Eigen is the discrete eigenvalue λ̄.
	Eigen complex128
	// Memory is the number of steps after which an impulse has decayed to 1/e: -1/log|λ̄|. It is infinite if it does
	// not decay.
	Memory float64
	// Frequency is that of the impulse response, in cycles per step, from 0 to 0.5.
	Frequency float64
	// Gain is the largest amplification of the mode alone over all frequencies, ‖C‖ |b| ‖B‖ / (1 - |λ̄|); NaN if it is
	// not known.
	Gain float64
}

// Head is one system of a layer.
type Head struct {
	Channel, Head int
	Modes         []Mode
	// Response is the amplification ‖H‖ (Frobenius norm) at each of System.Frequencies; nil if it is not known.
	Response []float64
}

// DC returns the amplification of constant inputs; NaN if it is not known.
func (h *Head) DC() float64 {
	if len(h.Response) == 0 {
		return math.NaN()
	}
	return h.Response[0]
}

// Peak returns the largest amplification over the frequencies; NaN if it is not known.
func (h *Head) Peak() float64 {
	if len(h.Response) == 0 {
		return math.NaN()
	}
	return slices.Max(h.Response)
}

// Memory returns the longest memory of the head's modes.
func (h *Head) Memory() float64 {
	m := 0.0
	for _, x := range h.Modes {
		m = max(m, x.Memory)
	}
	return m
}

// System is one operator of a graph with its heads.
type System struct {
	Layer     string // the part of the model, as "layers.0"
	Name      string // the value that it computes
	Kind      string // "diagonal", "full", "low rank", "softmax" or "selective"
	Method    string // of the discretization; empty if the graph has only the discrete system
	Direction string // "forward", "backward" or "bidirectional"
	Inputs    int    // of each head
	Outputs   int
	// Frequencies are those of Head.Response, in cycles per step.
	Frequencies []float64
	Heads       []Head
	// Note says what does not follow from the operator alone; empty: nothing.
	Note string
}

// Report is all systems of a graph, in its order.
type Report struct {
	Systems []System
	// Others names operators with a state whose decay depends on the input, with the reason.
	Others []string
}

// Options bound the work.
type Options struct {
	// Context ends the work when it is done; nil: never.
	Context context.Context
	// MaxModes bounds the states of all systems together; 0: 1 << 22.
	MaxModes int
}

// reader reads the systems of one graph.
type reader struct {
	ctx  context.Context
	eval *eval.Constants
	left int // modes
	out  Report
}

// maxElements bounds a constant that is computed.
const maxElements = 1 << 26

// Of returns the systems of a graph.
func Of(g *ir.Graph, o Options) (*Report, error) {
	r := &reader{ctx: o.Context, left: o.MaxModes}
	if r.ctx == nil {
		r.ctx = context.Background()
	}
	if r.left == 0 {
		r.left = 1 << 22
	}
	r.eval = &eval.Constants{Wide: true, Limit: maxElements, Ctx: r.ctx}
	err := g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		if err := r.node(n, n); err != nil {
			return fmt.Errorf("%v: %w", n, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &r.out, nil
}

// newMode returns a mode of the log of its discrete eigenvalue, and its gain.
func newMode(lambda, a complex128, step, gain float64) Mode {
	e := cmplx.Exp(a)
	m := Mode{Step: step, Lambda: lambda, Eigen: e, Memory: math.Inf(1), Gain: gain}
	if x := real(a); x < 0 {
		m.Memory = -1 / x
	}
	m.Frequency = math.Abs(math.Atan2(imag(e), real(e))) / (2 * math.Pi)
	return m
}
