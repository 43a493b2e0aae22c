package tokenizer

import (
	"encoding/json"
	"strings"
	"testing"
)

// partsCase is a small tokenizer with texts and answers, which testdata/parts/make.py has written.
type partsCase struct {
	Tokenizer json.RawMessage
	Cases     []struct {
		A         string
		B         *string
		NoSpecial bool `json:"no_special"`
		Error     string
		Answer    answer
		Decoded   *struct {
			IDs        []int64
			Text, Skip string
		}
	}
}

func parts(t testing.TB) []partsCase {
	t.Helper()
	var all []partsCase
	if err := json.Unmarshal(content(t, "testdata/parts/parts.json"), &all); err != nil || len(all) < 300 {
		t.Fatal(err, len(all))
	}
	return all
}

// TestParts compares small tokenizers of all models, decoders, post-processors and flags of added tokens with the library.
func TestParts(t *testing.T) {
	wrong := 0
	for i, p := range parts(t) {
		k, err := Parse(p.Tokenizer, "t")
		if err != nil {
			t.Errorf("%d: %v in %.2000s", i, err, p.Tokenizer)
			continue
		}
		for _, c := range p.Cases {
			if wrong > 5 {
				t.Fatal("too many differences")
			}
			var e *Encoding
			if c.B == nil {
				e, err = k.EncodeText(t.Context(), c.A, Options{NoSpecialTokens: c.NoSpecial})
			} else {
				e, err = k.EncodePair(t.Context(), c.A, *c.B, Options{NoSpecialTokens: c.NoSpecial})
			}
			if c.Error != "" || err != nil {
				if c.Error == "" || err == nil {
					wrong++
					t.Errorf("%d %q: found %v, the library %q\n%.3000s", i, c.A, err, c.Error, p.Tokenizer)
				}
				continue
			}
			if err := c.Answer.differs(e); err != nil {
				wrong++
				t.Errorf("%d %q: %v\n%.3000s", i, c.A, err, p.Tokenizer)
			}
			if c.Decoded == nil {
				continue
			}
			for skip, want := range map[bool]string{false: c.Decoded.Text, true: c.Decoded.Skip} {
				if got := k.Decode(c.Decoded.IDs, skip); got != want {
					wrong++
					t.Errorf("%d: %v (%v) is decoded as %q, by the library as %q\n%.3000s", i, c.Decoded.IDs, skip, got, want, p.Tokenizer)
				}
			}
			if got, want := stream(k, c.Decoded.IDs), k.Decode(c.Decoded.IDs, false); got != want && !strings.Contains(want, "\uFFFD") {
				wrong++
				t.Errorf("%d: %v is decoded one by one as %q, at once as %q\n%.3000s", i, c.Decoded.IDs, got, want, p.Tokenizer)
			}
		}
	}
}

// stream decodes tokens one by one.
func stream(k *Tokenizer, ids []int64) string {
	var b strings.Builder
	d := k.NewDecoder(false)
	for _, id := range ids {
		b.WriteString(d.Next(id))
	}
	return b.String() + d.Flush()
}
