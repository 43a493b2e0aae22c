package essm

import (
	"bytes"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
)

func TestPresets(t *testing.T) {
	// Counted by hand from the table: encoder, layers × (S·n·(3 + 2h) + D + norm + mixer and gate), last norm, decoder.
	counts := map[string]int{
		"listops": 607754, "text": 837378, "retrieval": 284418, "image": 830986,
		"pathfinder": 527618, "pathx": 527618, "sc10-mfcc": 143242, "sc10": 210698,
		"sc35": 213667, "smnist": 142730, "psmnist": 153354, "scifar": 832010,
	}
	for _, p := range Presets() {
		t.Run(p.ID, func(t *testing.T) {
			n, err := models.Parameters(p.Config, nil)
			if err != nil {
				t.Fatal(err)
			}
			if n != counts[p.ID] {
				t.Errorf("%d parameters, expected %d", n, counts[p.ID])
			}
			again, err := ParseConfig(p.Config.Settings().JSON(), p.ID)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again.Settings().JSON(), p.Config.Settings().JSON()) {
				t.Errorf("written and read, it is\n%s", again.Settings().JSON())
			}
			if p.Length < 1 || p.Doc == "" {
				t.Error("length or description is missing")
			}
			w, err := Init(p.Config, p.Init, 1)
			if err != nil {
				t.Fatal(err)
			}
			g, err := models.Build(p.Config, w, models.BuildOptions{Name: p.ID})
			if err != nil {
				t.Fatal(err)
			}
			if err := ir.Verify(g); err != nil {
				t.Fatal(err)
			}
			if got := g.Input(models.StateIn) != nil; got != (p.ID == "listops") {
				t.Errorf("takes a state: %v", got)
			}
		})
	}
}

func TestNewPreset(t *testing.T) {
	p, err := NewPreset("sc35")
	if err != nil || p.ID != "sc35" {
		t.Fatal(p, err)
	}
	p.Config.DModel = 1 // the caller's own
	if q, err := NewPreset("sc35"); err != nil || q.Config.DModel != 128 {
		t.Error("presets are shared", err)
	}
	_, err = NewPreset("sc36")
	if err == nil || !strings.HasSuffix(err.Error(), "did you mean sc35?") || !strings.Contains(err.Error(), "psmnist") {
		t.Errorf("error %v", err)
	}
}
