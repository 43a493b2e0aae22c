package tensors

import (
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// quadWeights are the filters of a convolution as signed bytes. They are multiplied by unsigned ones: inputs before
// their zero point is subtracted. The sum of each filter's weights, times this zero point, is subtracted from its sums.
type quadWeights struct {
	bytes []int8 // per filter: its weights, a multiple of four
	sum   []int
}

// quadKey identifies them, which the programs of a model share.
type quadKey struct{ filterKey }

// quadBlock is the number of bytes of inputs that are multiplied with one filter after the other.
const quadBlock = 1 << 18

// quadWeights packs the filters, or returns nil if the machine has no such products or if a weight minus its zero point
// has more than 8 bits.
func (c *integerConv) quadWeights(s *lowering.Step, key filterKey) *quadWeights {
	if !kernel.Quads() {
		return nil
	}
	k := c.cg * c.kh * c.kw
	return record.Of(s).Shared.Get(quadKey{key}, func() any {
		from, to := 2*kernel.PairsOf(k), 4*kernel.QuadsOf(k)
		q := &quadWeights{bytes: make([]int8, c.m*to), sum: make([]int, c.m)}
		for i := range c.m {
			for j, v := range c.weights[i*from : i*from+k] {
				if v != int16(int8(v)) {
					return (*quadWeights)(nil)
				}
				q.bytes[i*to+j] = int8(v)
				q.sum[i] += int(v)
			}
		}
		return q
	}).(*quadWeights)
}

// quadProducts computes the sums of count positions from one on, for the filters of group g.
func (c *integerConv) quadProducts(tile []int32, scratch []float32, src kernel.Bytes, g, from, count int) {
	mg, size := c.m/c.group, 2*c.pairs
	panels, weights := uint8s(scratch), c.quads.bytes[g*mg*size:(g+1)*mg*size]
	width := c.together * kernel.PanelWidth
	for at := 0; at < count; at += width {
		end := min(at+width, count)
		for p := at; p < end; p += kernel.PanelWidth {
			kernel.PanelBytes(panels[(p-at)*size:], src, c.offsets, from+p)
		}
		for f := 0; f < mg; f += quadRows {
			kernel.PanelProductBytes(tile[f*c.chunk+at:], c.chunk, weights[f*size:], size, min(quadRows, mg-f), size/4,
				(end-at+kernel.PanelWidth-1)/kernel.PanelWidth, panels)
		}
	}
}

// quadRows is the number of filters that the fastest kernel takes at a time.
const quadRows = 12
