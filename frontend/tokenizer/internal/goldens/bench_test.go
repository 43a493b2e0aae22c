package goldens

import (
	"context"
	"testing"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/normalize"
	"github.com/essmc/essmc/frontend/tokenizer/internal/pretokenize"
)

// BenchmarkParts measures each part on the hard lines.
func BenchmarkParts(b *testing.B) {
	g := read(b)
	var size int64
	for _, line := range g.Lines {
		size += int64(len(line))
	}
	var text aligned.Text
	ctx := context.Background()
	for i, c := range g.Normalizers {
		n, err := normalize.Parse(c.Part, "normalizer")
		if err != nil {
			b.Fatal(err)
		}
		w := n.Worker()
		measure(b, name(i, c.Part), size, g.Lines, func(line string) error {
			text.Reset(line, 0)
			return w.Normalize(ctx, &text)
		})
	}
	for i, c := range g.PreTokenizers {
		p, err := pretokenize.Parse(c.Part, "pre_tokenizer")
		if err != nil {
			b.Fatal(err)
		}
		s := p.Splitter(true)
		measure(b, name(i, c.Part), size, g.Lines, func(line string) error {
			text.Reset(line, 0)
			return s.Split(ctx, &text)
		})
	}
}

func measure(b *testing.B, name string, size int64, lines []string, f func(string) error) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			for _, line := range lines {
				if err := f(line); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
