package spell

import (
	"strings"
	"testing"
)

// plain is the definition, word by word.
func plain(a, b []rune) int {
	switch {
	case len(a) == 0 || len(b) == 0:
		return len(a) + len(b)
	case a[0] == b[0]:
		return plain(a[1:], b[1:])
	}
	d := 1 + min(plain(a[1:], b), plain(a, b[1:]), plain(a[1:], b[1:]))
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		d = min(d, 1+plain(a[2:], b[2:]))
	}
	return d
}

func TestDistance(t *testing.T) {
	words := []string{"", "a", "ab", "ba", "abc", "bca", "input", "inptu", "inputs", "Lähge", "Länge", "\xff\xfe", "norm"}
	for _, a := range words {
		for _, b := range words {
			if got, want := Distance(a, b), plain([]rune(a), []rune(b)); got != want {
				t.Errorf("%q, %q: %d, expected %d", a, b, got, want)
			}
		}
	}
	long := strings.Repeat("x", 1<<20)
	if got := Distance(long, "y"); got != limit {
		t.Errorf("a long word is %d from a short one, expected %d", got, limit)
	}
}

func TestClose(t *testing.T) {
	for _, c := range []struct{ word, list, want string }{
		{"layrs", "dims layers lengths", "layers"},
		{"x", "X y", "X"},
		{"IMAGE", "mask image", "image"},
		{"bert", "fnet s4 s5", ""},
		{"foo", "norm d_model", ""},
		{"ab", "cd", ""},
		{"b", "a c", ""},
		{"rnu", "tune run", "run"},
		{"", "a", ""},
		{"a", "", ""},
	} {
		if got := Close(c.word, strings.Fields(c.list)); got != c.want {
			t.Errorf("%q among %q: %q, expected %q", c.word, c.list, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		word, list, want string
	}{
		{"layrs", "dims layers lengths", "layers"},
		{"b", "a c", "a"},
		{"same", "some same", "same"},
		{"x", "", ""},
		{"", "a", "a"},
	} {
		if got := Nearest(c.word, strings.Fields(c.list)); got != c.want {
			t.Errorf("%q among %q: %q, expected %q", c.word, c.list, got, c.want)
		}
	}
}
