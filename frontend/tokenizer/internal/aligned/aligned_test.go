package aligned

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// spans returns the places of all bytes.
func spans(t *Text) []Span {
	var all []Span
	for i := range t.Len() {
		all = append(all, t.Span(i, i+1))
	}
	return all
}

// naive is a text with its places written out: what Text and Edit must agree with.
type naive struct {
	s      string
	places []Span
}

func naiveOf(s string) naive {
	n := naive{s: s}
	for i := 0; i < len(s); {
		_, w := utf8.DecodeRuneInString(s[i:])
		for range w {
			n.places = append(n.places, Span{int32(i), int32(i + w)})
		}
		i += w
	}
	return n
}

func check(t *testing.T, got *Text, want naive) {
	t.Helper()
	if got.String() != want.s {
		t.Fatalf("found %q, expected %q", got.String(), want.s)
	}
	for i, p := range spans(got) {
		if p != want.places[i] {
			t.Fatalf("%q: byte %d comes from %v, expected %v", want.s, i, p, want.places[i])
		}
	}
}

// TestEdits changes texts at random, and compares with texts whose places are always written out.
func TestEdits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var text, view Text
	for range 3000 {
		s := random(r)
		text.Reset(s, 0)
		want := naiveOf(s)
		check(t, &text, want)
		for range r.IntN(4) {
			want = change(r, &text, want)
			check(t, &text, want)
		}
		a, b := cut(r, want.s), cut(r, want.s)
		a, b = min(a, b), max(a, b)
		view.View(&text, a, b)
		part := naive{want.s[a:b], want.places[a:b]}
		check(t, &view, part)
		check(t, &view, change(r, &view, part))
		check(t, &text, want)
	}
}

func random(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteString([]string{"a", "b", " ", "é", "字", "🙂", "\xff", "\x80"}[r.IntN(8)])
	}
	return b.String()
}

// cut returns where some character of s begins, or the end.
func cut(r *rand.Rand, s string) int {
	at := 0
	for n := r.IntN(len(s) + 1); n > 0 && at < len(s); n-- {
		_, w := utf8.DecodeRuneInString(s[at:])
		at += w
	}
	return at
}

// change makes the same change of both: it goes through the characters, and keeps, removes or replaces each, or adds others.
func change(r *rand.Rand, text *Text, old naive) naive {
	var out naive
	e := text.Edit()
	for i := 0; i < len(old.s); {
		_, n := utf8.DecodeRuneInString(old.s[i:])
		p := old.places[i]
		put := func(s string) {
			out.s += s
			for range len(s) {
				out.places = append(out.places, p)
			}
		}
		switch k := r.IntN(8); {
		case k < 4:
			e.Keep(i, i+n)
			put(old.s[i : i+n])
		case k == 4:
			e.String("x字", p)
			put("x字")
		case k == 5:
			e.Rune('ü', p)
			put("ü")
		case k == 6 && old.s[i] < utf8.RuneSelf:
			e.Byte('Z', i)
			put("Z")
		}
		i += n
	}
	if e.Done() != nil {
		panic("the text is too long")
	}
	return out
}

// TestFree checks that texts whose characters keep their places have no table, and that texts are changed without allocations
// once there is memory for them.
func TestFree(t *testing.T) {
	var text Text
	s := strings.Repeat("Hello 字 ", 50)
	n := testing.AllocsPerRun(100, func() {
		text.Reset(s, 0)
		e := text.Edit()
		e.Byte('h', 0)
		e.Keep(1, len(s))
		if e.Done() != nil || !text.Identity() {
			t.Fatal("a text in lower case has other places")
		}
		e = text.Edit()
		e.Keep(1, len(s))
		if e.Done() != nil || text.Identity() {
			t.Fatal("a text without its beginning has the same places")
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLimit checks that a text cannot grow without bound, however many changes are made.
func TestLimit(t *testing.T) {
	var text Text
	text.Reset("aaaa", 0)
	for i := range 100 {
		e := text.Edit()
		e.Keep(0, text.Len())
		e.String(text.String(), Span{0, 1})
		if err := e.Done(); err != nil {
			if i < 8 {
				t.Errorf("%d bytes are too long: %v", 4<<i, err)
			}
			return
		}
	}
	t.Error("a text of 4 bytes doubled 100 times")
}
