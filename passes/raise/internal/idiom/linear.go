package idiom

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	. "github.com/essmc/essmc/passes/match" //nolint:revive // patterns are written like the operators that they match
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Linear replaces products and biases by linear layers.
var Linear = &passes.Pass{
	Name: "raise-linear",
	Doc: "MatMul and Gemm with constants and the bias after them, also on flattened inputs, and Conv of kernel size " +
		"1 on (B, C, L) → essm.Linear. A linear layer that is split (GLU) becomes several.",
	After: []passes.Reason{
		{Pass: "fold", Why: "weights and biases must be constants"},
		{Pass: "raise-norm", Why: "a factor and a shift after a norm belong to it"},
	},
	Before: []passes.Reason{
		{Pass: "fold-norm", Why: "it makes the linear layers into which norms are folded"},
		{Pass: "fold-conv", Why: "it makes the linear layers into which factors and shifts are folded"},
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		n, err := passes.Apply(c, g, linearRules)
		if err != nil {
			return n, err
		}
		k, err := splitLinear(c, g)
		return n + k, err
	},
}

// weight matches constant or settled matrices that can be a linear layer's weight.
func weight(name string) Pattern {
	return FixedWhere(name, func(v *ir.Value) bool {
		return len(v.Shape()) == 2 && v.Elem().IsFloat() && (v.Const != nil || ops.Settles(v))
	})
}

// data matches sequences and vectors, of rank 2 and more, that are not constant.
func data(name string) Pattern {
	return Where(name, func(v *ir.Value) bool { return v.Const == nil && len(v.Shape()) >= 2 && v.Elem().IsFloat() })
}

var linearRules = NewSet(
	&Rule{
		Name: "matmul", Doc: "a product with a constant matrix is Linear",
		Pattern: Op("MatMul", data("x"), weight("w")),
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			return []*ir.Value{b.Op("essm", "Linear", []*ir.Value{m.Val("x"), turned(b, m.Val("w"))})}
		},
	},
	&Rule{
		Name: "gemm", Doc: "Gemm with constant B and C is Linear",
		Pattern: Op("Gemm", data("x"), weight("w"), Var("c")),
		Check: func(m *Match) string {
			a := m.Root.Attrs
			if a.Bool("transA", false) || a.Float("alpha", 1) != 1 || m.Val("c") != nil && a.Float("beta", 1) != 1 {
				return passes.Leave
			}
			if c := m.Val("c"); c != nil {
				if !variesAlong(m, c, 2, 1, outputsOf(m.Root)) {
					return passes.Leave
				}
			}
			return ""
		},
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			w := m.Val("w")
			if !m.Root.Attrs.Bool("transB", false) {
				w = turned(b, w)
			}
			in := []*ir.Value{m.Val("x"), w}
			if c := m.Val("c"); c != nil {
				in = append(in, vectorOf(b, c, 2, 1, outputsOf(m.Root)))
			}
			return []*ir.Value{b.Op("essm", "Linear", in)}
		},
	},
	&Rule{
		Name: "bias", Doc: "a constant added to each feature after a Linear is its bias",
		Pattern: Op("Add", Op("essm.Linear", Var("x"), Fixed("w")), Fixed("c")),
		Check: func(m *Match) string {
			rank := len(m.Val("x").Shape())
			if !variesAlong(m, m.Val("c"), rank, rank-1, dimOf(m.Val("w"), 0)) {
				return passes.Leave
			}
			return ""
		},
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			rank := len(m.Val("x").Shape())
			bias := vectorOf(b, m.Val("c"), rank, rank-1, dimOf(m.Val("w"), 0))
			return []*ir.Value{b.Op("essm", "Linear", []*ir.Value{m.Val("x"), m.Val("w"), bias})}
		},
	},
	&Rule{
		Name: "flat", Doc: "reshapes around a Linear that only join and split the axes before the last are not needed",
		Pattern: Op("Reshape", Op("essm.Linear", Op("Reshape", Var("x"), Var("s1")).Shared(), Fixed("w"), Var("c")),
			Var("s2")),
		Check: func(m *Match) string {
			x, y, w := m.Val("x").Shape(), m.Root.Outputs[0].Shape(), m.Val("w").Shape()
			n := len(x)
			if n < 2 || len(y) != n || !x[:n-1].Equal(y[:n-1]) || !x[n-1].Equal(w[1]) || !y[n-1].Equal(w[0]) {
				return passes.Leave
			}
			return ""
		},
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			in := []*ir.Value{m.Val("x"), m.Val("w")}
			if c := m.Val("c"); c != nil {
				in = append(in, c)
			}
			return []*ir.Value{b.Op("essm", "Linear", in)}
		},
	},
	&Rule{
		Name: "conv-1", Doc: "a Conv of kernel size 1 on (B, C, L) is Linear at each step",
		Pattern: Op("Conv", Where("x", func(v *ir.Value) bool { return len(v.Shape()) == 3 }), Fixed("w"), Var("c")),
		Check: func(m *Match) string {
			a, w, c := m.Root.Attrs, m.Val("w").Shape(), m.Val("c")
			ones := func(l []int64) bool { return !slices.ContainsFunc(l, func(x int64) bool { return x != 1 }) }
			zeros := func(l []int64) bool { return !slices.ContainsFunc(l, func(x int64) bool { return x != 0 }) }
			if len(w) != 3 || !w[2].Equal(ir.Const(1)) || a.Int("group", 1) != 1 || !ones(a.Ints("strides", nil)) ||
				!zeros(a.Ints("pads", nil)) || c != nil && !m.IsFixed(c) ||
				m.Val("w").Const == nil && !ops.Settles(m.Val("w")) {
				return passes.Leave
			}
			return ""
		},
		Make: func(b *ir.Builder, m *Match) []*ir.Value {
			w := m.Val("w")
			if w.Const == nil {
				w = b.Op("", "Squeeze", []*ir.Value{w, b.Ints(2)})
			} else {
				t, err := w.Const.Reshape(w.Const.Dim(0), w.Const.Dim(1))
				if err != nil {
					b.Fail(err)
					return nil
				}
				w = b.Const(w.Name, t)
			}
			in := []*ir.Value{nil, w}
			if c := m.Val("c"); c != nil {
				in = append(in, c)
			}
			return []*ir.Value{lastAxis(b, m.Val("x"), 1, func(x *ir.Value) *ir.Value {
				in[0] = x
				return b.Op("essm", "Linear", in)
			})}
		},
	},
)

// outputsOf returns the number of columns of a Gemm's result. Its weight is constant or settled.
func outputsOf(n *ir.Node) int {
	if n.Attrs.Bool("transB", false) {
		return dimOf(n.In(1), 0)
	}
	return dimOf(n.In(1), 1)
}

// dimOf returns a dimension of a constant or settled value, or -1.
func dimOf(v *ir.Value, axis int) int {
	if s := v.Shape(); axis < len(s) {
		if d, known := s[axis].Known(); known {
			return int(d)
		}
	}
	return -1
}

// turned returns the transpose of a constant or settled matrix, of a constant as a constant.
func turned(b *ir.Builder, w *ir.Value) *ir.Value {
	if w.Const == nil {
		return b.Op("", "Transpose", []*ir.Value{w}, ir.A("perm", []int64{1, 0}))
	}
	rows, columns := w.Const.Dim(0), w.Const.Dim(1)
	if w.Const.Lazy() {
		return b.Const(w.Name, tensor.LazyTranspose(w.Const))
	}
	switch d := w.Elem(); d {
	case tensor.Float32:
		t := tensor.New(d, columns, rows)
		transpose(tensor.Data[float32](t), tensor.Data[float32](w.Const), rows, columns)
		return b.Const(w.Name, t)
	case tensor.Float16:
		t := tensor.New(d, columns, rows)
		transpose(tensor.Data[tensor.F16](t), tensor.Data[tensor.F16](w.Const), rows, columns)
		return b.Const(w.Name, t)
	case tensor.BFloat16:
		t := tensor.New(d, columns, rows)
		transpose(tensor.Data[tensor.BF16](t), tensor.Data[tensor.BF16](w.Const), rows, columns)
		return b.Const(w.Name, t)
	}
	x, err := w.Const.Float64s()
	if err != nil {
		b.Fail(err)
		return nil
	}
	y := make([]float64, len(x))
	transpose(y, x, rows, columns)
	t, err := tensor.FromFloat64s(w.Elem(), y, columns, rows)
	if err != nil {
		b.Fail(err)
		return nil
	}
	return b.Const(w.Name, t)
}

// transpose works in blocks, whose columns fit in the first cache.
func transpose[T float32 | float64 | tensor.F16 | tensor.BF16](y, x []T, rows, columns int) {
	const block = 32
	for top := 0; top < rows; top += block {
		bottom := min(top+block, rows)
		for j := range columns {
			to := y[j*rows:][:rows]
			for i := top; i < bottom; i++ {
				to[i] = x[i*columns+j]
			}
		}
	}
}

// splitLinear replaces ranges of features that a Split or Slice with constants takes from a Linear, directly or
// after a transpose, by separate Linears.
func splitLinear(c *passes.Context, g *ir.Graph) (int, error) {
	changes := 0
	var b *ir.Builder
	var uses map[*ir.Value][]ir.Use
	settled := passes.SettledOf(c, g)
	for _, n := range slices.Clone(g.Nodes) {
		if name := n.Op.FullName(); name != "Split" && name != "Slice" {
			continue
		}
		x := n.In(0)
		var turn *ir.Node
		if regions.IsOp(x, "Transpose") {
			turn, x = x.Def, x.Def.In(0)
		}
		if !regions.IsOp(x, "essm.Linear") || !settled.Fixed(x.Def.In(1)) ||
			x.Def.In(2) != nil && !settled.Fixed(x.Def.In(2)) {
			continue
		}
		parts, ok := asParts(n)
		axis := len(x.Shape()) - 1
		if turn != nil {
			axis = slices.Index(ops.Permutation(turn), int64(axis))
		}
		if ok && b == nil {
			b, uses = passes.Edit(g), g.Uses()
		}
		if !ok || parts.axis != axis || !onlyParts(uses[n.In(0)]) {
			continue
		}
		b.Scope(n.Scope)
		for i, v := range n.Outputs {
			if v == nil {
				continue
			}
			lo, hi := parts.at[i], parts.at[i]+parts.size[i]
			in := []*ir.Value{x.Def.In(0), rowsOf(b, x.Def.In(1), lo, hi)}
			if c := x.Def.In(2); c != nil {
				in = append(in, rowsOf(b, c, lo, hi))
			}
			y := b.Op("essm", "Linear", in)
			if turn != nil {
				y = b.Op("", "Transpose", []*ir.Value{y}, turn.Attrs...)
			}
			if err := b.Err(); err != nil {
				return changes, err
			}
			passes.Replace(g, v, y)
		}
		changes++
	}
	return changes, passes.Finish(g)
}

// onlyParts reports whether all readers take parts, so that the whole is not needed.
func onlyParts(uses []ir.Use) bool {
	_, whole := regions.Elsewhere(uses, func(n *ir.Node) bool {
		return n.Op.FullName() == "Split" || n.Op.FullName() == "Slice"
	})
	return !whole
}

// rowsOf returns rows lo to hi-1 of a constant or settled value.
func rowsOf(b *ir.Builder, v *ir.Value, lo, hi int) *ir.Value {
	if v.Const == nil {
		return b.Op("", "Slice", []*ir.Value{v, b.Ints(int64(lo)), b.Ints(int64(hi)), b.Ints(0)})
	}
	shape := slices.Clone(v.Const.Shape())
	row := v.Const.Len() / max(1, shape[0])
	shape[0] = hi - lo
	t := tensor.New(v.Elem(), shape...)
	copy(t.Bytes(), v.Const.Part(lo*row, hi*row).Bytes())
	return b.Const(v.Name, t)
}

// parts are ranges along one axis, one per output.
type parts struct {
	axis     int
	at, size []int
}

// asParts reads a Split or a Slice of one axis.
func asParts(n *ir.Node) (p parts, ok bool) {
	s := n.In(0).Shape()
	if n.Op.Name == "Split" {
		a, err := ops.Axis(n.Attrs.Int("axis", 0), len(s))
		if err != nil {
			return p, false
		}
		p.axis = a
		at := 0
		for _, v := range n.Outputs {
			if v == nil || len(v.Shape()) != len(s) {
				return p, false
			}
			size, known := v.Shape()[a].Known()
			if !known {
				return p, false
			}
			p.at, p.size = append(p.at, at), append(p.size, int(size))
			at += int(size)
		}
		return p, true
	}
	c, ok := regions.AsSlice(n)
	if !ok || c.Step != 1 {
		return p, false
	}
	dim, known := s[c.Axis].Known()
	if !known {
		return p, false
	}
	first, count := c.Count(dim)
	return parts{c.Axis, []int{int(first)}, []int{int(count)}}, count > 0
}
