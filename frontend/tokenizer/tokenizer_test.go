package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/essmc/essmc/internal/worktime"
)

func load(t testing.TB) (*Tokenizer, []byte) {
	t.Helper()
	b, err := os.ReadFile("testdata/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	k, err := Parse(b, "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	return k, b
}

// ids returns the tokens of a text.
func ids(t testing.TB, k *Tokenizer, text string) []int64 {
	t.Helper()
	e, err := k.EncodeText(t.Context(), text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e.IDs
}

// TestCases compares tokens with those of Hugging Face's tokenizers 0.23.3, which also trained the file.
func TestCases(t *testing.T) {
	k, _ := load(t)
	b, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Text string
		IDs  []int64
	}
	if err := json.Unmarshal(b, &cases); err != nil || len(cases) < 100 {
		t.Fatal(err, len(cases))
	}
	for _, c := range cases {
		got := ids(t, k, c.Text)
		if !slices.Equal(got, c.IDs) {
			t.Errorf("%q:\n got %v\nwant %v", c.Text, got, c.IDs)
		}
		if back := k.Decode(got, false); back != norm.NFC.String(c.Text) {
			t.Errorf("%q: decoded as %q", c.Text, back)
		}
	}
	if k.Tokens() != 422 {
		t.Errorf("%d tokens", k.Tokens())
	}
	if id, ok := k.ID("<|endoftext|>"); !ok || id != 0 {
		t.Errorf("<|endoftext|> is %d, %v", id, ok)
	}
	if s := k.Decode([]int64{422, -1, 1 << 40}, false); s != "" {
		t.Errorf("tokens that do not exist are decoded as %q", s)
	}
}

// TestLong checks that a word of 600 thousand characters takes seconds at most.
func TestLong(t *testing.T) {
	k, _ := load(t)
	start := worktime.Now()
	if n := len(ids(t, k, strings.Repeat("quick", 1<<17))); n < 1<<17 {
		t.Errorf("%d tokens", n)
	}
	if d := worktime.Now() - start; d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}

// TestRefused checks that a file is refused by the part at fault.
func TestRefused(t *testing.T) {
	_, b := load(t)
	for change, want := range map[string]string{
		`"type":"NFC" => "type":"Nfc"`:                                             `t: normalizer: type "Nfc" is not supported`,
		`"type":"NFC" => "type":"NFC","form":1`:                                    `t: normalizer.NFC: key "form" is not supported`,
		`"pre_tokenizer":{"type":"ByteLevel" => "pre_tokenizer":{"type":"Bytes"`:   `t: pre_tokenizer: type "Bytes" is not supported`,
		`"post_processor":{"type":"ByteLevel" => "post_processor":{"type":"Bytes"`: `t: post_processor: type "Bytes" is not supported`,
		`"decoder":{"type":"ByteLevel" => "decoder":{"type":"Bytes"`:               `t: decoder: type "Bytes" is not supported`,
		`"type":"BPE" => "type":"Bigram"`:                                          `t: model: type: expected BPE, WordPiece, WordLevel or Unigram, found "Bigram"`,
		`"type":"BPE" => "type":"BPE","typ":1`:                                     `t: model: key "typ" is not supported`,
		`"type":"BPE" => "type":"Unigram"`:                                         "t: model: vocab: expected an array, found an object",
		`"byte_fallback":false => "byte_fallback":1`:                               "t: model: byte_fallback: expected true or false, found a number",
		`"dropout":null => "dropout":0.5`:                                          "t: model: dropout: expected null or 0, found 0.5",
		`"single_word":false => "single_word":0`:                                   "t: added_tokens: 0: single_word: expected true or false",
		`"single_word":false => "single":false`:                                    `t: added_tokens: 0: key "single" is not supported`,
		`"!":1 => "!":-1`:                                                          `t: model: vocab: "!": expected an integer from 0 to`,
		`"!":1 => "!":16777216`:                                                    `t: model: vocab: "!": expected an integer from 0 to 16777215, found 16777216`,
		`"merges":[ => "merges":["a b c",`:                                         "t: model: merges: 0: expected two tokens with a space between them",
		`"merges":[ => "merges":["q !",`:                                           `t: model: merges: 0: "q" and "!": expected two tokens whose union`,
		`"merges":[ => "merges":[["q"],`:                                           "t: model: merges: 0: expected two tokens, found 1",
		`"version":"1.0" => "version":"2.0"`:                                       `t: version: expected "1.0", found "2.0"`,
		`"version" => "ver"`:                                                       `t: key "ver" is not supported`,
		`"truncation":null => "truncation":{"max_length":4,"stride":5}`:            "t: truncation: Stride: expected at most the 4 tokens",
		`"truncation":null => "truncation":{"strategy":"All"}`:                     "t: truncation: strategy: expected one of",
		`"padding":null => "padding":{"strategy":{"Fixed":-1}}`:                    "t: padding: strategy: expected an integer",
		`{ => [`: "t: line 1, column",
	} {
		old, new, _ := strings.Cut(change, " => ")
		changed := strings.Replace(string(b), old, new, 1)
		if changed == string(b) {
			t.Errorf("%s: the file does not have it", old)
			continue
		}
		_, err := Parse([]byte(changed), "t")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "t: ") {
			t.Errorf("%s: found %v, expected %s", change, err, want)
		}
	}
}
