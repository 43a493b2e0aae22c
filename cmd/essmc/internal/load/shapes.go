package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
)

// Shape states dimensions: those of an input (one for each, in order), or the number that a symbol stands for.
type Shape struct {
	Name string
	Dims []string // numbers; or names, which an input's dimension takes; or "_", which leaves a dimension as it is
}

// maxDim bounds a dimension: far beyond what any machine holds, and low enough for sizes that are computed from several to
// stay in range for a while.
const maxDim = 1 << 40

// ParseShape reads NAME=1,L,64.
func ParseShape(s string) (Shape, error) {
	name, list, ok := strings.Cut(s, "=")
	if !ok || name == "" || list == "" {
		return Shape{}, fmt.Errorf("expected NAME=DIM,…, as in L=1024 or input=1,L,64; found %q", s)
	}
	sh := Shape{name, strings.Split(list, ",")}
	for i, d := range sh.Dims {
		d = strings.TrimSpace(d)
		sh.Dims[i] = d
		if d == "_" {
			continue
		}
		v, err := ir.ParseDim(d)
		n, known := v.Known()
		_, plain := v.Symbol()
		if err != nil || !known && !plain || known && (n < 0 || n > maxDim) {
			return Shape{}, fmt.Errorf("%s: dimension %d is %q: expected a number from 0 to %d, a name, or _", s, i, d, int64(maxDim))
		}
	}
	return sh, nil
}

// String writes what ParseShape reads.
func (s Shape) String() string { return s.Name + "=" + strings.Join(s.Dims, ",") }

// Shapes are dimensions as the command line states them.
type Shapes []Shape

// Bind puts the dimensions into a graph: symbols that get a number or another name are replaced everywhere, dimensions of
// inputs that nothing was known of get what is stated, and types are inferred anew. It gives the numbers by symbol.
func (s Shapes) Bind(g *ir.Graph) (map[string]int64, error) {
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
		v := g.Input(sh.Name)
		if v == nil {
			continue
		}
		v.Type = onType(v.Type, func(t *ir.TensorType) *ir.TensorType {
			out := &ir.TensorType{Elem: t.Elem, Shape: make(ir.Shape, len(sh.Dims))}
			for i, text := range sh.Dims {
				out.Shape[i] = ir.Unknown
				if !t.NoRank {
					out.Shape[i] = t.Shape[i]
				}
				if out.Shape[i].IsUnknown() && text != "_" {
					out.Shape[i], _ = ir.ParseDim(text) // ParseShape has read it
				}
			}
			return out
		})
	}
	infer(g)
	rename(g, with)
	if err := ir.Verify(g); err != nil {
		return nil, err
	}
	return dims, nil
}

// solve gives the numbers that symbols of the graph's inputs get.
func (s Shapes) solve(g *ir.Graph) (map[string]int64, error) {
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

// symbols finds what each symbol of the inputs becomes, and holds everything that is stated against the inputs.
func (s Shapes) symbols(g *ir.Graph) (map[string]ir.Dim, error) {
	with := map[string]ir.Dim{}
	set := func(sh Shape, name string, d ir.Dim) error {
		if old, ok := with[name]; ok && !old.Equal(d) {
			return fmt.Errorf("--shape %v: %s is %v elsewhere, found %v", sh, name, old, d)
		}
		with[name] = d
		return nil
	}
	symbols := Symbols(g)
	for _, sh := range s {
		v := g.Input(sh.Name)
		switch {
		case v == nil && !slices.Contains(symbols, sh.Name):
			return nil, fmt.Errorf("--shape %v: the model has neither an input nor a dimension %s%s", sh, sh.Name, known(g, symbols))
		case v == nil && len(sh.Dims) != 1:
			return nil, fmt.Errorf("--shape %v: %s is one dimension, expected one number", sh, sh.Name)
		case v == nil:
			d, _ := ir.ParseDim(sh.Dims[0])
			if _, ok := d.Known(); !ok {
				return nil, fmt.Errorf("--shape %v: expected a number for the dimension %s", sh, sh.Name)
			}
			if err := set(sh, sh.Name, d); err != nil {
				return nil, err
			}
			continue
		}
		t, ok := v.TensorType()
		if !ok {
			return nil, fmt.Errorf("--shape %v: input %s is %v, which has no dimensions", sh, v.Name, v.Type)
		}
		if t.NoRank {
			continue
		}
		if len(t.Shape) != len(sh.Dims) {
			return nil, fmt.Errorf("--shape %v: input %s has %d dimensions, %v, found %d", sh, v.Name, len(t.Shape), t.Shape, len(sh.Dims))
		}
		for i, text := range sh.Dims {
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
	for _, sh := range s { // what is no symbol must agree
		v := g.Input(sh.Name)
		if v == nil {
			continue
		}
		for i, have := range v.Shape() {
			if i >= len(sh.Dims) || sh.Dims[i] == "_" || have.IsUnknown() {
				continue
			}
			d, _ := ir.ParseDim(sh.Dims[i])
			if got := have.Subst(with); !got.Equal(d) {
				hint := ""
				if syms := got.Symbols(); len(syms) > 0 {
					hint = fmt.Sprintf("; state %s by itself", strings.Join(syms, ", "))
				}
				return nil, fmt.Errorf("--shape %v: dimension %d of input %s is %v, found %v%s", sh, i, v.Name, have, d, hint)
			}
		}
	}
	return with, nil
}

// known lists what a shape could have named.
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

// Symbols lists the symbols of the dimensions of a graph's inputs, in the order in which they appear.
func Symbols(g *ir.Graph) []string {
	var out []string
	for _, v := range g.Inputs {
		for _, d := range v.Shape() {
			for _, name := range d.Symbols() {
				if !slices.Contains(out, name) {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

// onType applies f to the tensor types within t.
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

// substitute replaces symbols in the types of all values, subgraphs included.
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

// infer refines the types of all nodes' outputs by what follows from their inputs now.
func infer(g *ir.Graph) {
	for _, n := range g.Nodes {
		for _, sub := range n.Subgraphs() {
			infer(sub)
		}
		types, err := ir.Infer(n)
		if err != nil {
			continue // the types that it has stay; running it says what is wrong
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

// rename keeps what the graph says of its time and batch symbols true.
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

// Missing names the symbols of the graph's inputs that dims does not hold, sorted.
func Missing(g *ir.Graph, dims map[string]int64) []string {
	missing := map[string]bool{}
	for _, name := range Symbols(g) {
		if _, ok := dims[name]; !ok {
			missing[name] = true
		}
	}
	return slices.Sorted(maps.Keys(missing))
}
