package lower_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes/lower"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// build returns a network with initial weights.
func build(t testing.TB, c *essm.Config, init essm.InitOptions) *ir.Graph {
	t.Helper()
	w, err := essm.Init(c, init, 1)
	if err != nil {
		t.Fatal(err)
	}
	g, err := models.Build(c, w, models.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// feed returns inputs for a graph that depend on their names and sizes only. Optional inputs are omitted unless wanted.
func feed(t testing.TB, g *ir.Graph, bind map[string]int64, optional bool) map[string]tensor.Datum {
	t.Helper()
	in := map[string]tensor.Datum{}
	for _, p := range g.Inputs {
		_, opt := p.Type.(*ir.OptionalType)
		if opt && !optional {
			continue
		}
		tt, _ := ir.AsTensor(p.Type)
		shape := make([]int, len(tt.Shape))
		for i, d := range tt.Shape {
			n, err := d.Eval(bind)
			if err != nil {
				t.Fatal(err)
			}
			shape[i] = int(n)
		}
		h := fnv.New64()
		h.Write([]byte(p.Name))
		r := rand.New(rand.NewPCG(h.Sum64(), 1))
		x := tensor.New(tt.Elem, shape...)
		for i := range x.Len() {
			switch {
			case p.Name == models.Lengths:
				tensor.Data[int64](x)[i] = 1 + r.Int64N(bind["L"])
			case tt.Elem == tensor.Int64:
				tensor.Data[int64](x)[i] = r.Int64N(5)
			default:
				tensor.Data[float32](x)[i] = float32(r.NormFloat64())
			}
		}
		in[p.Name] = x
	}
	return in
}

// run returns a graph's answers, computed in float64 if wide.
func run(t testing.TB, g *ir.Graph, in map[string]tensor.Datum, wide bool) map[string][]float64 {
	t.Helper()
	o := runtime.Options{Backend: ref.New()}
	if wide {
		o.Precision = tensor.Float64
	}
	m, err := runtime.New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	res, err := m.NewSession().Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float64{}
	for name, d := range res {
		v, err := d.(*tensor.Tensor).Float64s()
		if err != nil {
			t.Fatal(err)
		}
		out[name] = v
	}
	return out
}

// differ returns the largest difference, relative to the largest value.
func differ(t testing.TB, got, want map[string][]float64) float64 {
	t.Helper()
	worst := 0.0
	for name, w := range want {
		g := got[name]
		if len(g) != len(w) {
			t.Errorf("output %s has %d elements, expected %d", name, len(g), len(w))
			continue
		}
		diff, scale := 0.0, 1e-300
		for i := range w {
			diff = max(diff, math.Abs(g[i]-w[i])) // NaN if one is NaN
			scale = max(scale, math.Abs(w[i]))
		}
		worst = max(worst, diff/scale)
	}
	return worst
}

// variants returns small networks, one for each option of a layer.
func variants() map[string]*essm.Config {
	base := func(change func(c *essm.Config)) *essm.Config {
		c := essm.Default()
		c.Encoder = essm.Encoder{Type: "linear", DInput: 3}
		c.DModel, c.NLayers, c.Norm, c.Prenorm = 8, 2, "batch", true
		l := &c.Layer
		l.Heads, l.DState, l.ConjSym, l.D, l.Dt = 2, 8, true, "diagonal", "per_state"
		c.Decoder = essm.Decoder{Type: "sequence", Mode: "pool", DOutput: 4}
		change(c)
		return c
	}
	return map[string]*essm.Config{
		"causal":        base(func(c *essm.Config) {}),
		"bidirectional": base(func(c *essm.Config) { c.Layer.Bidirectional = true }),
		"one-head":      base(func(c *essm.Config) { c.Layer.Heads = 1 }),
		"siso":          base(func(c *essm.Config) { c.Layer.Heads, c.Layer.DState = 8, 32 }),
		"siso-both": base(func(c *essm.Config) {
			c.Layer.Heads, c.Layer.DState, c.Layer.Bidirectional = 8, 32, true
		}),
		"channels":      base(func(c *essm.Config) { c.Layer.Channels = 2 }),
		"channels-siso": base(func(c *essm.Config) { c.Layer.Channels, c.Layer.Heads, c.Layer.DState = 2, 8, 32 }),
		"full-d":        base(func(c *essm.Config) { c.Layer.D = "full" }),
		"no-d":          base(func(c *essm.Config) { c.Layer.D = "none" }),
		"window":        base(func(c *essm.Config) { c.Layer.MaxKernelLength = 7 }),
		"window-both":   base(func(c *essm.Config) { c.Layer.MaxKernelLength, c.Layer.Bidirectional = 7, true }),
		"layer-norm":    base(func(c *essm.Config) { c.Norm = "layer" }),
		"scalar-norm":   base(func(c *essm.Config) { c.Norm = "layer_scalar" }),
		"instance-norm": base(func(c *essm.Config) { c.Norm = "instance" }),
		"last":          base(func(c *essm.Config) { c.Decoder.Mode, c.Decoder.UseLengths = "last", true }),
		"sum":           base(func(c *essm.Config) { c.Decoder.Mode, c.Decoder.UseLengths = "sum", true }),
		"first":         base(func(c *essm.Config) { c.Decoder.Mode = "first" }),
		"every-step":    base(func(c *essm.Config) { c.Decoder.Mode = "none" }),
		"gates": base(func(c *essm.Config) {
			c.Layer.Activation, c.Layer.PostActivation = "full_glu", "half_glu2"
		}),
		"retrieval": base(func(c *essm.Config) {
			c.Encoder = essm.Encoder{Type: "embedding", VocabSize: 5}
			c.Layer.Bidirectional = true
			c.Decoder = essm.Decoder{Type: "retrieval", Mode: "pool", NLI: true, Activation: "gelu", DOutput: 2,
				UseLengths: true}
		}),
	}
}

var lengths = []map[string]int64{{"B": 1, "P": 1, "L": 1}, {"B": 3, "P": 2, "L": 63}, {"B": 2, "P": 1, "L": 64},
	{"B": 2, "P": 3, "L": 150}}

func TestSameAnswers(t *testing.T) {
	all := variants()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, version := range []int{13, 17, 18, 20, 24, 28} {
			t.Run(fmt.Sprint(name, "/", version), func(t *testing.T) {
				g := build(t, all[name], essm.InitOptions{})
				out, _, err := lower.Lower(g, lower.Options{Opset: version})
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range out.Nodes {
					if n.Op.Domain != "" {
						t.Errorf("%v is left", n)
					}
				}
				if version != 13 && version != 28 {
					return // the same code path, on a graph that has been verified
				}
				for _, bind := range lengths {
					in := feed(t, g, bind, true)
					// a state that can occur after a sequence
					if c := all[name]; c.Layer.MaxKernelLength > 0 && c.Causal() {
						first := maps.Clone(in)
						delete(first, models.StateIn)
						in[models.StateIn] = tensor.FromSlice(run(t, g, first, true)[models.StateOut],
							in[models.StateIn].(*tensor.Tensor).Shape()...)
					}
					if d := differ(t, run(t, out, in, true), run(t, g, in, true)); !(d < 3e-7) { // tables are float32
						t.Errorf("%v: differs by %.3g", bind, d)
					}
				}
			})
		}
	}
}

// MaxOpset must be the newest version in the registry.
func TestMaxOpset(t *testing.T) {
	newest := 0
	for _, op := range ops.Default.All() {
		if op.Domain == "" {
			newest = max(newest, op.Since)
		}
	}
	if newest != lower.MaxOpset {
		t.Errorf("the newest operator is of version %d, MaxOpset is %d", newest, lower.MaxOpset)
	}
	b := ir.NewBuilder("new", ops.Default, map[string]int{"": 28})
	b.Output("y", b.Op("", "BitCast", []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, "N"))},
		ir.A("to", int(tensor.Int32))))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := lower.Lower(g, lower.Options{}); err != nil || out.Opsets[""] != 26 {
		t.Errorf("BitCast: %v, %v", out, err)
	}
	if _, _, err := lower.Lower(g, lower.Options{Opset: 25}); err == nil ||
		!strings.Contains(err.Error(), "BitCast needs version 26") {
		t.Errorf("BitCast in version 25: %v", err)
	}
	if _, _, err := lower.Lower(g, lower.Options{Opset: 29}); err == nil ||
		!strings.Contains(err.Error(), "expected 13 to 28") {
		t.Errorf("version 29: %v", err)
	}
}
