package integers

import (
	"math"

	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// quadWeights are the filters of a convolution as signed bytes. They are multiplied by unsigned bytes: the inputs
// before subtraction of their zero point. To correct this, the sum of each filter's weights times the zero point is
// subtracted from its sums.
type quadWeights struct {
	parts      []*kernel.QuadFilters // at most quadFilters filters each, the same number per group
	first      []int                 // first filter of each
	more, less []int                 // per filter: the sum of the positive weights, and of the others' absolute values
}

// quadFilters is the maximum number of filters that are packed together.
const quadFilters = 128

// part returns the i-th of n parts of the filters, and its first filter.
func (q *quadWeights) part(i, n int) (first int, filters []*kernel.QuadFilters) {
	from, to := i*len(q.parts)/n, (i+1)*len(q.parts)/n
	return q.first[from], q.parts[from:to]
}

// quadKey identifies them. The programs of a model share them.
type quadKey struct{ filterKey }

// Maximum bytes of panels per work item, the usual number of operations, and the minimum number of panels: filters
// are read again for each.
const (
	quadBlock      = 3 << 17
	quadOperations = 1 << 25
	fewQuadPanels  = 8
)

// quadItem is the minimum number of operations of a work item, if there are fewer than quadItems: it takes
// microseconds, so threads share work.
const quadItem, quadItems = 1 << 22, 4

// quadParts returns the number of panels per work item, and the number of parts of a group's filters. There are mg
// filters per group with size weights each.
func quadParts(panels, mg, size, groups int) (per, parts int) {
	each := 2 * mg * size * kernel.PanelWidth // operations per panel
	per = max(fewQuadPanels, quadOperations/each)
	per = min(per, panels, max(2, quadBlock/(size*kernel.PanelWidth)))
	chunks := (panels + per - 1) / per
	per = (panels + chunks - 1) / chunks
	most := (mg + quadFilters - 1) / quadFilters
	parts = min(max(1, per*each/quadOperations), most)
	// Workers that multiply the same panels each make them once.
	wanted := min(quadItems, panels*each/quadItem*groups)
	if chunks *= groups; chunks > 0 && chunks*parts < wanted {
		parts = min((wanted+chunks-1)/chunks, most)
	}
	if chunks*parts < wanted {
		per = max(2, panels*parts*groups/wanted)
	}
	return per, parts
}

// quadWeights packs the filters. It returns nil if the machine has no such products, or if a weight minus its zero
// point has more than 8 bits.
func (c *integerConv) quadWeights(s *lowering.Step, key filterKey, zeros []int) *quadWeights {
	if !kernel.Quads() {
		return nil
	}
	k := c.cg * c.kh * c.kw
	return record.Of(s).Shared.Get(quadKey{key}, func() any {
		defer key.w.Release()
		b, mg, ok := bytesOf(key.w), c.m/c.group, true
		q := &quadWeights{more: make([]int, c.m), less: make([]int, c.m)}
		n := (mg + quadFilters - 1) / quadFilters // parts of a group
		for i := range c.group * n {
			from, to := i/n*mg+i%n*mg/n, i/n*mg+(i%n+1)*mg/n
			q.first = append(q.first, from)
			q.parts = append(q.parts, kernel.NewQuadFilters(to-from, k, func(i int, row []int8) {
				i += from
				var fits bool
				q.more[i], q.less[i], fits = b.differences(row, i*k, zeros[i%len(zeros)])
				ok = ok && fits
			}))
		}
		if !ok {
			return (*quadWeights)(nil)
		}
		return q
	}).(*quadWeights)
}

// differences writes bytes, starting at from, minus a zero point. It returns the sum of the positive differences,
// the sum of the others' absolute values, and whether all fit in 8 bits.
func (b byteTensor) differences(row []int8, from, zero int) (more, less int, ok bool) {
	var flip byte
	if b.Signed {
		flip, zero = 1<<7, zero+1<<7
	}
	sum, size, over := 0, 0, 0
	for j, x := range b.Data[from:][:len(row)] {
		v := int(x^flip) - zero
		row[j] = int8(v)
		sum, size, over = sum+v, size+max(v, -v), over|(v-int(int8(v)))
	}
	return (size + sum) / 2, (size - sum) / 2, over == 0
}

// setQuads sets what is added to the sums of each filter and how they become bytes, for a zero point.
func (c *integerConv) setQuads(zero int) {
	low, high := zero, math.MaxUint8-zero
	c.narrow = true
	for f := range c.add {
		more, less, bias := c.quads.more[f], c.quads.less[f], 0.
		if r := c.requantize; r != nil {
			bias = r.bias[f]
			most := max(more*high+less*low, more*low+less*high)
			c.narrow = c.narrow && kernel.NarrowSums(float64(most)+math.Abs(bias), r.scale[f])
			c.bias[f] = bias - float64((more-less)*zero)
		}
		c.add[f] = int32(int64(bias) - int64(more-less)*int64(zero))
	}
}

// quadProducts computes the sums of count positions from one on, for filters from the first on, or their bytes in
// rows of stride ldy. The panels are already in scratch, unless fresh.
func (c *integerConv) quadProducts(tile []int32, y kernel.Bytes, ldy int, scratch []float32, fresh bool, src kernel.Bytes,
	quads []*kernel.QuadFilters, first, from, count int) {
	panels := tensors.Uint8s(scratch)
	if fresh {
		c.gatherQuads(panels, src, from, (count+kernel.PanelWidth-1)/kernel.PanelWidth, 2*c.pairs)
	}
	for _, q := range quads {
		if y.Data == nil {
			q.Sums(tile, c.chunk, panels, count)
			tile = tile[min(q.M*c.chunk, len(tile)):]
			continue
		}
		q.Bytes(y, ldy, panels, count, &kernel.ByteScale{Add: c.add[first : first+q.M],
			Scale: c.requantize.narrow[first : first+q.M], Zero: c.requantize.zero})
		y.Data, first = y.Data[min(q.M*ldy, len(y.Data)):], first+q.M
	}
}

// gatherQuads gathers panels of quads from a position on.
func (c *integerConv) gatherQuads(panels []byte, src kernel.Bytes, at, count, size int) {
	p, last := &c.last, at+(count-1)*kernel.PanelWidth
	if !c.whole || p.size == 0 || last != p.at {
		kernel.PanelsBytes(panels, count, src, c.offsets, at)
		return
	}
	var tail [mostTail]byte
	kernel.PanelsBytes(panels, count-1, src, c.offsets, at)
	panels = panels[(count-1)*kernel.PanelWidth*size:]
	kernel.PanelBytes(panels, src, p.head, last)
	kernel.PanelBytes(panels[p.rows*kernel.PanelWidth:], p.tailOf(&tail, src), p.tail, 0)
}
