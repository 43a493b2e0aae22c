package data

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/tokenizer"
	"github.com/essmc/essmc/internal/faults"
)

// TestFaults lets each operation on files fail in turn: readers report an error that names a file, or read all the same.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{
		"m/t10k-images-idx3-ubyte.gz": compressed(idx(8, "\x01\x02", 2, 1, 1)), "m/t10k-labels-idx1-ubyte": idx(8, "\x01\x02", 2),
		"c/test_batch.bin": strings.Repeat("\x01", 3073), "c/batches.meta.txt": "a b c d e f g h i j",
		"table.csv": "a,b\n1,2\n", "x.ts": "@classLabel true a\n@data\n1,2:a\n", "t/pos/1.txt": "abc", "t/neg/1.txt": "de"})
	for name, read := range map[string]func() (Dataset, error){
		"MNIST": func() (Dataset, error) { return MNIST(t.Context(), filepath.Join(dir, "m"), "test") },
		"CIFAR": func() (Dataset, error) { return CIFAR10(t.Context(), filepath.Join(dir, "c"), "test", CIFAROptions{}) },
		"table": func() (Dataset, error) {
			return Table(t.Context(), filepath.Join(dir, "table.csv"), TableOptions{Label: "b"})
		},
		"series": func() (Dataset, error) { return Series(t.Context(), filepath.Join(dir, "x.ts"), SeriesOptions{}) },
		"texts":  func() (Dataset, error) { return Texts(t.Context(), filepath.Join(dir, "t"), nil, TextOptions{}) },
	} {
		content := func() (text string, err error) {
			set, err := read()
			if err != nil {
				return "", err
			}
			for i := range set.Len() {
				s, err := set.Sample(t.Context(), i)
				if err != nil {
					return "", err
				}
				text += fmt.Sprintf("%v %v %v\n", s.Inputs[0], s.Target, set.Spec().Classes)
			}
			return text, nil
		}
		want, err := content()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range faults.Reading {
			n := m.Count(func() { content() })
			if n == 0 {
				t.Errorf("%s, %s: no operation can fail", name, m.Name)
			}
			for k := range n {
				var got string
				var err error
				op, at := m.At(k, func() { got, err = content() })
				switch {
				case err == nil && got != want:
					t.Errorf("%s, %s, operation %d (%s %s): another content, and no error", name, m.Name, k, op, at)
				case err != nil && (m.Whole || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n")):
					t.Errorf("%s, %s, operation %d (%s %s): error %v", name, m.Name, k, op, at, err)
				}
			}
		}
	}
}

// TestTokenized reads texts by a tokenizer of words.
func TestTokenized(t *testing.T) {
	tok, err := tokenizer.Parse([]byte(`{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [
		{"id": 0, "content": "[PAD]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
		"normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
		"model": {"type": "WordLevel", "vocab": {"[PAD]": 0, "a": 1, "bee": 2, "?": 3}, "unk_token": "?"}}`), "words")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, dir, map[string]string{"x.tsv": "l\tt\n1\ta bee a\n0\tnone bee\n"})
	set, err := Table(t.Context(), filepath.Join(dir, "x.tsv"), TableOptions{Label: "l", Text: "t", Encode: Tokenized{tok}})
	expect(t, "words", set, err, "[1 2 1] [3] [1] [3 2] [2] [0]")
	if n := set.Spec().Tokens; n != 4 {
		t.Errorf("%d tokens, expected 4", n)
	}
}

// TestTableMemory measures the memory that tables take: in proportion to the file, also with one digit or no text in a field.
func TestTableMemory(t *testing.T) {
	const n = 1 << 20
	for name, c := range map[string]struct {
		text string
		o    TableOptions
		most int // bytes for each byte of the file
	}{
		"wide rows":    {strings.Repeat(strings.Repeat("1,", 1000)+"1\n", n/2002), TableOptions{Label: "0", NoHeader: true}, 24},
		"narrow rows":  {strings.Repeat("1,1\n", n/4), TableOptions{Label: "0", NoHeader: true}, 64},
		"text":         {strings.Repeat("1,"+strings.Repeat("a", 1000)+"\n", n/1003), TableOptions{Label: "0", Text: "1", NoHeader: true}, 80},
		"many classes": {names(n / 10), TableOptions{Label: "0", NoHeader: true}, 96},
		"empty fields": {strings.Repeat(",", n-1), TableOptions{Label: "0", NoHeader: true}, 64},
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, err := readTable(t.Context(), []byte(c.text), c.o)
		runtime.ReadMemStats(&after)
		used := int64(after.TotalAlloc - before.TotalAlloc)
		t.Logf("%s: %.1f bytes for each of the file, %v", name, float64(used)/float64(len(c.text)), err)
		if used > int64(c.most)*int64(len(c.text)) {
			t.Errorf("%s: %d bytes allocated for %d", name, used, len(c.text))
		}
	}
}

// names is a table of n classes.
func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%07d,1\n", i)
	}
	return b.String()
}
