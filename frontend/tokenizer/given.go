package tokenizer

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// given is a text as the caller gave it, and as it is encoded: each byte that is not UTF-8 is U+FFFD.
type given struct {
	text    string
	changed []int32 // the byte behind each U+FFFD that stands for an invalid byte
}

// widened is how much longer U+FFFD is than the byte that it stands for.
const widened = len("\uFFFD") - 1

func newGiven(s string) given {
	if utf8.ValidString(s) {
		return given{text: s}
	}
	var g given
	var b strings.Builder
	b.Grow(len(s) + len(s)/8)
	for from := 0; from < len(s); {
		r, n := utf8.DecodeRuneInString(s[from:])
		if r == utf8.RuneError && n == 1 {
			b.WriteRune(utf8.RuneError)
			g.changed = append(g.changed, int32(b.Len()))
		} else {
			b.WriteString(s[from : from+n])
		}
		from += n
	}
	g.text = b.String()
	return g
}

// offset is a range of the encoded text in the text as given.
func (g *given) offset(start, end int32) Offset {
	if g.changed == nil {
		return Offset{int(start), int(end)}
	}
	at := func(i int32) int {
		return int(i) - widened*sort.Search(len(g.changed), func(k int) bool { return g.changed[k] > i })
	}
	return Offset{at(start), at(end)}
}
