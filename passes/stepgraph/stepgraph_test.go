package stepgraph_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// randomConfig returns a random small model with any of the options that matter for streams.
func randomConfig(r *rand.Rand) *essm.Config {
	c := essm.Default()
	heads := pick(r, 1, 2, 3)
	c.DModel, c.NLayers = heads*pick(r, 2, 3), 1+r.IntN(3)
	c.Prenorm, c.Norm = r.IntN(2) == 0, pick(r, "batch", "layer", "layer_scalar", "none")
	c.Encoder = pick(r, essm.Encoder{Type: "identity"}, essm.Encoder{Type: "linear", DInput: 2},
		essm.Encoder{Type: "embedding", VocabSize: 4})
	l := &c.Layer
	l.Heads, l.Channels, l.Bidirectional, l.ConjSym = heads, pick(r, 1, 1, 2), false, r.IntN(2) == 0
	l.DState = heads * pick(r, 2, 4)
	l.Discretization = pick(r, "zoh", "bilinear", "backward_euler")
	l.Dt, l.D = pick(r, "per_state", "shared"), pick(r, "none", "diagonal", "full")
	l.Activation, l.PostActivation = pick(r, append([]string{""}, essm.Activations...)...),
		pick(r, append([]string{""}, essm.Activations...)...)
	l.MaxKernelLength = pick(r, 0, 0, 5)
	l.Bidirectional = l.MaxKernelLength > 0 && r.IntN(2) == 0 // it looks ahead by its kernel at most
	c.Decoder = essm.Decoder{Type: "sequence", Mode: pick(r, essm.Modes...), DOutput: 3, UseLengths: r.IntN(2) == 0}
	if r.IntN(4) == 0 {
		c.Decoder.Type, c.Decoder.NLI, c.Decoder.Activation = "retrieval", r.IntN(2) == 0, pick(r, "gelu", "relu")
	}
	if c.Decoder.Mode == "none" {
		c.Decoder.UseLengths = false
		if c.Decoder.Type == "retrieval" {
			c.Decoder.Mode = "last"
		}
	}
	return c
}

// TestModels checks that a model gives the same results chunk by chunk as for the whole sequence, at every stage of the
// pipeline, and that its step graph is an ordinary graph.
func TestModels(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 7))
			c := randomConfig(r)
			w, err := essm.Init(c, essm.InitOptions{DtMin: 0.01, DtMax: 0.5}, r.Uint64())
			if err != nil {
				t.Fatalf("%v\n%s", err, c.Settings().JSON())
			}
			g, err := models.Build(c, w, models.BuildOptions{})
			if err != nil {
				t.Fatal(err)
			}
			length := pick(r, 1, 6, 40, 150)
			batch := pick(r, int64(2), 4)
			dims := map[string]int64{"B": batch, "P": batch / 2, "L": int64(length)}
			if r.IntN(3) > 0 {
				if err := passes.Run(g, passes.Pipeline(), passes.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			sg, err := stepgraph.Of(g)
			if err != nil {
				t.Fatalf("%v\n%s", err, c.Settings().JSON())
			}
			lag := int64(0)
			if c.Layer.Bidirectional {
				lag = int64(c.NLayers * c.Layer.MaxKernelLength)
			}
			if sg.Latency != lag || sg.Flush != lag || sg.Multiple != 1 || (sg.End == "") != (lag == 0) {
				t.Errorf("latency %d, flush %d, multiple %d, end %q of a model that looks ahead by %d", sg.Latency,
					sg.Flush, sg.Multiple, sg.End, lag)
			}
			text := irtext.String(sg.Graph)
			if back, err := irtext.Parse([]byte(text), "text", ops.Default, irtext.Options{}); err != nil {
				t.Errorf("parse what was printed: %v", err)
			} else if irtext.String(back) != text {
				t.Error("print, parse and print again differ")
			}
			for _, b := range []struct {
				o   runtime.Options
				tol float64
			}{{runtime.Options{Backend: ref.New(), Precision: tensor.Float64}, 1e-10},
				{runtime.Options{Backend: cpu.New()}, 2e-5}} {
				wide := b.o.Precision == tensor.Float64
				in := noise(t, g, dims, r, wide)
				want := whole(t, g, b.o, in)
				for _, chunks := range chunkings(r) {
					f := newStream(t, sg, b.o, int(batch))
					same(t, fmt.Sprintf("wide %v, chunks %v", wide, chunks[:1]),
						f.feed(in, length, chunks, pick(r, 0, -1)), want, b.tol)
				}
			}
			if t.Failed() {
				t.Log(string(c.Settings().JSON()), text)
			}
		})
	}
}

// TestBidirectional checks that a layer which looks ahead without bound is refused by name.
func TestBidirectional(t *testing.T) {
	c := randomConfig(rand.New(rand.NewPCG(1, 1)))
	c.Layer.Bidirectional, c.Layer.MaxKernelLength = true, 0
	w, err := essm.Init(c, essm.InitOptions{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, fused := range []bool{false, true} {
		g, err := models.Build(c, w, models.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if fused {
			if err := passes.Run(g, passes.Pipeline(), passes.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		_, err = stepgraph.Of(g)
		var blocked *stepgraph.BlockedError
		if !errors.As(err, &blocked) || !strings.Contains(err.Error(), "layers.0 (essm.") ||
			!strings.Contains(err.Error(), "bidirectional, looks ahead without bound") {
			t.Errorf("fused %v: found %v", fused, err)
		}
	}
}
