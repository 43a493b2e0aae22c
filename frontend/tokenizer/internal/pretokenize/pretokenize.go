// Package pretokenize has the pre-tokenizers of a tokenizer.json. They divide a text into pieces, for each of which the
// model finds tokens, as those of Hugging Face's tokenizers do; some change the text too.
//
// A pre-tokenizer treats a byte that is not UTF-8 as U+FFFD, and keeps it as it is.
package pretokenize

import (
	"context"
	"encoding/json"

	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/part"
)

// PreTokenizer divides texts. It does not change itself, and is safe for concurrent use; its splitters are not.
type PreTokenizer struct {
	steps []maker
	bytes bool
}

// A step divides the pieces of a splitter further, or changes its text.
type step func(ctx context.Context, s *Splitter) error

// A maker makes the step of one splitter.
type maker func() step

// simple is a step that needs no context and no memory of its own.
func simple(f func(s *Splitter) error) maker {
	return func() step { return func(_ context.Context, s *Splitter) error { return f(s) } }
}

// Parse reads a pre-tokenizer; null is one that leaves a text whole. Errors begin with `where`.
func Parse(raw json.RawMessage, where string) (*PreTokenizer, error) {
	p := &PreTokenizer{}
	return p, part.Each(raw, where, "pretokenizers", func(o *part.Object) bool {
		read, ok := kinds[o.Type]
		if !ok {
			return false
		}
		if p.bytes { // another one comes behind ByteLevel, and sees its characters
			p.steps = append(p.steps, simple(shown))
		}
		p.steps = append(p.steps, read(o)...)
		p.bytes = o.Type == "ByteLevel"
		return true
	})
}

// kinds read the pre-tokenizers by type. They note errors in the object.
var kinds = map[string]func(o *part.Object) []maker{
	"BertPreTokenizer":   bert,
	"ByteLevel":          byteLevel,
	"CharDelimiterSplit": charDelimiter,
	"Digits":             digits,
	"FixedLength":        fixedLength,
	"Metaspace":          metaspace,
	"Punctuation":        punctuation,
	"Split":              split,
	"UnicodeScripts":     unicodeScripts,
	"Whitespace":         whitespace,
	"WhitespaceSplit":    whitespaceSplit,
}

// Bytes reports whether ByteLevel comes last, so that pieces may be bytes.
func (p *PreTokenizer) Bytes() bool { return p.bytes }

// Identity reports whether the pre-tokenizer leaves each text whole.
func (p *PreTokenizer) Identity() bool { return len(p.steps) == 0 && !p.bytes }

// Piece is the range of bytes of a text that a piece is.
type Piece struct{ From, To int32 }

// Splitter divides texts one after the other, and keeps memory between them. It is not safe for concurrent use.
type Splitter struct {
	steps []step

	// Text has what the pieces are parts of, and where it comes from. It is valid until the next call of Split.
	Text aligned.Text
	// Pieces are the pieces, in order. None is empty.
	Pieces []Piece

	s    string // Text's
	next []Piece
}

// Splitter returns a new splitter. Where ByteLevel comes last, `bytes` leaves the bytes of pieces as they are, in place
// of the characters that stand for them.
func (p *PreTokenizer) Splitter(bytes bool) *Splitter {
	s := &Splitter{steps: make([]step, 0, len(p.steps)+1)}
	for _, m := range p.steps {
		s.steps = append(s.steps, m())
	}
	if p.bytes && !bytes {
		s.steps = append(s.steps, simple(shown)())
	}
	return s
}

// Split divides a text: it sets Text and Pieces, which refer to it. The errors are those of the context and of
// patterns, and that a text has become too long.
func (s *Splitter) Split(ctx context.Context, t *aligned.Text) error {
	s.Text.View(t, 0, t.Len())
	s.s = s.Text.String()
	s.Pieces = s.Pieces[:0]
	if s.s == "" {
		return nil
	}
	s.Pieces = append(s.Pieces, Piece{0, int32(len(s.s))})
	for _, f := range s.steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// swap makes the pieces of `next` those of the splitter.
func (s *Splitter) swap(next []Piece) { s.next, s.Pieces = s.Pieces[:0], next }

// changed makes the edit of the text, and pieces of it, those of the splitter.
func (s *Splitter) changed(e *aligned.Edit, next []Piece) error {
	if err := e.Done(); err != nil {
		return err
	}
	s.s = s.Text.String()
	s.swap(next)
	return nil
}
