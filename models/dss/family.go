package dss

import (
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
)

func newConfig() *backbone.Config {
	return backbone.NewOlder(Type, map[string]func() backbone.Layer{"dss": func() backbone.Layer { return newLayer() }})
}

func init() {
	models.Register(models.Family{Type: Type, Doc: "DSS: diagonal systems of one input and one output, whose states " +
		"all features share",
		New: func() models.Config { return newConfig() }, Presets: presets})
}

// presets has a model for the task Image of the Long Range Arena.
func presets() []models.Preset {
	return []models.Preset{backbone.Preset("dss-image", "CIFAR-10 in grey, pixel by pixel, with DSS", 1024, newConfig(), `{
			"encoder": {"_name_": "linear", "d_input": 1},
			"model": {"d_model": 512, "n_layers": 6, "prenorm": false, "residual": "R", "norm": "batch", "transposed": true,
				"layer": {"_name_": "dss", "version": "exp", "bidirectional": true, "postact": "glu", "sep_dt_re_im": true}},
			"decoder": {"mode": "pool", "d_output": 10}}`)}
}
