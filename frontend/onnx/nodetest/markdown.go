package nodetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The lines between which a document holds what Markdown writes.
const (
	markBegin = "<!-- node tests, written by essmc test --markdown: begin -->"
	markEnd   = "<!-- node tests: end -->"
)

// markdownColumns is how many operators stand in one row.
const markdownColumns = 5

// Markdown describes results, all of a run's: how many tests passed, a table by operator, and what did not pass and why.
func Markdown(results []Result) string {
	var b strings.Builder
	c := Count(results)
	fmt.Fprintf(&b, "%d of %d node tests pass; %d fail, %d are not run.\n\n", c.Passed, len(results), c.Failed, c.Skipped)
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

// Insert puts text between the lines of a document that mark the place of it.
func Insert(doc []byte, text string) ([]byte, error) {
	before, rest, ok := bytes.Cut(doc, []byte(markBegin+"\n"))
	_, after, okEnd := bytes.Cut(rest, []byte(markEnd))
	if !ok || !okEnd {
		return nil, errors.New("expected the lines " + markBegin + " and " + markEnd)
	}
	return slices.Concat(before, []byte(markBegin+"\n"+text+markEnd), after), nil
}
