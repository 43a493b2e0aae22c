package docs

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// elision stands for any text within a line, and for any number of lines where it is a line.
const elision = "…"

var (
	duration = regexp.MustCompile(`\b\d+(\.\d+)?(e-?\d+)? ?(ns|µs|ms|s|min)(\b|$)`)
	number   = regexp.MustCompile(`[-+]?\d+(\.\d+)?([eE][-+]?\d+)?`)
	space    = regexp.MustCompile(`[ \t]+`)
)

// same reports whether a program printed what a page says: numbers to 4 digits, any time for a time.
func same(want, got string) bool { return sameLines(lines(want), lines(got)) }

func lines(s string) []string {
	s = strings.TrimRight(s, " \n")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

func sameLines(want, got []string) bool {
	for i, w := range want {
		if strings.TrimSpace(w) == elision {
			for j := i; j <= len(got); j++ {
				if sameLines(want[i+1:], got[j:]) {
					return true
				}
			}
			return false
		}
		if i >= len(got) || !sameLine(w, got[i]) {
			return false
		}
	}
	return len(want) == len(got)
}

func sameLine(want, got string) bool {
	want, got = normal(want), normal(got)
	before, after, elided := strings.Cut(want, elision)
	if !elided {
		return sameText(want, got)
	}
	for i := 0; i <= len(got); i++ {
		if sameText(before, got[:i]) {
			for j := i; j <= len(got); j++ {
				if sameLine(after, got[j:]) {
					return true
				}
			}
		}
	}
	return false
}

// normal masks times, and makes one space of many, since columns are as wide as their times.
func normal(s string) string {
	return strings.TrimSpace(space.ReplaceAllString(duration.ReplaceAllString(s, "TIME"), " "))
}

// sameText reports whether two texts are equal but for their numbers, and the numbers to 4 digits.
func sameText(want, got string) bool {
	if number.ReplaceAllString(want, "#") != number.ReplaceAllString(got, "#") {
		return false
	}
	a, b := number.FindAllString(want, -1), number.FindAllString(got, -1)
	for i := range a {
		x, err1 := strconv.ParseFloat(a[i], 64)
		y, err2 := strconv.ParseFloat(b[i], 64)
		whole := !strings.ContainsAny(a[i]+b[i], ".eE")
		if err1 != nil || err2 != nil || whole && x != y ||
			math.Abs(x-y) > 5e-4*max(math.Abs(x), math.Abs(y)) {
			return false
		}
	}
	return true
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"a 0.12345\n", "a  0.12346\n", true},
		{"a 0.1234", "a 0.1244", false},
		{"a 0.5", "b 0.5", false},
		{"10000", "10001", false},
		{"run 12 ms", "run 3.4 s", true},
		{"run 12 ms", "run 12 KiB", false},
		{"a\n…\nd", "a\nb\nc\nd", true},
		{"a\n…\nd", "a\nb\nc", false},
		{"a\n…", "a", true},
		{"v … 1", "v x y 1", true},
		{"v … 1", "v x y 2", false},
		{"a", "a\nb", false},
		{"", "x", false},
	} {
		if same(c.want, c.got) != c.same {
			t.Errorf("same(%q, %q) is %v", c.want, c.got, !c.same)
		}
	}
}
