package grad_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm/spectral" // all operators
	"github.com/essmc/essmc/ops/eval"
	_ "github.com/essmc/essmc/ops/microsoft"
	_ "github.com/essmc/essmc/ops/ml"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
	_ "github.com/essmc/essmc/ops/training"
	"github.com/essmc/essmc/passes/grad"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// TestSamples compares the gradients of every operator with differences in float64, on all its samples, and those on
// the CPU backend with both. An operator without a gradient must state the reason. What it finds is the table of
// docs/gradients.md.
func TestSamples(t *testing.T) {
	checked, symbolic, table := 0, 0, table{}
	for _, u := range samples.Suites() {
		u.Each(t, func(t *testing.T, op *ir.Op, s opstest.Sample) {
			c := caseOf(t, op, s, false)
			if c == nil {
				return
			}
			way, err := grad.WayOf(c.node)
			if err == nil && c.graph != nil {
				var n int
				n, err = c.compare(t)
				checked += n
			}
			if err == nil && c.graph != nil && !op.Random {
				if caseOf(t, op, s, true).withSymbols(t, c) {
					symbolic++
				}
			}
			none := (*ops.NoGradientError)(nil)
			switch {
			case err == nil:
				table.add(op, string(way), "")
			case !errors.As(err, &none):
				t.Error(err)
			case none.Why == grad.Unstated:
				t.Errorf("%v; state a Gradient, a Body, or the reason (ir.Op.NoGradient)", err)
			default:
				table.add(op, "", none.Why)
			}
		})
	}
	if checked < 2000 {
		t.Errorf("only %d slopes were compared", checked)
	}
	if symbolic < 500 {
		t.Errorf("only %d samples have gradients for shapes with symbols", symbolic)
	}
	table.check(t)
}

// gradCase is an application of an operator whose outputs of floats are weighted and summed up to a loss.
type gradCase struct {
	graph *ir.Graph
	node  *ir.Node
	loss  *ir.Value
	wrt   []*ir.Value // inputs of floats
	in    []tensor.Datum
	given []tensor.Datum // before they were widened
	// values are the node's inputs, and linear the sets of them in which it is linear, by index.
	values []*ir.Value
	linear [][]int
	r      *rand.Rand
}

func isFloat(v *ir.Value) bool {
	t, ok := v.Type.(*ir.TensorType)
	return ok && (t.Elem == tensor.Float32 || t.Elem == tensor.Float64)
}

func isTensor(v *ir.Value) bool {
	_, ok := v.Type.(*ir.TensorType)
	return ok
}

// caseOf returns nil if a sample has no floats among its inputs, or among its outputs. There is no graph if it has only
// sequences or optionals of them.
func caseOf(t *testing.T, op *ir.Op, s opstest.Sample, symbols bool) *gradCase {
	c := &gradCase{r: rand.New(rand.NewPCG(3, 4))}
	n := opstest.Node(t, op, s, func(input, _, size int) ir.Dim {
		if !symbols || size < 2 || slices.Contains(s.Rigid, input) {
			return ir.Const(int64(size))
		}
		return ir.Sym(fmt.Sprintf("n%d", size))
	})
	opsets := map[string]int{"": 28, "essm": 1}
	if op.Domain != "" {
		opsets[op.Domain] = op.Since
	}
	b := ir.NewBuilder("g", ops.Default, opsets)
	in := make([]*ir.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		trained := isFloat(v) && !slices.Contains(op.SizedBy, i)
		if v.Const != nil && !trained {
			in[i] = b.Const(v.Name, v.Const)
			continue
		}
		in[i] = b.Input(v.Name, v.Type)
		d := s.In[i]
		if v.Const != nil {
			d = v.Const
		}
		c.in, c.given = append(c.in, eval.Widen(d)), append(c.given, d)
		if trained {
			c.wrt = append(c.wrt, in[i])
		}
	}
	outs := b.Apply(op, s.Outs, in, n.Attrs)
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	c.node = outs[0].Def
	c.values, c.linear = in, ops.Linear(c.node)
	for _, i := range s.Absent {
		c.node.Outputs[i] = nil
	}
	b = ir.Edit(b.Graph(), ops.Default, opsets) // subgraphs of attributes have names, too
	sum := weighted(b, c.node)
	hides := func(v *ir.Value) bool { return v != nil && !isTensor(v) }
	into := len(c.wrt) > 0 || slices.ContainsFunc(c.node.Inputs, hides)
	if len(c.wrt) == 0 || sum == nil {
		if into && (sum != nil || slices.ContainsFunc(c.node.Outputs, hides)) {
			return &gradCase{node: c.node}
		}
		return nil
	}
	b.Output("loss", sum)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	c.graph, c.loss = g, sum
	return c
}

// weighted sums up the outputs of a node that are floats, with weights that depend on the place.
func weighted(b *ir.Builder, n *ir.Node) (sum *ir.Value) {
	for i, v := range n.Outputs {
		if v == nil || !isFloat(v) {
			continue
		}
		flat := b.Op("", "Reshape", []*ir.Value{v, b.Ints(-1)})
		place := b.Op("", "Range", []*ir.Value{b.Const("zero", tensor.Scalar(int64(0))), b.Op("", "Size",
			[]*ir.Value{v}),
			b.Const("one", tensor.Scalar(int64(1)))})
		w := ops.MapOf(b, weight(i), ops.CastLike(b, place, v))
		part := b.Op("", "ReduceSum", []*ir.Value{b.Op("", "Mul", []*ir.Value{flat, w})}, ir.A("keepdims", 0))
		part = ops.CastTo(b, part, tensor.Float64)
		if sum != nil {
			part = b.Op("", "Add", []*ir.Value{sum, part})
		}
		sum = part
	}
	return sum
}

// weight is the weight of an element of output i at place x0.
func weight(i int) scalar.Expr {
	return scalar.Cos(scalar.Add(scalar.Const(float64(1+i)), scalar.Mul(scalar.Const(0.7), scalar.Input(0))))
}

func evaluate(g *ir.Graph, in []tensor.Datum) ([]tensor.Datum, error) {
	p := eval.New(eval.Options{Wide: true})
	if err := p.Add(g); err != nil {
		return nil, err
	}
	return p.Graph(context.Background(), g, in, nil, nil, nil)
}

// compare returns the number of slopes that it has compared.
func (c *gradCase) compare(t *testing.T) (checked int, err error) {
	t.Helper()
	forward := c.graph.Clone()
	grads, err := grad.Of(context.Background(), c.graph, c.loss, c.wrt)
	if err != nil {
		return 0, err
	}
	c.graph.Outputs = append(c.graph.Outputs, grads...)
	out, err := evaluate(c.graph, c.in)
	if err != nil {
		return 0, err
	}
	at := func(in []tensor.Datum) float64 {
		o, err := evaluate(forward, in)
		if err != nil { // outside of what the operator accepts
			return math.NaN()
		}
		return tensor.Data[float64](o[0].(*tensor.Tensor))[0]
	}
	middle := at(c.in)
	if math.IsNaN(middle) {
		return 0, nil
	}
	if got := tensor.Data[float64](out[0].(*tensor.Tensor))[0]; !(math.Abs(got-middle) <= 1e-6*max(1,
		math.Abs(middle))) {
		t.Errorf("loss with gradients: expected %v, found %v", middle, got)
	}
	for k, v := range c.wrt {
		i := slices.Index(c.graph.Inputs, v)
		x, g := c.in[i].(*tensor.Tensor), out[1+k].(*tensor.Tensor)
		if !slices.Equal(x.Shape(), g.Shape()) || g.DType() != tensor.Float64 {
			t.Errorf("gradient of %s: expected the shape of %s, found %s", v.Name, x, g)
			continue
		}
		for range min(4, x.Len()) {
			if c.slope(t, at, i, middle, x, tensor.Data[float64](g)) {
				checked++
			}
		}
	}
	c.adjoint(t, at, middle, out[1:])
	if !c.node.Op.Random {
		c.onCPU(t, out)
	}
	return checked, nil
}

// adjoint compares ⟨f(x), w⟩ with ⟨x, fᵀ(w)⟩ for the sets x of inputs in which the operator is linear, where w are
// the weights of the loss: up to rounding, they are equal.
func (c *gradCase) adjoint(t *testing.T, at func(in []tensor.Datum) float64, middle float64, grads []tensor.Datum) {
	t.Helper()
	for _, set := range c.linear {
		in, product, scale := slices.Clone(c.in), 0.0, math.Abs(middle)
		all := true
		for _, i := range set {
			v := c.values[i]
			k, place := slices.Index(c.wrt, v), slices.Index(c.graph.Inputs, v)
			if all = all && k >= 0; k < 0 {
				break
			}
			x, g := tensor.Data[float64](c.in[place].(*tensor.Tensor)), tensor.Data[float64](grads[k].(*tensor.Tensor))
			for j := range x {
				product += x[j] * g[j]
				scale += math.Abs(x[j] * g[j])
			}
			in[place] = tensor.New(tensor.Float64, c.in[place].(*tensor.Tensor).Shape()...)
		}
		if !all { // some are not floats
			continue
		}
		zero := at(in)                                          // of outputs that do not depend on the set
		if !(math.Abs(middle-zero-product) <= 1e-7*(1+scale)) { // constants in bodies are float32
			t.Errorf("linear in %v: ⟨f(x), w⟩ is %v, ⟨x, fᵀ(w)⟩ %v", set, middle-zero, product)
		}
	}
}

// withSymbols compares the gradients of a graph whose shapes have symbols with those of a graph of known shapes. It
// reports false if an operator needs to know more.
func (c *gradCase) withSymbols(t *testing.T, known *gradCase) bool {
	t.Helper()
	grads, err := grad.Of(context.Background(), c.graph, c.loss, c.wrt)
	if none := (*ops.NoGradientError)(nil); errors.As(err, &none) {
		return false
	}
	if err != nil {
		t.Errorf("with symbols: %v", err)
		return false
	}
	c.graph.Outputs = append(c.graph.Outputs, grads...)
	got, err := evaluate(c.graph, c.in)
	if err != nil {
		t.Errorf("with symbols: %v", err)
		return false
	}
	want, err := evaluate(known.graph, known.in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if err := opstest.Near(got[i], want[i], 1e-7, 1e-7); err != nil {
			t.Errorf("with symbols: gradient of %s: %v", c.wrt[max(0, i-1)].Name, err)
		}
	}
	return true
}

// slope compares a derivative in a random direction, unless there is a kink close by.
func (c *gradCase) slope(t *testing.T, at func(in []tensor.Datum) float64, i int, middle float64, x *tensor.Tensor,
	g []float64) bool {
	t.Helper()
	const h = 2e-6
	dir, got, scale := make([]float64, x.Len()), 0.0, 1.0
	for k := range dir {
		dir[k] = c.r.NormFloat64()
		got += dir[k] * g[k]
		scale += math.Abs(dir[k] * g[k])
	}
	moved := func(by float64) float64 {
		y := slices.Clone(tensor.Data[float64](x))
		for k := range y {
			y[k] += by * dir[k]
		}
		in := slices.Clone(c.in)
		in[i] = tensor.FromSlice(y, x.Shape()...)
		return at(in)
	}
	up, down := moved(h), moved(-h)
	want := (up - down) / (2 * h)
	if math.Abs((up-middle)-(middle-down))/h > 1e-3*(scale+math.Abs(want)) || math.IsNaN(want) {
		return false
	}
	if !(math.Abs(got-want) <= 3e-6*(scale+math.Abs(want)+math.Abs(middle))) {
		t.Errorf("input %d: slope of %v, expected %v", i, got, want)
	}
	return true
}

// onCPU compares the gradients on the CPU backend, in float32.
func (c *gradCase) onCPU(t *testing.T, want []tensor.Datum) {
	t.Helper()
	m, err := runtime.New(c.graph.Clone(), runtime.Options{Backend: cpu.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in := map[string]tensor.Datum{}
	for i, v := range c.graph.Inputs {
		in[v.Name] = c.given[i]
	}
	out, err := m.Run(context.Background(), in)
	if err != nil {
		t.Errorf("cpu: %v", err)
		return
	}
	for k, v := range c.wrt {
		got, err := out[v.Name+".grad"].(*tensor.Tensor).Float64s()
		if err != nil {
			t.Fatal(err)
		}
		most, off := 1.0, 0.0
		for i, x := range tensor.Data[float64](want[1+k].(*tensor.Tensor)) {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				continue
			}
			most, off = max(most, math.Abs(x)), max(off, math.Abs(x-got[i]))
		}
		if !(off <= 1e-5*most) {
			t.Errorf("cpu: gradient of input %s differs by %.2g, of %.3g", v.Name, off, most)
		}
	}
}
