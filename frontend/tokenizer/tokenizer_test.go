package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/unicode/norm"
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

// TestCases holds tokens against those of Hugging Face's tokenizers 0.23.3, which also trained the file.
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
		got := k.Encode(c.Text)
		if !slices.Equal(got, c.IDs) {
			t.Errorf("%q:\n got %v\nwant %v", c.Text, got, c.IDs)
		}
		if back, err := k.Decode(got); err != nil || back != norm.NFC.String(c.Text) {
			t.Errorf("%q: decoded as %q, %v", c.Text, back, err)
		}
	}
	if k.Tokens() != 422 {
		t.Errorf("%d tokens", k.Tokens())
	}
	if id, ok := k.ID("<|endoftext|>"); !ok || id != 0 {
		t.Errorf("<|endoftext|> is %d, %v", id, ok)
	}
	if _, err := k.Decode([]int64{5, 422}); err == nil {
		t.Error("an unknown token is decoded")
	}
}

// TestLong holds that a word of a million characters takes seconds at most.
func TestLong(t *testing.T) {
	k, _ := load(t)
	start := time.Now()
	if n := len(k.Encode(strings.Repeat("quick", 1<<17))); n < 1<<17 {
		t.Errorf("%d tokens", n)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}

// TestRefused holds that a file that asks for more than byte-level encoding is refused by the part at fault.
func TestRefused(t *testing.T) {
	_, b := load(t)
	for change, want := range map[string]string{
		`"type":"NFC" => "type":"Lowercase"`:                                         `normalizer: expected NFC or none, found "Lowercase"`,
		`"pre_tokenizer":{"type":"ByteLevel" => "pre_tokenizer":{"type":"Metaspace"`: `pre_tokenizer: expected ByteLevel, found "Metaspace"`,
		`"type":"BPE" => "type":"Unigram"`:                                           "model.type: expected BPE, found Unigram",
		`"byte_fallback":false => "byte_fallback":true`:                              "model.byte_fallback: expected false",
		`"dropout":null => "dropout":0.5`:                                            "model.dropout: expected none, found 0.5",
		`"single_word":false => "single_word":true`:                                  "added_tokens: ",
		`"!":1 => "!":-1`: `expected a token from 0 to`,
		`"!":1 => "!":2`:  `token 2 is also`,
		`"!":1, => `:      "expected a token for each byte, found none for 0x21",
		`"post_processor":{"type":"ByteLevel" => "post_processor":{"type":"TemplateProcessing"`: "post_processor: expected ByteLevel or none",
		`"merges":[ => "merges":["a b c",`: "model.merges: 0: expected two tokens, found 3",
		`"merges":[ => "merges":["q !",`:   `model.merges: 0: "q" and "!": expected bytes whose union`,
		`{ => [`:                           "json",
	} {
		old, new, _ := strings.Cut(change, " => ")
		changed := strings.Replace(string(b), old, new, 1)
		if changed == string(b) {
			t.Errorf("%s: the file does not have it", old)
			continue
		}
		_, err := Parse([]byte(changed), "t")
		if err == nil || want != "json" && !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "t: ") {
			t.Errorf("%s: found %v, expected %s", change, err, want)
		}
	}
}

// FuzzParse checks that any file is refused or gives a tokenizer whose tokens become the same text.
func FuzzParse(f *testing.F) {
	_, b := load(f)
	f.Add(b, "The quick")
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"ByteLevel"}}`), "a")
	k, _ := load(f)
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		for _, k := range []*Tokenizer{k, parsed(file)} {
			if k == nil {
				continue
			}
			back, err := k.Decode(k.Encode(text))
			want := text
			if k.nfc {
				want = norm.NFC.String(text)
			}
			if err != nil || !k.prefix && back != want {
				t.Fatalf("%q becomes %q, %v", want, back, err)
			}
		}
	})
}

func parsed(b []byte) *Tokenizer {
	k, err := Parse(b, "t")
	if err != nil {
		return nil
	}
	return k
}
