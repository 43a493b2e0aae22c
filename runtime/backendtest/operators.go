package backendtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// operators runs each operator of the registry by itself, on random inputs of odd sizes.
func (s *suite) operators(t *testing.T) {
	seeds := s.o.Seeds
	if seeds == 0 {
		if seeds = 12; testing.Short() {
			seeds = 4
		}
	}
	var none []string
	for _, op := range ops.Default.All() {
		name := fmt.Sprintf("%s-%d", op.FullName(), op.Since)
		found := 0
		s.sub(t, name, func(t *testing.T) {
			for attempt := 0; attempt < 25*seeds && found < seeds; attempt++ {
				c, err := generate(op, attempt)
				if err != nil {
					t.Error(err)
				}
				if c != nil && s.generated(t, c) {
					found++
				}
			}
		})
		if found == 0 && slices.Contains(s.o.Must, op.FullName()) {
			t.Errorf("%s: the backend accepts no case; the last refusal: %s", name, s.refused[op.FullName()])
		}
		if found == 0 && !op.Random {
			none = append(none, name)
		}
	}
	if len(none) > 0 {
		t.Logf("no random case was found for %d operators, which the samples hold alone: %s", len(none),
			strings.Join(none, " "))
	}
}

// aCase is one operator with inputs, of one or more sizes.
type aCase struct {
	name  string
	graph *ir.Graph
	in    Data
	tol   ir.Tolerance
}

// generated runs a case, and reports whether it has an answer to compare with.
func (s *suite) generated(t *testing.T, c *aCase) bool {
	t.Helper()
	want, refErr := truth(c.graph, c.in)
	if refErr == nil && slices.ContainsFunc(c.graph.Outputs,
		func(v *ir.Value) bool { return v.Elem() == tensor.String }) {
		want, refErr = evaluated(c.graph, c.in) // the text of a number depends on its precision
	}
	if errors.Is(refErr, runtime.ErrInternal) || errors.Is(refErr, ref.ErrResult) {
		t.Errorf("%s: the operator is wrong: %v", c.name, refErr)
		return false
	}
	m, err := runtime.New(c.graph, runtime.Options{Backend: s.make()})
	if s.noteRefusal(t, err) {
		return false
	}
	if err != nil {
		t.Errorf("%s: compile: %v", c.name, err)
		return false
	}
	defer m.Close()
	session := m.NewSession()
	got, err := session.Run(context.Background(), c.in)
	switch {
	case errors.Is(err, runtime.ErrInternal):
		t.Errorf("%s: %v", c.name, err)
		return false
	case refErr != nil && err == nil:
		t.Errorf("%s: must fail: %v", c.name, refErr)
		return false
	case refErr != nil, s.mayRefuse(t, err):
		return false
	case err != nil:
		t.Errorf("%s: %v", c.name, err)
		return false
	}
	c.judge(t, got, want)
	owned(t, c.name, session, c.in, got)
	return true
}

// generator makes one random case.
type generator struct {
	*rand.Rand
	op   *ir.Op
	dims map[string]int
	rest []int // dimensions for "..."
	elem map[string]tensor.DType
	vary map[string]bool // dimension names that are symbols in the graph
}

// generate returns a random application of op, or nil if the operator accepts none in this attempt. Equal attempts
// return equal cases. An error is a panic of the operator's inference.
func generate(op *ir.Op, attempt int) (_ *aCase, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("attempt %d: inference panics: %w", attempt, runtime.Recovered(nil, v))
		}
	}()
	if op.Random || slices.ContainsFunc(op.Attrs,
		func(a ir.AttrSpec) bool { return a.Required && a.Kind == ir.AttrGraph }) {
		return nil, nil
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", op.FullName(), op.Since)
	g := &generator{Rand: rand.New(rand.NewPCG(h.Sum64(), uint64(attempt))), op: op, dims: map[string]int{},
		elem: map[string]tensor.DType{}, vary: map[string]bool{}}
	b := ir.NewBuilder("random", ops.Default, opsetsFor(op))
	g.choose()
	in := Data{}
	vals := make([]*ir.Value, 0, len(op.In))
	for _, p := range op.In {
		times := 1
		if p.Variadic {
			times = g.IntN(3)
			if len(vals) == 0 {
				times++
			}
		}
		for range times {
			v, ok := g.input(b, p, len(vals), in)
			if !ok {
				return nil, nil
			}
			vals = append(vals, v)
		}
	}
	for len(vals) > 0 && vals[len(vals)-1] == nil {
		vals = vals[:len(vals)-1]
	}
	outs := 1
	for outs < len(op.Out) && g.IntN(2) == 0 {
		outs++
	}
	if outs == 0 || len(op.Out) == 0 {
		return nil, nil
	}
	out := b.Apply(op, outs, vals, g.attrs())
	for i, v := range out {
		if v != nil {
			b.Output(fmt.Sprintf("out%d", i), v)
		}
	}
	graph, err := b.Build()
	if err != nil {
		return nil, nil
	}
	return &aCase{fmt.Sprintf("attempt %d: %v %v %s", attempt, graph.Nodes[0], graph.Nodes[0].Attrs, describe(in)),
		graph, in, op.Tol}, nil
}

// opsetsFor returns versions in which op is current.
func opsetsFor(op *ir.Op) map[string]int {
	o := ops.Opsets()
	if o[op.Domain] < op.Since {
		o[op.Domain] = op.Since
	}
	if op.Until != 0 {
		o[op.Domain] = op.Until - 1
	}
	return o
}

// Sizes of dimensions: odd ones, and those near the widths of registers.
var (
	small = []int{1, 2, 3, 4, 5}
	large = []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 67}
)

// choose assigns sizes to the names in the signature.
func (g *generator) choose() {
	for _, p := range g.op.In {
		for _, d := range p.Dims {
			e, err := ir.ParseDim(strings.ReplaceAll(d, "...", "_"))
			if err != nil || d == "..." || d == "_" {
				continue
			}
			for _, name := range e.Symbols() {
				g.dims[name] = small[g.IntN(len(small))]
				if name == "L" || name == "N" || name == "K" {
					g.dims[name] = large[g.IntN(len(large))]
				}
				g.vary[name] = g.IntN(3) > 0
			}
		}
	}
	g.rest = make([]int, g.IntN(4))
	for i := range g.rest {
		if g.rest[i] = small[g.IntN(len(small))]; g.IntN(20) == 0 {
			g.rest[i] = 0
		}
	}
	if g.op.Domain != "essm" {
		return
	}
	// Conditions of the state-space operators on their sizes that the signature does not state (docs/math.md,
	// Notation): features are head-major, and only batch and time vary.
	for name := range g.vary {
		g.vary[name] = g.vary[name] && (name == "B" || name == "L")
	}
	system := g.dims["C"] * g.dims["S"] * g.dims["n"]
	for name, size := range map[string]int{"H": g.dims["S"] * g.dims["h"], "N": system, "Z": 2 * system} {
		if _, ok := g.dims[name]; ok && size > 0 {
			g.dims[name] = size
		}
	}
}

// element returns a type for p's element type: mostly float32, sometimes any allowed one.
func (g *generator) element(p ir.Param) (tensor.DType, bool) {
	if p.Elem == "" || p.Elem[0] < 'A' || p.Elem[0] > 'Z' {
		d, err := tensor.ParseDType(p.Elem)
		return d, err == nil
	}
	if d, ok := g.elem[p.Elem]; ok {
		return d, true
	}
	allowed := g.op.Elems[p.Elem]
	if allowed == nil {
		allowed = ops.Floats
	}
	if len(allowed) == 0 {
		return 0, false
	}
	d := allowed[g.IntN(len(allowed))]
	if slices.Contains(allowed, tensor.Float32) && g.IntN(4) > 0 {
		d = tensor.Float32
	}
	g.elem[p.Elem] = d
	return d, true
}

// input makes input i: absent, a constant, or an input of the graph with its datum in data.
func (g *generator) input(b *ir.Builder, p ir.Param, i int, data Data) (*ir.Value, bool) {
	if p.Optional && !p.Variadic && g.IntN(2) == 0 {
		return nil, true
	}
	d, ok := g.element(p)
	if !ok {
		return nil, false
	}
	shape, dims := g.shape(p)
	x := g.fill(d, p.Name, shape)
	name := fmt.Sprintf("in%d", i)
	if i > 0 && g.IntN(2) == 0 {
		return b.Const(name, x), true
	}
	var typ ir.Type = &ir.TensorType{Elem: d, Shape: dims}
	data[name] = x
	if p.Optional && !p.Variadic && g.IntN(2) == 0 {
		typ = &ir.OptionalType{Elem: typ}
		if g.IntN(2) == 0 {
			delete(data, name) // an absent optional
		}
	}
	return b.Input(name, typ), true
}

// shape returns sizes for p, as numbers and as dimensions of the graph.
func (g *generator) shape(p ir.Param) (shape []int, dims ir.Shape) {
	dims = ir.Shape{}
	add := func(n int, d ir.Dim) {
		shape, dims = append(shape, n), append(dims, d)
	}
	want := p.Dims
	switch {
	case g.op.Domain == "essm" && p.Name == "D":
		if want = []string{"C", "S", "m"}; g.IntN(2) == 0 {
			want = append(want, "h")
		}
	case want == nil:
		rest := g.rest
		if len(rest) > 0 && g.IntN(3) == 0 { // to be broadcast
			rest = slices.Clone(rest[g.IntN(len(rest)):])
			rest[g.IntN(len(rest))] = 1
		}
		for _, n := range rest {
			add(n, ir.Const(int64(n)))
		}
		return shape, dims
	}
	for _, w := range want {
		switch w {
		case "...":
			for i, n := range g.rest {
				d := ir.Const(int64(n))
				if g.vary["..."] = i == 0; g.vary["..."] {
					d = ir.Sym("E")
				}
				add(n, d)
			}
			continue
		case "_":
			n := small[g.IntN(len(small))]
			if g.op.Domain == "essm" { // log_dt: one per state or one per head
				n = []int{1, max(g.dims["n"], 1)}[g.IntN(2)]
			}
			add(n, ir.Const(int64(n)))
			continue
		}
		e, err := ir.ParseDim(w)
		if err != nil {
			continue
		}
		bind, sub := map[string]int64{}, map[string]ir.Dim{}
		for _, name := range e.Symbols() {
			bind[name] = int64(g.dims[name])
			if sub[name] = ir.Const(bind[name]); g.vary[name] {
				sub[name] = ir.Sym(name)
			}
		}
		n, err := e.Eval(bind)
		if err != nil || n < 0 {
			n = 1
		}
		add(int(n), e.Subst(sub))
	}
	return shape, dims
}

// fill returns random elements that most operators accept: floats near 1, small integers that serve as indices and
// lengths, and for state-space parameters numbers of a stable system.
func (g *generator) fill(d tensor.DType, param string, shape []int) *tensor.Tensor {
	n, err := tensor.Size(shape)
	if err != nil {
		return tensor.New(d, 0)
	}
	if d == tensor.String {
		v := make([]string, n)
		for i := range v {
			v[i] = []string{"", "a", "B", "1.5", "é"}[g.IntN(5)]
		}
		return tensor.FromStrings(v, shape...)
	}
	v := make([]float64, n)
	for i := range v {
		x := g.NormFloat64()
		switch {
		case param == "lengths":
			x = float64(1 + g.IntN(max(1, g.dims["L"])))
		case d.IsInt():
			x = float64(g.IntN(4))
		case d == tensor.Bool:
			x = float64(g.IntN(2))
		case g.op.Domain == "essm" && param == "a_re": // the real part of λΔ
			x = -0.001 - 0.5*g.Float64()
		case g.op.Domain == "essm" && param == "log_dt":
			x = -1 - 3*g.Float64()
		case g.op.Domain == "essm" && (param == "abar" || param == "a"): // a full matrix of spectral radius below 1
			x *= 0.5 / float64(max(g.dims["n"], 1))
		}
		v[i] = x
	}
	t, err := tensor.FromFloat64s(d, v, shape...)
	if err != nil {
		return tensor.New(d, shape...)
	}
	return t
}

// attrs returns attributes: all required ones, and some others.
func (g *generator) attrs() ir.Attrs {
	var out ir.Attrs
	for _, a := range g.op.Attrs {
		if !a.Required && g.IntN(2) == 0 {
			continue
		}
		switch a.Kind {
		case ir.AttrString:
			if len(a.OneOf) > 0 {
				out = out.With(a.Name, a.OneOf[g.IntN(len(a.OneOf))])
			}
		case ir.AttrInt:
			if a.Name == "to" || strings.Contains(a.Name, "dtype") {
				out = out.With(a.Name, int64([]tensor.DType{tensor.Float32, tensor.Int64, tensor.Float64,
					tensor.Bool}[g.IntN(4)]))
				continue
			}
			out = out.With(a.Name, int64(g.IntN(5)-1))
		case ir.AttrFloat:
			out = out.With(a.Name, 0.125+g.Float64())
		case ir.AttrInts:
			switch a.Name {
			case "perm":
				perm := make([]int64, len(g.rest))
				for i, k := range g.Perm(len(g.rest)) {
					perm[i] = int64(k)
				}
				out = out.With(a.Name, perm)
			case "axes":
				out = out.With(a.Name, []int64{int64(g.IntN(3))})
			}
		case ir.AttrTensor:
			out = out.With(a.Name, g.fill(tensor.Float32, a.Name, []int{g.IntN(3)}))
		}
	}
	return out
}
