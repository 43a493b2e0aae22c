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
	dead    error  // why it answers no more
	jobs    []*job // since strays was asked for last
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

// job is something that a peer has prepared, and may use so many threads.
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

// errAbsent stands for a peer that is not there; the report says elsewhere how to get it.
var errAbsent = errors.New("the peer is absent")

// run does the job reps times and gives the time of all.
func (j *job) run(reps int) (time.Duration, error) {
	out, err := j.peer.ask("run", j.id, strconv.Itoa(reps))
	if err != nil {
		return 0, err
	}
	var wall, cpu time.Duration
	if _, err := fmt.Sscan(strings.Join(out, " "), (*int64)(&wall), (*int64)(&cpu)); err != nil || len(out) != 2 || wall < 0 || cpu < 0 {
		return 0, fmt.Errorf("%s: expected nanoseconds of time and of processor time, found %q", j.peer.name, out)
	}
	j.wall += wall
	j.cpu += cpu
	return wall, nil
}

// Up to how many threads more than it may a job is taken to keep to its number, and from what time on that can be told.
const (
	threadSlack = 0.15
	threadTime  = 50 * time.Millisecond
)

// strays says of which jobs since the last call the processor time shows that they did not keep to their threads.
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
		out = append(out, fmt.Sprintf("%s was to keep to %s and ran on %.2f processors: what is said of it here flatters it.", p.name, threadsName(threads), worst[threads]))
	}
	p.jobs = nil
	return out
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
