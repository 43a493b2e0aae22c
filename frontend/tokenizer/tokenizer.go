// Package tokenizer reads tokenizer.json of model hubs, and turns text into tokens and tokens into text: by byte-level byte
// pair encoding, as GPT-2, GPT-NeoX and Mamba have it.
//
// It imports internal/files, internal/lfs and golang.org/x/text (for normal forms) only. A file that asks for anything else,
// such as another way to divide text, is refused with the part of it, since tokens that are nearly right are wrong. Text of
// any bytes becomes tokens, and these become the same bytes; a normal form may change the text before. Encoding takes time
// in proportion to n log n.
package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
)

// FileName is the name of the file in a model directory.
const FileName = "tokenizer.json"

// Limits of a file.
const (
	MaxFile   = 64 << 20
	MaxTokens = 1 << 24
)

// Tokenizer turns text into tokens and back. It is safe for concurrent use.
type Tokenizer struct {
	ids    map[string]int64 // of the vocabulary, in bytes
	text   map[int64]string // of all tokens, in bytes
	ranks  map[[2]string]int
	added  []added // the longest first
	first  [256]bool
	nfc    bool
	prefix bool // a space is put before text
	whole  bool // text is not divided into words
	most   int64
}

// added is a token that is found in the text itself.
type added struct {
	text string
	id   int64
}

// ReadFile reads a tokenizer.json.
func ReadFile(path string) (*Tokenizer, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}
	return Parse(b, path)
}

// file is what the format says, as far as it is read.
type file struct {
	AddedTokens []struct {
		ID         int64  `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		Lstrip     bool   `json:"lstrip"`
		Rstrip     bool   `json:"rstrip"`
	} `json:"added_tokens"`
	Normalizer    *part `json:"normalizer"`
	PreTokenizer  *part `json:"pre_tokenizer"`
	PostProcessor *part `json:"post_processor"`
	Decoder       *part `json:"decoder"`
	Model         *struct {
		Type                    string           `json:"type"`
		Dropout                 *float64         `json:"dropout"`
		ContinuingSubwordPrefix *string          `json:"continuing_subword_prefix"`
		EndOfWordSuffix         *string          `json:"end_of_word_suffix"`
		ByteFallback            bool             `json:"byte_fallback"`
		IgnoreMerges            bool             `json:"ignore_merges"`
		Vocab                   map[string]int64 `json:"vocab"`
		Merges                  []json.RawMessage
	} `json:"model"`
}

// part is a normalizer, a pre-tokenizer, a post-processor or a decoder.
type part struct {
	Type           string `json:"type"`
	AddPrefixSpace *bool  `json:"add_prefix_space"`
	UseRegex       *bool  `json:"use_regex"`
	Normalizers    []part `json:"normalizers"`
	Pretokenizers  []part `json:"pretokenizers"`
	Processors     []part `json:"processors"`
	Decoders       []part `json:"decoders"`
}

// all returns the parts of a sequence, or the part itself.
func (p *part) all() []part {
	switch {
	case p == nil:
		return nil
	case p.Type == "Sequence":
		return slices.Concat(p.Normalizers, p.Pretokenizers, p.Processors, p.Decoders)
	}
	return []part{*p}
}

// Parse reads a tokenizer.json from memory. Errors begin with name.
func Parse(b []byte, name string) (*Tokenizer, error) {
	t, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

func parse(b []byte) (*Tokenizer, error) {
	if len(b) > MaxFile {
		return nil, fmt.Errorf("expected at most %d bytes, found more", MaxFile)
	}
	if err := lfs.Check(b); err != nil {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), &f); err != nil {
		return nil, fmt.Errorf("expected an object of JSON: %w", err)
	}
	t := &Tokenizer{ids: map[string]int64{}, text: map[int64]string{}, ranks: map[[2]string]int{}}
	if err := t.parts(&f); err != nil {
		return nil, err
	}
	if err := t.model(&f); err != nil {
		return nil, err
	}
	for _, a := range f.AddedTokens {
		if a.SingleWord || a.Lstrip || a.Rstrip {
			return nil, fmt.Errorf("added_tokens: %q: expected one that takes no space around it (single_word, lstrip, rstrip)", a.Content)
		}
		if a.Content == "" {
			return nil, fmt.Errorf("added_tokens: token %d is empty", a.ID)
		}
		if err := t.add(a.ID, a.Content); err != nil {
			return nil, fmt.Errorf("added_tokens: %w", err)
		}
		t.added = append(t.added, added{a.Content, a.ID})
		t.first[a.Content[0]] = true
	}
	slices.SortStableFunc(t.added, func(a, b added) int { return cmp.Compare(len(b.text), len(a.text)) })
	return t, nil
}

// parts reads everything but the model.
func (t *Tokenizer) parts(f *file) error {
	for _, p := range f.Normalizer.all() {
		if p.Type != "NFC" {
			return fmt.Errorf("normalizer: expected NFC or none, found %q", p.Type)
		}
		t.nfc = true
	}
	before := f.PreTokenizer.all()
	if len(before) != 1 || before[0].Type != "ByteLevel" {
		return fmt.Errorf("pre_tokenizer: expected ByteLevel, found %q", kinds(before))
	}
	t.prefix = before[0].AddPrefixSpace == nil || *before[0].AddPrefixSpace
	t.whole = before[0].UseRegex != nil && !*before[0].UseRegex
	for _, p := range f.PostProcessor.all() {
		if p.Type != "ByteLevel" {
			return fmt.Errorf("post_processor: expected ByteLevel or none, found %q", p.Type)
		}
	}
	for _, p := range f.Decoder.all() {
		if p.Type != "ByteLevel" {
			return fmt.Errorf("decoder: expected ByteLevel, found %q", p.Type)
		}
	}
	return nil
}

func kinds(parts []part) string {
	var all []string
	for _, p := range parts {
		all = append(all, p.Type)
	}
	return strings.Join(all, ", ")
}

// model reads vocabulary and merges.
func (t *Tokenizer) model(f *file) error {
	m := f.Model
	if m == nil || m.Type != "BPE" && m.Type != "" {
		found := "none"
		if m != nil {
			found = m.Type
		}
		return fmt.Errorf("model.type: expected BPE, found %s", found)
	}
	set := func(s *string) bool { return s != nil && *s != "" }
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("model.dropout: expected none, found %v", *m.Dropout)
	case set(m.ContinuingSubwordPrefix) || set(m.EndOfWordSuffix):
		return fmt.Errorf("model: expected byte-level tokens, found a prefix or a suffix of words")
	case m.ByteFallback:
		return fmt.Errorf("model.byte_fallback: expected false, found true")
	case m.IgnoreMerges:
		return fmt.Errorf("model.ignore_merges: expected false, found true")
	case len(m.Vocab) == 0:
		return fmt.Errorf("model.vocab: expected tokens, found none")
	}
	for _, s := range slices.Sorted(maps.Keys(m.Vocab)) {
		id := m.Vocab[s]
		b, ok := raw(s)
		if !ok {
			b = s // a token that the text never has, but an added one may
		}
		if err := t.add(id, b); err != nil {
			return fmt.Errorf("model.vocab: %q: %w", s, err)
		}
		if ok {
			t.ids[b] = id
		}
	}
	for i := range 256 {
		if _, ok := t.ids[string([]byte{byte(i)})]; !ok {
			return fmt.Errorf("model.vocab: expected a token for each byte, found none for %#02x (%q)", i, string(shown[i]))
		}
	}
	for i, text := range m.Merges {
		var pair []string
		var line string
		if json.Unmarshal(text, &line) == nil {
			pair = strings.Split(line, " ")
		} else if err := json.Unmarshal(text, &pair); err != nil {
			return fmt.Errorf("model.merges: %d: %w", i, err)
		}
		if len(pair) != 2 {
			return fmt.Errorf("model.merges: %d: expected two tokens, found %d", i, len(pair))
		}
		a, okA := raw(pair[0])
		b, okB := raw(pair[1])
		_, okAll := t.ids[a+b]
		if !okA || !okB || !okAll {
			return fmt.Errorf("model.merges: %d: %q and %q: expected bytes whose union is in the vocabulary", i, pair[0], pair[1])
		}
		if _, twice := t.ranks[[2]string{a, b}]; !twice {
			t.ranks[[2]string{a, b}] = i
		}
	}
	return nil
}

// add notes the bytes of a token.
func (t *Tokenizer) add(id int64, b string) error {
	if id < 0 || id >= MaxTokens {
		return fmt.Errorf("expected a token from 0 to %d, found %d", MaxTokens-1, id)
	}
	if old, ok := t.text[id]; ok && old != b {
		return fmt.Errorf("token %d is also %q", id, old)
	}
	t.text[id] = b
	t.most = max(t.most, id+1)
	return nil
}

// Tokens returns one more than the largest token: the least number of logits of a model that fits.
func (t *Tokenizer) Tokens() int64 { return t.most }

// ID returns the token with the given text; false if there is none.
func (t *Tokenizer) ID(text string) (int64, bool) {
	for _, a := range t.added {
		if a.text == text {
			return a.id, true
		}
	}
	id, ok := t.ids[text]
	return id, ok
}

// Encode returns the tokens of a text.
func (t *Tokenizer) Encode(text string) []int64 {
	var out []int64
	if t.nfc {
		text = norm.NFC.String(text)
	}
	from := 0
	for at := 0; at < len(text); {
		a, ok := t.addedAt(text[at:])
		if !ok {
			at++
			continue
		}
		out = t.encode(out, text[from:at])
		out = append(out, a.id)
		at += len(a.text)
		from = at
	}
	return t.encode(out, text[from:])
}

// addedAt returns the longest added token that the text begins with.
func (t *Tokenizer) addedAt(text string) (added, bool) {
	if !t.first[text[0]] {
		return added{}, false
	}
	for _, a := range t.added {
		if strings.HasPrefix(text, a.text) {
			return a, true
		}
	}
	return added{}, false
}

// encode appends the tokens of a text without added ones.
func (t *Tokenizer) encode(out []int64, text string) []int64 {
	if text == "" {
		return out
	}
	if t.prefix && text[0] != ' ' {
		text = " " + text
	}
	for text != "" {
		n := len(text)
		if !t.whole {
			n = word(text)
		}
		out = t.merge(out, text[:n])
		text = text[n:]
	}
	return out
}

// Decode returns the bytes of tokens. Unknown tokens are errors.
func (t *Tokenizer) Decode(tokens []int64) (string, error) {
	var b strings.Builder
	for _, k := range tokens {
		s, ok := t.text[k]
		if !ok {
			return "", fmt.Errorf("token %d is not in the vocabulary", k)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}
