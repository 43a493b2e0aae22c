package cpu

import (
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/recurrence"
)

// TestSISO compares systems whose heads have one input and one output with the reference, in all directions, with and
// without state and direct term, at numbers of states and steps around the blocks of kernels.
func TestSISO(t *testing.T) {
	for i, dir := range directions {
		for j, length := range []int{1, 7, 100, 400} {
			for k, n := range []int{1, 7, 8, 12, 64} {
				s := system{batch: 1 + k%2, length: length, ch: 1, heads: 9, n: n, h: 1, m: 1, direction: dir,
					complexB: (i+j+k)%3 == 1, complexC: (i+j+k)%2 == 1,
					d: []string{"", "diagonal", "full"}[(k+length)%3], state: i == 0 && (k+length)%2 == 0}
				g, in := s.graph(t, uint64(k))
				p, err := backend{DefaultCosts()}.compile(g, runtime.Config{Constants: &runtime.Constants{}})
				if err != nil {
					t.Fatal(err)
				}
				_, own := record.Of(p.Steps[0]).Recurrence.(*recurrence.Siso)
				if want := n >= recurrence.SisoLeast || n == 1 && !s.state; own != want {
					t.Errorf("%s: a recurrence of its own: %v, expected %v", s, own, want)
				}
				got, want := run(t, g, runtime.Options{Backend: New(), Threads: 1}, in), truth(t, g, in)
				closeTo(t, s.String(), got, want, 5e-6)
				closeTo(t, "fft "+s.String(), run(t, g, runtime.Options{Backend: New(), Kernel: "fft"}, in), want, 5e-6)
				if three := run(t, g, runtime.Options{Backend: New(), Threads: 3},
					in); !tensor.Equal(got["y"].(*tensor.Tensor), three["y"].(*tensor.Tensor)) {
					t.Errorf("%s: answers with 3 threads differ from those with 1", s)
				}
			}
		}
	}
}

// TestExplainSISO tests a system with the form scan alone, and one for which another form is requested.
func TestExplainSISO(t *testing.T) {
	s := system{batch: 1, length: 1, ch: 1, heads: 4, n: 16, h: 1, m: 1, direction: "forward"}
	g, _ := s.graph(t, 1)
	for kernel, form := range map[string]string{"": "scan", "scan": "scan", "fft": "fft", "direct": "direct",
		"chunked": "chunked"} {
		m, err := runtime.New(g, runtime.Options{Backend: New(), Kernel: kernel})
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Explain(map[string]int64{"B": 1, "L": 256})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].Form != form || got[0].Op != "essm.SSM" || len(got[0].Others) != 3 {
			t.Errorf("kernel %q: %+v", kernel, got)
		}
	}
}
