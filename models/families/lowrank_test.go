package families_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// TestLowRankDiagonal runs S4 on both sides of the condition number up to which its systems become diagonal.
func TestLowRankDiagonal(t *testing.T) {
	for _, c := range []struct {
		set      string
		diagonal bool
	}{
		{"model.layer.init=fout model.layer.d_state=16", true},
		{"model.layer.init=fout model.layer.d_state=32 model.layer.n_ssm=2", true},
		{"model.layer.init=legt model.layer.rank=2 model.layer.d_state=4 model.layer.bidirectional=false", true},
		{"model.layer.init=legs model.layer.d_state=4", true},
		{"model.layer.init=legs model.layer.d_state=8", false},
		{"model.layer.init=legs model.layer.d_state=16", false},
		{"model.layer.init=fout model.layer.d_state=16 model.layer.l_max=9", false},
	} {
		t.Run(c.set, func(t *testing.T) {
			p := preset(t, "s4-sc35")
			config := p.Config
			changes := "model.d_model=6 model.n_layers=2 model.layer.l_max=null model.layer.dt_min=0.01 " + c.set
			for _, kv := range strings.Fields(changes) {
				k, v, _ := strings.Cut(kv, "=")
				if err := config.Settings().Set(k, v); err != nil {
					t.Fatal(err)
				}
			}
			if err := config.Validate(); err != nil {
				t.Fatal(err)
			}
			w, err := p.Init(config, 1)
			if err != nil {
				t.Fatal(err)
			}
			g, err := models.Build(config, w, models.BuildOptions{})
			if err != nil {
				t.Fatal(err)
			}
			m, err := open.Graph(g, "s4", open.Options{})
			if err != nil {
				t.Fatal(err)
			}
			compiled, err := m.Graph()
			if err != nil {
				t.Fatal(err)
			}
			low := slices.ContainsFunc(compiled.Nodes, func(n *ir.Node) bool { return n.Op.Name == "DPLRScan" })
			if low == c.diagonal {
				t.Fatalf("compiled to diagonal systems: %v, expected %v", !low, c.diagonal)
			}
			in := random(t, m, 2, 301)
			wide := runtime.Options{Backend: ref.New(), Precision: tensor.Float64}
			truth := run(t, m.CompileSource, wide, in)
			if d := far(run(t, m.Compile, wide, in), truth); d > 1e-9 {
				t.Errorf("in float64 it is %.2g off", d)
			}
			for _, kernel := range []string{"", "scan", "chunked", "fft", "direct"} {
				if kernel == "chunked" && noChunks(t, m) {
					continue
				}
				d := far(run(t, m.Compile, runtime.Options{Backend: cpu.New(), Kernel: kernel}, in), truth)
				if d > 1e-5 {
					t.Errorf("on the CPU, form %q, it is %.2g off", kernel, d)
				}
			}
			if !config.Common().Streams {
				return
			}
			if err := stream(t, m, in, truth, 7, 1e-5); err != nil {
				t.Error(err)
			}
		})
	}
}
