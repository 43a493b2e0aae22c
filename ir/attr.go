package ir

import (
	"slices"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
)

// Attr is one named attribute of a node. Value is one of int64, float64, string, *tensor.Tensor, *Graph, Type, []int64,
// []float64, []string, []*tensor.Tensor, []*Graph, []Type. Floats have double precision; ONNX's single precision widens
// exactly.
type Attr struct {
	Name  string
	Value any
}

// Attrs is a node's attributes, sorted by name.
type Attrs []Attr

// AttrKind is the type of an attribute's value.
type AttrKind string

// The kinds of attributes.
const (
	AttrInt     AttrKind = "int"
	AttrFloat   AttrKind = "float"
	AttrString  AttrKind = "string"
	AttrTensor  AttrKind = "tensor"
	AttrGraph   AttrKind = "graph"
	AttrType    AttrKind = "type"
	AttrInts    AttrKind = "ints"
	AttrFloats  AttrKind = "floats"
	AttrStrings AttrKind = "strings"
	AttrTensors AttrKind = "tensors"
	AttrGraphs  AttrKind = "graphs"
	AttrTypes   AttrKind = "types"
)

// Kind returns the kind of a; empty when Value has a type that no attribute can have.
func (a Attr) Kind() AttrKind {
	switch a.Value.(type) {
	case int64:
		return AttrInt
	case float64:
		return AttrFloat
	case string:
		return AttrString
	case *tensor.Tensor:
		return AttrTensor
	case *Graph:
		return AttrGraph
	case Type:
		return AttrType
	case []int64:
		return AttrInts
	case []float64:
		return AttrFloats
	case []string:
		return AttrStrings
	case []*tensor.Tensor:
		return AttrTensors
	case []*Graph:
		return AttrGraphs
	case []Type:
		return AttrTypes
	}
	return ""
}

// A makes an attribute. Values of type int, bool, []int and float32 become their attribute types.
func A(name string, value any) Attr {
	switch v := value.(type) {
	case int:
		value = int64(v)
	case bool:
		value = int64(0)
		if v {
			value = int64(1)
		}
	case float32:
		value = float64(v)
	case []int:
		w := make([]int64, len(v))
		for i, x := range v {
			w[i] = int64(x)
		}
		value = w
	}
	return Attr{name, value}
}

// NewAttrs sorts attributes by name. Of several with the same name the last one counts.
func NewAttrs(attrs ...Attr) Attrs {
	var out Attrs
	for _, a := range attrs {
		out = out.With(a.Name, a.Value)
	}
	return out
}

// Get returns the value of an attribute, or nil.
func (as Attrs) Get(name string) any {
	if i, ok := as.find(name); ok {
		return as[i].Value
	}
	return nil
}

// Has reports whether the attribute is there.
func (as Attrs) Has(name string) bool { _, ok := as.find(name); return ok }

func (as Attrs) find(name string) (int, bool) {
	return slices.BinarySearchFunc(as, name, func(a Attr, n string) int { return strings.Compare(a.Name, n) })
}

// With returns a copy in which the attribute has the value, which may be of any type that A takes.
func (as Attrs) With(name string, value any) Attrs {
	out := slices.Clone(as)
	i, ok := out.find(name)
	a := A(name, value)
	if ok {
		out[i] = a
		return out
	}
	return slices.Insert(out, i, a)
}

// Without returns a copy that lacks the attribute.
func (as Attrs) Without(name string) Attrs {
	return slices.DeleteFunc(slices.Clone(as), func(a Attr) bool { return a.Name == name })
}

func get[T any](as Attrs, name string, def T) T {
	if v, ok := as.Get(name).(T); ok {
		return v
	}
	return def
}

// Int returns an integer attribute, or def when it is absent.
func (as Attrs) Int(name string, def int64) int64 { return get(as, name, def) }

// Bool returns an integer attribute as a truth value.
func (as Attrs) Bool(name string, def bool) bool {
	if v, ok := as.Get(name).(int64); ok {
		return v != 0
	}
	return def
}

// Float returns a float attribute, or def.
func (as Attrs) Float(name string, def float64) float64 { return get(as, name, def) }

// Str returns a string attribute, or def.
func (as Attrs) Str(name, def string) string { return get(as, name, def) }

// Ints returns a list of integers, or def.
func (as Attrs) Ints(name string, def []int64) []int64 { return get(as, name, def) }

// Floats returns a list of floats, or def.
func (as Attrs) Floats(name string, def []float64) []float64 { return get(as, name, def) }

// Strs returns a list of strings, or def.
func (as Attrs) Strs(name string, def []string) []string { return get(as, name, def) }

// Tensor returns a tensor attribute, or nil.
func (as Attrs) Tensor(name string) *tensor.Tensor { return get[*tensor.Tensor](as, name, nil) }

// Graph returns a subgraph, or nil.
func (as Attrs) Graph(name string) *Graph { return get[*Graph](as, name, nil) }
