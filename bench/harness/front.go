package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The marks in README.md between which the table of headlines is written.
const (
	frontBegin = "<!-- figures, written by go run ./bench: begin -->"
	frontEnd   = "<!-- figures: end -->"
)

// front returns the result of the suite of headlines with the best kernels that were measured, or nil.
func (r results) front() *result {
	for _, variant := range []string{"avx512", "avx2", "generic"} {
		if x := r[key{"headline", variant}]; x != nil && len(x.Tables) == 1 && !x.Quick {
			return x
		}
	}
	return nil
}

// readme returns the part of README.md between the marks.
func (x *result) readme() string {
	var b strings.Builder
	writeTable(&b, headlineHeader, x.Tables[0].Rows)
	fmt.Fprintf(&b, "\n%s.\n[All measurements](bench/RESULTS.md), and [how to read them](docs/performance.md).\n", x.conditions())
	return b.String()
}

// conditions says in a sentence how the headlines were measured.
func (x *result) conditions() string {
	m := x.Machine
	return fmt.Sprintf("Batch 1, one thread, %s, kernels %s, %s, commit %s (%s)",
		m.CPU, m.Kernels, strings.Join(versionsOnly(m.Peers), ", "), m.Commit, strings.Fields(m.Time + " –")[0])
}

// versionsOnly drops threads and the way of calling from the descriptions of peers.
func versionsOnly(peers []string) (out []string) {
	for _, p := range peers {
		p, _, _ = strings.Cut(p, ",")
		p, _, _ = strings.Cut(p, " by ")
		out = append(out, p)
	}
	return out
}

// insertFront replaces what is between the marks of a page.
func insertFront(page, part string) (string, error) {
	before, rest, ok := strings.Cut(page, frontBegin+"\n")
	_, after, closed := strings.Cut(rest, frontEnd)
	if !ok || !closed {
		return "", fmt.Errorf("expected the marks %s and %s", frontBegin, frontEnd)
	}
	return before + frontBegin + "\n" + part + frontEnd + after, nil
}

// writeFront writes the table of headlines into the README of the project, if there is one to write.
func (r results) writeFront(root string) error {
	x := r.front()
	if x == nil {
		return nil
	}
	file := filepath.Join(root, "README.md")
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := insertFront(string(page), x.readme())
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o666)
}

// preface is the page before the tables, for a reader who has two minutes.
func (r results) preface() string {
	var b strings.Builder
	b.WriteString("# Measurements\n\n")
	if x := r.front(); x != nil {
		b.WriteString("## The figures that matter\n\n")
		writeTable(&b, headlineHeader, x.Tables[0].Rows)
		fmt.Fprintf(&b, "\n%s. A ratio over 1 means that essmc is faster.\n\n", x.conditions())
	}
	b.WriteString(`## What was compared

- **essmc** runs models as its command does, after all passes, with the kernels named above each table.
- **ONNX Runtime** runs the same ONNX file, with inputs and outputs bound beforehand.
- **PyTorch** runs a module with the same answers, in the fastest of its forms. Where several versions are installed, the newest
  from PyPI and Debian's, the faster one counts.
- **The floor** is the time that OpenBLAS takes for the dense products of a state-space model only, on one thread. No
  implementation with products of that speed can be faster. OpenBLAS uses the kernels for the processor's features.
- FFTW, GoMLX and gonum appear where they compute the same thing.

All contenders of a table take turns in one run. Times are medians. Ratios are medians over the rounds, with quartiles in
brackets. Figures of different tables may come from different machines and commits; the line above each table names them.
[docs/performance.md](../docs/performance.md) explains more.

` + "`go run ./bench`" + ` writes this page. ` + "`go run ./bench -suite NAME`" + ` measures one suite again and keeps the others.

`)
	if goals := r.goals(); goals != "" {
		b.WriteString(goals)
	}
	return b.String()
}

// goals is the list of missed goals, and how many were met.
func (r results) goals() string {
	met, missing := 0, [][]string{}
	for _, s := range suites {
		for _, x := range r.of(s.name) {
			for _, v := range x.Verdicts {
				switch v.State {
				case missed:
					missing = append(missing, []string{v.What, x.Machine.Kernels, v.Target, v.Found})
				case unmeasured:
				default:
					met++
				}
			}
		}
	}
	if met+len(missing) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## Goals\n\n%d of %d goals are met. [All goals](#all-goals) are at the end of this page.", met, met+len(missing))
	if len(missing) > 0 {
		b.WriteString(" These are missed:\n\n")
		writeTable(&b, []string{"goal", "kernels", "target", "measured"}, missing)
	} else {
		b.WriteString("\n")
	}
	return b.String()
}
