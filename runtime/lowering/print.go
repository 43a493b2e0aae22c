package lowering

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// Notes are a backend's additions to the text of a binding. Nil fields add nothing.
type Notes struct {
	// Units are the units of execution, in order. If it is nil, each step is a unit.
	Units []Unit
	// Step returns the implementation of a step, instead of its Impl.
	Step func(s *Step) string
	// Value returns the memory location of a value.
	Value func(v *Value) string
	// Within returns the notes for a program that a step runs: branch k of If, or stage k of Loop and Scan.
	Within func(s *Step, k int) *Notes
}

// Unit is a list of steps that a backend executes together.
type Unit struct {
	// Title is a line about the unit; "" for none.
	Title string
	Steps []*Step
}

// String returns the program as text: a line per step with the types of its results, and subgraphs indented below their
// step. If Step.Impl is a fmt.Stringer, its text follows the step.
func (p *Program) String() string {
	t := newText(p, nil)
	t.program(nil)
	return t.b.String()
}

// String returns the binding as text, like Program.String, with the bound shapes and without dead steps.
func (d *Binding) String() string { return d.Text(nil) }

// Text is String with the notes of a backend, which may be nil. Lifetimes of values are in units: "until 3" is the last
// unit that reads a value.
func (d *Binding) Text(n *Notes) string {
	t := newText(d.Program, d)
	t.program(n)
	return t.b.String()
}

// text writes one program, and those within it.
type text struct {
	b      strings.Builder
	p      *Program
	d      *Binding // nil if shapes are not bound
	indent string
	names  map[*Value]string
	taken  map[string]int
}

func newText(p *Program, d *Binding) *text {
	return &text{p: p, d: d, names: map[*Value]string{}, taken: map[string]int{}}
}

func (t *text) line(format string, args ...any) {
	t.b.WriteString(t.indent + strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// name returns the name of a value in the graph, with a number if several values have the name.
func (t *text) name(v *Value) string {
	if s, ok := t.names[v]; ok {
		return s
	}
	s := v.Name
	if s == "" {
		s = "_"
	}
	for t.taken[s]++; t.taken[s] > 1; t.taken[s]++ { // "x.2" may itself be a name
		s = fmt.Sprintf("%s.%d", s, t.taken[s])
	}
	t.names[v] = s
	return s
}

// typ returns the type of a value, as far as it is known.
func (t *text) typ(v *Value) string {
	if t.d != nil && t.d.Shape(v) != nil {
		return TypeOf(t.d.DType(v), t.d.Shape(v)).String()
	}
	switch {
	case v.Const != nil:
		return TypeOf(v.Const.DType(), shapeOf(v.Const)).String()
	case v.Type == nil:
		return "?"
	}
	return v.Type.String()
}

// operand returns an input of a step: a value's name, or a constant.
func (t *text) operand(v *Value) string {
	if v == nil {
		return "–"
	}
	k := v.Const
	if t.d != nil {
		k = t.d.Constant(v)
	}
	if k == nil {
		return t.name(v)
	}
	if s, ok := content(k); ok {
		return s
	}
	return t.name(v) + ": " + t.typ(v)
}

// content returns the elements of a small constant, or false for other constants.
func content(k *tensor.Tensor) (string, bool) {
	if k.Len() > 4 || k.Rank() > 1 {
		return "", false
	}
	var parts []string
	switch {
	case k.DType() == tensor.String:
		for _, s := range k.Strings() {
			parts = append(parts, fmt.Sprintf("%q", s))
		}
	case k.DType().IsComplex():
		return "", false
	default:
		v, err := k.Float64s()
		if err != nil {
			return "", false
		}
		for _, x := range v {
			parts = append(parts, number(x, k.DType()))
		}
	}
	s := strings.Join(parts, ", ")
	if k.Rank() == 1 {
		s = "{" + s + "}"
	}
	return s, true
}

// number returns an element as text, fractions with four digits.
func number(x float64, dtype tensor.DType) string {
	switch {
	case dtype == tensor.Bool:
		return fmt.Sprint(x != 0)
	case dtype.IsFloat() && x != math.Trunc(x):
		return fmt.Sprintf("%.4g", x)
	}
	return fmt.Sprint(x)
}

// attributes returns the attributes of a step as text, without subgraphs.
func attributes(a ir.Attrs) string {
	var parts []string
	for _, x := range a {
		switch v := x.Value.(type) {
		case *ir.Graph:
		case *tensor.Tensor:
			s, ok := content(v)
			if !ok {
				s = v.String()
			}
			parts = append(parts, x.Name+"="+s)
		case float64:
			parts = append(parts, x.Name+"="+number(v, tensor.Float64))
		default:
			parts = append(parts, fmt.Sprintf("%s=%v", x.Name, v))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " <" + strings.Join(parts, ", ") + ">"
}

func (t *text) program(n *Notes) {
	if n == nil {
		n = &Notes{}
	}
	for _, v := range t.p.Inputs {
		typ := t.typ(v)
		switch {
		case t.d == nil:
		case t.d.Missing(v):
			typ = "absent"
		case t.d.Known(v) != nil:
			if s, ok := content(t.d.Known(v)); ok {
				typ += " = " + s
			}
		}
		t.line("in   %s: %s", t.name(v), typ)
	}
	units, known := n.Units, 0
	for _, s := range t.p.Steps {
		switch {
		case t.d != nil && t.d.Dead(s):
			known++
		case n.Units == nil:
			units = append(units, Unit{Steps: []*Step{s}})
		}
	}
	switch {
	case known == 1:
		t.line("     1 step follows from shapes")
	case known > 1:
		t.line("     %d steps follow from shapes", known)
	}
	var lives []Life
	if t.d != nil {
		order := make([][]*Step, len(units))
		for i, u := range units {
			order[i] = u.Steps
		}
		lives = t.d.Lives(order)
	}
	group, groups := 0, 0
	for i, u := range units {
		if g := u.Steps[0].Group; g != group {
			if group = g; g > 0 {
				groups++
				t.line("group %d", groups)
			} else {
				t.line("no group")
			}
		}
		if u.Title != "" {
			t.line("%-4d %s", i, u.Title)
		}
		for _, s := range u.Steps {
			number := ""
			if u.Title == "" {
				number = fmt.Sprint(i)
			}
			t.step(n, number, s, lives, len(units))
		}
	}
	var outs []string
	for _, v := range t.p.Outputs {
		outs = append(outs, t.operand(v))
	}
	t.line("out  %s", strings.Join(outs, ", "))
}

func (t *text) step(n *Notes, number string, s *Step, lives []Life, end int) {
	var outs, ins []string
	for _, v := range s.Out {
		if v == nil {
			outs = append(outs, "–")
			continue
		}
		out := t.name(v) + ": " + t.typ(v)
		if n.Value != nil {
			if where := n.Value(v); where != "" {
				out += " @" + where
			}
		}
		if lives != nil && lives[v.ID].Last < end && lives[v.ID].Last > lives[v.ID].First {
			out += fmt.Sprintf(" until %d", lives[v.ID].Last)
		}
		outs = append(outs, out)
	}
	in := s.In
	for len(in) > 0 && in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	for _, v := range in {
		ins = append(ins, t.operand(v))
	}
	op := s.Node.Op.FullName()
	if s.Source != nil && s.Source.Op != s.Node.Op {
		op = s.Source.Op.FullName() + ">" + op
	}
	var notes []string
	if n.Step != nil {
		notes = append(notes, n.Step(s))
	} else if impl, ok := s.Impl.(fmt.Stringer); ok {
		notes = append(notes, impl.String())
	} else if s.body == nil && s.branches == nil && s.evaluated {
		notes = append(notes, "evaluated")
	}
	attrs := attributes(s.Node.Attrs)
	if s.Rows != nil {
		notes = append(notes, s.Rows.String())
		if s.Rows.Transposes() { // the node is the one that computes the sequence, or reads it
			op, attrs = "transpose", ""
		}
	}
	if a := s.Alone; a.Global || a.Back > 0 || a.Ahead > 0 {
		notes = append(notes, a.String())
	}
	notes = slices.DeleteFunc(notes, func(s string) bool { return s == "" })
	comment := ""
	if len(notes) > 0 {
		comment = "  # " + strings.Join(notes, "; ")
	}
	t.line("%-4s %s = %s(%s)%s%s", number, strings.Join(outs, ", "), op, strings.Join(ins, ", "), attrs, comment)
	t.within(n, s)
}

// within writes the programs that a step runs.
func (t *text) within(n *Notes, s *Step) {
	sub := func(k int, title string, p *Program, d *Binding, outer []*Value) {
		var notes *Notes
		if n.Within != nil {
			notes = n.Within(s, k)
		}
		x := newText(p, d)
		x.indent = t.indent + "       "
		t.line("     %s", title)
		for i, v := range outer { // captured values keep their names
			in := p.Inputs[len(p.Inputs)-len(outer)+i]
			x.names[in] = t.name(v)
			x.taken[t.name(v)]++
		}
		x.program(notes)
		t.b.WriteString(x.b.String())
	}
	if s.branches != nil {
		for k, name := range []string{"else", "then"} {
			br := s.branches[k]
			if t.d == nil {
				sub(k, name, br.Program, nil, br.In)
			} else if bound := t.d.branches[s]; bound != nil && bound[k] != nil {
				sub(k, name, br.Program, bound[k], br.In)
			}
		}
	}
	if s.body == nil {
		return
	}
	if t.d == nil {
		sub(0, "body", s.body.Program, nil, s.body.Captured)
		return
	}
	l := t.d.bodies[s]
	if l == nil {
		return
	}
	for k, stage := range l.Stages {
		title := "iteration " + fmt.Sprint(k)
		if k == len(l.Stages)-1 {
			if title = fmt.Sprintf("iterations from %d on", k); l.Trip >= 0 {
				title = fmt.Sprintf("iterations %d to %d", k, l.Trip-1)
			}
		}
		sub(k, title, s.body.Program, stage, s.body.Captured)
	}
}
