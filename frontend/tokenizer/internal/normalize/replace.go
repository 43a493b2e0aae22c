package normalize

import (
	"context"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// replace is Replace: what it puts in place of a match has the place of the last character of the match.
func replace(o *part.Object) maker {
	o.Need("pattern", "content")
	p := o.Pattern("pattern")
	content := o.String("content", "")
	return func() step {
		search := part.NewSearch(p)
		return func(ctx context.Context, t *aligned.Text) error {
			s := t.String()
			m := search.In(ctx, s)
			start, end, ok := m.Find()
			if !ok {
				return m.Err()
			}
			e := t.Edit()
			kept := 0
			for ; ok && !e.Over(); start, end, ok = m.Find() {
				e.Keep(kept, start)
				place := aligned.Span{Start: int32(t.Origin()), End: int32(t.Origin())}
				if end > 0 {
					place = t.Span(end-1, end)
				}
				e.String(content, place)
				kept = end
			}
			e.Keep(kept, len(s))
			if err := m.Err(); err != nil {
				return err
			}
			return e.Done()
		}
	}
}
