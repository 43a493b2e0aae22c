package pretokenize

import (
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/chars"
	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// whitespaceSplit is WhitespaceSplit, which removes white space.
func whitespaceSplit(*part.Object) []maker { return byClass(chars.Space, removed) }

// digits is Digits, which divides at numbers.
func digits(o *part.Object) []maker {
	if o.Bool("individual_digits", false) {
		return byClass(chars.Numeric, isolated)
	}
	return byClass(chars.Numeric, contiguous)
}

// punctuation is Punctuation, which divides at punctuation.
func punctuation(o *part.Object) []maker {
	return byClass(chars.Punctuation, behaviorOf(o, "Isolated"))
}

// byClass divides at each character of some classes.
func byClass(c chars.Class, b behavior) []maker {
	k := chars.Load()
	return []maker{simple(func(s *Splitter) error {
		d := divider{behavior: b, out: s.next[:0]}
		for _, p := range s.Pieces {
			from, to := int(p.From), int(p.To)
			for at := from; at < to; {
				here, n := classAt(k, s.s, at)
				if here&c != 0 {
					if from < at {
						d.add(from, at, false)
					}
					d.add(at, at+n, true)
					from = at + n
				}
				at += n
			}
			if from < to {
				d.add(from, to, false)
			}
			d.end()
		}
		s.swap(d.out)
		return nil
	})}
}

// classAt returns the classes and the length of the character at a byte of a text.
func classAt(k *chars.Table, s string, at int) (chars.Class, int) {
	if b := s[at]; b < utf8.RuneSelf {
		return k.ASCII(b), 1
	}
	r, n := utf8.DecodeRuneInString(s[at:])
	return k.Of(r), n
}

// bert is BertPreTokenizer, which removes white space and divides at punctuation.
func bert(*part.Object) []maker {
	k := chars.Load()
	return []maker{simple(func(s *Splitter) error {
		out := s.next[:0]
		for _, p := range s.Pieces {
			from, to := int(p.From), int(p.To)
			for at := from; at < to; {
				c, n := classAt(k, s.s, at)
				if c&(chars.Space|chars.Punctuation) != 0 {
					if from < at {
						out = append(out, Piece{int32(from), int32(at)})
					}
					if c&chars.Space == 0 {
						out = append(out, Piece{int32(at), int32(at + n)})
					}
					from = at + n
				}
				at += n
			}
			if from < to {
				out = append(out, Piece{int32(from), int32(to)})
			}
		}
		s.swap(out)
		return nil
	})}
}

// whitespace is Whitespace: pieces are what \w+|[^\w\s]+ matches.
func whitespace(*part.Object) []maker {
	k := chars.Load()
	const kinds = chars.Word | chars.Space
	return []maker{simple(func(s *Splitter) error {
		out := s.next[:0]
		for _, p := range s.Pieces {
			from := int(p.From)
			var kind chars.Class
			for at := from; at < int(p.To); {
				c, n := classAt(k, s.s, at)
				if at == int(p.From) {
					kind = c & kinds
				}
				if c&kinds != kind {
					if kind&chars.Space == 0 {
						out = append(out, Piece{int32(from), int32(at)})
					}
					from, kind = at, c&kinds
				}
				at += n
			}
			if kind&chars.Space == 0 {
				out = append(out, Piece{int32(from), p.To})
			}
		}
		s.swap(out)
		return nil
	})}
}
