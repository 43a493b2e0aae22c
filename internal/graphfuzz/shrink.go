package graphfuzz

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/ops/opstest"
)

// Shrink returns a smaller case for which fails still holds: with fewer runs, outputs, nodes, symbols, attributes, and
// with simpler elements. It ends when nothing helps, or after a time.
func Shrink(c *Case, limit time.Duration, fails func(*Case) bool) *Case {
	end := time.Now().Add(limit)
	ok := func(k *Case) bool {
		if k == nil || time.Now().After(end) {
			return false
		}
		k.Graph.RemoveDead()
		dropUnused(k)
		return ir.Verify(k.Graph) == nil && fails(k)
	}
	for again := true; again && time.Now().Before(end); {
		again = false
		for _, move := range []func(*Case, func(*Case) bool) *Case{lessRuns, oneOutput, earlier, given, inner,
			fixedSizes, lessAttributes, shorter, simpler} {
			for time.Now().Before(end) {
				k := move(c, ok)
				if k == nil {
					break
				}
				c, again = k, true
			}
		}
	}
	rename(c.Graph.Clone())
	return c
}

// copyOf copies a case. The data of runs are shared.
func copyOf(c *Case) *Case {
	k := &Case{Graph: c.Graph.Clone(), Loose: c.Loose}
	for _, d := range c.Runs {
		e := Data{}
		for name, x := range d {
			e[name] = x
		}
		k.Runs = append(k.Runs, e)
	}
	return k
}

func dropUnused(c *Case) {
	uses := c.Graph.Uses()
	c.Graph.Inputs = slices.DeleteFunc(c.Graph.Inputs, func(v *ir.Value) bool {
		if len(uses[v]) > 0 {
			return false
		}
		for _, d := range c.Runs {
			delete(d, v.Name)
		}
		return true
	})
}

func lessRuns(c *Case, ok func(*Case) bool) *Case {
	for i := range c.Runs {
		if len(c.Runs) > 1 {
			k := copyOf(c)
			k.Runs = slices.Delete(k.Runs, i, i+1)
			k.Loose = k.Loose || i == 0 && len(c.Graph.Symbols()) > 0
			if ok(k) {
				return k
			}
		}
	}
	return nil
}

func oneOutput(c *Case, ok func(*Case) bool) *Case {
	for i := range c.Graph.Outputs {
		if len(c.Graph.Outputs) > 1 {
			k := copyOf(c)
			k.Graph.Outputs = k.Graph.Outputs[i : i+1]
			if ok(k) {
				return k
			}
			k = copyOf(c)
			k.Graph.Outputs = slices.Delete(k.Graph.Outputs, i, i+1)
			if ok(k) {
				return k
			}
		}
	}
	return nil
}

// earlier makes the results of an earlier node the outputs.
func earlier(c *Case, ok func(*Case) bool) *Case {
	last := len(c.Graph.Nodes) - 1
	for i := range last {
		k := copyOf(c)
		k.Graph.Outputs = nil
		for _, v := range k.Graph.Nodes[i].Outputs {
			if v != nil {
				k.Graph.Outputs = append(k.Graph.Outputs, v)
			}
		}
		k.Graph.Nodes = k.Graph.Nodes[:i+1]
		if ok(k) {
			return k
		}
	}
	return nil
}

// trace notes the values of a run.
type trace struct{ values map[*ir.Value]tensor.Datum }

func (*trace) Before(eval.Place) error { return nil }
func (*trace) Done(eval.Place) error   { return nil }
func (t *trace) After(at eval.Place, out []tensor.Datum) error {
	for i, v := range at.Node.Outputs {
		if v != nil && i < len(out) && !at.Inner && !at.Body {
			t.values[v] = opstest.Copy(out[i])
		}
	}
	return nil
}

func traced(g *ir.Graph, in Data) map[*ir.Value]tensor.Datum {
	p := eval.New(eval.Options{})
	t := &trace{map[*ir.Value]tensor.Datum{}}
	if p.Add(g) != nil {
		return nil
	}
	data := make([]tensor.Datum, len(g.Inputs))
	for i, v := range g.Inputs {
		data[i] = eval.Present(in[v.Name])
	}
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	_, _ = p.Graph(ctx, g, data, nil, nil, t)
	return t.values
}

// given makes the result of a node an input.
func given(c *Case, ok func(*Case) bool) *Case {
	var values []map[*ir.Value]tensor.Datum
	for _, in := range c.Runs {
		values = append(values, traced(c.Graph, in))
	}
	for i := len(c.Graph.Nodes) - 1; i >= 0; i-- {
		n := c.Graph.Nodes[i]
		whole := true
		for _, v := range n.Outputs {
			for _, run := range values {
				if v != nil && run[v] == nil {
					whole = false
				}
			}
		}
		if !whole {
			continue
		}
		k := copyOf(c)
		m := k.Graph.Nodes[i]
		for j, v := range m.Outputs {
			if v == nil {
				continue
			}
			typ := v.Type
			if t, isTensor := values[0][n.Outputs[j]].(*tensor.Tensor); isTensor && len(c.Runs) == 1 {
				typ = ir.Of(t)
			}
			x := &ir.Value{Name: v.Name, Type: typ}
			v.Name += "_"
			k.Graph.ReplaceUses(v, x)
			k.Graph.Inputs = append(k.Graph.Inputs, x)
			for r := range k.Runs {
				k.Runs[r][x.Name] = values[r][n.Outputs[j]]
			}
		}
		k.Graph.Nodes = slices.Delete(k.Graph.Nodes, i, i+1)
		if slices.ContainsFunc(k.Graph.Outputs, func(v *ir.Value) bool { return v.Def == nil && v.Const == nil }) &&
			!slices.ContainsFunc(k.Graph.Outputs, func(v *ir.Value) bool { return v.Def != nil }) {
			continue
		}
		if reinfer(k.Graph) && ok(k) {
			return k
		}
	}
	return nil
}

// reinfer infers the types of all results again, where operators allow that.
func reinfer(g *ir.Graph) bool {
	return g.Walk(func(_ *ir.Graph, n *ir.Node) error { return ir.InferNode(n) }) == nil
}

// inner removes nodes of subgraphs: their results become values of the same type.
func inner(c *Case, ok func(*Case) bool) *Case {
	count := 0
	_ = c.Graph.Walk(func(*ir.Graph, *ir.Node) error { count++; return nil })
	for at := range count {
		k := copyOf(c)
		i := 0
		changed := false
		_ = k.Graph.Walk(func(g *ir.Graph, n *ir.Node) error {
			if i++; i != at+1 || g == k.Graph {
				return nil
			}
			for j, v := range n.Outputs {
				for _, x := range slices.Concat(n.Inputs, g.Inputs) {
					if v != nil && x != nil && x.Const == nil && ir.EqualTypes(x.Type, v.Type) &&
						!slices.Contains(g.Outputs, v) && n.Op.Name != "Identity" {
						g.ReplaceUses(n.Outputs[j], x)
						changed = true
						break
					}
				}
			}
			return nil
		})
		if changed && ok(k) {
			return k
		}
	}
	return nil
}

// fixedSizes replaces symbols by the sizes of the only run.
func fixedSizes(c *Case, ok func(*Case) bool) *Case {
	if len(c.Runs) != 1 || len(c.Graph.Symbols()) == 0 {
		return nil
	}
	k := copyOf(c)
	for _, v := range k.Graph.Inputs {
		if t, isTensor := k.Runs[0][v.Name].(*tensor.Tensor); isTensor {
			v.Type = ir.Of(t)
		}
	}
	if k.Graph.Meta != nil {
		k.Graph.Meta = nil
	}
	if reinfer(k.Graph) && len(k.Graph.Symbols()) == 0 && ok(k) {
		return k
	}
	return nil
}

func lessAttributes(c *Case, ok func(*Case) bool) *Case {
	for i, n := range c.Graph.Nodes {
		for _, a := range n.Attrs {
			k := copyOf(c)
			m := k.Graph.Nodes[i]
			m.Attrs = m.Attrs.Without(a.Name)
			if reinfer(k.Graph) && ok(k) {
				return k
			}
		}
		for j := len(n.Inputs) - 1; j > 0; j-- {
			if n.Inputs[j] == nil {
				continue
			}
			k := copyOf(c)
			m := k.Graph.Nodes[i]
			if j == len(m.Inputs)-1 {
				m.Inputs = m.Inputs[:j]
			} else {
				m.Inputs[j] = nil
			}
			if reinfer(k.Graph) && ok(k) {
				return k
			}
		}
	}
	return nil
}

// shorter halves the inputs along a symbol or, without symbols, takes one away from all dimensions of one size.
func shorter(c *Case, ok func(*Case) bool) *Case {
	sizes := map[int]bool{}
	for _, in := range c.Runs {
		for _, d := range in {
			if t, isTensor := d.(*tensor.Tensor); isTensor && t.DType().Bits() >= 8 {
				for _, n := range t.Shape() {
					if n > 1 {
						sizes[n] = true
					}
				}
			}
		}
	}
	if len(c.Runs) != 1 {
		return nil
	}
	var all []int
	for n := range sizes {
		all = append(all, n)
	}
	slices.Sort(all)
	slices.Reverse(all)
	for _, n := range all {
		for _, to := range []int{1, n / 2, n - 1} {
			if to < 1 || to >= n {
				continue
			}
			k := copyOf(c)
			for _, v := range k.Graph.Inputs {
				t, isTensor := k.Runs[0][v.Name].(*tensor.Tensor)
				if !isTensor || t.DType().Bits() < 8 {
					continue
				}
				for a := range t.Rank() {
					if t.Dim(a) == n {
						t = cut(t, a, 0, to)
					}
				}
				k.Runs[0][v.Name] = t
				typ := v.Shape()
				out := ir.Shape{}
				for a, d := range typ {
					if _, known := d.Known(); known {
						d = ir.Const(int64(t.Dim(a)))
					}
					out = append(out, d)
				}
				v.Type = &ir.TensorType{Elem: t.DType(), Shape: out}
			}
			for _, v := range k.Graph.Constants() {
				t := v.Const
				if t.DType().Bits() < 8 {
					continue
				}
				for a := range t.Rank() {
					if t.Dim(a) == n {
						t = cut(t, a, 0, to)
					}
				}
				v.Const, v.Type = t, ir.Of(t)
			}
			if reinfer(k.Graph) && ok(k) {
				return k
			}
		}
	}
	return nil
}

// simpler makes the elements of an input or a constant 0 or 1, or rounds them.
func simpler(c *Case, ok func(*Case) bool) *Case {
	for _, f := range []func(float64) float64{
		func(float64) float64 { return 0 }, func(float64) float64 { return 1 },
		func(v float64) float64 { return math.Round(v) }, func(v float64) float64 { return math.Round(8*v) / 8 },
	} {
		for i, v := range c.Graph.Constants() {
			if t := changed(v.Const, f); t != nil {
				k := copyOf(c)
				k.Graph.Constants()[i].Const = t
				if reinfer(k.Graph) && ok(k) { // types may follow from elements
					return k
				}
			}
		}
		for _, v := range c.Graph.Inputs {
			k, some := copyOf(c), false
			for _, in := range k.Runs {
				if t, isTensor := in[v.Name].(*tensor.Tensor); isTensor {
					if y := changed(t, f); y != nil {
						in[v.Name], some = y, true
					}
				}
			}
			if some && ok(k) {
				return k
			}
		}
	}
	return nil
}

// changed applies f to all elements. It returns nil if nothing changes.
func changed(t *tensor.Tensor, f func(float64) float64) *tensor.Tensor {
	x, err := t.Float64s()
	if err != nil || len(x) == 0 {
		return nil
	}
	if !slices.ContainsFunc(x, func(v float64) bool { return v != 0 }) {
		return nil // nothing is simpler
	}
	for i, v := range x {
		x[i] = f(v)
	}
	y, err := tensor.FromFloat64s(t.DType(), x, t.Shape()...)
	if err != nil || tensor.Equal(y, t) {
		return nil
	}
	return y
}
