package cpu

import (
	"slices"

	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Steps of a region that treat number by number what the one before computed, and are its only reader, become one: numbers go
// through all of them in registers (kernel.Chain), and what lies between is never written.

// linkMaker says what a step does to its input at, as a link of a chain on rows of width numbers; false where it is none. The
// link's X is the input of the step that it reads beside, where it reads one that is no constant.
type linkMaker func(d *binding, s *lowering.Step, at, rows, width int) (kernel.Link, bool)

// links is the table of operators that can be part of a chain.
var links = map[string]linkMaker{
	"essm.Affine":     linkAffine,
	"essm.BatchNorm":  linkBatchNorm,
	"essm.HeadScale":  linkScale,
	"essm.HeadLinear": linkScale,
	"Add":             linkBinary(kernel.LinkAdd, kernel.LinkAdd),
	"Sum":             linkBinary(kernel.LinkAdd, kernel.LinkAdd),
	"Sub":             linkBinary(kernel.LinkSub, kernel.LinkSubFrom),
	"Mul":             linkBinary(kernel.LinkMul, kernel.LinkMul),
	"Div":             linkBinary(kernel.LinkDiv, kernel.LinkDivInto),
	"Max":             linkBinary(kernel.LinkMax, kernel.LinkMax),
	"Min":             linkBinary(kernel.LinkMin, kernel.LinkMin),
	"Pow":             linkPow,
	"Gelu":            linkGelu,
	"LeakyRelu":       linkUnary(kernel.LinkLeakyRelu, attr{"alpha", 0.01}),
	"Swish":           linkUnary(kernel.LinkSwish, attr{"alpha", 1}),
	"HardSigmoid":     linkUnary(kernel.LinkHardSigmoid, attr{"alpha", float64(float32(0.2))}, attr{"beta", 0.5}),
	"Clip":            linkClip,
	"Relu":            linkUnary(kernel.LinkRelu),
	"Sigmoid":         linkUnary(kernel.LinkSigmoid),
	"Tanh":            linkUnary(kernel.LinkTanh),
	"Erf":             linkUnary(kernel.LinkErf),
	"Exp":             linkUnary(kernel.LinkExp),
	"Sqrt":            linkUnary(kernel.LinkSqrt),
	"Abs":             linkUnary(kernel.LinkAbs),
	"Neg":             linkUnary(kernel.LinkNeg),
	"HardSwish":       linkUnary(kernel.LinkHardSwish),
}

// attr is a parameter of an operator, and what it is by default.
type attr struct {
	name  string
	value float64
}

func linkUnary(op kernel.LinkOp, params ...attr) linkMaker {
	return func(_ *binding, s *lowering.Step, at, _, _ int) (kernel.Link, bool) {
		l := kernel.Link{Op: op}
		for _, p := range params {
			l.B = append(l.B, float32(s.Node.Attrs.Float(p.name, p.value)))
		}
		return l, at == 0
	}
}

func linkGelu(_ *binding, s *lowering.Step, _, _, _ int) (kernel.Link, bool) {
	if s.Node.Attrs.Str("approximate", "none") == "tanh" {
		return kernel.Link{Op: kernel.LinkGeluTanh}, true
	}
	return kernel.Link{Op: kernel.LinkGelu}, true
}

func linkClip(_ *binding, s *lowering.Step, at, _, _ int) (kernel.Link, bool) {
	lo, hi, ok := clipBounds(s)
	return kernel.Link{Op: kernel.LinkClip, B: []float32{lo, hi}}, ok && at == 0
}

func linkPow(_ *binding, s *lowering.Step, at, _, width int) (kernel.Link, bool) {
	p := s.Constant(1)
	if at != 0 || len(p) != 1 {
		return kernel.Link{}, false
	}
	switch p[0] {
	case 2:
		return kernel.Link{Op: kernel.LinkSquare}, true
	case 0.5:
		return kernel.Link{Op: kernel.LinkSqrt}, true
	case -1:
		return kernel.Link{Op: kernel.LinkDivInto, X: -1, A: widened([]float32{1}, width)}, true
	}
	return kernel.Link{}, false
}

func linkAffine(_ *binding, s *lowering.Step, at, _, width int) (kernel.Link, bool) {
	return affineLink(s.Constant(1), s.Constant(2), at, width)
}

func linkBatchNorm(_ *binding, s *lowering.Step, at, _, width int) (kernel.Link, bool) {
	scale, shift := batchNormAffine(s)
	return affineLink(scale, shift, at, width)
}

func affineLink(scale, shift []float32, at, width int) (kernel.Link, bool) {
	return kernel.Link{Op: kernel.LinkAffine, X: -1, A: scale, B: shift}, at == 0 && len(scale) == width && len(shift) == width
}

// linkScale is a factor for each feature: of channels that do not share their input, or of heads of one feature.
func linkScale(d *binding, s *lowering.Step, at, _, width int) (kernel.Link, bool) {
	w := s.Constant(1)
	_, f := lowering.Features(d.Shapes[s.In[0].ID])
	rounded := of(s).lowered != nil && of(s).lowered.why == "" // it reads another form of its input
	return kernel.Link{Op: kernel.LinkMul, X: -1, A: w}, at == 0 && !rounded && len(w) == width && f == width
}

// linkBinary is arithmetic of the numbers with another operand: a tensor of the same shape, or a constant with one number per
// feature, or in all.
func linkBinary(left, right kernel.LinkOp) linkMaker {
	return func(d *binding, s *lowering.Step, at, rows, width int) (kernel.Link, bool) {
		if len(s.In) != 2 || s.In[0] == nil || s.In[1] == nil {
			return kernel.Link{}, false
		}
		l := kernel.Link{Op: left, X: 1 - at}
		if at == 1 {
			l.Op = right
		}
		k := s.Constant(l.X)
		switch operandKind(d.Shapes[s.In[l.X].ID], k != nil, rows, width) {
		case full:
			return l, true
		case repeats:
			l.X, l.A = -1, widened(k, width)
			return l, true
		}
		return l, false
	}
}

// chainDraft is a chain that grows.
type chainDraft struct {
	steps []int // of the draft, in order
	links []kernel.Link
	in    []*lowering.Value // operands, the numbers that it starts from first
}

// operand gives the number of an operand.
func (c *chainDraft) operand(v *lowering.Value) int {
	if i := slices.Index(c.in, v); i >= 0 {
		return i
	}
	c.in = append(c.in, v)
	return len(c.in) - 1
}

// take appends a step's link. A constant factor and a constant summand are one link.
func (c *chainDraft) take(i int, s *lowering.Step, l kernel.Link) {
	c.steps = append(c.steps, i)
	if n := len(c.links) - 1; n >= 0 && l.Op == kernel.LinkAdd && l.X < 0 && c.links[n].Op == kernel.LinkMul && c.links[n].X < 0 {
		c.links[n] = kernel.Link{Op: kernel.LinkAffine, X: -1, A: c.links[n].A, B: l.A}
		return
	}
	if !l.Constant() {
		l.X = c.operand(s.In[l.X])
	}
	c.links = append(c.links, l)
}

// fused gives the draft with chains in place of the steps that they are made of. A chain stands where its last step stood.
func (r *draft) fused(d *binding) *draft {
	f := *r
	f.covers = r.steps
	at := map[*lowering.Step]int{}
	for i, s := range r.steps {
		at[s] = i
	}
	chains, taken := map[int]*chainDraft{}, map[int]bool{}
	for i := range r.steps {
		if taken[i] || !r.plain(i) {
			continue
		}
		c := r.chain(d, i, at, taken)
		if c == nil {
			continue
		}
		for _, k := range c.steps {
			taken[k] = true
		}
		chains[slices.Max(c.steps)] = c
	}
	f.steps, f.ops = nil, nil
	for i, s := range r.steps {
		c := chains[i]
		switch {
		case c != nil:
			s, op := c.step(r, d, s)
			f.steps, f.ops = append(f.steps, s), append(f.ops, op)
			for _, k := range c.steps {
				if k != i {
					f.between = append(f.between, r.steps[k].Out[0])
				}
			}
		case !taken[i]:
			if i == r.coreAt {
				f.coreAt = len(f.steps)
			}
			f.steps, f.ops = append(f.steps, s), append(f.ops, r.ops[i])
		}
	}
	f.dropColumns(d)
	return &f
}

// dropColumns leaves out the steps that copy columns which chains read from where they are, and nobody else wants.
func (r *draft) dropColumns(d *binding) {
	read := map[*lowering.Value]bool{}
	for _, s := range r.steps {
		for _, v := range s.In {
			read[v] = true
		}
	}
	n := 0
	for i, s := range r.steps {
		if of(s).columns != nil && !read[s.Out[0]] && d.Inside(s.Out[0], r.covers) {
			r.between = append(r.between, s.Out[0])
			continue
		}
		if i == r.coreAt && r.core != nil {
			r.coreAt = n
		}
		r.steps[n], r.ops[n] = s, r.ops[i]
		n++
	}
	r.steps, r.ops = r.steps[:n], r.ops[:n]
}

// source is where the numbers of v are that a chain reads: in v, or among the columns of another value of the draft.
func (r *draft) source(d *binding, v *lowering.Value) (*lowering.Value, kernel.Operand) {
	for i, s := range r.steps {
		if s.Out[0] == v && of(s).columns != nil && r.plain(i) {
			_, wide := lowering.Features(d.Shapes[s.In[0].ID])
			return s.In[0], kernel.Operand{From: of(s).columns.from, Stride: wide}
		}
	}
	_, width := lowering.Features(d.Shapes[v.ID])
	return v, kernel.Operand{Stride: width}
}

// chain finds the chain that begins with step i; nil where joining gains nothing.
func (r *draft) chain(d *binding, i int, at map[*lowering.Step]int, taken map[int]bool) *chainDraft {
	s := r.steps[i]
	rows, width := lowering.Features(d.Shapes[s.Out[0].ID])
	if rows == 0 || width == 0 {
		return nil
	}
	c := &chainDraft{}
	for _, k := range r.ops[i].operands {
		if l, ok := d.link(s, k, rows, width); ok {
			c.in = append(c.in, s.In[k])
			c.take(i, s, l)
			break
		}
	}
	if len(c.links) == 0 {
		return nil
	}
	for v := s.Out[0]; len(c.links) < kernel.MaxLinks; v = s.Out[0] {
		j, ok := r.reader(d, v, at)
		if !ok || taken[j] || !r.plain(j) {
			break
		}
		s = r.steps[j]
		l, ok := d.link(s, slices.Index(s.In, v), rows, width)
		if !ok {
			break
		}
		if p, k, ok := r.product(d, s, l, at, taken); ok {
			f := r.steps[k]
			c.steps = append(c.steps, k)
			p.X = c.operand(f.In[0])
			c.steps, c.links = append(c.steps, j), append(c.links, p)
			continue
		}
		c.take(j, s, l)
	}
	c.startFromSum()
	single := len(c.steps) == 1
	if single && (c.links[0].Op != kernel.LinkAffine && c.links[0].Op != kernel.LinkMul || !c.links[0].Constant()) {
		return nil
	}
	return c
}

// plain reports whether step i is a row kernel for its operator.
func (r *draft) plain(i int) bool {
	op := r.ops[i]
	return op != nil && !op.flows()
}

// link is what a step does to its input at, which has rows of width numbers as its output has.
func (d *binding) link(s *lowering.Step, at, rows, width int) (kernel.Link, bool) {
	mk := links[s.Node.Op.FullName()]
	if mk == nil || at < 0 || len(s.Out) != 1 {
		return kernel.Link{}, false
	}
	if n, f := lowering.Features(d.Shapes[s.Out[0].ID]); n != rows || f != width {
		return kernel.Link{}, false
	}
	if n, f := lowering.Features(d.Shapes[s.In[at].ID]); n != rows || f != width {
		return kernel.Link{}, false
	}
	return mk(d, s, at, rows, width)
}

// reader is the only step that reads v, where that is one of the draft's and reads it once.
func (r *draft) reader(d *binding, v *lowering.Value, at map[*lowering.Step]int) (int, bool) {
	if len(d.Reads[v.ID]) != 1 || d.Last[v.ID] >= len(d.p.Steps) || d.Given[v] {
		return 0, false
	}
	i, ok := at[d.Reads[v.ID][0]]
	return i, ok
}

// product reports whether link l of step s adds what a step k computes for it alone as a product with constants: then both are
// one link.
func (r *draft) product(d *binding, s *lowering.Step, l kernel.Link, at map[*lowering.Step]int, taken map[int]bool) (p kernel.Link, k int, ok bool) {
	if l.Op != kernel.LinkAdd || l.Constant() {
		return p, 0, false
	}
	v := s.In[l.X]
	for k, f := range r.steps {
		if taken[k] || !r.plain(k) || f.Out[0] != v {
			continue
		}
		if _, alone := r.reader(d, v, at); !alone {
			break
		}
		rows, width := lowering.Features(d.Shapes[v.ID])
		m, ok := d.link(f, 0, rows, width)
		if !ok || m.Op != kernel.LinkMul || m.X >= 0 {
			break
		}
		return kernel.Link{Op: kernel.LinkAddProduct, B: m.A}, k, true
	}
	return p, 0, false
}

// startFromSum lets a chain that begins as x·a + y, a being constant, begin with y.
func (c *chainDraft) startFromSum() {
	if len(c.links) < 2 || c.links[0].Op != kernel.LinkMul || c.links[0].X >= 0 || c.links[1].Op != kernel.LinkAdd || c.links[1].X < 0 {
		return
	}
	y := c.links[1].X
	swap := func(x int) int {
		switch x {
		case 0:
			return y
		case y:
			return 0
		}
		return x
	}
	c.in[0], c.in[y] = c.in[y], c.in[0]
	for i := range c.links {
		if l := &c.links[i]; !l.Constant() {
			l.X = swap(l.X)
		}
	}
	c.links[1] = kernel.Link{Op: kernel.LinkAddProduct, X: swap(0), B: c.links[0].A}
	c.links = c.links[1:]
}

// step is the chain as a step that stands for its last one.
func (c *chainDraft) step(r *draft, d *binding, last *lowering.Step) (*lowering.Step, *rowOp) {
	s := &lowering.Step{Node: last.Node, Source: last.Source, Group: last.Group, Out: last.Out}
	_, width := lowering.Features(d.Shapes[last.Out[0].ID])
	op, operands := &rowOp{}, []kernel.Operand(nil)
	for i, v := range c.in {
		x, o := r.source(d, v)
		s.In, operands = append(s.In, x), append(operands, o)
		op.operands = append(op.operands, i)
		if o == (kernel.Operand{Stride: width}) {
			op.over = append(op.over, i)
		}
	}
	op.run = kernel.NewChain(width, operands, c.links).Run
	return s, op
}
