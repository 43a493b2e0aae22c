// Command promises measures the promises of SECURITY.md. It runs the tests listed there, once per kernel variant
// that the processor supports, and writes their figures to standard output as a Markdown table:
//
//	go run ./internal/promises > FILE
//
// It imports internal/files, and runtime/cpu/kernel for the list of variants. It takes about 20 minutes and 12 GB.
// Tests report figures by log lines that start with "figure: ". It exits with 1 if a test fails, hangs or is
// missing.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

func main() {
	page, err := files.ReadFile("SECURITY.md")
	if err == nil {
		err = report(os.Stdout, os.Stderr, string(page), kernel.Variants())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "promises:", err)
		os.Exit(1)
	}
}

// promise is a row of the table.
type promise struct {
	text, limit string
	tests       []test
}

type test struct{ folder, name string }

var tests = regexp.MustCompile("`([a-z/]+): (Test[\\w ]+)`")

// parse reads the rows of the table whose tests have names.
func parse(page string) []promise {
	var all []promise
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			continue
		}
		p := promise{text: strings.TrimSpace(cells[0]), limit: strings.TrimSpace(cells[1])}
		for _, list := range tests.FindAllStringSubmatch(cells[2], -1) {
			for _, name := range strings.Fields(list[2]) {
				p.tests = append(p.tests, test{list[1], name})
			}
		}
		if len(p.tests) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// found is the outcome of a test.
type found struct {
	outcome string // "pass", "skip" or "fail"
	took    float64
	figures []string
	text    string
}

func report(w, progress io.Writer, page string, variants []string) error {
	promises := parse(page)
	if len(promises) == 0 {
		return errors.New("SECURITY.md has no table of promises with tests; run the command in the project's folder")
	}
	fmt.Fprintf(w, `# The promises of SECURITY.md, measured

Written by `+"`go run ./internal/promises`"+` on %s: %s %s, %s. The tests that SECURITY.md names ran in
their long mode, once for each variant of the kernels: %s. Where a test states no figure, the time that it took stands.

`, time.Now().Format(time.DateOnly), runtime.GOOS, runtime.GOARCH, runtime.Version(), strings.Join(variants, ", "))
	fmt.Fprintf(w, "| promise | limit | test | %s |\n|---|---|---|%s\n", strings.Join(variants, " | "),
		strings.Repeat("---|", len(variants)))
	results := make([]map[test]found, len(variants))
	for i, v := range variants {
		var err error
		if results[i], err = run(progress, promises, v); err != nil {
			return err
		}
	}
	var bad []string
	for _, p := range promises {
		for i, t := range p.tests {
			text, limit := p.text, p.limit
			if i > 0 {
				text, limit = "", ""
			}
			fmt.Fprintf(w, "| %s | %s | %s: %s |", text, limit, t.folder, t.name)
			for j, r := range results {
				f, ok := r[t]
				switch {
				case !ok:
					f.outcome = "is not there"
				case f.outcome == "":
					f.outcome = "did not end"
				}
				if f.outcome != "pass" && f.outcome != "skip" {
					bad = append(bad, fmt.Sprintf("%s of %s (%s): %s\n%s", t.name, t.folder, variants[j], f.outcome,
						f.text))
				}
				fmt.Fprintf(w, " %s |", f)
			}
			fmt.Fprintln(w)
		}
	}
	if len(bad) > 0 {
		return errors.New(strings.Join(bad, "\n"))
	}
	return nil
}

func (f found) String() string {
	switch {
	case f.outcome != "pass":
		return f.outcome
	case len(f.figures) > 0:
		return strings.ReplaceAll(strings.Join(f.figures, "; "), "|", "\\|")
	}
	return fmt.Sprintf("holds, %.2g s", max(f.took, 0.01))
}

// run runs the tests of all promises with one variant of the kernels, one package after the other.
func run(progress io.Writer, promises []promise, variant string) (map[test]found, error) {
	names := map[string][]string{}
	for _, p := range promises {
		for _, t := range p.tests {
			if !slices.Contains(names[t.folder], t.name) {
				names[t.folder] = append(names[t.folder], t.name)
			}
		}
	}
	all := map[test]found{}
	var folders []string
	for f := range names {
		folders = append(folders, f)
	}
	slices.SortFunc(folders, cmp.Compare)
	for _, folder := range folders {
		fmt.Fprintf(progress, "%s: %s: %s\n", variant, folder, strings.Join(names[folder], " "))
		cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout=30m",
			"-run=^("+strings.Join(names[folder], "|")+")$", "./"+folder)
		cmd.Env = append(os.Environ(), "ESSMC_LONG=1", "ESSMC_LONG_CANCEL=1", kernel.VariantEnv+"="+variant)
		cmd.Stderr = progress
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		if err := read(out, folder, all); err != nil {
			return nil, err
		}
		cmd.Wait() // a test that failed is in the table
	}
	return all, nil
}

// last returns the last lines of a text.
func last(text string) string { return text[max(0, len(text)-4000):] }

// read reads the events of a package's tests.
func read(r io.Reader, folder string, all map[test]found) error {
	lines := bufio.NewReader(r)
	texts := map[string]string{}
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var e struct {
			Action, Test, Output string
			Elapsed              float64
		}
		if json.Unmarshal(line, &e) != nil || e.Test == "" { // what go build writes
			continue
		}
		name, _, sub := strings.Cut(e.Test, "/")
		t := test{folder, name}
		f := all[t]
		switch e.Action {
		case "output":
			if _, figure, ok := strings.Cut(e.Output, "figure: "); ok {
				f.figures = append(f.figures, strings.TrimSpace(figure))
			}
			texts[e.Test] = last(texts[e.Test] + e.Output)
		case "pass", "fail", "skip":
			if !sub {
				f.outcome, f.took = e.Action, e.Elapsed
			}
			if e.Action == "fail" { // of the parts of a test, those that fail say why
				f.text = last(f.text + texts[e.Test])
			}
			delete(texts, e.Test)
		}
		all[t] = f
	}
}
