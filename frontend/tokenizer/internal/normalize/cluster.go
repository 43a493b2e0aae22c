package normalize

import (
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/chars"
)

const joiner = 0x200d // ZERO WIDTH JOINER

// cluster returns the length of the first extended grapheme cluster of a text (Unicode Standard Annex 29). Pairs of
// regional indicators are two clusters here: nobody asks for clusters that are that long.
func cluster(k *chars.Table, s string) int {
	r, at := utf8.DecodeRuneInString(s)
	var state joins
	c := k.Of(r)
	for state.next(r, c); at < len(s); {
		b, n := utf8.DecodeRuneInString(s[at:])
		d := k.Of(b)
		switch {
		case c&chars.Control != 0:
			if r == '\r' && b == '\n' {
				return at + n
			}
			return at
		case d&chars.Control != 0:
			return at
		case d&chars.Attach == 0 && c&chars.Prepend == 0 && !syllable(r, b) && !state.joined(d):
			return at
		}
		state.next(b, d)
		r, c = b, d
		at += n
	}
	return at
}

// joins is what a cluster has at its end that joins it with what is behind.
type joins struct {
	pictograph bool // a pictograph, and characters that extend it
	joiner     bool // a joiner behind these
	consonant  bool // a consonant, and characters that extend it or link it
	linked     bool // one of these links
}

func (j *joins) next(r rune, c chars.Class) {
	j.joiner = j.pictograph && r == joiner
	j.pictograph = c&chars.Pictograph != 0 || j.pictograph && c&chars.Extend != 0
	if j.consonant && c&(chars.Linker|chars.ConjunctExtend) != 0 {
		j.linked = j.linked || c&chars.Linker != 0
		return
	}
	j.consonant, j.linked = c&chars.Consonant != 0, false
}

// joined reports whether a character of class c belongs to the cluster.
func (j *joins) joined(c chars.Class) bool {
	return j.joiner && c&chars.Pictograph != 0 || j.linked && c&chars.Consonant != 0
}

// Parts of syllables of Hangul.
const (
	otherPart = iota
	leading
	vowel
	trailing
	leadingVowel
	full
)

// syllable reports whether two characters are parts of one syllable of Hangul.
func syllable(a, b rune) bool {
	if a < hangulL || b < hangulL {
		return false
	}
	x, y := jamo(a), jamo(b)
	switch x {
	case leading:
		return y == leading || y == vowel || y == leadingVowel || y == full
	case vowel, leadingVowel:
		return y == vowel || y == trailing
	case trailing, full:
		return y == trailing
	}
	return false
}

func jamo(r rune) int {
	switch {
	case r < 0x1100:
		return otherPart
	case r < 0x1160, 0xa960 <= r && r <= 0xa97c:
		return leading
	case r < 0x11a8, 0xd7b0 <= r && r <= 0xd7c6:
		return vowel
	case r < 0x1200, 0xd7cb <= r && r <= 0xd7fb:
		return trailing
	case isHangul(r) && (r-hangulS)%countT == 0:
		return leadingVowel
	case isHangul(r):
		return full
	}
	return otherPart
}
