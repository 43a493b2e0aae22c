package recurrence

import (
	"fmt"
	"slices"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/ir/tensor"
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
			l := newLayer(b, nil, s)
			return l != nil && l.build()
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
	// last has the expressions of the last stage. Its operands are the result that the stage begins with, the value that
	// its product reads, u, and then numbers.
	last    *lowering.Fusion
	product *lowering.Step // of the last stage, or nil
}

// numbered is the index of the first operand of a stage with numbers.
const numbered = 3

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

// newLayer returns a layer with only its system and the norm before it, if that is not nil; nil if there is no kernel
// for these shapes.
func newLayer(b *record.Builder, norm, s *lowering.Step) *layer {
	shape := b.Binding.ShapeOf(s, 0)
	if _, ok := stateType(b, at(s.In, 10), at(s.Out, 1)); !ok || !small(shape...) ||
		!small(s.Fixed(1).Len()*shape[1], shape[1]*shape[2]) {
		return nil
	}
	l := &layer{b: b, parts: parts{system: s, norm: norm}, taken: []*lowering.Step{s}, u: s.In[0]}
	if norm != nil {
		if !fixed(norm, 1, 2) || norm.Absent(1) || norm.Absent(2) || norm.Fixed(1).Len() != shape[2] ||
			norm.Fixed(2).Len() != shape[2] || !norm.Float32Input(0) {
			return nil
		}
		l.taken, l.u = []*lowering.Step{norm, s}, norm.In[0]
	}
	l.begin(s.Out[0], nil)
	if norm != nil && !l.last.Add(norm) {
		return nil
	}
	return l
}

// begin begins a stage with a result and, unless that is nil, the value that its product reads.
func (l *layer) begin(result, read *lowering.Value) {
	d, shape := l.b.Binding, l.b.Binding.ShapeOf(l.system, 0)
	l.last = lowering.NewFusion(d, shape, func(_ scalar.Expr, s *lowering.Step, operands []*lowering.Value) bool {
		return d.IsFloat32(s.Out[0]) && !slices.ContainsFunc(operands[numbered:], func(v *lowering.Value) bool {
			t := v.Fixed()
			return t == nil || !record.Numeric(t) || t.Len() != 1 && (t.Len() != shape[2] || t.Dim(-1) != shape[2])
		})
	}, result, read, l.u)
}

// end ends the last stage with the value that it computes.
func (l *layer) end(v *lowering.Value) {
	g := stage{product: l.product, element: l.last.Of(v)}
	for _, n := range l.last.Operands[numbered:] {
		g.numbers = append(g.numbers, n.Fixed())
	}
	l.stages = append(l.stages, g)
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
	l := newLayer(b, before, steps[i])
	if l == nil {
		return nil
	}
	more := b.Binding.Follow(l.taken, steps[i+1:], len(steps), at(l.system.Out, 1), l.add)
	if len(more) == 0 && (before == nil || !b.Binding.Inside(before.Out[0], l.taken)) {
		return nil
	}
	l = newLayer(b, before, steps[i])
	for _, s := range more {
		l.add(s)
	}
	if !l.build() {
		return nil
	}
	return l.taken
}

// add lets a step join the layer, if it can.
func (l *layer) add(s *lowering.Step) bool {
	if s.Node.Op.FullName() == "essm.Linear" {
		if !l.multiply(s) {
			return false
		}
	} else if !l.last.Add(s) {
		return false
	}
	l.taken = append(l.taken, s)
	return true
}

// multiply starts a stage with a product.
func (l *layer) multiply(s *lowering.Step) bool {
	d, shape := l.b.Binding, l.b.Binding.ShapeOf(l.system, 0)
	if !l.last.Of(s.In[0]).Valid() || s.In[0] == l.u || !fixed(s, 1, 2) || !d.IsFloat32(s.Out[0]) ||
		!slices.Equal(s.ConstShape(1), []int{shape[2], shape[2]}) || !slices.Equal(d.Shape(s.Out[0]), shape) {
		return false
	}
	l.end(s.In[0])
	l.product = s
	l.begin(s.Out[0], s.In[0])
	return true
}

// build adds the launches of the layer, which ends with the result of the step that joined last.
func (l *layer) build() bool {
	b, s, d, y := l.b, l.system, l.b.Binding, l.taken[len(l.taken)-1].Out[0]
	l.end(y)
	shape := d.ShapeOf(s, 0)
	first, last := at(s.In, 10), at(s.Out, 1)
	single, _ := stateType(b, first, last)
	f := kernel.LayerForm{Features: shape[2], States: s.Fixed(1).Len(), State32: single}
	f.Forward, f.Backward = directions(s)
	for _, g := range l.stages {
		f.Stages = append(f.Stages, kernel.Stage{Product: g.product != nil, Element: g.element, Numbers: len(g.numbers)})
	}
	if slices.ContainsFunc(f.Stages, func(s kernel.Stage) bool { return s.Product }) {
		f.Precision = b.Precision(f.Features, f.Features)
	}
	k := kernel.Layer{LayerForm: f, Batch: shape[0], Length: shape[1]}
	k.U, k.Y = b.Buffer(l.u), b.Buffer(y)
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
	b.Launch(k.Calls()...)
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
