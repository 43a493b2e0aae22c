package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// peer is a process that runs jobs on request, so that starting it is not measured and several can take turns. It reads
// requests, a line of words between tabs each, and answers each with one line, "ok …" or "error WHY"; before the first it
// writes "ready DESCRIPTION". While it is not asked it is stopped, where the system can do that: threads that wait for
// work by spinning would disturb whoever is measured.
type peer struct {
	name    string
	version string // as it describes itself
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	dead    error // why it answers no more
}

// startPeer starts a process and waits until it is ready.
func startPeer(ctx context.Context, name string, env []string, command string, args ...string) (*peer, error) {
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Env = append(os.Environ(), env...)
	tail := &lastLine{}
	cmd.Stderr = tail
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &peer{name: name, cmd: cmd, in: in, out: bufio.NewReader(out)}
	words, err := p.answer("ready")
	if err != nil {
		p.close()
		if tail.text != "" {
			err = fmt.Errorf("%w (%s)", err, tail.text)
		}
		return nil, err
	}
	p.version = strings.Join(words, " ")
	return p, pause(p.cmd.Process)
}

// lastLine keeps the last line that is not empty of what is written to it.
type lastLine struct{ text string }

func (l *lastLine) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" {
			l.text = line
		}
	}
	return len(b), nil
}

// answer reads a line that begins with want.
func (p *peer) answer(want string) ([]string, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.dead = fmt.Errorf("%s: ended", p.name)
		return nil, p.dead
	}
	words := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
	if words[0] != want {
		return nil, fmt.Errorf("%s: %s", p.name, strings.Join(words[1:], " "))
	}
	return words[1:], nil
}

// ask sends a request and gives the words of the answer.
func (p *peer) ask(words ...string) ([]string, error) {
	if p.dead != nil {
		return nil, p.dead
	}
	for _, w := range words {
		if strings.ContainsAny(w, "\t\r\n") {
			return nil, fmt.Errorf("%s: a request cannot hold %q", p.name, w)
		}
	}
	if err := resume(p.cmd.Process); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	if _, err := io.WriteString(p.in, strings.Join(words, "\t")+"\n"); err != nil {
		p.dead = fmt.Errorf("%s: %w", p.name, err)
		return nil, p.dead
	}
	out, err := p.answer("ok")
	if p.dead == nil {
		err = errors.Join(err, pause(p.cmd.Process))
	}
	return out, err
}

// close ends the process.
func (p *peer) close() {
	if p == nil {
		return
	}
	p.in.Close()
	_ = p.cmd.Process.Kill() // also where it is stopped; what it computed has been read
	_ = p.cmd.Wait()
	p.dead = errors.New(p.name + ": closed")
}

// job is something that a peer has prepared.
type job struct {
	peer *peer
	id   string
}

// load prepares a job.
func (p *peer) load(words ...string) (*job, error) {
	if p == nil {
		return nil, errAbsent
	}
	out, err := p.ask(append([]string{"load"}, words...)...)
	if err != nil {
		return nil, err
	}
	if len(out) != 1 {
		return nil, fmt.Errorf("%s: expected the number of a job, found %q", p.name, out)
	}
	return &job{p, out[0]}, nil
}

// errAbsent stands for a peer that is not there; the report says elsewhere how to get it.
var errAbsent = errors.New("the peer is absent")

// run does the job reps times and gives the time of all.
func (j *job) run(reps int) (time.Duration, error) {
	out, err := j.peer.ask("run", j.id, strconv.Itoa(reps))
	if err != nil {
		return 0, err
	}
	if len(out) == 1 {
		if ns, err := strconv.ParseInt(out[0], 10, 64); err == nil && ns >= 0 {
			return time.Duration(ns), nil
		}
	}
	return 0, fmt.Errorf("%s: expected nanoseconds, found %q", j.peer.name, out)
}

// save runs the job once and writes its first output as .npy.
func (j *job) save(file string) error {
	_, err := j.peer.ask("save", j.id, file)
	return err
}

// drop gives its memory back.
func (j *job) drop() {
	if j != nil && j.peer.dead == nil {
		_, _ = j.peer.ask("drop", j.id) // a peer that cannot do even this answers nothing later on either
	}
}

// peers are those that this machine has; the fields of absent ones are nil.
type peers struct {
	blas1, blas2, fftw, gomlx *peer
	torch                     map[int]*peer // by threads
	ort                       *peer
	absent                    []string // which ones, why, and how to get them
}

// startPeers builds and starts what there is, of those that the suites need.
func startPeers(ctx context.Context, e *env, need map[string]bool) *peers {
	p := &peers{torch: map[int]*peer{}}
	lack := func(name string, err error, how string) {
		p.absent = append(p.absent, fmt.Sprintf("%s: %v. %s", name, err, how))
	}
	dir := filepath.Join(e.root, "bench", "peers")
	if need["blas"] || need["fftw"] {
		const how = "Needs a C compiler (cc, or what CC names) and the library: Debian's libopenblas0-pthread and libfftw3-single3."
		native, err := buildNative(ctx, e, filepath.Join(dir, "native.c"))
		if err != nil {
			lack("OpenBLAS and FFTW", err, how)
		} else {
			start := func(threads, what string) *peer {
				q, err := startPeer(ctx, what, []string{"OPENBLAS_NUM_THREADS=" + threads}, native, what)
				if err != nil {
					lack(what, err, how)
				}
				return q
			}
			if need["blas"] {
				p.blas1 = start("1", "blas")
				if p.blas1 != nil && e.threads > 1 {
					p.blas2 = start(strconv.Itoa(e.threads), "blas")
				}
			}
			if need["fftw"] {
				p.fftw = start("1", "fftw")
			}
		}
	}
	if need["gomlx"] {
		program := filepath.Join(e.work, "gomlx.exe")
		cmd := exec.CommandContext(ctx, "go", "-C", filepath.Join(dir, "gomlx"), "build", "-o", program, ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		tail := &lastLine{}
		cmd.Stderr = tail
		err := cmd.Run()
		if err == nil {
			p.gomlx, err = startPeer(ctx, "GoMLX", nil, program, "1")
		} else if tail.text != "" {
			err = errors.New(tail.text)
		}
		if err != nil {
			lack("GoMLX", err, "It comes from the Go module proxy.")
		}
	}
	if need["torch"] {
		python, err := findPython(ctx, e, "torch")
		if err != nil {
			lack("torch", err, "Debian's python3-torch, or `go run ./bench -get`; -python names another interpreter.")
		} else {
			for _, threads := range e.threadCounts() {
				n := strconv.Itoa(threads)
				// Without the last two, torch gives large buffers back to the system at every step.
				env := []string{"OMP_NUM_THREADS=" + n, "OPENBLAS_NUM_THREADS=" + n, "MKL_NUM_THREADS=" + n, "PYTHONPATH=" + dir, "PYTHONDONTWRITEBYTECODE=1",
					"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=100000000000"}
				q, err := startPeer(ctx, "torch", env, python, filepath.Join(dir, "torch_essm.py"))
				if err != nil {
					lack("torch", err, "")
					break
				}
				p.torch[threads] = q
			}
		}
	}
	if need["ort"] {
		python, err := findPython(ctx, e, "onnxruntime")
		if err == nil {
			p.ort, err = startPeer(ctx, "ONNX Runtime", []string{"PYTHONPATH=" + dir, "PYTHONDONTWRITEBYTECODE=1"}, python, filepath.Join(dir, "ort.py"))
		}
		if err != nil {
			lack("ONNX Runtime", err, "`go run ./bench -get` makes a virtual environment that has it; -python names another interpreter.")
		}
	}
	return p
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

// findPython gives the first interpreter that has numpy and a module: the one that -python names, that of -get's virtual
// environment, then the system's.
func findPython(ctx context.Context, e *env, module string) (string, error) {
	tried := []string{}
	for _, python := range append(append([]string{}, e.pythons...), e.venvPython(), "python3", "/usr/bin/python3") {
		if exec.CommandContext(ctx, python, "-c", "import numpy, "+module).Run() == nil {
			return python, nil
		}
		tried = append(tried, python)
	}
	return "", fmt.Errorf("none of %s has numpy and %s", strings.Join(tried, ", "), module)
}

func (p *peers) all() []*peer {
	all := []*peer{p.blas1, p.blas2, p.fftw, p.gomlx, p.ort}
	for _, q := range p.torch {
		all = append(all, q)
	}
	return all
}

func (p *peers) close() {
	for _, q := range p.all() {
		q.close()
	}
}

// versions describes those that are there, of the kinds that are named.
func (p *peers) versions(kinds []string) []string {
	var out []string
	for _, kind := range kinds {
		if q := map[string]*peer{"blas": p.blas1, "fftw": p.fftw, "gomlx": p.gomlx, "ort": p.ort, "torch": p.torch[1]}[kind]; q != nil {
			out = append(out, q.version)
		}
	}
	return out
}
