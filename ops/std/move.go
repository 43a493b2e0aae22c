package std

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// mover copies runs of elements between tensors of one element type, which may be any.
type mover struct {
	c        *ir.EvalCtx
	dst, src *tensor.Tensor
	bits     int
}

func newMover(c *ir.EvalCtx, dst, src *tensor.Tensor) mover {
	return mover{c, dst, src, src.DType().Bits()}
}

// copy copies n elements from position s of the source to position d of the destination.
func (m mover) copy(d, s, n int) {
	switch {
	case m.src.DType() == tensor.String:
		ops.Put(m.c, m.dst.Strings()[d:d+n], m.src.Strings()[s:s+n])
	case m.bits >= 8:
		w := m.bits / 8
		to, from := m.dst.Bytes()[d*w:(d+n)*w], m.src.Bytes()[s*w:(s+n)*w]
		if len(to) <= 1<<12 { // one of the operations of the loop around it
			copy(to, from)
		} else {
			ops.Put(m.c, to, from)
		}
	default:
		a, b, mask := m.dst.Bytes(), m.src.Bytes(), byte(1<<m.bits-1)
		for i := range ops.Each(m.c, n) {
			x := b[(s+i)*m.bits/8] >> ((s + i) * m.bits % 8) & mask
			p, sh := (d+i)*m.bits/8, (d+i)*m.bits%8
			a[p] = a[p]&^(mask<<sh) | x<<sh
		}
	}
}

// sameElem returns an error unless both tensors have the same element type.
func sameElem(a, b *tensor.Tensor) error {
	if a.DType() != b.DType() {
		return fmt.Errorf("element types %v and %v differ", a.DType(), b.DType())
	}
	return nil
}

// fillWith sets every element of dst to the single element of src, which has the same element type.
func fillWith(c *ir.EvalCtx, dst, src *tensor.Tensor) {
	m := newMover(c, dst, src)
	if m.bits >= 8 && src.DType() != tensor.String && dst.Len() > 0 {
		m.copy(0, 0, 1)
		b := dst.Bytes()
		for done := m.bits / 8; done < len(b); done *= 2 {
			ops.Put(c, b[done:], b[:done])
		}
		return
	}
	for i := range ops.Each(c, dst.Len()) {
		m.copy(i, 0, 1)
	}
}
