package model

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// wordPiece takes the longest entry that a word begins with, then the longest one with the prefix, and so on.
type wordPiece struct {
	*Vocab
	begin, inner *trie
	unknown      string
	maxChars     int
}

func parseWordPiece(o object) (Model, error) {
	m := &wordPiece{}
	var errs [4]error
	var prefix string
	m.unknown, errs[0] = o.str("unk_token", "[UNK]")
	prefix, errs[1] = o.str("continuing_subword_prefix", "##")
	m.maxChars, errs[2] = o.int("max_input_chars_per_word", 100, math.MaxInt32)
	m.Vocab, errs[3] = o.vocab()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	if len(prefix) > maxAffix {
		return nil, fmt.Errorf("continuing_subword_prefix: expected at most %d bytes, found %d", maxAffix, len(prefix))
	}
	m.index(false)
	m.begin = m.newTrie("")
	m.inner = m.begin
	if prefix != "" {
		m.inner = m.newTrie(prefix)
	}
	return m, o.done()
}

func (m *wordPiece) Bytes() bool                   { return false }
func (m *wordPiece) Text(id uint32) (string, bool) { return m.token(id) }
func (m *wordPiece) Size() (count, most int)       { return m.begin.size, m.most }

func (m *wordPiece) Lookup(text string) (uint32, bool) {
	if e := m.begin.find(text); e != none {
		return m.ids[e], true
	}
	return 0, false
}

func (m *wordPiece) Tokenize(out []Token, piece string, _ bool, s *Scratch) ([]Token, error) {
	first := len(out)
	if len(piece) > m.maxChars && utf8.RuneCountInString(piece) > m.maxChars {
		return m.unknownWord(out, piece)
	}
	t := m.begin
	for at, steps := 0, 1; at < len(piece); steps++ {
		entry, n := t.longest(piece[at:])
		if entry == none {
			return m.unknownWord(out[:first], piece)
		}
		out = append(out, Token{ID: m.ids[entry], Start: int32(at), End: int32(at + n)})
		at += n
		t = m.inner
		if steps%checkEvery == 0 {
			if err := s.check(); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

func (m *wordPiece) unknownWord(out []Token, piece string) ([]Token, error) {
	id, ok := m.Lookup(m.unknown)
	if !ok {
		return out, unknownError(piece, m.unknown)
	}
	return append(out, Token{ID: id, End: int32(len(piece))}), nil
}
