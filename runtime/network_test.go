package runtime_test

import (
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/passes"
)

// small is a causal model of few features: input float[B,L,2] → output float[B,3], or of every step with mode none.
func small(mode string) *essm.Config {
	c := essm.Default()
	c.Encoder = essm.Encoder{Type: "linear", DInput: 2}
	c.DModel, c.NLayers, c.Prenorm, c.Norm = 8, 2, true, "batch"
	c.Layer.Bidirectional = false
	c.Layer.Heads, c.Layer.DState, c.Layer.Dt, c.Layer.D = 2, 8, "per_state", "diagonal"
	c.Layer.PostActivation = "half_glu1"
	c.Decoder = essm.Decoder{Type: "sequence", Mode: mode, DOutput: 3}
	return c
}

// network makes an optimised model with random weights.
func network(t testing.TB, c *essm.Config) *ir.Graph {
	t.Helper()
	w, err := essm.Init(c, essm.InitOptions{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	g, err := models.Build(c, w, models.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := passes.Optimize(g); err != nil {
		t.Fatal(err)
	}
	return g
}

// noise makes numbers between -1 and 1 from a seed.
func noise(seed uint32, shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape...)
	for i := range tensor.Data[float32](t) {
		seed = seed*1664525 + 1013904223
		tensor.Data[float32](t)[i] = float32(seed>>8)/(1<<23) - 1
	}
	return t
}

// bump changes one weight of a graph, or of a graph within it.
func bump(g *ir.Graph) bool {
	for _, n := range g.Nodes {
		for _, v := range n.Inputs {
			if v != nil && v.Const != nil && v.Elem() == tensor.Float32 {
				tensor.Data[float32](v.Const)[0]++
				return true
			}
		}
		for _, sub := range n.Subgraphs() {
			if bump(sub) {
				return true
			}
		}
	}
	return false
}
