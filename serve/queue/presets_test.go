package queue

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	_ "github.com/essmc/essmc/models/families"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// largest is the number of bytes of the weights of presets that TestPresets runs.
const largest = 3 << 20

// few are the presets that it runs with -short.
var few = []string{"smnist", "s5-smnist", "ckconv-smnist", "sc10-mfcc"}

// filled makes the required inputs of a model, of one sample and 6 steps: noise, or tokens.
func filled(t *testing.T, m *runtime.Model, seed uint64) map[string]tensor.Datum {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	in := map[string]tensor.Datum{}
	dims := map[string]int64{}
	for _, name := range m.Graph().Symbols() {
		dims[name] = 6
	}
	dims[m.Meta()[ir.MetaBatch]] = 1
	for _, p := range m.Inputs() {
		if p.Optional {
			continue
		}
		tt := p.Type.(*ir.TensorType)
		shape := make([]int, len(tt.Shape))
		for i, d := range tt.Shape {
			n, err := d.Eval(dims)
			if err != nil {
				t.Fatal(err)
			}
			shape[i] = int(n)
		}
		x := tensor.New(tt.Elem, shape...)
		switch tt.Elem {
		case tensor.Float32:
			for i := range tensor.Data[float32](x) {
				tensor.Data[float32](x)[i] = r.Float32()*2 - 1
			}
		case tensor.Int64:
			for i := range tensor.Data[int64](x) {
				tensor.Data[int64](x)[i] = r.Int64N(8)
			}
		}
		in[p.Name] = x
	}
	return in
}

// The requests of every preset get the same bits in a batch of 1, 2, 7 and 32 as by themselves.
func TestPresets(t *testing.T) {
	joined, least := 0, 10
	short := testing.Short() || race.Enabled
	if short {
		least = len(few)
	}
	for _, p := range models.Presets() {
		if short && !slices.Contains(few, p.ID) {
			continue
		}
		w, err := p.Init(p.Config, 1)
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, x := range w {
			size += len(x.Bytes())
		}
		if size > largest {
			continue
		}
		g, err := models.Build(p.Config, w, models.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := passes.Optimize(g); err != nil {
			t.Fatal(err)
		}
		m, err := runtime.New(g, runtime.Options{Backend: cpu.New(), Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		session := m.NewSession()
		if _, err := session.Run(t.Context(), filled(t, m, 0)); err != nil {
			t.Logf("%s does not run 6 steps: %v", p.ID, err)
			m.Close()
			continue
		}
		q, err := New(m, Options{Delay: 5 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 2, 7, 32} {
			var wg sync.WaitGroup
			for i := range n {
				in := filled(t, m, uint64(i))
				want, err := session.Run(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					if got, err := q.Run(t.Context(), in, 0); err != nil || !equal(got.Out, want) {
						t.Errorf("%s: request %d of %d has other answers than by itself, %v", p.ID, i, n, err)
					}
				})
			}
			wg.Wait()
		}
		ok, why := q.Joined()
		t.Logf("%s: %d bytes, joined %v %s", p.ID, size, ok, why)
		if ok {
			joined++
		}
		q.Close()
		m.Close()
	}
	if joined < least {
		t.Errorf("requests of only %d presets are joined", joined)
	}
}
