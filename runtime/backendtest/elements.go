package backendtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
)

// DiffNode returns the difference of output i of a node from truth, which was computed in float64 from the node's inputs,
// if it is larger than the operator allows, and "" otherwise. in has an entry for each input of the node, nil for an
// absent one; a constant may be nil, too.
//
// Elementwise operators (ir.Op.Element) are compared element by element. Each element y may be off by
//
//	ulps · ε · (|y| + Σ |∂y/∂xᵢ · xᵢ|) + tiny
//
// where ε is the rounding unit of got's type and tiny its smallest positive number: what rounding the inputs and the result
// costs, ulps times over. The derivatives are the expression's; terms that are not finite do not count. ulps is the
// operator's tolerance, at most ElementUlps. Types other than float64 have what lost lists besides. NaN and infinities must
// be at the same places, except within the bound from the largest number. Operators that are not elementwise are compared
// by Diff, whose bound has the scale of the largest element.
func DiffNode(n *ir.Node, in []tensor.Datum, i int, got, truth tensor.Datum) string {
	x, ok := got.(*tensor.Tensor)
	y, isTensor := truth.(*tensor.Tensor)
	if !ok || !isTensor || opstest.Smallest(x.DType()) == 0 || !slices.Equal(x.Shape(), y.Shape()) || n.Op.Tol.Ulps == 0 {
		return Diff(got, truth, n.Op.Tol)
	}
	e, ok := ops.Element(n)
	if !ok || i != 0 {
		return Diff(got, truth, n.Op.Tol)
	}
	scales, more := elementScales(n, e, in, y), 0.0
	if x.DType() != tensor.Float64 {
		scalar.Walk(func(e scalar.Expr) { more = max(more, lost[e.Op()].absolute) }, e)
	}
	rounded, err := y.Convert(x.DType(), false)
	if err != nil {
		return err.Error()
	}
	ulps := min(n.Op.Tol.Ulps, ElementUlps)
	a, b, r := reals(x), reals(y), reals(rounded)
	largest, unit := opstest.Largest(x.DType()), opstest.Unit(x.DType())
	worst := ""
	far := 0.0
	for k := range a {
		bound := ulps*unit*scales[k] + more + opstest.Smallest(x.DType())
		switch {
		case math.IsNaN(r[k]) && math.IsNaN(a[k]), a[k] == r[k]:
			continue
		case math.IsInf(r[k], 0) && math.Abs(b[k])-bound <= largest && math.Abs(a[k]) >= math.Abs(b[k])-bound &&
			math.Signbit(a[k]) == math.Signbit(b[k]): // as near to the largest number as rounding allows
			continue
		case math.IsInf(a[k], 0) && math.Abs(b[k])+bound >= largest && math.Signbit(a[k]) == math.Signbit(b[k]):
			continue
		case math.IsNaN(r[k]) || math.IsNaN(a[k]) || math.IsInf(r[k], 0) || math.IsInf(a[k], 0):
			return fmt.Sprintf("element %d, of %s: expected %v, found %v", k, operandsAt(n, e, in, y.Shape(), k), b[k], a[k])
		}
		if off := math.Abs(a[k] - b[k]); off > bound && off/bound > far {
			far = off / bound
			worst = fmt.Sprintf("element %d, of %s: expected %v, found %v: off by %.3g, %.3g allowed (%g units of %v at %.3g)",
				k, operandsAt(n, e, in, y.Shape(), k), b[k], a[k], off, bound, ulps, x.DType(), scales[k])
		}
	}
	return worst
}

// ElementUlps is the largest number of roundings that elementwise operators are allowed, each at the scale of the element
// and its operands: a kernel that computes in its type rounds each operation of a short formula once.
const ElementUlps = 8

// lost lists operations that kernels compute with an absolute error in float32, and narrower types, which are computed in it.
var lost = map[scalar.Op]struct {
	absolute float64
	reason   string
}{
	scalar.OpExp:      {flushed, "the scale 2^k of float32 kernels is a normal number or 0"},
	scalar.OpSigmoid:  {flushed, "by exp"},
	scalar.OpSwish:    {flushed * 128, "by exp, times x"},
	scalar.OpMish:     {flushed * 128, "by exp, times x"},
	scalar.OpSoftplus: {flushed, "by exp"},
	scalar.OpGelu:     {0x1p-21, "1 + erf x cancels in float32 below -1, as in PyTorch; below -6 nothing is left"},
}

// flushed is the smallest normal number of float32, below which some results become 0.
const flushed = 0x1p-126

// elementScales returns |y| + Σ |∂y/∂xᵢ · xᵢ| for each element of truth.
func elementScales(n *ir.Node, e scalar.Expr, in []tensor.Datum, truth *tensor.Tensor) []float64 {
	reads := e.Reads()
	exprs := make([]scalar.Expr, len(reads))
	for k, i := range reads {
		exprs[k] = scalar.Derivative(e, i)
	}
	y := reals(truth)
	scales := make([]float64, len(y))
	if len(y) == 0 {
		return scales
	}
	operands := operandsOf(n, e, in, truth.Shape())
	derivatives := make([][]float64, len(exprs))
	p := scalar.Linearize(nil, exprs...)
	m := scalar.NewMachine(p, scalar.BlockSize)
	for k := range exprs {
		derivatives[k] = make([]float64, len(y))
	}
	for lo := 0; lo < len(y) && len(exprs) > 0; lo += scalar.BlockSize {
		hi := min(lo+scalar.BlockSize, len(y))
		args, out := make([][]float64, max(len(operands), p.Inputs)), make([][]float64, len(exprs))
		for i, v := range operands {
			if v != nil {
				args[i] = v[lo:hi]
			}
		}
		for k := range out {
			out[k] = derivatives[k][lo:hi]
		}
		m.Run(hi-lo, out, args)
	}
	for k := range y {
		sum := 0.0
		for j, i := range reads {
			if term := math.Abs(derivatives[j][k] * operands[i][k]); !math.IsNaN(term) && !math.IsInf(term, 0) {
				sum += term
			}
		}
		scales[k] = math.Abs(y[k]) + sum
	}
	return scales
}

// operandsOf returns the operands that e reads, as many elements of each as the result has.
func operandsOf(n *ir.Node, e scalar.Expr, in []tensor.Datum, shape []int) [][]float64 {
	all := make([][]float64, len(n.Inputs))
	size, _ := tensor.Size(shape)
	for _, i := range e.Reads() {
		x := ops.Tensor(in, i)
		if x == nil {
			x = n.In(i).Const
		}
		v, _ := x.Float64s()
		strides, list := ops.BroadcastStrides(x.Shape(), shape), make([]float64, 0, size)
		ops.Walk(nil, shape, strides, 0, func(o int) { list = append(list, v[o]) })
		all[i] = list
	}
	return all
}

// operandsAt writes the operands of element k.
func operandsAt(n *ir.Node, e scalar.Expr, in []tensor.Datum, shape []int, k int) string {
	var list []float64
	for _, v := range operandsOf(n, e, in, shape) {
		if v != nil {
			list = append(list, v[k])
		}
	}
	return fmt.Sprint(list)
}

// nodeInputs returns the data of a graph's only node, for DiffNode.
func nodeInputs(g *ir.Graph, in Data) []tensor.Datum {
	list := make([]tensor.Datum, len(g.Nodes[0].Inputs))
	for i, v := range g.Nodes[0].Inputs {
		if v != nil {
			list[i] = in[v.Name]
		}
	}
	return list
}

// judge compares a case's answers: of a node by DiffNode, of a graph of several by the case's tolerance.
func (c *aCase) judge(t testing.TB, got, want Data) {
	t.Helper()
	n := c.graph.Nodes[0]
	if _, ok := ops.Element(n); len(c.graph.Nodes) != 1 || !ok || len(got) != len(want) {
		expect(t, c.name, got, want, c.tol)
		return
	}
	list := nodeInputs(c.graph, c.in)
	for _, v := range c.graph.Outputs {
		if d := DiffNode(n, list, slices.Index(n.Outputs, v), got[v.Name], want[v.Name]); d != "" {
			t.Errorf("%s: output %s: %s", c.name, v.Name, d)
		}
	}
}

// elements runs elementwise operators on numbers at which functions change their course or the range of their type ends,
// and on numbers of many magnitudes, in all floating types.
func (s *suite) elements(t *testing.T) {
	rounds := max(1, s.o.Seeds/4)
	if s.o.Seeds == 0 && !testing.Short() {
		rounds = 3
	}
	for _, op := range ops.Default.All() {
		if op.Element == nil || op.Random {
			continue
		}
		s.sub(t, fmt.Sprintf("%s-%d", op.FullName(), op.Since), func(t *testing.T) {
			for i, sample := range samples.Of(op) {
				for _, d := range ops.Floats {
					for round := range rounds {
						r := rand.New(rand.NewPCG(uint64(i), uint64(round)))
						c, err := sampleCase(op, extreme(r, op, sample, d), false)
						if err != nil {
							break // not of this type
						}
						if _, ok := ops.Element(c.graph.Nodes[0]); !ok {
							break
						}
						c.name = fmt.Sprintf("sample %d, %v, round %d: %v", i, d, round, c.graph.Nodes[0])
						s.generated(t, c)
					}
				}
			}
		})
	}
}

// extreme is a sample with other numbers: those of opstest.Edges and random ones. Inputs that are not constants have 200.
func extreme(r *rand.Rand, op *ir.Op, s opstest.Sample, d tensor.DType) opstest.Sample {
	const n = 200
	in := slices.Clone(s.In)
	for i, x := range in {
		x, ok := x.(*tensor.Tensor)
		if !ok || !x.DType().IsFloat() {
			continue
		}
		shape := x.Shape()
		if !slices.Contains(s.Consts, i) && op.In[min(i, len(op.In)-1)].Dims == nil && x.Rank() > 0 {
			shape = []int{n}
		}
		size, _ := tensor.Size(shape)
		v := make([]float64, size)
		for k := range v {
			switch r.IntN(3) {
			case 0:
				v[k] = r.NormFloat64() * math.Pow(10, 6*r.Float64()-4)
			case 1:
				v[k] = r.NormFloat64()
			default:
				v[k] = opstest.Edges[r.IntN(len(opstest.Edges))]
			}
		}
		if slices.Contains(s.Consts, i) {
			v, _ = x.Float64s()
		}
		if y, err := tensor.FromFloat64s(d, v, shape...); err == nil {
			in[i] = y
		}
	}
	s.In = in
	return s
}
