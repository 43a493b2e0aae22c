package pretokenize

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
)

func splitter(t *testing.T, raw string, bytes bool) *Splitter {
	t.Helper()
	p, err := Parse(json.RawMessage(raw), "pre_tokenizer")
	if err != nil {
		t.Fatal(err)
	}
	return p.Splitter(bytes)
}

func pieces(s *Splitter) (all []string) {
	for _, p := range s.Pieces {
		all = append(all, s.Text.String()[p.From:p.To])
	}
	return all
}

// TestRefused checks that each fault of a part is named.
func TestRefused(t *testing.T) {
	for raw, want := range map[string]string{
		`3`:                `pre_tokenizer: expected an object, found 3`,
		`{"type":"Words"}`: `pre_tokenizer: type "Words" is not supported`,
		`{"type":"Digits"`: `pre_tokenizer: expected an object`,
		`{"type":"Split"}`: `pre_tokenizer.Split.pattern: expected a value, found none`,
		`{"type":"Digits","individual_digits":1}`:                                                  `individual_digits: expected true or false, found 1`,
		`{"type":"FixedLength","length":0}`:                                                        `length: expected at least 1, found 0`,
		`{"type":"CharDelimiterSplit","delimiter":"ab"}`:                                           `delimiter: expected one character, found "ab"`,
		`{"type":"Punctuation","behavior":"Kept"}`:                                                 `behavior: expected Removed, Isolated, Contiguous`,
		`{"type":"Metaspace","replacement":"▁","prepend_scheme":"last"}`:                           `prepend_scheme: expected always, first, never, found "last"`,
		`{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","add_prefix_space":false}`: `add_prefix_space: expected true with prepend_scheme "first"`,
		`{"type":"Split","pattern":{"Regex":"(a)\\1"},"behavior":"Isolated","invert":false}`:       `pre_tokenizer.Split.pattern: regular expression`,
		`{"type":"Sequence","pretokenizers":[{"type":"Whitespace","x":1}]}`:                        `pretokenizers[0].Whitespace: key "x" is not supported`,
	} {
		if _, err := Parse(json.RawMessage(raw), "pre_tokenizer"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found %v, expected %s", raw, err, want)
		}
	}
}

// TestBytes checks that pieces of ByteLevel are bytes where they may be, also those that are not UTF-8, and that another
// pre-tokenizer behind it sees characters.
func TestBytes(t *testing.T) {
	const level = `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true}`
	ctx := context.Background()
	var text aligned.Text
	text.Reset("é a\xff", 0)
	for _, one := range []struct {
		raw   string
		bytes bool
		want  []string
	}{
		{level, true, []string{" é", " a", "\xff"}},
		{level, false, []string{"ĠÃ©", "Ġa", "ÿ"}},
		{`{"type":"Sequence","pretokenizers":[` + level + `,{"type":"CharDelimiterSplit","delimiter":"Ġ"}]}`, true, []string{"Ã©", "a", "ÿ"}},
	} {
		s := splitter(t, one.raw, one.bytes)
		if err := s.Split(ctx, &text); err != nil || !slices.Equal(pieces(s), one.want) {
			t.Errorf("%s: found %q, %v, expected %q", one.raw, pieces(s), err, one.want)
		}
	}
}

// TestGrowth checks that pre-tokenizers that add a character to each of ever more pieces end with an error.
func TestGrowth(t *testing.T) {
	step := `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":false},{"type":"FixedLength","length":1},`
	s := splitter(t, `{"type":"Sequence","pretokenizers":[`+strings.Repeat(step, 40)+`{"type":"Whitespace"}]}`, true)
	var text aligned.Text
	text.Reset(strings.Repeat("a", 1000), 0)
	if err := s.Split(context.Background(), &text); err == nil || !strings.Contains(err.Error(), "expected at most") {
		t.Errorf("%d pieces, %v", len(s.Pieces), err)
	}
}

// TestCanceled checks that the context's error comes back.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var text aligned.Text
	text.Reset("a b", 0)
	if err := splitter(t, `{"type":"Whitespace"}`, true).Split(ctx, &text); !errors.Is(err, context.Canceled) {
		t.Errorf("found %v", err)
	}
}

// TestAllocations checks that a splitter that has seen a text divides it without allocating.
func TestAllocations(t *testing.T) {
	line := strings.Repeat("It's a déjà vu, 漢字 ½ ok!  ", 20)
	for _, raw := range []string{
		`{"type":"BertPreTokenizer"}`, `{"type":"Whitespace"}`, `{"type":"UnicodeScripts"}`, `{"type":"Digits","individual_digits":true}`,
		`{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true}`, `{"type":"Punctuation","behavior":"MergedWithNext"}`,
		`{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁","add_prefix_space":true}]}`,
	} {
		s := splitter(t, raw, true)
		var text aligned.Text
		n := testing.AllocsPerRun(20, func() {
			text.Reset(line, 0)
			if err := s.Split(context.Background(), &text); err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 || len(s.Pieces) < 20 {
			t.Errorf("%s: %v allocations for %d pieces", raw, n, len(s.Pieces))
		}
	}
}
