package pretokenize

import (
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/bytelevel"
	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// gpt2 is the expression that divides text into words for GPT-2.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// byteLevel is ByteLevel, without its last step, which writes bytes as characters (shown).
func byteLevel(o *part.Object) []maker {
	o.Need("add_prefix_space", "trim_offsets")
	var all []maker
	if o.Bool("add_prefix_space", true) {
		all = append(all, simple(prefixed))
	}
	o.Bool("trim_offsets", true) // of the post-processor of the same type
	if o.Bool("use_regex", true) {
		all = append(all, byPattern(o.Regex("use_regex", gpt2), isolated, false))
	}
	return all
}

// prefixed puts a space before each piece that does not begin with one. It has the place of the first character.
func prefixed(s *Splitter) error {
	all := true
	for _, p := range s.Pieces {
		all = all && s.s[p.From] == ' '
	}
	if all {
		return nil
	}
	e := s.Text.Edit()
	out := s.next[:0]
	for _, p := range s.Pieces {
		start := int32(e.Len())
		if s.s[p.From] != ' ' {
			e.Rune(' ', s.Text.Span(int(p.From), int(p.From)+1))
		}
		e.Keep(int(p.From), int(p.To))
		out = append(out, Piece{start, int32(e.Len())})
		if e.Over() {
			break
		}
	}
	return s.changed(e, out)
}

// shown writes each byte as the character that stands for it. It has the place of the character that the byte is part
// of.
func shown(s *Splitter) error {
	e := s.Text.Edit()
	out := s.next[:0]
	for _, p := range s.Pieces {
		start := int32(e.Len())
		for at := int(p.From); at < int(p.To); {
			_, n := utf8.DecodeRuneInString(s.s[at:p.To])
			place := s.Text.Span(at, at+n)
			for _, b := range []byte(s.s[at : at+n]) {
				e.Rune(bytelevel.Shown(b), place)
			}
			at += n
		}
		out = append(out, Piece{start, int32(e.Len())})
		if e.Over() {
			break
		}
	}
	return s.changed(e, out)
}
