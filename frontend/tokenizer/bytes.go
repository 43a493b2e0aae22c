package tokenizer

import (
	"container/heap"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shown has the character that stands for each byte in a file: the byte's own where that can be printed, and others from
// U+0100 on, in order.
var shown = func() (all [256]rune) {
	next := rune(256)
	for i := range all {
		if i >= '!' && i <= '~' || i >= 0xa1 && i <= 0xac || i >= 0xae {
			all[i] = rune(i)
		} else {
			all[i] = next
			next++
		}
	}
	return all
}()

var byteOf = func() map[rune]byte {
	m := map[rune]byte{}
	for i, r := range shown {
		m[r] = byte(i)
	}
	return m
}()

// raw returns the bytes that the characters of a file stand for; false if one stands for none.
func raw(s string) (string, bool) {
	var b strings.Builder
	for _, r := range s {
		v, ok := byteOf[r]
		if !ok {
			return "", false
		}
		b.WriteByte(v)
	}
	return b.String(), true
}

// word returns the length of the first word of a text, as GPT-2 divides it:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func word(s string) int {
	for _, short := range []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if strings.HasPrefix(s, short) {
			return len(short)
		}
	}
	at := 0
	if s[0] == ' ' {
		at = 1
	}
	if r, _ := utf8.DecodeRuneInString(s[at:]); at < len(s) && !unicode.IsSpace(r) {
		k := kind(r)
		for at < len(s) {
			r, n := utf8.DecodeRuneInString(s[at:])
			if unicode.IsSpace(r) || kind(r) != k {
				break
			}
			at += n
		}
		return at
	}
	// White space: all of it at the end of the text, and otherwise all but the last character, which may begin a word.
	end, last := 0, 0
	for end < len(s) {
		r, n := utf8.DecodeRuneInString(s[end:])
		if !unicode.IsSpace(r) {
			break
		}
		last = end
		end += n
	}
	if end < len(s) && last > 0 {
		return last
	}
	return end
}

// kind tells letters, numbers and other characters apart.
func kind(r rune) int {
	switch {
	case unicode.IsLetter(r):
		return 1
	case unicode.IsNumber(r):
		return 2
	}
	return 0
}

// symbol is a part of a word that merges make longer.
type symbol struct {
	text       string
	prev, next int
}

// candidate is a pair of neighbours that may be merged.
type candidate struct {
	rank, left int
	text       string // of both, when the candidate was found
}

type queue []candidate

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].rank < q[j].rank || q[i].rank == q[j].rank && q[i].left < q[j].left
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// merge appends the tokens of a word: it merges the neighbours of the lowest rank, the first ones of equal rank, until there
// are none.
func (t *Tokenizer) merge(out []int64, w string) []int64 {
	if id, ok := t.ids[w]; ok && len(w) == 1 {
		return append(out, id)
	}
	parts := make([]symbol, len(w))
	for i := range parts {
		parts[i] = symbol{w[i : i+1], i - 1, i + 1}
	}
	var q queue
	consider := func(left int) {
		if left < 0 || parts[left].next >= len(parts) {
			return
		}
		a, b := parts[left].text, parts[parts[left].next].text
		if rank, ok := t.ranks[[2]string{a, b}]; ok {
			heap.Push(&q, candidate{rank, left, a + b})
		}
	}
	for i := range parts {
		consider(i)
	}
	for q.Len() > 0 {
		c := heap.Pop(&q).(candidate)
		left := &parts[c.left]
		if left.text == "" || left.next >= len(parts) || len(left.text)+len(parts[left.next].text) != len(c.text) ||
			t.rank(left.text, parts[left.next].text) != c.rank {
			continue // one of the two has been merged
		}
		right := &parts[left.next]
		left.text, left.next = c.text, right.next
		right.text = ""
		if left.next < len(parts) {
			parts[left.next].prev = c.left
		}
		consider(left.prev)
		consider(c.left)
	}
	for i := 0; i < len(parts); i = parts[i].next {
		out = append(out, t.ids[parts[i].text])
	}
	return out
}

func (t *Tokenizer) rank(a, b string) int {
	if r, ok := t.ranks[[2]string{a, b}]; ok {
		return r
	}
	return -1
}
