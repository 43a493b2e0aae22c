package cpu

import (
	"context"
	"fmt"
	"testing"

	. "github.com/essmc/essmc/runtime/cpu/internal/cputest"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/recurrence"
)

// TestSISO compares systems whose heads have one input and one output with the reference, in all forms and directions,
// with and without state and direct term, at numbers of states and steps around the blocks of kernels.
func TestSISO(t *testing.T) {
	for i, dir := range Directions {
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
				want := Truth(t, g, in)
				for _, form := range append([]string{""}, runtime.Kernels()...) {
					got := Run(t, g, runtime.Options{Backend: New(), Kernel: form, Threads: 1}, in)
					CloseTo(t, form+" "+s.String(), got, want, 5e-6)
					on.Parameters(t, form+" "+s.String(), g, in, runtime.Options{Kernel: form})
					if three := Run(t, g, runtime.Options{Backend: New(), Kernel: form, Threads: 3},
						in); !tensor.Equal(got["y"].(*tensor.Tensor), three["y"].(*tensor.Tensor)) {
						t.Errorf("%s %s: answers with 3 threads differ from those with 1", form, s)
					}
				}
			}
		}
	}
}

// TestExplainSISO tests the form that is chosen for a short system, and those that are requested.
func TestExplainSISO(t *testing.T) {
	s := system{batch: 1, length: 1, ch: 1, heads: 4, n: 16, h: 1, m: 1, direction: "forward"}
	g, _ := s.graph(t, 1)
	for kernel, form := range map[string]string{"": "scan", "scan": "scan", "fft": "fft", "direct": "direct",
		"chunked": "chunked"} {
		m, err := runtime.New(g, runtime.Options{Backend: New(), Kernel: kernel})
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Explain(map[string]int64{"B": 1, "L": 2})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].Form != form || got[0].Op != "essm.SSM" || len(got[0].Others) != 3 {
			t.Errorf("kernel %q: %+v", kernel, got)
		}
	}
}

// BenchmarkSISO measures a layer of 128 systems in the forms that whole sequences choose between.
func BenchmarkSISO(b *testing.B) {
	for _, length := range []int{256, 1024, 4096, 16384} {
		for _, form := range []string{essm.FormScan, essm.FormFFT} {
			b.Run(fmt.Sprint(length, "/", form), func(b *testing.B) {
				s := system{batch: 1, length: length, ch: 1, heads: 128, n: 32, h: 1, m: 1, direction: essm.Forward,
					d: "diagonal"}
				g, in := s.graph(b, 1)
				p, err := compile(g, runtime.Config{Threads: 1, Kernel: form})
				if err != nil {
					b.Fatal(err)
				}
				e, err := p.Bind(runtime.Binding{Inputs: []ir.Type{ir.Of(in["u"].(*tensor.Tensor))}})
				if err != nil {
					b.Fatal(err)
				}
				from, to := []tensor.Datum{in["u"]}, []tensor.Datum{tensor.New(tensor.Float32, 1, length, 128)}
				if err := e.Run(context.Background(), from, to); err != nil { // fills tables
					b.Fatal(err)
				}
				for b.Loop() {
					if err := e.Run(context.Background(), from, to); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
