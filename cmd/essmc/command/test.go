package command

import (
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/cmd/essmc/command/internal/table"
	"github.com/essmc/essmc/frontend/onnx/nodetest"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime/cpu"
)

func newTestCommand() *cobra.Command {
	var t testRun
	cmd := &cobra.Command{
		Use:     "test ROOT",
		Short:   "Run ONNX node tests",
		GroupID: groupRun,
		Long: `Test runs the node tests of the ONNX standard: folders with a model.onnx, inputs, and
expected outputs; or models with outputs beside them, as in the set "light". ROOT is a
folder of them, or a .tar.gz of one. Outputs are compared as by the standard's own runner:
floats to 1e-3 relative and 1e-7 absolute, everything else exactly.

--device cpu and cuda run a model after the passes, as essmc run does; --device ref runs
the graph of the file. Tests on the project's list of skipped ones, which has a reason for
each, are not run. If a test fails, the exit code is 1.`,
		Example: `  essmc test node-tests.tar.gz
  essmc test node -k 'dft|stft' --device ref
  essmc test node --device cuda --fallback cpu
  essmc test node -j 4 --report report.json
  essmc test node --list`,
		Args: args("ROOT"),
		RunE: func(cmd *cobra.Command, args []string) error { return t.run(cmd, args[0]) },
	}
	modelCompletion(cmd)
	cmd.Flags().VarP(&t.match, "match", "k", "run the tests whose names match `REGEX`")
	t.jobs = whole{0, 0}
	cmd.Flags().VarP(&t.jobs, "jobs", "j", "number of tests to run at once; 0: one per processor")
	deviceVar(cmd, &t.device, "device", deviceUsage)
	fallbackVar(cmd, &t.fallback)
	cmd.Flags().StringVar(&t.report, "report", "",
		"write names by result, in the format of ONNX's scoreboard, to `FILE`")
	complete(cmd, "report", filesOf("json"))
	cmd.Flags().StringVar(&t.markdown, "markdown", "", "write the table of operators to the marked part of `FILE`")
	complete(cmd, "markdown", filesOf("md"))
	t.out.register(cmd)
	cmd.Flags().BoolVar(&t.list, "list", false, "list the tests without running them")
	return cmd
}

// expression is a flag for a regular expression.
type expression struct{ re *regexp.Regexp }

func (e *expression) String() string {
	if e.re == nil {
		return ""
	}
	return e.re.String()
}
func (e *expression) Type() string { return "REGEX" }
func (e *expression) Set(s string) (err error) {
	e.re, err = regexp.Compile(s)
	return err
}

// testRun is the content of the command line.
type testRun struct {
	match            expression
	jobs             whole
	device           device
	fallback         choice
	report, markdown string
	list             bool
	out              target
}

func (t *testRun) run(cmd *cobra.Command, name string) error {
	if t.markdown != "" && t.match.re != nil {
		return usagef("%s: --markdown needs all tests, and cannot be combined with -k", cmd.CommandPath())
	}
	if err := t.out.check(t.report, reportFile, name); err != nil {
		return err
	}
	if err := checkFallback(cmd, &t.device, &t.fallback); err != nil {
		return err
	}
	root, err := nodetest.Open(name)
	if err != nil {
		return err
	}
	names, err := nodetest.Find(root)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	total := 0
	there := map[string]bool{}
	for _, dir := range names {
		test := path.Base(dir)
		there[test] = true
		if t.match.re != nil && !t.match.re.MatchString(test) {
			continue
		}
		total++
		if t.list {
			cmd.Println(test)
		}
	}
	if len(names) > 0 && total == 0 {
		return fmt.Errorf("%s: none of the %s matches %s", name, plural(len(names), "test"), &t.match)
	}
	if t.list && total > 0 {
		return nil
	}
	o, err := testOptions(&t.device, t.fallback.value, t.jobs.value)
	if err != nil {
		return err
	}
	maps.DeleteFunc(o.Skip, func(test, _ string) bool { return !there[test] })
	o.Match = t.match.re
	step, done := bar(cmd, total, "testing")
	o.Done = func(nodetest.Result) { step() }
	start := time.Now()
	results, err := nodetest.Run(cmd.Context(), root, o)
	done()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := t.write(results); err != nil {
		return err
	}
	if err := printTests(cmd.OutOrStdout(), results, t.device.value, time.Since(start)); err != nil {
		return err
	}
	if c := nodetest.Count(results); c.Failed > 0 {
		return fmt.Errorf("%s: %s of %d failed", name, plural(c.Failed, "test"), len(results))
	}
	return nil
}

// testOptions returns options that run a test's model on a device as `essmc run` does.
func testOptions(d *device, fallback string, jobs int) (o nodetest.Options, err error) {
	skip, err := nodetest.Skips()
	if err != nil {
		return o, err
	}
	if jobs == 0 {
		jobs = goruntime.GOMAXPROCS(0)
	}
	o = nodetest.Options{Skip: skip, Jobs: jobs}
	o.Backend, err = d.backend(fallback, func() []cpu.Option { return nil })
	if d.kind() != deviceRef {
		o.Prepare = func(g *ir.Graph) error { return passes.Run(g, open.Pipeline(), passes.Options{}) }
	}
	return o, err
}

// write writes the requested files.
func (t *testRun) write(results []nodetest.Result) error {
	if t.report != "" {
		err := atomicfile.Write(t.report, func(w io.Writer) error {
			return nodetest.WriteReport(w, results, time.Now())
		})
		if err != nil {
			return err
		}
	}
	if t.markdown == "" {
		return nil
	}
	doc, err := files.ReadFile(t.markdown)
	if err != nil {
		return err
	}
	if doc, err = nodetest.Insert(doc, nodetest.Markdown(results)); err != nil {
		return fmt.Errorf("%s: %w", t.markdown, err)
	}
	return atomicfile.Write(t.markdown, func(w io.Writer) error {
		_, err := w.Write(doc)
		return err
	})
}

// printTests prints failed and unsupported tests, and the counts.
func printTests(w io.Writer, results []nodetest.Result, device string, took time.Duration) error {
	var failed, skipped [][]string
	for _, r := range results {
		row := []string{r.Name, list(r.Ops, 3), oneLine(r.Reason)}
		switch r.Status {
		case nodetest.Failed:
			failed = append(failed, row)
		case nodetest.Skipped:
			skipped = append(skipped, row)
		}
	}
	columns := []table.Column{{Title: "test", Width: 50}, {Title: "operators", Width: 30}, {Title: "why", Width: 70}}
	for _, l := range []struct {
		title string
		rows  [][]string
	}{{"Failed", failed}, {"Not run", skipped}} {
		if len(l.rows) == 0 {
			continue
		}
		fmt.Fprintln(w, l.title)
		if err := table.Print(w, columns, l.rows); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if missing := nodetest.Missing(results); len(missing) > 0 {
		var names []string
		for _, m := range missing {
			names = append(names, fmt.Sprintf("%s (%s)", m.Op, plural(m.Failed, "test")))
		}
		fmt.Fprintf(w, "Missing operators: %s\n\n", strings.Join(names, ", "))
	}
	_, err := fmt.Fprintf(w, "on %s, in %s\n%v\n", device, duration(took), nodetest.Count(results))
	return err
}
