package chars

import (
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestGo compares classes with Go's tables. Unicode only adds characters, apart from few changes, so nearly all that differ
// must be such that one of the two does not know yet. The numbers are those of Unicode 15, and may grow with Go's tables.
func TestGo(t *testing.T) {
	k := Load()
	for _, one := range []struct {
		name string
		in   func(c Class, r rune) bool
		want func(r rune) bool
		most int
	}{
		{"space", func(c Class, _ rune) bool { return c&Space != 0 }, unicode.IsSpace, 0},
		{"numeric", func(c Class, _ rune) bool { return c&Numeric != 0 }, unicode.IsNumber, 93},
		{"punctuation", func(c Class, _ rune) bool { return c&Punctuation != 0 },
			func(r rune) bool { return unicode.IsPunct(r) || r < 128 && unicode.IsSymbol(r) }, 129},
		{"other", func(c Class, _ rune) bool { return c&Other != 0 },
			func(r rune) bool {
				return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) && (r < 9 || r > 13 || r == 11 || r == 12)
			}, 23},
		{"nonspacing", func(c Class, _ rune) bool { return c&Nonspacing != 0 }, func(r rune) bool { return unicode.Is(unicode.Mn, r) }, 420},
		{"mark", func(c Class, _ rune) bool { return c&Mark != 0 }, unicode.IsMark, 357},
		{"lower case", func(c Class, r rune) bool { return c&Lower != 0 && k.Lowercase(r) == string(unicode.ToLower(r)) },
			func(r rune) bool { return unicode.ToLower(r) != r }, 56},
	} {
		n := 0
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if utf8.ValidRune(r) && one.in(k.Of(r), r) != one.want(r) {
				n++
				if r < 0x250 && r != 0x130 {
					t.Errorf("%s: %U differs", one.name, r)
				}
			}
		}
		if n > one.most+300 {
			t.Errorf("%s: %d characters differ, and %d did with Unicode 15", one.name, n, one.most)
		}
	}
}

// TestInvalid checks that what is not a character has the classes of U+FFFD.
func TestInvalid(t *testing.T) {
	k := Load()
	for _, r := range []rune{-1, unicode.MaxRune + 1} {
		if k.Of(r) != k.Of(utf8.RuneError) {
			t.Errorf("%d has other classes than U+FFFD", r)
		}
	}
}

// TestLowercase checks the one character that becomes two.
func TestLowercase(t *testing.T) {
	if got := Load().Lowercase('İ'); got != "i̇" {
		t.Errorf("İ becomes %q", got)
	}
}
