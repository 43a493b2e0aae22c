package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// contender is one of those that are measured side by side.
type contender struct {
	name string
	// run does the work reps times and gives the time of all.
	run func(reps int) (time.Duration, error)
	// group names contenders of which only the fastest matters: those that are far behind in the first rounds take no part
	// in the others. A contender without one is a group by itself, of its name.
	group string
}

// effort says how long to measure.
type effort struct {
	rounds int           // that are wished for
	least  int           // that are made even where they take longer than limit
	turn   time.Duration // a turn repeats the work until it takes about so long
	limit  time.Duration // of all rounds of one measurement
}

// hopeless is how many times slower than the fastest of its group a contender is when it retires, by the least of its times
// so far: after the first round, in which something may have disturbed it, and after each of the others.
var hopeless = [2]float64{2, 1.25}

// samples are seconds per run of each contender, by rounds. A contender that failed has none, and an error.
type samples struct {
	names  []string
	groups []string
	times  [][]float64
	errs   []error
}

// measure lets the contenders take turns: A B C, B C A, C A B and so on, so that what disturbs the machine disturbs all. Before
// the first round each runs to warm up, and again, unless it is slow, to see how long it takes.
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

// retire takes those out that are far behind the fastest of their group. What they have measured stays.
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

// of gives a contender's seconds per run, by rounds; nil where it took no part.
func (s *samples) of(name string) []float64 {
	if i := slices.Index(s.names, name); i >= 0 {
		return s.times[i]
	}
	return nil
}

// err is why a contender has no samples.
func (s *samples) err(name string) error {
	if i := slices.Index(s.names, name); i >= 0 {
		return s.errs[i]
	}
	return errAbsent
}

// fastest names the contender of some groups with the least median, of those that took part to the end; empty where none did.
func (s *samples) fastest(groups ...string) string {
	rounds, best := 0, ""
	for i, t := range s.times {
		if slices.Contains(groups, s.groups[i]) {
			rounds = max(rounds, len(t))
		}
	}
	for i, t := range s.times {
		if slices.Contains(groups, s.groups[i]) && len(t) > 0 && len(t) == rounds && (best == "" || median(t) < median(s.of(best))) {
			best = s.names[i]
		}
	}
	return best
}

// ratio compares two contenders round by round: how many times as long a takes as b.
func (s *samples) ratio(a, b string) spread {
	x, y := s.of(a), s.of(b)
	n := min(len(x), len(y))
	r := make([]float64, n)
	for i := range n {
		r[i] = x[i] / y[i]
	}
	return spreadOf(r)
}

// spread is the median of some numbers and the quartiles around it; n of them were there.
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

// quantile interpolates between the sorted values; NaN where there are none.
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

// geomean is the geometric mean of numbers above 0.
func geomean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(v)))
}

// number writes three digits.
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

// seconds writes a time with a unit; – for none.
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
