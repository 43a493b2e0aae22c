package s4

import (
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
)

// Types of models. Both names are right for both: the key mode of the layers decides.
const (
	Type     = "s4d" // diagonal systems
	FullType = "s4"  // diagonal plus low-rank systems
)

var layers = map[string]func() backbone.Layer{"s4": func() backbone.Layer { return newLayer() }}

func init() {
	models.Register(models.Family{Type: Type, Doc: "S4D: diagonal systems of one input and one output for each feature",
		New:     func() models.Config { return backbone.New(Type, layers) },
		Presets: presets})
	models.Register(models.Family{Type: FullType,
		Doc:     "S4: diagonal plus low-rank systems of one input and one output for each feature",
		New:     func() models.Config { return backbone.New(FullType, layers) },
		Presets: fullPresets})
	models.Register(models.Family{Type: LiquidType, Doc: "Liquid-S4: S4 with products of the input",
		New: func() models.Config { return newLiquidModel() }, Presets: liquidPresets})
	models.Register(models.Family{Type: MinimalType, Doc: "the standalone S4D, in the model of its example",
		New:     func() models.Config { return newMinimal() },
		Presets: minimalPresets})
}

// minimalPresets has the released example.
func minimalPresets() []models.Preset {
	c := newMinimal()
	c.DInput, c.DOutput, c.DModel, c.NLayers = 3, 10, 128, 4
	return []models.Preset{{ID: "s4d-example", Doc: "CIFAR-10 in color, pixel by pixel, with the standalone S4D",
		Config: c, Length: 1024,
		Init: func(c models.Config, seed uint64) (models.Weights, error) { return InitMinimal(c.(*Minimal), seed) }}}
}

// presets has a small model for the task of the preset scifar, and the paper's for Speech Commands.
func presets() []models.Preset {
	return []models.Preset{
		backbone.Preset("s4d-cifar", "CIFAR-10 in color, pixel by pixel, with S4D", 1024, backbone.New(Type, layers), `{
			"encoder": {"_name_": "linear", "d_input": 3},
			"model": {"d_model": 128, "n_layers": 4, "prenorm": false, "residual": "R", "norm": "layer", "layer": {"_name_": "s4"}},
			"decoder": {"mode": "pool", "d_output": 10}}`),
		backbone.Preset("s4d-sc35", "Speech Commands, 35 words, with S4D", 16000, backbone.New(Type, layers), `{
			"encoder": {"_name_": "linear", "d_input": 1},
			"model": {"d_model": 128, "n_layers": 6, "prenorm": true, "residual": "R", "norm": "batch",
				"layer": {"_name_": "s4", "n_ssm": 2, "bidirectional": true}},
			"decoder": {"mode": "pool", "d_output": 35}}`),
	}
}

// fullPresets has the model of Gu, Gupta, Goel and Ré (2022) for Speech Commands.
func fullPresets() []models.Preset {
	return []models.Preset{backbone.Preset("s4-sc35", "Speech Commands, 35 words, with S4", 16000,
		backbone.New(FullType, layers), `{
			"encoder": {"_name_": "linear", "d_input": 1},
			"model": {"d_model": 128, "n_layers": 6, "prenorm": true, "residual": "R", "norm": "batch",
				"layer": {"_name_": "s4", "mode": "nplr", "init": "legs", "n_ssm": 2, "bidirectional": true}},
			"decoder": {"mode": "pool", "d_output": 35}}`)}
}

func newLiquidModel() *backbone.Config {
	return backbone.New(LiquidType,
		map[string]func() backbone.Layer{LiquidType: func() backbone.Layer { return newLiquid() }})
}

// liquidPresets has a small model for the task of the preset scifar.
func liquidPresets() []models.Preset {
	return []models.Preset{backbone.Preset("liquid-s4-cifar", "CIFAR-10 in color, pixel by pixel, with Liquid-S4", 1024,
		newLiquidModel(), `{
			"encoder": {"_name_": "linear", "d_input": 3},
			"model": {"d_model": 128, "n_layers": 4, "prenorm": false, "residual": "R", "norm": "batch", "transposed": true,
				"layer": {"_name_": "liquid-s4", "postact": "glu", "liquid_kernel": "polyb", "bidirectional": true}},
			"decoder": {"mode": "pool", "d_output": 10}}`)}
}
