package added

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/worktime"
)

// naive finds the leftmost and longest texts by trying all at each byte.
func naive(texts []string, s string) []Match {
	var out []Match
	for at := 0; at < len(s); {
		best := -1
		for i, t := range texts {
			if strings.HasPrefix(s[at:], t) && (best < 0 || len(t) > len(texts[best])) {
				best = i
			}
		}
		if best < 0 {
			at++
			continue
		}
		out = append(out, Match{best, at, at + len(texts[best])})
		at += len(texts[best])
	}
	return out
}

// TestFind compares with trying all texts at each byte.
func TestFind(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	found := 0
	for range 2000 {
		var texts []string
		for range 1 + r.IntN(8) {
			texts = append(texts, random(1+r.IntN(6)))
		}
		f, err := New(texts, 1000)
		if err != nil {
			t.Fatal(err)
		}
		s := random(r.IntN(30))
		got, want := f.Find(nil, s), naive(texts, s)
		if !slices.Equal(got, want) {
			t.Fatalf("%q in %q: %v, expected %v", texts, s, got, want)
		}
		found += len(want)
	}
	if found < 2000 {
		t.Errorf("only %d matches were tried", found)
	}
}

// TestLimit checks that texts that need more nodes than allowed are refused.
func TestLimit(t *testing.T) {
	if _, err := New([]string{strings.Repeat("a", 100)}, 100); err == nil || !strings.Contains(err.Error(), "99 bytes") {
		t.Error(err)
	}
	if _, err := New([]string{strings.Repeat("a", 100)}, 101); err != nil {
		t.Error(err)
	}
}

// TestWork checks that the time does not depend on the texts: nested repetitions, which begin and end everywhere.
func TestWork(t *testing.T) {
	var texts []string
	for n := 1; n < 300; n++ {
		texts = append(texts, strings.Repeat("a", n)+"b", strings.Repeat("a", n)+"c")
	}
	f, err := New(texts, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	s := strings.Repeat("a", 1<<20)
	start := worktime.Now()
	if m := f.Find(nil, s); len(m) != 0 {
		t.Error(len(m))
	}
	if took := worktime.Now() - start; took > time.Second {
		t.Errorf("a text of 2^20 bytes took %v", took)
	}
}
