package recurrence

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/raise/internal/regions"
)

// Selective recognizes recurrences whose coefficients vary with time.
var Selective = &passes.Pass{
	Name: "raise-selective",
	Doc: "A Loop or Scan, or equal steps joined by Concat, with s[t] = f[t]·s[t-1] + v[t] element by element → " +
		"essm.GatedScan; with f = exp(ΔA), v = Δ b x, and the product with c as output, as Mamba is written → " +
		"essm.SelectiveScan.",
	After: []passes.Reason{
		{Pass: "canonicalize", Why: "it reads steps without operators that change nothing"},
		{Pass: "cse", Why: "sequences are told to be equal by their values"},
		{Pass: "raise-unrolled", Why: "a recurrence with constants is a system"},
		{Pass: "raise-loop", Why: "a recurrence with constants is a system"},
	},
	Run: func(c *passes.Context, g *ir.Graph) (int, error) {
		changes := 0
		for _, n := range slices.Clone(g.Nodes) {
			c.Check()
			if name := n.Op.FullName(); name != "Loop" && name != "Scan" && name != "Concat" ||
				!slices.Contains(g.Nodes, n) {
				continue
			}
			if c.Search().Spend(regions.WorkOfWalk(g)) != nil {
				return changes, nil
			}
			w, err := readVarying(c, n, g.Uses())
			if err != nil {
				regions.NoteMiss(c, "recurrence with varying coefficients", n, "%v", err)
			}
			if w == nil || err != nil {
				continue
			}
			b := passes.Edit(g)
			b.Scope(n.Scope)
			name := n.String()
			y := w.emit(b)
			op := w.op()
			if err = b.Err(); err == nil && !passes.Replace(g, w.result.v, y) {
				err = fmt.Errorf("%s cannot be replaced", w.result.v.Name)
			}
			if e := passes.Finish(g); e != nil {
				return changes, e
			}
			if err != nil {
				regions.NoteMiss(c, "recurrence with varying coefficients", n, "%v", err)
				continue
			}
			changes++
			c.Note("recurrence with varying coefficients: %s → %s", name, op)
		}
		return changes, nil
	},
}

// steps returns a sequence with time as axis 1.
func (s along) steps(b *ir.Builder) *ir.Value { return moved(b, s.v, s.time, 1) }

// moved moves an axis.
func moved(b *ir.Builder, v *ir.Value, from, to int) *ir.Value {
	order := make([]int64, 0, len(v.Shape()))
	for i := range v.Shape() {
		if i != from {
			order = append(order, int64(i))
		}
	}
	return regions.Transposed(b, v, slices.Insert(order, to, int64(from)))
}

// op returns the name of the operator that emit adds.
func (w *varying) op() string {
	if w.selective() != nil {
		return "essm.SelectiveScan"
	}
	return "essm.GatedScan"
}

// emit adds the recurrence, and returns its results.
func (w *varying) emit(b *ir.Builder) *ir.Value {
	var y *ir.Value // with time as axis 1
	if s := w.selective(); s != nil {
		in := []*ir.Value{s.x.steps(b), s.delta.steps(b), regions.Typed(b, "A", w.decay.v.Elem(), s.rate, s.heads,
			s.states), s.b.steps(b),
			w.read.steps(b)}
		y = b.Op("essm", "SelectiveScan", in)
	} else {
		f, v := w.decay.steps(b), w.enter.steps(b)
		shape := f.Shape()
		flat := func(v *ir.Value) *ir.Value {
			if len(shape) == 3 {
				return v
			}
			return b.Op("", "Reshape", []*ir.Value{v, b.Ints(0, 0, -1)})
		}
		in := []*ir.Value{flat(f), flat(v)}
		if w.backward {
			in[0], in[1] = regions.Reversed(b, in[0], 1), regions.Reversed(b, in[1], 1)
		}
		if w.initial != nil {
			in = append(in, w.initial)
		}
		if y = b.Op("essm", "GatedScan", in); w.backward {
			y = regions.Reversed(b, y, 1)
		}
		if len(shape) != 3 {
			sizes := []int64{0, 0}
			for _, d := range shape[2:] {
				n, _ := d.Known()
				sizes = append(sizes, n)
			}
			y = b.Op("", "Reshape", []*ir.Value{y, b.Ints(sizes...)})
		}
		if w.read.v != nil {
			column := b.Op("", "Unsqueeze", []*ir.Value{w.read.steps(b), b.Ints(3)})
			y = b.Op("", "Squeeze", []*ir.Value{b.Op("", "MatMul", []*ir.Value{y, column}), b.Ints(3)})
		}
	}
	if b.Err() != nil {
		return y
	}
	return moved(b, y, 1, w.result.time)
}

// mamba is a recurrence with the coefficients of Mamba: decay exp(Δ A), enter Δ b x. Sequences have three axes.
type mamba struct {
	x, delta, b   along
	rate          []float64 // (heads, states)
	heads, states int
}

// selective reads the coefficients as those of Mamba. It returns nil if they are not.
func (w *varying) selective() *mamba {
	shape := w.decay.v.Shape()
	if w.read.v == nil || w.backward || w.initial != nil || len(shape) != 4 || w.decay.time != w.enter.time ||
		w.decay.time == 0 || w.decay.time == 3 {
		return nil
	}
	feature := 3 - w.decay.time // among the axes 1 and 2
	heads, _ := shape[feature].Known()
	states, _ := shape[3].Known()
	m := &mamba{heads: int(heads), states: int(states)}
	exp := whole(w.decay.v)
	if !regions.IsOp(exp, "Exp") {
		return nil
	}
	product := whole(exp.Def.In(0))
	if !regions.IsOp(product, "Mul") {
		return nil
	}
	var delta *ir.Value
	for i := range 2 {
		rate := product.Def.In(i)
		x, at, err := regions.ConstantFloats(w.run, rate)
		if err != nil {
			continue
		}
		if m.rate = broadcastRate(x, at, feature, m.heads, m.states); m.rate != nil {
			delta = whole(product.Def.In(1 - i))
		}
	}
	var ok bool
	if m.delta, ok = boxed(delta, 3, w.decay.time); !ok || !m.delta.v.Shape()[at3(feature, 3)].Equal(shape[feature]) {
		return nil
	}
	for _, v := range factors(w.enter.v, 0) {
		switch {
		case v == delta:
			delta = nil // each factor once
		case m.b.v == nil && isOne(v, feature):
			if m.b, ok = boxed(v, feature, w.decay.time); !ok {
				return nil
			}
		case m.x.v == nil && isOne(v, 3):
			if m.x, ok = boxed(v, 3, w.decay.time); !ok {
				return nil
			}
		default:
			return nil
		}
	}
	if delta != nil || m.b.v == nil || m.x.v == nil || !m.x.v.Shape()[at3(feature, 3)].Equal(shape[feature]) ||
		!m.b.v.Shape()[2].Equal(shape[3]) {
		return nil
	}
	return m
}

// at3 returns the new index of one of four axes after another one is removed.
func at3(axis, gone int) int {
	if axis > gone {
		return axis - 1
	}
	return axis
}

// boxed returns the sequence that becomes v by adding an axis of size 1.
func boxed(v *ir.Value, axis, time int) (along, bool) {
	if v == nil || !regions.IsOp(v, "Unsqueeze") || len(v.Shape()) != 4 || axis == time {
		return along{}, false
	}
	axes, ok := ops.ConstInts(v.Def.In(1))
	if !ok || len(axes) != 1 {
		return along{}, false
	}
	if at, err := ops.Axis(axes[0], 4); err != nil || at != axis {
		return along{}, false
	}
	return along{whole(v.Def.In(0)), at3(time, axis)}, true
}

// isOne reports whether an axis of v has size 1.
func isOne(v *ir.Value, axis int) bool {
	s := v.Shape()
	if len(s) != 4 {
		return false
	}
	n, ok := s[axis].Known()
	return ok && n == 1
}

// factors lists the factors of a product.
func factors(v *ir.Value, depth int) []*ir.Value {
	v = whole(v)
	if depth < 4 && regions.IsOp(v, "Mul") {
		return append(factors(v.Def.In(0), depth+1), factors(v.Def.In(1), depth+1)...)
	}
	return []*ir.Value{v}
}

// broadcastRate returns a constant that is broadcast to (samples, …), with features at axis feature and states
// last, as (heads, states). It returns nil if the constant varies along another axis.
func broadcastRate(x []float64, shape []int, feature, heads, states int) []float64 {
	if len(shape) > 4 {
		return nil
	}
	shape = append(slices.Repeat([]int{1}, 4-len(shape)), shape...)
	for i, n := range shape {
		if n != 1 && (i != feature || n != heads) && (i != 3 || n != states) {
			return nil
		}
	}
	out := make([]float64, heads*states)
	for h := range heads {
		for s := range states {
			out[h*states+s] = x[min(h, shape[feature]-1)*shape[3]+min(s, shape[3]-1)]
		}
	}
	return out
}
