package ml

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// CategoryMapper maps between categories and numbers.
var CategoryMapper = ops.Register(&ir.Op{
	Domain: Domain, Name: "CategoryMapper", Since: 1,
	Doc: "Replaces strings by the integers, or integers by the strings, at the same index of two lists, and others " +
		"by the default.",
	In: ops.Sig("X:T1"), Out: ops.Sig("Y:T2"), Elems: elems("T1", intOrText),
	Attrs: []ir.AttrSpec{intsAttr("cats_int64s", "the integers"), stringsAttr("cats_strings", "the strings"),
		ops.IntSpec("default_int64", -1, "result for strings that are not listed"),
		{Name: "default_string", Kind: ir.AttrString, Default: "_Unused",
			Doc: "result for integers that are not listed"}},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		if a, b := len(n.Attrs.Ints("cats_int64s", nil)), len(n.Attrs.Strs("cats_strings", nil)); a != b {
			return nil, fmt.Errorf("cats_int64s has %d elements, cats_strings %d", a, b)
		}
		return otherKind(n)
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x := ops.Tensor(in, 0)
		ints, strs := c.Node.Attrs.Ints("cats_int64s", nil), c.Node.Attrs.Strs("cats_strings", nil)
		if x.DType() == tensor.String {
			return lookup(c, x, x.Strings(), pairs(c, strs, ints), ops.Int(c.Node, "default_int64")), nil
		}
		return lookupText(c, x, tensor.Data[int64](x), pairs(c, ints, strs), ops.Str(c.Node, "default_string")), nil
	},
	Along: alongOwn(never), Tol: ir.Exact,
})

// otherKind infers integers for strings, and strings for integers, of the same shape.
func otherKind(n *ir.Node) ([]ir.Type, error) {
	if _, err := ops.Bind(n); err != nil {
		return nil, err
	}
	t, _ := ir.AsTensor(n.In(0).Type)
	out := *t
	out.Elem = tensor.String
	if t.Elem == tensor.String {
		out.Elem = tensor.Int64
	}
	return []ir.Type{&out}, nil
}

// pairs maps keys to values at the same index. Of equal keys the last one counts.
func pairs[K comparable, V any](c *ir.EvalCtx, keys []K, values []V) map[K]V {
	m := make(map[K]V, len(keys))
	for i, k := range ops.All(c, keys) {
		c.Step(64)
		m[k] = values[i]
	}
	return m
}

func lookup[K comparable, V tensor.Elem](c *ir.EvalCtx, like *tensor.Tensor, v []K, table map[K]V,
	def V) []tensor.Datum {
	return []tensor.Datum{tensor.FromSlice(mapped(c, v, table, def), like.Shape()...)}
}

func lookupText[K comparable](c *ir.EvalCtx, like *tensor.Tensor, v []K, table map[K]string,
	def string) []tensor.Datum {
	return []tensor.Datum{tensor.FromStrings(mapped(c, v, table, def), like.Shape()...)}
}

func mapped[K comparable, V any](c *ir.EvalCtx, v []K, table map[K]V, def V) []V {
	out := ops.Make[V](c, len(v))
	list, text := any(v).([]string)
	longest := longestKey(table)
	for i, k := range ops.All(c, v) {
		x := def
		if !text || len(list[i]) <= longest {
			if y, ok := table[k]; ok {
				x = y
			}
		}
		out[i] = x
	}
	return out
}

// longestKey returns the length of the longest string among the keys of a table, 0 for other keys.
func longestKey[K comparable, V any](table map[K]V) int {
	n := 0
	if t, ok := any(table).(map[string]V); ok {
		for k := range t {
			n = max(n, len(k))
		}
	}
	return n
}
