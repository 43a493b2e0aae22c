package microsoft

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
)

// Long texts are matched by a reader, short ones at once.
func TestLongTexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, expr := range []string{"a+", "a*", "b?", "(a|é)+b*", "[^a]+", "a|ab|abé", "a.{0,3}$", `\z`, "é", "(?s).*", `\bab`, "^a", "c{0,2}"} {
		e, err := newExpression(expr)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			var b strings.Builder
			for range 300 + rng.IntN(600) {
				b.WriteString([]string{"a", "b", "é", " ", "c", "\n"}[rng.IntN(6)])
			}
			text := b.String()
			var got [][]int
			want := e.FindAllStringIndex(text, -1)
			if err := e.each(nil, text, func(from, to int) { got = append(got, []int{from, to}) }); err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, want, slices.Equal[[]int]) {
				t.Fatalf("%q in %q: found %v, expected %v", expr, text, got, want)
			}
		}
	}
	for s, valid := range map[string]bool{strings.Repeat("é", 1<<14): true, strings.Repeat("a", ir.Pace-1) + "é": true,
		strings.Repeat("a", ir.Pace-1) + "\xc3": false, strings.Repeat("a", ir.Pace) + "\x80\x80\x80\x80\x80\x80": false} {
		if validText(nil, s) != valid {
			t.Errorf("%d bytes: valid %v", len(s), !valid)
		}
	}
	for n := range 12 {
		if atLeast(nil, "aéb€", n) != (n <= 4) {
			t.Errorf("atLeast(%d)", n)
		}
	}
	e, _ := newExpression(`\bab`)
	if err := e.each(nil, strings.Repeat("a", mostBehind+1), func(int, int) {}); err == nil {
		t.Error("a long text where the expression looks behind is not refused")
	}
}
