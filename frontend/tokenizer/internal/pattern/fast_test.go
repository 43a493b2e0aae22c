package pattern

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// atoms are what random texts are made of: every kind of character that the published expressions tell apart, at the
// edges of UTF-8's lengths, and bytes that are not UTF-8.
var atoms = []string{"a", "B", "é", "ſ", "'", "'s", "'S", "'LL", "'re", "'Ve", "'d", "'ſ", "1", "23", "²", "Ⅷ", " ", "  ", "\t", "\n", "\r\n", "\r",
	"\u00a0", "\u2028", "\u3000", ".", "!?", "-", "_", "漢", "字", "ʰ", "\u0301", "😀", "\u200d", "\x80", "\xff", "\xe2\x82", "\xf0\x9f\x98", "\x00",
	"<|startoftext|>", "<|endoftext|>", "<|", "ⅷ", "ⓐ", "\U00010d4a", "\U0001e5f1", "\u1c89"}

func randomText(r *rand.Rand, most int) string {
	var b strings.Builder
	for range r.IntN(most + 1) {
		b.WriteString(strings.Repeat(atoms[r.IntN(len(atoms))], 1+r.IntN(3)*r.IntN(2)))
	}
	return b.String()
}

// TestByHand compares the code written by hand with the general matcher.
func TestByHand(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, expr := range []string{GPT2, Llama3, Qwen2, CLIP, CLIPSpecial} {
		fast, err := Compile(expr)
		if err != nil {
			t.Fatal(err)
		}
		if fast.fast == nil {
			t.Fatalf("no code of its own for %q", expr)
		}
		general, err := NewLimits().general(expr)
		if err != nil {
			t.Fatal(err)
		}
		for range 4000 {
			text := randomText(r, 30)
			got, want := matches(t, fast, text), matches(t, general, text)
			if !slices.Equal(got, want) {
				t.Fatalf("%q in %q: matches %v, the general matcher's are %v", expr, text, got, want)
			}
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	text := strings.Repeat("The quick brown fox doesn't jump over 12345 lazy dogs; été, naïve — 日本語のテキスト, Привет мир!\n", 100)
	o200k := answers(b)[0].Expr
	for _, a := range answers(b) {
		if strings.Contains(a.Expr, `\p{Lm}\p{Lo}\p{M}]*(?i:`) {
			o200k = a.Expr
		}
	}
	for name, expr := range map[string]string{"gpt2": GPT2, "llama3": Llama3, "o200k": o200k, "spaces": " {2,}"} {
		p, err := Compile(expr)
		if err != nil {
			b.Fatal(err)
		}
		general, _ := NewLimits().general(expr)
		for way, p := range map[string]*Pattern{"hand": p, "general": general} {
			if way == "hand" && p.fast == nil {
				continue
			}
			b.Run(name+"/"+way, func(b *testing.B) {
				m := p.Matcher()
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					m.Reset(context.Background(), text)
					for _, _, ok := m.Find(); ok; {
						_, _, ok = m.Find()
					}
				}
			})
		}
	}
}
