package raise_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/raise"
)

// agree checks that two graphs give the same answers in float64, to tol relative to the largest.
func agree(t testing.TB, a, b *ir.Graph, tol float64, binds ...map[string]int64) {
	t.Helper()
	if len(binds) == 0 {
		binds = []map[string]int64{{"B": 2}}
	}
	passtest.Same(t, a, b, tol, binds...)
}

// raised runs the raising passes on a copy.
func raised(t testing.TB, g *ir.Graph) *ir.Graph {
	t.Helper()
	g = g.Clone()
	if err := passes.Run(g, raise.Pipeline(), passtest.Verified(t)); err != nil {
		t.Fatal(err)
	}
	return g
}

// count returns the number of nodes of the named operators.
func count(g *ir.Graph, names ...string) int {
	n := 0
	for _, m := range g.Nodes {
		if slices.Contains(names, m.Op.FullName()) {
			n++
		}
	}
	return n
}

// layer is a graph under construction with methods for common forms of operators.
type layer struct{ *ir.Builder }

func newLayer() layer { return layer{ir.NewBuilder("layer", ops.Default, ops.Opsets())} }

func (l layer) op(name string, in ...any) *ir.Value {
	var vs []*ir.Value
	var attrs []ir.Attr
	for _, x := range in {
		switch x := x.(type) {
		case *ir.Value:
			vs = append(vs, x)
		case nil:
			vs = append(vs, nil)
		case ir.Attr:
			attrs = append(attrs, x)
		case int:
			vs = append(vs, l.Ints(int64(x)))
		case []int64:
			vs = append(vs, l.Ints(x...))
		case float64:
			vs = append(vs, l.Const("c", tensor.Scalar(float32(x))))
		}
	}
	domain := ""
	if base, ok := cutPrefix(name, "ms."); ok {
		domain, name = "com.microsoft", base
	}
	return l.Op(domain, name, vs, attrs...)
}

func cutPrefix(s, p string) (string, bool) {
	if len(s) > len(p) && s[:len(p)] == p {
		return s[len(p):], true
	}
	return s, false
}

func (l layer) floats(name string, v []float64, shape ...int) *ir.Value {
	f := make([]float32, len(v))
	for i, x := range v {
		f[i] = float32(x)
	}
	return l.Const(name, tensor.FromSlice(f, shape...))
}

func (l layer) graph(t testing.TB) *ir.Graph {
	t.Helper()
	g, err := l.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// system holds the parameters of a small S4D layer.
type system struct {
	h, n           int
	re, im, cr, ci []float64 // (h, n)
	dt             []float64 // (h)
}

func newSystem(h, n int, seed uint64) system {
	r := rand.New(rand.NewPCG(seed, 1))
	s := system{h: h, n: n}
	for range h {
		s.dt = append(s.dt, math.Exp(math.Log(0.001)+r.Float64()*(math.Log(0.1)-math.Log(0.001))))
		for j := range n {
			s.re = append(s.re, -0.5)
			s.im = append(s.im, math.Pi*float64(j))
			s.cr = append(s.cr, r.NormFloat64())
			s.ci = append(s.ci, r.NormFloat64())
		}
	}
	return s
}

// kernel returns the kernel (h, length).
func (s system) kernel(length int) []float64 {
	out := make([]float64, s.h*length)
	for h := range s.h {
		for j := range s.n {
			i := h*s.n + j
			for t := range length {
				x := s.dt[h] * float64(t)
				out[h*length+t] += 2 * math.Exp(s.re[i]*x) * (s.cr[i]*math.Cos(s.im[i]*x) - s.ci[i]*math.Sin(s.im[i]*x))
			}
		}
	}
	return out
}

func (l layer) scalar(v int) *ir.Value { return l.Const("n", tensor.Scalar(int64(v))) }
