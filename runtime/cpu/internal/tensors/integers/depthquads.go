package integers

import (
	"math"

	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// quadDepth is a convolution of bytes whose groups have one input channel and one filter, for machines that multiply
// four bytes at once.
type quadDepth struct {
	integerConv
	shape         kernel.DepthBytes
	words         []int32 // four weights each
	row, padded   int     // bytes of a row and of a padded channel
	places, parts int     // channels per work item, work items per sample
}

// quadDepthBytes is the size of a work item's padded channels in bytes.
const quadDepthBytes = 3 << 13

// quadDepthKey identifies filters as words, which the programs of a model share.
type quadDepthKey struct{ filterKey }

// quadDepthWeights are the filters, and their sums.
type quadDepthWeights struct {
	words []int32
	quadWeights
}

// tapsOf returns the number of taps in a row of a filter.
func tapsOf(kw int) int { return (kw + 3) / 4 }

// asQuadDepth returns the filters for quadDepth, or nil if that form does not fit.
func (c *integerConv) asQuadDepth(s *lowering.Step, key filterKey, zeros []int) *quadDepthWeights {
	if c.cg != 1 || c.group == 1 || c.m != c.group || c.requantize == nil || !kernel.Quads() || c.zeroIn != nil && c.zeroIn.Const == nil {
		return nil
	}
	return record.Of(s).Shared.Get(quadDepthKey{key}, func() any {
		defer key.w.Release()
		b, k, row := bytesOf(key.w), c.kh*c.kw, tapsOf(c.kw)
		q := &quadDepthWeights{words: make([]int32, c.m*c.kh*row)}
		q.more, q.less = make([]int, c.m), make([]int, c.m)
		for i := range c.m {
			zero := zeros[i%len(zeros)]
			for j := range k {
				v := b.at(i*k+j) - zero
				if v != int(int8(v)) {
					return (*quadDepthWeights)(nil)
				}
				q.words[(i*c.kh+j/c.kw)*row+j%c.kw/4] |= int32(uint8(v)) << (8 * (j % c.kw % 4))
				q.more[i] += max(v, 0)
				q.less[i] -= min(v, 0)
			}
		}
		return q
	}).(*quadDepthWeights)
}

// quadDepthwise returns the kernel for one shape, or nil if integerDepth should be used.
func (c integerConv) quadDepthwise(d *lowering.Binding, s *lowering.Step, x *lowering.Value, w *quadDepthWeights) *record.TensorKernel {
	p := &quadDepth{integerConv: c, words: w.words}
	p.row, p.quads = (c.Ow-1)*c.Sw+(c.kw-1)*c.Dw+1, &w.quadWeights
	p.padded = p.row * ((c.Oh-1)*c.Sh + (c.kh-1)*c.Dh + 1)
	p.shape = kernel.DepthBytes{Rows: c.Oh, N: c.Ow, Stride: c.Sw, Dilation: c.Dw, Ldx: c.Sh * p.row, PlaneX: p.padded}
	p.shape.Off = lowering.Make[int32](d, c.kh*tapsOf(c.kw))
	for i := range p.shape.Off {
		row, tap := i/tapsOf(c.kw), i%tapsOf(c.kw)
		p.shape.Off[i] = int32(row*c.Dh*p.row + 4*tap*c.Dw)
	}
	if !p.shape.Fits() || c.Top < 0 || c.Left < 0 || p.padded > math.MaxInt32/2 {
		return nil
	}
	p.add, p.bias = lowering.Make[int32](d, c.m), lowering.Make[float64](d, c.m)
	in, result := ByteSlotOf(d, x), newSumSlot(d, s, true)
	if c.zeroIn != nil {
		p.zero = bytesOf(c.zeroIn.Const).at(0)
	}
	if p.setQuads(p.zero + kernel.Bytes{Signed: in.Signed}.Unsigned()); !p.narrow {
		return nil
	}
	p.places = min(c.m, max(1, quadDepthBytes/p.padded), max((c.m+quadItems-1)/quadItems, quadItem/16/(p.padded*c.kh*c.kw)))
	p.parts = (c.m + p.places - 1) / p.places
	return &record.TensorKernel{Scratch: (p.places*p.padded + kernel.DepthSlack + 3) / 4,
		Run: func(e record.Execution, _ record.Call) error {
			f := e.Frame()
			p.in = in.In(f).Bytes
			_, p.out = result.in(f)
			return e.Parallel(p, p.N*p.parts)
		}}
}

func (p *quadDepth) Do(w *record.Workspace, k int) {
	n, from := k/p.parts, k%p.parts*p.places
	channels, plane, size := min(p.places, p.m-from), p.H*p.Wd, p.Oh*p.Ow
	buf := tensors.Uint8s(w.Scratch)
	height, width := p.padded/p.row, max(0, min(p.Wd, p.row-p.Left))
	if p.Top > 0 || p.Left > 0 || height > p.H || p.row > p.Wd {
		kernel.FillBytes(buf[:channels*p.padded], byte(p.zero))
	}
	at := n*p.m + from
	kernel.CopyBytePlanes(buf[min(p.Top*p.row+p.Left, len(buf)):], p.padded, p.row, p.in.Data[at*plane:], plane, p.Wd, channels,
		max(0, min(p.H, height-p.Top)), width)
	y := kernel.Bytes{Data: p.out.Data[at*size : (at+channels)*size], Signed: p.out.Signed}
	taps := len(p.shape.Off)
	p.shape.Run(y, kernel.Bytes{Data: buf, Signed: p.in.Signed}, p.words[from*taps:(from+channels)*taps],
		&kernel.ByteScale{Add: p.add[from : from+channels], Scale: p.requantize.narrow[from : from+channels], Zero: p.requantize.zero},
		channels)
}
