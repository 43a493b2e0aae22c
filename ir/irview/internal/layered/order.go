package layered

import (
	"cmp"
	"slices"
)

// order decides the order of the items in each row. It starts with a walk along the edges, and then moves items to the
// mean of their neighbors, down and up in turn. The order with the fewest crossings is taken.
func (p *placer) order() {
	seen := make([]bool, len(p.items))
	for root := range p.sizes {
		for stack := []int{root}; len(stack) > 0; {
			v := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[v] {
				continue
			}
			seen[v] = true
			r := p.items[v].rank
			p.items[v].pos = len(p.rows[r])
			p.rows[r] = append(p.rows[r], v)
			for _, to := range slices.Backward(p.items[v].down) {
				stack = append(stack, to)
			}
		}
	}
	best, fewest := p.snapshot(), p.crossings()
	for i := 0; i < sweeps && fewest > 0; i++ {
		p.sweep(i%2 == 0)
		p.swap()
		if k := p.crossings(); k < fewest {
			best, fewest = p.snapshot(), k
		}
	}
	for r, row := range best {
		p.setRow(r, row)
	}
}

func (p *placer) snapshot() [][]int {
	out := make([][]int, len(p.rows))
	for r, row := range p.rows {
		out[r] = slices.Clone(row)
	}
	return out
}

func (p *placer) setRow(r int, row []int) {
	p.rows[r] = row
	for pos, i := range row {
		p.items[i].pos = pos
	}
}

// sweep sorts each row by the means of the positions in the row before.
func (p *placer) sweep(down bool) {
	mean := make([]float64, len(p.items))
	for k := range p.rows {
		r := k
		if !down {
			r = len(p.rows) - 1 - k
		}
		row := slices.Clone(p.rows[r])
		for _, i := range row {
			near := p.items[i].up
			if !down {
				near = p.items[i].down
			}
			mean[i] = float64(p.items[i].pos)
			if len(near) > 0 {
				sum := 0
				for _, j := range near {
					sum += p.items[j].pos
				}
				mean[i] = float64(sum) / float64(len(near))
			}
		}
		slices.SortStableFunc(row, func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
		p.setRow(r, row)
	}
}

// swap exchanges neighbors where that removes crossings.
func (p *placer) swap() {
	for r, row := range p.rows {
		for k := 0; k+1 < len(row); k++ {
			a, b := row[k], row[k+1]
			if p.between(a, b) > p.between(b, a) {
				row[k], row[k+1] = b, a
				p.items[a].pos, p.items[b].pos = k+1, k
			}
		}
		p.rows[r] = row
	}
}

// maxPairs bounds the work of counting the crossings of two items.
const maxPairs = 1 << 12

// between counts the crossings of the edges of two items of a row, the first of which is to the left.
func (p *placer) between(a, b int) (n int) {
	count := func(x, y []int) {
		if len(x)*len(y) > maxPairs {
			return
		}
		for _, i := range x {
			for _, j := range y {
				if p.items[i].pos > p.items[j].pos {
					n++
				}
			}
		}
	}
	count(p.items[a].up, p.items[b].up)
	count(p.items[a].down, p.items[b].down)
	return n
}

// crossings counts the crossings of all edges between neighboring rows, by a sum tree over the lower row.
func (p *placer) crossings() (n int) {
	for r := 0; r+1 < len(p.rows); r++ {
		tree := make([]int, len(p.rows[r+1])+1)
		seen := 0
		var ends []int
		for _, i := range p.rows[r] {
			ends = ends[:0]
			for _, j := range p.items[i].down {
				ends = append(ends, p.items[j].pos)
			}
			for _, at := range ends {
				left := 0 // edges seen so far that end at or before it
				for k := at + 1; k > 0; k -= k & -k {
					left += tree[k]
				}
				n += seen - left
			}
			for _, at := range ends {
				for k := at + 1; k < len(tree); k += k & -k {
					tree[k]++
				}
				seen++
			}
		}
	}
	return n
}
