// Package ml has the operators of ONNX's domain for classical machine learning, ai.onnx.ml. A file has one operator
// or a few related ones, with signature, evaluation and facts.
//
// It imports ir, ir/scalar, ir/tensor and ops only. Sums run in float64, in the order in which the attributes list
// their terms. Attributes are checked before they are used as indices. An input of rank 1 is one sample. Where the
// standard is incomplete (binary classifiers, transforms of single scores, PROBIT), ONNX Runtime defines the result.
//
// The IR has no maps. ZipMap therefore returns a tensor, and CastMap and DictVectorizer are registered but refused.
package ml

import (
	"fmt"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// fitted is the NoGradient of classical models and their preprocessing.
const fitted = "belongs to a fitted model of ai.onnx.ml, which is not trained by gradients"

// Domain is the domain of these operators as ONNX writes it.
const Domain = "ai.onnx.ml"

// Element types that several operators allow.
var (
	numeric   = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32}
	intOrText = []tensor.DType{tensor.Int64, tensor.String}
)

func elems(name string, types []tensor.DType) map[string][]tensor.DType {
	return map[string][]tensor.DType{name: types}
}

func intsAttr(name, doc string) ir.AttrSpec    { return ops.Spec(name, ir.AttrInts, doc) }
func floatsAttr(name, doc string) ir.AttrSpec  { return ops.Spec(name, ir.AttrFloats, doc) }
func stringsAttr(name, doc string) ir.AttrSpec { return ops.Spec(name, ir.AttrStrings, doc) }
func tensorAttr(name, doc string) ir.AttrSpec  { return ops.Spec(name, ir.AttrTensor, doc) }

// matrix reads input 0 as samples by features; a vector is one sample.
func matrix(c *ir.EvalCtx, in []tensor.Datum) (v []float64, rows, cols int, err error) {
	x := ops.Tensor(in, 0)
	if x == nil {
		return nil, 0, 0, fmt.Errorf("input 0 (X) is missing")
	}
	switch x.Rank() {
	case 1:
		rows, cols = 1, x.Dim(0)
	case 2:
		rows, cols = x.Dim(0), x.Dim(1)
	default:
		return nil, 0, 0, fmt.Errorf("input 0 (X): expected samples by features, found %s", x)
	}
	return ops.F64(c, in, 0), rows, cols, nil
}

// samples returns the number of samples of a node's first input as a dimension.
func samples(n *ir.Node) (ir.Dim, error) {
	t, _ := ir.AsTensor(n.In(0).Type)
	switch {
	case t.NoRank:
		return ir.Unknown, nil
	case len(t.Shape) == 1:
		return ir.Const(1), nil
	case len(t.Shape) == 2:
		return t.Shape[0], nil
	}
	return ir.Dim{}, fmt.Errorf("input 0 (X): expected samples by features, found %v", t)
}

// perRow returns the cost of reading a model of a size from attributes, and of that many operations for each sample.
func perRow(n *ir.Node, bind map[string]int64, size int64) ir.Work {
	rows := int64(1)
	if len(n.In(0).Shape()) > 1 {
		rows = ops.DimAt(n.In(0), 0, bind)
	}
	return ops.Stated(n, bind, ops.Product(4, rows+16, size))
}

// listed returns the number of elements of attributes that are lists.
func listed(n *ir.Node, names ...string) int64 {
	size := int64(1)
	for _, name := range names {
		size += int64(len(n.Attrs.Ints(name, nil)) + len(n.Attrs.Floats(name, nil)))
		if t := n.Attrs.Tensor(name + "_as_tensor"); t != nil {
			size += int64(t.Len())
		}
	}
	return size
}

// perSample returns the inference of outputs with one row per sample. types returns their types for a number of
// samples.
func perSample(types func(n *ir.Node, samples ir.Dim) ([]ir.Type, error)) func(*ir.Node) ([]ir.Type, error) {
	return func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		d, err := samples(n)
		if err != nil {
			return nil, err
		}
		return types(n, d)
	}
}

// alongSamples is the Along of operators that treat samples separately.
func alongSamples(n *ir.Node, in []ir.Fact) []ir.Fact {
	f := in[0]
	f.State = 0
	if !f.Constant() && !f.Global && f.Axis >= 0 && (len(n.In(0).Shape()) != 2 || f.Axis != 0) {
		f = ops.Global(n, in)
	}
	out := make([]ir.Fact, len(n.Outputs))
	for i := range out {
		out[i] = f
	}
	return out
}

// alongOwn returns the Along of elementwise operators. If byFeature returns true, features (the last axis) are treated
// differently.
func alongOwn(byFeature func(*ir.Node) bool) func(*ir.Node, []ir.Fact) []ir.Fact {
	return func(n *ir.Node, in []ir.Fact) []ir.Fact {
		f := in[0]
		f.State = 0
		if !f.Constant() && !f.Global && byFeature(n) && f.Axis == len(n.In(0).Shape())-1 {
			f = ops.Global(n, in)
		}
		return []ir.Fact{f}
	}
}

func never(*ir.Node) bool { return false }

// labels holds the class labels of a classifier: integers or strings.
type labels struct {
	ints []int64
	strs []string
}

func labelsOf(n *ir.Node, ints string) labels {
	return labels{n.Attrs.Ints(ints, nil), n.Attrs.Strs("classlabels_strings", nil)}
}

func (l labels) text() bool { return len(l.strs) > 0 }
func (l labels) len() int   { return max(len(l.ints), len(l.strs)) }

func (l labels) elem() tensor.DType {
	if l.text() {
		return tensor.String
	}
	return tensor.Int64
}

// check returns an error unless there are labels of exactly one type.
func (l labels) check() error {
	if (len(l.ints) > 0) == (len(l.strs) > 0) {
		return fmt.Errorf("expected class labels as integers or as strings, found %d integers and %d strings",
			len(l.ints), len(l.strs))
	}
	return nil
}

// pick returns the labels of the given classes as a tensor. A negative class is a binary decision without a label:
// noLabel-0 is "0", noLabel-1 is "1".
func (l labels) pick(ec *ir.EvalCtx, classes []int) *tensor.Tensor {
	if l.text() {
		out := ops.Make[string](ec, len(classes))
		for i, c := range ops.All(ec, classes) {
			if c < 0 {
				out[i] = [2]string{"0", "1"}[noLabel-c]
			} else {
				out[i] = l.strs[c]
			}
		}
		return tensor.FromStrings(out, len(out))
	}
	out := ops.Make[int64](ec, len(classes))
	for i, c := range ops.All(ec, classes) {
		if c < 0 {
			out[i] = int64(noLabel - c)
		} else {
			out[i] = l.ints[c]
		}
	}
	return tensor.FromSlice(out, len(out))
}

// picked is pick of classes in 64 bits.
func (l labels) picked(c *ir.EvalCtx, classes []int64) *tensor.Tensor {
	list := ops.Make[int](c, len(classes))
	for i, k := range ops.All(c, classes) {
		list[i] = int(k)
	}
	return l.pick(c, list)
}

// label returns the label of a class where labels are integers.
func (l labels) label(class int) int64 {
	if class < 0 {
		return int64(noLabel - class)
	}
	return l.ints[class]
}

// noLabel marks a decision without a label; see pick.
const noLabel = -1

// classified returns the inference of a classifier's outputs: a label and scores per sample.
func classified(ints string, scores func(n *ir.Node, l labels) int) func(*ir.Node) ([]ir.Type, error) {
	return perSample(func(n *ir.Node, d ir.Dim) ([]ir.Type, error) {
		l := labelsOf(n, ints)
		if err := l.check(); err != nil {
			return nil, err
		}
		z := ir.Unknown
		if k := scores(n, l); k >= 0 {
			z = ir.Const(int64(k))
		}
		return []ir.Type{ir.Tensor(l.elem(), d), ir.Tensor(tensor.Float32, d, z)}, nil
	})
}

// scored returns a classifier's results from classes and rows of cols scores.
func scored(c *ir.EvalCtx, l labels, classes []int, scores [][]float64, cols int) ([]tensor.Datum, error) {
	z, err := joined(c, scores, cols)
	if err != nil {
		return nil, err
	}
	return []tensor.Datum{l.pick(c, classes), z}, nil
}

// joined returns a float32 matrix of rows of the given length.
func joined(c *ir.EvalCtx, rows [][]float64, cols int) (*tensor.Tensor, error) {
	var flat []float64
	if len(rows) > 0 && len(rows[0]) == cols { // as in all others
		if _, err := ops.Elems([]int{len(rows), cols}); err != nil {
			return nil, err
		}
		flat = ops.Make[float64](c, len(rows)*cols)[:0]
	}
	for _, r := range ops.All(c, rows) {
		if len(r) != cols {
			return nil, fmt.Errorf("expected %d scores per sample, found %d", cols, len(r))
		}
		flat = ops.Append(c, flat, r...)
	}
	return ops.Real(c, tensor.Float32, flat, len(rows), cols)
}
