package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// result is the result of one suite on one variant of the kernels. results.json keeps one for each suite and variant, so
// that they can be measured one at a time.
type result struct {
	Machine  machine   `json:"machine"`
	Quick    bool      `json:"quick,omitempty"`
	Verdicts []verdict `json:"verdicts,omitempty"`
	Tables   []table   `json:"tables,omitempty"`
	Figures  []figure  `json:"figures,omitempty"`
	Notes    []string  `json:"notes,omitempty"` // absent peers, failed cases
}

// verdict compares a measurement with a target of the project.
type verdict struct {
	What   string `json:"what"`
	Target string `json:"target"`
	Found  string `json:"found"`
	// State is met, missed, or unmeasured.
	State string `json:"state"`
}

const (
	met        = "met"
	missed     = "missed"
	unmeasured = "not measured"
)

// judge returns a verdict.
func judge(what, target, found string, ok bool) verdict {
	state := missed
	if ok {
		state = met
	}
	return verdict{what, target, found, state}
}

type table struct {
	Title  string     `json:"title"`
	Note   string     `json:"note,omitempty"`
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"`
}

func (t *table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

type figure struct {
	File  string `json:"file"`
	Title string `json:"title"`
}

// results holds the newest result of each suite and variant of the kernels.
type results map[key]*result

// key is the name of a suite, and the variant of the kernels that it was measured with.
type key struct{ suite, variant string }

// MarshalText makes a key one of a JSON object.
func (k key) MarshalText() ([]byte, error) { return []byte(k.suite + " " + k.variant), nil }

// UnmarshalText reads a key. Files of earlier versions hold one result for each suite, and the variant in it alone.
func (k *key) UnmarshalText(b []byte) error {
	k.suite, k.variant, _ = strings.Cut(string(b), " ")
	return nil
}

// readResults returns the results of earlier runs. It returns none if there is no file.
func readResults(file string) (results, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return results{}, nil
	}
	if err != nil {
		return nil, err
	}
	var read results
	if err := json.Unmarshal(b, &read); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r := results{}
	for k, x := range read {
		if x == nil {
			return nil, fmt.Errorf("%s: %s: expected a result, found null", file, k.suite)
		}
		r[key{k.suite, x.Machine.Kernels}] = x
	}
	return r, nil
}

// of returns the results of a suite, sorted by variant.
func (r results) of(suite string) []*result {
	var variants []string
	for k := range r {
		if k.suite == suite {
			variants = append(variants, k.variant)
		}
	}
	slices.Sort(variants)
	var out []*result
	for _, v := range variants {
		out = append(out, r[key{suite, v}])
	}
	return out
}

// write replaces the results in a folder: the numbers, and the page.
func (r results) write(dir string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "results.json"), append(b, '\n'), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "RESULTS.md"), []byte(r.markdown()), 0o666)
}

// markdown returns the page of all suites, in their order.
func (r results) markdown() string {
	var b strings.Builder
	b.WriteString(r.preface())
	for _, s := range suites {
		measured := r.of(s.name)
		if len(measured) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.title, s.doc)
		}
		for _, x := range measured {
			x.write(&b, len(measured) > 1)
		}
	}
	var rows [][]string
	for _, s := range suites {
		for _, x := range r.of(s.name) {
			for _, v := range x.Verdicts {
				state := v.State
				if state == missed {
					state = "**missed**"
				}
				rows = append(rows, []string{v.What, x.Machine.Kernels, v.Target, v.Found, state})
			}
		}
	}
	if len(rows) > 0 {
		fmt.Fprintf(&b, "\n## All goals\n\n")
		writeTable(&b, []string{"goal", "kernels", "target", "measured", ""}, rows)
	}
	return b.String()
}

// write writes the result of a suite, below a heading where other variants have results too.
func (x *result) write(b *strings.Builder, several bool) {
	level := "###"
	if several {
		fmt.Fprintf(b, "\n### Kernels %s\n", x.Machine.Kernels)
		level += "#"
	}
	quick := ""
	if x.Quick {
		quick = " **Measured with -quick: few rounds, small sizes.**"
	}
	fmt.Fprintf(b, "\n%s.%s\n", x.Machine, quick)
	for _, t := range x.Tables {
		if t.Title != "" {
			fmt.Fprintf(b, "\n%s %s\n", level, t.Title)
		}
		if t.Note != "" {
			fmt.Fprintf(b, "\n%s\n", t.Note)
		}
		fmt.Fprintln(b)
		writeTable(b, t.Header, t.Rows)
	}
	for _, f := range x.Figures {
		fmt.Fprintf(b, "\n![%s](%s)\n", f.Title, f.File)
	}
	if len(x.Notes) > 0 {
		fmt.Fprintln(b)
		for _, n := range x.Notes {
			fmt.Fprintf(b, "- %s\n", n)
		}
	}
}

// writeTable writes a table of Markdown with aligned columns: the first to the left, numbers to the right.
func writeTable(b *strings.Builder, header []string, rows [][]string) {
	width := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell(c)), 3)
		}
	}
	right := make([]bool, len(header))
	for i := 1; i < len(header); i++ {
		right[i] = !slices.ContainsFunc(rows, func(row []string) bool { return i >= len(row) || !numeric(row[i]) })
	}
	line := func(row []string) {
		for i, w := range width {
			c := ""
			if i < len(row) {
				c = cell(row[i])
			}
			space := strings.Repeat(" ", w-utf8.RuneCountInString(c))
			if right[i] {
				c, space = space+c, ""
			}
			fmt.Fprintf(b, "| %s%s ", c, space)
		}
		b.WriteString("|\n")
	}
	line(header)
	for i, w := range width {
		rule := strings.Repeat("-", w+2)
		if right[i] {
			rule = rule[1:] + ":"
		}
		fmt.Fprintf(b, "|%s", rule)
	}
	b.WriteString("|\n")
	for _, row := range rows {
		line(row)
	}
}

func cell(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "|", "\\|"), "\n", " ") }

// numeric reports whether a cell holds a number, or a dash for none.
func numeric(s string) bool { return s == "" || s == "–" || s[0] >= '0' && s[0] <= '9' }
