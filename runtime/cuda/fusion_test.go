package cuda_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cuda"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/internal/record"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/lowering"
)

// Triple and Plus are fused if a Plus reads a Triple, at any position; the kernel writes both results.
func init() {
	testOps["Triple"] = testOp("Triple", []string{"x:T[N]"}, func(x [][]float32, y []float32) {
		each(y, func(i int) float32 { return 3 * x[0][i] })
	})
	testOps["Plus"] = testOp("Plus", []string{"a:T[N]", "b:T[N]"}, func(x [][]float32, y []float32) {
		each(y, func(i int) float32 { return x[0][i] + x[1][i] })
	})
	record.Register(
		record.Record{Op: "test.Triple", Build: func(b *record.Builder, s *lowering.Step) bool {
			b.Launch(kernel.NewCall(code("Triple", 3), driver.Dim{X: 1, Y: 1, Z: 1}, kernel.Ptr(b.Buffer(s.Out[0])),
				kernel.Ptr(b.Buffer(s.In[0])), kernel.U64(b.Bytes(s.In[0])/4)))
			return true
		}},
		record.Record{Op: "test.Plus", Build: func(b *record.Builder, s *lowering.Step) bool {
			b.Launch(kernel.NewCall(code("Plus", 4), driver.Dim{X: 1, Y: 1, Z: 1}, kernel.Ptr(b.Buffer(s.Out[0])),
				kernel.Ptr(b.Buffer(s.In[0])), kernel.U64(b.Bytes(s.In[0])/4), kernel.Ptr(b.Buffer(s.In[1]))))
			return true
		}})
	record.RegisterFusion(1, record.Fusion{Name: "triple and plus", Build: func(b *record.Builder,
		steps []*lowering.Step) []*lowering.Step {
		a := steps[0]
		if a.Node.Op != testOps["Triple"] {
			return nil
		}
		for _, p := range steps[1:] {
			if p.Node.Op != testOps["Plus"] || p.In[0] != a.Out[0] {
				continue
			}
			tripled := kernel.Ptr(0)
			if !b.Binding.Inside(a.Out[0], []*lowering.Step{a, p}) {
				tripled = kernel.Ptr(b.Buffer(a.Out[0]))
			}
			b.Launch(kernel.NewCall(code("Fused", 5), driver.Dim{X: 1, Y: 1, Z: 1}, kernel.Ptr(b.Buffer(p.Out[0])),
				kernel.Ptr(b.Buffer(a.In[0])), kernel.U64(b.Bytes(a.In[0])/4), kernel.Ptr(b.Buffer(p.In[1])), tripled))
			return []*lowering.Step{a, p}
		}
		return nil
	}})
}

// A fusion runs in the place of its last step. It is dropped where another step reads a result of its before.
func TestFusion(t *testing.T) {
	for _, test := range []struct{ text, launches string }{
		{"a = Triple x; y = Plus a z", "Fused"},
		{"a = Triple x; d = Double z; y = Plus a d", "Double Fused"},
		{"a = Triple x; d = Double a; y = Plus a d", "Triple Double Plus"},
		{"a = Triple x; e = Plus a z; d = Double a; y = Sum e d", "Fused Double Sum"},
		{"a = Triple x; d = Double z; b = Triple d; u = Plus b x; y = Plus a u", "Double Fused Fused"},
		{"a = Triple x; b = Triple z; u = Plus a b; y = Plus b u", "Triple Fused Plus"},
	} {
		n := tested()
		var launches []string
		for name, k := range n.kernels {
			n.kernels[name] = func(n *null, params []byte, grid driver.Dim) error {
				launches = append(launches, strings.TrimPrefix(name, "test_"))
				return k(n, params, grid)
			}
		}
		g := chain(t, test.text, "y")
		m := load(t, n, cuda.Options{}, g, runtime.Options{})
		in := data{"x": numbers(6, 1), "z": numbers(6, 2)}
		got, err := m.NewSession().Run(context.Background(), in)
		if err != nil || !equal(got, answers(t, g, in)) {
			t.Errorf("%s: found %v, %v", test.text, got, err)
		}
		if !slices.Equal(launches, strings.Fields(test.launches)) {
			t.Errorf("%s: found %v, expected %v", test.text, launches, test.launches)
		}
		text, err := m.Lowered(map[string]int64{"N": 6})
		if err != nil || strings.Contains(test.launches, "Fused") != strings.Contains(text, "triple and plus: test_Fused") {
			t.Errorf("found %v\n%s", err, text)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
