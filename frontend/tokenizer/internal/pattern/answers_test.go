package pattern

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

type answer struct {
	Expr, Text, Error string
	Matches           [][2]int
}

func answers(t testing.TB) []answer {
	data, err := os.ReadFile("testdata/answers.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []answer
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// matches returns all matches that are not empty: empty ones separate nothing, and Python does not show them.
func matches(t testing.TB, p *Pattern, text string) [][2]int {
	m := p.Matcher()
	m.Reset(context.Background(), text)
	all := [][2]int{}
	for {
		a, b, ok := m.Find()
		if !ok {
			break
		}
		if b > a {
			all = append(all, [2]int{a, b})
		}
	}
	if m.Err() != nil {
		t.Fatalf("%s: %v", p, m.Err())
	}
	return all
}

// unsupported are expressions that the library compiles and this package refuses.
var unsupported = map[string]bool{`(?W:a)`: true, `(?<=a*)x`: true}

// TestAnswers compares with the tokenizers library on expressions of all kinds.
// Some that it refuses are compiled: those that repeat an assertion.
func TestAnswers(t *testing.T) {
	both := make(map[string][2]*Pattern)
	for _, a := range answers(t) {
		var p *Pattern
		var err error
		if both[a.Expr][0] == nil {
			p, err = Compile(a.Expr)
		} else {
			p = both[a.Expr][0]
		}
		if a.Error != "" {
			if err == nil && !strings.Contains(a.Error, "target of repeat operator is invalid") {
				t.Errorf("%q: compiled, but the library says %s", a.Expr, a.Error)
			}
			continue
		}
		if unsupported[a.Expr] {
			if err == nil || !strings.Contains(err.Error(), "is not supported") {
				t.Errorf("%q: error %v, expected that it is not supported", a.Expr, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", a.Expr, err)
			continue
		}
		if got := matches(t, p, a.Text); !slices.Equal(got, a.Matches) {
			t.Errorf("%q in %q: matches %v, expected %v", a.Expr, a.Text, got, a.Matches)
		}
		general := both[a.Expr][1]
		if general == nil {
			if general, err = NewLimits().general(a.Expr); err != nil {
				t.Fatal(err)
			}
			both[a.Expr] = [2]*Pattern{p, general}
		}
		careful := general.Matcher()
		careful.Reset(t.Context(), a.Text)
		careful.run.careful = len(a.Text) + 1
		var got [][2]int
		for {
			x, y, ok := careful.Find()
			if !ok {
				break
			}
			if y > x {
				got = append(got, [2]int{x, y})
			}
		}
		if !slices.Equal(got, a.Matches) {
			t.Errorf("%q in %q with the memo: matches %v, expected %v", a.Expr, a.Text, got, a.Matches)
		}
	}
}
