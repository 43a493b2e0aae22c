package generate_test

import (
	"context"
	"testing"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/generate"
)

// BenchmarkMamba measures a token, and a prompt of 256 tokens, of a model of the size of Mamba-130m, on one thread. The
// bytes of a token are those of the weights that it reads.
func BenchmarkMamba(b *testing.B) {
	m := model(b, runtime.Options{Threads: 1}, "mamba-130m", "")
	for _, c := range []struct {
		name   string
		tokens int
	}{{"token", 1}, {"prompt", 256}} {
		b.Run(c.name, func(b *testing.B) {
			g, err := generate.New(m)
			if err != nil {
				b.Fatal(err)
			}
			defer g.Close()
			if c.tokens == 1 {
				b.SetBytes(4 * 129_135_360)
			}
			tokens := make([]int64, c.tokens)
			for b.Loop() {
				if err := g.Feed(context.Background(), tokens); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
