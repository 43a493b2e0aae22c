package backendtest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
)

// Each case is a file: a sentence, then sections.
//
//	-- graph --    the graph, as irtext
//	-- kernels --  values of Options.Kernel, all of which are run; absent: auto
//	-- inputs --   constants as irtext writes them: float[2] x = {1, 2}; an optional input may be missing
//	-- outputs --  the answer to the inputs before it, in the same form; floats as double
//	-- error --    instead of outputs: a part of the error of the run
//
// There may be several sections of inputs, each with an answer; one session runs them all. "go test -update" in this
// folder replaces wrong answers by those of the interpreter in float64.
//
//go:embed testdata/*.txtar
var caseFiles embed.FS

// cases runs the files in testdata.
func (s *suite) cases(t *testing.T) {
	files, err := fs.Glob(caseFiles, "testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		s.sub(t, strings.TrimSuffix(path.Base(file), ".txtar"), func(t *testing.T) {
			src, err := caseFiles.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := parseCase(file, src)
			if err != nil {
				t.Fatal(err)
			}
			s.file(t, c)
		})
	}
}

// fileCase is a case from a file.
type fileCase struct {
	archive *txtar.Archive
	graph   *ir.Graph
	kernels []string
	runs    []fileRun
}

type fileRun struct {
	in, out Data
	section int    // index of the section with the answer
	err     string // if there is no answer
}

func parseCase(name string, src []byte) (*fileCase, error) {
	c := &fileCase{archive: txtar.Parse(src), kernels: []string{"auto"}}
	for i, f := range c.archive.Files {
		at := fmt.Sprintf("%s: section %q", name, f.Name)
		var err error
		switch f.Name {
		case "graph":
			c.graph, err = irtext.Parse(f.Data, at, ops.Default, irtext.Options{})
		case "kernels":
			c.kernels = strings.Fields(string(f.Data))
		case "inputs":
			var in Data
			in, err = parseData(at, f.Data)
			c.runs = append(c.runs, fileRun{in: in})
		case "outputs", "error":
			if len(c.runs) == 0 {
				return nil, fmt.Errorf("%s: stands before any inputs", at)
			}
			r := &c.runs[len(c.runs)-1]
			if r.section = i; f.Name == "error" {
				r.err = strings.TrimSpace(string(f.Data))
				continue
			}
			r.out, err = parseData(at, f.Data)
		default:
			err = errors.New("expected one of graph, kernels, inputs, outputs, error")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
	}
	if c.graph == nil || len(c.runs) == 0 {
		return nil, fmt.Errorf("%s: has no graph, or no inputs", name)
	}
	return c, nil
}

// parseData reads constants, as the outputs of a graph.
func parseData(name string, src []byte) (Data, error) {
	var outs, consts []string
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		decl, _, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("expected type name = {elements}, found %q", line)
		}
		outs, consts = append(outs, strings.TrimSpace(decl)), append(consts, line)
	}
	d := Data{}
	if len(outs) == 0 {
		return d, nil
	}
	text := fmt.Sprintf("data () => (%s)\n<\n%s\n>\n{\n}\n", strings.Join(outs, ", "), strings.Join(consts, ",\n"))
	g, err := irtext.Parse([]byte(text), name, ops.Default, irtext.Options{})
	if err != nil {
		return nil, err
	}
	for _, v := range g.Outputs {
		d[v.Name] = v.Const
	}
	return d, nil
}

// file runs a case with all kernel forms that it lists.
func (s *suite) file(t *testing.T, c *fileCase) {
	tol := GraphTolerance(c.graph)
	for _, r := range c.runs {
		if r.err != "" {
			continue
		}
		want, err := truth(c.graph, r.in)
		if err != nil {
			t.Fatalf("runtime/ref: %v", err)
		}
		// The answers in the file may come from another source than the interpreter.
		expect(t, "runtime/ref in float64", want, r.out, ir.Tolerance{Ulps: max(tol.Ulps, 64)})
	}
	for _, kernel := range c.kernels {
		session := s.model(t, c.graph, runtime.Options{Kernel: kernel}).NewSession()
		for i, r := range c.runs {
			what := fmt.Sprintf("kernel %s, run %d", kernel, i)
			got, err := session.Run(context.Background(), r.in)
			s.skipRefused(t, err)
			switch {
			case r.err != "" && (err == nil || !strings.Contains(err.Error(), r.err)):
				t.Errorf("%s: expected an error with %q, found %v", what, r.err, err)
			case r.err != "":
			case err != nil:
				t.Errorf("%s: %v", what, err)
			default:
				expect(t, what, got, r.out, tol)
			}
		}
	}
	if slices.ContainsFunc(c.runs, func(r fileRun) bool { return r.section == 0 }) {
		t.Error("inputs without outputs or error")
	}
}
