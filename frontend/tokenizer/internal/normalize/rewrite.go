package normalize

import (
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/chars"
)

// find returns where the first character of one of the classes begins; the length of s if there is none.
func find(k *chars.Table, s string, c chars.Class) int {
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			if k.ASCII(s[i])&c != 0 {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if k.Of(r)&c != 0 {
			return i
		}
		i += n
	}
	return len(s)
}

// rewrite changes the characters of a text from byte `first` on that are of one of the classes.
func rewrite(t *aligned.Text, k *chars.Table, c chars.Class, change func(e *aligned.Edit, from, to int, r rune)) error {
	s := t.String()
	at := find(k, s, c)
	if at == len(s) {
		return nil
	}
	e := t.Edit()
	for kept := 0; ; {
		e.Keep(kept, at)
		if at == len(s) || e.Over() {
			return e.Done()
		}
		r, n := utf8.DecodeRuneInString(s[at:])
		change(e, at, at+n, r)
		kept = at + n
		at = kept + find(k, s[kept:], c)
	}
}
