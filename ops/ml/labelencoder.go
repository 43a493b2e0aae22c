package ml

import (
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// LabelEncoder1 is LabelEncoder of version 1.
var LabelEncoder1 = ops.Register(&ir.Op{
	Domain: Domain, Name: "LabelEncoder", Since: 1,
	Doc: "Replaces strings by their indices in classes_strings, or integers by the strings at those indices, and " +
		"others by the default.",
	In: ops.Sig("X:T1"), Out: ops.Sig("Y:T2"), Elems: elems("T1", intOrText),
	Attrs: []ir.AttrSpec{stringsAttr("classes_strings", "list of strings"),
		ops.IntSpec("default_int64", -1, "result for strings that are not listed"),
		{Name: "default_string", Kind: ir.AttrString, Default: "_Unused",
			Doc: "result for integers that are not indices"}},
	Infer: otherKind,
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, classes := ops.Tensor(in, 0), c.Node.Attrs.Strs("classes_strings", nil)
		places := ops.Make[int64](c, len(classes))
		for i := range ops.Each(c, len(places)) {
			places[i] = int64(i)
		}
		if x.DType() == tensor.String {
			return lookup(c, x, x.Strings(), pairs(c, classes, places), ops.Int(c.Node, "default_int64")), nil
		}
		return lookupText(c, x, tensor.Data[int64](x), pairs(c, places, classes), ops.Str(c.Node, "default_string")),
			nil
	},
	Along: alongOwn(never), Tol: ir.Exact,
})

// LabelEncoder2 is LabelEncoder of versions 2 and 3.
var LabelEncoder2 = ops.Register(&ir.Op{
	Domain: Domain, Name: "LabelEncoder", Since: 2,
	Doc: encoderDoc, In: ops.Sig("X:T1"), Out: ops.Sig("Y:T2"),
	Elems: elems("T1", []tensor.DType{tensor.String, tensor.Int64, tensor.Float32}),
	Attrs: encoderAttrs, Infer: inferEncoder, Eval: evalEncoder, Along: alongOwn(never), Tol: ir.Exact,
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		return b.Ops(Domain, "LabelEncoder", 1, in, n.Attrs...)
	},
})

// LabelEncoder is LabelEncoder of version 4, with keys and values that may be tensors.
var LabelEncoder = ops.Register(&ir.Op{
	Domain: Domain, Name: "LabelEncoder", Since: 4,
	Doc: encoderDoc, In: ops.Sig("X:T1"), Out: ops.Sig("Y:T2"),
	Elems: elems("T1", []tensor.DType{tensor.String, tensor.Int64, tensor.Float32, tensor.Int32, tensor.Int16,
		tensor.Float64}),
	Attrs: append(append([]ir.AttrSpec{}, encoderAttrs...), tensorAttr("keys_tensor", "keys of any type"),
		tensorAttr("values_tensor", "values of any type"),
		tensorAttr("default_tensor", "for elements that are not keys, one element")),
	Infer: inferEncoder, Eval: evalEncoder, Along: alongOwn(never), Tol: ir.Exact,
})

const encoderDoc = "The value at the index of each element among the keys, or the default for elements that are no " +
	"keys. Of equal keys the last one counts. NaN equals NaN."

var encoderAttrs = []ir.AttrSpec{
	floatsAttr("keys_floats", "keys"), intsAttr("keys_int64s", "keys"), stringsAttr("keys_strings", "keys"),
	floatsAttr("values_floats", "values"), intsAttr("values_int64s", "values"), stringsAttr("values_strings", "values"),
	ops.FloatSpec("default_float", float32(math.Copysign(0, -1)), "result for elements that are not keys"),
	ops.IntSpec("default_int64", -1, "result for elements that are not keys"),
	{Name: "default_string", Kind: ir.AttrString, Default: "_Unused", Doc: "result for elements that are not keys"},
}

// encoderTable reads keys_* or values_*, exactly one of which must be given.
func encoderTable(n *ir.Node, which string) (*tensor.Tensor, error) {
	var t *tensor.Tensor
	found := 0
	if v := n.Attrs.Floats(which+"_floats", nil); v != nil {
		found++
		t, _ = tensor.FromFloat64s(tensor.Float32, v, len(v))
	}
	if v := n.Attrs.Ints(which+"_int64s", nil); v != nil {
		found++
		t = tensor.FromSlice(v, len(v))
	}
	if v := n.Attrs.Strs(which+"_strings", nil); v != nil {
		found++
		t = tensor.FromStrings(v, len(v))
	}
	if v := n.Attrs.Tensor(which + "_tensor"); v != nil {
		found++
		t = v
	}
	if found != 1 {
		return nil, fmt.Errorf("expected one of the attributes %s_*, found %d", which, found)
	}
	return t, nil
}

func inferEncoder(n *ir.Node) ([]ir.Type, error) {
	if _, err := ops.Bind(n); err != nil {
		return nil, err
	}
	keys, values, err := encoderTables(n)
	if err != nil {
		return nil, err
	}
	t, _ := ir.AsTensor(n.In(0).Type)
	if keys.DType() != t.Elem {
		return nil, fmt.Errorf("keys are %v, the input %v", keys.DType(), t.Elem)
	}
	out := *t
	out.Elem = values.DType()
	return []ir.Type{&out}, nil
}

func encoderTables(n *ir.Node) (keys, values *tensor.Tensor, err error) {
	if keys, err = encoderTable(n, "keys"); err != nil {
		return nil, nil, err
	}
	if values, err = encoderTable(n, "values"); err != nil {
		return nil, nil, err
	}
	if keys.Len() != values.Len() {
		return nil, nil, fmt.Errorf("%d keys and %d values", keys.Len(), values.Len())
	}
	return keys, values, nil
}

func evalEncoder(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x := ops.Tensor(in, 0)
	keys, values, err := encoderTables(c.Node)
	if err != nil {
		return nil, err
	}
	// The index of each element among the keys, or -1.
	var at []int
	switch {
	case (x.DType() == tensor.String) != (keys.DType() == tensor.String):
		return nil, fmt.Errorf("keys are %v, the input %v", keys.DType(), x.DType())
	case x.DType() == tensor.String:
		at = placesOf(c, x.Strings(), keys.Strings())
	case x.DType().IsInt() && keys.DType().IsInt():
		v, err := ops.Int64s(c, x)
		if err != nil {
			return nil, err
		}
		k, err := ops.Int64s(c, keys)
		if err != nil {
			return nil, err
		}
		at = placesOf(c, v, k)
	default:
		v, err := ops.Float64s(c, x)
		if err != nil {
			return nil, err
		}
		k, err := ops.Float64s(c, keys)
		if err != nil {
			return nil, err
		}
		at = placesOf(c, v, k)
		nan := -1
		for i, y := range ops.All(c, k) {
			if math.IsNaN(y) {
				nan = i
			}
		}
		for i, y := range ops.All(c, v) {
			if math.IsNaN(y) {
				at[i] = nan
			}
		}
	}
	def, err := encoderDefault(c.Node, values.DType())
	if err != nil {
		return nil, err
	}
	switch {
	case values.DType() == tensor.String:
		return []tensor.Datum{tensor.FromStrings(picked(c, at, values.Strings(), def.Strings()[0]), x.Shape()...)}, nil
	case values.DType().IsInt():
		v, err := ops.Int64s(c, values)
		if err != nil {
			return nil, err
		}
		d, err := ops.Int64s(c, def)
		if err != nil {
			return nil, err
		}
		return ops.One(ops.Convert(c, tensor.FromSlice(picked(c, at, v, d[0]), x.Shape()...), values.DType(), false))
	}
	v, err := ops.Float64s(c, values)
	if err != nil {
		return nil, err
	}
	d, err := ops.Float64s(c, def)
	if err != nil {
		return nil, err
	}
	return ops.One(ops.Real(c, values.DType(), picked(c, at, v, d[0]), x.Shape()...))
}

// encoderDefault returns the value of elements that are not keys, in a tensor of one element.
func encoderDefault(n *ir.Node, values tensor.DType) (*tensor.Tensor, error) {
	text := values == tensor.String
	def := n.Attrs.Tensor("default_tensor")
	switch {
	case def != nil && (def.Len() != 1 || (def.DType() == tensor.String) != text):
		return nil, fmt.Errorf("default_tensor: expected one element of %v, found %s", values, def)
	case def != nil:
		return def, nil
	case text:
		return tensor.FromStrings([]string{ops.Str(n, "default_string")}, 1), nil
	case values.IsInt():
		return tensor.FromSlice([]int64{ops.Int(n, "default_int64")}, 1), nil
	}
	return tensor.FromSlice([]float64{ops.Float(n, "default_float")}, 1), nil
}

// EncoderOf reads the keys of a LabelEncoder, their values, and the value of elements that are not keys, which has
// the type of the values or a wider one. It returns nil for nodes that an evaluation refuses.
func EncoderOf(n *ir.Node) (keys, values, def *tensor.Tensor) {
	keys, values, err := encoderTables(n)
	if err != nil {
		return nil, nil, nil
	}
	if def, err = encoderDefault(n, values.DType()); err != nil {
		return nil, nil, nil
	}
	return keys, values, def
}

func placesOf[T comparable](c *ir.EvalCtx, v, keys []T) []int {
	places := ops.Make[int](c, len(keys))
	for i := range ops.Each(c, len(places)) {
		places[i] = i
	}
	return mapped(c, v, pairs(c, keys, places), -1)
}

func picked[T any](c *ir.EvalCtx, at []int, values []T, def T) []T {
	out := ops.Make[T](c, len(at))
	for i, k := range ops.All(c, at) {
		if out[i] = def; k >= 0 {
			out[i] = values[k]
		}
	}
	return out
}
