package families_test

import (
	"math"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

func init() {
	const sizes = "input_size=5 num_channels=5,6,6 output_size=3 use_embed=false model="
	for _, changes := range []string{"CDIL kernel_size=5", "CDIL kernel_size=3 L=3", "DIL kernel_size=3", "DIL kernel_size=5",
		"CNN kernel_size=5", "CNN kernel_size=1", "TCN kernel_size=4", "TCN kernel_size=3 fix_length=false"} {
		plains = append(plains, plain{"cdil-image", sizes + changes, evalCDIL})
	}
}

// evalCDIL computes CDIL-CNN and its siblings step by step.
func evalCDIL(e *evaluation) []float64 {
	var out []float64
	for b := range e.batch {
		x := e.sequence(b, "")
		for i := 0; e.has(numbered("conv.conv_net.%d.conv.bias", i)); i++ {
			x = blockCDIL(e, x, i)
		}
		pick := make([]float64, len(x[0]))
		if e.set["model"] == "TCN" {
			last := e.length - 1
			if e.set["fix_length"] == "false" {
				last = int(tensor.Data[int64](e.in[models.Lengths].(*tensor.Tensor))[b]) - 1
			}
			copy(pick, x[last])
		} else {
			for _, v := range x {
				for c := range v {
					pick[c] += v[c] / float64(len(x))
				}
			}
		}
		out = append(out, e.linear(pick, "linear.weight", "linear.bias", false)...)
	}
	return out
}

func blockCDIL(e *evaluation, x [][]float64, i int) [][]float64 {
	name := numbered("conv.conv_net.%d.", i)
	v, shape := e.weight(name + "conv.weight_v")
	g, _ := e.weight(name + "conv.weight_g")
	bias, _ := e.weight(name + "conv.bias")
	d, k := shape[1], shape[2]
	model, apart := e.set["model"], 1<<i
	if model == "CNN" {
		apart = 1
	}
	p := apart * (k - 1) / 2
	if model == "TCN" {
		p = apart * (k - 1)
	}
	y := make([][]float64, len(x))
	for t := range x {
		y[t] = slices.Clone(bias)
		for o := range bias {
			row, square := v[o*d*k:(o+1)*d*k], 0.0
			for _, z := range row {
				square += z * z
			}
			for j := range k {
				at := t + j*apart - p
				if model == "CDIL" {
					at = (at%len(x) + len(x)) % len(x)
				} else if at < 0 || at >= len(x) {
					continue
				}
				for c := range d {
					y[t][o] += g[o] * row[c*k+j] / math.Sqrt(square) * x[at][c]
				}
			}
		}
		add := x[t]
		if e.has(name + "res.bias") {
			add = e.linear(x[t], name+"res.weight", name+"res.bias", false)
		}
		for o := range y[t] {
			y[t][o] = max(y[t][o], 0) + add[o]
		}
	}
	return y
}

// TestStoredTwice checks that copies which the released TCN stores are left out, and only those.
func TestStoredTwice(t *testing.T) {
	p := preset(t, "tcn-image")
	w, err := p.Init(p.Config, 1)
	if err != nil {
		t.Fatal(err)
	}
	w["conv.conv_net.3.tcn.0.weight_g"] = w["conv.conv_net.3.conv.weight_g"]
	if err := models.Check(p.Config, w); err != nil {
		t.Error(err)
	}
	w["conv.conv_net.9.tcn.0.weight_g"] = w["conv.conv_net.3.conv.weight_g"]
	if err := models.Check(p.Config, w); err == nil {
		t.Error("a block that is not there is left out")
	}
}

// TestWeightNormOfZero checks that weight norm of a vector of zeros is an error that names the tensor.
func TestWeightNormOfZero(t *testing.T) {
	p := preset(t, "cdil-image")
	w, err := p.Init(p.Config, 1)
	if err != nil {
		t.Fatal(err)
	}
	v := w["conv.conv_net.2.conv.weight_v"]
	clear(tensor.Data[float32](v)[v.Len()/v.Dim(0):][:v.Len()/v.Dim(0)])
	_, err = models.Build(p.Config, w, models.BuildOptions{})
	const want = "tensor conv.conv_net.2.conv.weight_v[1]: expected a vector of another length than 0, by which weight norm divides"
	if err == nil || err.Error() != want {
		t.Errorf("found %v\nwant %s", err, want)
	}
}
