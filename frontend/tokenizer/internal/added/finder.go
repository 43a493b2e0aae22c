// Package added finds the added tokens of a tokenizer in texts: the leftmost ones, the longest of those that begin at
// one place, in time in proportion to the text whatever the tokens are.
//
// It imports the standard library only.
package added

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Finder finds texts in texts. It is the automaton of Aho and Corasick over the texts read backward: at each byte,
// going from the end to the beginning, its state tells the longest text that begins there. It is immutable.
type Finder struct {
	nodes []node
	last  []byte      // the byte that leads to each node
	root  [256]uint32 // the nodes that one byte leads to; 0: none
	first [256]bool   // the bytes that texts begin with
	size  []int32     // of the texts
}

// node is a state: what the last bytes have in common with a text. The nodes that a byte leads to lie behind each
// other.
type node struct {
	child uint32
	kids  uint32
	fail  uint32 // the longest other state that the bytes read so far also have
	text  int32  // the longest text that ends here, or a fail has; -1
}

// New makes a finder of texts, which are not empty. Of equal texts the first one is found. The number of nodes, of 17
// bytes each, is at most `limit`, or the error says that the texts are too long.
func New(texts []string, limit int) (*Finder, error) {
	f := &Finder{size: make([]int32, len(texts))}
	order := make([]int32, len(texts))
	for i, s := range texts {
		order[i], f.size[i] = int32(i), int32(len(s))
		f.first[s[0]] = true
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(backward(texts[a], texts[b]), cmp.Compare(a, b)) })
	n := 1
	for i, o := range order {
		n += len(texts[o])
		if i > 0 {
			n -= common(texts[o], texts[order[i-1]])
		}
	}
	if n > limit {
		return nil, fmt.Errorf("expected texts of %d bytes at most, found %d", limit-1, n-1)
	}
	f.nodes, f.last = make([]node, 1, n), make([]byte, 1, n)
	f.build(texts, order)
	f.link()
	return f, nil
}

// common returns how many bytes at the ends of texts are equal.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// backward compares texts from their ends.
func backward(a, b string) int {
	for i := 1; i <= len(a) && i <= len(b); i++ {
		if x, y := a[len(a)-i], b[len(b)-i]; x != y {
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

// build makes the nodes, level by level, of texts in order. As long as a node has not been looked at, its child and its
// kids are the range of the texts below it, and its fail is their common length.
func (f *Finder) build(texts []string, order []int32) {
	f.nodes[0] = node{kids: uint32(len(order)), text: -1}
	for x := 0; x < len(f.nodes); x++ {
		from, to, depth := f.nodes[x].child, f.nodes[x].kids, f.nodes[x].fail
		for from < to && f.size[order[from]] == int32(depth) {
			if f.nodes[x].text < 0 {
				f.nodes[x].text = order[from]
			}
			from++
		}
		f.nodes[x].child, f.nodes[x].kids, f.nodes[x].fail = uint32(len(f.nodes)), 0, 0
		at := func(i uint32) byte {
			t := texts[order[i]]
			return t[len(t)-1-int(depth)]
		}
		for from < to {
			c, lo, hi := at(from), from+1, to
			for lo < hi {
				if mid := (lo + hi) / 2; at(mid) > c {
					hi = mid
				} else {
					lo = mid + 1
				}
			}
			f.nodes[x].kids++
			f.nodes = append(f.nodes, node{child: from, kids: lo, fail: depth + 1, text: -1})
			f.last = append(f.last, c)
			from = lo
		}
	}
	for y := f.nodes[0].child; y < f.nodes[0].child+f.nodes[0].kids; y++ {
		f.root[f.last[y]] = y
	}
}

// link sets the fails, and the texts that they bring.
func (f *Finder) link() {
	for x := range f.nodes {
		n := f.nodes[x]
		for y := n.child; y < n.child+n.kids; y++ {
			kid := &f.nodes[y]
			if x > 0 {
				kid.fail = f.next(n.fail, f.last[y])
			}
			if kid.text < 0 {
				kid.text = f.nodes[kid.fail].text
			}
		}
	}
}

// next returns the state that a byte leads to.
func (f *Finder) next(x uint32, c byte) uint32 {
	for x != 0 {
		n := &f.nodes[x]
		if n.kids == 1 {
			if f.last[n.child] == c {
				return n.child
			}
		} else if i := bytes.IndexByte(f.last[n.child:n.child+n.kids], c); i >= 0 {
			return n.child + uint32(i)
		}
		x = n.fail
	}
	return f.root[c]
}

// Match is a text that was found.
type Match struct {
	Text       int // its place in the list
	Start, End int
}

// Find appends the matches in s, the leftmost and longest ones, which do not overlap.
func (f *Finder) Find(out []Match, s string) []Match {
	from := 0
	for from < len(s) && !f.first[s[from]] {
		from++
	}
	begin := len(out)
	x := uint32(0)
	for i := len(s) - 1; i >= from; i-- {
		if x == 0 {
			if x = f.root[s[i]]; x == 0 {
				continue
			}
		} else {
			x = f.next(x, s[i])
		}
		if t := f.nodes[x].text; t >= 0 {
			out = append(out, Match{int(t), i, i + int(f.size[t])})
		}
	}
	found := out[begin:]
	slices.Reverse(found)
	kept, end := begin, 0
	for _, m := range found {
		if m.Start >= end {
			out[kept], end = m, m.End
			kept++
		}
	}
	return out[:kept]
}
