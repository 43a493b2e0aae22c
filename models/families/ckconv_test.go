package families_test

import (
	"math"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

const smallCKConv = "in_channels=2 out_channels=3 hidden_channels=4 num_blocks=2 kernelnet_hidden_channels=5 "

func init() {
	for _, changes := range []string{"", "task=copy L=1", "L=26 kernelnet_activation_function=Swish kernelnet_norm_type=LayerNorm",
		"L=9 kernelnet_activation_function=ReLU kernelnet_norm_type=BatchNorm in_channels=4 T=40",
		"L=33 kernelnet_activation_function=LeakyReLU bias=false omega_0=3 T=9", "L=20 T=14", "L=20 T=21 task=copy", "L=45 T=15"} {
		plains = append(plains, plain{"ckconv-smnist", smallCKConv + changes, evalCKConv})
	}
}

// evalCKConv computes CKConv place by place.
func evalCKConv(e *evaluation) []float64 {
	var out []float64
	for b := range e.batch {
		x := e.sequence(b, "")
		for i := range 2 {
			name := numbered("backbone.%d.", i)
			y := x
			for _, k := range []string{"1", "2"} {
				y = groupNormed(e, convolveCK(e, y, name+"cconv"+k+"."), name+"norm"+k+".layer_norm")
				for t := range y {
					for c := range y[t] {
						y[t][c] = max(y[t][c], 0)
					}
				}
			}
			for t := range y {
				add := x[t]
				if e.has(name + "shortcut.0.bias") {
					add = e.linear(x[t], name+"shortcut.0.weight", name+"shortcut.0.bias", false)
				}
				for c := range y[t] {
					y[t][c] = max(0, y[t][c]+add[c])
				}
			}
			x = y
		}
		if e.set["task"] != "copy" {
			x = x[len(x)-1:]
		}
		for _, v := range x {
			out = append(out, e.linear(v, "finallyr.weight", "finallyr.bias", false)...)
		}
	}
	return out
}

// groupNormed returns the norm over all steps and features.
func groupNormed(e *evaluation, x [][]float64, name string) [][]float64 {
	mean, variance, count := 0.0, 0.0, float64(len(x)*len(x[0]))
	for _, v := range x {
		for _, z := range v {
			mean += z / count
		}
	}
	for _, v := range x {
		for _, z := range v {
			variance += (z - mean) * (z - mean) / count
		}
	}
	w, _ := e.weight(name + ".weight")
	b, _ := e.weight(name + ".bias")
	out := make([][]float64, len(x))
	for t, v := range x {
		for c, z := range v {
			out[t] = append(out[t], (z-mean)/math.Sqrt(variance+1e-12)*w[c]+b[c])
		}
	}
	return out
}

// normedRows returns W x + b with weight norm.
func normedRows(e *evaluation, x []float64, name string) []float64 {
	v, _ := e.weight(name + ".weight_v")
	g, _ := e.weight(name + ".weight_g")
	out := make([]float64, len(g))
	for i := range g {
		dot, square := 0.0, 0.0
		for j, z := range x {
			w := v[i*len(x)+j]
			dot, square = dot+w*z, square+w*w
		}
		if out[i] = g[i] * dot / math.Sqrt(square); e.has(name + ".bias") {
			b, _ := e.weight(name + ".bias")
			out[i] += b[i]
		}
	}
	return out
}

func convolveCK(e *evaluation, x [][]float64, name string) [][]float64 {
	l, train := len(x), int(tensor.Data[int64](e.w[name+"train_length"])[0])
	if train == 0 {
		train = l
	}
	// Places.
	last, rate := 1.0, 1.0
	step := 2 / float64(train-1)
	if train > l {
		rate = math.RoundToEven(float64(train) / float64(l))
		last = 1 - float64((train-1)%int(rate))*step
	} else {
		times := math.RoundToEven(float64(l) / float64(train))
		if rate = 1 / times; train > 1 {
			last = 1 + float64((l-1)%int(times))*step*rate
		}
	}
	net := name + "Kernel.kernel_net."
	units := make([][]float64, l)
	for t := range units {
		units[t] = []float64{-1}
		if l > 1 {
			units[t][0] += (last + 1) * float64(t) / float64(l-1)
		}
	}
	layer := func(k, norm string) {
		for t := range units {
			units[t] = normedRows(e, units[t], net+k)
		}
		if e.has(net + norm + ".layer_norm.weight") {
			units = groupNormed(e, units, net+norm+".layer_norm")
		}
		for t := range units {
			for i, z := range units[t] {
				if e.has(net + norm + ".running_var") {
					read := func(part string) float64 { v, _ := e.weight(net + norm + part); return v[i] }
					z = (z-read(".running_mean"))/math.Sqrt(read(".running_var")+1e-5)*read(".weight") + read(".bias")
				}
				switch e.set["kernelnet_activation_function"] {
				case "ReLU":
					z = max(z, 0)
				case "LeakyReLU":
					z = max(z, 0.01*z)
				case "Swish":
					z = z / (1 + math.Exp(-z))
				default:
					z = math.Sin(31.09 * z)
				}
				units[t][i] = z
			}
		}
	}
	layer("0", "2")
	layer("4", "6")
	k := make([][]float64, l) // by place
	for t := range k {
		k[t] = normedRows(e, units[t], net+"8")
	}
	smooth := make([][]float64, l)
	h := int(math.Round(1 / rate))
	for t := range k {
		for i, z := range k[t] {
			if rate < 1 && t >= h && t <= l-1-h {
				z = 0
				for j := -h; j <= h; j++ {
					z += k[t+j][i] * math.Exp(-float64(j*j)/(2*0.5*0.5)) / (0.5 * math.Sqrt(2*math.Pi))
				}
			}
			smooth[t] = append(smooth[t], rate*z)
		}
	}
	inputs := len(x[0])
	y := make([][]float64, l)
	for t := range y {
		y[t] = make([]float64, len(k[0])/inputs)
		for o := range y[t] {
			if e.has(name + "bias") {
				b, _ := e.weight(name + "bias")
				y[t][o] = b[o]
			}
			for s := 0; s <= t; s++ {
				for c := range inputs {
					y[t][o] += smooth[l-1-(t-s)][o*inputs+c] * x[s][c]
				}
			}
		}
	}
	return y
}

// TestCKConvSizes checks the sizes of the presets, in thousands: those networks that tables of results name CKCNN (100k) and
// CKCNN (1M).
func TestCKConvSizes(t *testing.T) {
	for id, want := range map[string]int{"ckconv-smnist": 98, "ckconv-cifar": 1038} {
		n, err := models.Parameters(preset(t, id).Config, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (n+500)/1000 != want {
			t.Errorf("%s has %d parameters, expected %d thousand", id, n, want)
		}
	}
}

// TestCKConvRefused checks messages about keys.
func TestCKConvRefused(t *testing.T) {
	for changes, want := range map[string]string{
		"dim_linear=2":           "dim_linear: expected 1, sequences, found 2",
		"pool=true":              "pool: expected false, as in all released experiments, found true",
		"task=AddProblem":        "task: expected one of classification, copy, found AddProblem",
		"kernelnet_norm_type=ln": "kernelnet_norm_type: expected one of , LayerNorm, BatchNorm, found ln",
		"kernelnet_activation_function=Relu": "kernelnet_activation_function: expected one of Sine, ReLU, LeakyReLU, Swish, found Relu; " +
			"did you mean ReLU?",
		"hiden_channels=3": "hiden_channels: unknown key, did you mean hidden_channels?",
	} {
		refused(t, preset(t, "ckconv-smnist").Config, changes, want)
	}
}

// TestCKConvTrainLength checks that a train_length of one step is an error that names the tensor.
func TestCKConvTrainLength(t *testing.T) {
	p := preset(t, "ckconv-smnist")
	w, err := p.Init(p.Config, 1)
	if err != nil {
		t.Fatal(err)
	}
	tensor.Data[int64](w["backbone.1.cconv1.train_length"])[0] = 1
	_, err = models.Build(p.Config, w, models.BuildOptions{})
	const want = "tensor backbone.1.cconv1.train_length[0]: expected 0, or 2 to 1073741824, found 1"
	if err == nil || err.Error() != want {
		t.Errorf("found %v\nwant  %s", err, want)
	}
}
