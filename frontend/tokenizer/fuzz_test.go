package tokenizer

import (
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// small returns some tokenizers of all kinds.
var small = sync.OnceValue(func() []partsCase {
	all := parts(&testing.T{})
	return all[:64]
})

// FuzzParse checks that any file is refused, or gives a tokenizer that keeps its promises.
func FuzzParse(f *testing.F) {
	_, b := load(f)
	f.Add(b, "The quick")
	for _, p := range small()[:16] {
		f.Add([]byte(p.Tokenizer), p.Cases[0].A)
	}
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		if k, err := Parse(file, "t"); err == nil {
			promises(t, k, text, text)
		}
	})
}

// FuzzEncode gives any texts to small tokenizers.
func FuzzEncode(f *testing.F) {
	f.Add(0, "a text", "\xff<s> ab")
	var all []*Tokenizer
	for i, p := range small() {
		k, err := Parse(p.Tokenizer, "t")
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, k)
		f.Add(i, p.Cases[0].A, p.Cases[1].A)
	}
	k, _ := load(f)
	all = append(all, k)
	f.Fuzz(func(t *testing.T, i int, first, second string) {
		promises(t, all[uint(i)%uint(len(all))], first, second)
	})
}

// promises checks what holds for each tokenizer and all texts.
func promises(t *testing.T, k *Tokenizer, first, second string) {
	e, err := k.EncodeText(t.Context(), first, Options{NoSpecialTokens: true, Padding: &Padding{Off: true}})
	if err != nil {
		return // a text without tokens
	}
	columns(t, e, first, second)
	checkDecoding(t, k, e.IDs)
	o := Options{Truncation: &Truncation{MaxLength: 8, Stride: 1, Overflow: true}, Padding: &Padding{MultipleOf: 4}}
	if e, err := k.EncodePair(t.Context(), first, second, o); err == nil {
		if e.Len()%4 != 0 {
			t.Fatalf("%d tokens", e.Len())
		}
		columns(t, e, first, second)
		for _, w := range e.Overflow {
			columns(t, w, first, second)
		}
	}
}

// columns checks the columns of an encoding.
func columns(t *testing.T, e *Encoding, texts ...string) {
	n := e.Len()
	if len(e.TypeIDs) != n || len(e.AttentionMask) != n || len(e.SpecialMask) != n || len(e.Offsets) != n || len(e.Words) != n ||
		len(e.Sequences) != n || len(e.Tokens()) != n {
		t.Fatalf("columns of other lengths than %d", n)
	}
	for i, o := range e.Offsets {
		limit := 0
		if s := e.Sequences[i]; s >= 0 {
			limit = len(texts[s])
		}
		if o.Start < 0 || o.Start > o.End || o.End > limit {
			t.Fatalf("token %d of %q is %v, not within %d bytes", i, texts, o, limit)
		}
	}
}

func checkDecoding(t *testing.T, k *Tokenizer, ids []int64) {
	whole := k.Decode(ids, false)
	if !utf8.ValidString(whole) {
		t.Fatalf("%v is decoded as %q", ids, whole)
	}
	var b strings.Builder
	d := k.NewDecoder(false)
	for _, id := range ids {
		s := d.Next(id)
		if !utf8.ValidString(s) {
			t.Fatalf("%v is decoded in parts such as %q", ids, s)
		}
		b.WriteString(s)
	}
	b.WriteString(d.Flush())
	if s := b.String(); s != whole && !strings.Contains(whole, "\uFFFD") {
		t.Fatalf("%v is decoded as %q, one by one as %q", ids, whole, s)
	}
}
