package data

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer"
)

// Encoder turns text into tokens. Its methods may be called concurrently.
type Encoder interface {
	// Tokens returns the number of tokens; tokens are below it. Token 0 is the padding.
	Tokens() int
	// Encode returns the tokens of a text.
	Encode(ctx context.Context, text string) ([]int64, error)
}

// EncodeText returns at most limit tokens of a text (0: all), and at least one.
func EncodeText(ctx context.Context, e Encoder, text string, limit int) ([]int64, error) {
	tokens, err := e.Encode(ctx, text)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("expected text with at least one token, found %.40q", text)
	}
	if limit > 0 && len(tokens) > limit {
		tokens = tokens[:limit]
	}
	return tokens, nil
}

// Bytes encodes text as its bytes: 0 is the padding, byte b is token b+1, so there are 257 tokens.
type Bytes struct{}

// Tokens implements Encoder.
func (Bytes) Tokens() int { return 257 }

// Encode implements Encoder.
func (Bytes) Encode(_ context.Context, text string) ([]int64, error) {
	out := make([]int64, len(text))
	for i := range len(text) {
		out[i] = int64(text[i]) + 1
	}
	return out, nil
}

// Characters encodes text by its characters, as the reference does for the Long Range Arena: token 0 is the padding, 1
// any character that is not in the table, 2 the end of the text, and the others are the characters of the table. Bytes
// that are not UTF-8 are U+FFFD.
type Characters struct {
	Table []rune // character Table[i] is token i+3
	End   bool   // add the token for the end of the text
	Limit int    // the number of tokens that a text may have, with the end; characters beyond it are cut off; 0: any

	by map[rune]int64
}

// characterBase is the number of tokens that are not characters.
const characterBase = 3

// NewCharacters returns an encoder with a token for each character that occurs at least least times in the texts: the
// most frequent ones first, equally frequent ones in the order of Unicode. The reference's encoder for the reviews of
// IMDB has least 15, End and Limit 4096.
func NewCharacters(texts func(yield func(text string) error) error, least int) (*Characters, error) {
	count := map[rune]int{}
	err := texts(func(text string) error {
		for _, c := range text {
			count[c]++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	table := slices.SortedFunc(maps.Keys(count), func(a, b rune) int { return cmp.Or(count[b]-count[a], int(a-b)) })
	return CharactersOf(slices.DeleteFunc(table, func(c rune) bool { return count[c] < least })), nil
}

// CharactersOf returns the encoder with a table of characters.
func CharactersOf(table []rune) *Characters {
	c := &Characters{Table: table, by: map[rune]int64{}}
	for i, r := range table {
		c.by[r] = int64(i + characterBase)
	}
	return c
}

// Tokens implements Encoder.
func (c *Characters) Tokens() int { return len(c.Table) + characterBase }

// Encode implements Encoder.
func (c *Characters) Encode(_ context.Context, text string) ([]int64, error) {
	out := make([]int64, 0, min(len(text), utf8.RuneCountInString(text))+1)
	for _, r := range text {
		if c.Limit > 0 && (len(out) == c.Limit || c.End && len(out) == c.Limit-1) {
			break
		}
		k, ok := c.by[r]
		if !ok {
			k = 1
		}
		out = append(out, k)
	}
	if c.End {
		out = append(out, 2)
	}
	return out, nil
}

// Tokenized encodes text by a tokenizer of a language model. Its own padding and truncation are not used.
type Tokenized struct{ Tokenizer *tokenizer.Tokenizer }

// Tokens implements Encoder.
func (t Tokenized) Tokens() int { return int(t.Tokenizer.Tokens()) }

// Encode implements Encoder.
func (t Tokenized) Encode(ctx context.Context, text string) ([]int64, error) {
	e, err := t.Tokenizer.EncodeText(ctx, text, tokenizer.Options{Padding: &tokenizer.Padding{Off: true}, SpecialAsText: true,
		Truncation: &tokenizer.Truncation{}})
	if err != nil {
		return nil, err
	}
	return e.IDs, nil
}
