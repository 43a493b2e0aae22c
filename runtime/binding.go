package runtime

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// place is one dimension of one input, and the number found there.
type place struct {
	input string
	axis  int
	dim   ir.Dim
	found int64
}

// bindData derives the values of the symbols from the inputs' shapes, and checks that all dimensions agree.
func (sg *signature) bindData(steps *ir.EvalCtx, in []tensor.Datum) (_ *Binding, err error) {
	defer Ended(&err)
	b := &Binding{Dims: map[string]int64{}, Inputs: make([]ir.Type, len(in))}
	var places []place
	for i, d := range in {
		steps.Step(500)
		switch d := d.(type) {
		case *tensor.Tensor:
			t := sg.inputs[i].Type.(*ir.TensorType)
			b.Inputs[i] = &ir.TensorType{Elem: t.Elem, Shape: ir.Of(d).Shape}
			for axis, dim := range t.Shape {
				p := place{sg.inputs[i].Name, axis, dim, int64(d.Dim(axis))}
				if want, ok := dim.Known(); ok && want != p.found {
					return nil, p.fail("expected %d, found %d: %s", want, p.found, d)
				}
				if !dim.IsUnknown() {
					places = append(places, p)
				}
			}
		case *tensor.Sequence:
			b.Inputs[i] = sg.inputs[i].Type
		}
	}
	by, err := solve(steps, places, b.Dims)
	if err != nil {
		return nil, err
	}
	return b, sg.checkDims(b.Dims, by)
}

func (p place) fail(format string, args ...any) error {
	return &InputError{Name: p.input, Msg: fmt.Sprintf("dimension %d: ", p.axis) + fmt.Sprintf(format, args...)}
}

// solve derives symbols from places: first plain symbols, then those that a linear expression determines, as long as
// there are any. Then it checks every place whose symbols are known. It returns the place that determined each symbol.
func solve(steps *ir.EvalCtx, places []place, dims map[string]int64) (by map[string]place, err error) {
	by = map[string]place{}
	var composed []place
	for _, p := range places {
		steps.Step(500)
		switch name, plain := p.dim.Symbol(); {
		case !plain:
			composed = append(composed, p)
		default:
			if _, known := dims[name]; !known {
				if p.found < 0 {
					return nil, p.fail("%s, found %d", must(p.dim, name, 1, 0), p.found)
				}
				dims[name], by[name] = p.found, p
			}
		}
	}
	waiting := map[string][]place{} // by the symbols that are not known
	for _, p := range composed {
		for _, name := range p.dim.Symbols() {
			steps.Step(500)
			if _, known := dims[name]; !known {
				waiting[name] = append(waiting[name], p)
			}
		}
	}
	for len(composed) > 0 { // each place again for each of its symbols
		p := composed[0]
		composed = composed[1:]
		steps.Step(2000)
		name, a, c, ok := linear(p.dim, dims)
		if !ok {
			continue
		}
		n := p.found - c
		if n%a != 0 || n/a < 0 {
			return nil, p.fail("%s, found %d", must(p.dim, name, a, c), p.found)
		}
		dims[name], by[name] = n/a, p
		composed = append(composed, waiting[name]...)
		delete(waiting, name)
	}
	for _, p := range places {
		steps.Step(500)
		want, err := p.dim.Eval(dims)
		if err != nil || want == p.found { // err is for a symbol that no input determines
			continue
		}
		var because []string
		for _, s := range p.dim.Symbols() {
			q := by[s]
			because = append(because, fmt.Sprintf("%s is %d by dimension %d of input %q", s, dims[s], q.axis, q.input))
		}
		return nil, p.fail("expected %v = %d, found %d; %s", p.dim, want, p.found, strings.Join(because, ", "))
	}
	return by, nil
}

// linear returns d as a*s + c, where s is its only symbol that is not in dims.
func linear(d ir.Dim, dims map[string]int64) (s string, a, c int64, ok bool) {
	known := map[string]ir.Dim{}
	for _, name := range d.Symbols() {
		if n, ok := dims[name]; ok {
			known[name] = ir.Const(n)
		}
	}
	if len(known) > 0 {
		d = d.Subst(known)
	}
	symbols := d.Symbols()
	if len(symbols) != 1 {
		return "", 0, 0, false
	}
	s = symbols[0]
	c, err0 := d.Eval(map[string]int64{s: 0})
	y, err1 := d.Eval(map[string]int64{s: 1})
	a = y - c
	if err0 != nil || err1 != nil || a == 0 || !d.Equal(ir.Sym(s).Mul(ir.Const(a)).Add(ir.Const(c))) {
		return "", 0, 0, false
	}
	return s, a, c, true
}

// must describes the numbers that the dimension d = a*s+c can be.
func must(d ir.Dim, s string, a, c int64) string {
	switch {
	case a == 2 && c == 0:
		return fmt.Sprintf("must be even: %v", d)
	case a == 1:
		return fmt.Sprintf("must be at least %d: %v", c, d)
	case c == 0:
		return fmt.Sprintf("must be a multiple of %d: %v", a, d)
	}
	return fmt.Sprintf("must be %v for a whole number %s", d, s)
}

// checkDims refuses a sequence without steps, for which models are not defined. A batch may be empty.
func (sg *signature) checkDims(dims map[string]int64, by map[string]place) error {
	const what = "a sequence has at least one step"
	n, ok := dims[sg.time]
	if sg.time == "" || !ok || n > 0 {
		return nil
	}
	p, ok := by[sg.time]
	if !ok {
		return &InputError{Name: sg.time, Msg: "is 0: " + what}
	}
	return p.fail("is 0 for dimension %s: %s", p.dim, what)
}

// bindDims makes the Binding for given symbols, with all optional inputs.
func (sg *signature) bindDims(dims map[string]int64) (*Binding, error) {
	b := &Binding{Dims: maps.Clone(dims), Inputs: make([]ir.Type, len(sg.inputs))}
	if b.Dims == nil {
		b.Dims = map[string]int64{}
	}
	for i, p := range sg.inputs {
		b.Inputs[i] = p.Type
		t, ok := p.Type.(*ir.TensorType)
		if !ok {
			continue
		}
		c := &ir.TensorType{Elem: t.Elem, NoRank: t.NoRank, Shape: make(ir.Shape, len(t.Shape))}
		for axis, d := range t.Shape {
			n, err := d.Eval(dims)
			if err != nil {
				return nil, &InputError{Name: p.Name, Msg: fmt.Sprintf("dimension %d: %v; give a value for it", axis,
					err)}
			}
			if n < 0 {
				return nil, &InputError{Name: p.Name, Msg: fmt.Sprintf("dimension %d: %v is %d", axis, d, n)}
			}
			c.Shape[axis] = ir.Const(n)
		}
		b.Inputs[i] = c
	}
	return b, sg.checkDims(b.Dims, nil)
}

// optional returns an error unless all names are optional inputs.
func (sg *signature) optional(names []string) error {
	for _, name := range names {
		if i, ok := sg.inputIndex[name]; !ok || !sg.inputs[i].Optional {
			return &InputError{Name: name, Msg: "the model has no such optional input"}
		}
	}
	return nil
}

// bindWithout is bindDims without some optional inputs.
func (sg *signature) bindWithout(dims map[string]int64, absent []string) (*Binding, error) {
	if err := sg.optional(absent); err != nil {
		return nil, err
	}
	b, err := sg.bindDims(dims)
	if err != nil {
		return nil, err
	}
	for _, name := range absent {
		b.Inputs[sg.inputIndex[name]] = nil
	}
	return b, nil
}

// bindShape makes the Binding for given symbols, with the named optional inputs.
func (sg *signature) bindShape(dims map[string]int64, optional []string) (*Binding, error) {
	if err := sg.optional(optional); err != nil {
		return nil, err
	}
	b, err := sg.bindDims(dims)
	if err != nil {
		return nil, err
	}
	for i, p := range sg.inputs {
		t, ok := p.Type.(*ir.TensorType)
		switch {
		case p.Optional && !slices.Contains(optional, p.Name):
			b.Inputs[i] = nil
		case ok && t.NoRank:
			return nil, &InputError{Name: p.Name,
				Msg: fmt.Sprintf("any number of dimensions is allowed (%v), so they cannot be bound beforehand", t)}
		}
	}
	return b, nil
}

// String writes the dimensions, sorted by name: "B=4, L=1000". Those beyond the first 32 are only counted.
func (b Binding) String() string {
	const most = 32
	if len(b.Dims) == 0 {
		return "fixed shapes"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(b.Dims)) {
		if len(parts) == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(b.Dims)-most))
			break
		}
		parts = append(parts, fmt.Sprintf("%s=%d", name, b.Dims[name]))
	}
	return strings.Join(parts, ", ")
}
