package pretokenize

import (
	"context"

	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
	"github.com/essmc/essmc/frontend/tokenizer/internal/pattern"
)

// split is Split, which divides at what a pattern matches, or between that if it is inverted.
func split(o *part.Object) []maker {
	o.Need("pattern", "behavior", "invert")
	p := o.Pattern("pattern")
	b := behaviorOf(o, "Isolated")
	return []maker{byPattern(p, b, o.Bool("invert", false))}
}

func byPattern(p *pattern.Pattern, b behavior, invert bool) maker {
	return func() step {
		search := part.NewSearch(p)
		return func(ctx context.Context, s *Splitter) error {
			d := divider{behavior: b, out: s.next[:0]}
			for _, p := range s.Pieces {
				text := s.s[p.From:p.To]
				m := search.In(ctx, text)
				from := 0
				for {
					start, end, ok := m.Find()
					if !ok {
						break
					}
					if from < start {
						d.add(int(p.From)+from, int(p.From)+start, invert)
					}
					d.add(int(p.From)+start, int(p.From)+end, !invert)
					from = end
				}
				if err := m.Err(); err != nil {
					return err
				}
				if from < len(text) {
					d.add(int(p.From)+from, int(p.To), invert)
				}
				d.end()
			}
			s.swap(d.out)
			return nil
		}
	}
}
