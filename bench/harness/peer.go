package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// peer is a process that runs jobs on request, so that its start is not measured and several can take turns. It reads
// requests of one line each, words separated by tabs, and answers each with one line, "ok …" or "error WHY". First it
// writes "ready DESCRIPTION". Between requests it is stopped if the system can do that, because threads that spin while
// they wait for work would disturb the others.
type peer struct {
	name    string
	version string // its description of itself
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	dead    error  // why it does not answer any more
	jobs    []*job // since the last call of strays
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

// lastLine keeps the last nonempty line that is written to it.
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

// ask sends a request and returns the words of the answer.
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
	_ = p.cmd.Process.Kill() // works for stopped processes; all results have been read
	_ = p.cmd.Wait()
	p.dead = errors.New(p.name + ": closed")
}

// job is work that a peer has prepared, for a number of threads.
type job struct {
	peer      *peer
	id        string
	threads   int
	wall, cpu time.Duration // of all runs: time, and processor time of all threads
}

// load prepares a job.
func (p *peer) load(threads int, words ...string) (*job, error) {
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
	j := &job{peer: p, id: out[0], threads: threads}
	p.jobs = append(p.jobs, j)
	return j, nil
}

// errAbsent is the error for an absent peer. The report says elsewhere how to get it.
var errAbsent = errors.New("the peer is absent")

// run does the job reps times and returns the total time.
func (j *job) run(reps int) (time.Duration, error) {
	out, err := j.peer.ask("run", j.id, strconv.Itoa(reps))
	if err != nil {
		return 0, err
	}
	var wall, cpu time.Duration
	if _, err := fmt.Sscan(strings.Join(out, " "), (*int64)(&wall), (*int64)(&cpu)); err != nil || len(out) != 2 ||
		wall < 0 || cpu < 0 {
		return 0, fmt.Errorf("%s: expected nanoseconds of time and of processor time, found %q", j.peer.name, out)
	}
	j.wall += wall
	j.cpu += cpu
	return wall, nil
}

// The number of additional threads that a job may seem to use, and the least time for this test.
const (
	threadSlack = 0.15
	threadTime  = 50 * time.Millisecond
)

// strays returns a line for each number of threads that jobs since the last call have exceeded, by their processor
// time.
func (p *peer) strays() (out []string) {
	if p == nil {
		return nil
	}
	worst := map[int]float64{}
	for _, j := range p.jobs {
		if used := float64(j.cpu) / float64(j.wall); j.wall >= threadTime && used > float64(j.threads)+threadSlack {
			worst[j.threads] = max(worst[j.threads], used)
		}
	}
	for _, threads := range slices.Sorted(maps.Keys(worst)) {
		out = append(out,
			fmt.Sprintf("%s was limited to %s but used %.2f processors, so its times here are too good.", p.name,
				threadsName(threads), worst[threads]))
	}
	p.jobs = nil
	return out
}

// save runs the job once and writes its first output as .npy.
func (j *job) save(file string) error {
	_, err := j.peer.ask("save", j.id, file)
	return err
}

// drop releases the job's memory.
func (j *job) drop() {
	if j != nil && j.peer.dead == nil {
		_, _ = j.peer.ask("drop", j.id) // if this fails, later requests fail too
	}
}
