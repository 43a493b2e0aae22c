package open_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/ref"
)

// TestWeights reads files with the content of parameters: of other floating point types, and with every fault.
func TestWeights(t *testing.T) {
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	x := b.Input("x", ir.Tensor(tensor.Float32, "B", 2))
	w, k := b.Parameter("layer.weight", tensor.New(tensor.Float32, 2, 2)), b.Parameter("layer.bias", tensor.New(tensor.Float32, 2))
	b.Output("y", b.Op("", "Add", []*ir.Value{b.Op("", "MatMul", []*ir.Value{x, w}), k}))
	b.Graph().Meta[ir.MetaSettings] = `{"length": [7], "again": "layer.bias"}`
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	m, err := runtime.New(g, runtime.Options{Backend: ref.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	weight, bias := tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2), tensor.FromSlice([]float32{0.5, -1}, 2)
	in := func(v *tensor.Tensor, d tensor.DType) *tensor.Tensor {
		u, err := v.Convert(d, false)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	plain := map[string]*tensor.Tensor{"layer.weight": weight, "layer.bias": bias, "length": tensor.FromSlice([]int64{7}, 1)}
	for _, c := range []struct {
		name   string
		change map[string]*tensor.Tensor // nil: is taken away
		err    string                    // "": none
	}{
		{"plain", nil, ""},
		{"float16", map[string]*tensor.Tensor{"layer.weight": in(weight, tensor.Float16)}, ""},
		{"bfloat16", map[string]*tensor.Tensor{"layer.weight": in(weight, tensor.BFloat16)}, ""},
		{"float64", map[string]*tensor.Tensor{"layer.weight": in(weight, tensor.Float64)}, ""},
		{"wrapped", map[string]*tensor.Tensor{"layer.weight": nil, "layer.bias": nil, "length": nil, "module.layer.weight": weight,
			"module.layer.bias": bias, "module.length": plain["length"], "module.norm.num_batches_tracked": plain["length"]}, ""},
		{"again", map[string]*tensor.Tensor{"again": tensor.FromSlice([]float32{0.5, -1}, 2)}, ""},
		{"wide", map[string]*tensor.Tensor{"layer.bias": tensor.FromSlice([]float64{0, 1e60}, 2)},
			"parameter layer.bias: element 1: expected a number in the range of float32, found 1e+60"},
		{"missing", map[string]*tensor.Tensor{"layer.weight": nil},
			"parameter layer.weight: is missing (the model has 2 parameters, the file 2 tensors)"},
		{"renamed", map[string]*tensor.Tensor{"layer.weight": nil, "layer.weights": weight},
			"parameter layer.weight: is missing (the model has 2 parameters, the file 3 tensors); there is layer.weights"},
		{"more", map[string]*tensor.Tensor{"other": bias},
			"tensor other: is not a parameter of the model (the model has 2 parameters, the file 4 tensors)"},
		{"shape", map[string]*tensor.Tensor{"layer.bias": tensor.New(tensor.Float32, 3)},
			"parameter layer.bias: expected float32[2], found float32[3]"},
		{"type", map[string]*tensor.Tensor{"layer.bias": tensor.New(tensor.Int32, 2)},
			"parameter layer.bias: expected float32[2], found int32[2]"},
		{"setting", map[string]*tensor.Tensor{"length": tensor.FromSlice([]int64{8}, 1)},
			"tensor length: the graph follows from it: expected [7], with which the model was compiled, found [8]"},
		{"no setting", map[string]*tensor.Tensor{"length": nil}, "tensor length: is missing, expected [7]"},
		{"not again", map[string]*tensor.Tensor{"again": weight},
			"tensor again: expected the numbers of layer.bias, which the configuration ties it to, found others"},
	} {
		all := maps.Clone(plain)
		for name, v := range c.change {
			if all[name] = v; v == nil {
				delete(all, name)
			}
		}
		path := filepath.Join(t.TempDir(), "new.safetensors")
		if err := safetensors.WriteFile(path, all, nil); err != nil {
			t.Fatal(err)
		}
		got, err := open.Weights(path, m, open.Options{})
		switch {
		case c.err != "" && (err == nil || !strings.HasSuffix(err.Error(), "new.safetensors: "+c.err)):
			t.Errorf("%s: error %v, expected %s", c.name, err, c.err)
		case c.err == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.err == "":
			if !tensor.Equal(got["layer.weight"].(*tensor.Tensor), weight) || !tensor.Equal(got["layer.bias"].(*tensor.Tensor), bias) {
				t.Errorf("%s: found %v", c.name, got)
			}
			if err := m.Set().Replace(t.Context(), got); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// TestDirectoryParameters selects tensors of a model directory by their names.
func TestDirectoryParameters(t *testing.T) {
	all := models.Presets()
	p := all[slices.IndexFunc(all, func(p models.Preset) bool { return p.ID == "lstm-smnist" })]
	w, err := p.Init(p.Config, 1)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := checkpoint.WriteDir(dir, p.Config, w); err != nil {
		t.Fatal(err)
	}
	m, err := open.Load(dir, open.Options{Parameters: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	content, err := open.Weights(dir, m, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(content) != len(w) || len(content) != len(m.Parameters()) {
		t.Errorf("%d tensors for %d parameters", len(content), len(m.Parameters()))
	}
	if err := m.Set().Replace(t.Context(), content); err != nil {
		t.Error(err)
	}
	if _, err := open.File(dir, open.Options{Parameters: []string{"decoder.*", "none.of.it"}}); err == nil ||
		!strings.Contains(err.Error(), `"none.of.it"`) || !strings.Contains(err.Error(), "tensors of the checkpoint") {
		t.Errorf("a pattern that selects nothing: error %v", err)
	}
}
