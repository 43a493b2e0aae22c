package streaming

import (
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// Maximum numbers of heads per work item in chunks. A work item computes the products of b and c for its heads, so
// many heads mean less work, but few give enough work items.
const (
	chunkHeads     = 4
	chunkHeadsMost = 8
)

// Time chunks are whole numbers of the largest tiles, and so of chunks of the scan: answers do not depend on them.
const _ = -uint(record.LargestTile % kernel.SelectiveChunk)

// Forms estimates the scan, and products of chunks.
func (k *selective) Forms() []record.FormWork {
	rows, n, per := float64(k.Batch*k.Length), float64(k.scan.N), k.features/k.heads
	scan := record.FormWork{Form: essm.FormScan, Scanned: rows * float64(k.features) * n}
	chunked := record.FormWork{Form: essm.FormChunked}
	if !k.scan.Chunkable(per) {
		chunked.Why = "heads have several rates, or features that are not a multiple of a vector"
		return []record.FormWork{scan, chunked}
	}
	if k.growth.grows {
		chunked.Why = "states that grow may overflow within a chunk"
	}
	steps := float64(max(1, min(k.Length, kernel.SelectiveChunk)))
	heads := rows * float64(k.heads)
	p := float64(per)
	// Sums over the steps of a chunk up to each, half of them, between groups and heads; what states give, and take.
	chunked.Products = heads * (steps*n/chunkHeads + steps*p + 4*n*p)
	chunked.Moved = heads * (2*n + steps/2 + p + 3*n*p/steps)
	chunked.Calls = heads / steps
	chunked.Bytes = int64(k.Batch*k.heads/chunkHeads) * k.scan.ChunkBytes(per)
	return []record.FormWork{scan, chunked}
}

func (k *selective) Form() string {
	if k.chunked {
		return essm.FormChunked
	}
	return essm.FormScan
}

func (k *selective) Choose(form string) {
	k.chunked, k.blocks = form == essm.FormChunked, selectiveBlocks
	if k.chunked {
		heads := chunkHeads
		if k.Batch*k.heads >= 16*chunkHeads {
			heads = chunkHeadsMost
		}
		k.blocks = heads * k.scan.PerHead(k.features/k.heads)
	}
}

// perGroup returns the work items of a group of heads.
func (k *selective) perGroup() int {
	return (k.scan.Blocks()/k.scan.Groups() + k.blocks - 1) / k.blocks
}

// large reports whether a state is too large for products in float32, or not a number.
func (k *selective) large(sample, first, last int) bool {
	const most = 1e30
	for block := first; block < last; block++ {
		z, _ := k.states(sample, block)
		for _, v := range z {
			if !(v >= -most && v <= most) {
				return true
			}
		}
	}
	return false
}

// chunk computes steps of some heads by products. It returns false if a number does not fit, such as a negative step
// size. Such chunks go step by step, so that only steps after a NaN are NaN.
func (k *selective) chunk(w *record.Workspace, item, sample, first, last, from, steps int) bool {
	t := &k.tiles[item]
	if t.odd {
		return false
	}
	o, c := k.rowsFrom(sample, from), t.chunks
	per, n := k.features/k.heads, k.scan.N
	begin, _ := k.scan.Block(first)
	end, count := k.scan.Block(last - 1)
	end += count
	g := k.scan.Group(first) * n
	for r := range steps {
		b, x := r*k.shared+g, r*k.features
		if !c.Fits(o.b[b:b+n]) || !c.Fits(o.c[b:b+n]) || !c.Fits(o.x[x+begin:x+end]) {
			return false
		}
		for _, d := range o.delta[r*k.heads+begin/per : r*k.heads+end/per] {
			if !(d >= 0 && d <= stepMost) {
				return false
			}
		}
	}
	c.Begin(o.b[g:], o.c[g:], k.shared, steps)
	for block := first; block < last && !w.Stopped(); block += k.scan.PerHead(per) {
		e, _ := k.scan.Block(block)
		at := (sample*k.scan.Blocks() + block) * k.scan.States()
		c.Head(block, o.y[e:], o.x[e:], k.features, o.delta[e/per:], k.heads, k.z[at:at+per*n])
	}
	return true
}

// stepMost is the largest step size that a chunk may have.
const stepMost = 1e6
