package model

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// trie finds the entries of a vocabulary that a text begins with. A step to a child takes all bytes up to where entries
// differ or end, so there are at most two nodes for an entry. The children of a node lie behind each other, in the
// order of their first bytes.
type trie struct {
	nodes []trieNode
	first []byte      // the first byte of each node's label
	root  [256]uint32 // the children of the root; 0: none
	text  []byte      // of the vocabulary: labels are parts of it
	size  int         // number of different entries
}

type trieNode struct {
	label, length uint32 // the bytes that lead to the node, behind the first one
	child         uint32 // the first child
	kids          uint32
	entry         uint32 // the entry that ends here; none
}

// newTrie makes the trie of the entries that begin with a prefix, without it. Of equal texts the last entry counts.
func (t *Vocab) newTrie(prefix string) *trie {
	var order []uint32
	n := 0
	for i := range t.ends {
		if strings.HasPrefix(t.entry(uint32(i)), prefix) {
			n++
		}
	}
	order = make([]uint32, 0, n)
	for i := range t.ends {
		if strings.HasPrefix(t.entry(uint32(i)), prefix) {
			order = append(order, uint32(i))
		}
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return cmp.Or(strings.Compare(t.entry(a), t.entry(b)), cmp.Compare(a, b))
	})
	same := order[:0]
	for i, e := range order {
		if i+1 == len(order) || t.entry(order[i+1]) != t.entry(e) {
			same = append(same, e)
		}
	}
	b := trieBuilder{v: t, order: same, t: &trie{text: t.text, size: len(same)}, base: len(prefix)}
	b.build()
	return b.t
}

type trieBuilder struct {
	v     *Vocab
	order []uint32
	t     *trie
	base  int // the length of the prefix
}

// count returns the number of nodes.
func (b *trieBuilder) count() int {
	n, before := 1, ""
	path := []int{b.base} // the lengths of the nodes on the way to the entry before
	for _, e := range b.order {
		s := b.v.entry(e)
		common := b.base
		for common < len(s) && common < len(before) && s[common] == before[common] {
			common++
		}
		for path[len(path)-1] > common {
			path = path[:len(path)-1]
		}
		if path[len(path)-1] < common {
			n, path = n+1, append(path, common)
		}
		if len(s) > path[len(path)-1] {
			n, path = n+1, append(path, len(s))
		}
		before = s
	}
	return n
}

// build makes nodes level by level. As long as a node has not been looked at, its child and its kids are the range of
// the entries below it.
func (b *trieBuilder) build() {
	t := b.t
	n := b.count()
	t.nodes, t.first = make([]trieNode, 1, n), make([]byte, 1, n)
	t.nodes[0] = trieNode{kids: uint32(len(b.order)), entry: none}
	for x := 0; x < len(t.nodes); x++ {
		from, to, depth := t.nodes[x].child, t.nodes[x].kids, b.base
		if x > 0 {
			e := b.order[from]
			depth = int(t.nodes[x].label+t.nodes[x].length) - (int(b.v.ends[e]) - len(b.v.entry(e)))
		}
		if from < to && len(b.at(from)) == depth {
			t.nodes[x].entry = b.order[from]
			from++
		}
		t.nodes[x].child, t.nodes[x].kids = uint32(len(t.nodes)), 0
		for from < to {
			t.nodes[x].kids++
			from = b.kid(from, to, depth)
		}
	}
	for y := t.nodes[0].child; y < t.nodes[0].child+t.nodes[0].kids; y++ {
		t.root[t.first[y]] = y
	}
}

func (b *trieBuilder) at(i uint32) string { return b.v.entry(b.order[i]) }

// kid adds the child with the first of the entries from `from` to `to`, and returns where those of the next one begin.
func (b *trieBuilder) kid(from, to uint32, begin int) uint32 {
	first := b.at(from)
	c := first[begin]
	next := from + uint32(searchByte(int(to-from), func(i int) byte { return b.at(from + uint32(i))[begin] }, c))
	last := b.at(next - 1)
	depth := begin + 1
	for depth < len(first) && depth < len(last) && first[depth] == last[depth] {
		depth++
	}
	start := int(b.v.ends[b.order[from]]) - len(first)
	b.t.nodes = append(b.t.nodes, trieNode{
		label: uint32(start + begin + 1), length: uint32(depth - begin - 1), child: from, kids: next, entry: none,
	})
	b.t.first = append(b.t.first, c)
	return next
}

// searchByte returns the number of the leading places that have the byte c; the bytes are in order, and the first is c.
func searchByte(n int, at func(int) byte, c byte) int {
	lo, hi := 1, n
	for lo < hi {
		if mid := (lo + hi) / 2; at(mid) > c {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// step goes from node x to the child that the text at byte `at` leads to, and returns the byte behind; 0 if there is
// none.
func (t *trie) step(x uint32, s string, at int) (uint32, int) {
	var y uint32
	if x == 0 {
		if y = t.root[s[at]]; y == 0 {
			return 0, at
		}
	} else {
		n := &t.nodes[x]
		switch n.kids {
		case 0:
			return 0, at
		case 1:
			y = n.child
			if t.first[y] != s[at] {
				return 0, at
			}
		default:
			i := bytes.IndexByte(t.first[n.child:n.child+n.kids], s[at])
			if i < 0 {
				return 0, at
			}
			y = n.child + uint32(i)
		}
	}
	at++
	n := &t.nodes[y]
	if n.length == 0 {
		return y, at
	}
	if len(s)-at < int(n.length) {
		return 0, at
	}
	for i, c := range t.text[n.label : n.label+n.length] {
		if s[at+i] != c {
			return 0, at
		}
	}
	return y, at + int(n.length)
}

// longest returns the longest entry that a text begins with, and its length, which is not 0; none if there is no entry.
func (t *trie) longest(s string) (entry uint32, n int) {
	entry = none
	for x, at := uint32(0), 0; at < len(s); {
		if x, at = t.step(x, s, at); x == 0 {
			break
		}
		if e := t.nodes[x].entry; e != none {
			entry, n = e, at
		}
	}
	return entry, n
}

// find returns the entry that is the text; none if there is none.
func (t *trie) find(s string) uint32 {
	x, at := uint32(0), 0
	for at < len(s) {
		if x, at = t.step(x, s, at); x == 0 {
			return none
		}
	}
	return t.nodes[x].entry
}
