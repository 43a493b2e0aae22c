package families_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// variants are small configurations of each family, as settings of a preset. Together they have every value of every key.
var variants = []struct{ preset, common, changes string }{
	{"s4d-cifar", "model.d_model=6 model.n_layers=2 model.layer.d_state=8 model.layer.dt_min=0.05", `

		model.layer.bidirectional=true
		model.bidirectional=true model.layer.l_max=5
		model.layer.channels=2
		model.layer.channels=2 model.layer.swap_channels=true model.layer.init=diag-inv
		model.layer.disc=bilinear model.layer.dt_tie=false model.layer.init=diag-inv2 model.norm=batch model.prenorm=true
		model.layer.is_real=true model.layer.init=diag-real model.norm=none decoder.mode=last
		model.layer.disc=dss model.layer.channels=2
		model.layer.disc=dss model.layer.is_real=true model.layer.init=diag-real model.layer.bidirectional=true
		model.layer.n_ssm=3 model.layer.init=diag-quad model.norm=instance
		model.layer.n_ssm=1 model.layer.init=diag-rand model.norm=group decoder.mode=sum
		model.layer.l_max=5 model.layer.init=diag-legs
		model.layer.l_max=5 model.layer.bidirectional=true decoder.use_lengths=true
		model.layer.dt_fast=true model.layer.dt_transform=softplus model.transposed=true model.prenorm=true
		model.layer.dt_transform=sigmoid model.layer.real_transform=relu model.layer.imag_transform=relu
		model.layer.dt_transform=none model.layer.real_transform=sigmoid model.layer.imag_transform=softplus
		model.layer.dt_transform=relu model.layer.real_transform=none model.layer.imag_transform=exp decoder.mode=first
		model.layer.real_transform=softplus model.layer.bandlimit=0.5 decoder.use_lengths=true
		model.layer.activation=null model.layer.mult_act=tanh model.layer.final_act=relu model.residual=null
		model.layer.activation=elu model.layer.mult_act=laplace model.layer.final_act=glu-gelu model.residual=N
		model.layer.activation=swish model.layer.mult_act=sqrelu model.layer.final_act=null model.residual=F
		model.layer.activation=softplus model.layer.final_act=id decoder.mode=last decoder.l_output=null
		model.layer.activation=sigmoid model.layer.final_act=glu-none decoder.mode=last decoder.l_output=4
		decoder.mode=sum decoder.l_output=null
		decoder.mode=sum decoder.l_output=3
		decoder.mode=first decoder.l_output=3
		encoder._name_=embedding encoder.n_tokens=9
		encoder._name_=id`},
	{"s4-sc35", "model.d_model=6 model.n_layers=2 model.layer.n_ssm=null model.layer.d_state=8 model.layer.dt_min=0.05", `

		model.layer.bidirectional=false
		model.layer.bidirectional=false model.layer.channels=2 model.layer.l_max=5
		model.layer.channels=2 model.layer.swap_channels=true model.layer.init=fout
		model.layer.mode=dplr model.layer.rank=2 model.layer.init=legt model.layer.bidirectional=false
		model.layer.mode=s4 model.layer.rank=3 model.layer.dt_tie=false model.layer.init=hippo
		model.layer.init=diag-inv model.layer.n_ssm=3 model.layer.l_max=40 model.layer.dt_fast=true
		model.layer.init=fourier model.layer.n_ssm=1 model.layer.real_transform=softplus decoder.use_lengths=true
		model.layer.bidirectional=false model.layer.final_act=null model.norm=none model.layer.dt_transform=softplus`},
	{"dss-image", "model.d_model=6 model.n_layers=2 model.layer.d_state=8 model.layer.dt_min=0.05", `

		model.layer.version=softmax
		model.layer.version=softmax model.layer.bidirectional=false model.layer.channels=2 model.layer.max_kernel_length=5
		model.layer.version=softmax model.layer.sep_dt_re_im=false model.layer.hyper_act=tanh
		model.layer.version=exp-re-im model.layer.bidirectional=false
		model.layer.version=exp-no-scale model.layer.bidirectional=false model.layer.max_kernel_length=5
		model.layer.version=clip model.layer.channels=2 model.layer.hyper_act=sigmoid
		model.layer.version=clip-no-scale model.layer.bidirectional=false model.layer.postact=null
		model.layer.postact=relu model.layer.activation=null decoder.use_lengths=true model.norm=layer`},
	{"liquid-s4-cifar", "model.d_model=6 model.n_layers=2 model.layer.d_state=8 model.layer.dt_min=0.05", `

		model.layer.bidirectional=false model.layer.liquid_degree=3 model.layer.lcontract=tanh
		model.layer.allcombs=false model.layer.liquid_degree=4 model.layer.lcontract=lecun decoder.use_lengths=true
		model.layer.liquid_kernel=null model.layer.bidirectional=false model.layer.n_ssm=3 model.layer.l_max=5
		model.layer.bidirectional=false model.layer.liquid_kernel=kb model.layer.liquid_degree=3 model.layer.l_max=6
		model.layer.mode=dplr model.layer.measure=fout model.layer.n_ssm=1 model.layer.postact=null
		model.layer.measure=legt model.layer.rank=2 model.layer.bidirectional=false`},
	{"s4d-example", "d_model=6 n_layers=2 d_state=8", `

		prenorm=true`},
	{"s5-smnist", "d_model=6 n_layers=2 ssm_size_base=8 dt_min=0.05", `

		bidirectional=true prenorm=false activation_fn=full_glu
		bidirectional=true C_init=complex_normal discretization=bilinear conj_sym=false batchnorm=false
		blocks=2 C_init=lecun_normal activation_fn=half_glu2 mode=last clip_eigs=true
		padded=true activation_fn=gelu step_rescale=2
		retrieval=true padded=true`},
	{"lru-smnist", "d_model=6 n_layers=2 d_hidden=8", `

		norm=layer prenorm=false pooling=none r_min=0.5 r_max=0.9
		pooling=last multidim=3`},
	{"transformer-text", "encoder.0.n_tokens=9 encoder.1.max_len=20 model.d_model=12 model.n_layers=2", `

		model.layer.0.causal=true model.layer.0.n_heads=3 decoder.mode=last
		model.layer.0.bias=false model.layer.1.activation=relu model.layer.1.expand=2 model.norm=batch
		model.prenorm=false model.norm=group decoder.l_output=null decoder.mode=last`},
	{"mamba-130m", "vocab_size=9 hidden_size=6 num_hidden_layers=2 state_size=3", `

		use_bias=true use_conv_bias=false tie_word_embeddings=false time_step_rank=2
		expand=3 conv_kernel=1 rescale_prenorm_residual=true layer_norm_epsilon=1e-6`},
	{"mamba2-130m", "vocab_size=9 hidden_size=6 num_hidden_layers=2 state_size=3 num_heads=4 head_dim=3", `

		n_groups=2 use_bias=true use_conv_bias=false tie_word_embeddings=false
		num_heads=12 head_dim=1 n_groups=3 conv_kernel=2 time_step_limit=0.01,0.02`},
	{"mingru-512", "dim=6", `

		expansion_factor=1.5 proj_out=false
		expansion_factor=2.4
		proj_out=true`},
	{"minlstm-512", "dim=6", `

		expansion_factor=1.5
		expansion_factor=0.5 proj_out=false`},
	{"lstm-smnist", "model.d_model=6 model.layer.d_hidden=6", `

		model.layer.n_layers=2 model.prenorm=false decoder.mode=sum
		encoder._name_=embedding encoder.n_tokens=9 decoder.use_lengths=true`},
	{"cdil-image", "input_size=5 char_vocab=9 num_channels=5,6,6 output_size=3", `

		use_embed=false kernel_size=5 num_channels=7
		model=DIL kernel_size=1
		model=CNN use_embed=false
		model=TCN use_embed=false kernel_size=2
		model=TCN kernel_size=4 fix_length=false`},
	{"fnet-classify", "vocab_size=9 hidden_size=8 num_hidden_layers=2 intermediate_size=12 max_position_embeddings=13", `

		architectures=FNetForMaskedLM hidden_act=silu
		hidden_size=7 num_labels=3 hidden_act=tanh`},
	{"lra-listops", "vocab_size=9 emb_dim=12 num_heads=3 num_layers=2 qkv_dim=6 mlp_dim=10 max_len=14 num_classes=3", `

		classifier_pool=MEAN learn_pos_emb=true
		classifier_pool=SUM tied_weights=false
		classifier=false`},
	{"ckconv-smnist", "in_channels=2 out_channels=3 hidden_channels=4 num_blocks=2 kernelnet_hidden_channels=5", `

		task=copy kernelnet_activation_function=ReLU kernelnet_norm_type=LayerNorm bias=false
		kernelnet_activation_function=LeakyReLU kernelnet_norm_type=BatchNorm in_channels=4
		kernelnet_activation_function=Swish num_blocks=1`},
}

// TestVariants checks that every kind of model builds and runs, that all forms agree, and that a causal one gives the same
// answer in chunks.
func TestVariants(t *testing.T) {
	for _, v := range variants {
		for _, changes := range strings.Split(v.changes, "\n")[1:] {
			changes = strings.TrimSpace(changes)
			t.Run(v.preset+" "+changes, func(t *testing.T) {
				t.Parallel()
				variant(t, v.preset, v.common+" "+changes)
			})
		}
	}
}

func preset(t *testing.T, id string) models.Preset {
	t.Helper()
	for _, p := range models.Presets() {
		if p.ID == id {
			return p
		}
	}
	t.Fatalf("no preset %s", id)
	return models.Preset{}
}

func variant(t *testing.T, id, changes string) {
	p := preset(t, id)
	c := p.Config
	for _, s := range strings.Fields(changes) {
		key, value, _ := strings.Cut(s, "=")
		if err := c.Settings().Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if again, err := models.ParseConfig(c.Settings().JSON(), "again"); err != nil || string(again.Settings().JSON()) != string(c.Settings().JSON()) {
		t.Fatalf("read again: %v\n%s", err, c.Settings().JSON())
	}
	w, err := p.Init(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	g, err := models.Build(c, w, models.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := open.Graph(g, id, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const batch, length = 2, 13
	in := random(t, m, batch, length)
	truth := run(t, m.CompileSource, runtime.Options{Backend: ref.New(), Precision: tensor.Float64, Kernel: "scan"}, in)
	for _, kernel := range []string{"chunked", "fft", "direct"} {
		got := run(t, m.CompileSource, runtime.Options{Backend: ref.New(), Precision: tensor.Float64, Kernel: kernel}, in)
		if d := far(got, truth); d > 1e-11 {
			t.Errorf("form %s is %.2g off", kernel, d)
		}
	}
	if d := far(run(t, m.Compile, runtime.Options{Backend: cpu.New()}, in), truth); d > 1e-5 {
		t.Errorf("on the CPU it is %.2g off", d)
	}
	if !c.Common().Streams {
		return
	}
	for _, chunk := range []int{1, 4} {
		if err := stream(t, m, in, truth, chunk, 1e-5); err != nil {
			t.Errorf("in chunks of %d: %v", chunk, err)
		}
	}
}

// random makes inputs for a model: of its ports, the state is left out.
func random(t *testing.T, m *open.Model, batch, length int) map[string]tensor.Datum {
	t.Helper()
	g, err := m.Source()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	in := map[string]tensor.Datum{}
	model, err := m.CompileSource(runtime.Options{Backend: ref.New()})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range model.Inputs() {
		switch p.Name {
		case models.Lengths:
			in[p.Name] = tensor.FromSlice([]int64{int64(length) / 2, int64(length)}, batch)
		case models.Input:
			shape := []int{batch, length}
			typ := g.Input(models.Input).Type.(*ir.TensorType)
			if typ.Elem == tensor.Int64 {
				x := tensor.New(tensor.Int64, shape...)
				for i := range tensor.Data[int64](x) {
					tensor.Data[int64](x)[i] = r.Int64N(9)
				}
				in[p.Name] = x
				continue
			}
			width, _ := typ.Shape[2].Known()
			x := tensor.New(tensor.Float32, append(shape, int(width))...)
			for i := range tensor.Data[float32](x) {
				tensor.Data[float32](x)[i] = float32(r.NormFloat64())
			}
			in[p.Name] = x
		}
	}
	return in
}

// TestRate checks that a rate multiplies every step size.
func TestRate(t *testing.T) {
	p := preset(t, "s4d-cifar")
	if err := p.Config.Settings().Set("model.d_model", "4"); err != nil {
		t.Fatal(err)
	}
	answer := func(rate float64, change float32) *tensor.Tensor {
		w, err := p.Init(p.Config, 1)
		if err != nil {
			t.Fatal(err)
		}
		for name, x := range w {
			if strings.HasSuffix(name, "inv_dt") {
				for i := range tensor.Data[float32](x) {
					tensor.Data[float32](x)[i] += change
				}
			}
		}
		g, err := models.Build(p.Config, w, models.BuildOptions{Rate: rate})
		if err != nil {
			t.Fatal(err)
		}
		m, err := open.Graph(g, "m", open.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return run(t, m.Compile, runtime.Options{Backend: cpu.New()}, random(t, m, 1, 9))
	}
	const ln2 = 0.6931472
	twice := answer(2, 0)
	if d := far(answer(1, ln2), twice); d > 1e-5 {
		t.Errorf("twice the step differs from rate 2 by %.2g", d)
	}
	if d := far(answer(1, 0), twice); d < 1e-3 {
		t.Error("a rate changes nothing")
	}
}

// TestMessages checks that messages about configurations and tensors name the key or tensor, and what is near.
func TestMessages(t *testing.T) {
	for changes, want := range map[string]string{
		"model.layer.d_stat=3":          "model.layer.d_stat: unknown key, did you mean d_state?",
		"d_state=3":                     "d_state: unknown key, did you mean model.layer.d_state?",
		"model.layer._name_=s5":         "model.layer._name_: expected s4, found s5",
		"model.layer.d_state=x":         "model.layer.d_state: expected an integer from 1 to 1048576, found x",
		"model.layer.d_state=7":         "model.layer.d_state: expected an even number, since states come in conjugate pairs, found 7",
		"model.layer.n_ssm=5":           "model.layer.n_ssm: expected a divisor of d_model 128, found 5",
		"model.layr=5":                  "model.layr: unknown key, did you mean layer?",
		"encoder._name_=linaer":         "encoder._name_: expected one of embedding, id, linear, position, found linaer; did you mean linear?",
		"decoder.l_output=3":            "decoder.mode: pool gives one vector, expected l_output 0, found 3",
		"model.layer.final_act=glu-tan": "model.layer.final_act: expected one of ",
		"model_type=essm":               "model_type: expected s4d, found essm",
		"model.layer.0.d_state=4":       "model.layer.0.d_state: unknown key, did you mean d_state?",
		"model.layer.activation=glu":    "model.layer.activation: expected one of id, ",
		"model.n_layers=0":              "model.n_layers: expected an integer from 1 to 4096, found 0",
		"model.residual=sum":            "model.residual: expected one of R, N, F, or null, found sum",
		"decoder._name_=retrieval":      "decoder._name_: expected sequence, found retrieval",
		"encoder._name_=linear":         "encoder.d_input: is missing, expected an integer from 1 to 1048576",
		"model.layer.dt_min=1":          "model.layer.dt_min: expected step sizes 0 < dt_min ≤ dt_max, found 1 and 0.1",
		"model.layer.init=diag-legss":   "model.layer.init: expected one of ",
		"model.layer.init=legs":         "model.layer.init: legs is of the modes nplr, dplr, s4, found mode diag",
		"model.layer.mode=diags":        "model.layer.mode: expected one of diag, s4d, nplr, dplr, s4, found diags",
	} {
		p := preset(t, "s4d-cifar")
		key, value, _ := strings.Cut(changes, "=")
		err := p.Config.Settings().Set(key, value)
		if err == nil {
			err = p.Config.Validate()
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", changes, err, want)
		}
	}
}
