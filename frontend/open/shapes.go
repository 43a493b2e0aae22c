package open

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
)

// shape is one of Options.Shapes: the dimensions of an input, in order, or the number for a symbol.
type shape struct {
	name string
	dims []string // numbers, new names of dimensions, or "_" for dimensions that do not change
}

// maxDim bounds a dimension. No machine has memory for more, and products of a few dimensions stay in range.
const maxDim = 1 << 40

// CheckShape returns an error if s cannot be one of Options.Shapes for any model. The form is NAME=DIM,DIM,…
func CheckShape(s string) error {
	_, err := parseShape(s)
	return err
}

// parseShape reads NAME=1,L,64. A name may contain equals signs, dimensions may not.
func parseShape(s string) (shape, error) {
	at := strings.LastIndexByte(s, '=')
	if at <= 0 || at == len(s)-1 {
		return shape{}, fmt.Errorf("expected NAME=DIM,…, as in L=1024 or input=1,L,64; found %q", s)
	}
	sh := shape{s[:at], strings.Split(s[at+1:], ",")}
	for i, d := range sh.dims {
		d = strings.TrimSpace(d)
		sh.dims[i] = d
		if d == "_" {
			continue
		}
		v, err := ir.ParseDim(d)
		n, known := v.Known()
		_, plain := v.Symbol()
		if err != nil || !known && !plain || known && (n < 0 || n > maxDim) {
			return shape{}, fmt.Errorf("%s: dimension %d is %q: expected a number from 0 to %d, a name, or _", s, i, d,
				int64(maxDim))
		}
	}
	return sh, nil
}

// String returns the text that parseShape reads.
func (s shape) String() string { return s.name + "=" + strings.Join(s.dims, ",") }

// shapeError is the error for a shape that does not fit the model.
type shapeError struct {
	shape shape
	err   error
}

func (e *shapeError) Error() string { return e.shape.String() + ": " + e.err.Error() }
func (e *shapeError) Unwrap() error { return e.err }

func (s shape) fail(format string, args ...any) error {
	return &shapeError{s, fmt.Errorf(format, args...)}
}

// shapes are the parsed Options.Shapes.
type shapes []shape

func (m *Model) shapes() (shapes, error) {
	var out shapes
	for _, text := range m.options.Shapes {
		s, err := parseShape(text)
		if err != nil {
			return nil, m.wrong("Shapes", "", err)
		}
		out = append(out, s)
	}
	return out, nil
}

// bind applies the shapes to a graph. It replaces symbols that get a number or another name everywhere, sets unknown
// dimensions of inputs, and infers types again. It returns the numbers by symbol.
func (s shapes) bind(g *ir.Graph) (map[string]int64, error) {
	if len(s) == 0 {
		return nil, nil
	}
	dims, err := s.solve(g)
	if err != nil {
		return nil, err
	}
	with, err := s.symbols(g)
	if err != nil {
		return nil, err
	}
	substitute(g, with, map[*ir.Graph]bool{})
	for _, sh := range s {
		v := g.Input(sh.name)
		if v == nil {
			continue
		}
		var err error
		v.Type = onType(v.Type, func(t *ir.TensorType) *ir.TensorType {
			out := &ir.TensorType{Elem: t.Elem, Shape: slices.Repeat(ir.Shape{ir.Unknown}, len(sh.dims))}
			if !t.NoRank {
				if len(t.Shape) != len(sh.dims) {
					err = sh.fail("input %s has %d dimensions elsewhere, found %d", v.Name, len(t.Shape), len(sh.dims))
					return t
				}
				copy(out.Shape, t.Shape)
			}
			for i, text := range sh.dims {
				if text == "_" {
					continue
				}
				d, _ := ir.ParseDim(text) // valid after parseShape
				if out.Shape[i].IsUnknown() {
					out.Shape[i] = d
				} else if !out.Shape[i].Equal(d) { // stated twice; symbols has checked the other dimensions
					err = sh.fail("dimension %d of input %s is %v elsewhere, found %v", i, v.Name, out.Shape[i], d)
				}
			}
			return out
		})
		if err != nil {
			return nil, err
		}
	}
	infer(g)
	rename(g, with)
	if err := ir.Verify(g); err != nil {
		return nil, err
	}
	return dims, nil
}

// solve returns the numbers for symbols of the graph's inputs.
func (s shapes) solve(g *ir.Graph) (map[string]int64, error) {
	with, err := s.symbols(g)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for name, d := range with {
		if n, ok := d.Known(); ok {
			out[name] = n
		}
	}
	return out, nil
}

// symbols returns the replacement of each symbol of the inputs, and checks all shapes against the inputs.
func (s shapes) symbols(g *ir.Graph) (map[string]ir.Dim, error) {
	with := map[string]ir.Dim{}
	set := func(sh shape, name string, d ir.Dim) error {
		if old, ok := with[name]; ok && !old.Equal(d) {
			return sh.fail("%s is %v elsewhere, found %v", name, old, d)
		}
		with[name] = d
		return nil
	}
	symbols := g.Symbols()
	for _, sh := range s {
		v := g.Input(sh.name)
		switch {
		case v == nil && !slices.Contains(symbols, sh.name):
			return nil, sh.fail("the model has neither an input nor a dimension %s%s", sh.name, known(g, symbols))
		case v == nil && len(sh.dims) != 1:
			return nil, sh.fail("%s is one dimension, expected one number", sh.name)
		case v == nil:
			d, _ := ir.ParseDim(sh.dims[0])
			if _, ok := d.Known(); !ok {
				return nil, sh.fail("expected a number for the dimension %s", sh.name)
			}
			if err := set(sh, sh.name, d); err != nil {
				return nil, err
			}
			continue
		}
		t, ok := v.TensorType()
		if !ok {
			return nil, sh.fail("input %s is %v, which has no dimensions", v.Name, v.Type)
		}
		if t.NoRank {
			continue
		}
		if len(t.Shape) != len(sh.dims) {
			return nil, sh.fail("input %s has %d dimensions, %v, found %d", v.Name, len(t.Shape), t.Shape, len(sh.dims))
		}
		for i, text := range sh.dims {
			if text == "_" || t.Shape[i].IsUnknown() {
				continue
			}
			d, _ := ir.ParseDim(text)
			if name, plain := t.Shape[i].Symbol(); plain {
				if err := set(sh, name, d); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, sh := range s { // dimensions that are not symbols must agree
		v := g.Input(sh.name)
		if v == nil {
			continue
		}
		for i, have := range v.Shape() {
			if i >= len(sh.dims) || sh.dims[i] == "_" || have.IsUnknown() {
				continue
			}
			d, _ := ir.ParseDim(sh.dims[i])
			if got := have.Subst(with); !got.Equal(d) {
				hint := ""
				if syms := got.Symbols(); len(syms) > 0 {
					hint = fmt.Sprintf("; state %s by itself", strings.Join(syms, ", "))
				}
				return nil, sh.fail("dimension %d of input %s is %v, found %v%s", i, v.Name, have, d, hint)
			}
		}
	}
	return with, nil
}

// known lists the names that a shape may have.
func known(g *ir.Graph, symbols []string) string {
	var inputs []string
	for _, v := range g.Inputs {
		inputs = append(inputs, v.Name)
	}
	s := "; inputs: " + cmp.Or(strings.Join(inputs, ", "), "none")
	if len(symbols) > 0 {
		s += "; dimensions: " + strings.Join(symbols, ", ")
	}
	return s
}

// onType applies f to the tensor types in t.
func onType(t ir.Type, f func(*ir.TensorType) *ir.TensorType) ir.Type {
	switch t := t.(type) {
	case *ir.TensorType:
		return f(t)
	case *ir.SequenceType:
		return &ir.SequenceType{Elem: onType(t.Elem, f)}
	case *ir.OptionalType:
		return &ir.OptionalType{Elem: onType(t.Elem, f)}
	}
	return t
}

// substitute replaces symbols in the types of all values, including subgraphs.
func substitute(g *ir.Graph, with map[string]ir.Dim, seen map[*ir.Graph]bool) {
	if seen[g] {
		return
	}
	seen[g] = true
	in := func(v *ir.Value) {
		if v == nil || v.Const != nil {
			return
		}
		v.Type = onType(v.Type, func(t *ir.TensorType) *ir.TensorType {
			out := &ir.TensorType{Elem: t.Elem, NoRank: t.NoRank, Shape: make(ir.Shape, len(t.Shape))}
			for i, d := range t.Shape {
				out.Shape[i] = d.Subst(with)
			}
			return out
		})
	}
	for _, v := range g.Inputs {
		in(v)
	}
	for _, n := range g.Nodes {
		for _, v := range n.Outputs {
			in(v)
		}
		for _, sub := range n.Subgraphs() {
			substitute(sub, with, seen)
		}
	}
}

// infer refines the types of all nodes' outputs by the types of their inputs.
func infer(g *ir.Graph) {
	for _, n := range g.Nodes {
		for _, sub := range n.Subgraphs() {
			infer(sub)
		}
		types, err := ir.Infer(n)
		if err != nil {
			continue // keep its types; running the node reports the error
		}
		for i, v := range n.Outputs {
			if v == nil || i >= len(types) {
				continue
			}
			was, ok := v.Type.(*ir.TensorType)
			now, okNow := types[i].(*ir.TensorType)
			if !ok || !okNow || now.NoRank || !ir.Compatible(was, now) {
				continue
			}
			if was.NoRank {
				v.Type = now
				continue
			}
			t := &ir.TensorType{Elem: was.Elem, Shape: slices.Clone(was.Shape)}
			for k, d := range now.Shape {
				if _, known := d.Known(); known || t.Shape[k].IsUnknown() {
					t.Shape[k] = d
				}
			}
			v.Type = t
		}
	}
}

// rename applies new names to the time and batch symbols in the metadata.
func rename(g *ir.Graph, with map[string]ir.Dim) {
	for _, key := range []string{ir.MetaTime, ir.MetaBatch} {
		d, ok := with[g.Meta[key]]
		if !ok {
			continue
		}
		if name, plain := d.Symbol(); plain {
			g.Meta[key] = name
		} else {
			delete(g.Meta, key)
		}
	}
}
