package model

// shortPiece is the number of tokens up to which the merge of the lowest rank is found by looking at all.
const shortPiece = 48

// mergeShort merges the tokens in s, until there are no neighbours with a merge: the lowest rank first, the leftmost of
// equal ones. It needs a time with the square of their number.
func (m *bpe) mergeShort(s *Scratch) {
	ids, ends := s.ids, s.ends
	n := len(ids)
	if cap(s.ranks) < n {
		s.ranks = make([]uint32, shortPiece)
	}
	ranks := s.ranks[:n]
	best, at := none, 0
	for i := range n - 1 {
		r := m.merges.at(pairOf(ids[i], ids[i+1])).found()
		ranks[i] = r
		if r < best {
			best, at = r, i
		}
	}
	for best != none {
		ids[at] = m.merges.at(pairOf(ids[at], ids[at+1])).id
		ends[at] = ends[at+1]
		copy(ids[at+1:n-1], ids[at+2:n])
		copy(ends[at+1:n-1], ends[at+2:n])
		copy(ranks[at:n-2], ranks[at+1:n-1])
		n--
		if at > 0 {
			ranks[at-1] = m.merges.at(pairOf(ids[at-1], ids[at])).found()
		}
		if at < n-1 {
			ranks[at] = m.merges.at(pairOf(ids[at], ids[at+1])).found()
		}
		best = none
		for i, r := range ranks[:n-1] {
			if r < best {
				best, at = r, i
			}
		}
	}
	s.ids, s.ends = ids[:n], ends[:n]
}

// found returns the rank of a merge; none if the place is empty.
func (m *merge) found() uint32 {
	if m.pair == emptyPair {
		return none
	}
	return m.rank
}

// symbol is a token of a piece that merges make longer.
type symbol struct {
	id, end    uint32
	prev, next int32 // -1: none
	gone       bool  // the symbol before has it
}

// candidate is a merge that was possible when it was found.
type candidate struct {
	rank, at, id uint32
}

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

// mergeLong does what mergeShort does, in a time of n log n. Where two texts of the vocabulary have one token it does
// what the Rust library does, which takes a merge for that found earlier if they give one token.
func (m *bpe) mergeLong(s *Scratch) error {
	n := len(s.ids)
	s.symbols, s.heap = s.symbols[:0], s.heap[:0]
	for i, id := range s.ids {
		s.symbols = append(s.symbols, symbol{id: id, end: s.ends[i], prev: int32(i) - 1, next: int32(i) + 1})
	}
	if n > 0 {
		s.symbols[n-1].next = -1
	}
	for i := range n - 1 {
		if i%checkEvery == 0 {
			if err := s.check(); err != nil {
				return err
			}
		}
		if c := m.merges.at(pairOf(s.ids[i], s.ids[i+1])); c.pair != emptyPair {
			s.heap = append(s.heap, candidate{c.rank, uint32(i), c.id})
		}
	}
	for i := len(s.heap)/2 - 1; i >= 0; i-- {
		s.down(i)
	}
	for steps := 1; len(s.heap) > 0; steps++ {
		if steps%checkEvery == 0 {
			if err := s.check(); err != nil {
				return err
			}
		}
		m.mergeOne(s, s.pop())
	}
	s.ids, s.ends = s.ids[:0], s.ends[:0]
	for i := 0; i < n; i++ {
		if x := s.symbols[i]; !x.gone {
			s.ids, s.ends = append(s.ids, x.id), append(s.ends, x.end)
		}
	}
	return nil
}

func (m *bpe) mergeOne(s *Scratch, c candidate) {
	left := &s.symbols[c.at]
	if left.gone || left.next < 0 {
		return
	}
	right := &s.symbols[left.next]
	if now := m.merges.at(pairOf(left.id, right.id)); now.pair == emptyPair || now.id != c.id {
		return
	}
	left.id, left.end, left.next = c.id, right.end, right.next
	right.gone = true
	if left.next >= 0 {
		s.symbols[left.next].prev = int32(c.at)
		m.push(s, int32(c.at))
	}
	if left.prev >= 0 {
		m.push(s, left.prev)
	}
}

// push notes the merge of a symbol with the one behind it, if there is one.
func (m *bpe) push(s *Scratch, at int32) {
	x := s.symbols[at]
	c := m.merges.at(pairOf(x.id, s.symbols[x.next].id))
	if c.pair == emptyPair {
		return
	}
	s.heap = append(s.heap, candidate{c.rank, uint32(at), c.id})
	h := s.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (s *Scratch) pop() candidate {
	top := s.heap[0]
	last := len(s.heap) - 1
	s.heap[0] = s.heap[last]
	s.heap = s.heap[:last]
	s.down(0)
	return top
}

func (s *Scratch) down(i int) {
	h := s.heap
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
