package ir

import (
	"slices"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
)

// Type is the static type of a Value: *TensorType, *SequenceType or *OptionalType. Types are immutable.
type Type interface {
	String() string
	isType()
}

// TensorType is an element type and a shape.
type TensorType struct {
	Elem  tensor.DType
	Shape Shape
	// NoRank is set if not even the number of dimensions is known. Shape is empty then.
	NoRank bool
}

// SequenceType is a list of values of one type.
type SequenceType struct{ Elem Type }

// OptionalType is a value of Elem's type, or nothing. Callers may leave out a graph input of this type, and an operator
// takes it where its own input is optional.
type OptionalType struct{ Elem Type }

func (*TensorType) isType()   {}
func (*SequenceType) isType() {}
func (*OptionalType) isType() {}

// Shape is a tensor's dimensions.
type Shape []Dim

// String writes "[B,L,8]".
func (s Shape) String() string {
	p := make([]string, len(s))
	for i, d := range s {
		p[i] = d.String()
	}
	return "[" + strings.Join(p, ",") + "]"
}

// Equal reports whether both shapes are known to be the same.
func (s Shape) Equal(o Shape) bool {
	if len(s) != len(o) {
		return false
	}
	for i := range s {
		if !s[i].Equal(o[i]) {
			return false
		}
	}
	return true
}

// Size returns the product of the dimensions.
func (s Shape) Size() Dim {
	n := Const(1)
	for _, d := range s {
		n = n.Mul(d)
	}
	return n
}

// Known returns the shape as numbers if every dimension is a constant (tensor.Extent).
func (s Shape) Known() ([]int, bool) {
	out := make([]int, len(s))
	for i, d := range s {
		n, ok := d.Known()
		if !ok {
			return nil, false
		}
		out[i] = tensor.Extent(n)
	}
	return out, true
}

// String writes the type in ONNX's textual syntax: "float[B,L,8]", "float[]" without rank, "int64" for a scalar.
func (t *TensorType) String() string {
	switch {
	case t.NoRank:
		return t.Elem.ONNX() + "[]"
	case len(t.Shape) == 0:
		return t.Elem.ONNX()
	}
	return t.Elem.ONNX() + t.Shape.String()
}

// String writes "seq(float[N])".
func (t *SequenceType) String() string { return "seq(" + t.Elem.String() + ")" }

// String writes "optional(int64[B])".
func (t *OptionalType) String() string { return "optional(" + t.Elem.String() + ")" }

// Tensor makes a tensor type. Dimensions are ints, strings (symbols or expressions, as ParseDim reads them) or Dims. It
// panics on anything else: it is for types in source code.
func Tensor(elem tensor.DType, dims ...any) *TensorType {
	t := &TensorType{Elem: elem, Shape: Shape{}}
	for _, d := range dims {
		switch d := d.(type) {
		case int:
			t.Shape = append(t.Shape, Const(int64(d)))
		case int64:
			t.Shape = append(t.Shape, Const(d))
		case Dim:
			t.Shape = append(t.Shape, d)
		case string:
			e, err := ParseDim(d)
			if err != nil {
				panic("ir.Tensor: " + err.Error())
			}
			t.Shape = append(t.Shape, e)
		default:
			panic("ir.Tensor: dimensions are int, string or Dim")
		}
	}
	return t
}

// Of returns the type of a constant.
func Of(t *tensor.Tensor) *TensorType {
	s := make(Shape, t.Rank())
	for i, d := range t.Shape() {
		s[i] = Const(int64(d))
	}
	return &TensorType{Elem: t.DType(), Shape: s}
}

// AsTensor returns t if it is a tensor type, or the tensor type inside an optional.
func AsTensor(t Type) (*TensorType, bool) {
	if o, ok := t.(*OptionalType); ok {
		t = o.Elem
	}
	tt, ok := t.(*TensorType)
	return tt, ok
}

// Compatible reports whether some value could have both types: equal structure and element types, and no two dimensions
// that are known to differ.
func Compatible(a, b Type) bool {
	switch a := a.(type) {
	case *TensorType:
		b, ok := b.(*TensorType)
		if !ok || a.Elem != b.Elem {
			return false
		}
		if a.NoRank || b.NoRank {
			return true
		}
		if len(a.Shape) != len(b.Shape) {
			return false
		}
		for i := range a.Shape {
			x, okx := a.Shape[i].Known()
			y, oky := b.Shape[i].Known()
			if okx && oky && x != y {
				return false
			}
		}
		return true
	case *SequenceType:
		b, ok := b.(*SequenceType)
		return ok && Compatible(a.Elem, b.Elem)
	case *OptionalType:
		b, ok := b.(*OptionalType)
		return ok && Compatible(a.Elem, b.Elem)
	}
	return a == nil && b == nil
}

// EqualTypes reports whether both types have the same text.
func EqualTypes(a, b Type) bool {
	switch a := a.(type) {
	case *TensorType:
		b, ok := b.(*TensorType)
		return ok && (a == b || a.Elem == b.Elem && a.NoRank == b.NoRank &&
			(a.NoRank || slices.EqualFunc(a.Shape, b.Shape, Dim.same)))
	case *SequenceType:
		b, ok := b.(*SequenceType)
		return ok && EqualTypes(a.Elem, b.Elem)
	case *OptionalType:
		b, ok := b.(*OptionalType)
		return ok && EqualTypes(a.Elem, b.Elem)
	}
	return a == b
}

// isTypeOf reports whether t is the type of a constant, as Of gives it.
func isTypeOf(t Type, k *tensor.Tensor) bool {
	tt, ok := t.(*TensorType)
	return ok && tt.Elem == k.DType() && !tt.NoRank && slices.EqualFunc(tt.Shape, k.Shape(), func(d Dim, n int) bool {
		m, known := d.Known()
		return known && m == int64(n)
	})
}
