package s4

import (
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
)

// Type is the model_type of the family.
const Type = "s4d"

var layers = map[string]func() backbone.Layer{"s4": func() backbone.Layer { return newLayer() }}

func init() {
	models.Register(models.Family{Type: Type, Doc: "S4D: diagonal systems of one input and one output for each feature",
		New:     func() models.Config { return backbone.New(Type, layers) },
		Presets: presets})
}

// presets has the sizes of the released example, for pictures as sequences.
func presets() []models.Preset {
	c := backbone.New(Type, layers)
	for _, s := range [][2]string{{"encoder._name_", "linear"}, {"encoder.d_input", "3"}, {"model.d_model", "128"},
		{"model.n_layers", "4"}, {"model.prenorm", "false"}, {"model.residual", "R"}, {"model.norm", "layer"},
		{"model.layer._name_", "s4"}, {"decoder.mode", "pool"}, {"decoder.d_output", "10"}} {
		if err := c.Set(s[0], s[1]); err != nil {
			panic(err) // one of those above is wrong
		}
	}
	return []models.Preset{{ID: "s4d-cifar", Doc: "CIFAR-10 in color, pixel by pixel, with S4D", Config: c, Length: 1024,
		Init: func(c models.Config, seed uint64) (models.Weights, error) {
			return backbone.Init(c.(*backbone.Config), seed)
		}}}
}
