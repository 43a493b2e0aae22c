// Package tokenizer turns text into the tokens of language models, and tokens into text. It reads the tokenizer.json
// that Hugging Face's tokenizers library writes, and gives the ids, offsets and texts that the library gives (version
// 0.23).
//
//	tok, err := tokenizer.ReadDir("model")
//	batch, err := tok.Encode(ctx, []string{"a text", "another one"}, tokenizer.Options{})
//	inputs, err := batch.Tensors()
//	text := tok.Decode(batch.Encodings[0].IDs, true)
//
// Offsets are bytes of the text as given. Each byte that is not UTF-8 is read as U+FFFD, with an offset of one byte.
// Classes of characters follow the versions of Unicode that the library follows, not those of Go (internal/chars).
//
// ReadDir also reads tokenizer_config.json, and uses it as transformers 5 does: add_bos_token and add_eos_token are
// ignored, since the post-processor of tokenizer.json says which tokens are added; clean_up_tokenization_spaces has
// Decode take spaces off before punctuation, except with BPE. Classes of transformers that replace parts of
// tokenizer.json by their own, such as LlamaTokenizer, are not imitated.
//
// Files are untrusted: reading one takes at most 16 MiB and 8 times its size of memory, and a key or a type that is not
// known is an error that names it, since tokens that are nearly right are wrong. Encoding takes n log n of the text,
// whatever the added tokens are; a model that looks for entries in the text multiplies that by the length of the
// longest one.
package tokenizer

import (
	"slices"
	"sync"

	"github.com/essmc/essmc/frontend/tokenizer/internal/decode"
	"github.com/essmc/essmc/frontend/tokenizer/internal/model"
	"github.com/essmc/essmc/frontend/tokenizer/internal/normalize"
	"github.com/essmc/essmc/frontend/tokenizer/internal/pretokenize"
	"github.com/essmc/essmc/frontend/tokenizer/internal/process"
)

// Names of the files in a model directory.
const (
	FileName        = "tokenizer.json"
	ConfigName      = "tokenizer_config.json"
	SpecialMapName  = "special_tokens_map.json"
	maxConfig       = 4 << 20
	maxSpecialNames = 64
)

// Tokenizer turns text into tokens and back. It is immutable, and safe for concurrent use.
type Tokenizer struct {
	model      model.Model
	normalizer *normalize.Normalizer
	pre        *pretokenize.PreTokenizer
	processor  *process.Processor
	decoder    *decode.Decoder

	added           []addedToken // by id
	byContent       []int32      // places in added, by content
	raw, normalized matcher

	fileTruncation *Truncation
	filePadding    *Padding
	config         Config

	workers sync.Pool // of *worker
}

// Tokens returns one more than the largest token: the smallest number of logits of a model that fits.
func (t *Tokenizer) Tokens() int64 {
	_, most := t.model.Size()
	if n := len(t.added); n > 0 {
		most = max(most, int(t.added[n-1].id)+1)
	}
	return int64(most)
}

// ID returns the token with the given text, as the vocabulary writes it; false if there is none.
func (t *Tokenizer) ID(text string) (int64, bool) {
	if i, ok := t.addedByContent(text); ok {
		return int64(t.added[i].id), true
	}
	id, ok := t.model.Lookup(text)
	return int64(id), ok
}

// Token returns the text of a token, as the vocabulary writes it; false if there is none.
func (t *Tokenizer) Token(id int64) (string, bool) {
	if id < 0 || id >= model.MaxTokens {
		return "", false
	}
	if k := t.addedByID(uint32(id)); k != nil {
		return k.pattern, true
	}
	return t.model.Text(uint32(id))
}

// shown returns the text that an encoding has for a token: the model's comes first there.
func (t *Tokenizer) shown(id uint32) string {
	if s, ok := t.model.Text(id); ok {
		return s
	}
	s, _ := t.Token(int64(id))
	return s
}

// Special reports whether a token is special: decoding can leave it out.
func (t *Tokenizer) Special(id int64) bool {
	if id < 0 || id >= model.MaxTokens {
		return false
	}
	k := t.addedByID(uint32(id))
	return k != nil && k.skip
}

// Truncation returns the truncation that the file states; nil if there is none.
func (t *Tokenizer) Truncation() *Truncation { return clone(t.fileTruncation) }

// Padding returns the padding that the file states; nil if there is none.
func (t *Tokenizer) Padding() *Padding { return clone(t.filePadding) }

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// padding returns what tensors of texts of different lengths are padded with.
func (t *Tokenizer) padding() Padding {
	if t.filePadding != nil {
		return Padding{ID: t.filePadding.ID, TypeID: t.filePadding.TypeID, Token: t.filePadding.Token,
			Left: t.filePadding.Left}
	}
	p := Padding{Left: t.config.PadLeft}
	names := []string{"[PAD]", "<pad>"}
	if t.config.PadToken != "" {
		names = slices.Insert(names, 0, t.config.PadToken)
	}
	for _, name := range names {
		if id, ok := t.ID(name); ok {
			p.ID, p.Token = id, name
			break
		}
	}
	return p
}
