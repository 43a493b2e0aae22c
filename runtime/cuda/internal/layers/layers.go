// Package layers registers the records of small operators that occur only in models: affine maps of features,
// embedding tables, and optional states.
//
// The package imports ir, ir/scalar, ir/tensor, runtime/lowering, runtime/cuda/kernel and
// runtime/cuda/internal/record.
package layers

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(
		record.Record{Op: "essm.Affine", Build: affine,
			Takes: func(s *lowering.Step) bool { return s.Fixed(1) != nil && s.Fixed(2) != nil && record.Fixed(s, 1, 2) }},
		record.Record{Op: "essm.Embedding", Build: embedding},
		record.Record{Op: "essm.StateOrZero", Build: stateOrZero},
	)
}

// affine computes scale·x + shift. The constants are rounded to float32.
func affine(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	if !d.Typed(s, 0, tensor.Float32) {
		return false
	}
	shape := d.Shape(s.Out[0])
	if b.Bytes(s.Out[0]) == 0 {
		return true
	}
	strides := make([]int, len(shape))
	strides[len(shape)-1] = 1
	operands := []kernel.Operand{kernel.Dense(b.Buffer(s.In[0]), tensor.Float32)}
	for _, v := range s.In[1:3] {
		c, ok := b.Float32(v)
		if !ok {
			return false
		}
		operands = append(operands, kernel.Operand{Buffer: c, Type: tensor.Float32, Strides: strides})
	}
	x, scale, shift := scalar.Input(0), scalar.Input(1), scalar.Input(2)
	calls, ok := kernel.Elementwise(scalar.Add(scalar.Mul(scale, x), shift), shape,
		kernel.Dense(b.Buffer(s.Out[0]), tensor.Float32), operands...)
	b.Launch(calls...)
	n := int64(b.Bytes(s.Out[0]))
	b.Work(ir.Work{Flops: n / 2, Bytes: 2 * n})
	return ok
}

// embedding looks up tokens in a table.
func embedding(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	if d.DType(s.Out[0]) != tensor.Float32 {
		return false
	}
	if b.Bytes(s.Out[0]) == 0 && b.Bytes(s.In[0]) == 0 {
		return true
	}
	count, _ := tensor.Size(d.Shape(s.In[0]))
	table := d.Shape(s.In[1])
	c, ok := kernel.Embedding{Y: b.Buffer(s.Out[0]), Tokens: b.Buffer(s.In[0]), Table: b.Buffer(s.In[1]),
		Fault: b.Fault(fmt.Sprintf("%s: a token is outside of the vocabulary, 0 to %d", s.Node.In(0).Name, table[0]-1)),
		Count: count, Rows: table[0], Width: table[1], Narrow: d.DType(s.In[0]) == tensor.Int32}.Call()
	if ok {
		b.Launch(c)
		b.Work(ir.Work{Bytes: int64(b.Bytes(s.In[0]) + 2*b.Bytes(s.Out[0]))})
	}
	return ok
}

// stateOrZero returns the state, or zeros if it is absent.
func stateOrZero(b *record.Builder, s *lowering.Step) bool {
	d, out := b.Binding, s.Out[0]
	if len(s.In) > 1 && s.In[1] != nil && !d.Missing(s.In[1]) {
		if b.Bytes(s.In[1]) != b.Bytes(out) {
			return false
		}
		if !b.View(out, s.In[1]) {
			b.Copy(b.Buffer(out), b.Buffer(s.In[1]), b.Bytes(out))
		}
		return true
	}
	b.Fill(b.Buffer(out), 0, b.Bytes(out))
	return true
}
