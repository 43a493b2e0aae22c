package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slowerBound is the ratio above which a measure counts as slower, if processes of one build differ by less.
const slowerBound = 1.03

// processes is the number of processes of each build. The difference between them is that of a build to itself.
const processes = 2

// trials is the number of times that a seemingly slower measure is repeated, each time by new processes.
const trials = 3

// builds are the programs to compare.
type builds struct {
	e       *env
	dir     string
	base    string // the commit to compare with
	program [2]string
}

// comparing is one measure of both builds.
type comparing struct {
	name  string
	words []string // words of the request that loads it
	limit time.Duration
}

// trial is the result of one measure.
type trial struct {
	base, here float64 // seconds per run, the minimum of all rounds and processes
	itself     float64 // the largest ratio of the times of two processes of one build
	facts      [2]facts
}

// facts are properties of a build that do not depend on the load of the machine.
type facts struct {
	hash        string // hash of the answers
	allocations float64
}

func (t trial) ratio() float64 { return t.here / t.base }

// slower reports whether this build takes longer, by more than the bound and the difference of a build to itself.
func (t trial) slower() bool { return t.ratio() > max(slowerBound, t.itself) }

// unclear reports whether it takes longer, but not by more than the difference of a build to itself.
func (t trial) unclear() bool { return t.ratio() > slowerBound && !t.slower() }

func (t trial) verdict() string {
	switch {
	case t.slower():
		return "slower"
	case t.unclear():
		return "unclear"
	}
	return ""
}

// runBase compares the working tree with a commit. The error lists the slower measures.
func runBase(ctx context.Context, e *env, out io.Writer, commit string, only *regexp.Regexp) error {
	dir, err := os.MkdirTemp("", "essmc-base-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &builds{e: e, dir: dir}
	if err := b.build(ctx, commit); err != nil {
		return err
	}
	all, err := b.measures(ctx, only)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("-only: no measure has such a name")
	}
	fmt.Fprintf(out, "base: %s; here: %s\n", b.base, describe(ctx, e))
	fmt.Fprintf(out,
		"here : base is the ratio of the minimum times of all rounds, of %d processes of each build in turns.\n"+
			"itself: the ratio of two processes of one build, of the build where it is larger. \"slower\": above "+
			"%.2f and\n"+
			"above itself, in %d trials by new processes; \"unclear\": above %.2f, but not above itself.\n\n",
		processes, slowerBound, trials, slowerBound)
	fmt.Fprintf(out, "%-64s %9s %9s %11s %7s\n", "measure", "base", "here", "here : base", "itself")
	var slow []string
	for _, c := range all {
		t, err := b.trials(ctx, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(out, "%-64s %v\n", c.name, err)
			slow = append(slow, c.name+" (failed)")
			continue
		}
		fmt.Fprintln(out, t.line(c.name))
		if t.slower() && !e.quick {
			slow = append(slow, c.name)
		}
	}
	e.progress("%d measures", len(all))
	if len(slow) > 0 {
		return fmt.Errorf("slower than %s: %s", b.base, strings.Join(slow, ", "))
	}
	return nil
}

// line returns the row of a measure.
func (t trial) line(name string) string {
	text := fmt.Sprintf("%-64s %9s %9s %11.3f %7.3f", name, seconds([]float64{t.base}), seconds([]float64{t.here}),
		t.ratio(), t.itself)
	if v := t.verdict(); v != "" {
		text += "  " + v
	}
	base, here := t.facts[0], t.facts[1]
	if base.hash != here.hash {
		text += "  answers differ"
	}
	if math.Abs(here.allocations-base.allocations) > 0.01*base.allocations { // maps and pools make it vary slightly
		text += fmt.Sprintf("  allocations %.0f, were %.0f", here.allocations, base.allocations)
	}
	return text
}

// build compiles the subject in the commit's tree, and in the working tree.
func (b *builds) build(ctx context.Context, commit string) error {
	id, err := git(ctx, b.e.root, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{commit}")
	if err != nil {
		return fmt.Errorf("-base: expected a commit, found %q", commit)
	}
	b.base = id[:min(12, len(id))]
	tree := filepath.Join(b.dir, "tree")
	b.e.progress("building %s and the working tree", b.base)
	if err := checkOut(ctx, b.e.root, id, tree); err != nil {
		return fmt.Errorf("%s: %w", b.base, err)
	}
	for i, root := range []string{tree, b.e.root} {
		b.program[i] = filepath.Join(b.dir, "subject"+strconv.Itoa(i)+".exe")
		if err := buildSubject(ctx, b.e.root, root, b.program[i]); err != nil {
			return fmt.Errorf("the build of %s: %w", []string{b.base, "the working tree"}[i], err)
		}
	}
	return nil
}

// git returns the output of a git command without surrounding space.
func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}

// checkOut writes the files of a commit to a folder. It does not change the repository.
func checkOut(ctx context.Context, root, commit, dir string) error {
	cmd := exec.CommandContext(ctx, "git", "-C", root, "archive", "--format=tar", commit)
	tail := &lastLine{}
	cmd.Stderr = tail
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = unpack(pipe, dir)
	if err != nil {
		_ = cmd.Process.Kill() // it waits for a reader
	}
	if wait := cmd.Wait(); err == nil && wait != nil {
		err = fmt.Errorf("git archive: %w (%s)", wait, tail.text)
	}
	return err
}

// unpack writes the files of a tar archive below dir.
func unpack(r io.Reader, dir string) error {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("the archive holds %q", h.Name)
		}
		file := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		data, err := io.ReadAll(t)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o666); err != nil {
			return err
		}
	}
}

// buildSubject compiles the subject as a package of the module in tree, by an overlay: nothing is written to the tree,
// and the versions of other modules are those of the tree.
func buildSubject(ctx context.Context, root, tree, program string) error {
	sources, err := filepath.Glob(filepath.Join(root, "bench", "harness", "subject", "*.go"))
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for _, file := range sources {
		replace[filepath.Join(tree, "bench", "subject", filepath.Base(file))] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	overlay := program + ".json"
	if err := os.WriteFile(overlay, text, 0o666); err != nil {
		return err
	}
	var failed error
	for _, tags := range subjectTags {
		cmd := exec.CommandContext(ctx, "go", "build", "-C", tree, "-overlay", overlay, "-trimpath", "-buildvcs=false",
			"-tags", tags, "-o", program, "./bench/subject")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		tail := &lastLine{}
		cmd.Stderr = tail
		err := cmd.Run()
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, fmt.Errorf("%w (%s)", err, tail.text))
	}
	return failed
}

// subjectTags are build tags that select how the subject opens models: first the newest way, then ways for trees that
// lack its packages.
var subjectTags = []string{"", "before_door"}

// measures lists the measures, and makes their files.
func (b *builds) measures(ctx context.Context, only *regexp.Regexp) (all []comparing, err error) {
	add := func(limit time.Duration, name string, words ...string) {
		if only == nil || only.MatchString(name) {
			all = append(all, comparing{name, words, limit})
		}
	}
	wanted := func(names ...string) bool {
		return only == nil || slices.ContainsFunc(names, only.MatchString)
	}
	for _, p := range b.e.presets() {
		var names []string
		for _, threads := range b.e.threadCounts() {
			names = append(names, "preset "+p.id+", "+threadsName(threads))
		}
		load := "plan " + p.id + ", to a session"
		if !wanted(append(names, load)...) {
			continue
		}
		m, err := newModel(b.e, p.id)
		if err != nil {
			return nil, err
		}
		_, x, err := m.input(1, m.preset.Length)
		if err != nil {
			return nil, err
		}
		for i, threads := range b.e.threadCounts() {
			add(8*time.Second, names[i], "preset", m.dir, x, strconv.Itoa(threads))
		}
		add(2*time.Second, load, "plan", m.dir)
	}
	for _, p := range b.e.presets() {
		names := []string{"stream " + p.id + ", a step", fmt.Sprintf("stream %s, %d steps at once", p.id, streamChunk),
			fmt.Sprintf("stream %s, 64 streams together", p.id)}
		if !wanted(names...) {
			continue
		}
		m, err := newModel(b.e, p.id, [2]string{"layer.bidirectional", "false"})
		if err != nil {
			return nil, err
		}
		for i, c := range []struct{ steps, streams int }{{1, 1}, {streamChunk, 1}, {1, 64}} {
			_, x, err := m.input(1, c.steps)
			if err != nil {
				return nil, err
			}
			add(3*time.Second, names[i], "stream", m.dir, x, "1", strconv.Itoa(c.streams))
		}
	}
	root, files := b.e.realModels()
	if len(files) == 0 {
		b.e.progress("no real models in %s: -get fetches them, or -models names the folder", root)
	} else if b.e.peers.ort == nil {
		b.e.progress("no real models: their inputs are made in Python; %s", strings.Join(b.e.peers.absent, "; "))
		files = nil
	}
	if b.e.quick && len(files) > 2 {
		files = files[:2]
	}
	var firsts []func()
	for i, file := range files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		name = filepath.ToSlash(name)
		run, first := "model "+name, "first answer "+name
		if !wanted(run, first) {
			continue
		}
		m, err := b.e.inputsOf(file, filepath.Join(b.e.work, "inputs", "base-"+strconv.Itoa(i)))
		if err != nil {
			b.e.progress("%s: %v", name, err)
			continue
		}
		words := append([]string{file, "1"}, m.words...)
		add(3*time.Second, run, append([]string{"model"}, words...)...)
		firsts = append(firsts, func() { add(3*time.Second, first, append([]string{"first"}, words...)...) })
	}
	for _, f := range firsts {
		f()
	}
	return all, ctx.Err()
}

// trials measures once, and repeatedly if the result looks slower.
func (b *builds) trials(ctx context.Context, c comparing) (trial, error) {
	var all []trial
	for range trials {
		t, err := b.trial(ctx, c)
		if err != nil {
			return trial{}, err
		}
		if all = append(all, t); len(all) == 1 && (t.ratio() <= slowerBound || b.e.quick) {
			return t, nil
		}
	}
	return together(all), nil
}

// together combines trials of one measure: the minimum of all times, and the largest difference of a build to itself.
func together(all []trial) trial {
	t := all[0]
	for _, o := range all[1:] {
		t.base, t.here, t.itself = min(t.base, o.base), min(t.here, o.here), max(t.itself, o.itself)
	}
	return t
}

// trial starts processes of both builds and lets them take turns.
func (b *builds) trial(ctx context.Context, c comparing) (t trial, err error) {
	b.e.progress("  %s", c.name)
	var runs []contender
	for p := range processes {
		for _, i := range [][]int{{0, 1}, {1, 0}}[p%2] {
			name := fmt.Sprintf("%s %d", []string{"base", "here"}[i], p)
			q, err := startPeer(ctx, name, nil, b.program[i], b.dir)
			if err != nil {
				return t, err
			}
			defer q.close()
			j, err := q.load(1, c.words...)
			if err != nil {
				return t, err
			}
			if t.facts[i], err = q.facts(j); err != nil {
				return t, err
			}
			runs = append(runs, contender{name: name, group: name, run: j.run})
		}
	}
	f := b.e.effort(c.limit)
	if !b.e.quick {
		f.rounds, f.least = 25, 5
	}
	s, err := measure(ctx, f, runs)
	if err != nil {
		return t, err
	}
	if err := errors.Join(s.errs...); err != nil {
		return t, err
	}
	t.read(s)
	return t, nil
}

// facts requests the facts of a job.
func (p *peer) facts(j *job) (f facts, err error) {
	out, err := p.ask("facts", j.id)
	if err != nil {
		return f, err
	}
	if _, err := fmt.Sscan(strings.Join(out, " "), &f.hash, &f.allocations); err != nil {
		return f, fmt.Errorf("%s: expected a hash and a number of allocations, found %q", p.name, out)
	}
	return f, nil
}

// read sets the minimum times.
func (t *trial) read(s *samples) {
	least := func(build string) (best, ratio float64) {
		best = math.Inf(1)
		most := 0.0
		for p := range processes {
			x := slices.Min(s.of(fmt.Sprintf("%s %d", build, p)))
			best, most = min(best, x), max(most, x)
		}
		return best, most / best
	}
	var a, b float64
	t.base, a = least("base")
	t.here, b = least("here")
	t.itself = max(a, b)
}
