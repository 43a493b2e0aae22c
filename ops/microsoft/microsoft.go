// Package microsoft has operators of ONNX Runtime's domain com.microsoft: the ones that exporters and its optimizer
// write for sequence, speech and quantized models. Names, attributes and definitions follow ONNX Runtime's
// ContribOperators.
//
// It imports ir, ir/scalar, ir/tensor, ops, ops/fft and ops/std. An operator that is a composition of standard ones
// has them as its body, from which its types, facts and costs follow. Inference refuses forms that the body does not
// cover (shared buffers, packed sequences, rotary embedding inside attention), with an error that names the
// attribute or input.
package microsoft

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/std" // operators of bodies
)

// Domain is the domain of these operators as ONNX writes it.
const Domain = "com.microsoft"

// Element types that several operators allow.
var (
	bytesOnly = []tensor.DType{tensor.Int8, tensor.Uint8}
	real3     = []tensor.DType{tensor.Float16, tensor.Float32, tensor.Float64}
)

type types = map[string][]tensor.DType

type body = func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value

// composed registers an operator that its body defines.
func composed(op *ir.Op) *ir.Op {
	op.Domain = Domain
	return ops.Register(ops.ByBody(op))
}

// std applies a standard operator.
func std(b *ir.Builder, name string, in ...*ir.Value) *ir.Value { return b.Op("", name, in) }

// with applies a standard operator with attributes.
func with(b *ir.Builder, name string, in []*ir.Value, attrs ...ir.Attr) *ir.Value {
	return b.Op("", name, in, attrs...)
}

func vals(v ...*ir.Value) []*ir.Value { return v }

// constLike returns a constant of the element type of like.
func constLike(b *ir.Builder, like *ir.Value, x float64) *ir.Value {
	if b.Err() != nil {
		return nil
	}
	t, err := tensor.FromFloat64s(like.Elem(), []float64{x})
	if err != nil {
		b.Fail(err)
		return nil
	}
	return b.Const("c", t)
}

// add returns x+y, or x if y is nil.
func add(b *ir.Builder, x, y *ir.Value) *ir.Value {
	if y == nil {
		return x
	}
	return std(b, "Add", x, y)
}

func cast(b *ir.Builder, x *ir.Value, d tensor.DType) *ir.Value {
	if b.Err() != nil || x.Elem() == d {
		return x
	}
	return with(b, "Cast", vals(x), ir.A("to", int(d)))
}

// in returns input i of a body, or nil if it is absent.
func in(v []*ir.Value, i int) *ir.Value {
	if i < len(v) {
		return v[i]
	}
	return nil
}

// rank returns the number of axes of a value. An unknown one is an error, which goes to the builder.
func rank(b *ir.Builder, v *ir.Value, what string) int {
	if b.Err() != nil {
		return 0
	}
	t, ok := ir.AsTensor(v.Type)
	if !ok || t.NoRank {
		b.Fail(fmt.Errorf("%s: expected a known number of axes, found %v", what, v.Type))
		return 0
	}
	return len(t.Shape)
}

// dim returns the size of an axis of a value. An unknown one is an error, which goes to the builder.
func dim(b *ir.Builder, v *ir.Value, axis int, what string) int64 {
	r := rank(b, v, what)
	if b.Err() != nil {
		return 0
	}
	if axis < 0 {
		axis += r
	}
	if axis < 0 || axis >= r {
		b.Fail(fmt.Errorf("%s: found %v, which has no axis %d", what, v.Type, axis))
		return 0
	}
	k, ok := v.Shape()[axis].Known()
	if !ok {
		b.Fail(fmt.Errorf("%s: expected axis %d of known size, found %v", what, axis, v.Type))
	}
	return k
}

// fail records an error: the builder's body does not support a form of the operator.
func fail(b *ir.Builder, format string, args ...any) []*ir.Value {
	b.Fail(fmt.Errorf(format, args...))
	return nil
}

// wants reports whether a node has output i.
func wants(n *ir.Node, i int) bool { return i < len(n.Outputs) && n.Outputs[i] != nil }

// span returns the constant vector from, from+1, …, to-1.
func span(b *ir.Builder, from, to int) *ir.Value {
	var v []int64
	for i := from; i < to; i++ {
		v = append(v, int64(i))
	}
	return b.Ints(v...)
}

// swapLast transposes the last two axes. Vectors stay.
func swapLast(b *ir.Builder, v *ir.Value, what string) *ir.Value {
	r := rank(b, v, what)
	if r < 2 {
		return v
	}
	perm := make([]int64, r)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[r-1], perm[r-2] = perm[r-2], perm[r-1]
	return with(b, "Transpose", vals(v), ir.A("perm", perm))
}

// attrsOf returns the named attributes of a node.
func attrsOf(n *ir.Node, names ...string) []ir.Attr {
	var out []ir.Attr
	for _, a := range n.Attrs {
		if slices.Contains(names, a.Name) {
			out = append(out, a)
		}
	}
	return out
}
