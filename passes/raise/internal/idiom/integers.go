package idiom

import (
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/microsoft" // operators on quantized values
	"github.com/essmc/essmc/passes"
	. "github.com/essmc/essmc/passes/match" //nolint:revive // patterns are written like the operators that they match
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Integers replaces an operator between DequantizeLinear and QuantizeLinear by one on the integers.
//
// The graph's meaning is its operators on real numbers. Both forms compute it, but round differently before they
// round to a quantum: values whose real number is near the middle between two quanta may differ by one quantum.
var Integers = &passes.Pass{
	Name: "integers",
	Doc: "DequantizeLinear, then Conv, MatMul, Gemm, Add, Mul or a move of elements, then QuantizeLinear, all of 8 " +
		"bits → one operator on integers, and a function of one such tensor, element by element, → a table. " +
		"MatMulInteger, then Cast and Mul by both scales → MatMulIntegerToFloat. Relu and Clip whose bounds are " +
		"those of the result's type are part of it. Results agree to one quantum.",
	Before: []passes.Reason{{Pass: "fold", Why: "weights of 8 bits would become floating-point numbers"}},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		given := maps.Clone(g.Opsets)
		if g.Opsets == nil {
			g.Opsets = map[string]int{}
		}
		if _, ok := g.Opsets[microsoft]; !ok {
			g.Opsets[microsoft] = 1
		}
		tables, err := byteTables(c, g)
		if err != nil {
			return tables, err
		}
		n, err := passes.Apply(c, g, integerRules())
		if !slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return n.Op.Domain == microsoft }) {
			if n == 0 {
				g.Opsets = given
			} else if _, ok := given[microsoft]; !ok {
				delete(g.Opsets, microsoft)
			}
		}
		noteScales(c, g)
		return tables + n, err
	},
}

// noteScales records the quantizations that stay since their scales follow from parameters: integers and tables are
// computed from numbers of constants.
func noteScales(c *passes.Context, g *ir.Graph) {
	settled := passes.SettledOf(c, g)
	if settled == nil {
		return
	}
	for _, n := range g.Nodes {
		if name := n.Op.Name; (name == "QuantizeLinear" || name == "DequantizeLinear") && settled[n.In(1)] {
			regions.NoteMiss(c, "integers", n, "its scale, %s, follows from parameters", n.In(1).Name)
		}
	}
}

// microsoft is the domain of operators on quantized values that the standard lacks.
const microsoft = "com.microsoft"

// dequantized matches DequantizeLinear of a value called name.
func dequantized(name string) Pattern {
	return Op("DequantizeLinear", Var(name), Const(name+" scale"),
		Var(name+" zero")).As(name).If(plainQuantization).Shared()
}

// plainQuantization reports whether a node has no blocks, and its types follow from its inputs.
func plainQuantization(n *ir.Node) bool {
	return ops.Newest(n.Op) && n.Attrs.Int("block_size", 0) == 0 && n.Attrs.Int("precision", 0) == 0 &&
		n.Attrs.Int("output_dtype", 0) == 0
}

// quantizedAs returns the patterns for quantized p, possibly after Relu or Clip.
func quantizedAs(p Pattern) []*OpPattern {
	var list []*OpPattern
	for _, x := range []Pattern{p, Op("Relu", p), Op("Clip", p, Var("least"), Var("most")).As("clip")} {
		list = append(list, Op("QuantizeLinear", x, Const("y scale"), Var("y zero")).If(plainQuantization))
	}
	return list
}

// quanta describes the numbers that the integers of a tensor represent: (integer - zero)·scale, with one scale and
// zero point, or one per index of an axis.
type quanta struct {
	scale []float64
	zero  *tensor.Tensor
}

// asQuanta returns the quanta of value v of type int8 or uint8. scale and zero, which may be absent, must be
// constants. It returns false for other types, and for scales with which computations may overflow.
func asQuanta(v, scale, zero *ir.Value) (q quanta, ok bool) {
	t, isTensor := v.TensorType()
	if !isTensor || t.Elem != tensor.Int8 && t.Elem != tensor.Uint8 || scale == nil || scale.Const == nil ||
		scale.Elem() != tensor.Float32 || scale.Const.Rank() > 1 || scale.Const.Len() == 0 {
		return q, false
	}
	q.scale, _ = scale.Const.Float64s()
	for _, s := range q.scale {
		if !(s >= 0x1p-60 && s <= 0x1p60) { // products and quotients of scales stay normal numbers
			return q, false
		}
	}
	switch {
	case zero == nil:
		q.zero = tensor.New(t.Elem, len(q.scale))
	case zero.Const == nil || zero.Const.DType() != t.Elem || zero.Const.Len() != len(q.scale):
		return q, false
	default:
		q.zero = zero.Const
	}
	return q, true
}

// one reports whether the whole tensor has one scale.
func (q quanta) one() bool { return len(q.scale) == 1 }

func (q quanta) zeroPoint() int {
	z, _ := q.zero.Float64s()
	return int(z[0])
}

// values makes constants for scale and zero point: scalars if there is one of each, otherwise vectors.
func (q quanta) values(b *ir.Builder, name string) (scale, zero *ir.Value) {
	shape := []int{len(q.scale)}
	if q.one() {
		shape = nil
	}
	s := tensor.New(tensor.Float32, shape...)
	for i, x := range q.scale {
		tensor.Data[float32](s)[i] = float32(x)
	}
	z := tensor.New(q.zero.DType(), shape...)
	copy(z.Bytes(), q.zero.Bytes())
	return b.Const(name+".scale", s), b.Const(name+".zero", z)
}

// integerMatch is a match of dequantized inputs a and b, or only a, with an operator "op" between them, and a
// quantized result.
type integerMatch struct {
	a, b, y quanta
	bias    *tensor.Tensor // int32
}

// read reads the quanta of a match; a and y must have one scale. It returns false if the match is not of 8 bits, or
// if Relu or Clip changes numbers that the result's type can represent.
func (q *integerMatch) read(m *Match) (ok bool) {
	if q.a, ok = asQuanta(m.Val("a"), m.Val("a scale"), m.Val("a zero")); !ok || !q.a.one() || m.Val("a").Const != nil {
		return false
	}
	if q.y, ok = asQuanta(m.Root.Outputs[0], m.Val("y scale"), m.Val("y zero")); !ok || !q.y.one() {
		return false
	}
	if m.Val("b") != nil {
		if q.b, ok = asQuanta(m.Val("b"), m.Val("b scale"), m.Val("b zero")); !ok {
			return false
		}
	}
	least, most := 0, math.MaxUint8
	if q.y.zero.DType() == tensor.Int8 {
		least, most = math.MinInt8, math.MaxInt8
	}
	lo, hi := float64(least-q.y.zeroPoint())*q.y.scale[0], float64(most-q.y.zeroPoint())*q.y.scale[0]
	for _, n := range m.Nodes() {
		switch n.Op.Name {
		case "Relu":
			if lo < 0 {
				return false
			}
		case "Clip":
			// A bound within half a quantum of the type's own changes no integer.
			if v := m.Val("least"); v != nil {
				if k, known := asScalar(v); !known || k > lo+0.49*q.y.scale[0] {
					return false
				}
			}
			if v := m.Val("most"); v != nil {
				if k, known := asScalar(v); !known || k < hi-0.49*q.y.scale[0] {
					return false
				}
			}
		}
	}
	return true
}

// biasOf reads a bias of n numbers as integers of scale a·b, as which it can be added to sums. It returns false if
// this would change the bias by more than 1/64 of a quantum of the result.
func (q *integerMatch) biasOf(v *ir.Value, n int) bool {
	if v == nil {
		return true
	}
	var x []float64
	switch {
	case v.Const != nil && v.Elem() == tensor.Float32:
		x, _ = v.Const.Float64s()
	case v.Def != nil && v.Def.Op.Name == "DequantizeLinear" && v.Def.Op.Domain == "" && plainQuantization(v.Def):
		w, scale, zero := v.Def.In(0), v.Def.In(1), v.Def.In(2)
		if w.Const == nil || w.Elem() != tensor.Int32 || scale.Const == nil || scale.Elem() != tensor.Float32 {
			return false
		}
		if zero != nil && (zero.Const == nil || slices.ContainsFunc(zero.Const.Bytes(),
			func(b byte) bool { return b != 0 })) {
			return false
		}
		x, _ = w.Const.Float64s()
		s, _ := scale.Const.Float64s()
		if len(s) != 1 && len(s) != len(x) {
			return false
		}
		x = slices.Clone(x)
		for i := range x {
			x[i] *= s[i%len(s)]
		}
	default:
		return false
	}
	if len(x) != n || len(v.Shape()) != 1 {
		return false
	}
	q.bias = tensor.New(tensor.Int32, n)
	for i, k := range x {
		s := q.a.scale[0] * q.b.scale[i%len(q.b.scale)]
		r := math.RoundToEven(k / s)
		if !(math.Abs(r) < 1<<30) || math.Abs(k-r*s) > q.y.scale[0]/64 {
			return false
		}
		tensor.Data[int32](q.bias)[i] = int32(r)
	}
	return true
}

// mostFactors is the maximum number of products of a sum. This many products of two numbers within ±255, and a bias
// within ±2^30, fit in 32 bits.
const mostFactors = 1 << 14

// leastFactors is the minimum number of products of a sum for which convolutions of several channels pay. With
// fewer, copying the inputs takes longer than adding products.
const leastFactors = 16

// integerRank returns the rank of a tensor, or -1 if it is unknown.
func integerRank(v *ir.Value) int {
	t, ok := v.TensorType()
	if !ok || t.NoRank {
		return -1
	}
	return len(t.Shape)
}

// scaledProduct reads a MatMulInteger with constant weights whose sums become float32 numbers and are multiplied by
// the product of two scales: one of a, and one of b or one per column of b. The operator that replaces them rounds
// in the same way.
func scaledProduct(m *Match) string {
	w, x, y := m.Val("b"), m.Val("a scale"), m.Val("b scale")
	one := func(v *ir.Value, most int) bool {
		shape, known := v.Shape().Known()
		return integerRank(v) >= 0 && integerRank(v) <= 1 && known &&
			(len(shape) == 0 || shape[0] == 1 || shape[0] == most) && v.Elem() == tensor.Float32
	}
	if w.Const == nil || w.Const.Rank() != 2 || integerRank(m.Val("a")) < 2 || !one(x, 1) || !one(y, w.Const.Dim(1)) ||
		m.Val("a zero") != nil && integerRank(m.Val("a zero")) != 0 ||
		m.Val("b zero") != nil && integerRank(m.Val("b zero")) > 1 {
		return passes.Leave
	}
	return ""
}

func makeScaledProduct(b *ir.Builder, m *Match) []*ir.Value {
	in := []*ir.Value{m.Val("a"), m.Val("b"), m.Val("a scale"), m.Val("b scale"), m.Val("a zero"), m.Val("b zero")}
	for in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	return []*ir.Value{b.Op(microsoft, "MatMulIntegerToFloat", in)}
}

func found(m *Match) *integerMatch { return m.Found.(*integerMatch) }

// convIntegers reads a convolution.
func convIntegers(m *Match) string {
	q, n, w := &integerMatch{}, m.Node("op"), m.Val("b")
	if w.Const == nil || !ops.Newest(n.Op) || !q.read(m) {
		return passes.Leave
	}
	shape := w.Const.Shape()
	if len(shape) != 3 && len(shape) != 4 || integerRank(m.Val("a")) != len(shape) || w.Const.Len() == 0 ||
		w.Const.Len()/shape[0] > mostFactors || shape[1] > 1 && w.Const.Len()/shape[0] < leastFactors ||
		!q.b.one() && !q.along(m.Node("b"), 0, shape) ||
		!q.biasOf(m.Val("bias"), shape[0]) {
		return passes.Leave
	}
	m.Found = q
	return ""
}

// along reports whether there is a scale of b for each index of an axis.
func (q *integerMatch) along(n *ir.Node, axis int, shape []int) bool {
	a, err := ops.Axis(ops.Int(n, "axis"), len(shape))
	return err == nil && a == axis && len(q.b.scale) == shape[axis]
}

func makeConvIntegers(b *ir.Builder, m *Match) []*ir.Value {
	q := found(m)
	in := q.operands(b, m, m.Val("b"))
	if q.bias != nil {
		in = append(in, b.Const(m.Val("b").Name+".bias", q.bias))
	}
	return []*ir.Value{b.Op("", "QLinearConv", in, m.Node("op").Attrs...)}
}

// operands returns a, w and the result's quanta in the order of the standard's operators.
func (q *integerMatch) operands(b *ir.Builder, m *Match, w *ir.Value) []*ir.Value {
	aScale, aZero := q.a.values(b, m.Val("a").Name)
	bScale, bZero := q.b.values(b, w.Name)
	yScale, yZero := q.y.values(b, m.Root.Outputs[0].Name)
	return []*ir.Value{m.Val("a"), aScale, aZero, w, bScale, bZero, yScale, yZero}
}

// productIntegers reads a product of matrices: constant weights with one scale per column, or two computed matrices.
func productIntegers(m *Match) string {
	q, n := &integerMatch{}, m.Node("op")
	if !ops.Newest(n.Op) || !q.read(m) {
		return passes.Leave
	}
	x, w := m.Val("a"), m.Val("b")
	if integerRank(x) < 2 || integerRank(w) < 2 {
		return passes.Leave
	}
	shape := w.Shape()
	k, known := shape[len(shape)-2].Known()
	if !known || k > mostFactors {
		return passes.Leave
	}
	if !q.b.one() && (w.Const == nil || len(shape) != 2 || !q.along(m.Node("b"), 1, w.Const.Shape())) {
		return passes.Leave
	}
	m.Found = q
	return ""
}

func makeProductIntegers(b *ir.Builder, m *Match) []*ir.Value {
	return []*ir.Value{b.Op("", "QLinearMatMul", found(m).operands(b, m, m.Val("b")))}
}

// gemmIntegers reads Gemm with constant weights.
func gemmIntegers(m *Match) string {
	q, n, w := &integerMatch{}, m.Node("op"), m.Val("b")
	if w.Const == nil || !ops.Newest(n.Op) || !q.read(m) || ops.Int(n, "transA") != 0 || ops.Float(n, "alpha") != 1 ||
		ops.Float(n, "beta") != 1 || w.Const.Rank() != 2 || w.Const.Len() == 0 {
		return passes.Leave
	}
	axis, shape := 1, w.Const.Shape() // of the columns
	if ops.Int(n, "transB") != 0 {
		axis = 0
	}
	if shape[1-axis] > mostFactors || !q.b.one() && !q.along(m.Node("b"), axis, shape) ||
		!q.biasOf(m.Val("bias"), shape[axis]) {
		return passes.Leave
	}
	m.Found = q
	return ""
}

func makeGemmIntegers(b *ir.Builder, m *Match) []*ir.Value {
	q, w := found(m), m.Val("b")
	if ops.Int(m.Node("op"), "transB") != 0 {
		n, k := w.Const.Dim(0), w.Const.Dim(1)
		var turned *tensor.Tensor
		if w.Const.Lazy() {
			turned = tensor.LazyTranspose(w.Const)
		} else {
			turned = tensor.New(w.Elem(), k, n)
			from, to := w.Const.Bytes(), turned.Bytes()
			for i := range n {
				for j := range k {
					to[j*n+i] = from[i*k+j]
				}
			}
		}
		w = b.Const(w.Name+".transposed", turned)
	}
	in := q.operands(b, m, w)
	var bias *ir.Value
	if q.bias != nil {
		bias = b.Const(w.Name+".bias", q.bias)
	}
	return []*ir.Value{b.Op(microsoft, "QGemm", slices.Insert(in, 6, bias))}
}

// pairIntegers reads Add or Mul of two values with one scale each.
func pairIntegers(m *Match) string {
	q := &integerMatch{}
	if !ops.Newest(m.Node("op").Op) || !q.read(m) || !q.b.one() || q.a.zero.DType() != q.b.zero.DType() ||
		q.a.zero.DType() != q.y.zero.DType() {
		return passes.Leave
	}
	m.Found = q
	return ""
}

func makePairIntegers(b *ir.Builder, m *Match) []*ir.Value {
	return []*ir.Value{b.Op(microsoft, "QLinear"+m.Node("op").Op.Name, found(m).operands(b, m, m.Val("b")))}
}

// movedIntegers reads an operator that returns elements of its input unchanged, with the same quanta before and
// after.
func movedIntegers(m *Match) string {
	q := &integerMatch{}
	n := m.Node("op")
	if !ops.Newest(n.Op) || len(n.Outputs) != 1 || !q.read(m) || q.a.scale[0] != q.y.scale[0] ||
		q.a.zero.DType() != q.y.zero.DType() || q.a.zeroPoint() != q.y.zeroPoint() {
		return passes.Leave
	}
	return ""
}

func makeMoved(b *ir.Builder, m *Match) []*ir.Value {
	n := m.Node("op")
	in := slices.Clone(n.Inputs)
	in[0] = m.Val("a")
	return []*ir.Value{b.Op("", n.Op.Name, in, n.Attrs...)}
}

var integerRules = sync.OnceValue(func() *Set {
	var rules []*Rule
	add := func(name, doc string, p Pattern, check func(*Match) string, build func(*ir.Builder, *Match) []*ir.Value) {
		for _, p := range quantizedAs(p) {
			rules = append(rules, &Rule{Name: name, Doc: doc, Pattern: p, Check: check, Make: build})
		}
	}
	a, b := dequantized("a"), dequantized("b")
	add("conv-integers", "a convolution of quantized values", Op("Conv", a, b, Var("bias")).As("op"), convIntegers,
		makeConvIntegers)
	add("product-integers", "a product of quantized matrices", Op("MatMul", a, b).As("op"), productIntegers,
		makeProductIntegers)
	add("gemm-integers", "a linear layer of quantized values", Op("Gemm", a, b, Var("bias")).As("op"), gemmIntegers,
		makeGemmIntegers)
	for _, op := range []string{"Add", "Mul"} {
		add("pair-integers", "a sum or product of quantized values", Op(op, a, b).As("op"), pairIntegers,
			makePairIntegers)
	}
	for _, p := range []*OpPattern{Op("MaxPool", a), Op("Reshape", a, Var("shape")), Op("Transpose", a),
		Op("Flatten", a), Op("Squeeze", a, Var("axes")), Op("Unsqueeze", a, Var("axes")),
		Op("Slice", a, Var("from"), Var("to"), Var("axes"), Var("steps")), Op("Gather", a, Var("indices"))} {
		add("moved-integers", "an operator that moves quantized values", p.As("op"), movedIntegers, makeMoved)
	}
	float := func(n *ir.Node) bool { return ops.Newest(n.Op) && n.Attrs.Int("to", 0) == int64(tensor.Float32) }
	sums := Op("Cast", Op("MatMulInteger", Var("a"), Var("b"), Var("a zero"), Var("b zero"))).If(float)
	rules = append(rules, &Rule{Name: "scaled-product", Doc: "a product of bytes times their scales",
		Pattern: Op("Mul", sums, Op("Mul", Var("a scale"), Var("b scale")).Shared()), Check: scaledProduct,
		Make: makeScaledProduct})
	return NewSet(rules...)
})
