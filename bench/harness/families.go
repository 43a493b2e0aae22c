package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes/lower"
	"github.com/essmc/essmc/runtime"
)

// familyPoint is a point of the families' figures.
type familyPoint struct{ width, batch, length int }

// familyWays are the ways in which the figures go from the common point.
type familyWay struct {
	file, title, xlabel string
	at                  func(p familyPoint) float64
	points              []familyPoint
}

func (e *env) familyWays() []familyWay {
	width, length := 128, 4096
	lengths, widths, batches := []int{1024, 4096, 16384}, []int{64, 128, 256}, []int{1, 4, 16}
	short := 1024
	if e.quick {
		width, length, short = 32, 256, 128
		lengths, widths, batches = []int{128, 256}, []int{32, 64}, []int{1, 2}
	}
	byLength := familyWay{file: "families-length.svg", title: fmt.Sprintf("families of width %d, one sample", width),
		xlabel: "steps", at: func(p familyPoint) float64 { return float64(p.length) }}
	for _, n := range lengths {
		byLength.points = append(byLength.points, familyPoint{width, 1, n})
	}
	byWidth := familyWay{file: "families-width.svg", title: fmt.Sprintf("families, one sample of %d steps", length),
		xlabel: "width", at: func(p familyPoint) float64 { return float64(p.width) }}
	for _, n := range widths {
		byWidth.points = append(byWidth.points, familyPoint{n, 1, length})
	}
	byBatch := familyWay{file: "families-batch.svg", title: fmt.Sprintf("families of width %d, samples of %d steps", width, short),
		xlabel: "samples", at: func(p familyPoint) float64 { return float64(p.batch) }}
	for _, n := range batches {
		byBatch.points = append(byBatch.points, familyPoint{width, n, short})
	}
	return []familyWay{byLength, byWidth, byBatch}
}

// familyTimes are the measurements of a family at a point.
type familyTimes struct {
	ours, torch, ort []float64 // seconds
	gain, gainORT    spread    // the peers' times over ours
	memory           int64     // working memory of the session
	parameters       int
	streams          bool
	step, torchStep  []float64
	gainStep         spread
	state            int // bytes
}

func runFamilies(ctx context.Context, e *env, r *result) error {
	compared, err := registered()
	if err != nil {
		return err
	}
	ways := e.familyWays()
	base := ways[1].points[min(1, len(ways[1].points)-1)]
	if e.quick {
		base = ways[1].points[0]
	}
	found := map[string]map[familyPoint]*familyTimes{}
	for _, f := range compared {
		found[f.name] = map[familyPoint]*familyTimes{}
		for _, w := range ways {
			for _, p := range w.points {
				if f.most > 0 && p.length > f.most || found[f.name][p] != nil {
					continue
				}
				e.progress("  %s: width %d, %d × %d steps", f.name, p.width, p.batch, p.length)
				if found[f.name][p], err = e.familyAt(ctx, f, p, p == base); err != nil {
					return err
				}
			}
		}
	}
	r.Tables = append(r.Tables, familySummary(compared, found, base))
	for _, w := range ways {
		figures, table, err := e.familyFigure(w, compared, found)
		if err != nil {
			return err
		}
		r.Tables, r.Figures = append(r.Tables, table), append(r.Figures, figures...)
	}
	r.judgeFamilies(e, compared, found, base)
	return e.familyAblations(ctx, r)
}

// familyAt measures a family at a point.
func (e *env) familyAt(ctx context.Context, f family, p familyPoint, steps bool) (*familyTimes, error) {
	m, err := e.newFamilyModel(fmt.Sprintf("%s-%d-%d", f.name, p.width, p.length), f.config(familySize{p.width, p.length}))
	if err != nil {
		return nil, err
	}
	in, file, err := m.input(p.batch, p.length)
	if err != nil {
		return nil, err
	}
	o, err := newOurs(ctx, m.graph, in, runtime.Options{Threads: 1, Outputs: answers(m.graph)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	defer o.close()
	out := &familyTimes{parameters: m.parameters, memory: o.session.Memory(), streams: m.config.Common().Streams}
	all := []contender{o.contender(ctx, "essmc")}
	var theirs []*job
	defer func() {
		for _, j := range theirs {
			j.drop()
		}
	}()
	load := func(name, group string, j *job, err error) error {
		if err == nil {
			theirs = append(theirs, j)
			all = append(all, contender{name: name, group: group, run: j.run})
		}
		return err
	}
	for i, q := range e.peers.families {
		j, err := q.load(1, "whole", m.dir, "float", file)
		if err != nil && i > 0 {
			continue // an older torch lacks an operation
		}
		if err := load(q.version, "torch", j, err); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if e.peers.ort != nil && (f.name == "lstm" || f.name == "transformer") {
		onnx, g := m.dir+".onnx", m.graph.Clone()
		g.SelectOutputs(answers(g), func(*ir.Value) bool { return false })
		if err := export(onnx, g, lower.Options{OmitOptional: true}); err != nil {
			return nil, err
		}
		j, err := e.peers.onnx(1, onnx, g.Inputs[0].Name+"="+file)
		if err := load("ONNX Runtime", "ONNX Runtime", j, err); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	s, err := measure(ctx, e.effort(3*time.Second), all)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if s.of(c.name) == nil {
			return nil, fmt.Errorf("%s: %s: %w", m.name, c.name, s.err(c.name))
		}
	}
	torch := s.fastest("torch")
	out.ours, out.torch, out.ort = s.of("essmc"), s.of(torch), s.of("ONNX Runtime")
	out.gain, out.gainORT = s.ratio(torch, "essmc"), s.ratio("ONNX Runtime", "essmc")
	if steps && out.streams {
		err = e.familySteps(ctx, m, o, out)
	}
	return out, err
}

// familySteps measures single steps of a stream.
func (e *env) familySteps(ctx context.Context, m *familyModel, o *ours, out *familyTimes) error {
	step, bytes, err := m.streaming(ctx, o)
	if err != nil {
		return err
	}
	all := []contender{step}
	for _, q := range e.peers.families {
		_, file, err := m.input(1, 1)
		if err != nil {
			return err
		}
		// A peer without a form for steps is left out.
		if j, err := q.load(1, "step", m.dir, "float", file); err == nil {
			defer j.drop()
			all = append(all, contender{name: q.version, group: "torch", run: j.run})
		}
	}
	s, err := measure(ctx, e.effort(2*time.Second), all)
	if err != nil {
		return err
	}
	if s.of("step") == nil {
		return fmt.Errorf("%s: a step: %w", m.name, s.err("step"))
	}
	torch := s.fastest("torch")
	out.step, out.torchStep, out.gainStep, out.state = s.of("step"), s.of(torch), s.ratio(torch, "step"), bytes
	return nil
}

// familySummary is the table of all families at one point.
func familySummary(compared []family, found map[string]map[familyPoint]*familyTimes, p familyPoint) table {
	t := table{Title: fmt.Sprintf("Width %d, one sample of %d steps, 1 thread", p.width, p.length),
		Note: fmt.Sprintf("Untrained models of %d layers (CKConv: %d blocks of two; minGRU, minLSTM: one layer), causal and with one answer "+
			"for the sequence where the family can; everyone computes that answer, and not the state after the last step. torch: a module for each family (bench/peers), held to the released "+
			"code's answers, in its fastest form for a processor. *state*: what a stream keeps between steps. *working memory*: "+
			"beside weights (Session.Memory).", familyLayers, familyLayers/2),
		Header: []string{"family", "parameters", "essmc", "torch", "torch : essmc", "a step", "torch, a step", "torch : essmc, a step", "state",
			"working memory"}}
	for _, f := range compared {
		x := found[f.name][p]
		state := "–"
		if x.streams {
			state = kibibytes(x.state)
		}
		t.add(f.name, strconv.Itoa(x.parameters), seconds(x.ours), seconds(x.torch), x.gain.String(), seconds(x.step),
			seconds(x.torchStep), x.gainStep.String(), state, mebibytes(x.memory))
	}
	return t
}

func kibibytes(n int) string { return number(float64(n)/(1<<10)) + " KiB" }

// familyFigure draws the times of all families, ours and torch's, and makes the table.
func (e *env) familyFigure(w familyWay, compared []family, found map[string]map[familyPoint]*familyTimes) ([]figure, table, error) {
	t := table{Title: w.title + ", against " + w.xlabel, Header: []string{"family"},
		Note: "Time on one thread, and torch's over it."}
	for _, p := range w.points {
		t.Header = append(t.Header, short(w.at(p)), "torch : essmc")
	}
	var lines, parameters []line
	for i, f := range compared {
		l, n := line{name: f.name, kind: 1 + i}, line{name: f.name, kind: 1 + i}
		row := []string{f.name}
		for _, p := range w.points {
			x := found[f.name][p]
			if x == nil {
				row = append(row, "–", "–")
				continue
			}
			row = append(row, seconds(x.ours), x.gain.String())
			l.add(w.at(p), median(x.ours)*1e3)
			n.add(w.at(p), float64(x.parameters))
		}
		t.add(row...)
		lines, parameters = append(lines, l), append(parameters, n)
	}
	drawn, err := drawFigure(e.dir, w.file, "essmc: "+w.title, w.xlabel, lines)
	if err != nil || w.xlabel != "width" {
		return []figure{drawn}, t, err
	}
	p := drawing{title: "parameters of families", xlabel: "width", ylabel: "parameters"}
	second, err := p.draw(e.dir, "families-parameters.svg", parameters)
	return []figure{drawn, second}, t, err
}

// judgeFamilies compares the families with their targets.
func (r *result) judgeFamilies(e *env, compared []family, found map[string]map[familyPoint]*familyTimes, p familyPoint) {
	least, slowest := math.Inf(1), ""
	for _, f := range compared {
		x := found[f.name][p]
		if f.system && x.gain.n > 0 && x.gain.mid < least {
			least, slowest = x.gain.mid, f.name
		}
	}
	what, target := fmt.Sprintf("state-space families against torch, %d steps, 1 thread, the least", p.length), "1×"
	if slowest == "" {
		r.Verdicts = append(r.Verdicts, verdict{what, target, "torch is absent", unmeasured})
	} else {
		r.Verdicts = append(r.Verdicts, judge(what, target, number(least)+"× "+slowest, least >= 1))
	}
	for _, name := range []string{"transformer", "lstm"} {
		if !slices.ContainsFunc(compared, func(f family) bool { return f.name == name }) {
			continue
		}
		x := found[name][p]
		what := fmt.Sprintf("%s against ONNX Runtime, %d steps, 1 thread", name, p.length)
		if x.gainORT.n == 0 {
			r.Verdicts = append(r.Verdicts, verdict{what, "1×", "ONNX Runtime is absent", unmeasured})
			continue
		}
		r.Verdicts = append(r.Verdicts, judge(what, "1×", x.gainORT.String(), x.gainORT.mid >= 1))
	}
}

// familyAblations measures deep eSSMs with several numbers of heads, causal and bidirectional.
func (e *env) familyAblations(ctx context.Context, r *result) error {
	width, lengths := 64, []int{512, 1024, 2048, 4096}
	if e.quick {
		lengths = lengths[:1]
	}
	t := table{Title: fmt.Sprintf("eSSM: heads and direction, width and states %d, one sample, 1 thread", width),
		Note:   "The paper's ablations of block-diagonal systems and of bidirectional kernels, which add no parameters.",
		Header: []string{"heads", "parameters"}}
	for _, way := range []string{"causal", "bidirectional"} {
		for _, n := range lengths {
			t.Header = append(t.Header, fmt.Sprintf("%s, %d", way, n))
		}
	}
	for _, heads := range []int{1, 4, 16, 64} {
		row := []string{strconv.Itoa(heads)}
		for _, causal := range []bool{true, false} {
			for _, n := range lengths {
				e.progress("  eSSM: %d heads, causal %v, %d steps", heads, causal, n)
				m, err := e.newFamilyModel(fmt.Sprintf("essm-heads%d-%v", heads, causal), essmConfig(familySize{width, n}, heads, causal))
				if err != nil {
					return err
				}
				if len(row) == 1 {
					row = append(row, strconv.Itoa(m.parameters))
				}
				in, _, err := m.input(1, n)
				if err != nil {
					return err
				}
				o, err := newOurs(ctx, m.graph, in, runtime.Options{Threads: 1, Outputs: answers(m.graph)})
				if err != nil {
					return err
				}
				s, err := measure(ctx, e.effort(time.Second), []contender{o.contender(ctx, "essmc")})
				o.close()
				if err != nil {
					return err
				}
				row = append(row, seconds(s.of("essmc")))
			}
		}
		t.add(row...)
	}
	r.Tables = append(r.Tables, t)
	return nil
}
