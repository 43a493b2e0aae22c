package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// model is a deep eSSM as `essmc init` makes it, with changes as by `--set`, in the forms of the contenders.
type model struct {
	name   string
	dir    string // config.json and model.safetensors
	preset essm.Preset
	graph  *ir.Graph // after the passes
	e      *env
}

// newModel makes a model. set holds keys and values, as in {"layer.bidirectional", "false"}.
func newModel(e *env, id string, set ...[2]string) (*model, error) {
	p, err := essm.NewPreset(id)
	if err != nil {
		return nil, err
	}
	name := id
	for _, s := range set {
		if err := p.Config.Settings().Set(s[0], s[1]); err != nil {
			return nil, err
		}
		name += "," + s[0] + "=" + s[1]
	}
	if err := p.Config.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	w, err := essm.Init(p.Config, p.Init, 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m := &model{name: name, preset: p, dir: filepath.Join(e.work, "models", name), e: e}
	if err := os.MkdirAll(m.dir, 0o777); err != nil {
		return nil, err
	}
	if err := checkpoint.WriteDir(m.dir, p.Config, w); err != nil {
		return nil, err
	}
	opened, err := open.File(m.dir, open.Options{})
	if err != nil {
		return nil, err
	}
	m.graph, err = opened.Graph()
	return m, err
}

// input makes samples of some steps: numbers between -1 and 1, or tokens. It also writes them to a file for the peers.
func (m *model) input(batch, steps int) (x *tensor.Tensor, file string, err error) {
	e := m.preset.Config.Encoder
	r := noise(1)
	if e.Type == "embedding" {
		x = tensor.New(tensor.Int64, batch, steps)
		for i := range tensor.Data[int64](x) {
			tensor.Data[int64](x)[i] = int64(r()>>4) % int64(e.VocabSize)
		}
	} else {
		width := m.preset.Config.DModel
		if e.Type == "linear" {
			width = e.DInput
		}
		x = random(r, batch, steps, width)
	}
	file = fmt.Sprintf("%s-%dx%d.npy", m.dir, batch, steps)
	return x, file, arrays.Write(file, x)
}

// noise returns a sequence of 24-bit numbers that depends on the seed only.
func noise(seed uint32) func() uint32 {
	return func() uint32 {
		seed = seed*1664525 + 1013904223
		return seed >> 8
	}
}

// random returns a tensor of numbers between -1 and 1.
func random(r func() uint32, shape ...int) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape...)
	for i := range tensor.Data[float32](t) {
		tensor.Data[float32](t)[i] = float32(r())/(1<<23) - 1
	}
	return t
}

// ours is a graph on this project's CPU backend, with inputs.
type ours struct {
	model   *runtime.Model
	session *runtime.Session
	in, out map[string]tensor.Datum
}

// newOurs prepares a graph and runs it once.
func newOurs(ctx context.Context, g *ir.Graph, in map[string]tensor.Datum, o runtime.Options) (*ours, error) {
	o.Backend = cpu.New()
	m, err := runtime.New(g, o)
	if err != nil {
		return nil, err
	}
	s := &ours{model: m, session: m.NewSession(), in: in}
	if s.out, err = s.session.Run(ctx, in); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// answers returns the names of a model's outputs without the state after the last step, which torch's modules do not
// compute for whole sequences.
func answers(g *ir.Graph) []string {
	var names []string
	for _, v := range g.Outputs {
		if v.Name != models.StateOut {
			names = append(names, v.Name)
		}
	}
	return names
}

func (s *ours) close() {
	_ = s.session.Close()
	_ = s.model.Close()
}

// contender measures runs into existing outputs.
func (s *ours) contender(ctx context.Context, name string) contender {
	return contender{name: name, run: repeat(func() error { return s.session.RunInto(ctx, s.in, s.out) })}
}

// inputName returns the name of the model's first input.
func (m *model) inputName() string { return m.graph.Inputs[0].Name }

// floor returns the model's dense products for a number of rows, in the syntax of the peer in C: B u and C x by heads,
// unless heads are so small (4 and less) that these are no products of matrices; then mixers and gates.
func (m *model) floor(rows int) []string {
	c := m.preset.Config
	h, heads, states := c.DModel, c.Layer.Heads, c.Layer.DState
	var words []string
	add := func(count, n, k int) { words = append(words, fmt.Sprintf("%d:%d:%d:%d", count, rows, n, k)) }
	for range c.NLayers {
		if h/heads > 4 {
			add(heads, states/heads, h/heads)
			add(heads, h/heads, states/heads)
		}
		if heads > 1 {
			add(1, h, h)
		}
		for _, a := range []string{c.Layer.Activation, c.Layer.PostActivation} {
			if strings.HasPrefix(a, "half_glu") {
				add(1, h, h)
			}
			if a == "full_glu" {
				add(1, 2*h, h)
			}
		}
	}
	return words
}

// floorLayouts returns the layouts of the products of heads: side by side, as in the activations of a step, or each in
// its own matrix.
func (m *model) floorLayouts() []string {
	if c := m.preset.Config; c.Layer.Heads > 1 && c.DModel/c.Layer.Heads > 4 {
		return []string{"product", "apart"}
	}
	return []string{"product"}
}

// floorFlops returns the arithmetic operations of such a list.
func floorFlops(words []string) float64 {
	sum := 0.0
	for _, w := range words {
		var count, rows, n, k float64
		if _, err := fmt.Sscanf(strings.ReplaceAll(w, ":", " "), "%g %g %g %g", &count, &rows, &n, &k); err == nil {
			sum += 2 * count * rows * n * k
		}
	}
	return sum
}
