package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// firstWord is the first argument that makes this program a process which opens one ONNX file and runs it once. Peers
// know the same word.
const firstWord = "first"

// firstRounds is the number of processes of each engine that give their first answer to a model.
const firstRounds = 3

// firsts is how engines start with a model, each time in a process of its own.
type firsts struct {
	time, memory spread // the ratios, essmc : ONNX Runtime
}

// firstAnswers measures the time from the file of a model to its first answer, and the peak of the memory, of both
// engines in turn. fresh is a peer that has run nothing yet.
func (e *env) firstAnswers(ctx context.Context, fresh *peer, m *importedModel) (firsts, error) {
	var time, memory []float64
	rounds := firstRounds
	if e.quick {
		rounds = 1
	}
	for range rounds {
		ours, oursPeak, err := firstAnswer(ctx, m)
		if err != nil {
			return firsts{spreadOf(nil), spreadOf(nil)}, err
		}
		theirs, theirPeak, err := fresh.first(append([]string{"start", m.file, "1"}, m.words...)...)
		if err != nil {
			return firsts{spreadOf(nil), spreadOf(nil)}, err
		}
		time = append(time, float64(ours)/float64(theirs))
		memory = append(memory, float64(oursPeak)/float64(theirPeak))
	}
	return firsts{spreadOf(time), spreadOf(memory)}, nil
}

// first requests the time of a job in a fresh copy of a peer, and the growth of its memory.
func (p *peer) first(words ...string) (time.Duration, int64, error) {
	if p == nil {
		return 0, 0, errAbsent
	}
	out, err := p.ask(append([]string{firstWord}, words...)...)
	if err != nil {
		return 0, 0, err
	}
	return parseFirst(p.name, strings.Join(out, " "))
}

// firstAnswer is the same for essmc.
func firstAnswer(ctx context.Context, m *importedModel) (time.Duration, int64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	var out, tail bytes.Buffer
	cmd := exec.CommandContext(ctx, self, append([]string{firstWord, m.file}, m.words...)...)
	cmd.Stdout, cmd.Stderr = &out, &tail
	if err := cmd.Run(); err != nil {
		return 0, 0, fmt.Errorf("%s: %w: %s", m.file, err, strings.TrimSpace(tail.String()))
	}
	return parseFirst("essmc", out.String())
}

func parseFirst(name, text string) (t time.Duration, peak int64, err error) {
	var nanos int64
	if _, err = fmt.Sscan(text, &nanos, &peak); err != nil || nanos <= 0 || peak <= 0 {
		return 0, 0, fmt.Errorf("%s: expected numbers of nanoseconds and bytes, found %q", name, text)
	}
	return time.Duration(nanos), peak, nil
}

// firstMain is the main function of essmc's process. It opens a file, runs it on inputs NAME=FILE.npy, and writes the
// nanoseconds, and by how many bytes resident memory had grown at its peak.
func firstMain(ctx context.Context, w io.Writer, args []string) error {
	if len(args) < 1 {
		return fmt.Errorf("%s: expected FILE.onnx NAME=FILE.npy …, found %q", firstWord, args)
	}
	in := map[string]tensor.Datum{}
	for _, word := range args[1:] {
		name, file, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("%s: expected NAME=FILE.npy, found %q", firstWord, word)
		}
		a, err := arrays.Read(file)
		if err != nil {
			return err
		}
		in[name] = a.Tensor
	}
	begin, err := resident("VmRSS")
	if err != nil {
		return err
	}
	start := time.Now()
	m, err := open.Load(args[0], open.Options{Run: runtime.Options{Backend: cpu.New(), Threads: 1}})
	if err != nil {
		return err
	}
	defer m.Close()
	s := m.NewSession()
	defer s.Close()
	if _, err := s.Run(ctx, in); err != nil {
		return err
	}
	took := time.Since(start)
	peak, err := resident("VmHWM")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, strconv.FormatInt(int64(took), 10), peak-begin)
	return err
}
