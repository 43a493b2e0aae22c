package model

import (
	"fmt"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/bytelevel"
	"github.com/essmc/essmc/frontend/tokenizer/internal/jsontext"
)

// bpe is byte pair encoding. A piece is its characters; the two neighbours whose merge has the lowest rank become one,
// again and again.
type bpe struct {
	*Vocab
	merges       mergeTable
	unknown      string
	unknownID    uint32 // none: not in the vocabulary
	hasUnknown   bool
	fuseUnknown  bool
	byteFallback bool
	ignoreMerges bool
	prefix       string // of characters that are not the first
	suffix       string // of the last character

	fallback [256]uint32 // the tokens <0x00> to <0xFF>
	// The tokens of characters below 256, and of the characters that stand for bytes, by what is added to them.
	chars, bytes [4][256]uint32
	allBytes     bool   // bytes has no gaps
	shown        *Vocab // texts as bytes, with ignore_merges
	words        cache
}

// What is added to a character.
const (
	withPrefix = 1 << iota
	withSuffix
)

func parseBPE(o object) (Model, error) {
	m := &bpe{unknownID: none}
	if v, ok := o.take("dropout"); ok {
		if x, err := v.Float(); err != nil || x != 0 {
			return nil, fmt.Errorf("dropout: expected null or 0, found %.20s: equal texts would have other tokens "+
				"each time", string(v))
		}
	}
	_, m.hasUnknown = o["unk_token"]
	m.hasUnknown = m.hasUnknown && o["unk_token"].Kind() != jsontext.Null
	var errs [7]error
	m.unknown, errs[0] = o.str("unk_token", "")
	m.prefix, errs[1] = o.str("continuing_subword_prefix", "")
	m.suffix, errs[2] = o.str("end_of_word_suffix", "")
	m.fuseUnknown, errs[3] = o.bool("fuse_unk")
	m.byteFallback, errs[4] = o.bool("byte_fallback")
	m.ignoreMerges, errs[5] = o.bool("ignore_merges")
	m.Vocab, errs[6] = o.vocab()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	if len(m.prefix) > maxAffix || len(m.suffix) > maxAffix {
		return nil, fmt.Errorf("continuing_subword_prefix, end_of_word_suffix: expected at most %d bytes, found more",
			maxAffix)
	}
	m.index(true)
	if id, ok := m.lookup(m.unknown); ok && m.hasUnknown {
		m.unknownID = id
	}
	v, ok := o.take("merges")
	if !ok {
		return nil, fmt.Errorf("merges: expected pairs of tokens, found none")
	}
	if err := m.readMerges(v); err != nil {
		return nil, err
	}
	m.tables()
	return m, o.done()
}

// maxAffix is the length that a prefix or a suffix of characters may have, in bytes.
const maxAffix = 64

// tables fills the tables of single characters.
func (m *bpe) tables() {
	find := func(s string) uint32 {
		if id, ok := m.lookup(s); ok {
			return id
		}
		return none
	}
	m.allBytes = true
	for b := range 256 {
		m.fallback[b] = find(fmt.Sprintf("<0x%02X>", b))
		for with := range m.chars {
			pre, post := "", ""
			if with&withPrefix != 0 {
				pre = m.prefix
			}
			if with&withSuffix != 0 {
				post = m.suffix
			}
			m.chars[with][b] = find(pre + string(rune(b)) + post)
			m.bytes[with][b] = find(pre + string(bytelevel.Shown(byte(b))) + post)
			m.allBytes = m.allBytes && m.bytes[with][b] != none
		}
	}
	if m.ignoreMerges {
		m.shown = m.asBytes()
	}
}

// asBytes returns the entries of a vocabulary whose characters all stand for bytes, as these bytes.
func (t *Vocab) asBytes() *Vocab {
	n, size := 0, 0
	for i := range t.ends {
		if _, ok := appendRaw(nil, t.entry(uint32(i)), false); ok {
			n, size = n+1, size+utf8.RuneCountInString(t.entry(uint32(i)))
		}
	}
	r := &Vocab{ids: make([]uint32, 0, n)}
	r.reserve(n, size)
	for i := range t.ends {
		if _, ok := appendRaw(nil, t.entry(uint32(i)), false); ok {
			r.text, _ = appendRaw(r.text, t.entry(uint32(i)), true)
			r.ends = append(r.ends, uint32(len(r.text)))
			r.ids = append(r.ids, t.ids[i])
		}
	}
	r.hash()
	return r
}

// appendRaw appends the bytes that characters stand for; false if one stands for none.
func appendRaw(dst []byte, s string, keep bool) ([]byte, bool) {
	for _, r := range s {
		b, ok := bytelevel.ByteOf(r)
		if !ok {
			return dst, false
		}
		if keep {
			dst = append(dst, b)
		}
	}
	return dst, true
}

func (m *bpe) Bytes() bool                       { return m.allBytes }
func (m *bpe) Lookup(text string) (uint32, bool) { return m.lookup(text) }
func (m *bpe) Text(id uint32) (string, bool)     { return m.token(id) }
func (m *bpe) Size() (count, most int)           { return m.size(), m.most }

// Tokenize appends the tokens of a piece.
func (m *bpe) Tokenize(out []Token, piece string, bytes bool, s *Scratch) ([]Token, error) {
	if m.ignoreMerges {
		t := m.Vocab
		if bytes {
			t = m.shown
		}
		if id, ok := t.lookup(piece); ok {
			return append(out, Token{ID: id, End: int32(len(piece))}), nil
		}
	}
	if len(piece) > maxCached {
		if err := m.merge(piece, bytes, s); err != nil {
			return out, err
		}
		return s.tokens(out), nil
	}
	if w := m.words.find(piece, bytes); w != nil {
		return w.tokens(out), nil
	}
	if err := m.merge(piece, bytes, s); err != nil {
		return out, err
	}
	m.words.keep(piece, bytes, s)
	return s.tokens(out), nil
}

// tokens appends the tokens that a merge has left.
func (s *Scratch) tokens(out []Token) []Token {
	from := int32(0)
	for i, id := range s.ids {
		end := int32(s.ends[i])
		out = append(out, Token{ID: id, Start: from, End: end})
		from = end
	}
	return out
}

// merge leaves the tokens of a piece in s.ids, and their ends in s.ends.
func (m *bpe) merge(piece string, bytes bool, s *Scratch) error {
	s.ids, s.ends = s.ids[:0], s.ends[:0]
	if bytes {
		m.splitBytes(piece, s)
	} else if err := m.splitChars(piece, s); err != nil {
		return err
	}
	if len(s.ids) <= shortPiece && !m.shared {
		m.mergeShort(s)
		return nil
	}
	return m.mergeLong(s)
}

// splitBytes fills s with the tokens of a piece's bytes, all of which have one.
func (m *bpe) splitBytes(piece string, s *Scratch) {
	first, last := &m.bytes[0], len(piece)-1
	for i := range last {
		s.add(first[piece[i]], 1)
		first = &m.bytes[withPrefix]
	}
	with := withSuffix
	if last > 0 {
		with |= withPrefix
	}
	s.add(m.bytes[with][piece[last]], 1)
}

// add appends a token of n bytes.
func (s *Scratch) add(id uint32, n int) {
	end := uint32(n)
	if k := len(s.ends); k > 0 {
		end += s.ends[k-1]
	}
	s.ids, s.ends = append(s.ids, id), append(s.ends, end)
}

// splitChars fills s with the tokens of a piece's characters. As in the Rust library, characters without a token are
// left out where there is none for unknown ones, and unknown ones that wait to be fused do not come before bytes.
func (m *bpe) splitChars(piece string, s *Scratch) error {
	with, waiting := 0, 0
	for i, steps := 0, 1; i < len(piece); steps++ {
		if steps%checkEvery == 0 {
			if err := s.check(); err != nil {
				return err
			}
		}
		_, n := utf8.DecodeRuneInString(piece[i:])
		if i+n == len(piece) {
			with |= withSuffix
		}
		char := piece[i : i+n]
		i += n
		id := m.char(char, with)
		switch {
		case id != none:
			if waiting > 0 {
				s.add(m.unknownID, waiting)
				waiting = 0
			}
			s.add(id, n)
		case m.byteFallback && m.allFallBack(m.affixed(char, with)):
			for _, b := range []byte(m.affixed(char, with)) {
				s.add(m.fallback[b], 1)
			}
		case m.hasUnknown:
			if m.unknownID == none {
				return unknownError(char, m.unknown)
			}
			if waiting > 0 && !m.fuseUnknown {
				s.add(m.unknownID, waiting)
				waiting = 0
			}
			waiting += n
		}
		with = withPrefix
	}
	if waiting > 0 {
		s.add(m.unknownID, waiting)
	}
	return nil
}

// char returns the token of a character with what is added to it.
func (m *bpe) char(char string, with int) uint32 {
	if r, _ := utf8.DecodeRuneInString(char); r < 256 {
		return m.chars[with][r]
	}
	if id, ok := m.lookup(m.affixed(char, with)); ok {
		return id
	}
	return none
}

// affixed is a character with what is added to it.
func (m *bpe) affixed(char string, with int) string {
	if with&withPrefix != 0 && m.prefix != "" {
		char = m.prefix + char
	}
	if with&withSuffix != 0 && m.suffix != "" {
		char += m.suffix
	}
	return char
}

// allFallBack reports whether all bytes have tokens.
func (m *bpe) allFallBack(s string) bool {
	for i := range len(s) {
		if m.fallback[s[i]] == none {
			return false
		}
	}
	return true
}
