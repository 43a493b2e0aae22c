package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// paperPreset is a preset with the paper's batch size for training.
type paperPreset struct {
	id    string
	batch int
}

var paperPresets = []paperPreset{{"text", 16}, {"listops", 100}, {"image", 50}, {"pathx", 8}, {"sc35", 16}, {"smnist", 50}}

// quickPresets are the presets of -quick.
var quickPresets = []paperPreset{{"listops", 4}, {"smnist", 8}}

func (e *env) presets() []paperPreset {
	if e.quick {
		return quickPresets
	}
	return paperPresets
}

// threadsName returns "1 thread", "2 threads".
func threadsName(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return strconv.Itoa(n) + " threads"
}

// torchForms are the forms of the peer in torch: with the kept spectrum of the kernel, and with chunks of a number of
// steps. The paper's listing is another one.
var torchForms = []string{"fft", "chunks32", "chunks64", "chunks128"}

// usualForms are forms one of which is fast in most cases.
var usualForms = []string{"fft", "chunks64"}

// torchTrial selects the forms of torch to measure.
type torchTrial struct {
	forms []string
	// thorough adds the listing, and all settings of threads.
	thorough bool
}

// narrowed returns the trial for larger batches: the kept spectrum, and the fastest size of chunks.
func (t torchTrial) narrowed(s *samples) torchTrial {
	best, least := t.forms[1], math.Inf(1)
	for i, name := range s.names {
		for _, form := range t.forms[1:] {
			if strings.HasPrefix(name, "torch "+form+" 1 thread") && len(s.times[i]) > 0 && slices.Min(s.times[i]) < least {
				best, least = form, slices.Min(s.times[i])
			}
		}
	}
	return torchTrial{forms: []string{t.forms[0], best}}
}

func runPresets(ctx context.Context, e *env, r *result) error {
	single := table{Title: "One sample", Header: []string{"preset", "floor", "essmc 1t", "against floor",
		"essmc " + strconv.Itoa(e.threads) + "t",
		"1t : " + strconv.Itoa(e.threads) + "t", "torch 1t", "torch " + strconv.Itoa(e.threads) + "t",
		"torch : essmc 1t", "torch : essmc " + strconv.Itoa(e.threads) + "t", "listing : essmc 1t"},
		Note: "torch in the fastest of its forms (kept spectrum; chunks of 32, 64, 128) and thread settings: 1; or " +
			"several, its products on as many or on one, and 1 where that is faster. *listing*: the paper's code, " +
			"which makes the kernel anew in every call, on one thread."}
	batched := table{Title: "The paper's batch sizes", Header: single.Header[:len(single.Header)-1],
		Note: "torch in the faster of two forms (kept spectrum, and the chunks that were fastest for one sample); " +
			"several threads for products, too, or 1 where that is faster."}
	batched.Header = append([]string{"preset", "batch"}, batched.Header[1:]...)
	trials := map[string]torchTrial{}
	var speedup []float64
	var slowSpeedup string
	for _, p := range e.presets() {
		m, err := newModel(e, p.id)
		if err != nil {
			return err
		}
		e.progress("  %s", p.id)
		s, err := e.preset(ctx, m, 1, torchTrial{torchForms, true})
		if err != nil {
			return err
		}
		trials[p.id] = torchTrial{forms: torchForms}.narrowed(s)
		c := s.compare(e)
		single.add(p.id, seconds(s.of(c.bottom)), seconds(s.of("essmc 1 thread")), c.floor.String(),
			seconds(s.of(c.several)), c.speedup.String(),
			seconds(s.of(c.torch1)), seconds(s.of(c.torchN)), c.gain1.String(), c.gainN.String(),
			s.ratio(s.fastest("listing"), "essmc 1 thread").String())
		r.judgePreset(e, m, p, c)
		if c.speedup.n > 0 {
			if speedup = append(speedup, c.speedup.mid); c.speedup.mid <= lowest(speedup) {
				slowSpeedup = p.id
			}
		}
	}
	if len(speedup) > 0 {
		r.Verdicts = append(r.Verdicts, judge("2 threads against 1, whole presets, the least", "1.8×",
			number(lowest(speedup))+"× "+slowSpeedup, lowest(speedup) >= 1.8))
	}
	var floors []float64
	slowFloor := ""
	for _, p := range e.presets() {
		m, err := newModel(e, p.id)
		if err != nil {
			return err
		}
		e.progress("  %s, batch %d", p.id, p.batch)
		s, err := e.preset(ctx, m, p.batch, trials[p.id])
		if err != nil {
			return err
		}
		c := s.compare(e)
		batched.add(p.id, strconv.Itoa(p.batch), seconds(s.of(c.bottom)), seconds(s.of("essmc 1 thread")),
			c.floor.String(), seconds(s.of(c.several)), c.speedup.String(),
			seconds(s.of(c.torch1)), seconds(s.of(c.torchN)), c.gain1.String(), c.gainN.String())
		if c.floor.n > 0 {
			if floors = append(floors, c.floor.mid); c.floor.mid >= slices.Max(floors) {
				slowFloor = p.id
			}
		}
	}
	if len(floors) > 0 {
		r.Verdicts = append(r.Verdicts, judge("against the floor at the paper's batch sizes, 1 thread, the most", "at most 1.25×",
			number(slices.Max(floors))+"× "+slowFloor, slices.Max(floors) <= 1.25))
	}
	r.Tables = append(r.Tables, single, batched)
	return nil
}

func lowest(v []float64) float64 { return quantile(v, 0) }

// preset measures a model on one batch: essmc and torch with all numbers of threads, and the floor.
func (e *env) preset(ctx context.Context, m *model, batch int, trial torchTrial) (*samples, error) {
	x, file, err := m.input(batch, m.preset.Length)
	if err != nil {
		return nil, err
	}
	all, done, err := e.presetContenders(ctx, m, x, file, trial)
	defer done()
	if err != nil {
		return nil, err
	}
	return measure(ctx, e.effort(25*time.Second), all)
}

// presetContenders prepares essmc, torch and the floor for one input. done releases them, also after an error.
func (e *env) presetContenders(ctx context.Context, m *model, x *tensor.Tensor, file string,
	trial torchTrial) (all []contender, done func(), err error) {
	var held []func()
	done = func() {
		for _, f := range held {
			f()
		}
	}
	in := map[string]tensor.Datum{m.inputName(): x}
	for _, threads := range e.threadCounts() {
		o, err := newOurs(ctx, m.graph, in, runtime.Options{Threads: threads, Outputs: answers(m.graph)})
		if err != nil {
			return nil, done, fmt.Errorf("%s: %w", m.name, err)
		}
		held = append(held, o.close)
		all = append(all, o.contender(ctx, "essmc "+threadsName(threads)))
	}
	if e.peers.blas != nil {
		for _, layout := range m.floorLayouts() {
			j, err := e.peers.blas.load(1, append([]string{layout}, m.floor(x.Dim(0)*x.Dim(1))...)...)
			if err != nil {
				return nil, done, err
			}
			held = append(held, j.drop)
			all = append(all, contender{name: "floor " + layout, group: "floor", run: j.run})
		}
	}
	torch := func(t torchPeer, form, group string) error {
		j, err := t.load(t.threads, form, m.dir, "float", file)
		if err == nil {
			held = append(held, j.drop)
			all = append(all, contender{name: fmt.Sprintf("torch %s %v", form, t), group: group, run: j.run})
		}
		return err
	}
	for _, t := range e.peers.torch {
		if t.products != t.threads && !trial.thorough {
			continue
		}
		for _, form := range trial.forms {
			if err := torch(t, form, torchGroup(t.threads)); err != nil {
				return nil, done, err
			}
		}
		if trial.thorough && t.threads == 1 {
			if err := torch(t, "listing", "listing"); err != nil {
				return nil, done, err
			}
		}
	}
	return all, done, nil
}

// torchGroup returns the group of torch's forms with a number of threads.
func torchGroup(threads int) string { return "torch " + threadsName(threads) }

// comparison is the row of a table for one model and batch.
type comparison struct {
	several        string // essmc with several threads
	bottom         string // the floor, in its fastest layout
	torch1, torchN string // torch's best with one thread, and with the fastest number of threads
	floor, speedup spread
	gain1, gainN   spread
}

func (s *samples) compare(e *env) comparison {
	c := comparison{several: "essmc " + threadsName(e.threads), bottom: s.fastest("floor")}
	c.torch1, c.torchN = s.fastest(torchGroup(1)), s.fastest(torchGroup(1), torchGroup(e.threads))
	c.floor = s.ratio("essmc 1 thread", c.bottom)
	c.speedup = s.ratio("essmc 1 thread", c.several)
	c.gain1, c.gainN = s.ratio(c.torch1, "essmc 1 thread"), s.ratio(c.torchN, c.several)
	return c
}

// judgePreset compares one preset at batch 1 with the floor. The verdict also has torch's time over the floor: nothing with
// products of the floor's speed can beat torch by more than that.
func (r *result) judgePreset(e *env, m *model, p paperPreset, c comparison) {
	bound := 1.25
	switch {
	case m.preset.Config.DModel == 128:
		bound = 1.35
	case !m.preset.Config.Layer.Bidirectional:
		bound = 1.10
	}
	if c.floor.n > 0 {
		found := c.floor.String()
		if c.gain1.n > 0 {
			found += "; torch takes " + number(c.gain1.mid*c.floor.mid) + "×"
		}
		r.Verdicts = append(r.Verdicts, judge(p.id+" against the floor, 1 thread", "at most "+number(bound)+"×", found,
			c.floor.mid <= bound))
	} else {
		r.Verdicts = append(r.Verdicts, verdict{p.id + " against the floor, 1 thread", "at most " + number(bound) + "×",
			"OpenBLAS is absent", unmeasured})
	}
}
