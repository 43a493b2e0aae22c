package process

import (
	"unicode"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/bytelevel"
	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// trim takes white space off offsets.
type trim struct {
	on, prefixSpace bool
}

func parseTrim(o *part.Object) step {
	o.Bool("use_regex", true) // of the pre-tokenizer of this name
	return &trim{o.Bool("trim_offsets", true), o.Bool("add_prefix_space", true)}
}

func (t *trim) added(bool) int { return 0 }

func (t *trim) process(list []Encoding, _ bool, x *Texts) ([]Encoding, error) {
	if !t.on {
		return list, nil
	}
	for _, e := range list {
		t.tokens(e.Tokens, x)
		for _, w := range e.Overflow {
			t.tokens(w, x)
		}
	}
	return list, nil
}

// tokens trims the offsets of tokens by as many characters as their texts have of white space. One space before the
// first is kept if it may be the one that was put before the text.
func (t *trim) tokens(tokens []Token, x *Texts) {
	for i := range tokens {
		k := &tokens[i]
		if k.Seq < 0 {
			continue
		}
		leading, trailing := blanks(x.Token(*k))
		if leading == 0 && trailing == 0 {
			continue
		}
		original := x.Original[k.Seq]
		if leading > 0 {
			if leading == 1 && t.prefixSpace && (i == 0 || k.Start == 0) {
				leading = 0
			}
			for ; leading > 0 && k.Start < k.End; leading-- {
				_, n := utf8.DecodeRuneInString(original[k.Start:])
				k.Start += int32(n)
			}
			k.Start = min(k.Start, k.End)
		}
		end := k.End
		for ; trailing > 0 && end > 0; trailing-- {
			_, n := utf8.DecodeLastRuneInString(original[:end])
			end -= int32(n)
		}
		if trailing == 0 {
			k.End = max(end, k.Start)
		}
	}
}

// blanks counts the characters of white space at both ends of a text.
func blanks(s string) (leading, trailing int) {
	for rest := s; rest != ""; leading++ {
		r, n := utf8.DecodeRuneInString(rest)
		if !blank(r) {
			break
		}
		rest = rest[n:]
	}
	for rest := s; rest != ""; trailing++ {
		r, n := utf8.DecodeLastRuneInString(rest)
		if !blank(r) {
			break
		}
		rest = rest[:len(rest)-n]
	}
	return leading, trailing
}

// blank reports whether a character of a token is white space, or stands for a space.
func blank(r rune) bool {
	return r == space || r != utf8.RuneError && unicode.IsSpace(r)
}

// space stands for a space in byte-level vocabularies.
var space = bytelevel.Shown(' ')
