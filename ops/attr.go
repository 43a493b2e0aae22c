package ops

import "github.com/essmc/essmc/ir"

// IntSpec declares an integer attribute. def is nil if it has no default.
func IntSpec(name string, def any, doc string) ir.AttrSpec {
	s := ir.AttrSpec{Name: name, Kind: ir.AttrInt, Doc: doc}
	if d, ok := def.(int); ok {
		s.Default = int64(d)
	}
	return s
}

// FloatSpec declares a float attribute with a default, which ONNX states in single precision.
func FloatSpec(name string, def float32, doc string) ir.AttrSpec {
	return ir.AttrSpec{Name: name, Kind: ir.AttrFloat, Default: float64(def), Doc: doc}
}

// ChoiceSpec declares a string attribute with the allowed values. The first is the default.
func ChoiceSpec(name, doc string, choices ...string) ir.AttrSpec {
	return ir.AttrSpec{Name: name, Kind: ir.AttrString, Default: choices[0], OneOf: choices, Doc: doc}
}

// Spec declares an attribute of any kind without a default.
func Spec(name string, kind ir.AttrKind, doc string) ir.AttrSpec {
	return ir.AttrSpec{Name: name, Kind: kind, Doc: doc}
}

// Required returns s as the declaration of an attribute that nodes must have.
func Required(s ir.AttrSpec) ir.AttrSpec { s.Required, s.Default = true, nil; return s }

// Int reads an integer attribute of a node, or the default that its operator declares.
func Int(n *ir.Node, name string) int64 { return n.Attrs.Int(name, declared[int64](n, name)) }

// Float reads a float attribute of a node, or the default that its operator declares.
func Float(n *ir.Node, name string) float64 { return n.Attrs.Float(name, declared[float64](n, name)) }

// Str reads a string attribute of a node, or the default that its operator declares.
func Str(n *ir.Node, name string) string { return n.Attrs.Str(name, declared[string](n, name)) }

func declared[T any](n *ir.Node, name string) T {
	for _, a := range n.Op.Attrs {
		if a.Name == name {
			v, _ := a.Default.(T)
			return v
		}
	}
	var zero T
	return zero
}
