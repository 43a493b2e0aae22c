package normalize

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/chars"
)

func run(t *testing.T, raw, s string) (*aligned.Text, error) {
	t.Helper()
	n, err := Parse(json.RawMessage(raw), "normalizer")
	if err != nil {
		t.Fatal(err)
	}
	var text aligned.Text
	text.Reset(s, 0)
	return &text, n.Worker().Normalize(context.Background(), &text)
}

// TestRefused checks that each fault of a part is named.
func TestRefused(t *testing.T) {
	deep := strings.Repeat(`{"type":"Sequence","normalizers":[`, 20) + strings.Repeat(`]}`, 20)
	many := `{"type":"Sequence","normalizers":[` + strings.Repeat(`{"type":"NFC"},`, 300) + `{"type":"NFC"}]}`
	patterns := `{"type":"Sequence","normalizers":[` +
		strings.Repeat(`{"type":"Replace","pattern":{"Regex":"(a{30}|b{30}){30}"},"content":""},`, 200) + `{"type":"NFC"}]}`
	for raw, want := range map[string]string{
		`[]`:                                 `normalizer: expected an object, found []`,
		`{"type":"Upper"}`:                   `normalizer: type "Upper" is not supported`,
		`{"type":"NFC","form":1}`:            `normalizer.NFC: key "form" is not supported`,
		`{"type":"Strip","strip_left":true}`: `normalizer.Strip.strip_right: expected a value, found none`,
		`{"type":"Prepend","prepend":3}`:     `normalizer.Prepend.prepend: expected a string, found 3`,
		`{"type":"Replace","content":"x","pattern":"a"}`:               `normalizer.Replace.pattern: expected {"String": …} or {"Regex": …}, found "a"`,
		`{"type":"Replace","content":"x","pattern":{"Regex":"(a"}}`:    `normalizer.Replace.pattern: regular expression "(a"`,
		`{"type":"Sequence","normalizers":[{"type":"NFC"},{"a":1}]}`:   `normalizer.normalizers[1]: type "" is not supported`,
		`{"type":"Precompiled","precompiled_charsmap":"?"}`:            `normalizer.Precompiled.precompiled_charsmap: expected base64`,
		`{"type":"Precompiled","precompiled_charsmap":"AAA="}`:         `expected at least 4 bytes, found 2`,
		`{"type":"Precompiled","precompiled_charsmap":"/////wAAAAA="}`: `expected a trie of 1 to 1 units, found 1073741823`,
		deep:     "expected at most 16 sequences in each other",
		many:     "expected at most 256 normalizers",
		patterns: "too large",
	} {
		if _, err := Parse(json.RawMessage(raw), "normalizer"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: found %v, expected %s", raw, err, want)
		}
	}
}

// TestGrowth checks that normalizers that double a text again and again end with an error.
func TestGrowth(t *testing.T) {
	raw := `{"type":"Sequence","normalizers":[` + strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aa"},`, 100) +
		`{"type":"NFC"}]}`
	text, err := run(t, raw, strings.Repeat("a", 1000))
	if err == nil || !strings.Contains(err.Error(), "expected at most") || text.Len() != 0 {
		t.Errorf("%d bytes, %v", text.Len(), err)
	}
}

// TestInvalid checks what becomes of bytes that are not UTF-8: they are U+FFFD to rules, and stay as they are otherwise.
func TestInvalid(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"NFC"}`:          "a\xffé\xc3",
		`{"type":"NFKD"}`:         "a\xffe\u0301\xc3",
		`{"type":"Lowercase"}`:    "a\xffe\u0301\xc3",
		`{"type":"StripAccents"}`: "a\xffe\xc3",
		`{"type":"Nmt"}`:          "a e\u0301 ",
		`{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"lowercase":true}`:  "ae",
		`{"type":"BertNormalizer","clean_text":false,"handle_chinese_chars":true,"lowercase":true}`: "a\xffe\xc3",
		`{"type":"ByteLevel"}`: "aÿeÌģÃ",
	} {
		text, err := run(t, raw, "a\xffe\u0301\xc3")
		if err != nil || text.String() != want {
			t.Errorf("%s: found %q, %v, expected %q", raw, text.String(), err, want)
		}
	}
}

// TestCanceled checks that the context's error comes back.
func TestCanceled(t *testing.T) {
	n, err := Parse(json.RawMessage(`{"type":"NFC"}`), "normalizer")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var text aligned.Text
	text.Reset("a", 0)
	if err := n.Worker().Normalize(ctx, &text); err != context.Canceled {
		t.Errorf("found %v", err)
	}
}

// TestAllocations checks that a worker that has seen a text normalizes it without allocating.
func TestAllocations(t *testing.T) {
	s := strings.Repeat("Déjà vu, ﬁne “quotes” 漢字 İ \u200b ½ ", 20)
	for _, raw := range []string{
		`{"type":"NFC"}`, `{"type":"NFKC"}`, `{"type":"Lowercase"}`, `{"type":"StripAccents"}`, `{"type":"Prepend","prepend":"▁"}`,
		`{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"lowercase":true}`,
		`{"type":"Replace","pattern":{"String":" "},"content":"▁"}`, `{"type":"ByteLevel"}`,
	} {
		n, err := Parse(json.RawMessage(raw), "normalizer")
		if err != nil {
			t.Fatal(err)
		}
		w := n.Worker()
		var text aligned.Text
		got := testing.AllocsPerRun(20, func() {
			text.Reset(s, 0)
			if err := w.Normalize(context.Background(), &text); err != nil {
				t.Fatal(err)
			}
		})
		if got > 0 {
			t.Errorf("%s: %v allocations", raw, got)
		}
	}
}

// TestClusters checks rules of grapheme clusters that the library's answers to single characters do not show.
func TestClusters(t *testing.T) {
	k := chars.Load()
	for _, one := range []string{"e\u0301", "\r\n", "👩\u200d👩\u200d👧", "क\u094dष", "क\u094d\u200dष", "각\u11a8", "ᄀ가", "\u0600a", "a\u200d"} {
		if got := cluster(k, one+"b"); got != len(one) {
			t.Errorf("%+q: the first cluster has %d bytes, expected %d", one, got, len(one))
		}
	}
	for i, two := range []string{"ab", "\na", "a\u200d👩", "कष", "\u200b\u0301", "가가"} {
		size := len(string([]rune(two)[:1]))
		if i == 2 {
			size = len("a\u200d")
		}
		if got := cluster(k, two); got != size {
			t.Errorf("%+q: the first cluster has %d bytes, expected %d", two, got, size)
		}
	}
}

func ExampleNormalizer() {
	n, _ := Parse(json.RawMessage(`{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"}]}`), "normalizer")
	var text aligned.Text
	text.Reset("Ａｂ ﬃ", 0)
	_ = n.Worker().Normalize(context.Background(), &text)
	fmt.Println(text.String(), text.Span(3, 6))
	// Output: ab ffi {7 10}
}
