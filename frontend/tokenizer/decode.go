package tokenizer

import "github.com/essmc/essmc/frontend/tokenizer/internal/decode"

// Decode returns the text of tokens. Tokens that the vocabulary does not have are left out, and so are special ones if
// skipSpecial is set. Bytes that are not UTF-8 become U+FFFD. If the files beside tokenizer.json ask for it, spaces are
// taken off before punctuation (Config.CleanSpaces).
func (t *Tokenizer) Decode(ids []int64, skipSpecial bool) string {
	s := t.decoder.Stream(false)
	for _, id := range ids {
		t.put(s, id, skipSpecial)
	}
	s.Close()
	return s.Text()
}

func (t *Tokenizer) put(s *decode.Stream, id int64, skipSpecial bool) {
	if text, ok := t.Token(id); ok && !(skipSpecial && t.Special(id)) {
		s.Put(text)
	}
}

// Decoder decodes tokens one by one. It is not safe for concurrent use.
type Decoder struct {
	t           *Tokenizer
	s           *decode.Stream
	skipSpecial bool
}

// NewDecoder begins a text. Decode says what skipSpecial does.
func (t *Tokenizer) NewDecoder(skipSpecial bool) *Decoder {
	return &Decoder{t, t.decoder.Stream(true), skipSpecial}
}

// Next returns the text that a further token adds. It is whole characters; what may belong to a character that the next
// token completes waits for it. The texts of all tokens and that of Flush, put together, are what Decode gives, with
// one exception: where a decoder of the type ByteFallback is given bytes of which some are characters and others are
// not, Decode makes all of them U+FFFD, and Next those that are not.
func (d *Decoder) Next(id int64) string {
	d.t.put(d.s, id, d.skipSpecial)
	return d.s.Text()
}

// Skip adds tokens whose text is not wanted, such as those of a prompt. The texts of the tokens after them may depend
// on them.
func (d *Decoder) Skip(ids []int64) {
	for _, id := range ids {
		d.t.put(d.s, id, d.skipSpecial)
	}
	d.s.Skip()
}

// Flush ends the text and returns the rest of it.
func (d *Decoder) Flush() string {
	d.s.Close()
	return d.s.Text()
}
