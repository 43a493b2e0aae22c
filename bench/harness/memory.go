package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/plan"
)

// growWord is the first argument that makes this program a process which measures the memory of one model.
const growWord = "grow"

// grown is the growth of a process's resident memory: by loading a model, and at the peak of its runs.
type grown struct{ loaded, run int64 }

func (g grown) cells() []string { return []string{mebibytes(g.loaded), mebibytes(g.run)} }

func mebibytes(n int64) string { return number(float64(n)/(1<<20)) + " MiB" }

func runMemory(ctx context.Context, e *env, r *result) error {
	if _, err := resident("VmHWM"); err != nil {
		r.Notes = append(r.Notes, "Memory: "+err.Error())
		return nil
	}
	t := table{Header: []string{"preset", "planned", "essmc: loaded", "run", "ONNX Runtime: loaded", "run",
		"torch: loaded", "run"},
		Note: "*planned*: the working memory that a session states (Session.Memory). The others are resident memory " +
			"of a process of its own: how far it grew by *loading* the model (a plan, the exported file, the " +
			"directory), and by how much more at its peak while the model *ran* three times. torch in the form that " +
			"takes less."}
	ort, torch := e.growingPeers(ctx)
	defer ort.close()
	defer torch.close()
	for _, p := range e.presets() {
		e.progress("  %s", p.id)
		m, err := newModel(e, p.id)
		if err != nil {
			return err
		}
		_, file, err := m.input(1, m.preset.Length)
		if err != nil {
			return err
		}
		planned, ours, err := m.grow(ctx, file)
		if err != nil {
			return err
		}
		row := append([]string{p.id, mebibytes(planned)}, ours.cells()...)
		onnx, err := m.onnx()
		if err != nil {
			return err
		}
		best, err := ort.grow("model", onnx, "1", m.inputName()+"="+file)
		row = append(row, r.peerCells(p.id, best, err)...)
		for i, form := range usualForms {
			g, formErr := torch.grow(form, m.dir, "float", file)
			if i == 0 || formErr == nil && g.loaded+g.run < best.loaded+best.run {
				best, err = g, formErr
			}
		}
		t.Rows = append(t.Rows, append(row, r.peerCells(p.id, best, err)...))
	}
	r.Tables = append(r.Tables, t)
	return nil
}

// peerCells returns the cells of a peer that may be absent.
func (r *result) peerCells(preset string, g grown, err error) []string {
	if err == nil {
		return g.cells()
	}
	if !errors.Is(err, errAbsent) {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %v", preset, err))
	}
	return []string{"–", "–"}
}

// growingPeers starts peers that have not run anything yet. They measure in copies of themselves, which must have no
// threads.
func (e *env) growingPeers(ctx context.Context) (ort, torch *peer) {
	dir := filepath.Join(e.root, "bench", "peers")
	start := func(module, script string, env []string) *peer {
		python := e.peers.python[module]
		if python == "" {
			return nil
		}
		p, err := startPeer(ctx, script, env, python, filepath.Join(dir, script))
		if err != nil {
			e.progress("  %v", err) // it has started before
			return nil
		}
		return p
	}
	return start("onnxruntime", "ort.py", pythonEnviron(dir)),
		start("torch", "torch_essm.py", torchEnviron(dir, torchSettings(1)[0]))
}

// grow requests the growth of a peer's memory by a job.
func (p *peer) grow(words ...string) (g grown, err error) {
	if p == nil {
		return g, errAbsent
	}
	out, err := p.ask(append([]string{growWord}, words...)...)
	if err != nil {
		return g, err
	}
	if _, err := fmt.Sscan(strings.Join(out, " "), &g.loaded, &g.run); err != nil {
		return g, fmt.Errorf("%s: expected two numbers of bytes, found %q", p.name, out)
	}
	return g, nil
}

// grow measures the model in a process of its own. It also returns the planned memory.
func (m *model) grow(ctx context.Context, file string) (planned int64, g grown, err error) {
	path := m.dir + ".essm"
	if err := plan.WriteFile(path, m.graph); err != nil {
		return 0, g, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, g, err
	}
	var out, tail bytes.Buffer
	cmd := exec.CommandContext(ctx, self, growWord, path, m.inputName(), file)
	cmd.Stdout, cmd.Stderr = &out, &tail
	if err := cmd.Run(); err != nil {
		return 0, g, fmt.Errorf("%s: %w: %s", m.name, err, strings.TrimSpace(tail.String()))
	}
	_, err = fmt.Fscan(&out, &planned, &g.loaded, &g.run)
	return planned, g, err
}

// growMain is the main function of that process. It loads a plan, runs it on an input, and writes planned memory and
// growth.
func growMain(ctx context.Context, w io.Writer, args []string) (err error) {
	if len(args) != 3 {
		return fmt.Errorf("%s: expected PLAN NAME FILE, found %q", growWord, args)
	}
	a, err := arrays.Read(args[2])
	if err != nil {
		return err
	}
	in, out := map[string]tensor.Datum{args[1]: a.Tensor}, map[string]tensor.Datum{}
	begin, err := resident("VmRSS")
	if err != nil {
		return err
	}
	m, err := runtime.Load(args[0], runtime.Options{Backend: cpu.New(), Threads: 1})
	if err != nil {
		return err
	}
	defer m.Close()
	s := m.NewSession()
	defer s.Close()
	loaded, err := resident("VmRSS")
	if err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // reset the peak to the current size
		return err
	}
	for range 3 {
		if err := s.RunInto(ctx, in, out); err != nil {
			return err
		}
	}
	peak, err := resident("VmHWM")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, s.Memory(), loaded-begin, peak-loaded)
	return err
}

// resident returns a number of bytes of this process: VmRSS is its resident memory, VmHWM the peak.
func resident(key string) (int64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), key+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status: has no %s", key)
}
