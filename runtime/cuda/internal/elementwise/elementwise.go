package elementwise

import (
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

const kind = "elementwise"

func init() {
	record.RegisterKind(100, record.Record{Op: kind, Takes: takes, Build: build})
	record.Register(
		record.Record{Op: "Cast", Takes: converts, Build: convert},
		record.Record{Op: "CastLike", Takes: converts, Build: convert})
	record.RegisterFusion(900, record.Fusion{Name: "elementwise", Build: fuse})
}

// takes reports whether a kernel supports the expression of a step on the declared types of its values.
func takes(s *lowering.Step) bool {
	n := s.Node
	if n.Op.Element == nil || !ops.Newest(n.Op) || s.Rows != nil || n.Out(0) == nil {
		return false
	}
	var types []tensor.DType
	for _, v := range n.Inputs {
		types = append(types, record.Declared(v))
	}
	e := lowering.Expression(s, func(v *lowering.Value) *tensor.Tensor { return v.Const })
	return kernel.Computes(e, types, record.Declared(n.Out(0)))
}

const (
	maxSteps    = 32
	maxOperands = 12
	maxCost     = 400 // cost limit of an expression, in additions
)

// fusion returns a fusion that begins with a step, or nil if no kernel supports its types.
func fusion(b *record.Builder, first *lowering.Step) *lowering.Fusion {
	d := b.Binding
	fits := func(e scalar.Expr, s *lowering.Step, operands []*lowering.Value) bool {
		types := make([]tensor.DType, len(operands))
		for i, v := range operands {
			types[i] = d.DType(v)
		}
		return (s == first || len(operands) <= maxOperands && e.Cost() <= maxCost) &&
			kernel.Computes(e, types, d.DType(s.Out[0]))
	}
	f := lowering.NewFusion(d, d.Shape(first.Out[0]), fits)
	if !f.Add(first) {
		return nil
	}
	return f
}

func build(b *record.Builder, s *lowering.Step) bool {
	f := fusion(b, s)
	return f != nil && launch(b, f, s)
}

// fuse combines the step with later ones that compute elements of the same shape from its results.
func fuse(b *record.Builder, steps []*lowering.Step) []*lowering.Step {
	if !ours(steps[0]) {
		return nil
	}
	f := fusion(b, steps[0])
	if f == nil {
		return nil
	}
	more := b.Binding.Follow(steps[:1], steps[1:], maxSteps-1, nil,
		func(s *lowering.Step) bool { return ours(s) && f.Add(s) })
	if len(more) == 0 || !launch(b, f, more[len(more)-1]) {
		return nil
	}
	return append(steps[:1:1], more...)
}

func ours(s *lowering.Step) bool {
	r := record.For(s)
	return r != nil && r.Op == kind
}

// launch adds the work for the result of a step.
func launch(b *record.Builder, f *lowering.Fusion, s *lowering.Step) bool {
	d, out := b.Binding, s.Out[0]
	e, shape := f.Of(out), d.Shape(out)
	n, _ := tensor.Size(shape)
	bytes := b.Bytes(out)
	operands := make([]kernel.Operand, len(f.Operands))
	for _, i := range e.Reads() {
		v := f.Operands[i]
		bytes += b.Bytes(v)
		operands[i] = kernel.Operand{Buffer: b.Buffer(v), Type: d.DType(v),
			Strides: ops.BroadcastStrides(d.Shape(v), shape)}
	}
	calls, ok := kernel.Elementwise(e, shape, kernel.Dense(b.Buffer(out), d.DType(out)), operands...)
	if !ok {
		return false
	}
	b.Launch(calls...)
	b.Work(ir.Work{Flops: int64(n) * int64(e.Cost()), Bytes: int64(bytes)})
	return true
}

// converts reports whether a kernel converts between the declared types.
func converts(s *lowering.Step) bool {
	from, to := record.Declared(s.Node.In(0)), record.Declared(s.Node.Out(0))
	return ops.Newest(s.Node.Op) && s.Rows == nil && (from == to || kernel.Converts(from, to) || kernel.Narrows(from, to))
}

func convert(b *record.Builder, s *lowering.Step) bool {
	d := b.Binding
	from, to := d.DType(s.In[0]), d.DType(s.Out[0])
	if from == to {
		if !b.View(s.Out[0], s.In[0]) {
			b.Copy(b.Buffer(s.Out[0]), b.Buffer(s.In[0]), b.Bytes(s.In[0]))
		}
		return true
	}
	calls, ok := kernel.Convert(d.Shape(s.Out[0]), kernel.Dense(b.Buffer(s.Out[0]), to), kernel.Dense(b.Buffer(s.In[0]), from))
	if kernel.Narrows(from, to) {
		n, _ := tensor.Size(d.Shape(s.Out[0]))
		saturate, round := s.Node.Attrs.Int("saturate", 1) != 0, kernel.Rounding(s.Node.Attrs.Str("round_mode", "up"))
		calls, ok = kernel.Narrow(n, saturate, round, b.Buffer(s.Out[0]), to, b.Buffer(s.In[0]), from)
	}
	b.Launch(calls...)
	b.Work(ir.Work{Bytes: int64(b.Bytes(s.In[0]) + b.Bytes(s.Out[0]))})
	return ok
}
