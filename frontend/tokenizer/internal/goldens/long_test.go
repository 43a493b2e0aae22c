package goldens

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/normalize"
	"github.com/essmc/essmc/frontend/tokenizer/internal/pretokenize"
)

// TestLong gives each part lines that are one word, one run of marks, one cluster and so on. The time of a part is far below
// the limit if it is in proportion to the length, and far above it if it is not.
func TestLong(t *testing.T) {
	g := read(t)
	length, limit := 1<<15, 2*time.Second
	units := []string{"a", " ", "a\u0323\u0301", "क\u094d", "ᅡ"}
	if os.Getenv("ESSMC_LONG") != "" {
		length, limit = 1<<19, 20*time.Second
		units = append(units, "\u0301\u0323", "각", "©\u200d", "\u0600", "▁", "\xff", "'", "1", "ﷺ", "\r\n", "字")
	}
	for _, u := range units {
		s := strings.Repeat(u, length/len(u))
		var text aligned.Text
		for i, c := range g.Normalizers {
			n, err := normalize.Parse(c.Part, "normalizer")
			if err != nil {
				t.Fatal(err)
			}
			text.Reset(s, 0)
			start := time.Now()
			if err := n.Worker().Normalize(context.Background(), &text); err != nil {
				t.Errorf("%q, %s: %v", u, name(i, c.Part), err)
			}
			if d := time.Since(start); d > limit {
				t.Errorf("%q, %s: %v for %d bytes", u, name(i, c.Part), d, length)
			}
		}
		for i, c := range g.PreTokenizers {
			p, err := pretokenize.Parse(c.Part, "pre_tokenizer")
			if err != nil {
				t.Fatal(err)
			}
			text.Reset(s, 0)
			start := time.Now()
			if err := p.Splitter(true).Split(context.Background(), &text); err != nil {
				t.Errorf("%q, %s: %v", u, name(i, c.Part), err)
			}
			if d := time.Since(start); d > limit {
				t.Errorf("%q, %s: %v for %d bytes", u, name(i, c.Part), d, length)
			}
		}
	}
}
