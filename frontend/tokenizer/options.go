package tokenizer

import (
	"fmt"

	"github.com/essmc/essmc/frontend/tokenizer/internal/process"
)

// Options say how texts are encoded. The zero value does what the file states, with special tokens.
type Options struct {
	NoSpecialTokens bool // leave out the tokens that the post-processor adds, such as [CLS] and [SEP]
	// special tokens in the text, such as "</s>", are text like any other: for untrusted text
	SpecialAsText bool
	Truncation    *Truncation // nil: as the file states
	Padding       *Padding    // nil: as the file states
}

// Strategy says which text of a pair is cut.
type Strategy int

const (
	LongestFirst Strategy = iota // the longer one, until both are equally long; then both
	OnlyFirst
	OnlySecond
)

// Truncation says how long encodings may be.
type Truncation struct {
	MaxLength int // tokens, with special ones; 0: any length
	Strategy  Strategy
	Left      bool // cut off the beginning
	Overflow  bool // keep what is cut off, as Encoding.Overflow
	Stride    int  // the number of tokens that each encoding of the overflow repeats of the one before it
}

// Padding says how encodings are made equally long.
type Padding struct {
	Off        bool // no padding, also if the file states one
	Length     int  // the length in tokens; 0: that of the longest encoding of a batch
	MultipleOf int  // the length is rounded up to a multiple of this; 0: it is not
	Left       bool // put padding before the tokens
	ID, TypeID int64
	Token      string // as Encoding.Tokens shows it; "": the text of ID
}

// maxLength is the largest length that Padding may ask for.
const maxLength = 1 << 24

// check returns what Truncation asks of package process, where so many special tokens are added, and so many to a
// single text; nil if nothing is cut.
func (t *Truncation) check(added, single int) (*process.Truncation, error) {
	switch {
	case t == nil || *t == (Truncation{}):
		return nil, nil
	case t.MaxLength < 0 || t.MaxLength < added:
		return nil,
			fmt.Errorf("truncation: MaxLength: expected at least the %d special tokens that are added, found %d", added,
				t.MaxLength)
	case t.Stride < 0 || t.MaxLength > 0 && t.Stride > t.MaxLength-single:
		return nil, fmt.Errorf("truncation: Stride: expected at most the %d tokens that special ones leave, found %d",
			t.MaxLength-single, t.Stride)
	case t.Strategy < LongestFirst || t.Strategy > OnlySecond:
		return nil, fmt.Errorf("truncation: Strategy: expected LongestFirst, OnlyFirst or OnlySecond, found %d",
			t.Strategy)
	case t.MaxLength == 0:
		return nil, nil
	}
	return &process.Truncation{
		Max: t.MaxLength - added, Stride: t.Stride, Strategy: process.Strategy(t.Strategy), Left: t.Left,
		Overflow: t.Overflow,
	}, nil
}

// length returns the length to pad to, where the longest encoding has the given one.
func (p *Padding) length(longest int) (int, error) {
	n := longest
	if p.Length > 0 {
		n = p.Length
	}
	if p.Length < 0 || p.MultipleOf < 0 || p.Length > maxLength || p.MultipleOf > maxLength {
		return 0, fmt.Errorf("padding: expected lengths from 0 to %d, found %d and multiples of %d", maxLength,
			p.Length, p.MultipleOf)
	}
	if p.MultipleOf > 0 {
		n = (n + p.MultipleOf - 1) / p.MultipleOf * p.MultipleOf
	}
	return n, nil
}
