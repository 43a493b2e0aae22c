package command

import (
	"testing"

	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu"
)

// The working memory that is planned is that which a session holds, also where parts of it are planned before the whole.
func TestWorkingMemory(t *testing.T) {
	for name, text := range map[string]string{
		"plain": `g (float[N,64] x) => (y) { a = Exp (x) b = MatMul (x, a) y = Softmax (b) }`,
		"loop": `g (float[N,N] x) => (y) <int64 m = {3}> {
			a = Exp (x)
			y = Loop (m, "", a) <body: graph = step (int64 t, bool c, float[N,N] p) => (bool d, float[N,N] q) {
				d = Identity (c)
				r = MatMul (p, x)
				q = Softmax (r)
			}>
		}`,
		"tables": `g (float[N,64] x, int64[N,64] i) => (y) {
			a = Abs (x)
			b = GatherElements <axis: int = 1> (a, i)
			y = Softmax (b)
		}`,
	} {
		g, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 24]>`+text), "text", ops.Default,
			irtext.Options{})
		if err != nil {
			t.Fatal(err)
		}
		dims := map[string]int64{"N": 64}
		if name == "tables" {
			dims["N"] = 1 << 13 // 8 MiB of them
		}
		planned, err := workingMemory(g, dims, nil)
		if err != nil {
			t.Fatal(err)
		}
		m, err := runtime.New(g, runtime.Options{Backend: cpu.New()})
		if err != nil {
			t.Fatal(err)
		}
		s := m.NewSession()
		if err := s.BindShape(dims); err != nil {
			t.Fatal(err)
		}
		if held := s.Memory(); held != planned || held == 0 {
			t.Errorf("%s: %d bytes are planned, a session holds %d", name, planned, held)
		}
	}
}
