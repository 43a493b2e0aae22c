package main

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// architecture is a model that bench/peers/architectures.py exported, NAME.FORM in the folder of its group. For trees,
// the form is the number of rows.
type architecture struct {
	group, name, form string
	*importedModel
}

// formGroups are the groups that are no kinds of architectures, but forms of them.
var formGroups = []string{"float16", "qdq", "dynamic", "trees"}

// measured is how an architecture compares with ONNX Runtime.
type measured struct {
	architecture
	*samples         // "essmc 1 thread", …, "ONNX Runtime 1 thread", …
	firsts           // of the first answer
	apart    float64 // the largest difference of outputs, relative to the largest number of the output
	err      error
}

// ratio is the time of essmc over that of ONNX Runtime.
func (m *measured) ratio(threads int) spread {
	if m.samples == nil {
		return spreadOf(nil)
	}
	return m.samples.ratio(essmcOn(threads), ortGroup(threads))
}

func essmcOn(threads int) string { return "essmc " + threadsName(threads) }

func runONNX(ctx context.Context, e *env, r *result) error {
	const what = "exported architectures against ONNX Runtime"
	if e.peers.ort == nil {
		r.Verdicts = append(r.Verdicts, verdict{what, "", "ONNX Runtime is absent", unmeasured})
		return nil
	}
	expression := ""
	if e.quick {
		expression = `^(ds_cnn|autoencoder|decision_tree)\.`
	}
	if err := e.exportArchitectures(ctx, expression); err != nil {
		r.Notes = append(r.Notes, "Files are those of an earlier run: "+err.Error())
	}
	all, err := e.architectures()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		r.Verdicts = append(r.Verdicts, verdict{what, "", "there are no files", unmeasured})
		return nil
	}
	fresh, torch := e.growingPeers(ctx)
	defer fresh.close()
	defer torch.close()
	var done []*measured
	for _, a := range all {
		e.progress("  %s %s", a.name, a.form)
		m := e.compareArchitecture(ctx, fresh, a)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if m.err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("%s %s: %v", a.name, a.form, m.err))
		}
		done = append(done, m)
	}
	r.Verdicts = append(r.Verdicts, judgeArchitectures(done)...)
	for len(done) > 0 {
		n := 1
		for n < len(done) && done[n].group == done[0].group {
			n++
		}
		r.Tables = append(r.Tables, e.architectureTable(done[:n]))
		done = done[n:]
	}
	return nil
}

// judgeArchitectures compares the ratios of times, on one thread, with the targets.
func judgeArchitectures(all []*measured) []verdict {
	const target = "at most %s×"
	var out []verdict
	mean := func(what string, limit float64, which func(m *measured) bool) {
		var v []float64
		for _, m := range all {
			if which(m) && m.samples != nil {
				v = append(v, m.ratio(1).mid)
			}
		}
		if len(v) == 0 {
			out = append(out, verdict{what, fmt.Sprintf(target, number(limit)), "no files", unmeasured})
			return
		}
		found := fmt.Sprintf("%s× (%d)", number(geomean(v)), len(v))
		out = append(out, judge(what, fmt.Sprintf(target, number(limit)), found, geomean(v) <= limit))
	}
	plain := func(m *measured) bool { return !slices.Contains(formGroups, m.group) }
	mean("float32 architectures against ONNX Runtime, geometric mean", 0.85, plain)
	var slowest worst
	for _, m := range all {
		if plain(m) && m.samples != nil {
			slowest.add(m.name, m.ratio(1).mid)
		}
	}
	single := func(what, limit string, w worst, ok bool) {
		v := judge(what, fmt.Sprintf(target, limit), number(w.time)+"× "+w.name, ok)
		if w.name == "" {
			v.Found, v.State = "no files", unmeasured
		}
		out = append(out, v)
	}
	single("the slowest of them", "1.10", slowest, slowest.time <= 1.10)
	in := func(groups ...string) func(*measured) bool {
		return func(m *measured) bool { return slices.Contains(groups, m.group) }
	}
	mean("transformers", 0.65, in("transformer"))
	mean("convolutional networks", 1, in("cnn"))
	mean("quantized, QDQ and dynamic", 0.9, in("qdq", "dynamic"))
	mean("trees and linear models, a row", 1, func(m *measured) bool { return m.group == "trees" && m.form == "1" })
	mean("trees and linear models, 1000 rows", 1.2, func(m *measured) bool { return m.group == "trees" && m.form != "1" })
	var half worst
	for _, m := range all {
		i := slices.IndexFunc(all, func(f *measured) bool { return f.form == "float32" && f.name == m.name })
		if m.group == "float16" && i >= 0 && m.samples != nil && all[i].samples != nil {
			half.add(m.name, median(m.of(essmcOn(1)))/median(all[i].of(essmcOn(1))))
		}
	}
	single("float16 against the float32 file, the most", "1.20", half, half.time <= 1.2)
	var first, peak worst
	for _, m := range all {
		if m.firsts.time.n > 0 {
			first.add(m.name+" "+m.form, m.firsts.time.mid)
			peak.add(m.name+" "+m.form, m.firsts.memory.mid)
		}
	}
	single("from a file to the first answer, the most", number(fileTarget), first, first.time <= fileTarget)
	single("peak memory until then, the most", "1.00", peak, peak.time <= 1)
	return out
}

// architectureTable is the table of one group.
func (e *env) architectureTable(all []*measured) table {
	n := strconv.Itoa(e.threads)
	t := table{Title: all[0].group, Header: []string{"model", "essmc 1t", "ONNX Runtime 1t", "essmc : ONNX Runtime 1t",
		n + "t", "first answer", "peak memory", "apart"}}
	var single, several []float64
	for _, m := range all {
		name := m.name
		if m.group == "trees" {
			name += ", " + m.form + " rows"
		}
		row := []string{name, "–", "–", "–", "–", "–", "–", "–"}
		if m.samples != nil {
			one, more := m.ratio(1), m.ratio(e.threads)
			row = []string{name, seconds(m.of(essmcOn(1))), seconds(m.of(ortGroup(1))), one.String(), more.String(),
				m.time.String(), m.memory.String(), fmt.Sprintf("%.1e", m.apart)}
			single, several = append(single, one.mid), append(several, more.mid)
		}
		t.Rows = append(t.Rows, row)
	}
	t.add("geometric mean", "", "", number(geomean(single))+"×", number(geomean(several))+"×", "", "", "")
	return t
}

// architectureDir is the folder of the exported files.
func (e *env) architectureDir() string { return filepath.Join(e.work, "architectures") }

// exportArchitectures makes the files that are absent, of those whose NAME.FORM matches an expression.
func (e *env) exportArchitectures(ctx context.Context, expression string) error {
	python, err := findPython(ctx, e, "torchvision, transformers, onnxscript, onnxruntime")
	if err != nil {
		return err
	}
	args := []string{filepath.Join(e.root, "bench", "peers", "architectures.py"), e.architectureDir(), expression}
	e.progress("  %s", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, python, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		e.progress("  exported %s", lines.Text())
	}
	_ = cmd.Wait() // files that could not be made are in its lines
	return ctx.Err()
}

// architectures returns the exported models, sorted by group, kinds of architectures first.
func (e *env) architectures() ([]architecture, error) {
	files, err := filepath.Glob(filepath.Join(e.architectureDir(), "*", "*.*", "model.onnx"))
	if err != nil {
		return nil, err
	}
	var all []architecture
	for _, file := range files {
		dir := filepath.Dir(file)
		name, form, _ := strings.Cut(filepath.Base(dir), ".")
		a := architecture{filepath.Base(filepath.Dir(dir)), name, form, &importedModel{file: file}}
		if err := a.readInputs(dir); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(a, b architecture) int {
		return slices.Index(formGroups, a.group) - slices.Index(formGroups, b.group)
	})
	return all, nil
}

// readInputs reads the inputs from N.npy in dir, and their names from a line each of dir/names.
func (m *importedModel) readInputs(dir string) error {
	names, err := os.ReadFile(filepath.Join(dir, "names"))
	if err != nil {
		return err
	}
	m.in = map[string]tensor.Datum{}
	for i, name := range strings.Split(string(names), "\n") {
		npy := filepath.Join(dir, strconv.Itoa(i)+".npy")
		a, err := arrays.Read(npy)
		if err != nil {
			return err
		}
		m.in[name] = a.Tensor
		m.words = append(m.words, name+"="+npy)
	}
	return nil
}

// compareArchitecture measures a model here and on ONNX Runtime.
func (e *env) compareArchitecture(ctx context.Context, fresh *peer, a architecture) *measured {
	m := &measured{architecture: a, firsts: firsts{spreadOf(nil), spreadOf(nil)}}
	s, err := e.takeTurns(ctx, m)
	if err == nil {
		for i := range s.errs {
			if s.errs[i] != nil {
				err = fmt.Errorf("%s: %w", s.names[i], s.errs[i])
			}
		}
	}
	if err != nil {
		m.err = err
		return m
	}
	m.samples = s
	m.firsts, m.err = e.firstAnswers(ctx, fresh, a.importedModel)
	return m
}

// takeTurns measures the runs of a model, and compares the outputs.
func (e *env) takeTurns(ctx context.Context, m *measured) (*samples, error) {
	opened, err := open.File(m.file, open.Options{})
	if err != nil {
		return nil, err
	}
	g, err := opened.Graph()
	if err != nil {
		return nil, err
	}
	var all []contender
	for _, threads := range e.threadCounts() {
		o, err := newOurs(ctx, g, m.in, runtime.Options{Threads: threads})
		if err != nil {
			return nil, err
		}
		defer o.close()
		j, err := e.peers.onnx(threads, m.file, m.words...)
		if err != nil {
			return nil, err
		}
		defer j.drop()
		all = append(all, o.contender(ctx, essmcOn(threads)), contender{name: ortGroup(threads), run: j.run})
		if threads > 1 {
			continue
		}
		if m.apart, err = e.apart(m, o.out, g.Outputs); err != nil {
			return nil, err
		}
	}
	return measure(ctx, e.effort(4*time.Second), all)
}

// apart returns the largest difference between outputs and ONNX Runtime's, relative to the largest number of the output.
func (e *env) apart(m *measured, out map[string]tensor.Datum, outputs []*ir.Value) (float64, error) {
	j, err := e.peers.ort.load(1, append([]string{"model", m.file, "1"}, m.words...)...)
	if err != nil {
		return 0, err
	}
	defer j.drop()
	file := filepath.Join(e.work, "output.npy")
	if err := j.save(file); err != nil {
		return 0, err
	}
	most := 0.0
	for i, v := range outputs {
		name, from := v.Name, file
		if i > 0 {
			from = fmt.Sprintf("%s.%d.npy", file, i)
		}
		theirs, err := arrays.Read(from)
		if err != nil {
			return 0, err
		}
		have, ok := out[name].(*tensor.Tensor)
		if !ok || !slices.Equal(have.Shape(), theirs.Tensor.Shape()) {
			return 0, fmt.Errorf("output %s: expected shape %v, found %v", name, theirs.Tensor.Shape(), out[name])
		}
		x, errX := have.Float64s()
		y, errY := theirs.Tensor.Float64s()
		if errX != nil || errY != nil {
			return 0, fmt.Errorf("output %s: has no numbers", name)
		}
		largest, off := 0.0, 0.0
		for k := range y {
			largest, off = math.Max(largest, math.Abs(y[k])), math.Max(off, math.Abs(x[k]-y[k]))
		}
		if largest > 0 {
			off /= largest
		}
		most = math.Max(most, off)
	}
	return most, nil
}
