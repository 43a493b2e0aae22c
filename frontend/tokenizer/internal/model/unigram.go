package model

import (
	"fmt"
	"unicode/utf8"

	"github.com/essmc/essmc/frontend/tokenizer/internal/jsontext"
)

// unigram takes the entries whose scores have the largest sum.
type unigram struct {
	*Vocab
	trie      *trie
	scores    []float64
	unkScore  float64
	unknown   uint32 // none: an error where it is needed
	fallsBack bool
	fallback  [256]uint32 // the tokens <0x00> to <0xFF>
}

// unkPenalty is what an unknown character has below the least score.
const unkPenalty = 10

func parseUnigram(o object) (Model, error) {
	m := &unigram{Vocab: &Vocab{}, unknown: none}
	v, ok := o.take("vocab")
	if !ok {
		return nil, fmt.Errorf("vocab: expected pairs of a text and a score, found none")
	}
	least, err := m.read(v)
	if err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	m.unkScore = least - unkPenalty
	if _, ok := o["unk_id"]; ok && o["unk_id"].Kind() != jsontext.Null {
		id, err := o.int("unk_id", 0, max(len(m.ids)-1, 0))
		if err != nil {
			return nil, err
		}
		if len(m.ids) == 0 {
			return nil, fmt.Errorf("unk_id: expected a token of the vocabulary, which is empty")
		}
		m.unknown = uint32(id)
	}
	delete(o, "unk_id")
	if m.fallsBack, err = o.bool("byte_fallback"); err != nil {
		return nil, err
	}
	m.trie = m.newTrie("")
	for b := range 256 {
		m.fallback[b] = none
		if e := m.trie.find(fmt.Sprintf("<0x%02X>", b)); e != none {
			m.fallback[b] = e
		}
	}
	return m, o.done()
}

// read reads pairs of a text and a score, and returns the least score.
func (m *unigram) read(v jsontext.Value) (float64, error) {
	n := v.Len()
	if n > MaxTokens {
		return 0, fmt.Errorf("expected at most %d tokens, found %d", MaxTokens, n)
	}
	m.reserve(n, len(v)-min(8*n, len(v)))
	m.scores = make([]float64, 0, n)
	m.ids = make([]uint32, 0, n)
	least := 0.0
	err := v.Items(func(i int, v jsontext.Value) error {
		parts := 0
		err := v.Items(func(k int, v jsontext.Value) error {
			parts++
			if k == 0 {
				if v.Kind() != jsontext.String {
					return fmt.Errorf("expected a text, found %s", v.Name())
				}
				m.text = v.Text(m.text)
				m.ends = append(m.ends, uint32(len(m.text)))
			}
			if k != 1 {
				return nil
			}
			score, err := v.Float()
			m.scores = append(m.scores, score)
			return err
		})
		if err == nil && parts != 2 {
			err = fmt.Errorf("expected a text and a score, found %d values", parts)
		}
		if err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
		if m.ids = append(m.ids, uint32(i)); i == 0 || m.scores[i] < least {
			least = m.scores[i]
		}
		return nil
	})
	m.most = len(m.ids)
	return least, err
}

func (m *unigram) Bytes() bool             { return false }
func (m *unigram) Size() (count, most int) { return len(m.ids), len(m.ids) }

func (m *unigram) Lookup(text string) (uint32, bool) {
	e := m.trie.find(text)
	return e, e != none
}

func (m *unigram) Text(id uint32) (string, bool) {
	if int(id) >= len(m.ids) {
		return "", false
	}
	return m.entry(id), true
}

// node is the best way to the end of a byte.
type node struct {
	score float64
	from  int32 // where its last token begins; -1: there is no way yet
	id    uint32
}

func (m *unigram) Tokenize(out []Token, piece string, _ bool, s *Scratch) ([]Token, error) {
	if err := m.search(piece, s); err != nil {
		return out, err
	}
	// Backward, then turned round. Unknown tokens beside each other are one.
	first := len(out)
	for end := int32(len(piece)); end > 0; {
		n := s.nodes[end]
		if n.id != m.unknown {
			out = append(out, Token{ID: n.id, Start: n.from, End: end})
			end = n.from
			continue
		}
		from := n.from
		for from > 0 && s.nodes[from].id == m.unknown {
			from = s.nodes[from].from
		}
		out = m.unknownPart(out, piece, from, end)
		end = from
	}
	for i, k := first, len(out)-1; i < k; i, k = i+1, k-1 {
		out[i], out[k] = out[k], out[i]
	}
	return out, nil
}

// search finds the best ways.
func (m *unigram) search(piece string, s *Scratch) error {
	size := len(piece) + 1
	if cap(s.nodes) < size {
		s.nodes = make([]node, size+size/4)
	}
	s.nodes = s.nodes[:size]
	for i := range s.nodes {
		s.nodes[i].from = -1
	}
	s.nodes[0].score, s.nodes[0].id = 0, none
	for from, steps := 0, 1; from < len(piece); steps++ {
		if steps%checkEvery == 0 {
			if err := s.check(); err != nil {
				return err
			}
		}
		width := 1
		if piece[from] >= utf8.RuneSelf {
			_, width = utf8.DecodeRuneInString(piece[from:])
		}
		if !m.extend(piece, from, width, s.nodes) {
			to := &s.nodes[from+width]
			if score := m.unkScore + s.nodes[from].score; to.from < 0 || score > to.score {
				if m.unknown == none {
					return unknownError(piece[from:from+width], "")
				}
				*to = node{score, int32(from), m.unknown}
			}
		}
		from += width
	}
	return nil
}

// extend goes on from a place by all entries that the text has there. It reports whether one is the character.
func (m *unigram) extend(piece string, from, width int, nodes []node) bool {
	single := false
	before := nodes[from].score
	for x, at := uint32(0), from; at < len(piece); {
		if x, at = m.trie.step(x, piece, at); x == 0 {
			break
		}
		e := m.trie.nodes[x].entry
		if e == none {
			continue
		}
		to := &nodes[at]
		if score := m.scores[e] + before; to.from < 0 || score > to.score {
			*to = node{score, int32(from), e}
		}
		single = single || at == from+width
	}
	return single
}

// unknownPart appends, backward, the tokens of a part that no entry is chosen for.
func (m *unigram) unknownPart(out []Token, piece string, from, end int32) []Token {
	part := piece[from:end]
	if e := m.trie.find(part); e != none {
		return append(out, Token{ID: e, Start: from, End: end})
	}
	if m.fallsBack && m.allFallBack(part) {
		for i := len(part) - 1; i >= 0; i-- {
			out = append(out, Token{ID: m.fallback[part[i]], Start: from, End: end})
		}
		return out
	}
	return append(out, Token{ID: m.unknown, Start: from, End: end, Text: true})
}

func (m *unigram) allFallBack(s string) bool {
	for i := range len(s) {
		if m.fallback[s[i]] == none {
			return false
		}
	}
	return true
}
