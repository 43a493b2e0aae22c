package passes_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	family "github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
)

// TestRandomModels runs the pipeline on random models of every kind. After each pass the answer in float64 must
// equal the original model's, and printing and parsing must be the identity.
func TestRandomModels(t *testing.T) {
	trials := 16
	if os.Getenv("ESSMC_LONG") != "" {
		trials = 80
	}
	for seed := range uint64(trials) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := randomConfig(r)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if err := c.Validate(); err != nil {
				t.Fatalf("%v\n%s", err, c.Settings().JSON())
			}
			g, err := models.Build(c, randomWeights(t, r, c), models.BuildOptions{Rate: 1 + float64(seed%2)})
			if err != nil {
				t.Fatalf("%v\n%s", err, c.Settings().JSON())
			}
			before := g.Clone()
			err = passes.Run(g, passes.Pipeline(), passes.Options{Observe: func(s passes.Snapshot) {
				if s.Failure != nil || t.Failed() {
					return
				}
				if err := ir.Verify(s.Graph); err != nil {
					t.Error(err)
				}
				passtest.Same(t, before, s.Graph, 1e-9)
				text := irtext.String(s.Graph)
				back, err := irtext.Parse([]byte(text), "text", ops.Default, irtext.Options{})
				if err != nil {
					t.Errorf("parse what was printed: %v", err)
				} else if again := irtext.String(back); again != text {
					t.Error("print, parse and print again differ")
				}
				if t.Failed() {
					t.Errorf("after pass %v of\n%s", s.Event, c.Settings().JSON())
				}
			}})
			if err != nil {
				t.Fatalf("%v\n%s", err, c.Settings().JSON())
			}
			systems := 0
			for _, n := range g.Nodes {
				if n.Op == essm.SSM || n.Op == essm.DenseSSM {
					systems++
				}
			}
			if systems != c.NLayers {
				t.Errorf("%d fused systems for %d layers; notes:\n%s", systems, c.NLayers,
					strings.Join(passtest.Notes(g), "\n"))
			}
		})
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// randomConfig returns a random small model with any of the options of docs/math.md, Model directory.
func randomConfig(r *rand.Rand) *family.Config {
	c := family.Default()
	heads := pick(r, 1, 2, 3)
	c.DModel, c.NLayers = heads*pick(r, 2, 3), 1+r.IntN(3)
	c.Prenorm, c.Norm = r.IntN(2) == 0, pick(r, family.Norms...)
	switch r.IntN(3) {
	case 0:
		c.Encoder = family.Encoder{Type: "identity"}
	case 1:
		c.Encoder = family.Encoder{Type: "linear", DInput: 1 + r.IntN(3)}
	case 2:
		c.Encoder = family.Encoder{Type: "embedding", VocabSize: 4}
	}
	l := &c.Layer
	l.Heads, l.Channels, l.Bidirectional, l.ConjSym = heads, pick(r, 1, 1, 2), r.IntN(2) == 0, r.IntN(2) == 0
	l.DState = heads * pick(r, 2, 4)
	l.Discretization = pick(r, essm.Methods...)
	if l.Discretization == "forward_euler" { // other methods are stable for all step sizes
		l.Discretization = "bilinear"
	}
	l.LambdaReal, l.LambdaImag = pick(r, essm.RealConstraints...),
		pick(r, "same", "same", "softplus", "sigmoid", "clip", "zero", "negtive")
	l.Dt, l.D = pick(r, "per_state", "shared"), pick(r, "none", "diagonal", "full")
	l.Activation, l.PostActivation = pick(r, append([]string{""}, family.Activations...)...),
		pick(r, append([]string{""}, family.Activations...)...)
	l.MaxKernelLength = pick(r, 0, 0, 5)
	c.Decoder = family.Decoder{Type: "sequence", Mode: pick(r, family.Modes...), DOutput: 3, UseLengths: r.IntN(2) == 0}
	if r.IntN(4) == 0 {
		c.Decoder.Type, c.Decoder.NLI, c.Decoder.Activation = "retrieval", r.IntN(2) == 0, pick(r, "gelu", "relu")
	}
	if c.Decoder.Mode == "none" {
		c.Decoder.UseLengths = false
		if c.Decoder.Type == "retrieval" {
			c.Decoder.Mode = "last"
		}
	}
	if r.IntN(4) == 0 { // a full matrix
		l.Dt, l.ConjSym = "shared", false
	}
	return c
}

// randomWeights initializes a model, and moves the weights that training would move away from 0 and 1. If step sizes
// are shared and conjugates are not, half of the models get a full matrix.
func randomWeights(t *testing.T, r *rand.Rand, c *family.Config) models.Weights {
	t.Helper()
	w, err := family.Init(c, family.InitOptions{DtMin: 0.01, DtMax: 0.5}, r.Uint64())
	if err != nil {
		t.Fatalf("%v\n%s", err, c.Settings().JSON())
	}
	full := c.Layer.Dt == "shared" && !c.Layer.ConjSym && r.IntN(2) == 0
	for _, name := range slices.Sorted(maps.Keys(w)) {
		x := w[name]
		switch {
		case strings.HasSuffix(name, "running_var"):
			for i := range x.Len() {
				tensor.Data[float32](x)[i] = float32(math.Exp(r.NormFloat64()))
			}
		case strings.Contains(name, "norm."), strings.HasSuffix(name, "bias"):
			for i := range x.Len() {
				tensor.Data[float32](x)[i] += float32(0.3 * r.NormFloat64())
			}
		case strings.HasSuffix(name, ".Lambda") && full:
			d := x.Shape()
			n := d[2]
			a := tensor.New(tensor.Float32, d[0], d[1], n, n)
			for i := range a.Len() {
				v := 0.5 * r.NormFloat64()
				if i%(n*n)%(n+1) == 0 {
					v -= 2
				}
				tensor.Data[float32](a)[i] = float32(v)
			}
			delete(w, name)
			w[strings.TrimSuffix(name, "Lambda")+"A"] = a
		}
	}
	return w
}
