package nodetest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Counts holds the numbers of tests by outcome.
type Counts struct{ Passed, Failed, Skipped int }

// String returns a text such as "3 passed, 1 failed, 0 skipped".
func (c Counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.Passed, c.Failed, c.Skipped)
}

// Count counts results.
func Count(results []Result) Counts {
	var c Counts
	for _, r := range results {
		switch r.Status {
		case Passed:
			c.Passed++
		case Failed:
			c.Failed++
		case Skipped:
			c.Skipped++
		}
	}
	return c
}

// WriteReport writes results in the format of the ONNX backend scoreboard: a JSON object with the date, and the names
// of the tests that passed, failed and were skipped.
func WriteReport(w io.Writer, results []Result, date time.Time) error {
	names := map[Status][]string{Passed: {}, Failed: {}, Skipped: {}}
	for _, r := range results {
		names[r.Status] = append(names[r.Status], "OnnxBackendNodeModelTest::"+r.Name+"_cpu")
	}
	report := map[string]any{"date": date.UTC().Format("01/02/2006 15:04:05")}
	for status, list := range names {
		slices.Sort(list)
		report[string(status)] = list
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "    ")
	e.SetEscapeHTML(false)
	return e.Encode(report)
}

// OpCount holds the outcomes of the tests of one operator.
type OpCount struct {
	Op string
	Counts
}

// ByOp counts results by operator, sorted by name. A test of several operators counts for each of them.
func ByOp(results []Result) []OpCount {
	byOp := map[string][]Result{}
	for _, r := range results {
		for _, op := range r.Ops {
			byOp[op] = append(byOp[op], r)
		}
	}
	var out []OpCount
	for _, op := range sortedKeys(byOp) {
		out = append(out, OpCount{op, Count(byOp[op])})
	}
	return out
}

// Missing counts, for each unsupported operator, the tests that need it. The most needed operators come first.
func Missing(results []Result) []OpCount {
	n := map[string]int{}
	for _, r := range results {
		for _, op := range slices.Compact(slices.Clone(r.Unsupported)) {
			n[op]++
		}
	}
	var out []OpCount
	for op, k := range n {
		out = append(out, OpCount{op, Counts{Failed: k}})
	}
	slices.SortFunc(out, func(a, b OpCount) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(a.Op, b.Op))
	})
	return out
}

// ParseSkips reads a list of tests that are not run: a name and a reason on each line, separated by white space. Empty
// lines and lines that start with # are ignored. Errors begin with name.
func ParseSkips(r io.Reader, name string) (map[string]string, error) {
	skip := map[string]string{}
	s := bufio.NewScanner(r)
	for line := 1; s.Scan(); line++ {
		text := strings.TrimSpace(s.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		i := strings.IndexAny(text, " \t")
		if i < 0 {
			return nil, fmt.Errorf("%s:%d: %s is skipped without a reason", name, line, text)
		}
		test, why := text[:i], strings.TrimSpace(text[i:])
		if _, twice := skip[test]; twice {
			return nil, fmt.Errorf("%s:%d: %s is listed twice", name, line, test)
		}
		skip[test] = why
	}
	return skip, s.Err()
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
