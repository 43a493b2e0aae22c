package cpu

import (
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/runtime/cpu/internal/elementwise"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// An elementwise step of a region that is the only reader of the elementwise step before it is fused with it. Numbers
// go through all fused steps in registers (kernel.Fused), and the values between are never written.

// fusion collects the steps of a fused kernel.
type fusion struct {
	steps []int // indices of the builder's steps, in order
	parts []kernel.FusedStep
	in    []*lowering.Value // operands; the kernel starts from the first
}

// operand returns the index of v in c.in, and adds it if necessary.
func (c *fusion) operand(v *lowering.Value) int {
	if i := slices.Index(c.in, v); i >= 0 {
		return i
	}
	c.in = append(c.in, v)
	return len(c.in) - 1
}

// take adds step i, with its parts in a fused kernel.
func (c *fusion) take(i int, s *lowering.Step, steps []kernel.FusedStep) {
	c.steps = append(c.steps, i)
	for _, l := range steps {
		c.part(s, l)
	}
}

// part adds a part of a step. A constant factor and a constant summand become one part.
func (c *fusion) part(s *lowering.Step, l kernel.FusedStep) {
	if n := len(c.parts) - 1; n >= 0 && l.Op == kernel.FusedAdd && l.X < 0 && c.parts[n].Op == kernel.FusedMul &&
		c.parts[n].X < 0 {
		c.parts[n] = kernel.FusedStep{Op: kernel.FusedAffine, X: -1, A: c.parts[n].A, B: l.A, OfA: c.parts[n].OfA,
			OfB: l.OfA}
		return
	}
	if !l.Constant() {
		l.X = c.operand(s.In[l.X])
	}
	c.parts = append(c.parts, l)
}

// fused returns a builder with fused kernels instead of their steps, each at the position of its last step.
func (r *regionBuilder) fused(d *binding) *regionBuilder {
	f := *r
	f.covers = r.steps
	at := map[*lowering.Step]int{}
	for i, s := range r.steps {
		at[s] = i
	}
	fusions, taken := map[int]*fusion{}, map[int]bool{}
	for i := range r.steps {
		if taken[i] || !r.plain(i) {
			continue
		}
		c := r.fusion(d, i, at, taken)
		if c == nil {
			continue
		}
		for _, k := range c.steps {
			taken[k] = true
		}
		fusions[slices.Max(c.steps)] = c
	}
	f.steps, f.ops = nil, nil
	for i, s := range r.steps {
		c := fusions[i]
		switch {
		case c != nil:
			s, op := c.step(r, d, s, at)
			f.steps, f.ops = append(f.steps, s), append(f.ops, op)
			for _, k := range c.steps {
				if k != i {
					f.between = append(f.between, r.steps[k].Out[0])
				}
			}
		case !taken[i]:
			if i == r.recurrenceAt {
				f.recurrenceAt = len(f.steps)
			}
			f.steps, f.ops = append(f.steps, s), append(f.ops, r.ops[i])
		}
	}
	f.dropColumns(d)
	return &f
}

// dropColumns drops the steps that copy columns, if only fused kernels read them: these read the original value.
func (r *regionBuilder) dropColumns(d *binding) {
	read := map[*lowering.Value]bool{}
	for _, s := range r.steps {
		for _, v := range s.In {
			read[v] = true
		}
	}
	n := 0
	for i, s := range r.steps {
		if record.Of(s).Columns != nil && !read[s.Out[0]] && d.Inside(s.Out[0], r.covers) {
			r.between = append(r.between, s.Out[0])
			continue
		}
		if i == r.recurrenceAt && r.recurrence != nil {
			r.recurrenceAt = n
		}
		r.steps[n], r.ops[n] = s, r.ops[i]
		n++
	}
	r.steps, r.ops = r.steps[:n], r.ops[:n]
}

// source returns the value from which a fused kernel reads v, and how: v itself, or the value of which v is a range of
// columns.
func (r *regionBuilder) source(d *binding, v *lowering.Value,
	at map[*lowering.Step]int) (*lowering.Value, kernel.Operand) {
	s := d.Maker(v)
	if i, here := at[s]; here && record.Of(s).Columns != nil && r.plain(i) {
		_, wide := lowering.Features(d.Shape(s.In[0]))
		return s.In[0], kernel.Operand{From: record.Of(s).Columns.From, Stride: wide}
	}
	_, width := lowering.Features(d.Shape(v))
	return v, kernel.Operand{Stride: width}
}

// fusion returns the fused kernel that starts with step i, or nil if it has no advantage.
func (r *regionBuilder) fusion(d *binding, i int, at map[*lowering.Step]int, taken map[int]bool) *fusion {
	s := r.steps[i]
	rows, width := lowering.Features(d.Shape(s.Out[0]))
	if rows == 0 || width == 0 {
		return nil
	}
	c := &fusion{}
	for _, k := range r.ops[i].Operands {
		if l := d.fusedSteps(s, k, rows, width); len(l) > 0 && len(l) <= kernel.MaxFused {
			c.in = append(c.in, s.In[k])
			c.take(i, s, l)
			break
		}
	}
	if len(c.parts) == 0 {
		return nil
	}
	for v := s.Out[0]; len(c.parts) < kernel.MaxFused; v = s.Out[0] {
		j, ok := at[d.Sole(v)]
		if !ok || taken[j] || !r.plain(j) {
			break
		}
		s = r.steps[j]
		l := d.fusedSteps(s, slices.Index(s.In, v), rows, width)
		if len(l) == 0 || len(c.parts)+len(l) > kernel.MaxFused || len(l) > 1 && again(s, l, v) {
			break
		}
		if p, k, ok := r.product(d, s, l[0], at, taken); ok && len(l) == 1 {
			f := r.steps[k]
			c.steps = append(c.steps, k)
			p.X = c.operand(f.In[0])
			c.steps, c.parts = append(c.steps, j), append(c.parts, p)
			continue
		}
		c.take(j, s, l)
	}
	c.startFromSum()
	single := len(c.steps) == 1
	if single && len(c.parts) == 1 && (c.parts[0].Op != kernel.FusedAffine && c.parts[0].Op != kernel.FusedMul ||
		!c.parts[0].Constant()) {
		return nil
	}
	return c
}

// plain reports whether step i is a row kernel.
func (r *regionBuilder) plain(i int) bool {
	op := r.ops[i]
	return op != nil && !pipelined(op)
}

// again reports whether parts of a step read v, which they cannot if v is computed in the same kernel.
func again(s *lowering.Step, parts []kernel.FusedStep, v *lowering.Value) bool {
	return slices.ContainsFunc(parts, func(l kernel.FusedStep) bool { return !l.Constant() && s.In[l.X] == v })
}

// mostFused bounds the rows of fused kernels, which end between rows.
const mostFused = 1 << 18

// fusedSteps returns the parts of a step in a fused kernel that applies it to its input at. The input and the output
// have rows of width numbers. It returns nil if the step cannot be fused.
func (d *binding) fusedSteps(s *lowering.Step, at, rows, width int) []kernel.FusedStep {
	k := record.Of(s)
	if !k.Fuses() || width > mostFused || !d.rowsOf(s, at, rows, width) {
		return nil
	}
	if k.Element != nil {
		return elementwise.FusedSteps(d.Binding, s, k.Element.Chain(at).Links)
	}
	if l, ok := k.Record.Fused(d.Binding, s, at, rows, width); ok {
		return []kernel.FusedStep{l}
	}
	return nil
}

// rowsOf reports whether a step's input at and its only output have rows of width numbers.
func (d *binding) rowsOf(s *lowering.Step, at, rows, width int) bool {
	if at < 0 || len(s.Out) != 1 {
		return false
	}
	n, f := lowering.Features(d.Shape(s.Out[0]))
	m, g := lowering.Features(d.Shape(s.In[at]))
	return n == rows && f == width && m == rows && g == width
}

// product returns a part for two steps: l adds the result of step k, which nothing else reads and which multiplies by
// constants. ok is false if it does not.
func (r *regionBuilder) product(d *binding, s *lowering.Step, l kernel.FusedStep, at map[*lowering.Step]int,
	taken map[int]bool) (p kernel.FusedStep, k int, ok bool) {
	if l.Op != kernel.FusedAdd || l.Constant() {
		return p, 0, false
	}
	v := s.In[l.X]
	f := d.Maker(v)
	k, ok = at[f]
	if !ok || taken[k] || !r.plain(k) || d.Sole(v) == nil {
		return p, 0, false
	}
	rows, width := lowering.Features(d.Shape(v))
	m := d.fusedSteps(f, 0, rows, width)
	if len(m) != 1 || m[0].Op != kernel.FusedMul || m[0].X >= 0 {
		return p, 0, false
	}
	return kernel.FusedStep{Op: kernel.FusedAddProduct, B: m[0].A, OfB: m[0].OfA}, k, true
}

// startFromSum turns a fused kernel that begins with x·a + y, with a constant a, into one that begins with y.
func (c *fusion) startFromSum() {
	if len(c.parts) < 2 || c.parts[0].Op != kernel.FusedMul || c.parts[0].X >= 0 || c.parts[1].Op != kernel.FusedAdd ||
		c.parts[1].X < 0 {
		return
	}
	y := c.parts[1].X
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
	for i := range c.parts {
		if l := &c.parts[i]; !l.Constant() {
			l.X = swap(l.X)
		}
	}
	c.parts[1] = kernel.FusedStep{Op: kernel.FusedAddProduct, X: swap(0), B: c.parts[0].A, OfB: c.parts[0].OfA}
	c.parts = c.parts[1:]
}

// step returns the fused kernel as a step that replaces its last one.
func (c *fusion) step(r *regionBuilder, d *binding, last *lowering.Step,
	at map[*lowering.Step]int) (*lowering.Step, *record.RowOp) {
	s := &lowering.Step{Node: last.Node, Source: last.Source, Group: last.Group, Out: last.Out}
	_, width := lowering.Features(d.Shape(last.Out[0]))
	op, operands := &record.RowOp{}, []kernel.Operand(nil)
	for i, v := range c.in {
		x, o := r.source(d, v, at)
		s.In, operands = append(s.In, x), append(operands, o)
		op.Operands = append(op.Operands, i)
		if o == (kernel.Operand{Stride: width}) {
			op.Over = append(op.Over, i)
		}
	}
	fused := kernel.NewFused(width, operands, c.parts)
	op.Run = func(_ *ir.EvalCtx, y []float32, x [][]float32, rows int) { fused.Run(y, x, rows) }
	op.Refill = fused.Refill
	return s, op
}
