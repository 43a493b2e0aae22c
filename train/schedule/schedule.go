// Package schedule has the learning rates of training, step by step, as PyTorch's schedulers define them.
//
// It imports the standard library only. A schedule is a value: the rate of a step follows from the schedule, the base
// rate and the step, for Plateau also from the metrics seen so far, which its State holds. So a run that resumes goes
// on with the same rates.
package schedule

import (
	"fmt"
	"math"
)

// Schedule says which learning rate a step has.
type Schedule interface {
	// Rate returns the rate of a step, counted from 0, for parameters with a base rate.
	Rate(base float64, step int64) float64
}

// Observer is a schedule that depends on how training goes.
type Observer interface {
	Schedule
	// Observe takes the metric of an evaluation.
	Observe(metric float64)
}

// Constant is the base rate at every step.
type Constant struct{}

// Rate returns base.
func (Constant) Rate(base float64, _ int64) float64 { return base }

// Step multiplies the rate by Gamma every Size steps: torch.optim.lr_scheduler.StepLR.
type Step struct {
	Size  int64
	Gamma float64
}

// Rate returns base * Gamma^(step / Size).
func (s Step) Rate(base float64, step int64) float64 {
	return base * math.Pow(s.Gamma, float64(step/s.Size))
}

// Cosine goes from the base rate to Min within Steps steps along half a cosine, and stays there:
// torch.optim.lr_scheduler.CosineAnnealingLR with T_max = Steps and eta_min = Min.
type Cosine struct {
	Steps int64
	Min   float64
}

// Rate returns Min + (base - Min) * (1 + cos(π·step/Steps)) / 2.
func (c Cosine) Rate(base float64, step int64) float64 {
	t := float64(min(step, c.Steps)) / float64(c.Steps)
	return c.Min + (base-c.Min)*(1+math.Cos(math.Pi*t))/2
}

// Warmup raises the rate from Start * base to the base rate within Steps steps, in a line
// (torch.optim.lr_scheduler.LinearLR), and goes on with Then, which counts its steps from there (SequentialLR).
type Warmup struct {
	Steps int64
	Start float64 // above 0, at most 1
	Then  Schedule
}

// Rate returns base * (Start + (1 - Start) * step / Steps) during the warm-up.
func (w Warmup) Rate(base float64, step int64) float64 {
	if step < w.Steps {
		return base * (w.Start + (1-w.Start)*float64(step)/float64(w.Steps))
	}
	return w.Then.Rate(base, step-w.Steps)
}

// Observe passes the metric on to Then if that observes metrics.
func (w Warmup) Observe(metric float64) {
	if o, ok := w.Then.(Observer); ok {
		o.Observe(metric)
	}
}

// Plateau multiplies the rate by Factor when the metric has not improved for more than Patience evaluations:
// torch.optim.lr_scheduler.ReduceLROnPlateau.
type Plateau struct {
	Max       bool // larger metrics are better; otherwise smaller ones are
	Factor    float64
	Patience  int
	Threshold float64 // an improvement is larger than this
	Absolute  bool    // Threshold is a difference; otherwise it is a share of the best metric
	Cooldown  int     // evaluations after a reduction that do not count
	Min       float64 // the least rate
	Eps       float64 // reductions by at most this do not happen

	State PlateauState
}

// PlateauState is what a Plateau remembers. The zero value is that of a run that begins.
type PlateauState struct {
	Reductions int     `json:"reductions"`
	Seen       bool    `json:"seen"` // Best is set
	Best       float64 `json:"best"`
	Bad        int     `json:"bad"`      // evaluations since the last improvement
	Cooling    int     `json:"cooldown"` // evaluations that do not count yet
}

// NewPlateau returns a Plateau with PyTorch's defaults.
func NewPlateau() *Plateau {
	return &Plateau{Factor: 0.1, Patience: 10, Threshold: 1e-4, Eps: 1e-8}
}

// Rate applies the reductions so far to base.
func (p *Plateau) Rate(base float64, _ int64) float64 {
	rate := base
	for range p.State.Reductions {
		next := max(rate*p.Factor, p.Min)
		if rate-next > p.Eps {
			rate = next
		}
	}
	return rate
}

// Observe takes the metric of an evaluation. NaN is no improvement.
func (p *Plateau) Observe(metric float64) {
	s := &p.State
	if !s.Seen && !math.IsNaN(metric) || p.better(metric) {
		s.Seen, s.Best, s.Bad = true, metric, 0
	} else {
		s.Bad++
	}
	if s.Cooling > 0 {
		s.Cooling--
		s.Bad = 0
	}
	if s.Bad > p.Patience {
		s.Reductions++
		s.Cooling, s.Bad = p.Cooldown, 0
	}
}

// better reports whether a metric improves on the best one.
func (p *Plateau) better(metric float64) bool {
	best := p.State.Best
	switch {
	case !p.State.Seen:
		return false
	case p.Absolute && p.Max:
		return metric > best+p.Threshold
	case p.Absolute:
		return metric < best-p.Threshold
	case p.Max:
		return metric > best*(1+p.Threshold)
	}
	return metric < best*(1-p.Threshold)
}

// Check reports a setting that no schedule can have.
func Check(s Schedule) error {
	switch s := s.(type) {
	case Step:
		if s.Size < 1 || !(s.Gamma > 0) {
			return fmt.Errorf("step: expected a size of 1 or more and a gamma above 0, found %d and %g", s.Size, s.Gamma)
		}
	case Cosine:
		if s.Steps < 1 || !(s.Min >= 0) {
			return fmt.Errorf("cosine: expected 1 step or more and a least rate of 0 or more, found %d and %g", s.Steps, s.Min)
		}
	case Warmup:
		if s.Steps < 0 || !(s.Start > 0 && s.Start <= 1) || s.Then == nil {
			return fmt.Errorf("warm-up: expected 0 steps or more and a start above 0, at most 1, found %d and %g", s.Steps, s.Start)
		}
		return Check(s.Then)
	case *Plateau:
		if !(s.Factor > 0 && s.Factor < 1) || s.Patience < 0 || s.Cooldown < 0 || !(s.Min >= 0) {
			return fmt.Errorf("plateau: expected a factor between 0 and 1, patience, cooldown and least rate of 0 or more; "+
				"found %g, %d, %d and %g", s.Factor, s.Patience, s.Cooldown, s.Min)
		}
	}
	return nil
}
