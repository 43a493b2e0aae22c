package pattern

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// hostile are expressions that take a matcher without bounds exponential or quadratic time on some text.
var hostile = []string{
	`(a+)+$`, `(a|a)*b`, `(a*)*b`, `(?:a?){60}a{60}`, `(?:.*.*)*=`, `(?=.*x)a`, `(?!.*x)b`, `(?:a*+b|a)`, `(?:(?>a*)b|a)`,
	`(?:(?>(?:aa)*)b|a)b`, `a*a*a*a*a*b`, `(?:a|aa|aaa)*b`, `(?=(?>(?:a|aa)+)b)a`, `(?:.{40})?a*+!`, `(?<=a{30})b`, `(?:(?<=a{30})b|a*!)`,
	`(?:\s*\n)+\S`, `((((a*)*)*)*)*b`, `(?:a{0,30}){0,30}b`, `(?i:(?:ss|ß)*)b`, `\s+(?!\S)|\s+$`, `(?:(?=a*b)a|(?=a*c)a|a)*d`,
}

// maxWork is the number of steps for each state and place: a constant, for any expression and text.
const maxWork = 48

func work(t testing.TB, p *Pattern, text string) (steps int, err error) {
	m := p.Matcher()
	m.Reset(context.Background(), text)
	for _, _, ok := m.Find(); ok; {
		_, _, ok = m.Find()
	}
	if limit := maxWork * (len(p.prog.insts) + 1) * (len(text) + 1); m.run.total > limit {
		t.Errorf("%q in a text of %d bytes that begins with %.40q: %d steps, expected at most %d", p, len(text), text, m.run.total, limit)
	}
	return m.run.total, m.Err()
}

// TestWork holds the bound on steps for expressions made to break it.
func TestWork(t *testing.T) {
	for _, expr := range hostile {
		p, err := NewLimits().general(expr)
		if err != nil {
			t.Fatal(err)
		}
		for _, unit := range []string{"a", "ab", "aaaaaaaaaab", " ", "\n ", "s", "ß"} {
			if _, err := work(t, p, strings.Repeat(unit, 4000/len(unit))); err != nil {
				t.Errorf("%q on %q…: %v", expr, unit, err)
			}
		}
	}
}

// TestMemory holds the bound on memory: what needs more ends with an error.
func TestMemory(t *testing.T) {
	p, err := NewLimits().general(`(?=(?:a|b|c|[ab]d|a(?:x|y|z))*!)a`)
	if err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20
	m := p.Matcher()
	m.run.memo.most = most
	m.Reset(context.Background(), strings.Repeat("a", 2<<20))
	if _, _, ok := m.Find(); ok || !errors.Is(m.Err(), ErrMemory) {
		t.Errorf("found %v, error %v: expected that memory does not suffice", ok, m.Err())
	}
	if size := m.run.memo.size(); size > most+1<<16 {
		t.Errorf("the memo has %d bytes, expected at most %d", size, most)
	}
}

// TestContext ends long work.
func TestContext(t *testing.T) {
	p, err := NewLimits().general(`(?:a|b)*!`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m := p.Matcher()
	m.Reset(ctx, strings.Repeat("ab", 1<<18))
	if _, _, ok := m.Find(); ok || !errors.Is(m.Err(), context.Canceled) {
		t.Errorf("found %v, error %v: expected the context's", ok, m.Err())
	}
}

// TestTooLarge refuses expressions that grow when they are compiled.
func TestTooLarge(t *testing.T) {
	for name, expr := range map[string]string{
		"counts":      `((a{1000}){1000}){1000}`,
		"empty":       `(?:(?:(?:){1000}){1000}){1000}`,
		"nullable":    `(?:(?:(?:a?){0,300}){0,300}){0,300}`,
		"classes":     strings.Repeat(`[\p{L}a-z]`, 4000),
		"members":     `[` + strings.Repeat(`\p{L}`, 10000) + `]`,
		"length":      strings.Repeat("a", maxExpr+1),
		"folded":      `(?i)` + strings.Repeat("a", 60000),
		"large loop":  `a{100001}`,
		"depth":       strings.Repeat("(", 5000) + strings.Repeat(")", 5000),
		"class depth": strings.Repeat("[", 5000) + "a" + strings.Repeat("]", 5000),
		"stacked":     "a" + strings.Repeat("*", 5000),
		"options":     strings.Repeat("(?i)", 5000),
	} {
		if _, err := Compile(expr); err == nil {
			t.Errorf("%s: compiled", name)
		} else if strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("%s: the error is not one short line: %v", name, err)
		}
	}
	l := NewLimits()
	for i := 0; ; i++ {
		if _, err := l.Compile(`[\p{L}a]{50}`); errors.Is(err, ErrTooLarge) {
			break
		}
		if i > 1000 {
			t.Fatal("the limits of a file are not shared by its expressions")
		}
	}
}

// FuzzPattern compiles any expression and matches any text: without a panic, within the bound, and with and without
// the memo alike.
func FuzzPattern(f *testing.F) {
	for _, expr := range hostile {
		f.Add(expr, "aaab ß\n")
	}
	for _, a := range answers(f)[:300] {
		f.Add(a.Expr, a.Text)
	}
	f.Fuzz(func(t *testing.T, expr, text string) {
		if len(text) > 1000 || len(expr) > 200 {
			return
		}
		l := &Limits{instructions: 1 << 11, ranges: 1 << 16}
		p, err := l.general(expr)
		if err != nil {
			return
		}
		if _, err := work(t, p, text); err != nil {
			t.Fatal(err)
		}
		plain, careful := p.Matcher(), p.Matcher()
		plain.Reset(t.Context(), text)
		careful.Reset(t.Context(), text)
		careful.run.careful = len(text) + 1
		for {
			a, b, ok := plain.Find()
			x, y, also := careful.Find()
			if a != x || b != y || ok != also {
				t.Fatalf("%q in %q: %d:%d %v, and %d:%d %v with the memo", expr, text, a, b, ok, x, y, also)
			}
			if !ok {
				break
			}
		}
	})
}
