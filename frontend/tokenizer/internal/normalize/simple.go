package normalize

import (
	"strings"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/bytelevel"
	"github.com/essmc/essmc/frontend/tokenizer/internal/chars"
	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// lowercase is Lowercase. A character may become several.
func lowercase(*part.Object) maker {
	k := chars.Load()
	return simple(func(t *aligned.Text) error {
		return rewrite(t, k, chars.Lower, func(e *aligned.Edit, from, to int, r rune) {
			if r < utf8.RuneSelf {
				e.Byte(byte(r)+'a'-'A', from)
				return
			}
			e.String(k.Lowercase(r), t.Span(from, to))
		})
	})
}

// stripAccents is StripAccents, which removes all combining marks.
func stripAccents(*part.Object) maker {
	k := chars.Load()
	return simple(func(t *aligned.Text) error {
		return rewrite(t, k, chars.Mark, func(*aligned.Edit, int, int, rune) {})
	})
}

// strip is Strip, which removes white space at the ends.
func strip(o *part.Object) maker {
	o.Need("strip_left", "strip_right")
	left, right := o.Bool("strip_left", false), o.Bool("strip_right", false)
	k := chars.Load()
	return simple(func(t *aligned.Text) error {
		s := t.String()
		from, to := 0, len(s)
		for left && from < to {
			r, n := utf8.DecodeRuneInString(s[from:])
			if k.Of(r)&chars.Space == 0 {
				break
			}
			from += n
		}
		for right && from < to {
			r, n := utf8.DecodeLastRuneInString(s[:to])
			if k.Of(r)&chars.Space == 0 {
				break
			}
			to -= n
		}
		t.Cut(from, to)
		return nil
	})
}

// prepend is Prepend: what it adds has the place of the first character.
func prepend(o *part.Object) maker {
	o.Need("prepend")
	before := o.String("prepend", "")
	return simple(func(t *aligned.Text) error {
		s := t.String()
		_, n := utf8.DecodeRuneInString(s)
		first := t.Span(0, n)
		e := t.Edit()
		if before == "" { // the library then takes the first character for an addition
			e.Put(s[:n], aligned.Span{Start: int32(t.Origin()), End: int32(t.Origin())})
		} else {
			e.String(before, first)
			e.Put(s[:n], first)
		}
		e.Keep(n, len(s))
		return e.Done()
	})
}

// byteLevel is ByteLevel, which writes each byte as a character.
func byteLevel(*part.Object) maker {
	return simple(func(t *aligned.Text) error {
		s := t.String()
		e := t.Edit()
		for i := 0; i < len(s); {
			_, n := utf8.DecodeRuneInString(s[i:])
			for j := range n {
				e.Rune(bytelevel.Shown(s[i+j]), t.Span(i, i+n))
			}
			i += n
		}
		return e.Done()
	})
}

// nmt is Nmt, of sentencepiece's rules for machine translation: it removes some control characters and makes others
// spaces.
func nmt(*part.Object) maker {
	return simple(func(t *aligned.Text) error {
		s := t.String()
		if strings.IndexFunc(s, nmtChanges) < 0 {
			return nil
		}
		e := t.Edit()
		for i := 0; i < len(s); {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case nmtRemoves(r):
			case nmtSpace(r):
				e.Rune(' ', t.Span(i, i+n))
			default:
				e.Keep(i, i+n)
			}
			i += n
		}
		return e.Done()
	})
}

func nmtChanges(r rune) bool { return nmtRemoves(r) || nmtSpace(r) }

func nmtRemoves(r rune) bool {
	switch {
	case 1 <= r && r <= 8, r == 0xb, 0xe <= r && r <= 0x1f, r == 0x7f, r == 0x8f, r == 0x9f:
		return true
	}
	return false
}

func nmtSpace(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, 0x200b <= r && r <= 0x200f, r == 0x2028, r == 0x2029,
		r == 0x2581, r == 0xfeff, r == utf8.RuneError:
		return true
	}
	return false
}
