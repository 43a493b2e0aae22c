package families_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/essmc/essmc/frontend/checkpoint"
	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/passtest"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
	"github.com/essmc/essmc/runtime/ref"
)

// TestParameters builds each reference case with all its tensors as parameters. The source computes the same, bit by bit,
// and so do the passes' graphs to the tolerance of the case. The operators that remain on values that vary are the same.
func TestParameters(t *testing.T) { references(t, parameters) }

func parameters(t *testing.T, dir string) {
	c, w, err := checkpoint.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	in := inputs(t, dir)
	truth, bound := truth(t, dir)
	all := func(string) bool { return true }
	fixed, settled := build(t, c, w, nil), build(t, c, w, all)
	wanted := 0
	specs, err := c.Specs(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		p := settled.Parameter(s.Name)
		switch {
		case s.Int:
			if p != nil || !strings.Contains(settled.Meta[ir.MetaSettings], fmt.Sprintf("%q:", s.Name)) {
				t.Errorf("%s: a parameter %v, settings %s", s.Name, p != nil, settled.Meta[ir.MetaSettings])
			}
			continue
		case p == nil || p.Init != w[s.Name]:
			t.Errorf("%s: no parameter", s.Name)
		}
		wanted++
	}
	if len(settled.Parameters) != wanted {
		t.Errorf("%d parameters, expected %d", len(settled.Parameters), wanted)
	}
	of := func(g *ir.Graph, o runtime.Options) *tensor.Tensor {
		t.Helper()
		return run(t, func(o runtime.Options) (*runtime.Model, error) { return runtime.New(g, o) }, o, in)
	}
	for _, p := range []tensor.DType{tensor.Float32, tensor.Float64} {
		o := runtime.Options{Backend: ref.New(), Precision: p}
		if got, want := of(settled, o), of(fixed, o); !tensor.Equal(got, want) {
			t.Errorf("the source in %v: %.2g off", p, far(got, want))
		}
	}
	fixed, settled = portable(t, fixed), portable(t, settled)
	for _, b := range []runtime.Backend{ref.New(), cpu.New()} {
		if got := of(settled, runtime.Options{Backend: b}); far(got, truth) > bound {
			t.Errorf("after the passes, on %s: %.2g off", b.Name(), far(got, truth))
		}
	}
	if d := passtest.Differences(passtest.Varying(settled), passtest.Varying(fixed)); d != "" {
		t.Errorf("operators on values that vary: %s", d)
	}
	swapped(t, settled, c, w, in, 2*bound)
}

// swapped replaces the parameters of a compiled graph by those of another file. The answers must then be those of a model
// that was built with these: with the same parameters bit by bit, with constants to the tolerance.
func swapped(t *testing.T, compiled *ir.Graph, c models.Config, w models.Weights, in map[string]tensor.Datum, bound float64) {
	t.Helper()
	other := models.Weights{}
	for name, v := range w {
		other[name] = v
		if v.DType() == tensor.Float32 {
			x := tensor.New(tensor.Float32, v.Shape()...)
			for i, e := range tensor.Data[float32](v) {
				tensor.Data[float32](x)[i] = e * float32(1+0.02*math.Sin(float64(i)))
			}
			other[name] = x
		}
	}
	dir := t.TempDir()
	if err := checkpoint.WriteDir(dir, c, other); err != nil {
		t.Fatal(err)
	}
	want := portable(t, build(t, c, other, nil))
	same := portable(t, build(t, c, other, func(string) bool { return true }))
	for _, b := range []runtime.Backend{ref.New(), cpu.New()} {
		prepare := func(g *ir.Graph, change func(m *runtime.Model)) *tensor.Tensor {
			return run(t, func(o runtime.Options) (*runtime.Model, error) {
				m, err := runtime.New(g, o)
				if err == nil && change != nil {
					change(m)
				}
				return m, err
			}, runtime.Options{Backend: b}, in)
		}
		got := prepare(compiled, func(m *runtime.Model) {
			content, err := open.Weights(filepath.Join(dir, "model.safetensors"), m, open.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Set().Replace(t.Context(), content); err != nil {
				t.Fatal(err)
			}
		})
		if again := prepare(same, nil); !tensor.Equal(got, again) {
			t.Errorf("on %s: with other content %.2g off a model that was built with it", b.Name(), far(got, again))
		}
		if b.Name() == "cpu" {
			whileRunning(t, compiled, filepath.Join(dir, "model.safetensors"), in, got)
		}
		if constant := prepare(want, nil); far(got, constant) > bound {
			t.Errorf("on %s: with other content %.2g off a model of constants", b.Name(), far(got, constant))
		}
	}
}

// whileRunning replaces the parameters of a compiled graph by those of a file and back, while other goroutines run it. Each
// answer must be that of one content, bit by bit.
func whileRunning(t *testing.T, compiled *ir.Graph, file string, in map[string]tensor.Datum, after *tensor.Tensor) {
	t.Helper()
	m, err := runtime.New(compiled, runtime.Options{Backend: cpu.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	content, err := open.Weights(file, m, open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]tensor.Datum{}
	for _, p := range compiled.Parameters {
		own[p.Name] = p.Init
	}
	answer := func() (*tensor.Tensor, error) {
		out, err := m.NewSession().Run(t.Context(), in)
		if err != nil {
			return nil, err
		}
		return out[models.Output].(*tensor.Tensor), nil
	}
	before, err := answer()
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := answer()
				if err != nil || !tensor.Equal(got, before) && !tensor.Equal(got, after) {
					t.Errorf("while its parameters are replaced, a model answers as with neither content (%v)", err)
					return
				}
			}
		})
	}
	for range 3 {
		for _, next := range []map[string]tensor.Datum{content, own} {
			if err := m.Set().Replace(t.Context(), next); err != nil {
				t.Error(err)
			}
		}
	}
	close(done)
	group.Wait()
	if got, err := answer(); err != nil || !tensor.Equal(got, before) {
		t.Errorf("with its own content again, a model answers as with another one (%v)", err)
	}
}

func build(t *testing.T, c models.Config, w models.Weights, selected func(string) bool) *ir.Graph {
	t.Helper()
	g, err := models.Build(c, w, models.BuildOptions{Parameters: selected})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func portable(t *testing.T, g *ir.Graph) *ir.Graph {
	t.Helper()
	g = g.Clone()
	if err := passes.Optimize(g); err != nil {
		t.Fatal(err)
	}
	return g
}
