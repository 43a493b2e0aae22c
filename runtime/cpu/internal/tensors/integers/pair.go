package integers

import (
	"slices"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// QLinearAdd and QLinearMul, one block at a time, so that its numbers stay in the first-level cache. Each operation
// rounds like the operators' bodies, so the answers are bitwise equal.
func init() {
	record.Register(
		record.Record{Op: "com.microsoft.QLinearAdd", Numbers: byScales, Tensor: record.TensorKind{Make: integerPair(false)}},
		record.Record{Op: "com.microsoft.QLinearMul", Numbers: byScales, Tensor: record.TensorKind{Make: integerPair(true)}},
	)
}

// pairBlock is the number of elements of a block.
const pairBlock = 1 << 10

// pairPass computes y of a and b.
type pairPass struct {
	kernel.BytePair
	n       int
	repeat  [2]repeats // of a and b
	a, b, y kernel.Bytes
}

// repeats describes how an operand's elements repeat in the result: element i of the result uses element i/run
// modulo n.
type repeats struct{ run, n int }

// repeatsOf returns how the elements of one shape repeat in another. It returns false if axes of size 1 are between
// others.
func repeatsOf(shape, of []int) (r repeats, ok bool) {
	if r = (repeats{1, tensors.Product(shape)}); r.n == 1 {
		return repeats{tensors.Product(of), 1}, true
	}
	for len(shape) > 0 && len(of) > 0 && shape[len(shape)-1] == 1 {
		r.run *= of[len(of)-1]
		shape, of = shape[:len(shape)-1], of[:len(of)-1]
	}
	return r, endOf(shape, of)
}

// integerPair returns the kernel for operands of one scale each, with the same shape, or whose axes of size 1 come
// first or last.
func integerPair(multiply bool) func(s *lowering.Step) record.TensorMaker {
	return func(s *lowering.Step) record.TensorMaker {
		if len(s.In) < 7 || !record.ByteTyped(s, 0) || !record.ByteTyped(s, 3) {
			return nil
		}
		p := pairPass{BytePair: kernel.BytePair{Multiply: multiply}}
		for i, at := range []int{1, 4, 6} {
			scale := s.Constant(at)
			if len(scale) != 1 || !s.Float32Input(at) || len(s.ConstShape(at)) > 1 {
				return nil
			}
			p.Scale[i] = float32(scale[0])
			if len(s.In) <= at+1 || s.Absent(at+1) {
				continue
			}
			zero := s.Constant64(at + 1)
			if len(zero) != 1 || len(s.ConstShape(at+1)) > 1 {
				return nil
			}
			p.Zero[i] = int(zero[0])
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
			aIn, bIn, yOut := ByteSlotOf(d, s.In[0]), ByteSlotOf(d, s.In[3]), ByteSlotOf(d, s.Out[0])
			return &record.TensorKernel{Scratch: 3 * pairBlock, Run: func(e record.Execution, _ record.Call) error {
				f := e.Frame()
				p.a, p.b, p.y = aIn.In(f).Bytes, bIn.In(f).Bytes, yOut.In(f).Bytes
				return e.Parallel(&p, (p.n+pairItem-1)/pairItem)
			}}
		}
	}
}

// pairItem is the number of elements of a work item.
const pairItem = 16 * pairBlock

// endOf reports whether a shape is a suffix of another, ignoring leading axes of size 1.
func endOf(shape, of []int) bool {
	for len(shape) > 0 && shape[0] == 1 {
		shape = shape[1:]
	}
	return len(shape) <= len(of) && slices.Equal(shape, of[len(of)-len(shape):])
}

func (p *pairPass) Do(w *record.Workspace, k int) {
	x, y, lines := w.Scratch[:pairBlock], w.Scratch[pairBlock:2*pairBlock], tensors.Uint8s(w.Scratch[2*pairBlock:3*pairBlock])
	for from := k * pairItem; from < min(p.n, (k+1)*pairItem); from += pairBlock {
		n := min(pairBlock, p.n-from)
		to := kernel.Bytes{Data: p.y.Data[from : from+n], Signed: p.y.Signed}
		done := 0
		if p.a.Signed == p.b.Signed && p.a.Signed == p.y.Signed {
			a := p.repeat[0].Bytes(lines[:n], p.a, from, p.n)
			b := p.repeat[1].Bytes(lines[pairBlock:][:n], p.b, from, p.n)
			done = p.Run(to, a, b)
		}
		if n -= done; n == 0 {
			continue
		}
		to.Data = to.Data[done:]
		p.repeat[0].dequantize(x[:n], p.a, from+done, p.Scale[0], p.Zero[0])
		p.repeat[1].dequantize(y[:n], p.b, from+done, p.Scale[1], p.Zero[1])
		if p.Multiply {
			kernel.Mul(x[:n], x[:n], y[:n])
		} else {
			kernel.Add(x[:n], x[:n], y[:n])
		}
		kernel.QuantizeBytes(to, x[:n], p.Scale[2], p.Zero[2])
	}
}

// Bytes returns size elements of x, for the result's elements from from on. Elements that repeat are copied to line.
func (r repeats) Bytes(line []byte, x kernel.Bytes, from, size int) []byte {
	if r.run == 1 && r.n == size {
		return x.Data[from : from+len(line)]
	}
	for at := 0; at < len(line); {
		k := (from + at) / r.run % r.n
		var n int
		if r.run > 1 {
			n = min(len(line)-at, r.run-(from+at)%r.run)
			kernel.FillBytes(line[at:at+n], x.Data[k])
		} else {
			n = copy(line[at:], x.Data[k:])
		}
		at += n
	}
	return line
}

// dequantize converts the elements of x for the result's elements from from on.
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
	for done < min(r.n, len(y)) { // from the middle to the end, then from the start
		k := min(r.n-done, len(y)-done, r.n-from)
		kernel.DequantizeBytes(y[done:done+k], kernel.Bytes{Data: x.Data[from : from+k], Signed: x.Signed}, scale, zero)
		done, from = done+k, 0
	}
	for ; done < len(y); done *= 2 { // a multiple of n
		copy(y[done:], y[:done])
	}
}
