package essm

import (
	"fmt"
	"strings"

	"github.com/essmc/essmc/internal/spell"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
)

// Preset is a published model, untrained: the values of the paper's hyperparameter table (docs/math.md, Presets).
type Preset struct {
	ID     string
	Doc    string
	Config *Config
	Length int         // steps of the task's sequences
	Init   InitOptions // initialization for training
}

// preset is one row of the table. It holds the settings in which presets differ.
type preset struct {
	id, doc                       string
	layers, heads, dModel, dState int
	prenorm                       bool
	encoder                       Encoder
	outputs, length               int
	change                        func(*Preset)
}

func lengths(p *Preset) { p.Config.Decoder.UseLengths = true }

var presets = []preset{
	{"listops", "ListOps: the value of a nested list expression", 6, 4, 256, 256, false, tokens(18), 10, 2000,
		func(p *Preset) {
			lengths(p)
			p.Config.Layer.Bidirectional = false
			p.Config.Layer.PostActivation = "leakyrelu"
			p.Init.C = CFromHiPPO
		}},
	{"text", "Text: sentiment of IMDB reviews, byte by byte", 6, 256, 256, 256, true, tokens(135), 2, 4096, lengths},
	{"retrieval", "Retrieval: whether two papers of the AAN cite each other, byte by byte", 6, 64, 128, 128, true,
		tokens(97), 2, 4000, func(p *Preset) {
			lengths(p)
			d := &p.Config.Decoder
			d.Type, d.NLI, d.Activation = "retrieval", true, "gelu"
		}},
	{"image", "Image: CIFAR-10 in grey, pixel by pixel", 6, 64, 256, 512, false, features(1), 10, 1024, nil},
	{"pathfinder", "Pathfinder: whether two dots are joined, 32 × 32 pixels", 6, 8, 192, 256, true, features(1), 2,
		1024, nil},
	{"pathx", "Path-X: Pathfinder at 128 × 128 pixels", 6, 8, 192, 256, true, features(1), 2, 16384, func(p *Preset) {
		p.Init.DtMin, p.Init.DtMax, p.Init.Scale = 1e-4, 1e-1, 0.0625
	}},
	{"sc10-mfcc", "Speech Commands, ten words, from MFCC features", 4, 32, 128, 128, false, features(20), 10, 161, nil},
	{"sc10", "Speech Commands, ten words, from raw audio at 16 kHz", 6, 32, 128, 128, true, features(1), 10, 16000,
		nil},
	{"sc35", "Speech Commands, 35 words, from raw audio at 16 kHz", 6, 32, 128, 128, false, features(1), 35, 16000,
		nil},
	{"smnist", "MNIST digits, pixel by pixel", 4, 16, 128, 96, true, features(1), 10, 784, nil},
	{"psmnist", "MNIST digits, pixels in a fixed random order", 4, 8, 128, 128, true, features(1), 10, 784, nil},
	{"scifar", "CIFAR-10 in color, pixel by pixel", 6, 64, 256, 512, true, features(3), 10, 1024, nil},
}

func tokens(n int) Encoder   { return Encoder{Type: "embedding", VocabSize: n} }
func features(n int) Encoder { return Encoder{Type: "linear", DInput: n} }

func (r preset) make() Preset {
	c := Default()
	c.Encoder, c.DModel, c.NLayers, c.Prenorm, c.Norm = r.encoder, r.dModel, r.layers, r.prenorm, "batch"
	l := &c.Layer
	l.Heads, l.DState = r.heads, r.dState
	l.Bidirectional, l.ConjSym = true, r.dState > r.heads
	l.Dt, l.D, l.PostActivation = "per_state", "diagonal", "half_glu1"
	c.Decoder = Decoder{Type: "sequence", Mode: "pool", DOutput: r.outputs}
	p := Preset{ID: r.id, Doc: r.doc, Config: c, Length: r.length}
	if r.change != nil {
		r.change(&p)
	}
	return p
}

// Presets returns all presets. Callers may change them.
func Presets() []Preset {
	out := make([]Preset, len(presets))
	for i, r := range presets {
		out[i] = r.make()
	}
	return out
}

// NewPreset returns the preset with the given id.
func NewPreset(id string) (Preset, error) {
	ids := make([]string, len(presets))
	for i, r := range presets {
		if r.id == id {
			return r.make(), nil
		}
		ids[i] = r.id
	}
	hint := ""
	if near := spell.Close(id, ids); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return Preset{}, fmt.Errorf("preset %s: expected one of %s%s", config.Shorten(id), strings.Join(ids, ", "), hint)
}

func init() {
	models.Register(models.Family{Type: Type, Doc: "the deep eSSM of the paper, with heads, causal or bidirectional",
		New: func() models.Config { return Default() },
		Presets: func() []models.Preset {
			var all []models.Preset
			for _, p := range Presets() {
				all = append(all, models.Preset{ID: p.ID, Doc: p.Doc, Config: p.Config, Length: p.Length,
					Init: func(c models.Config, seed uint64) (models.Weights,
						error) {
						return Init(c.(*Config), p.Init, seed)
					}})
			}
			return all
		}})
}
