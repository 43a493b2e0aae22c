package model

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Limits of the words that a model remembers.
const (
	maxCached = 48
	cacheBits = 14
)

// cache remembers the tokens of short words. It has one place for a word, which the last one takes, so it is bounded;
// the tokens do not depend on it. It is safe for concurrent use.
type cache struct {
	once  sync.Once
	seed  maphash.Seed
	words *[2 << cacheBits]atomic.Pointer[word]
}

// word is the tokens of a word.
type word struct {
	text string
	ids  []uint32
	ends []uint32
}

func (c *cache) place(text string, bytes bool) *atomic.Pointer[word] {
	c.once.Do(func() {
		c.seed = maphash.MakeSeed()
		c.words = new([2 << cacheBits]atomic.Pointer[word])
	})
	at := maphash.String(c.seed, text) & (1<<cacheBits - 1)
	if bytes {
		at += 1 << cacheBits
	}
	return &c.words[at]
}

// find returns the tokens of a word; nil if they are not known.
func (c *cache) find(text string, bytes bool) *word {
	if w := c.place(text, bytes).Load(); w != nil && w.text == text {
		return w
	}
	return nil
}

// keep notes the tokens of a word that are in s.
func (c *cache) keep(text string, bytes bool, s *Scratch) {
	n := len(s.ids)
	all := make([]uint32, 2*n)
	copy(all, s.ids)
	copy(all[n:], s.ends)
	b := []byte(text)
	c.place(text, bytes).Store(&word{view(b), all[:n:n], all[n:]})
}

func (w *word) tokens(out []Token) []Token {
	from := int32(0)
	for i, id := range w.ids {
		end := int32(w.ends[i])
		out = append(out, Token{ID: id, Start: from, End: end})
		from = end
	}
	return out
}
