package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// partsAnswer is what the tokenizers library answers to a text.
type partsAnswer struct {
	IDs     []int64  `json:"ids"`
	Tokens  []string `json:"tokens"`
	Offsets [][2]int `json:"offsets"`
	TypeIDs []int64  `json:"type_ids"`
	Mask    []int64  `json:"attention_mask"`
	Special []int64  `json:"special"`
	Words   []int    `json:"words"`
}

// differs returns what an encoding has other than the answer; "" if it is equal.
func (a *partsAnswer) differs(e *Encoding) string {
	offsets := make([][2]int, e.Len())
	for i, o := range e.Offsets {
		offsets[i] = [2]int{o.Start, o.End}
	}
	switch {
	case !slices.Equal(e.IDs, a.IDs):
		return "ids"
	case !slices.Equal(e.Tokens(), a.Tokens):
		return "tokens"
	case !slices.Equal(offsets, a.Offsets):
		return "offsets"
	case !slices.Equal(e.TypeIDs, a.TypeIDs):
		return "type ids"
	case !slices.Equal(e.AttentionMask, a.Mask):
		return "attention mask"
	case !slices.Equal(e.SpecialMask, a.Special):
		return "special mask"
	case !slices.Equal(e.Words, a.Words):
		return "words"
	}
	return ""
}

// partsCase is a small tokenizer with texts and answers, which testdata/parts/make.py has written.
type partsCase struct {
	Tokenizer json.RawMessage
	Cases     []struct {
		A         string
		B         *string
		NoSpecial bool `json:"no_special"`
		Error     string
		Answer    partsAnswer
		Decoded   *struct {
			IDs        []int64
			Text, Skip string
		}
	}
}

func parts(t testing.TB) []partsCase {
	t.Helper()
	f, err := os.Open("testdata/parts/parts.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []partsCase
	if err := json.NewDecoder(z).Decode(&all); err != nil || len(all) < 300 {
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
			if d := c.Answer.differs(e); d != "" {
				wrong++
				t.Errorf("%d %q: other %s:\n%v %q %v\n%v %q %v\n%.3000s", i, c.A, d, e.IDs, e.Tokens(), e.Offsets, c.Answer.IDs, c.Answer.Tokens, c.Answer.Offsets, p.Tokenizer)
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
