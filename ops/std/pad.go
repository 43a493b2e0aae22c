package std

import (
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Pad adds elements at the ends of axes, or removes them if a pad is negative.
var Pad = ops.Register(&ir.Op{
	Name: "Pad", Since: 24,
	Doc: "data with pads (all begins, then all ends, of the given axes or of all) of a constant, its mirror image, " +
		"its edge, or itself repeated; negative pads cut.",
	In: ops.Sig("data:T", "pads:int64[_]", "constant_value:T?", "axes:Tind[_]?"), Out: ops.Sig("output:T"),
	Elems: map[string][]tensor.DType{"T": ops.Any, "Tind": indexTypes},
	Attrs: []ir.AttrSpec{{Name: "mode", Kind: ir.AttrString, Default: "constant",
		OneOf: []string{"constant", "reflect", "edge", "wrap"}, Doc: "content of the pads"}},
	Infer: inferShape(func(n *ir.Node, in ir.Shape) (ir.Shape, error) {
		pads, ok := ops.DimsOf(n.In(1))
		axes, okA := padAxes(n, len(in))
		if !ok || !okA {
			return unknownShape(len(in)), nil
		}
		if err := checkPads(len(pads), axes, len(in)); err != nil {
			return nil, err
		}
		out := slices.Clone(in)
		for i, ax := range axes {
			a, _ := ops.Axis(ax, len(in))
			out[a] = out[a].Add(pads[i]).Add(pads[i+len(axes)])
		}
		return out, nil
	}),
	Eval: evalPad,
	Along: func(n *ir.Node, in []ir.Fact) []ir.Fact {
		pads, ok := ops.DimsOf(n.In(1))
		axes, okA := padAxes(n, len(n.In(0).Shape()))
		rest := slices.Clone(in)
		if len(rest) > 1 {
			rest[1] = ir.Fact{}
		}
		out := alongKeep(func(*ir.Node, int, int) bool { return false })(n, rest)
		f := out[0]
		if f.Constant() || f.Global || f.Axis < 0 {
			return out
		}
		if !ok || !okA {
			return spread(n, ops.Global(n, in))
		}
		for i, ax := range axes {
			a, err := ops.Axis(ax, len(n.In(0).Shape()))
			if err != nil || i+len(axes) >= len(pads) {
				return spread(n, ops.Global(n, in))
			}
			if a != f.Axis {
				continue
			}
			begin, okB := pads[i].Known()
			end, okE := pads[i+len(axes)].Known()
			if !okB || !okE || getStr(n, "mode") != "constant" && (begin != 0 || end != 0) {
				return spread(n, ops.Global(n, in))
			}
			f = shift(f, -begin)
		}
		return spread(n, f)
	},
	Moves: func(n *ir.Node) (pieces []ir.Piece, ok bool) {
		rank := len(n.In(0).Shape())
		pads, ok := ops.ConstInts(n.In(1))
		axes, okA := padAxes(n, rank)
		if !ok || !okA || checkPads(len(pads), axes, rank) != nil || getStr(n, "mode") != "constant" {
			return nil, false
		}
		if fill := n.In(2); fill != nil && (fill.Const == nil || !zeros(fill.Const)) {
			return nil, false
		}
		from := make([]int, rank)
		for i, a := range axes {
			axis, _ := ops.Axis(a, rank)
			if max(pads[i], -pads[i]) > math.MaxInt32 {
				return nil, false
			}
			from[axis] = -int(pads[i])
		}
		return []ir.Piece{{From: from}}, true
	},
	Gradient: ops.GradientMoved(0, 2),
	Linear:   linearPad,
	Tol:      ir.Exact,
})

// zeros reports whether all elements of a tensor of numbers are zero.
func zeros(t *tensor.Tensor) bool {
	v, err := t.Float64s()
	return err == nil && !slices.ContainsFunc(v, func(x float64) bool { return x != 0 })
}

func padAxes(n *ir.Node, rank int) ([]int64, bool) {
	if n.In(3) == nil {
		axes := make([]int64, rank)
		for i := range axes {
			axes[i] = int64(i)
		}
		return axes, true
	}
	return ops.ConstInts(n.In(3))
}

func checkPads(pads int, axes []int64, rank int) error {
	if pads != 2*len(axes) {
		return fmt.Errorf("%d pads for %d axes", pads, len(axes))
	}
	_, err := ops.AxesOf(axes, rank)
	return err
}

func evalPad(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	x, err := need(in, 0, "data")
	if err != nil {
		return nil, err
	}
	pads, err := ints(c, in, 1)
	if err != nil {
		return nil, err
	}
	axes, err := ints(c, in, 3)
	if err != nil {
		return nil, err
	}
	if axes == nil {
		for i := range x.Rank() {
			axes = append(axes, int64(i))
		}
	}
	if err := checkPads(len(pads), axes, x.Rank()); err != nil {
		return nil, err
	}
	begin, shape := make([]int, x.Rank()), slices.Clone(x.Shape())
	for i, ax := range axes {
		a, _ := ops.Axis(ax, x.Rank())
		for _, p := range []int64{pads[i], pads[i+len(axes)]} {
			if p > ops.MaxElems || p < -ops.MaxElems {
				return nil, fmt.Errorf("pads %v are beyond %d", pads, ops.MaxElems)
			}
			shape[a] += int(p)
		}
		if begin[a] = int(pads[i]); shape[a] < 0 {
			return nil, fmt.Errorf("pads %v cut more than %s has", pads, x)
		}
	}
	out, err := alloc(c, x.DType(), shape)
	if err != nil || out.Len() == 0 {
		return ops.One(out, err)
	}
	mode := getStr(c.Node, "mode")
	// Per axis, the source of each position of the output; -1 is the constant.
	from := make([][]int, x.Rank())
	for a, d := range shape {
		if from[a], err = padSource(c, mode, d, begin[a], x.Dim(a)); err != nil {
			return nil, fmt.Errorf("axis %d of %s: %w", a, x, err)
		}
	}
	if v := ops.Tensor(in, 2); v != nil && mode == "constant" {
		if v.Len() != 1 || v.DType() != x.DType() {
			return nil, fmt.Errorf("constant_value: expected one %v, found %s", x.DType(), v)
		}
		fillWith(c, out, v)
	}
	m, strides := newMover(c, out, x), ops.Strides(x.Shape())
	var visit func(axis, d, s int) int
	visit = func(axis, d, s int) int {
		if axis == len(shape) {
			if s >= 0 {
				m.copy(d, s, 1)
			}
			return d + 1
		}
		for _, k := range ops.All(c, from[axis]) {
			if k < 0 || s < 0 {
				d = visit(axis+1, d, -1)
			} else {
				d = visit(axis+1, d, s+k*strides[axis])
			}
		}
		return d
	}
	visit(0, 0, 0)
	return ops.One(out, nil)
}

// padSource returns, for each of size positions, the position below dim that it copies.
func padSource(c *ir.EvalCtx, mode string, size, begin, dim int) ([]int, error) {
	out := ops.Make[int](c, size)
	for i := range out {
		k := i - begin
		if k >= 0 && k < dim {
			out[i] = k
			continue
		}
		if mode != "constant" && dim == 0 {
			return nil, fmt.Errorf("mode %s has nothing to copy", mode)
		}
		switch mode {
		case "edge":
			k = min(max(k, 0), dim-1)
		case "wrap":
			k = ((k % dim) + dim) % dim
		case "reflect": // the edge itself is not repeated
			if dim == 1 {
				k = 0
				break
			}
			period := 2 * (dim - 1)
			if k = ((k % period) + period) % period; k >= dim {
				k = period - k
			}
		default:
			k = -1
		}
		out[i] = k
	}
	return out, nil
}

func linearPad(n *ir.Node) [][]int {
	if getStr(n, "mode") == "constant" {
		return [][]int{{0, 2}}
	}
	return [][]int{{0}}
}
