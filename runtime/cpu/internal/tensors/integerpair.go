package tensors

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// QLinearAdd and QLinearMul, a block at a time: its numbers stay in the nearest cache. Each operation rounds as those of
// the operators' bodies, so the answers are theirs, bit by bit.
func init() {
	record.Register(
		record.Record{Op: "com.microsoft.QLinearAdd", Tensor: record.TensorKind{Make: integerPair(kernel.Add)}},
		record.Record{Op: "com.microsoft.QLinearMul", Tensor: record.TensorKind{Make: integerPair(kernel.Mul)}},
	)
}

// pairBlock is the number of elements of a block.
const pairBlock = 1 << 10

// pairPass computes y of a and b.
type pairPass struct {
	compute func(y, a, b []float32)
	scale   [3]float32 // of a, b and y
	zero    [3]int
	n       int
	repeat  [2]repeats // of a and b
	a, b, y kernel.Bytes
}

// repeats is how the elements of an operand are those of the result: element i is i/run modulo n.
type repeats struct{ run, n int }

// repeatsOf returns how the elements of a shape repeat in another one. It returns false if axes of size 1 lie between
// others.
func repeatsOf(shape, of []int) (r repeats, ok bool) {
	r = repeats{1, product(shape)}
	for len(shape) > 0 && len(of) > 0 && shape[len(shape)-1] == 1 {
		r.run *= of[len(of)-1]
		shape, of = shape[:len(shape)-1], of[:len(of)-1]
	}
	return r, endOf(shape, of)
}

// integerPair is the kernel for operands of one scale each, of the same shape, or whose axes of size 1 come first or last.
func integerPair(compute func(y, a, b []float32)) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if len(s.In) < 7 || !record.ByteTyped(s, 0) || !record.ByteTyped(s, 3) {
			return nil
		}
		p := pairPass{compute: compute}
		for i, at := range []int{1, 4, 6} {
			scale := s.Constant(at)
			if len(scale) != 1 || !s.Float32Input(at) || len(s.ConstShape(at)) > 1 {
				return nil
			}
			p.scale[i] = float32(scale[0])
			if len(s.In) <= at+1 || s.Absent(at+1) {
				continue
			}
			zero := s.Constant64(at + 1)
			if len(zero) != 1 || len(s.ConstShape(at+1)) > 1 {
				return nil
			}
			p.zero[i] = int(zero[0])
		}
		return func(d *lowering.Binding) *record.TensorKernel {
			p := p
			a, b := d.ShapeOf(s, 0), d.ShapeOf(s, 3)
			if a == nil || b == nil || s.Out[0] == nil || d.Shape(s.Out[0]) == nil {
				return nil
			}
			out := d.Shape(s.Out[0])
			if want, err := ops.Broadcast(a, b); err != nil || !slices.Equal(want, out) {
				return nil
			}
			p.n, _ = tensor.Size(out)
			var known [2]bool
			p.repeat[0], known[0] = repeatsOf(a, out)
			p.repeat[1], known[1] = repeatsOf(b, out)
			if p.n == 0 || !known[0] || !known[1] {
				return nil
			}
			aIn, bIn, yOut := byteSlotOf(d, s.In[0]), byteSlotOf(d, s.In[3]), byteSlotOf(d, s.Out[0])
			return &record.TensorKernel{Scratch: 2 * pairBlock, Run: func(e record.Execution, _ record.Call) error {
				f := e.Frame()
				p.a, p.b, p.y = aIn.in(f).Bytes, bIn.in(f).Bytes, yOut.in(f).Bytes
				return e.Parallel(&p, (p.n+pairItem-1)/pairItem)
			}}
		}
	}
}

// pairItem is the number of elements of a work item.
const pairItem = 16 * pairBlock

// endOf reports whether a shape is the end of another, apart from axes of size 1 before it.
func endOf(shape, of []int) bool {
	for len(shape) > 0 && shape[0] == 1 {
		shape = shape[1:]
	}
	return len(shape) <= len(of) && slices.Equal(shape, of[len(of)-len(shape):])
}

func (p *pairPass) Do(w *record.Workspace, k int) {
	x, y := w.Scratch[:pairBlock], w.Scratch[pairBlock:2*pairBlock]
	for from := k * pairItem; from < min(p.n, (k+1)*pairItem); from += pairBlock {
		n := min(pairBlock, p.n-from)
		p.repeat[0].dequantize(x[:n], p.a, from, p.scale[0], p.zero[0])
		p.repeat[1].dequantize(y[:n], p.b, from, p.scale[1], p.zero[1])
		p.compute(x[:n], x[:n], y[:n])
		kernel.QuantizeBytes(kernel.Bytes{Data: p.y.Data[from : from+n], Signed: p.y.Signed}, x[:n], p.scale[2], p.zero[2])
	}
}

// dequantize makes numbers of the elements of x from one of the result on.
func (r repeats) dequantize(y []float32, x kernel.Bytes, from int, scale float32, zero int) {
	if r.run > 1 {
		for len(y) > 0 {
			k, n := from/r.run%r.n, min(len(y), r.run-from%r.run)
			var v [1]float32
			kernel.DequantizeBytes(v[:], kernel.Bytes{Data: x.Data[k : k+1], Signed: x.Signed}, scale, zero)
			for i := range y[:n] {
				y[i] = v[0]
			}
			y, from = y[n:], from+n
		}
		return
	}
	from %= r.n
	done := 0
	for done < min(r.n, len(y)) { // from the middle to the end, then from the beginning
		k := min(r.n-done, len(y)-done, r.n-from)
		kernel.DequantizeBytes(y[done:done+k], kernel.Bytes{Data: x.Data[from : from+k], Signed: x.Signed}, scale, zero)
		done, from = done+k, 0
	}
	for ; done < len(y); done *= 2 { // a multiple of n
		copy(y[done:], y[:done])
	}
}
