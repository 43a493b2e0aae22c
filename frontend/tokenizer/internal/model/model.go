// Package model has the models of tokenizers: BPE, WordPiece, WordLevel and Unigram. A model turns a piece of text into
// tokens, as Hugging Face's tokenizers library does.
//
// It imports frontend/tokenizer/internal/jsontext and the standard library. Models are immutable, and safe for
// concurrent use; what changes is in a Scratch. Work is n log n in the length of a piece, times the length of the
// longest entry where a model looks for entries in the text (WordPiece, Unigram).
package model

import (
	"fmt"

	"github.com/essmc/essmc/frontend/tokenizer/internal/jsontext"
)

// Token is a token of a piece.
type Token struct {
	ID         uint32
	Start, End int32 // bytes of the piece
	Text       bool  // the token's text is that of the piece, not that of the vocabulary
}

// Model turns pieces of text into tokens.
type Model interface {
	// Tokenize appends the tokens of a piece, which is not empty. The piece is UTF-8; with bytes set it is any bytes,
	// each of which stands for a character as ByteLevel shows it, and starts and ends count these bytes. Only models
	// for which Bytes is true are given such pieces. An error is that the text has a part that the vocabulary has no
	// token for, or that the scratch's Check fails.
	Tokenize(out []Token, piece string, bytes bool, s *Scratch) ([]Token, error)
	// Bytes reports whether Tokenize takes pieces as bytes.
	Bytes() bool
	// Lookup returns the token with a text.
	Lookup(text string) (uint32, bool)
	// Text returns the text of a token.
	Text(id uint32) (string, bool)
	// Size returns the number of tokens, and one more than the largest of them.
	Size() (count, most int)
}

// Scratch is the memory that models use again from piece to piece. It is not safe for concurrent use.
type Scratch struct {
	Check func() error // called now and then in long pieces; its error ends the work

	ids, ends, ranks []uint32
	symbols          []symbol
	heap             []candidate
	nodes            []node
}

// checkEvery is the number of steps after which a long piece calls Check.
const checkEvery = 1 << 16

func (s *Scratch) check() error {
	if s.Check == nil {
		return nil
	}
	return s.Check()
}

// Parse reads a model.
func Parse(v jsontext.Value) (Model, error) {
	o, err := fields(v)
	if err != nil {
		return nil, err
	}
	kind, err := o.str("type", "")
	if err != nil {
		return nil, err
	}
	if kind == "" {
		kind = o.guess()
	}
	switch kind {
	case "BPE":
		return parseBPE(o)
	case "WordPiece":
		return parseWordPiece(o)
	case "WordLevel":
		return parseWordLevel(o)
	case "Unigram":
		return parseUnigram(o)
	}
	return nil, fmt.Errorf("type: expected BPE, WordPiece, WordLevel or Unigram, found %q", kind)
}

// IsBPE reports whether a model is BPE.
func IsBPE(m Model) bool {
	_, ok := m.(*bpe)
	return ok
}

// object has the fields of a model. Those that are read are taken out.
type object map[string]jsontext.Value

// maxKeys is the number of keys that a model may have.
const maxKeys = 32

func fields(v jsontext.Value) (object, error) {
	o := object{}
	err := v.Fields(func(key []byte, v jsontext.Value) error {
		if len(o) == maxKeys {
			return fmt.Errorf("expected at most %d keys, found more", maxKeys)
		}
		if len(key) > 64 {
			return fmt.Errorf("key %.64q… is not supported", key)
		}
		if _, twice := o[string(key)]; twice {
			return fmt.Errorf("%s: expected it once, found it twice", key)
		}
		o[string(key)] = v
		return nil
	})
	return o, err
}

// guess returns the type of a model that does not state it, as files of old versions do not.
func (o object) guess() string {
	switch {
	case o["merges"] != nil:
		return "BPE"
	case o["max_input_chars_per_word"] != nil:
		return "WordPiece"
	case o["vocab"].Kind() == jsontext.Array:
		return "Unigram"
	case o["vocab"].Kind() == jsontext.Object:
		return "WordLevel"
	}
	return ""
}

// take returns a field, and false if it is absent or null.
func (o object) take(key string) (jsontext.Value, bool) {
	v, ok := o[key]
	delete(o, key)
	return v, ok && v.Kind() != jsontext.Null
}

func read[T any](o object, key string, or T, get func(jsontext.Value) (T, error)) (T, error) {
	v, ok := o.take(key)
	if !ok {
		return or, nil
	}
	x, err := get(v)
	if err != nil {
		return or, fmt.Errorf("%s: %w", key, err)
	}
	return x, nil
}

func (o object) str(key, or string) (string, error) {
	return read(o, key, or, jsontext.Value.Str)
}

func (o object) bool(key string) (bool, error) {
	return read(o, key, false, jsontext.Value.Bool)
}

func (o object) int(key string, or, limit int) (int, error) {
	return read(o, key, or, func(v jsontext.Value) (int, error) { return v.Int(limit) })
}

// vocab reads the texts and tokens of all models but Unigram.
func (o object) vocab() (*Vocab, error) {
	v, ok := o.take("vocab")
	if !ok {
		return nil, fmt.Errorf("vocab: expected texts and tokens, found none")
	}
	t, err := readVocab(v)
	if err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	return t, nil
}

// done refuses fields that were not read.
func (o object) done() error {
	least := ""
	for key := range o {
		if least == "" || key < least {
			least = key
		}
	}
	if least != "" {
		return fmt.Errorf("key %q is not supported", least)
	}
	return nil
}
