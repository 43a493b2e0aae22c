package graphfuzz

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/ops/opstest"
)

// noise is an evaluation in float64 in which each operator makes an error as large as its tolerance allows.
type noise struct {
	rng    *rand.Rand
	keep   map[*byte]bool // storage that must not change
	tol    func(n *ir.Node) float64
	odd    bool // some result is infinite or NaN
	inputs bool // elements change by their own rounding unit as well, as if the inputs of nodes were other ones
	most   map[*ir.Value]float64
	last   map[*ir.Value]tensor.Datum
	ties   *equals
}

// largest returns the largest absolute value of an element of v, as far as it is known.
func (w *noise) largest(v *ir.Value) float64 {
	if v == nil {
		return 0
	}
	if v.Const != nil {
		return largest(v.Const)
	}
	return w.most[v]
}

// growth returns the factor by which errors grow over a sequence in an unstable system with a window. There,
// recurrences subtract the inputs that leave the window, with all the digits that have grown.
func (w *noise) growth(n *ir.Node) float64 {
	if n.Op.Domain != "essm" || n.Attrs.Int("window", 0) == 0 ||
		!slices.Contains([]string{"Scan", "SSM", "DenseScan", "DenseSSM", "DPLRScan"}, n.Op.Name) {
		return 1
	}
	x, ok := w.datum(n.In(0)).(*tensor.Tensor)
	a, ok2 := w.datum(n.In(1)).(*tensor.Tensor)
	if !ok || !ok2 || x.Rank() < 2 || a.Rank() < 1 {
		return 1
	}
	most, length := 1.0, x.Dim(1)
	if a.Rank() == 4 {
		k := a.Dim(3)
		for m := range slices.Chunk(reals(a), max(1, k*k)) {
			most = max(most, largestPower(m, k, length))
		}
	} else { // the logarithms of diagonals
		for _, v := range reals(a) {
			most = max(most, math.Exp(v*float64(length)))
		}
	}
	return min(most, 1e12)
}

// largestPower returns the largest element of the powers of a matrix of k rows whose exponents are powers of 2, up to
// n.
func largestPower(m []float64, k, n int) float64 {
	most := 0.0
	for ; n > 0 && most < 1e12; n /= 2 {
		square := make([]float64, len(m))
		for i := range m {
			most = max(most, math.Abs(m[i]))
			for j := range k {
				square[i] += m[i/k*k+j] * m[j*k+i%k]
			}
		}
		m = square
	}
	return most
}

// datum returns the last datum of v, or nil.
func (w *noise) datum(v *ir.Value) tensor.Datum {
	if v.Const != nil {
		return v.Const
	}
	return w.last[v]
}

func (*noise) Before(eval.Place) error { return nil }
func (*noise) Done(eval.Place) error   { return nil }

// After changes the results of a node.
func (w *noise) After(at eval.Place, out []tensor.Datum) error {
	for i, d := range out {
		w.odd = w.odd || notFinite(d)
		if i < len(at.Node.Outputs) && w.most != nil {
			w.most[at.Node.Outputs[i]] = largest(d)
		}
	}
	defer func() {
		for i, d := range out {
			if i < len(at.Node.Outputs) && w.last != nil {
				w.last[at.Node.Outputs[i]] = d
			}
		}
	}()
	if at.Node.Op.Name == "Equal" && w.ties != nil {
		out[0] = w.ties.settle(w.datum(at.Node.In(0)), w.datum(at.Node.In(1)), out[0])
	}
	ulps := w.tol(at.Node)
	if ulps == 0 && !w.inputs {
		return nil
	}
	for i, v := range at.Node.Outputs {
		if v == nil || i >= len(out) {
			continue
		}
		t, ok := out[i].(*tensor.Tensor)
		if !ok || !t.DType().IsFloat() && !t.DType().IsComplex() || t.Len() == 0 || w.keep[&t.Bytes()[0]] {
			continue
		}
		c := t.Clone()
		least, exact := 0.0, ulps <= 8
		if slices.Contains(spreading, at.Node.Op.Name) && at.Node.Op.Domain != "" {
			// transforms and states that cancel leave digits of what has cancelled, in place of an exact 0 as well
			least, exact = 1e-3, false
		}
		if at.Node.Attrs.Int("window", 0) > 0 && at.Node.Op.Domain == "essm" {
			// inputs that have left the window are subtracted, in float64
			for _, in := range at.Node.Inputs {
				least = max(least, w.largest(in)*opstest.Unit(tensor.Float64)/opstest.Unit(v.Elem()))
			}
		}
		rel := ulps * w.growth(at.Node) * opstest.Unit(v.Elem())
		if x, ok := w.datum(at.Node.In(0)).(*tensor.Tensor); ok && strings.HasPrefix(at.Node.Op.Name, "Reduce") &&
			c.Len() > 0 {
			// numbers of both signs: sums on the way are larger than the last one
			least = max(least, w.largest(at.Node.In(0))*math.Sqrt(float64(x.Len()/c.Len())))
		}
		if at.Node.Op.Name == "Affine" { // a product and a sum that cancel
			for _, in := range at.Node.Inputs {
				least = max(least, w.largest(in))
			}
			least = max(least, w.largest(at.Node.In(0))*w.largest(at.Node.In(1)))
		}
		// weights have errors of their exponents
		if len(at.Node.Inputs) > 2 && strings.Contains(at.Node.Op.Name, "Attention") {
			q, k := at.Node.In(0), at.Node.In(1)
			width, _ := w.datum(q).(*tensor.Tensor)
			if width != nil && width.Rank() > 0 && k != nil {
				e := float64(max(1, width.Dim(-1))) * w.largest(q) * w.largest(k) * opstest.Unit(v.Elem())
				rel, least = max(rel, min(e, 2)), max(least, w.largest(at.Node.In(2)))
			}
		}
		// 1 + erf x has the digits of 1: errors are relative to the argument as well
		if at.Node.Op.Tol == ir.Cancelling {
			for _, v := range at.Node.Inputs {
				least = max(least, w.largest(v)*8/ulps)
			}
		}
		w.disturb(c, rel, least, exact)
		if w.inputs {
			w.nudge(c, 4*opstest.Unit(v.Elem()))
		}
		if v.Elem() == tensor.Float32 && c.DType() == tensor.Float64 { // numbers that are equal in float32 become equal
			x := tensor.Data[float64](c)
			for j, k := range x {
				x[j] = float64(float32(k))
			}
		}
		out[i] = c
	}
	return nil
}

// disturb adds errors of up to rel, relative to the largest element or to least. Some elements that are no larger
// become 0, as they do where digits cancel or end. If exact is set, small integers stay: they are results of a few
// operations that do not round.
func (w *noise) disturb(t *tensor.Tensor, rel, least float64, exact bool) {
	if t.DType().IsComplex() {
		return
	}
	x, err := t.Float64s()
	if err != nil {
		return
	}
	scale := least
	for _, v := range x {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			scale = max(scale, math.Abs(v))
		}
	}
	for i, v := range x {
		if exact && math.Abs(v) < 4096 && v*16 == math.Trunc(v*16) {
			continue
		}
		if math.Abs(v) <= scale*rel && w.rng.IntN(4) == 0 {
			x[i] = 0 * v
			continue
		}
		x[i] = v + scale*rel*(2*w.rng.Float64()-1)
	}
	_ = t.WriteFloat64s(0, x)
}

// nudge adds relative errors of up to rel to the elements.
func (w *noise) nudge(t *tensor.Tensor, rel float64) {
	x, err := t.Float64s()
	if err != nil {
		return
	}
	for i := range x {
		x[i] *= 1 + rel*(2*w.rng.Float64()-1)
	}
	_ = t.WriteFloat64s(0, x)
}

// centering reports whether a graph has an operator that subtracts a mean. Its answers have few digits where elements
// are nearly equal, however it is computed.
func centering(g *ir.Graph) bool {
	return g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		if strings.Contains(n.Op.Name, "Norm") {
			return errFound
		}
		return nil
	}) != nil
}

// equals records, for each comparison of floats for equality, which operand was larger in the first evaluation. If
// it is the other one in a later evaluation, they may as well be equal: errors alone hardly ever make them so.
type equals struct {
	first [][]int
	at    int // comparisons of the current evaluation
}

// settle returns the result of a comparison for equality, with the elements set that may be equal.
func (t *equals) settle(a, b, equal tensor.Datum) tensor.Datum {
	x, ok := a.(*tensor.Tensor)
	y, ok2 := b.(*tensor.Tensor)
	z, ok3 := equal.(*tensor.Tensor)
	if !ok || !ok2 || !ok3 || !x.DType().IsFloat() || !y.DType().IsFloat() || z.DType() != tensor.Bool {
		return equal
	}
	p, q, larger := reals(x), reals(y), make([]int, z.Len())
	for i := range larger {
		larger[i] = cmp.Compare(p[broadcastAt(x.Shape(), z.Shape(), i)], q[broadcastAt(y.Shape(), z.Shape(), i)])
	}
	k := t.at
	if t.at++; k >= len(t.first) {
		t.first = append(t.first, larger)
		return equal
	}
	if len(t.first[k]) != len(larger) {
		return equal
	}
	z = z.Clone()
	for i := range larger {
		if t.first[k][i] != 0 && larger[i] != t.first[k][i] {
			tensor.Data[bool](z)[i] = true
		}
	}
	return z
}

// broadcastAt returns the place in a tensor of a shape that broadcasting to another shape reads for place i of that.
func broadcastAt(shape, to []int, i int) int {
	at, stride := 0, 1
	for k := len(to) - 1; k >= len(to)-len(shape); k-- {
		d := shape[k-len(to)+len(shape)]
		if d > 1 {
			at += i % to[k] * stride
		}
		i, stride = i/to[k], stride*d
	}
	return at
}

// perturbed evaluates a graph with errors. It reports whether a value on the way was infinite or NaN, too.
func perturbed(g *ir.Graph, in Data, seed uint64, tol func(n *ir.Node) float64, t *equals) (Data, bool, error) {
	p := eval.New(eval.Options{Wide: true})
	if err := p.Add(g); err != nil {
		return nil, false, err
	}
	w := &noise{rng: rand.New(rand.NewPCG(seed, 31)), tol: tol, inputs: seed >= 16 && centering(g),
		most: map[*ir.Value]float64{}, last: map[*ir.Value]tensor.Datum{}, ties: t}
	data := make([]tensor.Datum, len(g.Inputs))
	for i, v := range g.Inputs {
		data[i] = eval.Present(eval.Widen(in[v.Name]))
		if t, ok := data[i].(*tensor.Tensor); ok && w.inputs && t.DType() == tensor.Float64 {
			t = t.Clone()
			w.nudge(t, 4*opstest.Unit(v.Elem()))
			data[i] = t
		}
		w.most[v], w.last[v] = largest(data[i]), data[i]
	}
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	out, err := p.Graph(ctx, g, data, nil, nil, w)
	if err != nil {
		return nil, false, err
	}
	d := Data{}
	for i, v := range g.Outputs {
		d[v.Name] = out[i]
	}
	return d, w.odd, nil
}

// largest returns the largest absolute value of a float tensor that is finite.
func largest(d tensor.Datum) float64 {
	t, ok := d.(*tensor.Tensor)
	if !ok || !t.DType().IsFloat() {
		return 0
	}
	most := 0.0
	for _, v := range reals(t) {
		if !math.IsInf(v, 0) && !math.IsNaN(v) {
			most = max(most, math.Abs(v))
		}
	}
	return most
}
