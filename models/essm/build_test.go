package essm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

func initialized(t testing.TB, c *Config) models.Weights {
	t.Helper()
	w, err := Init(c, InitOptions{C: CFromHiPPO, D: DNormal}, 3)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func build(t testing.TB, c *Config, w models.Weights, o models.BuildOptions) *ir.Graph {
	t.Helper()
	g, err := models.Build(c, w, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// inputs makes an input for the model, of the given batch and length.
func inputs(c *Config, r *rand.Rand, batch, length int) map[string]tensor.Datum {
	in := map[string]tensor.Datum{}
	if c.Encoder.Type == "embedding" {
		ids := make([]int64, batch*length)
		for i := range ids {
			ids[i] = r.Int64N(int64(c.Encoder.VocabSize))
		}
		in[models.Input] = tensor.FromSlice(ids, batch, length)
	} else {
		width := c.DModel
		if c.Encoder.Type == "linear" {
			width = c.Encoder.DInput
		}
		x := make([]float32, batch*length*width)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		in[models.Input] = tensor.FromSlice(x, batch, length, width)
	}
	if c.Decoder.UseLengths {
		l := make([]int64, batch)
		for i := range l {
			l[i] = 1 + r.Int64N(int64(length))
		}
		in[models.Lengths] = tensor.FromSlice(l, batch)
	}
	return in
}

// variants are changes of the small configuration that together meet every value of every key.
var variants = []string{
	"",
	"norm=layer layer.activation=gelu layer.post_activation=full_glu layer.d=full decoder.mode=last",
	"norm=layer_scalar layer.activation=half_glu1 layer.post_activation=half_glu2 layer.dt=shared decoder.mode=first",
	"norm=instance layer.channels=3 layer.activation=full_glu layer.post_activation=relu decoder.mode=none",
	"norm=none layer.channels=2 layer.heads=1 layer.d=none layer.post_activation=tanh decoder.mode=sum prenorm=false",
	"encoder.type=identity layer.bidirectional=true layer.activation=sigmoid layer.post_activation=silu layer.max_kernel_length=5",
	"encoder.type=embedding encoder.vocab_size=7 decoder.use_lengths=true layer.discretization=bilinear layer.lambda_real=softplus layer.lambda_imag=clip",
	"layer.max_kernel_length=4 layer.channels=2 layer.conj_sym=false layer.discretization=backward_euler layer.lambda_real=Gaussian layer.lambda_imag=negtive",
	"decoder.type=retrieval decoder.nli=true decoder.activation=gelu decoder.use_lengths=true layer.post_activation=swish layer.lambda_imag=zero",
	"decoder.type=retrieval decoder.nli=false decoder.activation=relu decoder.mode=last layer.bidirectional=true layer.lambda_real=sigmoid",
	"layer.post_activation=leakyrelu layer.activation=relu n_layers=1 layer.lambda_imag=sigmoid layer.max_real_lambda=0.3",
}

func variant(t testing.TB, changes string) *Config {
	t.Helper()
	c := mustParse(t, small)
	for _, s := range strings.Fields(changes) {
		key, value, _ := strings.Cut(s, "=")
		if err := c.Settings().Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestVariants checks that every kind of model builds and runs, that all forms of its layers agree, and that a causal one
// gives the state that its continuation needs.
func TestVariants(t *testing.T) {
	for _, changes := range variants {
		t.Run(changes, func(t *testing.T) {
			t.Parallel()
			c := variant(t, changes)
			g := build(t, c, initialized(t, c), models.BuildOptions{})
			const batch, length = 4, 11
			in := inputs(c, rand.New(rand.NewPCG(1, 1)), batch, length)
			want := interpret(t, g, "scan", in)
			rows, shape := batch, []int{}
			if c.Decoder.Type == "retrieval" {
				rows /= 2
			}
			shape = append(shape, rows)
			if c.Decoder.Mode == "none" {
				shape = append(shape, length)
			}
			out := want[models.Output].(*tensor.Tensor)
			if shape = append(shape, c.Decoder.DOutput); !slices.Equal(out.Shape(), shape) {
				t.Errorf("output has shape %v, expected %v", out.Shape(), shape)
			}
			for _, form := range []string{"chunked", "fft", "direct"} {
				if e := apart(t, interpret(t, g, form, in)[models.Output], out); !(e < 1e-12) {
					t.Errorf("%s and scan differ by %.3g", form, e)
				}
			}
			if (g.Input(models.StateIn) != nil) != c.Causal() {
				t.Errorf("causal: %v, takes a state: %v", c.Causal(), g.Input(models.StateIn) != nil)
			}
			if c.Causal() && c.Encoder.Type == "linear" && c.Decoder.Mode == "last" && c.Decoder.Type == "sequence" {
				x := in[models.Input].(*tensor.Tensor)
				first := interpret(t, g, "", map[string]tensor.Datum{models.Input: cut(x, 0, 4)})
				second := interpret(t, g, "", map[string]tensor.Datum{models.Input: cut(x, 4, length), models.StateIn: first[models.StateOut]})
				if e := apart(t, second[models.Output], out); !(e < 1e-12) {
					t.Errorf("in two pieces the answer differs by %.3g", e)
				}
			}
		})
	}
}

// TestRate checks that a rate multiplies every step size, with Lambda and with A.
func TestRate(t *testing.T) {
	for _, full := range []bool{false, true} {
		c := variant(t, "layer.dt=shared")
		w := initialized(t, c)
		if full {
			makeVanilla(c, w)
		}
		in := inputs(c, rand.New(rand.NewPCG(2, 2)), 2, 9)
		g := build(t, c, w, models.BuildOptions{Rate: 2})
		if g.Meta[ir.MetaRate] != "2" {
			t.Errorf("rate in the graph: %q", g.Meta[ir.MetaRate])
		}
		got := interpret(t, g, "", in)[models.Output]
		base := interpret(t, build(t, c, w, models.BuildOptions{}), "", in)[models.Output].(*tensor.Tensor)
		for name, x := range w {
			if strings.HasSuffix(name, "log_dt") {
				for i, v := range tensor.Data[float32](x) {
					tensor.Data[float32](x)[i] = float32(float64(v) + math.Ln2)
				}
			}
		}
		if e := apart(t, got, interpret(t, build(t, c, w, models.BuildOptions{}), "", in)[models.Output].(*tensor.Tensor)); !(e < 1e-6) {
			t.Errorf("full %v: twice the step differs from rate 2 by %.3g", full, e)
		}
		if e := apart(t, got, base); e < 1e-3 {
			t.Errorf("full %v: rate 2 changes nothing", full)
		}
	}
	c := mustParse(t, small)
	for _, r := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := models.Build(c, initialized(t, c), models.BuildOptions{Rate: r}); err == nil {
			t.Errorf("rate %v: no error", r)
		}
	}
}

// makeVanilla replaces each layer's diagonal by the matrix that it stands for, which is real where the imaginary parts
// are 0.
func makeVanilla(c *Config, w models.Weights) {
	c.Layer.ConjSym = false
	for i := range c.NLayers {
		name := layerName(i) + ".layer."
		l := w[name+"Lambda"]
		n := l.Dim(2)
		a := tensor.New(tensor.Float32, l.Dim(0), l.Dim(1), n, n)
		src, dst := tensor.Data[float32](l), tensor.Data[float32](a)
		for h := range l.Dim(0) * l.Dim(1) {
			for j := range n {
				src[2*(h*n+j)+1] = 0
				dst[(h*n+j)*n+j] = src[2*(h*n+j)]
			}
		}
		w[name+"A"] = a
		delete(w, name+"Lambda")
	}
}

// TestVanilla checks that a layer with a full A answers as the layer with its diagonal, and has half as many state numbers.
func TestVanilla(t *testing.T) {
	c := variant(t, "layer.dt=shared layer.conj_sym=false layer.lambda_imag=zero")
	w := initialized(t, c)
	in := inputs(c, rand.New(rand.NewPCG(2, 2)), 2, 9)
	diagonal := interpret(t, build(t, c, w, models.BuildOptions{}), "", in)
	makeVanilla(c, w)
	if err := models.Check(c, w); err != nil {
		t.Fatal(err)
	}
	full := interpret(t, build(t, c, w, models.BuildOptions{}), "", in)
	// epsilon stands in the diagonal form only
	if e := apart(t, full[models.Output], diagonal[models.Output].(*tensor.Tensor)); !(e < 1e-5) {
		t.Errorf("full and diagonal differ by %.3g", e)
	}
	if a, b := full[models.StateOut].(*tensor.Tensor).Dim(1), diagonal[models.StateOut].(*tensor.Tensor).Dim(1); 2*a != b {
		t.Errorf("states have %d and %d numbers", a, b)
	}
}

func TestBuildNames(t *testing.T) {
	c := variant(t, "decoder.use_lengths=true")
	w := initialized(t, c)
	w["model.layers.0.norm.norm.num_batches_tracked"] = tensor.Scalar(int64(3))
	g := build(t, c, w, models.BuildOptions{Name: "pets"})
	if g.Name != "pets" || g.Meta[ir.MetaTime] != "L" || g.Meta[ir.MetaBatch] != "B" ||
		g.Meta[ir.MetaLabels] != `["cat","dog \u0026 \u003cco\u003e"]` {
		t.Errorf("graph %s, meta %v", g.Name, g.Meta)
	}
	var names []string
	for _, v := range g.Constants() {
		names = append(names, v.Name)
	}
	for name := range w {
		if !strings.HasSuffix(name, "num_batches_tracked") && !slices.Contains(names, name) {
			t.Errorf("tensor %s is no constant of the graph", name)
		}
	}
	var ports []string
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		ports = append(ports, fmt.Sprintf("%s %v", v.Name, v.Type))
	}
	want := []string{"input float[B,L,3]", "lengths optional(int64[B])", "state_in optional(float[B,32])",
		"output float[B,2]", "state_out float[B,32]"}
	if !slices.Equal(ports, want) {
		t.Errorf("inputs and outputs %q, expected %q", ports, want)
	}
	scopes := map[string]bool{}
	for _, n := range g.Nodes {
		scopes[n.Scope] = true
	}
	for _, s := range []string{"encoder", "layers.0", "layers.1", "norm", "decoder"} {
		if !scopes[s] {
			t.Errorf("no node has the scope %s", s)
		}
	}
}

// TestPairs checks that a retrieval decoder takes whole pairs only.
func TestPairs(t *testing.T) {
	c := variant(t, "decoder.type=retrieval decoder.nli=true decoder.activation=gelu")
	g := build(t, c, initialized(t, c), models.BuildOptions{})
	if got := g.Inputs[0].Type.String(); got != "float[2*P,L,3]" {
		t.Errorf("input is %s", got)
	}
	if got := g.Outputs[0].Type.String(); got != "float[P,2]" || g.Meta[ir.MetaBatch] != "P" {
		t.Errorf("output is %s, batch %s", got, g.Meta[ir.MetaBatch])
	}
	m, err := runtime.New(g, runtime.Options{Backend: ref.New()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.NewSession().Run(context.Background(), inputs(c, rand.New(rand.NewPCG(1, 1)), 3, 5)); err == nil {
		t.Error("three documents: no error")
	}
}

func TestCheckErrors(t *testing.T) {
	c := mustParse(t, small)
	good := initialized(t, c)
	f32 := func(shape ...int) *tensor.Tensor { return tensor.New(tensor.Float32, shape...) }
	with := func(t *tensor.Tensor, i int, v float64) *tensor.Tensor {
		tensor.Data[float32](t)[i] = float32(v)
		return t
	}
	for _, x := range []struct {
		name   string
		tensor *tensor.Tensor
		want   string
	}{
		{"encoder.bias", nil, "tensor encoder.bias: is missing, expected float32[8]"},
		{"encoder.biass", f32(8), "tensor encoder.biass: is not part of the model"},
		{"encoder.weight", f32(3, 8), "tensor encoder.weight: expected float32[8,3], found float32[3,8]"},
		{"encoder.weight", tensor.New(tensor.Int64, 8, 3),
			"tensor encoder.weight: expected float32[8,3], found int64[8,3]"},
		{"encoder.weight", with(f32(8, 3), 4, math.NaN()),
			"tensor encoder.weight[1,1]: expected a finite number, found NaN"},
		{"model.layers.1.layer.C", with(f32(1, 2, 4, 4), 31, math.Inf(-1)),
			"tensor model.layers.1.layer.C[0,1,3,3]: expected a finite number, found -Inf"},
		{"model.norm.norm.running_var", with(f32(8), 2, -1),
			"tensor model.norm.norm.running_var[2]: expected a variance of at least 0, found -1"},
		{"model.layers.1.layer.A", f32(1, 2, 4, 4), "tensor model.layers.1.layer.A: is not part of the model"},
		{"model.layers.0.layer.Lambda", f32(1, 2, 5, 2),
			"tensor model.layers.0.layer.log_dt: expected float32[1,2,5], found float32[1,2,4] (and 2 more)"},
		{"model.layers.0.layer.Lambda", f32(3),
			"tensor model.layers.0.layer.Lambda: expected float32[1,2,4,2], found float32[3]"},
	} {
		w := models.Weights{}
		for k, v := range good {
			w[k] = v
		}
		if w[x.name] = x.tensor; x.tensor == nil {
			delete(w, x.name)
		}
		if err := models.Check(c, w); err == nil || err.Error() != x.want {
			t.Errorf("%s %s:\n got %v\nwant %s", x.name, x.tensor, err, x.want)
		}
		if _, err := models.Build(c, w, models.BuildOptions{}); err == nil {
			t.Errorf("%s %s: builds", x.name, x.tensor)
		}
	}
	w := models.Weights{"encoder.wight": f32(8, 3)}
	for k, v := range good {
		if k != "encoder.weight" {
			w[k] = v
		}
	}
	if err := models.Check(c, w); err == nil ||
		err.Error() != "tensor encoder.weight: is missing, expected float32[8,3]; there is encoder.wight (and 1 more)" {
		t.Error(err)
	}
}
