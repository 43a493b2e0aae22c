package models_test

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/models"
	_ "github.com/essmc/essmc/models/families"
)

func TestParseConfigType(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                     "c: model_type: is missing, expected ",
		`{"model_type": null}`:   "c: model_type: is missing, expected ",
		`{"model_type": 3}`:      "found 3",
		`{"model_type": "esmm"}`: "found esmm",
		`{"model_type": "essm"}`: "c: encoder.type: is missing",
		`{"model_type": "essm", "model_type": "essm"}`: "c: line 1: model_type: is there twice",
	} {
		if _, err := models.ParseConfig([]byte(text), "c"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found %v, expected %s", text, err, want)
		}
	}
}

// TestUnknownType tests the advice for directories of other families.
func TestUnknownType(t *testing.T) {
	for typ, want := range map[string][2]string{
		"bert":   {"", "found bert; export other models to ONNX and give the .onnx file: optimum-cli export onnx --model hub/m OUT, or "},
		"mamba3": {"", "found mamba3; did you mean mamba?; export other models"},
		"esmm":   {"", "found esmm; did you mean essm?"},
		"gpt2":   {"did you mean", "--model hub/m OUT"},
	} {
		_, err := models.ParseConfig([]byte(`{"model_type": "`+typ+`"}`), "hub/m/config.json")
		if err == nil || !strings.Contains(err.Error(), want[1]) || want[0] != "" && strings.Contains(err.Error(), want[0]) {
			t.Errorf("%s: found %v, expected %s", typ, err, want[1])
		}
	}
}

// TestFamilies checks what all families promise.
func TestFamilies(t *testing.T) {
	ids := map[string]bool{}
	for _, f := range models.Families() {
		if c := f.New(); f.Doc == "" || c.Type() != f.Type {
			t.Errorf("%s: described as %q, makes configurations of %q", f.Type, f.Doc, c.Type())
		}
	}
	for _, p := range models.Presets() {
		if ids[p.ID] {
			t.Errorf("two presets %s", p.ID)
		}
		ids[p.ID] = true
		c, err := models.ParseConfig(p.Config.Settings().JSON(), p.ID)
		if err != nil || string(c.Settings().JSON()) != string(p.Config.Settings().JSON()) {
			t.Errorf("%s: its configuration is read as another one (%v)", p.ID, err)
		}
		common := p.Config.Common()
		if common.Input == "" || common.Layers < 1 || common.Width < 1 || common.Outputs < 1 || p.Length < 1 || p.Doc == "" {
			t.Errorf("%s: %+v", p.ID, common)
		}
	}
}
