package raise

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
)

// exports are the passes that recognize the output of package lower. They precede all others.
var exports = []*passes.Pass{Masked, Chunked, Windowed, Expanded}

// exported is a part of a graph that looks like one system as package lower writes it. The system is read loosely, then
// lowered again, and every operator and constant of the result is compared with the graph.
type exported struct {
	run         *passes.Context
	uses        map[*ir.Value][]ir.Use
	anchor      *ir.Node   // Scan or Conv
	form        lower.Form // lowers the system again
	u, state    *ir.Value  // inputs of the system; state may be nil
	y, stateOut *ir.Value  // outputs of the system, y without D u; stateOut may be nil
}

// headSystem has the numbers of a system with c·s heads of k states, h inputs and m outputs.
type headSystem struct {
	c, s, k, h, m int
	direction     string
	window        int
	a, b          []complex128 // diagonal: (c·s, k)
	abar, gamma   []float64    // full matrices: (c·s, k, k); nil if diagonal
	in            []complex128 // (c·s, k, h)
	out           []complex128 // (c·s, m, k)
}

// exportedPart is an exported part that can read the numbers of its form.
type exportedPart interface {
	part() *exported
	numbers() (s *headSystem, why string) // returns the system, or why it cannot be read
}

func (f *exported) part() *exported { return f }

// raiseExports raises the systems that find recognizes at the graph's nodes. find returns nil for other nodes.
func raiseExports(c *passes.Context, g *ir.Graph, form string,
	find func(*passes.Context, *ir.Graph, *ir.Node) exportedPart) (int, error) {
	changes := 0
	left := nodesOf(g)
	for _, n := range slices.Clone(g.Nodes) {
		c.Check()
		if !left[n] {
			continue // removed with an earlier system
		}
		f := find(c, g, n)
		if f == nil {
			continue
		}
		name := n.String()
		s, why := f.numbers()
		var made *ir.Node
		if why == "" {
			made, why = f.part().raise(g, s)
		}
		if why != "" {
			missed(c, form, n, "%s", why)
			continue
		}
		if err := passes.Finish(g); err != nil {
			return changes, err
		}
		left = nodesOf(g)
		changes++
		c.Note("%s: %s and the operators around it → %s %s, channels × heads × states = %d × %d × %d", form, name,
			made.Op.FullName(), s.direction, s.c, s.s, s.k)
	}
	return changes, nil
}

// inputOf returns an input of the operator that computes v. It returns nil if v is nil or the operator has another
// name.
func inputOf(v *ir.Value, name string, input int) *ir.Value {
	if !isOp(v, name) {
		return nil
	}
	return v.Def.In(input)
}

// back follows v back through the first inputs of operators with the given names.
func back(v *ir.Value, names ...string) *ir.Value {
	for _, name := range names {
		v = inputOf(v, name, 0)
	}
	return v
}

// ahead follows v forward through nodes with the given names. Each must be the only reader with that name.
func (f *exported) ahead(v *ir.Value, names ...string) *ir.Value {
	for _, name := range names {
		if v == nil {
			return nil
		}
		var next *ir.Value
		for _, u := range f.uses[v] {
			if u.Node != nil && u.Node.Op.FullName() == name && u.Node.Out(0) != nil {
				if next != nil && next != u.Node.Out(0) {
					return nil
				}
				next = u.Node.Out(0)
			}
		}
		v = next
	}
	return v
}

// raise replaces the part by a system. If it cannot, it returns why.
func (f *exported) raise(g *ir.Graph, s *headSystem) (*ir.Node, string) {
	n, err := s.node(f)
	if err != nil {
		return nil, err.Error()
	}
	if err := f.afford(s); err != nil {
		return nil, "it is not compared with a system: " + err.Error()
	}
	at := directInput(n.Op)
	y := f.y
	if sum, d := f.direct(s); d != nil { // the layer includes D u
		with := *n
		with.Inputs = slices.Clone(n.Inputs)
		with.Inputs[at] = d
		if why := f.compare(&with, sum); why == "" {
			n.Inputs[at], y = d, sum
		}
	}
	if y == f.y {
		if why := f.compare(n, y); why != "" {
			return nil, why
		}
	}
	b := passes.Edit(g)
	b.Scope(f.anchor.Scope)
	in := slices.Clone(n.Inputs)
	for i, v := range in {
		if v != nil && v.Const != nil {
			in[i] = b.Const(v.Name, v.Const)
		}
	}
	for len(in) > 0 && in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	outs := b.Ops("essm", n.Op.Name, len(n.Outputs), in, n.Attrs...)
	if err := b.Err(); err != nil {
		return nil, err.Error()
	}
	made := outs[0].Def
	if !passes.Replace(g, y, made.Outputs[0]) {
		return nil, fmt.Sprintf("%s cannot be replaced", y.Name)
	}
	if f.stateOut != nil {
		passes.Replace(g, f.stateOut, made.Outputs[1])
	}
	return made, ""
}

// afford spends the approximate work of lowering a system twice, and checks that its tables fit into memory.
func (f *exported) afford(s *headSystem) error {
	b := memory(f.run)
	product := float64(s.h) * float64(s.m)
	if s.abar != nil {
		product += float64(s.k)
	}
	lags := float64(s.c) * float64(s.s) * float64(s.k) * float64(max(f.form.Steps, s.window, 1))
	if err := b.Take(int64(min(8*lags*float64(s.h+s.m), math.MaxInt64/2))); err != nil {
		return err
	}
	work := 4 * lags * (product + float64(s.h+s.m))
	if s.abar != nil {
		work *= float64(s.k)
	}
	return b.Spend(int64(min(work, math.MaxInt64/2)))
}

// compare lowers n and compares the result with the graph. It returns the first difference.
func (f *exported) compare(n *ir.Node, y *ir.Value) string {
	var want *ir.Graph
	var err error
	if e := passes.Apart(f.run.Done(), func() { want, err = f.form.Apply(n) }); e != nil {
		return e.Error()
	}
	if err != nil {
		return err.Error()
	}
	c := comparison{of: map[*ir.Value]*ir.Value{want.Inputs[0]: f.u}, mine: constants(f.run, nil),
		theirs: constants(f.run, nil)}
	if f.state != nil {
		c.of[want.Inputs[1]] = f.state
	}
	if why := c.same(want.Outputs[0], y); why != "" {
		return why
	}
	if f.stateOut != nil {
		return c.same(want.Outputs[1], f.stateOut)
	}
	return ""
}

// direct finds the addition of D u to the system's output, and returns the sum, and D in the operator's form.
func (f *exported) direct(s *headSystem) (sum, d *ir.Value) {
	if uses := f.uses[f.y]; len(uses) != 1 || uses[0].Node == nil || uses[0].Node.Op.FullName() != "Add" {
		return nil, nil
	}
	add := f.uses[f.y][0].Node
	other := add.In(1)
	if other == f.y {
		other = add.In(0)
	}
	for isOp(other, "Reshape") || isOp(other, "Transpose") {
		other = other.Def.In(0)
	}
	full := isOp(other, "MatMul")
	if !full && !isOp(other, "Mul") {
		return nil, nil
	}
	t, err := constant(f.run, other.Def.In(1))
	if err != nil {
		return nil, nil
	}
	x, err := t.Float64s()
	shape := []int{s.c, s.s, s.m}
	if full {
		shape = append(shape, s.h)
	}
	if size, _ := tensor.Size(shape); err != nil || size != len(x) {
		return nil, nil
	}
	if full { // the graph has its matrices transposed
		y := make([]float64, 0, len(x))
		for g := range s.c * s.s {
			for i := range s.m {
				for j := range s.h {
					y = append(y, x[(g*s.h+j)*s.m+i])
				}
			}
		}
		x = y
	}
	v, err := tensor.FromFloat64s(f.u.Elem(), x, shape...)
	if err != nil {
		return nil, nil
	}
	return add.Outputs[0], ir.NewConst("D", v)
}

// node returns the system as a node outside of the graph.
func (s *headSystem) node(f *exported) (*ir.Node, error) {
	attrs := []ir.Attr{ir.A("direction", s.direction)}
	if s.window > 0 {
		attrs = append(attrs, ir.A("window", s.window))
	}
	n := &ir.Node{Op: ops.Default.Resolve("essm", "SSM", 1), Scope: f.anchor.Scope, Inputs: make([]*ir.Value, 11),
		Attrs: ir.NewAttrs(attrs...)}
	if s.abar != nil {
		n.Op, n.Inputs = ops.Default.Resolve("essm", "DenseSSM", 1), n.Inputs[:7]
	}
	n.Inputs[0], n.Inputs[len(n.Inputs)-1] = f.u, f.state
	set := func(at int, name string, elem tensor.DType, x []float64, shape ...int) error {
		t, err := tensor.FromFloat64s(elem, x, shape...)
		if err != nil {
			return err
		}
		n.Inputs[at] = ir.NewConst(name, t)
		return nil
	}
	elem := f.u.Elem()
	var errs [8]error
	if s.abar != nil {
		square := []int{s.c, s.s, s.k, s.k}
		errs = [8]error{set(1, "abar", tensor.Float64, s.abar, square...),
			set(2, "gamma", tensor.Float64, s.gamma, square...),
			set(3, "B", elem, component(s.in, false), s.c, s.s, s.k, s.h),
			set(4, "C", elem, component(s.out, false), s.c, s.s, s.m, s.k)}
	} else {
		state := []int{s.c, s.s, s.k}
		errs = [8]error{set(1, "a_re", tensor.Float64, component(s.a, false), state...),
			set(2, "a_im", tensor.Float64, component(s.a, true), state...),
			set(3, "b_re", tensor.Float64, component(s.b, false), state...),
			set(4, "b_im", tensor.Float64, component(s.b, true), state...),
			set(5, "B_re", elem, component(s.in, false), s.c, s.s, s.k, s.h),
			set(6, "C_re", elem, component(s.out, false), s.c, s.s, s.m, s.k)}
		if im := component(s.in, true); some(im) {
			errs[6] = set(7, "B_im", elem, im, s.c, s.s, s.k, s.h)
		}
		if im := component(s.out, true); some(im) {
			errs[7] = set(8, "C_im", elem, im, s.c, s.s, s.m, s.k)
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	n.Outputs = []*ir.Value{{Name: "y", Def: n}}
	if f.stateOut != nil {
		n.Outputs = append(n.Outputs, &ir.Value{Name: "state_out", Def: n})
	}
	return n, ir.InferNode(n)
}

// complexConstant computes a constant from a real part and an optional imaginary part. If it cannot, it returns why.
func complexConstant(run *passes.Context, parts []*ir.Value) (z []complex128, shape []int, why string) {
	for i, v := range parts {
		x, sh, err := constantFloats(run, v)
		if err != nil {
			return nil, nil, "a matrix of the system is not a constant: " + err.Error()
		}
		if i == 0 {
			z, shape = make([]complex128, len(x)), sh
		}
		if len(x) != len(z) {
			return nil, nil, "real and imaginary parts of a matrix have different sizes"
		}
		for j, r := range x {
			if i == 0 {
				z[j] = complex(r, 0)
			} else {
				z[j] += complex(0, r)
			}
		}
	}
	return z, shape, ""
}

// component returns the real or the imaginary parts of z.
func component(z []complex128, imaginary bool) []float64 {
	x := make([]float64, len(z))
	for i, c := range z {
		x[i] = real(c)
		if imaginary {
			x[i] = imag(c)
		}
	}
	return x
}

func some(x []float64) bool { return slices.ContainsFunc(x, func(v float64) bool { return v != 0 }) }
