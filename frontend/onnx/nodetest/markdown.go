package nodetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The lines of a document between which Insert puts the output of Markdown.
const (
	markBegin = "<!-- node tests, written by essmc test --markdown: begin -->"
	markEnd   = "<!-- node tests: end -->"
)

// markdownColumns is the number of operators per row.
const markdownColumns = 5

// Markdown describes all results of a run: the number of tests that passed, a table by operator, and the tests that did
// not pass, with reasons.
func Markdown(results []Result) string {
	var b strings.Builder
	c := Count(results)
	fmt.Fprintf(&b, "%d of %d node tests pass; %d fail, %d are not run.\n\n", c.Passed, len(results), c.Failed,
		c.Skipped)
	fmt.Fprintf(&b, "<details>\n<summary>By operator: tests passed / tests run in which it occurs</summary>\n\n")
	ops := ByOp(results)
	fmt.Fprintf(&b, "|%s\n|%s\n", strings.Repeat(" |", markdownColumns), strings.Repeat("---|", markdownColumns))
	for row := range slices.Chunk(ops, markdownColumns) {
		b.WriteString("|")
		for i := range markdownColumns {
			if i >= len(row) {
				b.WriteString(" |")
				continue
			}
			o := row[i]
			fmt.Fprintf(&b, " `%s` %d/%d |", o.Op, o.Passed, o.Passed+o.Failed+o.Skipped)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n</details>\n")
	for _, status := range []Status{Skipped, Failed} {
		var reasons []string
		names := map[string][]string{}
		for _, r := range results {
			if r.Status != status {
				continue
			}
			if names[r.Reason] == nil {
				reasons = append(reasons, r.Reason)
			}
			names[r.Reason] = append(names[r.Reason], "`"+r.Name+"`")
		}
		if len(reasons) == 0 {
			continue
		}
		title := "Not run"
		if status == Failed {
			title = "Failing"
		}
		fmt.Fprintf(&b, "\n%s, and why:\n", title)
		for _, why := range reasons {
			fmt.Fprintf(&b, "- %s: %s\n", strings.Join(names[why], ", "), escape(why))
		}
	}
	return b.String()
}

var escape = strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace

// Insert replaces the text between the marked lines of a document.
func Insert(doc []byte, text string) ([]byte, error) {
	before, rest, ok := bytes.Cut(doc, []byte(markBegin+"\n"))
	_, after, okEnd := bytes.Cut(rest, []byte(markEnd))
	if !ok || !okEnd {
		return nil, errors.New("expected the lines " + markBegin + " and " + markEnd)
	}
	return slices.Concat(before, []byte(markBegin+"\n"+text+markEnd), after), nil
}
