package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// sweepPoint is one point of a figure.
type sweepPoint struct {
	at            float64
	width         int // 0: that of the preset
	batch, length int
}

func runSweep(ctx context.Context, e *env, r *result) error {
	length := []sweepPoint{{256, 0, 1, 256}, {1024, 0, 1, 1024}, {4096, 0, 1, 4096}, {16384, 0, 1, 16384}}
	width := []sweepPoint{{64, 64, 1, 4096}, {128, 128, 1, 4096}, {256, 256, 1, 4096}, {512, 512, 1, 4096}}
	batch := []sweepPoint{{1, 0, 1, 1024}, {2, 0, 2, 1024}, {4, 0, 4, 1024}, {8, 0, 8, 1024}, {16, 0, 16, 1024}}
	if e.quick {
		length, width = length[:2], []sweepPoint{{64, 64, 1, 512}, {128, 128, 1, 512}}
		batch = []sweepPoint{{1, 0, 1, 256}, {2, 0, 2, 256}}
	}
	for _, f := range []struct {
		file, title, xlabel string
		points              []sweepPoint
	}{
		{"length.svg", "text, one sample", "steps", length},
		{"width.svg", "text with H = N = S, one sample of " + strconv.Itoa(width[0].length) + " steps", "H", width},
		{"batch.svg", "text, samples of " + strconv.Itoa(batch[0].length) + " steps", "samples", batch},
	} {
		lines := e.lines()
		t := table{Title: f.title, Header: []string{f.xlabel}}
		for _, l := range lines {
			t.Header = append(t.Header, l.name)
		}
		for _, p := range f.points {
			e.progress("  %s: %v %s", f.title, p.at, f.xlabel)
			s, err := e.sweep(ctx, p)
			if err != nil {
				return err
			}
			row := []string{short(p.at)}
			for i := range lines {
				v := s.of(s.fastest(lines[i].group()))
				lines[i].add(p.at, median(v)*1e3)
				row = append(row, seconds(v))
			}
			t.Rows = append(t.Rows, row)
		}
		g, err := drawFigure(e.dir, f.file, f.title, f.xlabel, lines)
		if err != nil {
			return err
		}
		r.Tables, r.Figures = append(r.Tables, t), append(r.Figures, g)
	}
	return e.sweepThreads(ctx, r)
}

// lines returns the available contenders of the figures.
func (e *env) lines() []line {
	var all []line
	for _, n := range e.threadCounts() {
		all = append(all, line{name: "essmc, " + threadsName(n)})
	}
	for _, n := range e.threadCounts() {
		if len(e.peers.onThreads(n)) > 0 {
			all = append(all, line{name: "torch, " + threadsName(n)})
		}
	}
	for _, n := range e.threadCounts() {
		if e.peers.ort != nil {
			all = append(all, line{name: "ONNX Runtime, " + threadsName(n)})
		}
	}
	if e.peers.blas != nil {
		all = append(all, line{name: "floor, 1 thread", floor: true})
	}
	return all
}

// group returns the group of contenders whose fastest the line shows.
func (l line) group() string {
	if l.floor {
		return "floor"
	}
	return strings.Replace(l.name, ", ", " ", 1)
}

// sweep measures all contenders at one point.
func (e *env) sweep(ctx context.Context, p sweepPoint) (*samples, error) {
	var set [][2]string
	if p.width > 0 {
		n := strconv.Itoa(p.width)
		set = [][2]string{{"d_model", n}, {"layer.heads", n}, {"layer.d_state", n}}
	}
	m, err := newModel(e, "text", set...)
	if err != nil {
		return nil, err
	}
	x, file, err := m.input(p.batch, p.length)
	if err != nil {
		return nil, err
	}
	all, done, err := e.presetContenders(ctx, m, x, file, torchTrial{forms: usualForms})
	defer done()
	if err != nil {
		return nil, err
	}
	theirs, drop, err := e.ortContenders(m, x, file, []onnxForm{exportedForm})
	defer drop()
	if err != nil {
		return nil, err
	}
	return measure(ctx, e.effort(6*time.Second), append(all, theirs...))
}

// sweepThreads measures the preset with every number of threads up to all.
func (e *env) sweepThreads(ctx context.Context, r *result) error {
	most := describe(ctx, e).Threads
	m, err := newModel(e, "text")
	if err != nil {
		return err
	}
	steps := m.preset.Length
	if e.quick {
		steps = 512
	}
	var counts []int
	for n := 1; n < most; n *= 2 {
		counts = append(counts, n)
	}
	counts = append(counts, most)
	x, file, err := m.input(1, steps)
	if err != nil {
		return err
	}
	e.progress("  threads: %v", counts)
	all, done, err := e.presetContenders(ctx, m, x, file, torchTrial{forms: usualForms})
	defer done()
	if err != nil {
		return err
	}
	theirs, drop, err := e.ortContenders(m, x, file, []onnxForm{exportedForm})
	defer drop()
	if err != nil {
		return err
	}
	all = append(all, theirs...)
	for _, n := range counts {
		if n == 1 || n == e.threads {
			continue // one of the presets' contenders
		}
		o, err := newOurs(ctx, m.graph, map[string]tensor.Datum{m.inputName(): x}, runtime.Options{Threads: n, Outputs: answers(m.graph)})
		if err != nil {
			return err
		}
		defer o.close()
		all = append(all, o.contender(ctx, "essmc "+threadsName(n)))
	}
	s, err := measure(ctx, e.effort(15*time.Second), all)
	if err != nil {
		return err
	}
	lines := []line{{name: "essmc"}, {name: "torch"}, {name: "ONNX Runtime"}, {name: "floor, 1 thread", floor: true}}
	t := table{Title: fmt.Sprintf("text, one sample of %d steps", steps),
		Header: []string{"threads", "essmc", "torch", "ONNX Runtime"}}
	for _, n := range counts {
		row := []string{strconv.Itoa(n)}
		for i, who := range t.Header[1:] {
			v := s.of(s.fastest(who + " " + threadsName(n)))
			lines[i].add(float64(n), median(v)*1e3)
			row = append(row, seconds(v))
		}
		lines[3].add(float64(n), median(s.of(s.fastest("floor")))*1e3)
		t.Rows = append(t.Rows, row)
	}
	f, err := drawFigure(e.dir, "threads.svg", t.Title, "threads", lines)
	r.Tables, r.Figures = append(r.Tables, t), append(r.Figures, f)
	return err
}
