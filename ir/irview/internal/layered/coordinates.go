package layered

import "math"

// coordinates gives each item the middle of its neighbors as far as the other items of its row allow: rows are fitted
// one after another by least squares, under the distances that they need.
func (p *placer) coordinates() {
	for _, row := range p.rows {
		x := 0.0
		for k, i := range row {
			if k > 0 {
				x += p.distance(row[k-1], i)
			}
			p.items[i].x = x
		}
		for _, i := range row {
			p.items[i].x -= x / 2
		}
	}
	for i := range sweeps {
		for k := range p.rows {
			if i%2 == 0 {
				p.fit(k, true, false)
			} else {
				p.fit(len(p.rows)-1-k, false, true)
			}
		}
	}
	for range 2 { // lanes between both of their ends
		for k := range p.rows {
			p.fit(k, true, true)
		}
	}
	p.straighten()
}

// distance is the least one between the middles of neighbors.
func (p *placer) distance(a, b int) float64 {
	gap := nodeGap
	if p.items[a].node < 0 || p.items[b].node < 0 {
		gap = laneGap
	}
	return (p.items[a].w+p.items[b].w)/2 + gap
}

// Nodes where branches meet are pulled to the middle of the drawing. Otherwise a network whose blocks are not symmetric
// would move aside with each block.
const pull, maxPull = 0.15, 60

// wish returns the place that an item wants, by its neighbors, and how much: nodes follow nodes before lanes, so that
// the trunk of a network is straight, and lanes follow themselves.
func (p *placer) wish(i int, up, down bool) (x, weight float64) {
	it := &p.items[i]
	var sum [2]float64
	var n [2]int
	add := func(near []int) {
		for _, j := range near {
			kind := 0
			if p.items[j].node < 0 {
				kind = 1
			}
			sum[kind] += p.items[j].x
			n[kind]++
		}
	}
	if up {
		add(it.up)
	}
	if down {
		add(it.down)
	}
	switch lane := it.node < 0; {
	case lane && n[1] > 0:
		return sum[1] / float64(n[1]), 4
	case lane && n[0] > 0:
		return sum[0] / float64(n[0]), 0.2
	case n[0] == 1:
		return sum[0], 40
	case n[0] > 1:
		x := sum[0] / float64(n[0])
		return x - min(max(pull*x, -maxPull), maxPull), 12
	case n[1] > 0:
		return sum[1] / float64(n[1]), 0.7
	}
	return it.x, 0.1
}

// fit places a row: Σ weight·(x - wish)² is least where neighbors keep their distances. Less the distances from the
// first item, this is a regression by a sequence that does not fall (pool adjacent violators).
func (p *placer) fit(r int, up, down bool) {
	row := p.rows[r]
	type block struct {
		sum, weight float64
		n           int
	}
	var blocks []block
	offset := make([]float64, len(row))
	for k, i := range row {
		if k > 0 {
			offset[k] = offset[k-1] + p.distance(row[k-1], i)
		}
		x, w := p.wish(i, up, down)
		blocks = append(blocks, block{float64(w * (x - offset[k])), w, 1})
		for n := len(blocks); n > 1 && blocks[n-2].sum*blocks[n-1].weight > blocks[n-1].sum*blocks[n-2].weight; n-- {
			a, b := blocks[n-2], blocks[n-1]
			blocks = append(blocks[:n-2], block{a.sum + b.sum, a.weight + b.weight, a.n + b.n})
		}
	}
	k := 0
	for _, b := range blocks {
		for range b.n {
			p.items[row[k]].x = b.sum/b.weight + offset[k]
			k++
		}
	}
}

// straighten removes small bends that nobody needs: lanes take the place of the one above where there is room, and so
// do nodes, with a single node above, if they are near it.
func (p *placer) straighten() {
	for _, row := range p.rows {
		for k, i := range row {
			it := &p.items[i]
			x, ok := p.above(i)
			if !ok || it.node >= 0 && math.Abs(x-it.x) > nodeGap {
				continue
			}
			if k > 0 && x-p.items[row[k-1]].x < p.distance(row[k-1], i) ||
				k+1 < len(row) && p.items[row[k+1]].x-x < p.distance(i, row[k+1]) {
				continue
			}
			it.x = x
		}
	}
}

// above returns the place of the only item of the same kind that is above an item.
func (p *placer) above(i int) (x float64, ok bool) {
	n := 0
	for _, j := range p.items[i].up {
		if (p.items[j].node < 0) == (p.items[i].node < 0) {
			x = p.items[j].x
			n++
		}
	}
	return x, n == 1
}
