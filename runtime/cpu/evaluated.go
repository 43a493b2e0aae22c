package cpu

import (
	"fmt"
	"slices"
)

// evaluationRate is the number of operations that an evaluation does in a second, about: it computes one number after the
// other, most of them in float64.
const evaluationRate = 1e9

// slowEvaluation is the time of a run, in seconds, from which an evaluation is worth a warning.
const slowEvaluation = 1e-3

// slowSteps lists the steps that are evaluated for lack of a kernel and take long, slowest first. Times are
// estimates from the operators' costs.
func (e *executable) slowSteps(dims map[string]int64) []string {
	type kind struct{ op, types string }
	work := map[kind]float64{}
	count := map[kind]int{}
	var kinds []kind
	var visit func(e *executable)
	visit = func(e *executable) {
		for _, u := range e.units {
			s := u.steps[0]
			for k, sub := range u.subs {
				if l := e.d.Body(s); l != nil && l.Open() && k == len(l.Stages)-1 {
					continue // kernels are found when its shapes are known
				}
				if sub != nil {
					visit(sub)
				}
			}
			if u.way(s, 0) != WayEvaluated || s.Node.Op.Cost == nil {
				continue
			}
			node := e.d.Concrete(s)
			if node == nil {
				node = s.Node
			}
			k := kind{opName(s.Node.Op), typesText(e.d.elems(s.In[:min(len(s.In), len(s.Node.Inputs))]), e.d.elems(s.Out))}
			if count[k]++; count[k] == 1 {
				kinds = append(kinds, k)
			}
			work[k] += float64(max(0, s.Node.Op.Cost(node, dims).Flops))
		}
	}
	visit(e)
	slices.SortStableFunc(kinds, func(a, b kind) int { return int(min(max(work[b]-work[a], -1), 1)) })
	var list []string
	for _, k := range kinds {
		seconds := work[k] / evaluationRate
		if seconds < slowEvaluation {
			continue
		}
		took := fmt.Sprintf("%.0f ms", 1e3*seconds)
		if seconds >= 1 {
			took = fmt.Sprintf("%.1f s", seconds)
		}
		nodes := "node"
		if count[k] > 1 {
			nodes = "nodes"
		}
		list = append(list, fmt.Sprintf("%s (%s) has no kernel on the cpu: %d %s evaluated as the operator is defined, about %s a run",
			k.op, k.types, count[k], nodes, took))
	}
	return list
}

// Refusal implements runtime.Refusing.
func (e *executable) Refusal() error { return e.d.Refusal() }

// warnSlow logs slowSteps when shapes are bound for the first time. Steps after one that refuses its types have no
// shapes, so no kernels; the run then fails instead of being slow.
func (p *program) warnSlow(e *executable, dims map[string]int64) {
	if e.Refusal() != nil || p.warned.Swap(true) {
		return
	}
	for _, line := range e.slowSteps(dims) {
		p.Config.Logger.Warn(line)
	}
}
