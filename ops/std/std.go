// Package std has the operators of ONNX's own domain. A file has one operator or a few related ones, with signature,
// shape rule, evaluation and facts. Names, attributes and definitions follow the operator set version Since.
//
// It imports ir, ir/scalar, ir/tensor and ops only. Evaluations compute floats in float64 and integers exactly, and
// keep element types. A wide evaluation stores float32 values as float64, so evaluations read types from tensors,
// not from the graph. Evaluations check the conditions on their data, and return errors instead of panicking.
package std

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Element types that several operators allow.
var (
	numbersAndBool = append(slices.Clone(ops.Numbers), tensor.Bool)
	sumTypes       = append(slices.Clone(ops.Floats), tensor.Int32, tensor.Int64, tensor.Uint32, tensor.Uint64)
	signedTypes    = append(slices.Clone(ops.Floats), tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64)
	indexTypes     = []tensor.DType{tensor.Int32, tensor.Int64}
	boolOnly       = []tensor.DType{tensor.Bool}
)

// element is the type of ir.Op.Element.
type element = func(n *ir.Node, x []scalar.Expr) scalar.Expr

func elems(name string, types []tensor.DType) map[string][]tensor.DType {
	return map[string][]tensor.DType{name: types}
}

// f32 returns a default that ONNX states in single precision.
func f32(x float32) float64 { return float64(x) }

func intAttr(name string, def any, doc string) ir.AttrSpec {
	s := ir.AttrSpec{Name: name, Kind: ir.AttrInt, Doc: doc}
	if d, ok := def.(int); ok {
		s.Default = int64(d)
	}
	return s
}

func intsAttr(name, doc string) ir.AttrSpec {
	return ir.AttrSpec{Name: name, Kind: ir.AttrInts, Doc: doc}
}

func floatAttr(name string, def float64, doc string) ir.AttrSpec {
	return ir.AttrSpec{Name: name, Kind: ir.AttrFloat, Default: def, Doc: doc}
}

func graphAttr(name, doc string) ir.AttrSpec {
	return ir.AttrSpec{Name: name, Kind: ir.AttrGraph, Required: true, Doc: doc}
}

// getInt returns an integer attribute, or its default.
func getInt(n *ir.Node, name string) int64 { return n.Attrs.Int(name, defaultOf[int64](n, name)) }

// getFloat returns a float attribute, or its default.
func getFloat(n *ir.Node, name string) float64 {
	return n.Attrs.Float(name, defaultOf[float64](n, name))
}

func getStr(n *ir.Node, name string) string { return n.Attrs.Str(name, defaultOf[string](n, name)) }

func defaultOf[T any](n *ir.Node, name string) T {
	for _, a := range n.Op.Attrs {
		if a.Name == name {
			v, _ := a.Default.(T)
			return v
		}
	}
	var zero T
	return zero
}

// tensorIn returns input i of a node as a tensor type. The node's types have been bound before.
func tensorIn(n *ir.Node, i int) *ir.TensorType {
	n.Step(2)
	if v := n.In(i); v != nil {
		if t, ok := v.TensorType(); ok {
			return t
		}
	}
	return nil
}

func typed(elem tensor.DType, shape ir.Shape) *ir.TensorType {
	return &ir.TensorType{Elem: elem, Shape: shape}
}

func noRank(elem tensor.DType) *ir.TensorType { return &ir.TensorType{Elem: elem, NoRank: true} }

func unknownShape(rank int) ir.Shape {
	s := make(ir.Shape, rank)
	for i := range s {
		s[i] = ir.Unknown
	}
	return s
}

func one(t ir.Type) ([]ir.Type, error) { return []ir.Type{t}, nil }

// inferShape returns an Infer for operators with one output of the first input's element type. shape returns the
// output's shape; it is called if the first input's rank is known. A nil shape means an unknown rank.
func inferShape(shape func(n *ir.Node, in ir.Shape) (ir.Shape, error)) func(*ir.Node) ([]ir.Type, error) {
	return inferAs(func(n *ir.Node) tensor.DType { return n.In(0).Elem() }, shape)
}

func inferAs(elem func(*ir.Node) tensor.DType,
	shape func(n *ir.Node, in ir.Shape) (ir.Shape, error)) func(*ir.Node) ([]ir.Type, error) {
	return func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		t := tensorIn(n, 0)
		if t.NoRank {
			return one(noRank(elem(n)))
		}
		s, err := shape(n, t.Shape)
		if err != nil {
			return nil, err
		}
		if s == nil {
			return one(noRank(elem(n)))
		}
		return one(typed(elem(n), s))
	}
}

// inferBroadcast returns the inference of the broadcast of all inputs, with the element type that elem returns.
func inferBroadcast(elem func(*ir.Node) tensor.DType) func(*ir.Node) ([]ir.Type, error) {
	return func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		var shapes []ir.Shape
		for i := range n.Inputs {
			t := tensorIn(n, i)
			if t == nil {
				continue
			}
			if t.NoRank {
				return one(noRank(elem(n)))
			}
			shapes = append(shapes, t.Shape)
		}
		s, err := ops.BroadcastShape(shapes...)
		if err != nil {
			return nil, err
		}
		return one(typed(elem(n), s))
	}
}

// fillsOut refuses an input that does not broadcast to a shape, as far as its type shows this.
func fillsOut(n *ir.Node, i int, to ir.Shape) error {
	t := tensorIn(n, i)
	if t == nil || t.NoRank {
		return nil
	}
	extra := len(to) - len(t.Shape)
	for k, d := range t.Shape {
		size, known := d.Known()
		if extra < 0 {
			break
		}
		if want, ok := to[extra+k].Known(); known && ok && size != 1 && size != want {
			extra = -1
		}
	}
	if extra < 0 {
		return fmt.Errorf("input %d %v does not broadcast to %v", i, t, to)
	}
	return nil
}

func elemOf(i int) func(*ir.Node) tensor.DType {
	return func(n *ir.Node) tensor.DType { return n.In(i).Elem() }
}

func elemIs(d tensor.DType) func(*ir.Node) tensor.DType {
	return func(*ir.Node) tensor.DType { return d }
}

// offsets writes what ops.Walk visits to the start of into, and returns that part.
func offsets(c *ir.EvalCtx, into, shape, strides []int, first int) []int {
	i := 0
	ops.Walk(c, shape, strides, first, func(o int) {
		into[i] = o
		i++
	})
	return into[:i]
}

// ints reads an optional integer input. It returns nil if the input is absent.
func ints(c *ir.EvalCtx, in []tensor.Datum, i int) ([]int64, error) {
	t := ops.Tensor(in, i)
	if t == nil {
		return nil, nil
	}
	v, err := ops.Int64s(c, t)
	if v == nil && err == nil {
		v = []int64{}
	}
	return v, err
}

// scalarInt reads an integer input with exactly one element.
func scalarInt(c *ir.EvalCtx, in []tensor.Datum, i int, what string) (int64, error) {
	v, err := ints(c, in, i)
	if err != nil {
		return 0, err
	}
	if len(v) != 1 {
		return 0, fmt.Errorf("%s: expected one element, found %d", what, len(v))
	}
	return v[0], nil
}

// fromInts returns an integer or bool tensor. Numbers that do not fit lose their high bits.
// alloc returns a tensor of zeros within the limit on elements.
func fromInts(c *ir.EvalCtx, d tensor.DType, v []int64, shape ...int) (*tensor.Tensor, error) {
	return ops.Convert(c, tensor.FromSlice(v, shape...), d, false)
}

func alloc(c *ir.EvalCtx, d tensor.DType, shape []int) (*tensor.Tensor, error) {
	if _, err := ops.Elems(shape); err != nil {
		return nil, err
	}
	if !d.Valid() {
		return nil, fmt.Errorf("element type %v", d)
	}
	return ops.New(c, d, shape...), nil
}

// wide returns the element type in which data of type d is represented.
func wide(c *ir.EvalCtx, d tensor.DType) tensor.DType {
	if c.Wide && d == tensor.Float32 {
		return tensor.Float64
	}
	return d
}

// need returns input i, or an error that names it.
func need(in []tensor.Datum, i int, what string) (*tensor.Tensor, error) {
	t := ops.Tensor(in, i)
	if t == nil {
		return nil, fmt.Errorf("input %d (%s) is missing", i, what)
	}
	return t, nil
}

func product(s []int) int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// constLike returns a constant scalar of the element type of like.
func constLike(b *ir.Builder, like *ir.Value, x float64) *ir.Value {
	t, err := tensor.FromFloat64s(like.Elem(), []float64{x})
	if err != nil {
		b.Fail(err)
		return nil
	}
	return b.Const("c", t)
}

func op(b *ir.Builder, name string, in ...*ir.Value) *ir.Value { return b.Op("", name, in) }

func attr(b *ir.Builder, name string, in []*ir.Value, attrs ...ir.Attr) *ir.Value {
	return b.Op("", name, in, attrs...)
}

// workOf returns the work of flops operations that read all inputs and write all outputs once.
func workOf(n *ir.Node, bind map[string]int64, flops int64) ir.Work {
	w := ir.Work{Flops: flops}
	for _, vs := range [][]*ir.Value{n.Inputs, n.Outputs} {
		for _, v := range vs {
			if v != nil {
				w.Bytes += sizeOf(v.Shape(), bind) * int64(v.Elem().Bits()) / 8
			}
		}
	}
	return w
}

// sizeOf returns the number of elements of a shape. Unknown dimensions count as 1.
func sizeOf(s ir.Shape, bind map[string]int64) int64 {
	n := int64(1)
	for _, d := range s {
		if x, err := d.Eval(bind); err == nil {
			n *= x
		}
	}
	return n
}
