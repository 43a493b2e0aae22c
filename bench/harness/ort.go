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
	t := table{Header: []string{"preset", "essmc 1t", "essmc " + n + "t", "ONNX Runtime 1t", "ONNX Runtime " + n + "t",
		"ratio 1t", "ratio " + n + "t"},
		Note: "ONNX Runtime in the fastest of its forms and, at " + threadsName(e.threads) + ", thread settings."}
	forms := table{Title: "Forms", Header: []string{"preset", "threads"},
		Note: "Exported are systems in chunks of 64 steps; others have chunks of 32 and 128. *sizes fixed*: as " +
			"exported, with batch and length stated when the file is loaded. *functions*: layers as functions, which " +
			"are loops over steps. Forms far behind in the first rounds were measured in these alone."}
	for _, f := range onnxForms {
		forms.Header = append(forms.Header, f.name)
	}
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
			row := []string{p.id, strconv.Itoa(threads)}
			for _, f := range onnxForms {
				name := ortName(f, threads)
				row = append(row, seconds(s.of(name)))
				if err := s.err(name); err != nil && err != errAbsent {
					r.Notes = append(r.Notes, fmt.Sprintf("%s, %s: %v", p.id, f.name, err))
				}
			}
			forms.Rows = append(forms.Rows, row)
		}
		best1, bestN := s.fastest(ortGroup(1)), s.fastest(ortGroup(1), ortGroup(e.threads))
		g1, gn := s.ratio(best1, "essmc 1 thread"), s.ratio(bestN, "essmc "+threadsName(e.threads))
		for _, g := range []spread{g1, gn} {
			if g.n > 0 && (least == 0 || g.mid < least) {
				least, slowest = g.mid, p.id
			}
		}
		t.add(p.id, seconds(s.of("essmc 1 thread")), seconds(s.of("essmc "+threadsName(e.threads))),
			seconds(s.of(best1)), seconds(s.of(bestN)), g1.String(), gn.String())
	}
	r.Tables = append(r.Tables, t, forms)
	const what = "presets against their export on ONNX Runtime, the least"
	if least == 0 {
		r.Verdicts = append(r.Verdicts, verdict{what, "1.8×", "ONNX Runtime is absent", unmeasured})
		return nil
	}
	r.Verdicts = append(r.Verdicts, judge(what, "1.8×", number(least)+"× "+slowest, least >= 1.8))
	return nil
}

// exported measures a model here and its exports there, with all numbers of threads.
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
	theirs, done, err := e.ortContenders(m, x, file, onnxForms)
	defer done()
	if err != nil {
		return nil, err
	}
	return measure(ctx, e.effort(15*time.Second), append(all, theirs...))
}

// ortGroup returns the group of ONNX Runtime's forms with a number of threads.
func ortGroup(threads int) string { return "ONNX Runtime " + threadsName(threads) }

func ortName(f onnxForm, threads int) string {
	return "ONNX Runtime " + f.name + ", " + threadsName(threads)
}

// ortContenders prepares ONNX Runtime for an input, in some forms. It returns none if ONNX Runtime is absent. done
// releases them.
func (e *env) ortContenders(m *model, x *tensor.Tensor, file string,
	forms []onnxForm) (all []contender, done func(), err error) {
	var held []*job
	done = func() {
		for _, j := range held {
			j.drop()
		}
	}
	if e.peers.ort == nil {
		return nil, done, nil
	}
	for _, f := range forms {
		onnx, err := f.write(m)
		if err != nil {
			return nil, done, err
		}
		var sizes []string
		if f.fixed {
			sizes = []string{fmt.Sprintf("B:%d", x.Dim(0)), fmt.Sprintf("L:%d", x.Dim(1))}
		}
		for _, threads := range e.threadCounts() {
			if f.single && threads > 1 {
				continue
			}
			j, err := e.peers.onnx(threads, onnx, append([]string{m.inputName() + "=" + file}, sizes...)...)
			if err != nil {
				return nil, done, fmt.Errorf("%s: %w", m.name, err)
			}
			held = append(held, j)
			all = append(all, contender{name: ortName(f, threads), group: ortGroup(threads), run: j.run})
		}
	}
	return all, done, nil
}
