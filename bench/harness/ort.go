package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

func runORT(ctx context.Context, e *env, r *result) error {
	n := strconv.Itoa(e.threads)
	t := table{Header: []string{"preset", "essmc 1t", "essmc " + n + "t", "ONNX Runtime 1t", "ONNX Runtime " + n + "t", "ratio 1t", "ratio " + n + "t"}}
	least, slowest := 0.0, ""
	for _, p := range e.presets() {
		m, err := newModel(e, p.id)
		if err != nil {
			return err
		}
		e.progress("  %s", p.id)
		s, err := e.exported(ctx, m, 1, m.preset.Length)
		if err != nil {
			return err
		}
		for _, threads := range e.threadCounts() {
			name := "ONNX Runtime " + threadsName(threads)
			if err := s.err(name); err != nil && e.peers.ort != nil {
				r.Notes = append(r.Notes, fmt.Sprintf("%s: %v", p.id, err))
			}
		}
		g1 := s.ratio("ONNX Runtime 1 thread", "essmc 1 thread")
		gn := s.ratio(s.best("ONNX Runtime 1 thread", "ONNX Runtime "+threadsName(e.threads)), "essmc "+threadsName(e.threads))
		for _, g := range []spread{g1, gn} {
			if g.n > 0 && (least == 0 || g.mid < least) {
				least, slowest = g.mid, p.id
			}
		}
		t.add(p.id, seconds(s.of("essmc 1 thread")), seconds(s.of("essmc "+threadsName(e.threads))), seconds(s.of("ONNX Runtime 1 thread")),
			seconds(s.of("ONNX Runtime "+threadsName(e.threads))), g1.String(), gn.String())
	}
	r.Tables = append(r.Tables, t)
	const what = "presets against their export on ONNX Runtime, the least"
	if least == 0 {
		r.Verdicts = append(r.Verdicts, verdict{what, "1.8×", "ONNX Runtime is absent", open})
		return nil
	}
	r.Verdicts = append(r.Verdicts, judge(what, "1.8×", number(least)+"× "+slowest, least >= 1.8))
	return nil
}

// exported measures a model here and its export there, at all thread counts.
func (e *env) exported(ctx context.Context, m *model, batch, steps int) (*samples, error) {
	x, file, err := m.input(batch, steps)
	if err != nil {
		return nil, err
	}
	var all []contender
	for _, threads := range e.threadCounts() {
		o, err := newOurs(ctx, m.graph, map[string]tensor.Datum{m.inputName(): x}, runtime.Options{Threads: threads})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		defer o.close()
		all = append(all, o.contender(ctx, "essmc "+threadsName(threads)))
	}
	theirs, done, err := e.ortContenders(m, file)
	defer done()
	if err != nil {
		return nil, err
	}
	return measure(ctx, e.effort(15*time.Second), append(all, theirs...))
}

// ortContenders prepares ONNX Runtime for an input; nothing where it is absent. done gives back what they hold.
func (e *env) ortContenders(m *model, file string) (all []contender, done func(), err error) {
	var held []*job
	done = func() {
		for _, j := range held {
			j.drop()
		}
	}
	if e.peers.ort == nil {
		return nil, done, nil
	}
	onnx, err := m.onnx()
	if err != nil {
		return nil, done, err
	}
	for _, threads := range e.threadCounts() {
		j, err := e.peers.ort.load("model", onnx, strconv.Itoa(threads), m.inputName()+"="+file)
		if err != nil {
			return nil, done, fmt.Errorf("%s: %w", m.name, err)
		}
		held = append(held, j)
		all = append(all, contender{name: "ONNX Runtime " + threadsName(threads), run: j.run})
	}
	return all, done, nil
}
