package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

// The largest acceptable times to load, in seconds.
const (
	loadTarget = 0.150 // from a model directory to its first answer, for one step
	planTarget = 0.020 // from a plan to a session
)

// processPresets are the presets that are also measured as whole processes: one with many weights and one with few.
var processPresets = []string{"text", "sc35"}

func runLoad(ctx context.Context, e *env, r *result) error {
	within := table{Title: "Within a process", Header: []string{"preset", "weights", "directory, answer",
		"plan, session", "plan, answer", "ONNX Runtime", "torch"},
		Note: "Everything anew each time. *directory*: read, checked, built and optimized; *answer*: and the first " +
			"run. ONNX Runtime: a session of the exported file, and its first run; torch: the weights from the " +
			"directory, and the first run, in the faster of two forms. All on one thread."}
	whole := table{Title: "Whole processes", Header: []string{"preset", "essmc run DIR", "essmc run PLAN",
		"Python and ONNX Runtime", "Python and torch"},
		Note: "From the start of a process to its end, files in the system's cache. Of Python's time the most is its " +
			"imports."}
	var directory, session, process worst
	program, err := buildCommand(ctx, e)
	if err != nil {
		r.Notes = append(r.Notes, err.Error())
	}
	for _, p := range e.presets() {
		e.progress("  %s", p.id)
		l, err := newLoading(e, p.id)
		if err != nil {
			return err
		}
		s, err := l.within(ctx)
		if err != nil {
			return err
		}
		within.add(p.id, fmt.Sprintf("%.1f MiB", float64(l.bytes)/(1<<20)), seconds(s.of("directory")),
			seconds(s.of("session")), seconds(s.of("plan")),
			seconds(s.of("ONNX Runtime")), seconds(s.of(s.fastest(torchGroup(1)))))
		directory.add(p.id, median(s.of("directory")))
		session.add(p.id, median(s.of("session")))
		if program == "" || !e.quick && !slices.Contains(processPresets, p.id) {
			continue
		}
		if s, err = l.whole(ctx, program); err != nil {
			return err
		}
		for i, name := range s.names {
			if s.errs[i] != nil {
				r.Notes = append(r.Notes, fmt.Sprintf("%s, %s: %v", p.id, name, s.errs[i]))
			}
		}
		whole.add(p.id, seconds(s.of("directory")), seconds(s.of("plan")), seconds(s.of("ONNX Runtime")),
			seconds(s.of("torch")))
		process.add(p.id, median(s.of("directory")))
	}
	files, err := e.loadFiles(ctx, r)
	if err != nil {
		return err
	}
	r.Tables = append(r.Tables, within)
	r.Verdicts = append(r.Verdicts, directory.judge("model directory to the first answer, 1 step, 6 layers, the most",
		loadTarget), session.judge("plan to session, the most", planTarget))
	if len(whole.Rows) > 0 {
		r.Tables = append(r.Tables, whole)
		r.Verdicts = append(r.Verdicts,
			process.judge("the same as a process, `essmc run` from its start to its end, the most", loadTarget))
	}
	if len(files.Rows) > 0 {
		r.Tables = append(r.Tables, files)
	}
	return nil
}

// fileTarget is the largest acceptable time from an ONNX file to its first answer, relative to ONNX Runtime.
const fileTarget = 1.3

// loadFiles measures the time from ONNX files to their first answers. It measures nothing if files or ONNX Runtime are
// absent.
func (e *env) loadFiles(ctx context.Context, r *result) (table, error) {
	const what = "ONNX file to the first answer, against ONNX Runtime, the most"
	t := table{Title: "From ONNX files", Header: []string{"model", "input", "essmc", "ONNX Runtime",
		"essmc : ONNX Runtime"},
		Note: "Within a process: the file is read, optimized, and run once, on one thread. essmc also looks for what " +
			"an exporter took apart."}
	root, files := e.realModels()
	if e.peers.ort == nil || len(files) == 0 {
		r.Verdicts = append(r.Verdicts, verdict{what, "at most 1.3×", "models or ONNX Runtime are absent", unmeasured})
		return t, nil
	}
	o := runtime.Options{Backend: cpu.New(), Threads: 1}
	most, slowest := 0.0, ""
	seen := map[[sha256.Size]byte]bool{} // packages share models
	for i, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return t, err
		}
		sum := sha256.Sum256(content)
		if seen[sum] || e.quick && len(seen) > 0 {
			continue
		}
		seen[sum] = true
		name, err := filepath.Rel(root, file)
		if err != nil {
			return t, err
		}
		name = filepath.ToSlash(name)
		e.progress("  %s", name)
		m, err := e.inputsOf(file, filepath.Join(e.work, "inputs", "load-"+strconv.Itoa(i)))
		if err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		s, err := e.loadFile(ctx, m, o)
		if err != nil {
			return t, err
		}
		for k, err := range s.errs {
			if err != nil {
				r.Notes = append(r.Notes, fmt.Sprintf("%s, %s: %v", name, s.names[k], err))
			}
		}
		ratio := s.ratio("essmc", "ONNX Runtime")
		if !(ratio.mid <= most) { // true for NaN
			most, slowest = ratio.mid, name
		}
		t.add(name, m.label, seconds(s.of("essmc")), seconds(s.of("ONNX Runtime")), ratio.String())
	}
	r.Verdicts = append(r.Verdicts, judge(what, "at most 1.3×", number(most)+"× "+slowest, most <= fileTarget))
	return t, nil
}

func (e *env) loadFile(ctx context.Context, m *importedModel, o runtime.Options) (*samples, error) {
	j, err := e.peers.ort.load(1, append([]string{"start", m.file, "1"}, m.words...)...)
	if err != nil {
		return nil, err
	}
	defer j.drop()
	load := func() (*runtime.Model, error) { return open.Load(m.file, open.Options{Run: o}) }
	return measure(ctx, e.effort(3*time.Second), []contender{opening(ctx, "essmc", m.in, true, load),
		{name: "ONNX Runtime", run: j.run}})
}

// worst keeps the largest of several times, in seconds.
type worst struct {
	name string
	time float64
}

func (w *worst) add(name string, t float64) {
	if w.name == "" || !(t <= w.time) { // true for NaN
		w.name, w.time = name, t
	}
}

func (w *worst) judge(what string, limit float64) verdict {
	return judge(what, "under "+seconds([]float64{limit}), seconds([]float64{w.time})+" "+w.name, w.time < limit)
}

// buildCommand builds essmc.
func buildCommand(ctx context.Context, e *env) (string, error) {
	program := filepath.Join(e.work, "essmc.exe")
	cmd := exec.CommandContext(ctx, "go", "-C", e.root, "build", "-o", program, "./cmd/essmc")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	tail := &lastLine{}
	cmd.Stderr = tail
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building essmc: %w (%s)", err, tail.text)
	}
	return program, nil
}

// loading is a model in all forms that are loaded, with an input of one step.
type loading struct {
	*model
	x     *tensor.Tensor
	file  string // file of x
	plan  string
	bytes int64 // size of the plan
}

func newLoading(e *env, id string) (*loading, error) {
	m, err := newModel(e, id)
	if err != nil {
		return nil, err
	}
	l := &loading{model: m, plan: m.dir + ".essm"}
	if l.x, l.file, err = m.input(1, 1); err != nil {
		return nil, err
	}
	if err := plan.WriteFile(l.plan, m.graph); err != nil {
		return nil, err
	}
	st, err := os.Stat(l.plan)
	if err != nil {
		return nil, err
	}
	l.bytes = st.Size()
	return l, nil
}

// within measures loading inside running processes.
func (l *loading) within(ctx context.Context) (*samples, error) {
	o := runtime.Options{Backend: cpu.New(), Threads: 1}
	in := map[string]tensor.Datum{l.inputName(): l.x}
	fromPlan := func() (*runtime.Model, error) { return runtime.Load(l.plan, o) }
	all := []contender{
		opening(ctx, "directory", in, true, func() (*runtime.Model, error) {
			return open.Load(l.dir, open.Options{Run: o})
		}),
		opening(ctx, "session", in, false, fromPlan),
		opening(ctx, "plan", in, true, fromPlan),
	}
	if q := l.e.peers.ort; q != nil {
		file, err := l.onnx()
		if err != nil {
			return nil, err
		}
		j, err := q.load(1, "start", file, "1", l.inputName()+"="+l.file)
		if err != nil {
			return nil, err
		}
		defer j.drop()
		all = append(all, contender{name: "ONNX Runtime", run: j.run})
	}
	for _, t := range l.e.peers.onThreads(1) {
		for _, form := range usualForms {
			j, err := t.load(1, "start-"+form, l.dir, "float", l.file)
			if err != nil {
				return nil, err
			}
			defer j.drop()
			all = append(all, contender{name: fmt.Sprintf("torch %s %v", form, t), group: torchGroup(1), run: j.run})
		}
	}
	return measure(ctx, l.e.effort(6*time.Second), all)
}

// opening measures the time to open a model, make a session and, if answer is set, run it.
func opening(ctx context.Context, name string, in map[string]tensor.Datum, answer bool,
	load func() (*runtime.Model, error)) contender {
	once := func() (time.Duration, error) {
		start := time.Now()
		m, err := load()
		if err != nil {
			return 0, err
		}
		defer m.Close()
		s := m.NewSession()
		defer s.Close()
		if answer {
			_, err = s.Run(ctx, in)
		}
		return time.Since(start), err
	}
	return contender{name: name, run: func(reps int) (sum time.Duration, err error) {
		for range reps {
			t, err := once()
			if err != nil {
				return 0, err
			}
			sum += t
		}
		return sum, nil
	}}
}

// whole measures processes from start to end.
func (l *loading) whole(ctx context.Context, program string) (*samples, error) {
	p := l.e.peers
	peers := filepath.Join(l.e.root, "bench", "peers")
	command := func(name string, env []string, command string, args ...string) contender {
		return contender{name: name, run: func(reps int) (time.Duration, error) {
			start := time.Now()
			for range reps {
				tail := &lastLine{}
				cmd := exec.CommandContext(ctx, command, args...)
				cmd.Env, cmd.Stderr = append(os.Environ(), env...), tail
				if err := cmd.Run(); err != nil {
					return 0, fmt.Errorf("%s: %w (%s)", command, err, tail.text)
				}
			}
			return time.Since(start), nil
		}}
	}
	tuned := []string{"ESSMC_TUNE=off"}
	all := []contender{
		command("directory", tuned, program, "run", l.dir, "--threads", "1", "--input", l.inputName()+"="+l.file),
		command("plan", tuned, program, "run", l.plan, "--threads", "1", "--input", l.inputName()+"="+l.file),
	}
	if python := p.python["onnxruntime"]; python != "" {
		file, err := l.onnx()
		if err != nil {
			return nil, err
		}
		all = append(all, command("ONNX Runtime", pythonEnviron(peers), python, filepath.Join(peers, "ort.py"), "once",
			"model", file, "1", l.inputName()+"="+l.file))
	}
	if python := p.python["torch"]; python != "" {
		all = append(all, command("torch", torchEnviron(peers, torchSettings(1)[0]), python,
			filepath.Join(peers, "torch_essm.py"), "once", "fft", l.dir, "float", l.file))
	}
	return measure(ctx, l.e.effort(8*time.Second), all)
}
