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
		types = append(types, declared(v))
	}
	return kernel.Computes(expression(s, func(v *lowering.Value) *tensor.Tensor { return v.Const }), types, declared(n.Out(0)))
}

// declared returns the declared element type of a value.
func declared(v *ir.Value) tensor.DType {
	if v == nil {
		return tensor.Invalid
	}
	if t, ok := ir.AsTensor(v.Type); ok {
		return t.Elem
	}
	return tensor.Invalid
}

// expression returns the expression of a step, in which constants of one number are constants; the zero Expr if it
// has none.
func expression(s *lowering.Step, constant func(v *lowering.Value) *tensor.Tensor) scalar.Expr {
	x := make([]scalar.Expr, max(len(s.Node.Inputs), len(s.Node.Op.In)))
	for i := range s.Node.Inputs {
		if s.Absent(i) {
			continue
		}
		x[i] = scalar.Input(i)
		if c := constant(s.In[i]); c != nil && c.Len() == 1 && !c.DType().IsComplex() {
			if k, err := c.Float64s(); err == nil && (c.DType().Bits() < 64 || k[0] == float64(int64(k[0])) || !c.DType().IsInt()) {
				x[i] = scalar.Const(k[0])
			}
		}
	}
	return s.Node.Op.Element(s.Node, x)
}

func build(b *record.Builder, s *lowering.Step) bool {
	f := fusion{b: b}
	return f.add(s) && f.build(s)
}

// fuse combines the step with later ones that compute elements of the same shape from its results. All results but
// the last must be read only by these steps.
func fuse(b *record.Builder, steps []*lowering.Step) (taken []*lowering.Step) {
	if !ours(steps[0]) {
		return nil
	}
	f := fusion{b: b}
	var all []*lowering.Step
	length := 0 // of the longest prefix that can be fused
	for i, s := range steps {
		if i > 0 && (!ours(s) || !f.continues(s)) {
			continue
		}
		before := len(all)
		if !f.add(s) {
			if before == 0 {
				return nil
			}
			break
		}
		all = append(all, s)
		closed := true
		for _, t := range all[:len(all)-1] {
			closed = closed && b.Binding.Inside(t.Out[0], all)
		}
		if closed {
			length = len(all)
		}
		if len(all) == maxSteps {
			break
		}
	}
	if length < 2 {
		return nil
	}
	f = fusion{b: b}
	for _, s := range all[:length] {
		f.add(s)
	}
	if !f.build(all[length-1]) {
		return nil
	}
	return all[:length]
}

func ours(s *lowering.Step) bool {
	r := record.For(s)
	return r != nil && r.Op == kind
}

const (
	maxSteps    = 32
	maxOperands = 12
	maxCost     = 400 // cost limit of an expression, in additions
)

// fusion composes the expressions of steps.
type fusion struct {
	b     *record.Builder
	of    map[*lowering.Value]scalar.Expr // expressions of results
	reads []*lowering.Value               // inputs of the expressions
	shape []int
}

// continues reports whether a step reads one of the fusion's results.
func (f *fusion) continues(s *lowering.Step) bool {
	for _, v := range s.In {
		if _, ok := f.of[v]; ok && v != nil {
			return true
		}
	}
	return false
}

// add composes the expression of a step with the fusion's. If no kernel supports the result, it returns false and
// changes nothing.
func (f *fusion) add(s *lowering.Step) bool {
	d := f.b.Binding
	out := d.Shape(s.Out[0])
	if f.of == nil {
		f.of, f.shape = map[*lowering.Value]scalar.Expr{}, out
	}
	e := expression(s, d.Constant)
	if !e.Valid() || !equal(out, f.shape) {
		return false
	}
	reads := f.reads[:len(f.reads):len(f.reads)]
	args := make([]scalar.Expr, len(s.In))
	for _, i := range e.Reads() {
		v := s.In[i]
		if x, ok := f.of[v]; ok {
			args[i] = x
			continue
		}
		if len(d.Shape(v)) > len(out) {
			return false
		}
		at := -1
		for k, r := range reads {
			if r == v {
				at = k
			}
		}
		if at < 0 {
			at = len(reads)
			reads = append(reads, v)
		}
		args[i] = scalar.Input(at)
	}
	e = e.With(args...)
	switch d.DType(s.Out[0]) { // rounded as it would be in memory
	case tensor.Float16:
		e = scalar.Float16(e)
	case tensor.BFloat16:
		e = scalar.BFloat16(e)
	}
	var types []tensor.DType
	for _, v := range reads {
		types = append(types, d.DType(v))
	}
	if len(f.of) > 0 && (len(reads) > maxOperands || e.Cost() > maxCost) || !kernel.Computes(e, types, d.DType(s.Out[0])) {
		return false
	}
	f.of[s.Out[0]], f.reads = e, reads
	return true
}

// build adds the work for the result of a step.
func (f *fusion) build(s *lowering.Step) bool {
	d, e := f.b.Binding, f.of[s.Out[0]]
	n, bytes := 1, f.b.Bytes(s.Out[0])
	for _, k := range f.shape {
		n *= k
	}
	operands := make([]kernel.Operand, len(f.reads))
	for _, i := range e.Reads() {
		v := f.reads[i]
		bytes += f.b.Bytes(v)
		operands[i] = kernel.Operand{Buffer: f.b.Buffer(v), Type: d.DType(v), Strides: ops.BroadcastStrides(d.Shape(v), f.shape)}
	}
	calls, ok := kernel.Elementwise(e, f.shape, kernel.Dense(f.b.Buffer(s.Out[0]), d.DType(s.Out[0])), operands...)
	if !ok {
		return false
	}
	for _, c := range calls {
		f.b.Launch(c)
	}
	f.b.Work(ir.Work{Flops: int64(n) * int64(e.Cost()), Bytes: int64(bytes)})
	return true
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// converts reports whether a kernel converts between the declared types.
func converts(s *lowering.Step) bool {
	from, to := declared(s.Node.In(0)), declared(s.Node.Out(0))
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
	for _, c := range calls {
		b.Launch(c)
	}
	b.Work(ir.Work{Bytes: int64(b.Bytes(s.In[0]) + b.Bytes(s.Out[0]))})
	return ok
}
