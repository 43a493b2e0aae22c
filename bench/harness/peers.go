package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// peers are the peers on this machine. The fields of absent ones are nil.
type peers struct {
	blas, fftw, gomlx *peer
	ort, ortGo        *peer // ONNX Runtime called from Python, and from Go
	torch             []torchPeer
	families          []*peer           // torch's modules of all families, on one thread, for each version of torch
	python            map[string]string // interpreters by module
	absent            []string          // absent peers, with reasons and the ways to get them
}

// torchPeer is torch with certain numbers of threads: those of OpenMP, and those of OpenBLAS, which computes products.
// Since OpenBLAS's threads spin beside the others, fewer may be faster. There may be several versions of torch, the
// preferred one first; tables count the fastest.
type torchPeer struct {
	threads, products int
	version           string // "" of the preferred version
	*peer
}

func (t torchPeer) String() string {
	s := threadsName(t.threads)
	if t.products != t.threads {
		s += ", products on " + strconv.Itoa(t.products)
	}
	if t.version != "" {
		s += ", torch " + t.version
	}
	return s
}

// onThreads returns the settings of torch with a number of threads, the plain one of the preferred version first.
func (p *peers) onThreads(n int) []torchPeer {
	return slices.DeleteFunc(slices.Clone(p.torch), func(t torchPeer) bool { return t.threads != n })
}

// startPeers builds and starts the available ones of the peers that the suites need.
func startPeers(ctx context.Context, e *env, need map[string]bool) *peers {
	p := &peers{python: map[string]string{}}
	lack := func(name string, err error, how string) {
		p.absent = append(p.absent, fmt.Sprintf("%s: %v. %s", name, err, how))
	}
	dir := filepath.Join(e.root, "bench", "peers")
	if need["blas"] || need["fftw"] {
		const how = "Needs a C compiler (cc, or what CC names) and the library: Debian's libopenblas0-pthread and " +
			"libfftw3-single3."
		native, err := buildNative(ctx, e, filepath.Join(dir, "native.c"))
		if err != nil {
			lack("OpenBLAS and FFTW", err, how)
		} else {
			for what, q := range map[string]**peer{"blas": &p.blas, "fftw": &p.fftw} {
				if !need[what] {
					continue
				}
				if *q, err = startPeer(ctx, what, append(openBLAS(), "OPENBLAS_NUM_THREADS=1"), native, what); err != nil {
					lack(what, err, how)
				}
			}
		}
	}
	if need["gomlx"] {
		program, err := buildGo(ctx, e, "gomlx", "CGO_ENABLED=0")
		if err == nil {
			p.gomlx, err = startPeer(ctx, "GoMLX", nil, program, "1")
		}
		if err != nil {
			lack("GoMLX", err, "It comes from the Go module proxy.")
		}
	}
	if need["torch"] {
		found := findTorch(ctx, e)
		for i, python := range found {
			for _, t := range torchSettings(e.threads) {
				if i > 0 {
					t.version = python.version
				}
				var err error
				if t.peer, err = startPeer(ctx, "torch", torchEnviron(dir, t), python.path,
					filepath.Join(dir, "torch_essm.py")); err != nil {
					lack("torch "+python.version, err, "")
					break
				}
				p.torch = append(p.torch, t)
			}
		}
		if len(found) > 0 {
			p.python["torch"] = found[0].path
		} else {
			lack("torch", errAbsent, "Debian's python3-torch, or `go run ./bench -get`; -python names another interpreter.")
		}
	}
	if need["families"] {
		found := findTorch(ctx, e)
		for _, python := range found {
			q, err := startPeer(ctx, "torch", torchEnviron(dir, torchSettings(1)[0]), python.path,
				filepath.Join(dir, "torch_families.py"))
			if err != nil {
				lack("torch "+python.version, err, "")
				continue
			}
			p.families = append(p.families, q)
		}
		if len(found) == 0 {
			lack("torch", errAbsent, "`go run ./bench -get`; -python names another interpreter.")
		}
	}
	if need["ort"] {
		python, err := findPython(ctx, e, "onnxruntime")
		if err == nil {
			p.python["onnxruntime"] = python
			p.ort, err = startPeer(ctx, "ONNX Runtime", pythonEnviron(dir), python, filepath.Join(dir, "ort.py"))
		}
		if err != nil {
			lack("ONNX Runtime", err,
				"`go run ./bench -get` makes a virtual environment that has it; -python names another interpreter.")
		} else if p.ortGo, err = startORT(ctx, e, python); err != nil {
			lack("onnxruntime_go", err,
				"Needs a C compiler, and comes from the Go module proxy; ONNX Runtime was called from Python instead.")
		}
	}
	return p
}

// startORT starts ONNX Runtime called from Go, with the library of the Python package.
func startORT(ctx context.Context, e *env, python string) (*peer, error) {
	const find = `import glob, os, onnxruntime
print(next(f for p in ("libonnxruntime.so*", "libonnxruntime.*dylib", "onnxruntime.dll")
           for f in glob.glob(os.path.join(os.path.dirname(onnxruntime.__file__), "capi", p))))`
	library, err := exec.CommandContext(ctx, python, "-c", find).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: its onnxruntime has no shared library", python)
	}
	program, err := buildGo(ctx, e, "ort", "CGO_ENABLED=1")
	if err != nil {
		return nil, err
	}
	return startPeer(ctx, "ONNX Runtime", nil, program, strings.TrimSpace(string(library)))
}

// buildGo compiles a peer in Go, a module of its own.
func buildGo(ctx context.Context, e *env, name, setting string) (program string, err error) {
	program = filepath.Join(e.work, name+".exe")
	cmd := exec.CommandContext(ctx, "go", "-C", filepath.Join(e.root, "bench", "peers", name), "build", "-o", program,
		".")
	cmd.Env = append(os.Environ(), setting)
	tail := &lastLine{}
	cmd.Stderr = tail
	if err = cmd.Run(); err != nil && tail.text != "" {
		err = errors.New(tail.text)
	}
	return program, err
}

// onnx prepares a model on ONNX Runtime. It is called from Go, except for files with sizes given at load time.
func (p *peers) onnx(threads int, file string, words ...string) (*job, error) {
	words = append([]string{"model", file, strconv.Itoa(threads)}, words...)
	if p.ortGo != nil && !slices.ContainsFunc(words[3:], func(w string) bool { return !strings.Contains(w, "=") }) {
		if j, err := p.ortGo.load(threads, words...); err == nil {
			return j, nil
		}
	}
	return p.ort.load(threads, words...)
}

// torchSettings returns the settings of threads for torch.
func torchSettings(several int) []torchPeer {
	all := []torchPeer{{threads: 1, products: 1}}
	if several > 1 {
		all = append(all, torchPeer{threads: several, products: several}, torchPeer{threads: several, products: 1})
	}
	return all
}

// pythonEnviron returns the environment variables for scripts in dir.
func pythonEnviron(dir string) []string {
	return []string{"PYTHONPATH=" + dir, "PYTHONDONTWRITEBYTECODE=1"}
}

func torchEnviron(dir string, t torchPeer) []string {
	n, m := strconv.Itoa(t.threads), strconv.Itoa(t.products)
	// Without the last two, torch returns large buffers to the system at every step.
	return append(append(pythonEnviron(dir), openBLAS()...), "OMP_NUM_THREADS="+n, "OPENBLAS_NUM_THREADS="+m, "MKL_NUM_THREADS="+m,
		"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=100000000000")
}

// buildNative compiles the peer in C.
func buildNative(ctx context.Context, e *env, source string) (string, error) {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		return "", err
	}
	program := filepath.Join(e.work, "native.exe")
	out, err := exec.CommandContext(ctx, cc, "-O2", "-o", program, source, "-ldl", "-lm").CombinedOutput()
	if err != nil {
		tail := &lastLine{}
		_, _ = tail.Write(out)
		return "", fmt.Errorf("%s %s: %w: %s", cc, source, err, tail.text)
	}
	return program, nil
}

// findPython returns the first interpreter with numpy and a module: that of -python, that of -get's virtual
// environment, or the system's.
func findPython(ctx context.Context, e *env, module string) (string, error) {
	tried := []string{}
	for _, python := range e.interpreters() {
		if exec.CommandContext(ctx, python, "-c", "import numpy, "+module).Run() == nil {
			return python, nil
		}
		tried = append(tried, python)
	}
	return "", fmt.Errorf("none of %s has numpy and %s", strings.Join(tried, ", "), module)
}

// interpreters are the Python interpreters that may have a peer, the preferred ones first.
func (e *env) interpreters() []string {
	return append(append([]string{}, e.pythons...), e.venvPython(), "python3", "/usr/bin/python3")
}

// torchPython is an interpreter with torch.
type torchPython struct{ path, version string }

// findTorch returns the interpreters with torch and numpy, one for each version of torch: the newest from PyPI may be
// faster than Debian's, or slower.
func findTorch(ctx context.Context, e *env) (found []torchPython) {
	for _, python := range e.interpreters() {
		out, err := exec.CommandContext(ctx, python, "-c", "import numpy, torch; print(torch.__version__)").Output()
		version, _, _ := strings.Cut(strings.TrimSpace(string(out)), "+")
		if err != nil || slices.ContainsFunc(found, func(p torchPython) bool { return p.version == version }) {
			continue
		}
		found = append(found, torchPython{python, version})
	}
	return found
}

func (p *peers) all() []*peer {
	all := append([]*peer{p.blas, p.fftw, p.gomlx, p.ort, p.ortGo}, p.families...)
	for _, t := range p.torch {
		all = append(all, t.peer)
	}
	return all
}

func (p *peers) close() {
	for _, q := range p.all() {
		q.close()
	}
}

// strays returns a line for each peer that exceeded its threads since the last call.
func (p *peers) strays() (out []string) {
	for _, q := range p.all() {
		out = append(out, q.strays()...)
	}
	return out
}

// versions describes the available peers of the named kinds.
func (p *peers) versions(kinds []string) []string {
	by := map[string][]*peer{"blas": {p.blas}, "fftw": {p.fftw}, "gomlx": {p.gomlx}, "ort": {p.ort}, "families": p.families}
	if p.ortGo != nil {
		by["ort"] = []*peer{p.ortGo}
	}
	for _, t := range p.torch {
		by["torch"] = append(by["torch"], t.peer)
	}
	var out []string
	for _, kind := range kinds {
		for _, q := range by[kind] {
			if q != nil && !slices.Contains(out, q.version) {
				out = append(out, q.version)
			}
		}
	}
	return out
}
