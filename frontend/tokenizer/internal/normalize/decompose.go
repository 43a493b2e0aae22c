package normalize

import (
	"slices"

	"golang.org/x/text/unicode/norm"

	"github.com/essmc/essmc/frontend/tokenizer/internal/chars"
)

// Syllables of Hangul are composed by rule.
const (
	hangulS, hangulL, hangulV, hangulT = 0xac00, 0x1100, 0x1161, 0x11a7
	countL, countV, countT             = 19, 21, 28
	countS                             = countL * countV * countT
)

func isHangul(r rune) bool { return r >= hangulS && r < hangulS+countS }

// decompose calls f for each character that a character becomes in a form, with its combining class and whether it is
// not the first one. Package chars says which characters decompose and combine; how they do has never changed.
func decompose(form *form, k *chars.Table, char string, r rune, f func(r rune, class uint8, added bool)) {
	if isHangul(r) {
		i := r - hangulS
		f(hangulL+i/(countV*countT), 0, false)
		f(hangulV+i%(countV*countT)/countT, 0, true)
		if i%countT != 0 {
			f(hangulT+i%countT, 0, true)
		}
		return
	}
	if k.Of(r)&form.decomposes == 0 {
		f(r, classOf(k, r), false)
		return
	}
	added := false
	for _, d := range string(form.form.PropertiesString(char).Decomposition()) {
		f(d, classOf(k, d), added)
		added = true
	}
}

// classOf returns the canonical combining class of a character.
func classOf(k *chars.Table, r rune) uint8 {
	if k.Of(r)&chars.Combining == 0 {
		return 0
	}
	var b [4]byte
	return norm.NFD.Properties(append(b[:0], string(r)...)).CCC()
}

// sortMarks sorts marks by class, and equal ones as they came.
func sortMarks(m []mark) {
	if len(m) > 1 {
		slices.SortStableFunc(m, func(a, b mark) int { return int(a.class) - int(b.class) })
	}
}
