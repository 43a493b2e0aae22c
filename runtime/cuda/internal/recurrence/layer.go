package recurrence

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

func init() {
	record.Register(record.Record{Op: "essm.SSM",
		Takes: func(s *lowering.Step) bool { return takesSystem(s) || takesSiso(s) },
		Build: func(b *record.Builder, s *lowering.Step) bool {
			if !takesSystem(s) || convolved(b) && takesSiso(s) {
				return buildSiso(b, s)
			}
			l := newLayer(b, s)
			return l != nil && buildLayer(b, l)
		}})
	record.RegisterFusion(10, record.Fusion{Name: "layer", Build: fuseLayer})
}

// takesSystem reports whether kernel.Layer supports a system: one channel, real B and C, as many outputs as inputs,
// no window. Others are computed by their body.
func takesSystem(s *lowering.Step) bool {
	if !fixed(s, 1, 2, 3, 4, 5, 6, 9) || !singles(s, 0) || !s.Absent(7) || !s.Absent(8) ||
		s.Node.Attrs.Int("window", 0) != 0 {
		return false
	}
	in, out := s.ConstShape(5), s.ConstShape(6) // (C, S, n, h) and (C, S, m, n)
	features := in[1] * in[3]
	if in[0] != 1 || out[2] != in[3] || features%4 != 0 || features < 4 || features > kernel.MaxLayerFeatures || in[2] == 0 {
		return false
	}
	return s.Absent(9) || len(s.ConstShape(9)) == 3
}

// layer is a layer under construction: a system, and the steps that join it.
type layer struct {
	parts
	b     *record.Builder
	taken []*lowering.Step
	u     *lowering.Value // input of the layer
	// known are the values of the group that the current stage can express.
	known map[*lowering.Value]scalar.Expr
}

// parts are the parts of a layer that have constant and settled inputs.
type parts struct {
	system *lowering.Step
	norm   *lowering.Step // the system reads scale·u + shift, of an essm.Affine; if nil, u
	stages []stage
}

// stage is a kernel.Stage with the constant and settled values that it reads.
type stage struct {
	product *lowering.Step // essm.Linear, or nil
	element scalar.Expr
	numbers []*tensor.Tensor // one per feature, or one for all
}

// newLayer returns a layer with only its system, or nil if there is no kernel for these shapes.
func newLayer(b *record.Builder, s *lowering.Step) *layer {
	shape := b.Binding.ShapeOf(s, 0)
	if _, ok := stateType(b, at(s.In, 10), at(s.Out, 1)); !ok || !small(shape...) ||
		!small(s.Fixed(1).Len()*shape[1], shape[1]*shape[2]) {
		return nil
	}
	x := scalar.Inputs(3)
	return &layer{b: b, parts: parts{system: s, stages: []stage{{}}}, taken: []*lowering.Step{s}, u: s.In[0],
		known: map[*lowering.Value]scalar.Expr{s.Out[0]: x[0], s.In[0]: x[2]}}
}

// fuseLayer takes a system and the steps after it that treat each step of time separately: products with square
// matrices and elementwise operators, up to the last point where only one sequence is read later. A norm with fixed
// statistics before the system joins it.
func fuseLayer(b *record.Builder, steps []*lowering.Step) []*lowering.Step {
	i := 0
	var before *lowering.Step
	if steps[0].Node.Op.FullName() == "essm.Affine" {
		before = steps[0]
		i = slices.IndexFunc(steps, func(s *lowering.Step) bool {
			return s.Node.Op.FullName() == "essm.SSM" && s.In[0] == before.Out[0]
		})
	}
	if i < 0 || steps[i].Node.Op.FullName() != "essm.SSM" || !takesSystem(steps[i]) ||
		convolved(b) && takesSiso(steps[i]) {
		return nil
	}
	l := newLayer(b, steps[i])
	if l == nil || before != nil && !l.begin(before) {
		return nil
	}
	var best *layer
	if before == nil {
		best = l.closed(l.system.Out[0])
	}
	for _, s := range steps[i+1:] {
		if !l.reads(s) {
			continue
		}
		if !l.add(s) {
			break
		}
		if c := l.closed(s.Out[0]); c != nil {
			best = c
		}
	}
	if best == nil && before != nil {
		best = l.closed(l.system.Out[0])
	}
	if best == nil || len(best.taken) == 1 || !buildLayer(b, best) {
		return nil
	}
	return best.taken
}

// begin lets a norm before the system join the layer.
func (l *layer) begin(s *lowering.Step) bool {
	features := l.b.Binding.ShapeOf(l.system, 0)[2]
	if !fixed(s, 1, 2) || s.Absent(1) || s.Absent(2) || s.Fixed(1).Len() != features || s.Fixed(2).Len() != features ||
		!s.Float32Input(0) {
		return false
	}
	l.norm = s
	l.u, l.taken = s.In[0], []*lowering.Step{s, l.system}
	l.known[l.u] = scalar.Input(2)
	delete(l.known, s.Out[0])
	return l.element(s)
}

// reads reports whether a step reads a result of the layer.
func (l *layer) reads(s *lowering.Step) bool {
	return slices.ContainsFunc(append(slices.Clone(s.In), capturedBy(s)...), func(v *lowering.Value) bool {
		return v != nil && slices.ContainsFunc(l.taken, func(t *lowering.Step) bool { return slices.Contains(t.Out, v) })
	})
}

func capturedBy(s *lowering.Step) (out []*lowering.Value) {
	for _, c := range s.Captures {
		out = append(out, c.Outer)
	}
	return out
}

// add lets a step join the layer, if it can.
func (l *layer) add(s *lowering.Step) bool {
	if len(s.Out) != 1 || len(s.Captures) > 0 || !l.sequence(s.Out[0]) {
		return false
	}
	if s.Node.Op.FullName() == "essm.Linear" {
		if !l.product(s) {
			return false
		}
	} else if !l.element(s) {
		return false
	}
	l.taken = append(l.taken, s)
	return true
}

// sequence reports whether a value is float32 and has the shape of u.
func (l *layer) sequence(v *lowering.Value) bool {
	d := l.b.Binding
	return d.IsFloat32(v) && slices.Equal(d.Shape(v), d.ShapeOf(l.system, 0))
}

// product starts a stage with a product.
func (l *layer) product(s *lowering.Step) bool {
	features := l.b.Binding.ShapeOf(l.system, 0)[2]
	e, ok := l.known[s.In[0]]
	if !ok || s.In[0] == l.u || !fixed(s, 1, 2) || !slices.Equal(s.ConstShape(1), []int{features, features}) {
		return false
	}
	last := &l.stages[len(l.stages)-1]
	last.element = e
	l.stages = append(l.stages, stage{product: s})
	x := scalar.Inputs(3)
	l.known = map[*lowering.Value]scalar.Expr{s.Out[0]: x[0], s.In[0]: x[1], l.u: x[2]}
	return true
}

// element adds an elementwise operator to the current stage.
func (l *layer) element(s *lowering.Step) bool {
	e, ok := ops.Element(s.Node)
	if !ok {
		return false
	}
	features := l.b.Binding.ShapeOf(l.system, 0)[2]
	last := &l.stages[len(l.stages)-1]
	args := make([]scalar.Expr, len(s.In))
	for i := range args {
		args[i] = scalar.Const(0)
	}
	for _, i := range e.Reads() {
		v := s.In[i]
		if x, ok := l.known[v]; ok {
			args[i] = x
			continue
		}
		c := s.Fixed(i)
		if c == nil || !fixed(s, i) {
			return false
		}
		switch {
		case c.Len() == 1 && v.Const != nil:
			args[i] = scalar.Const(s.Constant64(i)[0])
		case c.Len() == 1, c.Len() == features && c.Dim(-1) == features:
			n := slices.Index(last.numbers, c)
			if n < 0 {
				n = len(last.numbers)
				last.numbers = append(last.numbers, c)
			}
			args[i] = scalar.Input(3 + n)
		default:
			return false
		}
	}
	l.known[s.Out[0]] = e.With(args...)
	return true
}

// closed returns the layer up to the value v, or nil if another value of the layer is read elsewhere.
func (l *layer) closed(v *lowering.Value) *layer {
	for _, s := range l.taken {
		for i, x := range s.Out {
			if x == nil || x == v || s == l.system && i == 1 {
				continue
			}
			if !l.b.Binding.Inside(x, l.taken) {
				return nil
			}
		}
	}
	c := *l
	c.taken, c.stages = slices.Clone(l.taken), slices.Clone(l.stages)
	for i := range c.stages {
		c.stages[i].numbers = slices.Clone(c.stages[i].numbers)
	}
	c.stages[len(c.stages)-1].element = l.known[v]
	return &c
}

// buildLayer adds the launches of a layer.
func buildLayer(b *record.Builder, l *layer) bool {
	s, d := l.system, b.Binding
	shape := d.ShapeOf(s, 0)
	first, last := at(s.In, 10), at(s.Out, 1)
	single, _ := stateType(b, first, last)
	f := kernel.LayerForm{Features: shape[2], States: s.Fixed(1).Len(), State32: single}
	f.Forward, f.Backward = directions(s)
	for _, g := range l.stages {
		e := g.element
		if !e.Valid() { // a system without stages
			e = scalar.Input(0)
		}
		f.Stages = append(f.Stages, kernel.Stage{Product: g.product != nil, Element: e, Numbers: len(g.numbers)})
	}
	if slices.ContainsFunc(f.Stages, func(s kernel.Stage) bool { return s.Product }) {
		f.Precision = b.Precision(f.Features, f.Features)
	}
	k := kernel.Layer{LayerForm: f, Batch: shape[0], Length: shape[1]}
	k.U, k.Y = b.Buffer(l.u), b.Buffer(l.taken[len(l.taken)-1].Out[0])
	k.First, k.Last = b.Buffer(first), b.Buffer(last)
	if k.Length == 0 {
		if k.Last != 0 && k.First != 0 {
			b.Copy(k.Last, k.First, b.Bytes(last))
		} else if k.Last != 0 {
			b.Fill(k.Last, 0, b.Bytes(last))
		}
		return true
	}
	p, exponents := l.parts, k.Exponents()
	k.Tables = b.Derived(fmt.Sprint("layer ", len(l.taken)), func() []byte { return kernel.LayerTables(f, p.weights()) }, l.taken...)
	k.Powers = b.Derived(fmt.Sprint("layer powers ", exponents), func() []byte {
		a, weights := p.inputs()
		return kernel.LayerPowers(a, weights, exponents)
	}, l.system)
	k.Scratch, k.Counts = b.Scratch(k.ScratchBytes()), b.Zeros(k.CountBytes())
	if takesSiso(s) {
		scanned(b, alone)
	} else {
		scanned(b, systems)
	}
	for _, c := range k.Calls() {
		b.Launch(c)
	}
	return true
}

// inputs returns the logarithms of the eigenvalues, and the weights of inputs.
func (l *parts) inputs() (a, weights []complex128) {
	s := l.system
	return pairs(numbers(s, 1), numbers(s, 2)), pairs(numbers(s, 3), numbers(s, 4))
}

// weights returns the numbers of the layer, with a norm before the system folded into it.
func (l *parts) weights() kernel.LayerWeights {
	s := l.system
	in := s.ConstShape(5)
	heads, n, h := in[1], in[2], in[3]
	features, states := heads*h, heads*n
	w := kernel.LayerWeights{Heads: heads, B: make([]float64, states*features), C: make([]float64, states*features), D: make([]float64, features),
		DOffset: make([]float64, features)}
	w.A, w.Weights = l.inputs()
	b, c := numbers(s, 5), numbers(s, 6)
	for i := range heads {
		for j := range n {
			for q := range h {
				w.B[(i*n+j)*features+i*h+q] = b[(i*n+j)*h+q]
				w.C[(i*h+q)*states+i*n+j] = c[(i*h+q)*n+j]
			}
		}
	}
	if !s.Absent(9) {
		copy(w.D, numbers(s, 9))
	}
	if l.norm != nil {
		scale, shift := numbers(l.norm, 1), numbers(l.norm, 2)
		w.Offset = make([]float64, states)
		for j := range states {
			for q := range features {
				x := &w.B[j*features+q]
				w.Offset[j] += *x * shift[q]
				*x *= scale[q]
			}
		}
		for q := range features {
			w.DOffset[q] = w.D[q] * shift[q]
			w.D[q] *= scale[q]
		}
	}
	for _, g := range l.stages {
		var product, bias, more []float64
		if g.product != nil {
			product, bias = numbers(g.product, 1), make([]float64, features)
			if !g.product.Absent(2) {
				copy(bias, numbers(g.product, 2))
			}
		}
		for _, t := range g.numbers {
			x, _ := t.Float64s()
			if len(x) == 1 {
				x = slices.Repeat(x, features)
			}
			more = append(more, x...)
		}
		w.Products, w.Bias, w.Numbers = append(w.Products, product), append(w.Bias, bias), append(w.Numbers, more)
	}
	return w
}
