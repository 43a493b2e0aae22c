package graphfuzz

import (
	"slices"
	"strings"
	"sync"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/opstest"
	"github.com/essmc/essmc/ops/opstest/samples"
)

// allSamples are the samples of every operator, made once and in the order of the registry, so that they are the
// same in every process.
var allSamples = sync.OnceValue(func() map[*ir.Op][]opstest.Sample {
	m := map[*ir.Op][]opstest.Sample{}
	for _, op := range ops.Default.All() {
		m[op] = samples.Of(op)
	}
	return m
})

// operatorNames lists the operators of the registry, each once.
var operatorNames = sync.OnceValue(func() [][2]string {
	var names [][2]string
	for _, op := range ops.Default.All() {
		if n := [2]string{op.Domain, op.Name}; !slices.Contains(names, n) && !op.Random {
			names = append(names, n)
		}
	}
	return names
})

// newest returns the newest version of a domain.
func newest(domain string) int {
	v := 1
	for _, op := range ops.Default.All() {
		if op.Domain == domain {
			v = max(v, op.Since)
		}
	}
	return v
}

// apply adds a node of an operator, and what it needs, in one of the possible ways. It reports whether it did.
func (g *generator) apply(domain, name string) (done bool) {
	op := ops.Default.Resolve(domain, name, g.opsets[domain])
	if op == nil || op.Random {
		return false
	}
	if g.one(12) && g.twin() {
		return true
	}
	if domain == "" && slices.Contains(products, name) {
		defer func() {
			if done {
				g.behind()
			}
		}()
	}
	key := strings.TrimPrefix(domain+"."+name, ".")
	if r := recipes[key]; r != nil && g.IntN(4) > 0 {
		return r(g, op)
	}
	if s := allSamples()[op]; len(s) > 0 && g.IntN(2) == 0 {
		return g.sample(op, s[g.IntN(len(s))])
	}
	return g.generic(op)
}

// products are operators behind which backends take elementwise ones into the same kernel.
var products = []string{"Conv", "ConvTranspose", "MatMul", "Gemm", "AveragePool"}

// behind applies some elementwise operators to the last value, with constants as either operand.
func (g *generator) behind() {
	for range g.IntN(4) {
		x := g.pool[len(g.pool)-1]
		if x.elem() != tensor.Float32 || x.v.Def == nil || len(x.shape()) < 2 {
			return
		}
		channels := make([]int, len(x.shape())-1)
		for i := range channels {
			channels[i] = 1
		}
		channels[0] = x.shape()[1]
		in := []*value{x, g.f32(1, pick(g.Source, []int{}, []int{1}, channels, channels[1:])...)}
		if g.one(3) { // a number that is known when shapes are bound
			if n := g.op("Size", []*value{x}); n != nil {
				in[1] = g.op("Cast", []*value{n}, ir.A("to", int64(tensor.Float32)))
			}
		}
		if in[1] == nil {
			return
		}
		if g.IntN(2) == 0 {
			slices.Reverse(in)
		}
		g.op(pick(g.Source, "Sub", "Div", "Add", "Mul", "Max", "Sub", "Div"), in)
	}
}

// sample applies an operator as a sample does. Inputs may be replaced by values of the same type and shape.
func (g *generator) sample(op *ir.Op, s opstest.Sample) bool {
	var in []*value
	for i, d := range s.In {
		x, isTensor := d.(*tensor.Tensor)
		switch {
		case d == nil:
			in = append(in, nil)
		case isTensor && slices.Contains(s.Consts, i):
			in = append(in, g.constant(x))
		case isTensor:
			fit := g.existing(func(v *value) bool {
				return v.elem() == x.DType() && slices.Equal(v.shape(), x.Shape())
			})
			switch {
			case fit != nil && g.IntN(3) > 0:
				in = append(in, fit)
			case g.one(3):
				in = append(in, g.constant(x))
			default:
				dims := g.dims(x.Shape())
				if slices.Contains(s.Rigid, i) {
					dims = ir.Of(x).Shape
				}
				in = append(in, g.newInput(x.DType(), dims, x.Shape(), fill{given: x}))
			}
		default:
			if o, ok := d.(*tensor.Optional); ok && o.Value == nil {
				return false
			}
			in = append(in, g.newDatum(d, opstest.TypeOf(d, func(_, n int) ir.Dim { return ir.Const(int64(n)) })))
		}
	}
	attrs := slices.Clone(s.Attrs)
	for i, a := range attrs {
		if sub, ok := a.Value.(*ir.Graph); ok {
			if g.opsets[""] != ops.Opsets()[""] {
				return false // its nodes are of the newest version
			}
			if sub = sub.Clone(); op.FullName() != "essm.Block" { // whose symbols are its own
				sub = g.apart(sub)
			}
			attrs[i].Value = sub
		}
	}
	if g.one(4) {
		attrs = g.varied(attrs)
	}
	return g.try(op, in, s.Outs, attrs...) != nil
}

// apart renames the symbols of a sample's subgraph, because the same symbols mean other sizes in the graph around
// it.
func (g *generator) apart(sub *ir.Graph) *ir.Graph {
	prefix := g.name("s")
	var typ func(t ir.Type) ir.Type
	typ = func(t ir.Type) ir.Type {
		switch t := t.(type) {
		case *ir.TensorType:
			c := *t
			c.Shape = slices.Clone(t.Shape)
			for i, d := range c.Shape {
				with := map[string]ir.Dim{}
				for _, name := range d.Symbols() {
					with[name] = ir.Sym(prefix + name)
				}
				c.Shape[i] = d.Subst(with)
			}
			return &c
		case *ir.SequenceType:
			return &ir.SequenceType{Elem: typ(t.Elem)}
		case *ir.OptionalType:
			return &ir.OptionalType{Elem: typ(t.Elem)}
		}
		return t
	}
	var walk func(sub *ir.Graph)
	walk = func(sub *ir.Graph) {
		for _, v := range sub.Inputs {
			v.Type = typ(v.Type)
		}
		for _, n := range sub.Nodes {
			for _, inner := range n.Subgraphs() {
				walk(inner)
			}
			for _, v := range n.Outputs {
				if v != nil {
					v.Type = typ(v.Type)
				}
			}
		}
	}
	walk(sub)
	return sub
}

// generic applies an operator to operands that follow from its signature.
func (g *generator) generic(op *ir.Op) bool {
	u := &binding{elem: map[string]tensor.DType{}, dims: map[string]int{}, broadcast: g.IntN(3) == 0}
	var in []*value
	for i, p := range op.In {
		times := 1
		if p.Variadic {
			times = g.IntN(3)
			if i == 0 {
				times++
			}
		} else if p.Optional && g.IntN(2) == 0 {
			times = 0
			in = append(in, nil)
		}
		for range times {
			x := g.bound(op, p, u)
			if x == nil {
				return false
			}
			in = append(in, x)
		}
	}
	if len(op.Out) == 0 {
		return false
	}
	outs := 1
	for outs < len(op.Out) && g.IntN(2) == 0 {
		outs++
	}
	return g.try(op, in, outs, g.attrs(op, u)...) != nil
}

// binding has the meanings of the type variables and dimensions of a signature.
type binding struct {
	elem      map[string]tensor.DType
	dims      map[string]int
	rest      []int // "...", and parameters of any shape
	set       bool
	broadcast bool
}

// bound returns an operand for a parameter.
func (g *generator) bound(op *ir.Op, p ir.Param, u *binding) *value {
	if p.Elem == "" {
		return nil
	}
	var d tensor.DType
	var allowed []tensor.DType
	if p.Elem[0] < 'A' || p.Elem[0] > 'Z' {
		d, _ = tensor.ParseDType(p.Elem)
		allowed = []tensor.DType{d}
	} else if known, ok := u.elem[p.Elem]; ok {
		d, allowed = known, []tensor.DType{known}
	} else if allowed = op.Elems[p.Elem]; allowed == nil {
		allowed = ops.Floats
	}
	if len(allowed) == 0 {
		return nil
	}
	bind := func(x *value) *value {
		if x == nil {
			return nil
		}
		if u.elem[p.Elem] == tensor.Invalid {
			u.elem[p.Elem] = x.elem()
		}
		return x
	}
	free := p.Dims == nil || len(p.Dims) == 1 && p.Dims[0] == "..."
	if free && !u.set { // the first one sets the shape
		x := g.some(-1, allowed...)
		u.rest, u.set = x.shape(), true
		return bind(x)
	}
	if d == tensor.Invalid {
		d = g.elem(allowed)
	}
	if free {
		shape := slices.Clone(u.rest)
		if p.Dims == nil && (u.broadcast || g.one(4)) {
			shape = g.shrunk(shape)
		}
		return bind(g.operand(d, shape, normal))
	}
	if x := g.existing(func(x *value) bool {
		return slices.Contains(allowed, x.elem()) && u.fits(p, x.shape())
	}); x != nil &&
		g.IntN(4) > 0 {
		u.take(p, x.shape())
		return bind(x)
	}
	shape := []int{}
	for _, w := range p.Dims {
		switch {
		case w == "...":
			if !u.set {
				u.rest, u.set = g.randomShape(g.IntN(3)), true
			}
			shape = append(shape, u.rest...)
		case w == "_":
			shape = append(shape, 1+g.IntN(4))
		default:
			e, err := ir.ParseDim(w)
			if err != nil {
				return nil
			}
			at := map[string]int64{}
			for _, s := range e.Symbols() {
				if _, ok := u.dims[s]; !ok {
					u.dims[s] = g.size()
					if op.Domain == "essm" && s != "B" && s != "L" {
						u.dims[s] = 1 + g.IntN(4)
					}
				}
				at[s] = int64(u.dims[s])
			}
			n, err := e.Eval(at)
			if err != nil || n < 0 || n > 4096 {
				return nil
			}
			shape = append(shape, int(n))
		}
	}
	if elems(shape) > mostElems {
		return nil
	}
	kind := normal
	switch {
	case p.Name == "a_re" || p.Name == "log_dt":
		return bind(g.fresh(d, shape, fill{kind: whole, lo: -3, hi: 0, seed: uint64(g.IntN(99))}))
	case strings.Contains(p.Name, "var") || strings.Contains(p.Name, "scale"):
		kind = positive
	}
	return bind(g.operand(d, shape, kind))
}

// fits reports whether a shape may be that of a parameter, with the dimensions that are set.
func (u *binding) fits(p ir.Param, shape []int) bool {
	if slices.Contains(p.Dims, "...") {
		if k := len(shape) - len(p.Dims) + 1; k < 0 || u.set && k != len(u.rest) {
			return false
		}
	} else if len(shape) != len(p.Dims) {
		return false
	}
	at, seen := 0, map[string]int{}
	for _, w := range p.Dims {
		if w == "..." {
			k := len(shape) - len(p.Dims) + 1
			if u.set && !slices.Equal(u.rest, shape[at:at+k]) {
				return false
			}
			at += k
			continue
		}
		n, known := u.dims[w]
		if was, twice := seen[w]; twice && was != shape[at] {
			return false
		}
		seen[w] = shape[at]
		if known && n != shape[at] || strings.ContainsAny(w, "*+-/(") {
			return false
		}
		if k, err := ir.ParseDim(w); err == nil && w != "_" {
			if c, ok := k.Known(); ok && int(c) != shape[at] {
				return false
			}
		}
		at++
	}
	return true
}

// take sets the dimensions that a shape gives to a parameter.
func (u *binding) take(p ir.Param, shape []int) {
	at := 0
	for _, w := range p.Dims {
		switch w {
		case "...":
			k := len(shape) - len(p.Dims) + 1
			u.rest, u.set = shape[at:at+k], true
			at += k
			continue
		case "_":
		default:
			u.dims[w] = shape[at]
		}
		at++
	}
}

// shrunk returns a shape that broadcasts to shape.
func (g *generator) shrunk(shape []int) []int {
	s := slices.Clone(shape[g.IntN(len(shape)+1):])
	for i := range s {
		if g.one(3) {
			s[i] = 1
		}
	}
	return s
}

// attrs returns attributes for an operator: all required ones, and some others.
func (g *generator) attrs(op *ir.Op, u *binding) []ir.Attr {
	var out []ir.Attr
	for _, a := range op.Attrs {
		if !a.Required && g.IntN(2) == 0 {
			continue
		}
		switch a.Kind {
		case ir.AttrString:
			if len(a.OneOf) > 0 {
				out = append(out, ir.A(a.Name, a.OneOf[g.IntN(len(a.OneOf))]))
			}
		case ir.AttrInt:
			if a.Name == "to" || strings.Contains(a.Name, "dtype") || strings.Contains(a.Name, "datatype") {
				all := tensor.DTypes()
				out = append(out, ir.A(a.Name, int64(all[g.IntN(len(all))])))
				continue
			}
			out = append(out, ir.A(a.Name, int64(g.IntN(5)-1)))
		case ir.AttrFloat:
			out = append(out, ir.A(a.Name, float64(1+g.IntN(12))/8))
		case ir.AttrInts:
			rank := len(u.rest)
			switch a.Name {
			case "perm":
				out = append(out, ir.A(a.Name, g.permutation(rank)))
			case "axes":
				if rank > 0 {
					out = append(out, ir.A(a.Name, []int64{int64(g.IntN(2*rank) - rank)}))
				}
			}
		}
	}
	return out
}

func (g *generator) permutation(n int) []int64 {
	p := make([]int64, n)
	for i := range p {
		j := g.IntN(i + 1)
		p[i], p[j] = p[j], int64(i)
	}
	return p
}
