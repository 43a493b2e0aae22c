package goldens

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/normalize"
	"github.com/essmc/essmc/frontend/tokenizer/internal/pretokenize"
)

// checkPlaces checks that all bytes of a text come from the original.
func checkPlaces(t *testing.T, text *aligned.Text, length int) {
	t.Helper()
	for i := range text.Len() {
		if p := text.Span(i, i+1); p.Start < 0 || p.Start > p.End || int(p.End) > length {
			t.Fatalf("byte %d of %q comes from %v of %d bytes", i, text.String(), p, length)
		}
	}
}

// FuzzNormalizer checks that any part is refused or changes any text into one whose places are in it.
func FuzzNormalizer(f *testing.F) {
	g := read(f)
	for i, c := range g.Normalizers {
		f.Add([]byte(c.Part), g.Lines[(i*7)%len(g.Lines)])
	}
	f.Add([]byte(`{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Replace","pattern":{"String":"a"},"content":"aa"}]}`), "a\xff\u0301\xe2\x82")
	f.Fuzz(func(t *testing.T, raw []byte, line string) {
		n, err := normalize.Parse(raw, "normalizer")
		if err != nil {
			return
		}
		var text aligned.Text
		text.Reset(line, 0)
		if n.Worker().Normalize(context.Background(), &text) != nil {
			return
		}
		checkPlaces(t, &text, len(line))
		if utf8.ValidString(line) && !utf8.ValidString(text.String()) {
			t.Fatalf("%q becomes %q", line, text.String())
		}
	})
}

// FuzzPreTokenizer checks that any part is refused or makes pieces of any text that follow each other and are not empty.
func FuzzPreTokenizer(f *testing.F) {
	g := read(f)
	for i, c := range g.PreTokenizers {
		f.Add([]byte(c.Part), g.Lines[(i*7)%len(g.Lines)])
	}
	f.Fuzz(func(t *testing.T, raw []byte, line string) {
		p, err := pretokenize.Parse(raw, "pre_tokenizer")
		if err != nil {
			return
		}
		var text aligned.Text
		text.Reset(line, 0)
		for _, bytes := range []bool{false, true} {
			s := p.Splitter(bytes)
			if s.Split(context.Background(), &text) != nil {
				return
			}
			checkPlaces(t, &s.Text, len(line))
			last := int32(0)
			for _, p := range s.Pieces {
				if p.From < last || p.From >= p.To || int(p.To) > s.Text.Len() {
					t.Fatalf("%q: pieces %v", line, s.Pieces)
				}
				last = p.To
			}
		}
	})
}

// FuzzCharsmap checks that any precompiled_charsmap is refused or changes any text without harm.
func FuzzCharsmap(f *testing.F) {
	for _, c := range read(f).Normalizers {
		var part struct {
			Map []byte `json:"precompiled_charsmap"`
		}
		if json.Unmarshal(c.Part, &part) == nil && part.Map != nil {
			f.Add(part.Map, "a\u0301 ﬀ\u0301 \u200b…ﷺ")
		}
	}
	f.Add([]byte("\x04\x00\x00\x00\x00\x04\x00\x00X\x00"), "abc")
	f.Fuzz(func(t *testing.T, charsmap []byte, line string) {
		raw, err := json.Marshal(map[string]string{"type": "Precompiled", "precompiled_charsmap": base64.StdEncoding.EncodeToString(charsmap)})
		if err != nil {
			t.Fatal(err)
		}
		n, err := normalize.Parse(raw, "normalizer")
		if err != nil {
			return
		}
		var text aligned.Text
		text.Reset(line, 0)
		if n.Worker().Normalize(context.Background(), &text) == nil {
			checkPlaces(t, &text, len(line))
		}
	})
}
