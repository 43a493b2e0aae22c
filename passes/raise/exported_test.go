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

var layerKinds = map[string]func(c *essm.Config){
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

func TestExportedSystems(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(layerKinds)) {
		for _, version := range []int{13, 17, 24} {
			t.Run(fmt.Sprint(name, "/", version), func(t *testing.T) {
				g := lowered(t, version, layerKinds[name])
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

// TestExportedTables changes one number of a table. The layer must not be raised then.
func TestExportedTables(t *testing.T) {
	for _, table := range []string{"taps", "enter", "leave", "power_re"} {
		g := lowered(t, 17, layerKinds["bidirectional"])
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
		if err := passes.Run(h, []*passes.Pass{raise.Exported}, passtest.Verified(t)); err != nil {
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

func TestExportedDense(t *testing.T) {
	for _, direction := range []string{"forward", "backward", "bidirectional"} {
		g := fullMatrix(t, direction, direction == "forward")
		r := raised(t, g)
		if count(r, "essm.DenseSSM") != 1 || count(r, "Scan", "Pad", "Add") != 0 {
			t.Errorf("%s: %d systems\n%s", direction, count(r, "essm.DenseSSM"), strings.Join(passtest.Notes(r), "\n"))
		}
		agree(t, g, r, 1e-6, map[string]int64{"B": 2, "L": 150}, map[string]int64{"B": 1, "L": 3})
	}
	for _, table := range []string{"power", "taps", "enter", "leave"} {
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
		if err := passes.Run(r, []*passes.Pass{raise.Exported}, passtest.Verified(t)); err != nil {
			t.Fatal(err)
		}
		if count(r, "essm.DenseSSM") != 0 || !strings.Contains(strings.Join(passtest.Notes(r), "\n"), "left as it is") {
			t.Errorf("%s changed: %d systems\n%s", table, count(r, "essm.DenseSSM"),
				strings.Join(passtest.Notes(r), "\n"))
		}
	}
}

// TestExportedWindows raises layers with a window, whether their few taps determine the system or not.
func TestExportedWindows(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(layerKinds)) {
		for _, window := range []int{1, 7, 40} {
			t.Run(fmt.Sprint(name, "/", window), func(t *testing.T) {
				g := lowered(t, 17, func(c *essm.Config) {
					layerKinds[name](c)
					c.Layer.MaxKernelLength = window
				})
				r := raised(t, g)
				if k := count(r, "essm.SSM"); k != 2 || count(r, "Conv", "Pad", "Cast", "essm.LongConv") > 0 {
					t.Fatalf("%d systems for 2 layers\n%s", k, strings.Join(passtest.Notes(r), "\n"))
				}
				for _, n := range r.Nodes {
					if n.Op.FullName() == "essm.SSM" && ((n.In(9) == nil) != (name == "no-d") ||
						n.Attrs.Int("window", 0) != int64(window)) {
						t.Errorf("%v: D or its window is not the layer's", n)
					}
				}
				if slices.ContainsFunc(g.Inputs, func(v *ir.Value) bool { return v.Name == models.StateIn }) {
					return // the parts depend on each other by the state; package lower tests such layers
				}
				agree(t, g, r, 1e-6, map[string]int64{"B": 2, "L": 70}, map[string]int64{"B": 1, "L": 3})
			})
		}
	}
}

// TestExportedTaps changes one number that is not a parameter of the system. The layer must not be raised
// then.
func TestExportedTaps(t *testing.T) {
	for name, why := range map[string]string{
		"taps": "it would be",
		"ends": "it would be", // another state after the last step
	} {
		g := lowered(t, 17, func(c *essm.Config) { c.Layer.MaxKernelLength = 7 })
		i := slices.IndexFunc(g.Constants(), func(v *ir.Value) bool { return strings.HasPrefix(v.Name, name) })
		if i < 0 {
			t.Fatalf("no constant %s", name)
		}
		v := g.Constants()[i]
		x := v.Const.Clone()
		if x.DType() == tensor.Float64 {
			tensor.Data[float64](x)[x.Len()/2] += 0.01
		} else {
			tensor.Data[float32](x)[x.Len()/2] += 0.01
		}
		v.Const = x
		if err := passes.Run(g, []*passes.Pass{raise.Exported}, passtest.Verified(t)); err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(passtest.Notes(g), "\n"); count(g, "essm.SSM") != 1 || !strings.Contains(notes, why) {
			t.Errorf("%s: %d systems, expected the one that was not changed\n%s", name, count(g, "essm.SSM"), notes)
		}
	}
}

// TestExportOptions tests the options of exports: versions of operators, and a state that is an output but no input.
func TestExportOptions(t *testing.T) {
	for _, o := range []lower.Options{{Opset: 13}, {Opset: 18}, {Opset: 24}, {Opset: 17, OmitOptional: true},
		{Opset: 17, Functions: true}} {
		g := loweredTo(t, o, func(c *essm.Config) { c.Layer.MaxKernelLength = 7 })
		r := raised(t, g)
		if k := count(r, "essm.SSM"); k != 2 || count(r, "Conv") > 0 {
			t.Errorf("%+v: %d systems for 2 layers\n%s", o, k, strings.Join(passtest.Notes(r), "\n"))
		}
		if o.OmitOptional {
			agree(t, g, r, 1e-6, map[string]int64{"B": 2, "L": 70}, map[string]int64{"B": 1, "L": 3})
		}
	}
}
