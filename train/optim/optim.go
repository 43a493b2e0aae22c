// Package optim has the optimizers of training as nodes of a graph: they are compiled with the model, so that a step is
// one executable.
//
// A rule states the next content of a parameter and of its moments by expressions of one element (ir/scalar), or, where
// it needs norms of whole tensors, by nodes. What differs from step to step, such as the learning rate, enters as
// numbers: scalar inputs of the graph, which the rule computes in float64 for each step. So a graph is compiled once
// for all steps. Moments are zero before the first step, and have the type and shape of their parameter.
//
// It imports ir, ir/scalar, ops and the standard library.
package optim

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ops"
)

// Rule is an optimizer with its settings.
type Rule interface {
	// Moments are the names of the tensors that the rule keeps beside each parameter.
	Moments() []string
	// Numbers are the names of the scalars that differ from step to step.
	Numbers() []string
	// At returns the numbers of a step, counted from 1, for a learning rate.
	At(rate float64, step int64) []float64
	// Check reports a setting that the rule cannot have.
	Check() error

	// update adds nodes for the next content of a parameter and of its moments.
	update(b *builder, p, g *ir.Value, moments, numbers []*ir.Value) (next *ir.Value, nextMoments []*ir.Value)
}

// Step is one parameter within a step of training.
type Step struct {
	Parameter, Gradient *ir.Value
	Moments, Numbers    []*ir.Value // as the rule names them
	// Keep is a scalar of the parameter's type. If it is 0, the parameter and its moments stay as they are: the
	// gradients have a NaN. Nil: they never do.
	Keep *ir.Value
}

// Update adds nodes to b that compute the next content of a parameter and of its moments by a rule. Elements are those
// of the parameter's type.
func Update(b *ir.Builder, r Rule, s Step) (next *ir.Value, moments []*ir.Value) {
	if len(s.Moments) != len(r.Moments()) || len(s.Numbers) != len(r.Numbers()) {
		b.Fail(fmt.Errorf("parameter %s: expected %d moments and %d numbers, found %d and %d", s.Parameter.Name,
			len(r.Moments()), len(r.Numbers()), len(s.Moments), len(s.Numbers)))
		return nil, nil
	}
	return r.update(&builder{b, s.Keep}, s.Parameter, s.Gradient, s.Moments, s.Numbers)
}

// builder adds elementwise nodes.
type builder struct {
	*ir.Builder
	keep *ir.Value
}

// apply computes an expression of the elements of values, which broadcast.
func (b *builder) apply(e scalar.Expr, in ...*ir.Value) *ir.Value {
	return ops.MapOf(b.Builder, e, in...)
}

// replace is apply for the next content of a value, the first of in: where keep is 0, it is the content.
func (b *builder) replace(e scalar.Expr, in ...*ir.Value) *ir.Value {
	if b.keep == nil {
		return b.apply(e, in...)
	}
	return b.apply(scalar.Select(scalar.Input(len(in)), e, scalar.Input(0)), append(in[:len(in):len(in)], b.keep)...)
}

// norm returns the Euclidean norm of a value, as a scalar.
func (b *builder) norm(v *ir.Value) *ir.Value {
	return b.Op("", "ReduceL2", []*ir.Value{v}, ir.A("keepdims", 0))
}

var num = scalar.Const

// AdamW is torch.optim.AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2019).
//
//	m' = β₁·m + (1-β₁)·g,  v' = β₂·v + (1-β₂)·g²
//	p' = p·(1 - rate·decay) - rate/(1-β₁ᵗ) · m' / (√v'/√(1-β₂ᵗ) + ε)
type AdamW struct {
	Beta1, Beta2, Eps, WeightDecay float64
}

// NewAdamW returns AdamW with PyTorch's defaults.
func NewAdamW() AdamW { return AdamW{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01} }

// Moments are the running means of gradients and of their squares.
func (AdamW) Moments() []string { return []string{"exp_avg", "exp_avg_sq"} }

// Numbers are the factor of the parameter, the size of the step, and the correction of the root.
func (AdamW) Numbers() []string { return []string{"decay", "size", "root"} }

// At returns 1 - rate·decay, rate/(1-β₁ᵗ) and √(1-β₂ᵗ).
func (a AdamW) At(rate float64, step int64) []float64 {
	t := float64(step)
	return []float64{1 - rate*a.WeightDecay, rate / (1 - math.Pow(a.Beta1, t)), math.Sqrt(1 - math.Pow(a.Beta2, t))}
}

// Check reports a setting out of range.
func (a AdamW) Check() error { return checkAdam(a.Beta1, a.Beta2, a.Eps, a.WeightDecay) }

func checkAdam(beta1, beta2, eps, decay float64) error {
	if !(beta1 >= 0 && beta1 < 1) || !(beta2 >= 0 && beta2 < 1) {
		return fmt.Errorf("betas: expected numbers from 0 to below 1, found %g and %g", beta1, beta2)
	}
	if !(eps >= 0) {
		return fmt.Errorf("eps: expected 0 or more, found %g", eps)
	}
	return checkDecay(decay)
}

func checkDecay(decay float64) error {
	if !(decay >= 0) {
		return fmt.Errorf("weight_decay: expected 0 or more, found %g", decay)
	}
	return nil
}

// means are the next running means of Adam: of gradients and of their squares. The operands are a moment and a
// gradient.
func means(beta1, beta2 float64) (m, v scalar.Expr) {
	x, g := scalar.Input(0), scalar.Input(1)
	m = scalar.Add(scalar.Mul(num(beta1), x), scalar.Mul(num(1-beta1), g))
	v = scalar.Add(scalar.Mul(num(beta2), x), scalar.Mul(num(1-beta2), scalar.Mul(g, g)))
	return m, v
}

func (a AdamW) update(b *builder, p, g *ir.Value, moments, numbers []*ir.Value) (*ir.Value, []*ir.Value) {
	me, ve := means(a.Beta1, a.Beta2)
	m, v := b.replace(me, moments[0], g), b.replace(ve, moments[1], g)
	x := scalar.Inputs(6) // p, m, v, decay, size, root
	ratio := scalar.Div(x[1], scalar.Add(scalar.Div(scalar.Sqrt(x[2]), x[5]), num(a.Eps)))
	next := scalar.Sub(scalar.Mul(x[0], x[3]), scalar.Mul(x[4], ratio))
	return b.replace(next, p, m, v, numbers[0], numbers[1], numbers[2]), []*ir.Value{m, v}
}

// SGD is torch.optim.SGD.
//
//	g = g + decay·p,  m' = momentum·m + (1-dampening)·g (g at the first step)
//	p' = p - rate·m', or p - rate·(g + momentum·m') if Nesterov is set
type SGD struct {
	Momentum, Dampening, WeightDecay float64
	Nesterov                         bool
}

// Moments is the running sum of gradients, if there is a momentum.
func (s SGD) Moments() []string {
	if s.Momentum == 0 {
		return nil
	}
	return []string{"momentum_buffer"}
}

// Numbers are the learning rate and the factor of the gradient in the moment.
func (SGD) Numbers() []string { return []string{"rate", "share"} }

// At returns the rate, and 1 - dampening after the first step.
func (s SGD) At(rate float64, step int64) []float64 {
	if step <= 1 {
		return []float64{rate, 1}
	}
	return []float64{rate, 1 - s.Dampening}
}

// Check reports a setting out of range.
func (s SGD) Check() error {
	if !(s.Momentum >= 0) {
		return fmt.Errorf("momentum: expected 0 or more, found %g", s.Momentum)
	}
	if s.Nesterov && (s.Momentum == 0 || s.Dampening != 0) {
		return fmt.Errorf("nesterov: expected a momentum and no dampening, found %g and %g", s.Momentum, s.Dampening)
	}
	return checkDecay(s.WeightDecay)
}

func (s SGD) update(b *builder, p, g *ir.Value, moments, numbers []*ir.Value) (*ir.Value, []*ir.Value) {
	decayed := func(g, p scalar.Expr) scalar.Expr {
		if s.WeightDecay == 0 {
			return g
		}
		return scalar.Add(g, scalar.Mul(num(s.WeightDecay), p))
	}
	if s.Momentum == 0 {
		x := scalar.Inputs(3) // p, g, rate
		return b.replace(scalar.Sub(x[0], scalar.Mul(x[2], decayed(x[1], x[0]))), p, g, numbers[0]), nil
	}
	x := scalar.Inputs(4) // m, g, p, share
	m := b.replace(scalar.Add(scalar.Mul(num(s.Momentum), x[0]), scalar.Mul(x[3], decayed(x[1], x[2]))),
		moments[0], g, p, numbers[1])
	x = scalar.Inputs(4) // p, m', g, rate
	direction := x[1]
	if s.Nesterov {
		direction = scalar.Add(decayed(x[2], x[0]), scalar.Mul(num(s.Momentum), x[1]))
	}
	return b.replace(scalar.Sub(x[0], scalar.Mul(x[3], direction)), p, m, g, numbers[0]), []*ir.Value{m}
}

// Lamb scales Adam's step of each tensor by the ratio of the norms of parameter and step (You et al., 2020, algorithm
// 2):
//
//	u = m'/(1-β₁ᵗ) / (√(v'/(1-β₂ᵗ)) + ε) + decay·p,  p' = p - rate · ‖p‖/‖u‖ · u
//
// with m' and v' of AdamW. The ratio is 1 if a norm is 0.
type Lamb struct {
	Beta1, Beta2, Eps, WeightDecay float64
}

// NewLamb returns Lamb with the settings of its paper.
func NewLamb() Lamb { return Lamb{Beta1: 0.9, Beta2: 0.999, Eps: 1e-6, WeightDecay: 0.01} }

// Moments are the running means of gradients and of their squares.
func (Lamb) Moments() []string { return []string{"exp_avg", "exp_avg_sq"} }

// Numbers are the learning rate and the corrections of both means.
func (Lamb) Numbers() []string { return []string{"rate", "mean", "root"} }

// At returns the rate, 1/(1-β₁ᵗ) and √(1-β₂ᵗ).
func (l Lamb) At(rate float64, step int64) []float64 {
	t := float64(step)
	return []float64{rate, 1 / (1 - math.Pow(l.Beta1, t)), math.Sqrt(1 - math.Pow(l.Beta2, t))}
}

// Check reports a setting out of range.
func (l Lamb) Check() error { return checkAdam(l.Beta1, l.Beta2, l.Eps, l.WeightDecay) }

func (l Lamb) update(b *builder, p, g *ir.Value, moments, numbers []*ir.Value) (*ir.Value, []*ir.Value) {
	me, ve := means(l.Beta1, l.Beta2)
	m, v := b.replace(me, moments[0], g), b.replace(ve, moments[1], g)
	x := scalar.Inputs(5) // p, m, v, mean, root
	u := scalar.Div(scalar.Mul(x[1], x[3]), scalar.Add(scalar.Div(scalar.Sqrt(x[2]), x[4]), num(l.Eps)))
	if l.WeightDecay != 0 {
		u = scalar.Add(u, scalar.Mul(num(l.WeightDecay), x[0]))
	}
	step := b.apply(u, p, m, v, numbers[1], numbers[2])
	y := scalar.Inputs(2)
	ratio := b.apply(scalar.Select(scalar.Less(num(0), scalar.Min(y[0], y[1])), scalar.Div(y[0], y[1]), num(1)),
		b.norm(p), b.norm(step))
	x = scalar.Inputs(4) // p, u, ratio, rate
	return b.replace(scalar.Sub(x[0], scalar.Mul(scalar.Mul(x[3], x[2]), x[1])), p, step, ratio, numbers[0]), []*ir.Value{m, v}
}

// ClipNorm scales gradients so that the norm of all of them is at most limit, as torch.nn.utils.clip_grad_norm_ does:
// by limit/(norm + 1e-6) if that is below 1. It also returns the norm, and a scalar that is 1 if it is finite and 0
// otherwise. The sum over tensors is a binary tree in their order. limit 0 or less: gradients are not scaled.
func ClipNorm(to *ir.Builder, gradients []*ir.Value, limit float64) (clipped []*ir.Value, norm, finite *ir.Value) {
	b := &builder{Builder: to}
	sums := make([]*ir.Value, len(gradients))
	for i, g := range gradients {
		sums[i] = b.Op("", "ReduceSumSquare", []*ir.Value{g}, ir.A("keepdims", 0))
	}
	for len(sums) > 1 {
		var next []*ir.Value
		for i := 0; i+1 < len(sums); i += 2 {
			next = append(next, b.Op("", "Add", sums[i:i+2:i+2]))
		}
		if len(sums)%2 == 1 {
			next = append(next, sums[len(sums)-1])
		}
		sums = next
	}
	x := scalar.Input(0)
	norm = b.apply(scalar.Sqrt(x), sums[0])
	finite = b.apply(scalar.LessEqual(x, num(math.MaxFloat32)), norm)
	if limit <= 0 {
		return gradients, norm, finite
	}
	scale := b.apply(scalar.Min(num(1), scalar.Div(num(limit), scalar.Add(x, num(1e-6)))), norm)
	clipped = make([]*ir.Value, len(gradients))
	for i, g := range gradients {
		clipped[i] = b.Op("", "Mul", []*ir.Value{g, scale})
	}
	return clipped, norm, finite
}

// Average is the next content of an exponential moving average of a parameter: decay·average + (1-decay)·parameter.
func Average(to *ir.Builder, average, parameter *ir.Value, decay float64) *ir.Value {
	b := &builder{Builder: to}
	x := scalar.Inputs(2)
	return b.apply(scalar.Add(scalar.Mul(num(decay), x[0]), scalar.Mul(num(1-decay), x[1])), average, parameter)
}
