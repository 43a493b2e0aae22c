package tokenizer

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/frontend/tokenizer/internal/process"
	"github.com/essmc/essmc/ir/tensor"
)

// Offset is a range of bytes of a text. End is exclusive.
type Offset struct{ Start, End int }

// Encoding is the tokens of a text, or of a pair of texts. All slices have an element for each token.
type Encoding struct {
	IDs           []int64
	TypeIDs       []int64 // which of two texts, as the file states
	AttentionMask []int64 // 0 for padding, 1 for others
	SpecialMask   []int64 // 1 for special tokens that were added and for padding, 0 for others
	// bytes of the text; a token of a part of a character has the whole one, added tokens 0 and 0
	Offsets   []Offset
	Words     []int // the piece of the text that the token is a part of, counted from 0; -1 for added tokens
	Sequences []int // 0 for the first text, 1 for the second of a pair, -1 for added tokens

	Overflow []*Encoding // what was cut off, if Truncation.Overflow is set

	tok   *Tokenizer
	texts []string // of tokens whose text is not that of the vocabulary; "" for others; nil: all are
}

// Len returns the number of tokens.
func (e *Encoding) Len() int { return len(e.IDs) }

// Tokens returns the texts of the tokens, as the vocabulary writes them; unknown parts of Unigram models and added
// tokens that took white space with them as the text has them.
func (e *Encoding) Tokens() []string {
	all := make([]string, len(e.IDs))
	for i, id := range e.IDs {
		if e.texts != nil && e.texts[i] != "" {
			all[i] = e.texts[i]
		} else {
			all[i] = e.tok.shown(uint32(id))
		}
	}
	return all
}

// newEncoding makes the columns of tokens. Their texts are in a list, and their offsets are mapped to the texts as
// given.
func (t *Tokenizer) newEncoding(tokens []process.Token, w *worker) *Encoding {
	n := len(tokens)
	column := make([]int64, 4*n)
	e := &Encoding{
		IDs: column[:n:n], TypeIDs: column[n : 2*n : 2*n], AttentionMask: column[2*n : 3*n : 3*n],
		SpecialMask: column[3*n:],
		Offsets:     make([]Offset, n), tok: t,
	}
	words := make([]int, 2*n)
	e.Words, e.Sequences = words[:n:n], words[n:]
	for i := range tokens {
		k := &tokens[i]
		e.IDs[i], e.TypeIDs[i], e.AttentionMask[i] = int64(k.ID), int64(k.Type), 1
		e.Words[i], e.Sequences[i] = int(k.Word), int(k.Seq)
		if k.Special {
			e.SpecialMask[i] = 1
		}
		if k.Seq >= 0 {
			e.Offsets[i] = w.given[k.Seq].offset(k.Start, k.End)
		}
		if k.Text != 0 {
			if e.texts == nil {
				e.texts = make([]string, n)
			}
			e.texts[i] = w.tokenText(*k)
		}
	}
	return e
}

// pad makes an encoding, and its overflow, n tokens long.
func (e *Encoding) pad(n int, p *Padding) {
	for _, o := range e.Overflow {
		o.pad(n, p)
	}
	more := n - e.Len()
	if more <= 0 {
		return
	}
	e.IDs = padded(e.IDs, more, p.ID, p.Left)
	e.TypeIDs = padded(e.TypeIDs, more, p.TypeID, p.Left)
	e.AttentionMask = padded(e.AttentionMask, more, 0, p.Left)
	e.SpecialMask = padded(e.SpecialMask, more, 1, p.Left)
	e.Offsets = padded(e.Offsets, more, Offset{}, p.Left)
	e.Words = padded(e.Words, more, -1, p.Left)
	e.Sequences = padded(e.Sequences, more, -1, p.Left)
	if p.Token != "" && e.texts == nil {
		e.texts = make([]string, n-more)
	}
	if e.texts != nil {
		e.texts = padded(e.texts, more, p.Token, p.Left)
	}
}

func padded[T any](s []T, n int, with T, left bool) []T {
	more := slices.Repeat([]T{with}, n)
	if left {
		return append(more, s...)
	}
	return append(s, more...)
}

// Batch is the encodings of some texts.
type Batch struct {
	Encodings []*Encoding
	pad       Padding // where lengths differ
}

// Tensors returns inputs of models, of int64 and the shape [texts, tokens]: input_ids, attention_mask, token_type_ids,
// special_tokens_mask and position_ids; without names the first three. Encodings of different lengths are padded to the
// longest one, with the padding token that the tokenizer's files name, or else 0; their attention_mask is 0 there.
func (b *Batch) Tensors(names ...string) (map[string]tensor.Datum, error) {
	if len(b.Encodings) == 0 {
		return nil, fmt.Errorf("tensors: expected at least one text, found none")
	}
	if len(names) == 0 {
		names = []string{"input_ids", "attention_mask", "token_type_ids"}
	}
	longest := 0
	for _, e := range b.Encodings {
		longest = max(longest, e.Len())
	}
	out := map[string]tensor.Datum{}
	for _, name := range names {
		column, pad, err := b.column(name)
		if err != nil {
			return nil, err
		}
		data := make([]int64, 0, longest*len(b.Encodings))
		for _, e := range b.Encodings {
			values := column(e)
			more := longest - len(values)
			if !b.pad.Left {
				data = append(data, values...)
			}
			for range more {
				data = append(data, pad)
			}
			if b.pad.Left {
				data = append(data, values...)
			}
		}
		out[name] = tensor.FromSlice(data, len(b.Encodings), longest)
	}
	return out, nil
}

// column returns what a tensor has of an encoding, and its padding.
func (b *Batch) column(name string) (func(*Encoding) []int64, int64, error) {
	switch name {
	case "input_ids":
		return func(e *Encoding) []int64 { return e.IDs }, b.pad.ID, nil
	case "attention_mask":
		return func(e *Encoding) []int64 { return e.AttentionMask }, 0, nil
	case "token_type_ids":
		return func(e *Encoding) []int64 { return e.TypeIDs }, b.pad.TypeID, nil
	case "special_tokens_mask":
		return func(e *Encoding) []int64 { return e.SpecialMask }, 1, nil
	case "position_ids":
		return positions, 0, nil
	}
	return nil, 0, fmt.Errorf("tensors: expected input_ids, attention_mask, token_type_ids, special_tokens_mask or "+
		"position_ids, found %q", name)
}

// positions counts the tokens that are not padding.
func positions(e *Encoding) []int64 {
	out := make([]int64, e.Len())
	next := int64(0)
	for i, m := range e.AttentionMask {
		if m != 0 {
			out[i] = next
			next++
		}
	}
	return out
}
