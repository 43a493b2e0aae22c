package checkpoint

import (
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
)

func TestWeightNorm(t *testing.T) {
	const layer = "model.layers.0.layer.output_linear.0."
	v := tensor.FromSlice([]float32{3, 4, 1, -2}, 2, 2)
	g := tensor.FromSlice([]float32{10, 0.7}, 2, 1)
	want := []float32{6, 8, float32(float64(float32(0.7)) / math.Sqrt(5)), float32(-2 * float64(float32(0.7)) / math.Sqrt(5))}
	for _, s := range normSpellings {
		in := map[string]*tensor.Tensor{layer + s[0]: g, layer + s[1]: v, "net.conv.weight_g": g}
		out, err := foldWeightNorm(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) != 2 || out[layer+"weight"] == nil || len(in) != 3 {
			t.Fatalf("%v of %v", out, in)
		}
		for i, x := range tensor.Data[float32](out[layer+"weight"]) {
			if x != want[i] {
				t.Errorf("%s: element %d is %v, expected %v", s[0], i, x, want[i])
			}
		}
		for want, in := range map[string]map[string]*tensor.Tensor{
			"is missing":    {layer + s[1]: v},
			"weight norm":   {layer + s[0]: tensor.FromSlice([]float32{1}, 1, 1), layer + s[1]: v},
			"there is a":    {layer + s[0]: g, layer + s[1]: v, layer + "weight": v},
			"length than 0": {layer + s[0]: g, layer + s[1]: tensor.New(tensor.Float32, 2, 2)},
		} {
			if _, err := foldWeightNorm(nil, in); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("found %v, expected %q", err, want)
			}
		}
	}
	if _, err := foldWeightNorm(nil, map[string]*tensor.Tensor{layer + "weight_g": g, layer + "weight_v": v,
		layer + normSpellings[1][0]: g, layer + normSpellings[1][1]: v}); err == nil {
		t.Error("both spellings are taken")
	}
}

// TestWeightNormConverts converts each layout with weight norm.
func TestWeightNormConverts(t *testing.T) {
	const name = "model.layers.0.layer.output_linear.0.weight"
	for _, of := range []layout{current, older, common} {
		text, w := lightning(of)
		delete(w, name)
		w[name+"_g"], w[name+"_v"] = tensor.New(tensor.Float32, 8, 1), tensor.New(tensor.Float32, 8, 4)
		for i := range 32 {
			tensor.Data[float32](w[name+"_v"])[i] = 1
		}
		if _, err := convertText(t, text, w); err != nil {
			t.Error(err)
		}
	}
}
