package part

import (
	"slices"
	"strings"
	"testing"
)

// TestEach reads sequences, and checks their limits.
func TestEach(t *testing.T) {
	nested := func(n int, inner string) string {
		return strings.Repeat(`{"type": "Sequence", "list": [`, n) + inner + strings.Repeat(`]}`, n)
	}
	many := func(n int) string { return nested(1, strings.TrimSuffix(strings.Repeat(`{"type": "A"},`, n), ",")) }
	for _, c := range []struct {
		raw   string
		types []string
		err   string
	}{
		{"", nil, ""},
		{"null", nil, ""},
		{`{"type": "A"}`, []string{"A"}, ""},
		{nested(2, `{"type": "A"}, {"type": "Sequence", "list": []}, {"type": "B"}`), []string{"A", "B"}, ""},
		{nested(maxDepth, `{"type": "A"}`), []string{"A"}, ""},
		{nested(maxDepth+1, `{"type": "A"}`), nil, "expected at most 16 sequences in each other, found more"},
		{many(maxParts), slices.Repeat([]string{"A"}, maxParts), ""},
		{many(maxParts + 1), slices.Repeat([]string{"A"}, maxParts), "part.list[256]: expected at most 256 list, found more"},
		{nested(1, `{"type": "C"}`), nil, `part.list[0]: type "C" is not supported`},
		{nested(1, `{"type": "A", "b": 1}`), []string{"A"}, `part.list[0].A: key "b" is not supported`},
		{`{"type": "Sequence"}`, nil, "part.Sequence.list: expected a value, found none"},
		{`[]`, nil, "part: expected an object, found []"},
	} {
		var types []string
		err := Each([]byte(c.raw), "part", "list", func(o *Object) bool {
			if o.Type == "C" {
				return false
			}
			types = append(types, o.Type)
			return true
		})
		if !slices.Equal(types, c.types) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%.80s: parts %v, %v, expected %v, %s", c.raw, types, err, c.types, c.err)
		}
	}
}
