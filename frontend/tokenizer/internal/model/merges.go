package model

import (
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/essmc/essmc/frontend/tokenizer/internal/jsontext"
)

// mergeTable finds merges by their two tokens: open addressing. Its places depend on random numbers, so that no file
// can make them collide.
type mergeTable struct {
	slots []merge
	used  int
	seed  [2]uint64
}

// merge is a merge of two tokens.
type merge struct {
	pair uint64 // the tokens; emptyPair: no merge
	rank uint32
	id   uint32 // the token of both
}

const emptyPair = ^uint64(0)

func pairOf(a, b uint32) uint64 { return uint64(a)<<32 | uint64(b) }

func newMergeTable(merges int) mergeTable {
	t := mergeTable{seed: [2]uint64{rand.Uint64(), rand.Uint64() | 1}}
	size := 8
	for size*3 < merges*4 {
		size *= 2
	}
	t.slots = emptyMerges(size)
	return t
}

func emptyMerges(n int) []merge {
	s := make([]merge, n)
	for i := range s {
		s[i].pair = emptyPair
	}
	return s
}

// at returns the place of a pair, or the empty one where it would be.
func (t *mergeTable) at(pair uint64) *merge {
	hi, lo := bits.Mul64(pair^t.seed[0], t.seed[1])
	mask := uint64(len(t.slots) - 1)
	for i := (hi ^ lo) & mask; ; i = (i + 1) & mask {
		if m := &t.slots[i]; m.pair == pair || m.pair == emptyPair {
			return m
		}
	}
}

// put notes a merge. Of equal pairs the last one counts.
func (t *mergeTable) put(m merge) {
	if 4*(t.used+1) > 3*len(t.slots) {
		old := t.slots
		t.slots = emptyMerges(2 * len(old))
		for _, m := range old {
			if m.pair != emptyPair {
				*t.at(m.pair) = m
			}
		}
	}
	at := t.at(m.pair)
	if at.pair == emptyPair {
		t.used++
	}
	*at = m
}

// readMerges reads merges in both notations: "a b" and ["a", "b"].
func (m *bpe) readMerges(v jsontext.Value) error {
	if v.Kind() != jsontext.Array {
		return fmt.Errorf("merges: expected an array, found %s", v.Name())
	}
	n := v.Len()
	if n*44 > 3*len(v) { // short texts, most of which must be twice: the table grows when they are not
		n = 0
	}
	m.merges = newMergeTable(n)
	var a, b, both []byte
	rank := uint32(0)
	return v.Items(func(i int, v jsontext.Value) error {
		var err error
		if a, b, err = mergePair(v, a[:0], b[:0]); err != nil {
			return fmt.Errorf("merges: %d: %w", i, err)
		}
		if a == nil {
			return nil // a line that states the version
		}
		left, okA := m.lookup(view(a))
		right, okB := m.lookup(view(b))
		both = append(append(both[:0], a...), b[min(len(m.prefix), len(b)):]...)
		id, ok := m.lookup(view(both))
		if !okA || !okB || !ok || len(b) < len(m.prefix) {
			return fmt.Errorf("merges: %d: %.60q and %.60q: expected two tokens whose union is in the vocabulary", i, a,
				b)
		}
		m.merges.put(merge{pairOf(left, right), rank, id})
		rank++
		return nil
	})
}

// mergePair reads the two texts of a merge; nil for a line that states the version of a file.
func mergePair(v jsontext.Value, a, b []byte) ([]byte, []byte, error) {
	switch v.Kind() {
	case jsontext.String:
		a = v.Text(a)
		if bytes.HasPrefix(a, []byte("#version")) {
			return nil, b, nil
		}
		left, right, ok := bytes.Cut(a, []byte(" "))
		if !ok || bytes.IndexByte(right, ' ') >= 0 {
			return a, b, fmt.Errorf("expected two tokens with a space between them, found %.60q", a)
		}
		return left, append(b, right...), nil
	case jsontext.Array:
		n := 0
		err := v.Items(func(i int, v jsontext.Value) error {
			n++
			switch {
			case v.Kind() != jsontext.String:
				return fmt.Errorf("expected a string, found %s", v.Name())
			case i == 0:
				a = v.Text(a)
			case i == 1:
				b = v.Text(b)
			}
			return nil
		})
		if err == nil && n != 2 {
			err = fmt.Errorf("expected two tokens, found %d", n)
		}
		return a, b, err
	}
	return a, b, fmt.Errorf("expected a string or an array, found %s", v.Name())
}
