package model

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"unsafe"

	"github.com/essmc/essmc/frontend/tokenizer/internal/jsontext"
)

// MaxTokens is one more than the largest token of a vocabulary.
const MaxTokens = 1 << 24

// none marks the absence of a token.
const none = ^uint32(0)

// Vocab is a vocabulary: texts and their tokens. Texts lie behind each other in one slice, so that a vocabulary takes
// little more memory than its file.
type Vocab struct {
	text   []byte   // of all entries
	ends   []uint32 // the end of each entry's text
	ids    []uint32 // the token of each entry
	byID   []uint32 // entries in the order of tokens; of equal tokens the last entry is used
	slots  []uint32 // open addressing: entries by text, plus 1; nil in vocabularies with a trie
	seed   maphash.Seed
	most   int  // one more than the largest token
	shared bool // two texts have one token
}

// readVocab reads an object of texts and tokens. Of equal texts the last one counts.
func readVocab(v jsontext.Value) (*Vocab, error) {
	n := v.Len()
	t := &Vocab{ids: make([]uint32, 0, n)}
	t.reserve(n, len(v)-min(5*n, len(v)))
	err := v.Fields(func(key []byte, v jsontext.Value) error {
		id, err := v.Int(MaxTokens - 1)
		if err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		t.append(key)
		t.ids = append(t.ids, uint32(id))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// reserve makes room for entries, and for bytes of their texts.
func (t *Vocab) reserve(entries, bytes int) {
	t.text = make([]byte, 0, bytes)
	t.ends = make([]uint32, 0, entries)
}

func (t *Vocab) append(text []byte) {
	t.text = append(t.text, text...)
	t.ends = append(t.ends, uint32(len(t.text)))
}

// index makes the tables by text and by token.
func (t *Vocab) index(hash bool) {
	if hash {
		t.hash()
	}
	t.byID = make([]uint32, len(t.ids))
	for i := range t.byID {
		t.byID[i] = uint32(i)
	}
	slices.SortFunc(t.byID, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(t.ids[a], t.ids[b]), cmp.Compare(a, b))
	})
	for i, e := range t.byID {
		t.shared = t.shared || i > 0 && t.ids[t.byID[i-1]] == t.ids[e] && t.entry(t.byID[i-1]) != t.entry(e)
	}
	if n := len(t.byID); n > 0 {
		t.most = int(t.ids[t.byID[n-1]]) + 1
	}
}

// hash makes the table by text. Its places depend on a random seed, so that no file can make them collide.
func (t *Vocab) hash() {
	t.seed = maphash.MakeSeed()
	size := 8
	for size < len(t.ends)*4/3 {
		size *= 2
	}
	t.slots = make([]uint32, size)
	for i := range t.ends {
		s := t.entry(uint32(i))
		at := t.place(s)
		for t.slots[at] != 0 && t.entry(t.slots[at]-1) != s {
			at = (at + 1) & (len(t.slots) - 1)
		}
		t.slots[at] = uint32(i) + 1
	}
}

func (t *Vocab) place(s string) int { return int(maphash.String(t.seed, s)) & (len(t.slots) - 1) }

// entry returns the text of an entry.
func (t *Vocab) entry(i uint32) string {
	from := uint32(0)
	if i > 0 {
		from = t.ends[i-1]
	}
	return view(t.text[from:t.ends[i]])
}

// lookup returns the token of a text.
func (t *Vocab) lookup(s string) (uint32, bool) {
	for at := t.place(s); t.slots[at] != 0; at = (at + 1) & (len(t.slots) - 1) {
		if e := t.slots[at] - 1; t.entry(e) == s {
			return t.ids[e], true
		}
	}
	return 0, false
}

// token returns the text of a token.
func (t *Vocab) token(id uint32) (string, bool) {
	// Tokens without gaps are at their own place.
	if int(id) < len(t.byID) {
		if e := t.byID[id]; t.ids[e] == id && (int(id)+1 == len(t.byID) || t.ids[t.byID[id+1]] != id) {
			return t.entry(e), true
		}
	}
	after, _ := slices.BinarySearchFunc(t.byID, id+1, func(e, id uint32) int { return cmp.Compare(t.ids[e], id) })
	if after > 0 && t.ids[t.byID[after-1]] == id {
		return t.entry(t.byID[after-1]), true
	}
	return "", false
}

// size returns the number of different texts.
func (t *Vocab) size() int {
	n := 0
	for _, e := range t.slots {
		if e != 0 {
			n++
		}
	}
	return n
}

// view is b as a string; b must not change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
