package pretokenize

import (
	"strings"

	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// Metaspace puts its replacement before which pieces?
const (
	always = "always"
	first  = "first" // the one that begins where the original does
	never  = "never"
)

type metaspaceRules struct {
	space  string // what replaces a space
	scheme string
	split  bool
}

// metaspace is Metaspace, which writes a space as another character and divides before each of these.
func metaspace(o *part.Object) []maker {
	o.Need("replacement")
	m := &metaspaceRules{}
	m.space = o.Char("replacement", "▁")
	m.scheme = o.Choice("prepend_scheme", always, always, first, never)
	if !o.Bool("add_prefix_space", true) { // of old files, which have no scheme
		if o.Has("prepend_scheme") && m.scheme != never {
			o.Fail("add_prefix_space", "expected true with prepend_scheme %q, found false", m.scheme)
		}
		m.scheme = never
	}
	m.split = o.Bool("split", true)
	o.String("str_rep", "") // the replacement again
	return []maker{simple(m.run)}
}

func (m *metaspaceRules) run(s *Splitter) error {
	e := s.Text.Edit()
	out := s.next[:0]
	lead := m.space[0]
	for _, p := range s.Pieces {
		from := int(p.From)
		start := int32(e.Len())
		if place := s.Text.Span(from, from+1); m.prefixes(s.s[from:p.To], int(place.Start)) {
			e.Put(m.space, place)
		}
		at := from
		for i := from; i < int(p.To); i++ {
			b := s.s[i]
			if b != ' ' && (b != lead || !strings.HasPrefix(s.s[i:p.To], m.space)) {
				continue
			}
			e.Keep(at, i)
			if now := int32(e.Len()); m.split && start < now {
				out = append(out, Piece{start, now})
				start = now
			}
			if at = i; b == ' ' {
				e.Put(m.space, s.Text.Span(i, i+1))
				at = i + 1
			}
		}
		e.Keep(at, int(p.To))
		out = append(out, Piece{start, int32(e.Len())})
		if e.Over() {
			break
		}
	}
	return s.changed(e, out)
}

// prefixes reports whether a piece, whose first character comes from byte `origin` of the original, gets a prefix.
func (m *metaspaceRules) prefixes(piece string, origin int) bool {
	if m.scheme == never || m.scheme == first && origin != 0 {
		return false
	}
	return piece[0] != ' ' && !strings.HasPrefix(piece, m.space)
}
