package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// contender is one of the programs that are measured side by side.
type contender struct {
	name string
	// run does the work reps times and returns the total time.
	run func(reps int) (time.Duration, error)
	// group names contenders of which only the fastest matters: those that are far slower in the first rounds are not
	// measured in later ones. A contender without a group is a group by itself.
	group string
}

// effort holds the limits of a measurement.
type effort struct {
	rounds int           // intended rounds
	least  int           // rounds even beyond limit
	turn   time.Duration // a turn repeats the work until it takes about this time
	limit  time.Duration // of all rounds
}

// hopeless is the ratio to the fastest of its group, by minimum times, at which a contender retires: after the first
// round, in which it may have been disturbed, and after later ones.
var hopeless = [2]float64{2, 1.25}

// samples holds seconds per run of each contender, by rounds. A contender that failed has none, and an error.
type samples struct {
	names  []string
	groups []string
	times  [][]float64
	errs   []error
}

// measure lets the contenders take turns: A B C, B C A, C A B and so on, so that a disturbance of the machine affects
// all. Before the first round each runs once to warm up and, unless it is slow, once more to estimate its time.
func measure(ctx context.Context, f effort, all []contender) (*samples, error) {
	s := &samples{times: make([][]float64, len(all)), errs: make([]error, len(all))}
	reps, once := make([]int, len(all)), make([]time.Duration, len(all))
	for i, c := range all {
		s.names, s.groups = append(s.names, c.name), append(s.groups, cmp.Or(c.group, c.name))
		once[i], s.errs[i] = c.run(1)
		if s.errs[i] == nil && once[i] < time.Second {
			once[i], s.errs[i] = c.run(1)
		}
		if s.errs[i] != nil {
			continue
		}
		reps[i] = int(min(1e7, max(1, int64(f.turn)/max(1, int64(once[i])))))
	}
	began := time.Now()
	for round := range f.rounds {
		for k := range all {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			i := (k + round) % len(all)
			if s.errs[i] != nil || reps[i] == 0 {
				continue
			}
			if once[i] < f.turn { // the others' turns have emptied the caches
				if _, s.errs[i] = all[i].run(1); s.errs[i] != nil {
					continue
				}
			}
			var t time.Duration
			if t, s.errs[i] = all[i].run(reps[i]); s.errs[i] == nil {
				s.times[i] = append(s.times[i], t.Seconds()/float64(reps[i]))
			}
		}
		s.retire(round, reps)
		if round+1 >= f.least && time.Since(began) > f.limit {
			break
		}
	}
	for i, err := range s.errs {
		if err != nil {
			s.times[i] = nil
		}
	}
	return s, nil
}

// retire removes contenders that are far slower than the fastest of their group. Their samples stay.
func (s *samples) retire(round int, reps []int) {
	fastest := map[string]float64{}
	for i, t := range s.times {
		if len(t) > 0 {
			if least, ok := fastest[s.groups[i]]; !ok || slices.Min(t) < least {
				fastest[s.groups[i]] = slices.Min(t)
			}
		}
	}
	for i, t := range s.times {
		if len(t) > 0 && slices.Min(t) > hopeless[min(round, 1)]*fastest[s.groups[i]] {
			reps[i] = 0
		}
	}
}

// of returns a contender's seconds per run, by rounds, or nil if it was not measured.
func (s *samples) of(name string) []float64 {
	if i := slices.Index(s.names, name); i >= 0 {
		return s.times[i]
	}
	return nil
}

// err returns the reason why a contender has no samples.
func (s *samples) err(name string) error {
	if i := slices.Index(s.names, name); i >= 0 {
		return s.errs[i]
	}
	return errAbsent
}

// fastest returns the contender of some groups with the smallest median, among those measured to the end. It returns ""
// if there is none.
func (s *samples) fastest(groups ...string) string {
	rounds, best := 0, ""
	for i, t := range s.times {
		if slices.Contains(groups, s.groups[i]) {
			rounds = max(rounds, len(t))
		}
	}
	for i, t := range s.times {
		if slices.Contains(groups, s.groups[i]) && len(t) > 0 && len(t) == rounds &&
			(best == "" || median(t) < median(s.of(best))) {
			best = s.names[i]
		}
	}
	return best
}

// ratio returns the ratio of the times of a and b, by rounds.
func (s *samples) ratio(a, b string) spread {
	x, y := s.of(a), s.of(b)
	n := min(len(x), len(y))
	r := make([]float64, n)
	for i := range n {
		r[i] = x[i] / y[i]
	}
	return spreadOf(r)
}

// spread is the median and the quartiles of n numbers.
type spread struct {
	mid, low, high float64
	n              int
}

func spreadOf(v []float64) spread {
	if len(v) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN(), 0}
	}
	return spread{median(v), quantile(v, 0.25), quantile(v, 0.75), len(v)}
}

func (r spread) String() string {
	if r.n == 0 {
		return "–"
	}
	if r.n < 3 {
		return fmt.Sprintf("%s×", number(r.mid))
	}
	return fmt.Sprintf("%s× (%s–%s)", number(r.mid), number(r.low), number(r.high))
}

func median(v []float64) float64 { return quantile(v, 0.5) }

// quantile interpolates between the sorted values. It returns NaN if there are none.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// geomean returns the geometric mean of positive numbers.
func geomean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(v)))
}

// number returns a number with three digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// seconds returns a time with a unit, or – if there is none.
func seconds(t []float64) string {
	v := median(t)
	switch {
	case math.IsNaN(v):
		return "–"
	case v < 1e-3:
		return number(v*1e6) + " µs"
	case v < 1:
		return number(v*1e3) + " ms"
	}
	return number(v) + " s"
}
