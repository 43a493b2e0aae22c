package raise_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/passes/raise"
)

// lowered returns a small network in standard operators.
func lowered(t *testing.T, version int, change func(c *essm.Config)) *ir.Graph {
	t.Helper()
	return loweredTo(t, lower.Options{Opset: version}, change)
}

func loweredTo(t *testing.T, o lower.Options, change func(c *essm.Config)) *ir.Graph {
	t.Helper()
	c := essm.Default()
	c.Encoder = essm.Encoder{Type: "linear", DInput: 3}
	c.DModel, c.NLayers, c.Norm, c.Prenorm = 8, 2, "batch", true
	l := &c.Layer
	l.Heads, l.DState, l.ConjSym, l.D, l.Dt, l.PostActivation = 2, 8, true, "diagonal", "per_state", "half_glu1"
	c.Decoder = essm.Decoder{Type: "sequence", Mode: "pool", DOutput: 4}
	change(c)
	w, err := essm.Init(c, essm.InitOptions{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	g, err := models.Build(c, w, models.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := lower.Lower(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var chunkedKinds = map[string]func(c *essm.Config){
	"causal":        func(c *essm.Config) {},
	"bidirectional": func(c *essm.Config) { c.Layer.Bidirectional = true },
	"one-head":      func(c *essm.Config) { c.Layer.Heads = 1 },
	"siso":          func(c *essm.Config) { c.Layer.Heads, c.Layer.DState, c.Layer.Bidirectional = 8, 32, true },
	"scalars":       func(c *essm.Config) { c.Layer.Heads, c.Layer.DState, c.Layer.ConjSym = 8, 8, false },
	"channels":      func(c *essm.Config) { c.Layer.Channels = 2 },
	"channels-siso": func(c *essm.Config) { c.Layer.Channels, c.Layer.Heads, c.Layer.DState = 2, 8, 32 },
	"full-d":        func(c *essm.Config) { c.Layer.D, c.Layer.Bidirectional = "full", true },
	"no-d":          func(c *essm.Config) { c.Layer.D, c.Layer.Bidirectional = "none", true },
}

func TestChunkedRaised(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(chunkedKinds)) {
		for _, version := range []int{13, 17, 24} {
			t.Run(fmt.Sprint(name, "/", version), func(t *testing.T) {
				g := lowered(t, version, chunkedKinds[name])
				r := raised(t, g)
				if k := count(r, "essm.SSM"); k != 2 || count(r, "Scan", "Pad") > 0 {
					t.Fatalf("%d systems for 2 layers\n%s", k, strings.Join(passtest.Notes(r), "\n"))
				}
				for _, n := range r.Nodes {
					if n.Op.FullName() == "essm.SSM" && (n.In(9) == nil) != (name == "no-d") {
						t.Errorf("%v: D is not the layer's", n)
					}
				}
				agree(t, g, r, 1e-6, map[string]int64{"B": 2, "L": 70}, map[string]int64{"B": 1, "L": 3})
			})
		}
	}
}

// TestChunkedLooksAlike changes one number of a table. The layer must not be raised then.
func TestChunkedLooksAlike(t *testing.T) {
	for _, table := range []string{"taps", "enter", "leave", "power_re"} {
		g := lowered(t, 17, chunkedKinds["bidirectional"])
		done := false
		for _, v := range g.Constants() {
			if done || !strings.Contains(v.Name, table) {
				continue
			}
			done = true
			x := v.Const.Clone()
			if x.DType() == tensor.Float64 {
				tensor.Data[float64](x)[0] *= 1.001
			} else {
				tensor.Data[float32](x)[len(tensor.Data[float32](x))/2] *= 1.001
			}
			v.Const = x
		}
		if !done {
			t.Fatalf("no table %s", table)
		}
		h := g.Clone()
		if err := passes.Run(h, []*passes.Pass{raise.Chunked}, passtest.Verified(t)); err != nil {
			t.Fatal(err)
		}
		if k := count(h, "essm.SSM"); k != 1 {
			t.Errorf("%s: %d systems, expected the one that was not changed", table, k)
		}
		if !strings.Contains(strings.Join(passtest.Notes(h), "\n"), "left as it is") {
			t.Errorf("%s: nothing is said of the near miss", table)
		}
	}
}

// fullMatrix returns a layer whose state is mixed by a full matrix with one eigenvector, after a Relu.
func fullMatrix(t *testing.T, direction string, state bool) *ir.Graph {
	t.Helper()
	const s, k, h = 2, 4, 3
	l := newLayer()
	u := l.Input("u", ir.Tensor(tensor.Float32, "B", "L", s*h))
	r := rand.New(rand.NewPCG(3, 4))
	floats := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		return x
	}
	abar, gamma := make([]float64, s*k*k), floats(s*k*k)
	for i := range abar {
		switch row, col := i/k%k, i%k; {
		case row == col:
			abar[i] = 0.9
		case row > col:
			abar[i] = 0.2
		}
	}
	in := []*ir.Value{l.op("Relu", u), l.Const("abar", tensor.FromSlice(abar, 1, s, k, k)),
		l.Const("gamma", tensor.FromSlice(gamma, 1, s, k, k)),
		l.floats("B", floats(s*k*h), 1, s, k, h), l.floats("C", floats(s*h*k), 1, s, h, k),
		l.floats("D", floats(s*h), 1, s, h)}
	outs := 1
	if state {
		in, outs = append(in, l.Input("h0", ir.Tensor(tensor.Float32, "B", s*k))), 2
	}
	out := l.Ops("essm", "DenseSSM", outs, in, ir.A("direction", direction))
	l.Output("y", l.op("Relu", out[0]))
	if state {
		l.Output("h", out[1])
	}
	g, _, err := lower.Lower(l.graph(t), lower.Options{Opset: 17})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestChunkedDense(t *testing.T) {
	for _, direction := range []string{"forward", "backward", "bidirectional"} {
		g := fullMatrix(t, direction, direction == "forward")
		r := raised(t, g)
		if count(r, "essm.DenseSSM") != 1 || count(r, "Scan", "Pad", "Add") != 0 {
			t.Errorf("%s: %d systems\n%s", direction, count(r, "essm.DenseSSM"), strings.Join(passtest.Notes(r), "\n"))
		}
		agree(t, g, r, 1e-6, map[string]int64{"B": 2, "L": 150}, map[string]int64{"B": 1, "L": 3})
	}
	for _, table := range []string{"abar", "taps", "enter", "leave"} {
		g := fullMatrix(t, "forward", false)
		for _, v := range g.Constants() {
			if !strings.HasPrefix(v.Name, table) {
				continue
			}
			x := v.Const.Clone()
			if x.DType() == tensor.Float64 {
				tensor.Data[float64](x)[0] *= 1.001
			} else {
				tensor.Data[float32](x)[len(tensor.Data[float32](x))/2] += 0.01
			}
			v.Const = x
		}
		r := g.Clone()
		if err := passes.Run(r, []*passes.Pass{raise.Chunked}, passtest.Verified(t)); err != nil {
			t.Fatal(err)
		}
		if count(r, "essm.DenseSSM") != 0 || !strings.Contains(strings.Join(passtest.Notes(r), "\n"), "left as it is") {
			t.Errorf("%s changed: %d systems\n%s", table, count(r, "essm.DenseSSM"),
				strings.Join(passtest.Notes(r), "\n"))
		}
	}
}
