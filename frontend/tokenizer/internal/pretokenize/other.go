package pretokenize

import (
	"strings"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/chars"
	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// charDelimiter is CharDelimiterSplit, which removes a character.
func charDelimiter(o *part.Object) []maker {
	o.Need("delimiter")
	c := o.Char("delimiter", " ")
	return []maker{simple(func(s *Splitter) error {
		out := s.next[:0]
		for _, p := range s.Pieces {
			for p.From < p.To {
				n := strings.Index(s.s[p.From:p.To], c)
				if n < 0 {
					out = append(out, p)
					break
				}
				if n > 0 {
					out = append(out, Piece{p.From, p.From + int32(n)})
				}
				p.From += int32(n + len(c))
			}
		}
		s.swap(out)
		return nil
	})}
}

// fixedLength is FixedLength, which makes pieces of a number of characters.
func fixedLength(o *part.Object) []maker {
	length := o.Int("length", 5)
	if length < 1 {
		o.Fail("length", "expected at least 1, found %d", length)
	}
	return []maker{simple(func(s *Splitter) error {
		out := s.next[:0]
		for _, p := range s.Pieces {
			left := length
			for at := p.From; at < p.To; {
				_, n := utf8.DecodeRuneInString(s.s[at:p.To])
				at += int32(n)
				if left--; left == 0 || at == p.To {
					out = append(out, Piece{p.From, at})
					p.From, left = at, length
				}
			}
		}
		s.swap(out)
		return nil
	})}
}

// unicodeScripts is UnicodeScripts, which divides where the script changes. Spaces, and characters that the library
// knows no script of, belong to any; they are removed at the beginning.
func unicodeScripts(*part.Object) []maker {
	k := chars.Load()
	return []maker{simple(func(s *Splitter) error {
		out := s.next[:0]
		for _, p := range s.Pieces {
			last, from := 0, -1
			for at := int(p.From); at < int(p.To); {
				c, n := classAt(k, s.s, at)
				if script := c.Script(); script != 0 && script != last {
					if from >= 0 {
						out = append(out, Piece{int32(from), int32(at)})
					}
					from, last = at, script
				}
				at += n
			}
			if from >= 0 {
				out = append(out, Piece{int32(from), p.To})
			}
		}
		s.swap(out)
		return nil
	})}
}
