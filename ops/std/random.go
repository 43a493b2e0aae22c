package std

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/std/internal/mt19937"
)

// source returns a node's random generator. It depends on the seed or, without one, is different each time.
func source(n *ir.Node) *mt19937.Source {
	switch s := n.Attrs.Get("seed").(type) {
	case float64: // the standard's operators have it as a float
		if s >= 0 && s <= math.MaxUint32 {
			return mt19937.New(uint32(s))
		}
		return mt19937.New(uint32(math.Float64bits(s) >> 32))
	case int64:
		return mt19937.New(uint32(s))
	}
	return mt19937.New(rand.Uint32())
}

func seedAttr(kind ir.AttrKind) ir.AttrSpec {
	return ir.AttrSpec{Name: "seed", Kind: kind, Doc: "seed; absent: a different one each time"}
}

func dtypeSpec(doc string) ir.AttrSpec {
	return intAttr("dtype", nil, "element type, by ONNX's number; absent: "+doc)
}

// uniform returns a function that draws from [lo, hi).
func uniform(n *ir.Node) func(*mt19937.Source) float64 {
	lo, hi := getFloat(n, "low"), getFloat(n, "high")
	return func(r *mt19937.Source) float64 { return lo + (hi-lo)*r.Float64() }
}

// gauss returns a function that draws from a normal distribution.
func gauss(n *ir.Node) func(*mt19937.Source) float64 {
	mean, scale := getFloat(n, "mean"), getFloat(n, "scale")
	return func(r *mt19937.Source) float64 {
		radius := math.Sqrt(-2 * math.Log(1-r.Float64()))
		return mean + scale*radius*math.Cos(2*math.Pi*r.Float64())
	}
}

func draw(c *ir.EvalCtx, d tensor.DType, shape []int, next func(*mt19937.Source) float64) ([]tensor.Datum, error) {
	size, err := ops.Elems(shape)
	if err != nil {
		return nil, err
	}
	r, v := source(c.Node), ops.Make[float64](c, size)
	for i := range ops.Each(c, len(v)) {
		v[i] = next(r)
	}
	return ops.One(ops.Real(c, d, v, shape...))
}

// randomOf registers a generator whose shape is an attribute.
func randomOf(name, doc string, next func(*ir.Node) func(*mt19937.Source) float64, attrs ...ir.AttrSpec) *ir.Op {
	shapeOf := func(n *ir.Node) ([]int, tensor.DType, error) {
		d, err := dtypeAttr(n, ops.Floats, tensor.Float32)
		if err != nil {
			return nil, d, err
		}
		s, err := intShape(nil, n.Attrs.Ints("shape", nil))
		return s, d, err
	}
	return ops.Same(ops.Register(&ir.Op{
		Name: name, Since: 22, Doc: doc, Out: ops.Sig("output:T"), Random: true, Tol: ir.Rounding,
		Attrs: append([]ir.AttrSpec{{Name: "shape", Kind: ir.AttrInts, Required: true, Doc: "the shape"},
			intAttr("dtype", int(tensor.Float32), "element type, by ONNX's number"), seedAttr(ir.AttrFloat)}, attrs...),
		Infer: func(n *ir.Node) ([]ir.Type, error) {
			shape, d, err := shapeOf(n)
			if err != nil {
				return nil, err
			}
			t := &ir.TensorType{Elem: d, Shape: ir.Shape{}}
			for _, k := range shape {
				t.Shape = append(t.Shape, ir.Const(int64(k)))
			}
			return one(t)
		},
		Eval: func(c *ir.EvalCtx, _ []tensor.Datum) ([]tensor.Datum, error) {
			shape, d, err := shapeOf(c.Node)
			if err != nil {
				return nil, err
			}
			return draw(c, d, shape, next(c.Node))
		},
	}), 1)
}

// randomLike registers a generator with the shape of its input.
func randomLike(name, doc string, next func(*ir.Node) func(*mt19937.Source) float64, attrs ...ir.AttrSpec) *ir.Op {
	typeOf := func(n *ir.Node) (tensor.DType, error) {
		d, err := dtypeAttr(n, ops.Floats, n.In(0).Elem())
		if err == nil && !d.IsFloat() {
			err = fmt.Errorf("attribute dtype is needed: the input's %v is not a float type", d)
		}
		return d, err
	}
	return ops.Same(ops.Register(&ir.Op{
		Name: name, Since: 22, Doc: doc, In: ops.Sig("input:T1"), Out: ops.Sig("output:T2"), Random: true,
		Gradient: ops.GradientZero,
		Tol:      ir.Rounding,
		Elems:    map[string][]tensor.DType{"T1": ops.Any, "T2": ops.Floats},
		Attrs:    append([]ir.AttrSpec{dtypeSpec("the input's"), seedAttr(ir.AttrFloat)}, attrs...),
		Infer:    inferLike(typeOf),
		Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
			x, err := need(in, 0, "input")
			if err != nil {
				return nil, err
			}
			d, err := typeOf(c.Node)
			if err != nil {
				return nil, err
			}
			return draw(c, d, x.Shape(), next(c.Node))
		},
	}), 1)
}

// inferLike returns the first input's shape with the element type that elem returns.
func inferLike(elem func(*ir.Node) (tensor.DType, error)) func(*ir.Node) ([]ir.Type, error) {
	return func(n *ir.Node) ([]ir.Type, error) {
		if _, err := ops.Bind(n); err != nil {
			return nil, err
		}
		d, err := elem(n)
		if err != nil {
			return nil, err
		}
		t := tensorIn(n, 0)
		return one(&ir.TensorType{Elem: d, Shape: t.Shape, NoRank: t.NoRank})
	}
}

// Random tensors.
var (
	RandomUniform = randomOf("RandomUniform", "Numbers from a uniform distribution over [low, high).", uniform,
		floatAttr("low", 0, "lower bound, included"), floatAttr("high", 1, "upper bound, excluded"))
	RandomUniformLike = randomLike("RandomUniformLike",
		"Numbers from a uniform distribution over [low, high), in the input's shape.", uniform,
		floatAttr("low", 0, "lower bound, included"), floatAttr("high", 1, "upper bound, excluded"))
	RandomNormal = randomOf("RandomNormal", "Numbers from a normal distribution.", gauss,
		floatAttr("mean", 0, "mean"), floatAttr("scale", 1, "standard deviation"))
	RandomNormalLike = randomLike("RandomNormalLike", "Numbers from a normal distribution, in the input's shape.",
		gauss,
		floatAttr("mean", 0, "mean"), floatAttr("scale", 1, "standard deviation"))
)

// Bernoulli draws truth values.
var Bernoulli = ops.Same(ops.Register(&ir.Op{
	Name: "Bernoulli", Since: 22, Doc: "1 with the probability given by each element of the input, else 0.",
	In: ops.Sig("input:T1"), Out: ops.Sig("output:T2"), Random: true, Tol: ir.Exact,
	Elems: map[string][]tensor.DType{"T1": ops.Floats, "T2": eyeTypes},
	Attrs: []ir.AttrSpec{dtypeSpec("the input's"), seedAttr(ir.AttrFloat)},
	Infer: inferLike(bernoulliType),
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		d, err := bernoulliType(c.Node)
		if err != nil {
			return nil, err
		}
		r, v := source(c.Node), ops.F64(c, in, 0)
		for i, p := range ops.All(c, v) {
			if v[i] = 0; r.Float64() < p {
				v[i] = 1
			}
		}
		return ops.One(ops.Real(c, d, v, x.Shape()...))
	},
	Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		var seed []ir.Attr
		if s, ok := n.Attrs.Get("seed").(float64); ok {
			seed = append(seed, ir.A("seed", s))
		}
		d, err := bernoulliType(n)
		if err != nil {
			b.Fail(err)
			return make([]*ir.Value, 1)
		}
		return []*ir.Value{castOp(b, op(b, "Greater", in[0], attr(b, "RandomUniformLike", in, seed...)), d)}
	},
}), 15)

func bernoulliType(n *ir.Node) (tensor.DType, error) { return dtypeAttr(n, eyeTypes, n.In(0).Elem()) }

// Multinomial draws classes.
var Multinomial = ops.Same(ops.Register(&ir.Op{
	Name: "Multinomial", Since: 22,
	Doc: "sample_size classes per row of the input, which holds the unnormalized logarithms of their probabilities.",
	In:  ops.Sig("input:T1[B,_]"), Out: ops.Sig("output:T2"), Random: true, Tol: ir.Exact,
	Elems: map[string][]tensor.DType{"T1": ops.Floats, "T2": indexTypes},
	Attrs: []ir.AttrSpec{intAttr("dtype", int(tensor.Int32), "element type, by ONNX's number"),
		intAttr("sample_size", 1, "number of samples"), seedAttr(ir.AttrFloat)},
	Infer: func(n *ir.Node) ([]ir.Type, error) {
		b, err := ops.Bind(n)
		if err != nil {
			return nil, err
		}
		d, err := dtypeAttr(n, indexTypes, tensor.Int32)
		if err != nil {
			return nil, err
		}
		k := getInt(n, "sample_size")
		if k < 0 {
			return nil, fmt.Errorf("attribute sample_size: %d", k)
		}
		return one(typed(d, ir.Shape{b.At("B"), ir.Const(k)}))
	},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "input")
		if err != nil {
			return nil, err
		}
		d, err := dtypeAttr(c.Node, indexTypes, tensor.Int32)
		if err != nil {
			return nil, err
		}
		if x.Rank() != 2 || x.Dim(1) == 0 {
			return nil, fmt.Errorf("input: expected rows of classes, found %s", x)
		}
		shape, err := intShape(c, []int64{int64(x.Dim(0)), getInt(c.Node, "sample_size")})
		if err != nil {
			return nil, err
		}
		v, classes, r := ops.F64(c, in, 0), x.Dim(1), source(c.Node)
		out := ops.Make[int64](c, product(shape))[:0]
		for i := range shape[0] {
			c.Step(1)
			row := v[i*classes : (i+1)*classes]
			top, sum := rowMax(c, row), 0.0
			for j, l := range ops.All(c, row) {
				sum += math.Exp(l - top)
				row[j] = sum
			}
			for range shape[1] {
				c.Step(1)
				at, p := 0, r.Float64()*sum
				for at < classes-1 && row[at] <= p {
					at++
				}
				out = append(out, int64(at))
			}
		}
		return ops.One(fromInts(c, d, out, shape...))
	},
}), 7)

// Dropout drops elements in training.
var Dropout = ops.Same(ops.Register(&ir.Op{
	Name: "Dropout", Since: 22,
	Doc: "data itself; with training_mode, each element is 0 with probability ratio, and data/(1-ratio) otherwise. " +
		"mask is true for the kept elements.",
	In: ops.Sig("data:T[...]", "ratio:T1?", "training_mode:bool?"), Out: ops.Sig("output:T[...]", "mask:bool[...]"),
	Random: true, Tol: ir.Rounding,
	Elems: map[string][]tensor.DType{"T": ops.Floats, "T1": ops.Floats},
	Attrs: []ir.AttrSpec{seedAttr(ir.AttrInt)},
	Eval: func(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
		x, err := need(in, 0, "data")
		if err != nil {
			return nil, err
		}
		ratio, training := 0.5, false
		if t := ops.Tensor(in, 1); t != nil {
			if t.Len() != 1 {
				return nil, fmt.Errorf("ratio: expected one number, found %s", t)
			}
			ratio = ops.F64(c, in, 1)[0]
		}
		if ops.Tensor(in, 2) != nil {
			if training, err = flag(in[2], "training_mode"); err != nil {
				return nil, err
			}
		}
		mask := ops.Make[bool](c, x.Len())
		if !training || ratio == 0 {
			for i := range ops.Each(c, len(mask)) {
				mask[i] = true
			}
			return []tensor.Datum{x, tensor.FromSlice(mask, x.Shape()...)}, nil
		}
		if !(ratio > 0 && ratio < 1) {
			return nil, fmt.Errorf("ratio %v is not in [0, 1)", ratio)
		}
		r, v := source(c.Node), ops.F64(c, in, 0)
		for i := range ops.Each(c, len(v)) {
			if mask[i] = r.Float64() >= ratio; mask[i] {
				v[i] /= 1 - ratio
			} else {
				v[i] = 0
			}
		}
		return several(
			func() (*tensor.Tensor, error) { return ops.Real(c, x.DType(), v, x.Shape()...) },
			func() (*tensor.Tensor, error) { return tensor.FromSlice(mask, x.Shape()...), nil })
	},
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		out := alongKeep(func(*ir.Node, int, int) bool { return false })(n, in)
		if len(out) > 1 && n.In(2) == nil { // without training, mask is all true
			out[1] = ir.Fact{}
		}
		return out
	},
	Gradient: gradDropout,
	Linear:   linearDropout,
}), 12, 13)

// Before version 12, the ratio was an attribute, and training did not depend on data.
func init() {
	ratio := floatAttr("ratio", 0.5, "probability of being dropped, in training")
	// In the first versions is_test=0, the default, selects training, but models for inference have it too. Without the
	// output mask, which only training needs, nothing is dropped.
	test := intAttr("is_test", 0, "whether nothing is dropped; here nothing ever is")
	for _, v := range []struct {
		since int
		more  []int
		attrs []ir.AttrSpec
	}{{1, nil, []ir.AttrSpec{ratio, test, consumed()}}, {6, nil, []ir.AttrSpec{ratio, test}},
		{10, []int{7}, []ir.AttrSpec{ratio}}} {
		mask := "mask:bool[...]"
		if v.since < 10 {
			mask = "mask:T[...]"
		}
		earlier(&ir.Op{
			Name: "Dropout", Since: v.since, Doc: "data itself, as Dropout outside of training, and a mask of ones.",
			In: ops.Sig("data:T[...]"), Out: ops.Sig("output:T[...]", mask), Attrs: v.attrs, Tol: ir.Exact,
			Body: func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
				out := b.Ops("", "Dropout", 2, in)
				if b.Err() == nil && v.since < 10 {
					return []*ir.Value{out[0], castOp(b, out[1], in[0].Elem())}
				}
				return out
			},
		}, v.more...)
	}
}

// linearDropout is for nodes that are known not to draw.
func linearDropout(n *ir.Node) [][]int {
	v := n.In(2)
	if v == nil {
		return [][]int{{0}}
	}
	if v.Const == nil {
		return nil
	}
	if training, err := flag(v.Const, "training_mode"); err != nil || training {
		return nil
	}
	return [][]int{{0}}
}
