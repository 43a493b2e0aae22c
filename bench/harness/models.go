package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

func runModels(ctx context.Context, e *env, r *result) error {
	const what = "imported models against ONNX Runtime, 1 thread, the most"
	root, files := e.realModels()
	if len(files) == 0 || e.peers.ort == nil {
		r.Verdicts = append(r.Verdicts, verdict{what, "at most 1.3×", "models or ONNX Runtime are absent", unmeasured})
		if len(files) == 0 {
			r.Notes = append(r.Notes,
				"No models: `go run ./bench -get` fetches them, or -models names the folder that fetch.sh filled.")
		}
		return nil
	}
	if e.quick && len(files) > 3 {
		files = files[:3]
	}
	t := table{Header: []string{"model", "input", "essmc", "ONNX Runtime", "essmc : ONNX Runtime"}}
	most, slowest := 0.0, ""
	for i, file := range files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		e.progress("  %s", name)
		label, s, err := e.imported(ctx, file, filepath.Join(e.work, "inputs", strconv.Itoa(i)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = s.err("essmc")
		}
		if err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %v", name, err))
			t.add(name, label, "–", "–", "–")
			most, slowest = 1e9, name
			continue
		}
		if err := s.err("ONNX Runtime"); err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %v", name, err))
		}
		ratio := s.ratio("essmc", "ONNX Runtime")
		if ratio.mid > most {
			most, slowest = ratio.mid, name
		}
		t.add(name, label, seconds(s.of("essmc")), seconds(s.of("ONNX Runtime")), ratio.String())
	}
	r.Tables = append(r.Tables, t)
	found := number(most) + "× " + slowest
	if most == 1e9 {
		found = slowest + " does not run"
	}
	r.Verdicts = append(r.Verdicts, judge(what, "at most 1.3×", found, most <= 1.3))
	return nil
}

// realModels returns the ONNX files that fetch.sh installed, in the order of their names below root.
func (e *env) realModels() (root string, files []string) {
	root = filepath.Join(e.models, "models")
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".onnx") {
			files = append(files, path)
		}
		return nil // a missing folder has no models
	})
	return root, files
}

// importedModel is an ONNX file with valid inputs.
type importedModel struct {
	file  string
	label string   // description of the inputs
	words []string // the request of these inputs for ONNX Runtime
	in    map[string]tensor.Datum
}

// inputsOf makes inputs for an ONNX file, in dir.
func (e *env) inputsOf(file, dir string) (*importedModel, error) {
	script := filepath.Join(e.root, "frontend", "onnx", "testdata", "realmodels", "compare.py")
	j, err := e.peers.ort.load(1, "inputs", file, dir, script)
	if err != nil {
		return nil, err
	}
	j.drop()
	names, err := os.ReadFile(filepath.Join(dir, "names"))
	if err != nil {
		return nil, err
	}
	m := &importedModel{file: file, in: map[string]tensor.Datum{}}
	var rest string
	m.label, rest, _ = strings.Cut(string(names), "\n")
	for i, name := range strings.Split(rest, "\n") {
		npy := filepath.Join(dir, strconv.Itoa(i)+".npy")
		a, err := arrays.Read(npy)
		if err != nil {
			return nil, err
		}
		m.in[name] = a.Tensor
		m.words = append(m.words, name+"="+npy)
	}
	return m, nil
}

// imported measures an ONNX file.
func (e *env) imported(ctx context.Context, file, dir string) (label string, s *samples, err error) {
	m, err := e.inputsOf(file, dir)
	if err != nil {
		return "", nil, err
	}
	s, err = e.onOneThread(ctx, m, 6*time.Second)
	return m.label, s, err
}

// onOneThread measures a model here and on ONNX Runtime, one thread each.
func (e *env) onOneThread(ctx context.Context, m *importedModel, limit time.Duration) (*samples, error) {
	opened, err := open.File(m.file, open.Options{})
	if err != nil {
		return nil, err
	}
	g, err := opened.Graph()
	if err != nil {
		return nil, err
	}
	o, err := newOurs(ctx, g, m.in, runtime.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	defer o.close()
	j, err := e.peers.onnx(1, m.file, m.words...)
	if err != nil {
		return nil, err
	}
	defer j.drop()
	return measure(ctx, e.effort(limit), []contender{o.contender(ctx, "essmc"), {name: "ONNX Runtime", run: j.run}})
}
