package passes

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/ops/essm/spectral"
)

// diagonalizeLowRank replaces a DPLR node by a diagonal system, if the eigenvectors allow it
// (spectral.MaxCondition). If they do not, it records that in the node's attribute condition. It returns the number
// of changes.
func diagonalizeLowRank(c *Context, b *ir.Builder, g *ir.Graph, n *ir.Node, settled Settled) (int, error) {
	known := func(v *ir.Value) bool { return v == nil || v.Const != nil }
	for i, v := range n.Inputs {
		if i > 0 && i < 13 && !known(v) {
			c.Note("%s: its matrices %s, so it stays diagonal plus low rank", where(n),
				settled.origin(n.Inputs[1:min(13, len(n.Inputs))]...))
			return 0, nil
		}
	}
	l := &lowRank{c: c, b: b, n: n}
	if err := l.read(); err != nil {
		c.Note("%s: stays diagonal plus low rank: %v", where(n), err)
		return 0, nil
	}
	var largest float64
	var head int
	var err error
	if e := Apart(c.Done(), func() { largest, head, err = spectral.Condition(c.Done(), l.a, c.search) }); e != nil {
		return 0, e
	}
	switch {
	case err != nil:
		c.Note("%s: stays diagonal plus low rank: %v", where(n), err)
		return 0, nil
	case !(largest <= spectral.MaxCondition):
		c.Note("%s: stays diagonal plus low rank: the eigenvectors of feature %d have condition number %.2g, more "+
			"than %g",
			where(n), head, largest, spectral.MaxCondition)
		if !(largest <= math.MaxFloat64) {
			largest = math.MaxFloat64
		}
		n.Attrs = n.Attrs.With("condition", largest)
		return 1, nil
	case n.Attrs.Int("window", 0) > 0:
		c.Note("%s: stays diagonal plus low rank: the last %d inputs are kept once in that form, and for each state "+
			"in the diagonal one (condition number %.3g)", where(n), n.Attrs.Int("window", 0), largest)
		return 0, nil
	}
	b.Scope(n.Scope)
	y, state, err := l.diagonal()
	var over *ir.BudgetError
	if errors.As(err, &over) {
		c.Note("%s: stays diagonal plus low rank: %v", where(n), err)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	Replace(g, n.Outputs[0], y)
	if n.Out(1) != nil {
		Replace(g, n.Outputs[1], state)
	}
	c.Note("%s: diagonal plus low-rank systems of %d states diagonalized, condition number %.3g", where(n), l.states,
		largest)
	return 1, nil
}

// lowRank is a DPLR node with a constant system. Matrices are over the reals (spectral.LowRank).
type lowRank struct {
	c                *Context
	b                *ir.Builder
	n                *ir.Node
	features, states int
	dt               []float64 // (features, states), or one for each feature
	a                *tensor.Tensor
}

// read computes the matrices. Step sizes that differ between the states of a feature become a part of them.
func (l *lowRank) read() error {
	in := func(i int) *tensor.Tensor { return l.n.In(i).Const }
	l.features, l.states = in(2).Dim(0), in(2).Dim(1)
	var err error
	if l.dt, err = in(1).Float64s(); err != nil {
		return err
	}
	for _, x := range l.dt {
		if !(x > 0) || math.IsInf(x, 0) {
			return fmt.Errorf("expected positive step sizes, found %v", x)
		}
	}
	scale := l.dt
	if len(l.dt) == l.features {
		scale = nil
	} else if len(l.dt) != l.features*l.states {
		return fmt.Errorf("expected %d × 1 or %d step sizes, found %s", l.features, l.states, in(1))
	}
	l.a, err = spectral.LowRank(l.c.Done(), l.c.search.Part(baseBytes, -1), in(2), in(3), in(4), in(5), scale)
	return err
}

// diagonal builds the diagonal system, one head for each feature.
func (l *lowRank) diagonal() (y, state *ir.Value, err error) {
	b, n := l.b, l.n
	later := n.In(11) != nil
	c, err := l.outputs(later)
	if err != nil {
		return nil, nil, err
	}
	in := stack(n.In(6).Const, n.In(7).Const)
	if len(l.dt) != l.features { // the rows of B include their step sizes, like those of A
		for i := range in {
			in[i] *= l.dt[i/(2*l.states)*l.states+i%l.states]
		}
	}
	constant := func(name string, v []float64, dims ...int) *ir.Value {
		return b.Const(strings.TrimPrefix(n.Scope+"."+name, "."), tensor.FromSlice(v, dims...))
	}
	sys := b.Ops("essm", "Diagonalize", 10, []*ir.Value{b.Const("a", l.a),
		constant("B", in, 1, l.features, 2*l.states, 1),
		constant("C", c, 1, l.features, len(c)/(2*l.features*l.states), 2*l.states)},
		ir.A("max_condition", spectral.MaxCondition))
	if err := b.Err(); err != nil {
		return nil, nil, err
	}
	var out []*tensor.Tensor
	if e := Apart(l.c.Done(), func() { out, err = l.c.evalConst(sys[0].Def) }); e != nil {
		return nil, nil, e
	}
	if err != nil {
		return nil, nil, err
	}
	kept := out[0].Dim(2)
	if kept > l.states && kept > wholeStates { // real eigenvalues have no partner that could be omitted
		kept = (kept + wholeStates - 1) / wholeStates * wholeStates
	}
	k := make([]*ir.Value, len(out))
	for i, t := range out {
		axis, fill := 2, 0.0
		switch i {
		case 0:
			fill = -1
		case 4, 5, 8, 9: // C and from have states in columns
			axis = 3
		}
		k[i] = b.Const(strings.TrimPrefix(n.Scope+"."+sys[i].Def.Op.Out[i].Name, "."), widened(t, axis, kept, fill))
	}
	steps := make([]float64, l.features) // their logarithms; 0 where A contains them
	if len(l.dt) == l.features {
		for i, x := range l.dt {
			steps[i] = math.Log(x)
		}
	}
	disc := b.Ops("essm", "Discretize", 4, []*ir.Value{k[0], k[1], constant("log_dt", steps, 1, l.features, 1)},
		ir.A("method", "bilinear"), ir.A("rate", n.Attrs.Float("rate", 1)))
	// The inputs' factors are complex, so they become a part of b.
	last := b.Ints(3)
	factor := func(v *ir.Value) *ir.Value { return b.Op("", "Squeeze", []*ir.Value{v, last}) }
	times := func(x, y *ir.Value) *ir.Value { return b.Op("", "Mul", []*ir.Value{x, y}) }
	bRe, bIm := factor(k[2]), factor(k[3])
	inRe := b.Op("", "Sub", []*ir.Value{times(disc[2], bRe), times(disc[3], bIm)})
	inIm := b.Op("", "Add", []*ir.Value{times(disc[2], bIm), times(disc[3], bRe)})
	ones := constant("one", slices.Repeat([]float64{1}, l.features*kept), 1, l.features, kept, 1)
	// half is the system of one direction, with row i of the outputs' factors.
	half := func(direction string, i, outs int, state *ir.Value) []*ir.Value {
		row := func(v *ir.Value) *ir.Value {
			return b.Op("", "Slice", []*ir.Value{v, b.Ints(int64(i)), b.Ints(int64(i + 1)), b.Ints(2)})
		}
		return b.Ops("essm", "SSM", outs, []*ir.Value{n.In(0), disc[0], disc[1], inRe, inIm, ones, row(k[4]), nil,
			row(k[5]), nil, state}, ir.A("direction", direction))
	}
	if later {
		return b.Op("", "Add", []*ir.Value{half(essm.Forward, 0, 1, nil)[0], half(essm.Backward, 1, 1, nil)[0]}), nil,
			b.Err()
	}
	var before *ir.Value
	if s := n.In(13); s != nil {
		rows := l.swap(b.Op("", "Reshape", []*ir.Value{s, b.Ints(0, 2, int64(l.features), int64(l.states))}), 1)
		before = b.Op("", "Concat", []*ir.Value{b.Op("essm", "HeadLinear", []*ir.Value{rows, k[6]}),
			b.Op("essm", "HeadLinear", []*ir.Value{rows, k[7]})}, ir.A("axis", 2))
		before = b.Op("", "Reshape", []*ir.Value{before, b.Ints(0, -1)})
	}
	if n.Out(1) == nil {
		return half(essm.Forward, 0, 1, before)[0], nil, b.Err()
	}
	made := half(essm.Forward, 0, 2, before)
	// x = from_re·Re z + from_im·Im z, for each feature the real parts of its states and then the imaginary ones
	part := func(i int64) *ir.Value {
		all := int64(l.features * kept)
		v := b.Op("", "Slice", []*ir.Value{made[1], b.Ints(i * all), b.Ints((i + 1) * all), b.Ints(1)})
		return b.Op("", "Unsqueeze", []*ir.Value{v, b.Ints(1)})
	}
	x := b.Op("", "Add", []*ir.Value{b.Op("essm", "HeadLinear", []*ir.Value{part(0), k[8]}),
		b.Op("essm", "HeadLinear", []*ir.Value{part(1), k[9]})})
	state = l.swap(b.Op("", "Reshape", []*ir.Value{x, b.Ints(0, int64(l.features), 2, int64(l.states))}), 0)
	return made[0], state, b.Err()
}

// wholeStates is the number to a multiple of which an increased number of states is rounded up. The additional
// states have λ = -1 and are ignored by B and C, like the states with which Diagonalize pads heads. Kernels process
// states by vectors, and a few more cost less than a remainder.
const wholeStates = 8

// widened returns t with the axis widened to size, and fill in the new elements.
func widened(t *tensor.Tensor, axis, size int, fill float64) *tensor.Tensor {
	shape := slices.Clone(t.Shape())
	if shape[axis] == size {
		return t
	}
	inner := 1
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	from, to := shape[axis]*inner, size*inner
	shape[axis] = size
	x := tensor.Data[float64](t)
	var out []float64
	for ; len(x) > 0; x = x[from:] {
		out = append(out, x[:from]...)
		out = append(out, slices.Repeat([]float64{fill}, to-from)...)
	}
	return tensor.FromSlice(out, shape...)
}

// swap exchanges the parts and the features of states (B, ., ., states), and flattens them, with so many axes between.
func (l *lowRank) swap(v *ir.Value, between int) *ir.Value {
	shape := l.b.Ints(0, -1)
	if between > 0 {
		shape = l.b.Ints(0, 1, -1)
	}
	return l.b.Op("", "Reshape", []*ir.Value{l.b.Op("", "Transpose", []*ir.Value{v}, ir.A("perm", []int64{0, 2, 1, 3})),
		shape})
}

// outputs returns the factors of the outputs over the reals, (features, 1 or 2, 2n): y = 2 Re(C z), with C restored
// from the stored values.
func (l *lowRank) outputs(later bool) ([]float64, error) {
	n, count := l.n, 1
	if later {
		count = 2
	}
	var parts [2][]float64 // (count, features, states)
	for i := range count {
		for part := range parts {
			v, err := n.In([]int{8, 11}[i] + part).Const.Float64s()
			if err != nil {
				return nil, err
			}
			parts[part] = append(parts[part], v...)
		}
	}
	args := slices.Clone(n.Inputs[1:6])
	for _, v := range parts {
		args = append(args, l.b.Const("c", tensor.FromSlice(v, count, l.features, l.states)))
	}
	restored := l.b.Ops("essm", "RestoreDPLR", 2, append(args, n.In(10)))
	if err := l.b.Err(); err != nil {
		return nil, err
	}
	c, err := l.c.evalConst(restored[0].Def)
	if err != nil {
		return nil, err
	}
	re, im := tensor.Data[float64](c[0]), tensor.Data[float64](c[1])
	out := make([]float64, 0, 2*len(re))
	for h := range l.features {
		for i := range count {
			at := (i*l.features + h) * l.states
			for _, x := range re[at : at+l.states] {
				out = append(out, 2*x)
			}
			for _, x := range im[at : at+l.states] {
				out = append(out, -2*x)
			}
		}
	}
	return out, nil
}

// stack returns the real parts (features, states) of each feature, followed by its imaginary parts.
func stack(re, im *tensor.Tensor) []float64 {
	n := re.Dim(1)
	a, b := tensor.Data[float64](re), tensor.Data[float64](im)
	out := make([]float64, 0, 2*len(a))
	for lo := 0; lo < len(a); lo += n {
		out = append(append(out, a[lo:lo+n]...), b[lo:lo+n]...)
	}
	return out
}
