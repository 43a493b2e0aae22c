package lowering

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// part is the slice of a scanned input, or of a scan output, that belongs to one iteration: a view of the whole if the
// slice is contiguous, and otherwise a copy.
type part struct {
	dtype                tensor.DType
	shape                []int
	axis                 int
	outer, length, inner int // of the whole: the products of dimensions before, at and after axis
	backward             bool
	t                    *tensor.Tensor
}

// newPart returns a part without its tensor, or nil for elements that are not whole bytes.
func newPart(dtype tensor.DType, shape []int, axis, length int, backward bool) *part {
	if dtype == tensor.String || dtype.Packed() {
		return nil
	}
	p := &part{dtype: dtype, shape: shape, axis: axis, length: length, backward: backward}
	p.outer, p.inner = 1, 1
	for i, k := range shape {
		if i < axis {
			p.outer *= k
		} else {
			p.inner *= k
		}
	}
	return p
}

// forget drops the reference to the whole.
func (p *part) forget() {
	if p.t != nil && p.outer == 1 {
		p.t.Rebase(nil, 0)
	}
}

// place returns the index along axis of iteration n.
func (p *part) place(n int) int {
	if p.backward {
		return p.length - 1 - n
	}
	return n
}

// read sets p.t to the part of whole that iteration n reads.
func (p *part) read(c *ir.EvalCtx, whole *tensor.Tensor, n int) {
	at := p.place(n)
	if p.outer == 1 {
		p.t.Rebase(whole, at*p.inner)
		return
	}
	size := tensor.ByteSize(p.dtype, p.inner)
	for o := range p.outer {
		from := (o*p.length + at) * size
		ops.Put(c, p.t.Bytes()[o*size:(o+1)*size], whole.Bytes()[from:from+size])
	}
}

// write copies p.t to the part of whole that iteration n writes, unless p.t is a view of it.
func (p *part) write(c *ir.EvalCtx, whole *tensor.Tensor, n int) {
	if p.outer == 1 {
		return
	}
	at, size := p.place(n), tensor.ByteSize(p.dtype, p.inner)
	for o := range p.outer {
		to := (o*p.length + at) * size
		ops.Put(c, whole.Bytes()[to:to+size], p.t.Bytes()[o*size:(o+1)*size])
	}
}
