package idiom

import (
	"errors"
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Reverse replaces recurrences over reversed sequences by backward systems.
var Reverse = &passes.Pass{
	Name: "raise-reverse",
	Doc: "A system on a reversed sequence becomes a backward system, with its response at lag 0, which those lack, " +
		"in D. Reversals move after operators that treat steps separately, and cancel there. A forward and a " +
		"backward system with the same parameters become one bidirectional system.",
	After: []passes.Reason{
		{Pass: "raise-layout", Why: "it reverses whole systems, and without transposes a scan joins its projections"},
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		// Fuse first: a system is reversed as a whole, with its projections and its direct term.
		changes, err := passes.Fuse.Run(c, g)
		if err != nil {
			return changes, err
		}
		for round := 0; ; round++ {
			n, err := reverseOnce(c, g)
			changes += n
			if err != nil || n == 0 {
				return changes, err
			}
			if round > len(g.Nodes)+1000 {
				return changes, errors.New("the rewriting of reversals does not end")
			}
		}
	},
}

// reverseOnce applies each rewrite at most once to every node.
func reverseOnce(c *passes.Context, g *ir.Graph) (int, error) {
	changes := 0
	b := passes.Edit(g)
	left := regions.NodeSet(g)
	for _, n := range slices.Clone(g.Nodes) {
		c.Check()
		if !left[n] {
			continue
		}
		b.Scope(n.Scope)
		y := n.Outputs[0]
		var with *ir.Value
		switch {
		case ops.IsFusedSystem(n.Op):
			with = backward(c, g, b, n)
		case n.Op.FullName() == "Add":
			if with = bothWays(c, b, n); with == nil {
				with = reversalBehind(b, n)
			}
		default:
			if axis, ok := asReversal(n); ok {
				if a, ok := asReversal(n.In(0).Def); ok && a == axis {
					with = n.In(0).Def.In(0)
				}
			} else {
				with = reversalBehind(b, n)
			}
		}
		if err := b.Err(); err != nil {
			return changes, err
		}
		if with != nil && c.Search().Spend(regions.WorkOfWalk(g)) == nil && passes.Replace(g, y, with) {
			changes++
			g.RemoveDead()
			left = regions.NodeSet(g)
		}
	}
	return changes, passes.Finish(g)
}

// stepwiseOps are operators that compute each step of a sequence separately if they keep the axis of time.
var stepwiseOps = map[string]bool{
	"Add": true, "Sub": true, "Mul": true, "Div": true, "Neg": true, "Gelu": true, "Relu": true, "LeakyRelu": true,
	"Tanh": true, "Sigmoid": true,
	"Swish": true, "Mish": true, "Softplus": true, "HardSwish": true, "Elu": true, "Cast": true, "Transpose": true,
	"MatMul": true, "Concat": true,
	"LayerNormalization": true, "RMSNormalization": true, "essm.Linear": true, "essm.Affine": true,
	"essm.BatchNorm":  true,
	"essm.ScalarNorm": true, "essm.HeadLinear": true, "essm.HeadScale": true,
}

// reversalBehind moves the reversals of all sequences that a node reads after the node. It returns nil if that is not
// possible.
func reversalBehind(b *ir.Builder, n *ir.Node) *ir.Value {
	if !stepwiseOps[n.Op.FullName()] || len(n.Outputs) != 1 || n.Op.Along == nil {
		return nil
	}
	in, facts := slices.Clone(n.Inputs), make([]ir.Fact, len(n.Inputs))
	some := false
	rank := len(n.Outputs[0].Shape())
	for i, v := range n.Inputs {
		if v == nil || v.Const != nil {
			continue
		}
		axis, ok := asReversal(v.Def)
		if !ok {
			return nil
		}
		in[i], some = v.Def.In(0), true
		facts[i] = ir.Fact{Symbol: "t", Axis: axis, Stride: 1}
	}
	if !some {
		return nil
	}
	f := n.Op.Along(n, facts)[0]
	if f.Symbol == "" || f.Global || f.Axis < 0 || f.Stride != 1 || f.Back != 0 || f.Ahead != 0 {
		return nil
	}
	for _, v := range n.Inputs { // a constant with different numbers for each step would have to be reversed too
		if v == nil || v.Const == nil || n.Op.Domain == "essm" {
			continue
		}
		if at := f.Axis - rank + v.Const.Rank(); at >= 0 && v.Const.Dim(at) != 1 && n.Op.Name != "LayerNormalization" &&
			n.Op.Name != "RMSNormalization" && n.Op.Name != "MatMul" {
			return nil
		}
		if n.Op.Name == "MatMul" && v.Const.Rank() > 2 || n.Op.Name == "Concat" {
			return nil
		}
	}
	return regions.Reversed(b, b.Apply(n.Op, 1, in, n.Attrs)[0], f.Axis)
}

// backward replaces a forward system of a reversed sequence by the reverse of a backward system.
func backward(c *passes.Context, g *ir.Graph, b *ir.Builder, n *ir.Node) *ir.Value {
	u := n.In(0)
	if n.Attrs.Str("direction", essm.Forward) != essm.Forward {
		return nil
	}
	axis, ok := asReversal(u.Def)
	if why := whyNotReversal(u.Def); !ok && why != "" {
		regions.NoteMiss(c, "reversed", n, "%s", why)
	}
	if !ok || axis != 1 {
		return nil
	}
	sys, err := readSystem(n)
	if err != nil {
		regions.NoteMiss(c, "reversed", n, "%v", err)
		return nil
	}
	in := slices.Clone(n.Inputs)
	for len(in) <= sys.at["D"] {
		in = append(in, nil)
	}
	in[0] = u.Def.In(0)
	attrs := n.Attrs.With("direction", essm.Backward)
	uses := g.Uses()[n.Outputs[0]]
	if sys.d == nil && len(uses) == 1 && uses[0].Node != nil {
		// Delayed by one step, the forward system starts at lag 1, like a backward one.
		if later := delayBehind(g, uses[0].Node); later != nil {
			y := regions.Reversed(b, b.Ops("essm", n.Op.Name, 1, in, attrs...)[0], 1)
			c.Note("reversed: %v, one step later, is a backward system", n)
			if b.Err() == nil {
				passes.Replace(g, later, y)
			}
			return nil
		}
	}
	sys.shift(b, in)
	c.Note("reversed: %v is a backward system, and its lag 0 is in D", n)
	return regions.Reversed(b, b.Ops("essm", n.Op.Name, 1, in, attrs...)[0], 1)
}

// delayBehind returns the result of a delay that starts with the given node.
func delayBehind(g *ir.Graph, n *ir.Node) *ir.Value {
	if len(n.Outputs) == 0 || n.Outputs[0] == nil {
		return nil
	}
	uses := g.Uses()[n.Outputs[0]]
	if len(uses) != 1 || uses[0].Node == nil || slices.Contains(g.Outputs, n.Outputs[0]) {
		return nil
	}
	if _, ok := asDelay(uses[0].Node); ok && uses[0].Node.In(0) == n.Outputs[0] {
		return uses[0].Node.Outputs[0]
	}
	return nil
}

// fused is a fused system with constant parameters.
type fused struct {
	n     *ir.Node
	d     *ir.Value
	dense bool
	at    map[string]int
}

// readSystem reads the constants of a fused system without state and window.
func readSystem(n *ir.Node) (*fused, error) {
	f := &fused{dense: n.Op == essm.DenseSSM}
	f.at = map[string]int{"B": 5, "C": 6, "Bim": 7, "Cim": 8, "D": regions.DirectInput(n.Op), "state": 10}
	if f.dense {
		f.at = map[string]int{"B": 3, "C": 4, "D": regions.DirectInput(n.Op), "state": 6}
	}
	switch {
	case n.In(f.at["state"]) != nil || n.Out(1) != nil:
		return nil, errors.New("it has a state, and a backward system keeps none")
	case n.Attrs.Int("window", 0) != 0:
		return nil, fmt.Errorf("it has a window of %d steps, whose lag 0 cannot become part of D",
			n.Attrs.Int("window", 0))
	}
	for i, v := range n.Inputs[1:] {
		if v != nil && v.Const == nil {
			return nil, fmt.Errorf("its %s is not a constant", n.Op.In[i+1].Name)
		}
	}
	f.n, f.d = n, n.In(f.at["D"])
	return f, nil
}

// shift changes the inputs of a node for a backward system, whose kernel starts at lag 1. The former lag 1 becomes its
// first lag, and the former lag 0 is added to D.
func (f *fused) shift(b *ir.Builder, in []*ir.Value) {
	num := func(v *ir.Value) []float64 {
		if v == nil {
			return nil
		}
		x, err := v.Const.Float64s()
		if err != nil {
			b.Fail(err)
		}
		return x
	}
	w, r := f.n.In(f.at["B"]).Const.Shape(), f.n.In(f.at["C"]).Const.Shape()
	blocks, n, h, m := w[0]*w[1], w[2], w[3], r[2]
	bRe, cRe := num(f.n.In(f.at["B"])), num(f.n.In(f.at["C"]))
	lag0 := make([]float64, blocks*m*h) // C b B, per channel and head
	if f.dense {
		abar, gamma := num(f.n.In(1)), num(f.n.In(2))
		next := make([]float64, len(gamma))
		for k := range blocks {
			product(next[k*n*n:(k+1)*n*n], abar[k*n*n:(k+1)*n*n], gamma[k*n*n:(k+1)*n*n], n, n, n)
			gb := make([]float64, n*h)
			product(gb, gamma[k*n*n:(k+1)*n*n], bRe[k*n*h:(k+1)*n*h], n, n, h)
			product(lag0[k*m*h:(k+1)*m*h], cRe[k*m*n:(k+1)*m*n], gb, m, n, h)
		}
		in[2] = b.Const("gamma", tensor.FromSlice(next, f.n.In(2).Const.Shape()...))
	} else {
		aRe, aIm, sRe, sIm := num(f.n.In(1)), num(f.n.In(2)), num(f.n.In(3)), num(f.n.In(4))
		bIm, cIm := num(f.n.In(f.at["Bim"])), num(f.n.In(f.at["Cim"]))
		at := func(re, im []float64, i int) complex128 {
			if im == nil {
				return complex(re[i], 0)
			}
			return complex(re[i], im[i])
		}
		nextRe, nextIm := make([]float64, len(sRe)), make([]float64, len(sIm))
		for i := range aRe {
			s := at(sRe, sIm, i)
			next := essm.Pow(at(aRe, aIm, i), 1) * s
			nextRe[i], nextIm[i] = real(next), imag(next)
			k, j := i/n, i%n
			for p := range m {
				for q := range h {
					lag0[(k*m+p)*h+q] += real(at(cRe, cIm, (k*m+p)*n+j) * s * at(bRe, bIm, i*h+q))
				}
			}
		}
		dims := f.n.In(3).Const.Shape()
		in[3], in[4] = b.Const("b_re", tensor.FromSlice(nextRe, dims...)),
			b.Const("b_im", tensor.FromSlice(nextIm, dims...))
	}
	dims := []int{w[0], w[1], m, h}
	if d := num(f.d); d != nil {
		diagonal := f.d.Const.Rank() == 3
		for i := range lag0 {
			if !diagonal {
				lag0[i] += d[i]
			} else if i/h%m == i%h {
				lag0[i] += d[i/h]
			}
		}
	}
	if m == 1 && h == 1 {
		dims = dims[:3]
	}
	in[f.at["D"]] = b.Const("D", tensor.FromSlice(lag0, dims...))
}

// product computes out = a·b for matrices of sizes r×k and k×c.
func product(out, a, b []float64, r, k, c int) {
	for i := range r {
		for j := range c {
			s := 0.0
			for l := range k {
				s += a[i*k+l] * b[l*c+j]
			}
			out[i*c+j] = s
		}
	}
}

// bothWays joins a forward and a backward system with the same input and parameters. n is their sum.
func bothWays(c *passes.Context, b *ir.Builder, n *ir.Node) *ir.Value {
	x, y := n.In(0), n.In(1)
	if x == nil || y == nil || x.Def == nil || y.Def == nil || !ops.IsFusedSystem(x.Def.Op) || x.Def.Op != y.Def.Op {
		return nil
	}
	f, r := x.Def, y.Def
	if f.Attrs.Str("direction", essm.Forward) == essm.Backward {
		f, r = r, f
	}
	if f.Attrs.Str("direction", essm.Forward) != essm.Forward ||
		r.Attrs.Str("direction", essm.Forward) != essm.Backward || f.In(0) != r.In(0) || f.Out(1) != nil {
		return nil
	}
	if f.Attrs.Int("window", 0) != r.Attrs.Int("window", 0) {
		return nil
	}
	at := regions.DirectInput(f.Op)
	for i := 1; i < max(len(f.Inputs), len(r.Inputs)); i++ {
		p, q := f.In(i), r.In(i)
		if i == at || p == q {
			continue
		}
		if p == nil || q == nil || p.Const == nil || q.Const == nil || !tensor.Equal(p.Const, q.Const) {
			return nil
		}
	}
	if f.In(at) != nil && r.In(at) != nil {
		return nil
	}
	in := slices.Clone(f.Inputs)
	if d := r.In(at); d != nil {
		for len(in) <= at {
			in = append(in, nil)
		}
		in[at] = d
	}
	c.Note("reversed: %v and %v are one bidirectional system", f, r)
	return b.Ops("essm", f.Op.Name, 1, in, f.Attrs.With("direction", essm.Bidirectional)...)[0]
}
