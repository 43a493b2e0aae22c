package tokenizer

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/essmc/essmc/frontend/tokenizer/internal/added"
	"github.com/essmc/essmc/frontend/tokenizer/internal/aligned"
	"github.com/essmc/essmc/frontend/tokenizer/internal/model"
	"github.com/essmc/essmc/frontend/tokenizer/internal/normalize"
	"github.com/essmc/essmc/frontend/tokenizer/internal/pretokenize"
	"github.com/essmc/essmc/frontend/tokenizer/internal/process"
)

// MaxText is the maximum length of a text in bytes.
const MaxText = math.MaxInt32 / 8

// Pair is two texts that are encoded together, such as a question and a passage.
type Pair struct{ First, Second string }

// Encode encodes texts, each by itself. Errors are those of the context, of options, and of texts that the vocabulary
// has no tokens for.
func (t *Tokenizer) Encode(ctx context.Context, texts []string, o Options) (*Batch, error) {
	return t.batch(ctx, len(texts), o, func(i int) []string { return texts[i : i+1] })
}

// EncodePairs encodes pairs of texts.
func (t *Tokenizer) EncodePairs(ctx context.Context, pairs []Pair, o Options) (*Batch, error) {
	return t.batch(ctx, len(pairs), o, func(i int) []string { return []string{pairs[i].First, pairs[i].Second} })
}

// EncodeText encodes one text.
func (t *Tokenizer) EncodeText(ctx context.Context, text string, o Options) (*Encoding, error) {
	b, err := t.Encode(ctx, []string{text}, o)
	if err != nil {
		return nil, err
	}
	return b.Encodings[0], nil
}

// EncodePair encodes two texts together.
func (t *Tokenizer) EncodePair(ctx context.Context, first, second string, o Options) (*Encoding, error) {
	b, err := t.EncodePairs(ctx, []Pair{{first, second}}, o)
	if err != nil {
		return nil, err
	}
	return b.Encodings[0], nil
}

// batch encodes n inputs of one or two texts.
func (t *Tokenizer) batch(ctx context.Context, n int, o Options, input func(i int) []string) (*Batch, error) {
	w := t.workers.Get().(*worker)
	defer t.workers.Put(w)
	defer w.release()
	b := &Batch{Encodings: make([]*Encoding, n), pad: t.padding()}
	longest := 0
	for i := range b.Encodings {
		e, err := w.encode(ctx, input(i), &o)
		if err != nil {
			if n > 1 && ctx.Err() == nil {
				err = fmt.Errorf("text %d: %w", i, err)
			}
			return nil, err
		}
		b.Encodings[i] = e
		longest = max(longest, e.Len())
	}
	pad := o.Padding
	if pad == nil {
		pad = t.filePadding
	}
	if pad == nil || pad.Off {
		return b, nil
	}
	b.pad = *pad
	length, err := pad.length(longest)
	if err != nil {
		return nil, err
	}
	for _, e := range b.Encodings {
		e.pad(length, pad)
	}
	return b, nil
}

// worker encodes texts one after the other, and keeps memory between them.
type worker struct {
	t     *Tokenizer
	bytes bool // pieces are bytes

	normalizer *normalize.Worker
	splitter   *pretokenize.Splitter
	scratch    model.Scratch
	text, view aligned.Text
	found      [2][]added.Match
	tokens     []model.Token

	given  [2]given
	out    [2][]process.Token
	texts  []string // of tokens that do not have the vocabulary's text
	word   int32
	pieces int // since the context was looked at
}

func (t *Tokenizer) newWorker() *worker {
	bytes := t.pre.Bytes() && t.model.Bytes()
	return &worker{t: t, bytes: bytes, normalizer: t.normalizer.Worker(), splitter: t.pre.Splitter(bytes)}
}

// release drops what refers to texts of the caller.
func (w *worker) release() {
	w.given, w.scratch.Check = [2]given{}, nil
	w.text.Reset("", 0)
	w.view.Reset("", 0)
	w.splitter.Text.Reset("", 0)
	clear(w.texts)
	w.texts = w.texts[:0]
}

// encode encodes one text or two.
func (w *worker) encode(ctx context.Context, texts []string, o *Options) (*Encoding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w.scratch.Check = ctx.Err
	w.texts = w.texts[:0]
	var list [2]process.Encoding
	x := process.Texts{Token: w.tokenText}
	for i, s := range texts {
		if len(s) > MaxText {
			return nil, fmt.Errorf("expected a text of at most %d bytes, found %d", MaxText, len(s))
		}
		w.given[i] = newGiven(s)
		w.out[i], w.word = w.out[i][:0], 0
		if err := w.one(ctx, i, o.SpecialAsText); err != nil {
			return nil, err
		}
		list[i].Tokens = w.out[i]
		x.Original[i] = w.given[i].text
	}
	if err := ctx.Err(); err != nil { // the rest takes a few nanoseconds for each token
		return nil, err
	}
	added := 0
	if !o.NoSpecialTokens {
		added = w.t.processor.Added(len(texts) == 2)
	}
	trunc := o.Truncation
	if trunc == nil {
		trunc = w.t.fileTruncation
	}
	cut, err := trunc.check(added, w.t.processor.Added(false))
	if err != nil {
		return nil, err
	}
	if cut != nil {
		if err := cut.Apply(list[:len(texts)]); err != nil {
			return nil, err
		}
	}
	all, err := w.t.processor.Process(list[:len(texts)], !o.NoSpecialTokens, &x)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := w.t.newEncoding(all.Tokens, w)
	for _, window := range all.Overflow {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e.Overflow = append(e.Overflow, w.t.newEncoding(window, w))
	}
	return e, nil
}

// tokenText returns the text of a token.
func (w *worker) tokenText(k process.Token) string {
	switch {
	case k.Text > 0:
		return w.texts[k.Text-1]
	case k.Text < 0:
		return w.t.processor.AddedText(k)
	}
	return w.t.shown(k.ID)
}

// one finds the tokens of the text i. Added tokens divide it: first those that are found in the text as given, then, in
// the parts between them, those that are found in the normalized text.
func (w *worker) one(ctx context.Context, i int, asText bool) error {
	s := w.given[i].text
	return w.t.raw.divide(s, asText, &w.found[0], func(from, to int, k *addedToken) error {
		if k != nil {
			w.add(i, k, s[from:to], aligned.Span{Start: int32(from), End: int32(to)})
			return nil
		}
		w.text.Reset(s[from:to], from)
		if !w.t.normalizer.Identity() {
			if err := w.normalizer.Normalize(ctx, &w.text); err != nil {
				return err
			}
		}
		if w.text.Len() == 0 {
			return nil
		}
		if w.t.normalized.finder == nil {
			return w.part(ctx, i, &w.text)
		}
		n := w.text.String()
		return w.t.normalized.divide(n, asText, &w.found[1], func(from, to int, k *addedToken) error {
			if k != nil {
				w.add(i, k, n[from:to], w.text.Span(from, to))
				return nil
			}
			w.view.View(&w.text, from, to)
			return w.part(ctx, i, &w.view)
		})
	})
}

// add appends an added token, whose text is s.
func (w *worker) add(i int, k *addedToken, s string, at aligned.Span) {
	out := process.Token{ID: k.id, Start: at.Start, End: at.End, Word: w.word, Type: uint32(i), Seq: int8(i)}
	w.word++
	if s != w.t.shown(k.id) {
		w.texts = append(w.texts, strings.Clone(s))
		out.Text = int32(len(w.texts))
	}
	w.out[i] = append(w.out[i], out)
}

// checkEvery is the number of pieces or tokens after which the context is looked at.
const checkEvery = 1 << 12

// part appends the tokens of a part between added ones.
func (w *worker) part(ctx context.Context, i int, t *aligned.Text) error {
	if err := w.splitter.Split(ctx, t); err != nil {
		return err
	}
	text := &w.splitter.Text
	s := text.String()
	out := w.out[i]
	for _, p := range w.splitter.Pieces {
		if w.pieces++; w.pieces%checkEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		piece := s[p.From:p.To]
		var err error
		if w.tokens, err = w.t.model.Tokenize(w.tokens[:0], piece, w.bytes, &w.scratch); err != nil {
			return err
		}
		for j, k := range w.tokens {
			if (j+1)%checkEvery == 0 {
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			from, to := p.From+k.Start, p.From+k.End
			if to > p.To { // bytes of a prefix or a suffix of BPE: the text does not have them
				from, to = p.From, p.To
			}
			at := text.Span(int(from), int(to))
			one := process.Token{ID: k.ID, Start: at.Start, End: at.End, Word: w.word, Type: uint32(i), Seq: int8(i)}
			if k.Text {
				w.texts = append(w.texts, strings.Clone(piece[k.Start:k.End]))
				one.Text = int32(len(w.texts))
			}
			out = append(out, one)
		}
		w.word++
	}
	w.out[i] = out
	return nil
}
