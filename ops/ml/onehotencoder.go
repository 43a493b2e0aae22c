package ml

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// OneHotEncoder replaces categories by indicator vectors.
var OneHotEncoder = ops.Register(&ir.Op{
	Domain: Domain, Name: "OneHotEncoder", Since: 1,
	Doc: "For each element of X a vector, along a new last axis, that is 1 at the element's index in the list of " +
		"categories and 0 elsewhere. " +
		"Floats are truncated to integers first. The vector of an element that is not listed is 0; it is an error if " +
		"zeros is 0.",
	In: ops.Sig("X:T"), Out: ops.Sig("Y:float32"), Elems: elems("T", append(slices.Clone(numeric), tensor.String)),
	Attrs: []ir.AttrSpec{intsAttr("cats_int64s", "categories of numbers"),
		stringsAttr("cats_strings", "categories of strings"),
		ops.IntSpec("zeros", 1, "whether elements that are not listed are allowed")},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		t, _ := ir.AsTensor(n.In(0).Type)
		cats := len(n.Attrs.Ints("cats_int64s", nil))
		if t.Elem == tensor.String {
			cats = len(n.Attrs.Strs("cats_strings", nil))
		}
		if cats == 0 {
			return nil, fmt.Errorf("no categories for elements of type %v", t.Elem)
		}
		if t.NoRank {
			return []ir.Type{&ir.TensorType{Elem: tensor.Float32, NoRank: true}}, nil
		}
		return []ir.Type{&ir.TensorType{Elem: tensor.Float32,
			Shape: append(slices.Clone(t.Shape), ir.Const(int64(cats)))}}, nil
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x := ops.Tensor(in, 0)
		strict := ops.Int(c.Node, "zeros") == 0
		if x.DType() == tensor.String {
			return oneHot(c, x, x.Strings(), c.Node.Attrs.Strs("cats_strings", nil), strict)
		}
		v := ops.Make[int64](c, x.Len())
		if x.DType().IsInt() {
			w, err := ops.Int64s(c, x)
			if err != nil {
				return nil, err
			}
			v = w
		} else {
			for i, y := range ops.All(c, ops.F64(c, in, 0)) {
				v[i] = int64(y)
			}
		}
		return oneHot(c, x, v, c.Node.Attrs.Ints("cats_int64s", nil), strict)
	},
	Along: alongOwn(never), Tol: ir.Exact,
})

func oneHot[T comparable](c *ir.EvalCtx, x *tensor.Tensor, v, cats []T, strict bool) ([]tensor.Datum, error) {
	shape := append(slices.Clone(x.Shape()), len(cats))
	if _, err := ops.Elems(shape); err != nil {
		return nil, err
	}
	if c.Wide {
		out := ops.New(c, tensor.Float64, shape...)
		return []tensor.Datum{out}, setOnes(c, tensor.Data[float64](out), v, cats, strict)
	}
	out := ops.New(c, tensor.Float32, shape...)
	return []tensor.Datum{out}, setOnes(c, tensor.Data[float32](out), v, cats, strict)
}

// fewCategories are looked through faster than they are looked up.
const fewCategories = 16

// setOnes sets the element of each vector that is at the index of a category.
func setOnes[T comparable, F float32 | float64](c *ir.EvalCtx, out []F, v, cats []T, strict bool) error {
	var place map[T]int
	if len(cats) > fewCategories {
		place = map[T]int{}
		for i, k := range ops.All(c, cats) {
			if _, ok := place[k]; !ok {
				place[k] = i
			}
		}
	}
	list, text := any(v).([]string)
	longest := longestKey(place)
	for i := range ops.Costly(c, len(v), 8) {
		at := -1
		if place == nil {
			at = slices.Index(cats, v[i])
		} else if !text || len(list[i]) <= longest {
			if k, ok := place[v[i]]; ok {
				at = k
			}
		}
		switch {
		case at >= 0:
			out[i*len(cats)+at] = 1
		case strict:
			return fmt.Errorf("element %d (%.40s) is not among the %d categories", i, fmt.Sprint(v[i]), len(cats))
		}
	}
	return nil
}
